"""The names that a place in a template can see: shapes of values, functions, imported modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from metaflow_agents.schema.shape import Shape


@dataclass(frozen=True)
class Function:
    """Something that may be called. `most` positional arguments at most; None where any number is taken."""

    gives: Shape
    parameters: tuple[str, ...] | None = None
    open_ended: bool = False                 # it takes more than it names (`varargs`, `kwargs`)


@dataclass(frozen=True)
class MacroModule:
    """An imported template: the macros and values that it exports."""

    members: Mapping[str, Shape | Function | MacroModule] = field(default_factory=dict)


Bound = Shape | Function | MacroModule


class TemplateScopes:
    """Local names, innermost first, above the free names that were given."""

    def __init__(self, given: Mapping[str, Bound]) -> None:
        self.given = given
        self.locals: list[dict[str, Bound]] = [{}]
        self.forgotten: set[str] = set()         # set in an inner scope, gone outside
        self.partial: set[str] = set()           # set in some branches of an `if` only

    def local(self, name: str) -> Bound | None:
        """What a local name is bound to."""
        return next((names[name] for names in reversed(self.locals) if name in names), None)

    def bind(self, name: str, bound: Bound) -> None:
        """Set a name in the innermost scope."""
        self.locals[-1][name] = bound

    def known(self) -> list[str]:
        """All names, innermost first."""
        return list(dict.fromkeys([*(name for names in reversed(self.locals) for name in names), *self.given]))

    @contextmanager
    def inner(self, **names: Bound) -> Iterator[dict[str, Bound]]:
        """A scope of its own: what is set inside is gone after it."""
        self.locals.append(dict(names))
        yield self.locals[-1]
        self.forgotten |= set(self.locals.pop())

    @contextmanager
    def top_level(self) -> Iterator[None]:
        """Inside a block only the names of the template's top level are seen."""
        saved = self.locals
        self.locals = [saved[0], {}]
        yield
        self.locals = saved

    def merge(self, branches: list[dict[str, Bound]], complete: bool) -> None:
        """After an `if`: names set in every branch are set; those of some branches only where they were known before."""
        for name in dict.fromkeys(name for branch in branches for name in branch):
            found = [branch[name] for branch in branches if name in branch]
            before = self.local(name) or self.given.get(name)
            if len(found) < len(branches) or not complete:
                if before is None:
                    self.partial.add(name)
                    continue
                found.append(before)
            shapes = [bound for bound in found if isinstance(bound, Shape)]
            self.bind(name, Shape.union(*shapes) if len(shapes) == len(found) else found[0])
