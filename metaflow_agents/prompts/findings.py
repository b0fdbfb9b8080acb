"""What an analysis gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from metaflow_agents.schema.shape import Shape


class NameUse(NamedTuple):
    """Where a text takes something from its scope. `line` and `column` of the name's first letter count from 1 inside the text;
    `column` 0: it stands there in a form that is not known.

    `kind`: a free `name`; the artifact of `history('NAME')`; the `input` of `run.inputs.NAME`.
    """

    kind: Literal["name", "history", "input"]
    name: str
    line: int
    column: int


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
    `("design", "package")`. `histories`: constant arguments of `history('x')`. `shape`: of an expression's value. `uses`: where
    free names, histories and inputs stand in this text itself (of what it includes: in none).
    """

    findings: tuple[Finding, ...] = ()
    names: frozenset[str] = frozenset()
    shape: Shape = field(default_factory=Shape.any)
    histories: frozenset[str] = frozenset()
    paths: frozenset[tuple[str, ...]] = frozenset()
    uses: frozenset[NameUse] = frozenset()
