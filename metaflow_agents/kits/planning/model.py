"""Domains, problems and plans as values: what PDDL says once it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ROOT = "object"
"""The type that everything has."""
Atom = tuple[str, ...]
"""A predicate and its arguments: names, and in a domain variables, which begin with `?`."""
Typed = tuple[tuple[str, str], ...]
"""Names, or variables, each with its type."""


@dataclass(frozen=True, slots=True)
class Holds:
    """An atom that has to be true."""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Same:
    """Two terms that have to be the same object."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Not:
    """A condition that must not hold."""

    inner: Condition


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of them hold; of none: it holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of them holds at least."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Quantified:
    """It holds for `every` choice of objects, or for one."""

    every: bool
    variables: Typed
    inner: Condition


Condition = Holds | Same | Not | AllOf | OneOf | Quantified

ALWAYS = AllOf(())


@dataclass(frozen=True, slots=True)
class Effect:
    """An atom that becomes true or false, for every choice of `variables` for which `when` holds before the action."""

    atom: Atom
    becomes: bool
    when: Condition = ALWAYS
    variables: Typed = ()


@dataclass(frozen=True, slots=True)
class PlanAction:
    """What can be done."""

    name: str
    parameters: Typed
    precondition: Condition
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """`types`: type → the one above it. `predicates`: name → the types of its arguments. `constants`: name → type."""

    name: str
    types: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    predicates: Mapping[str, Typed] = field(default_factory=dict)
    actions: Mapping[str, PlanAction] = field(default_factory=dict)

    def is_a(self, type_: str, wanted: str) -> bool:
        """Whether a type is another one, or lies below it. The type that is not known, `""`, fits any: it was told already."""
        return wanted in (ROOT, "") or not type_ or wanted in self.above(type_)

    def above(self, type_: str) -> Iterator[str]:
        """A type and those that it lies below, the nearest first."""
        seen: set[str] = set()
        while type_ not in seen:
            seen.add(type_)
            yield type_
            type_ = self.types.get(type_, ROOT)


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """`objects`: name → type, the domain's constants among them."""

    name: str
    objects: Mapping[str, str]
    initial: frozenset[Atom]
    goal: Condition


def told(condition: Condition) -> str:
    """A condition as PDDL."""
    match condition:
        case Holds(atom):
            return shown(atom)
        case Same(left, right):
            return f"(= {left} {right})"
        case Not(inner):
            return f"(not {told(inner)})"
        case AllOf(parts):
            return _form("and", parts)
        case OneOf(parts):
            return _form("or", parts)
        case Quantified(every, variables, inner):
            names = " ".join(f"{name} - {type_}" for name, type_ in variables)
            return f"({'forall' if every else 'exists'} ({names}) {told(inner)})"


def shown(atom: Atom) -> str:
    """An atom as PDDL."""
    return f"({' '.join(atom)})"


def _form(name: str, parts: tuple[Condition, ...]) -> str:
    return f"({' '.join((name, *map(told, parts)))})"
