"""What an analysis gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from metaflow_agents.schema.shape import Shape


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of an expression or template. `line` and `column` count from 1 inside the text."""

    code: str
    message: str
    mend: str
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a text uses.

    `names`: free variables, unknown ones too. `paths`: attribute paths from free names, each as long as it is constant,
    `("design", "package")`. `histories`: constant arguments of `history('x')`. `shape`: of an expression's value.
    """

    findings: tuple[Finding, ...] = ()
    names: frozenset[str] = frozenset()
    shape: Shape = field(default_factory=Shape.any)
    histories: frozenset[str] = frozenset()
    paths: frozenset[tuple[str, ...]] = frozenset()
