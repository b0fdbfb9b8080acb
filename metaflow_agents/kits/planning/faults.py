"""What is wrong with a text in PDDL, told so that its author can mend it without asking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from metaflow_agents.errors import nearest

_LISTED = 15


@dataclass(frozen=True, slots=True)
class PDDLFault:
    """One thing that is wrong. `line` and `column` count from 1, and are those of what was `found`.

    `mend` says what to do at that place and nowhere else: replace what is found, put something before it, leave it out.
    """

    file: str
    line: int
    column: int
    told: str
    mend: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.told}; {self.mend}"


class UnreadablePDDL(Exception):
    """A text that can't be gone through any further; it holds the one fault that says why."""

    def __init__(self, fault: PDDLFault) -> None:
        self.fault = fault
        super().__init__(str(fault))


def listed(names: Iterable[str]) -> str:
    """Names as a message shows them, not too many."""
    given = [f"`{name}`" for name in dict.fromkeys(names)]
    return ", ".join(given[:_LISTED]) + (f", … ({len(given)} in all)" if len(given) > _LISTED else "")


def instead(name: str, choices: Sequence[str], kind: str) -> str:
    """The mend for a name that does not exist: the nearest one that does, or all there are."""
    close = nearest(name, choices)
    first = f"did you mean `{close}`? " if close is not None else ""
    return f"{first}expected {kind}: {listed(choices)}" if choices else f"{first}expected {kind}, and there is none"


LEAVE_OUT = "leave it out"


def before(text: str, why: str = "") -> str:
    """The mend that puts something before what was found."""
    return f"put `{text}` before it{why}"


def write(text: str) -> str:
    """The mend that replaces what was found."""
    return f"write `{text}` instead"
