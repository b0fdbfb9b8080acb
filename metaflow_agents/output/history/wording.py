"""What a commit of the run's repository says, and whose it is. Pure.

The first line reads like the minutes: `write_prd: prd@1 by product_manager`. Trailers at the end are for programs
(git-interpret-trailers); nothing above them comes from outside unbroken into lines of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.schema.keys import ActivationKey
from metaflow_agents.schema.step import Step

MESSAGE = "Message"
"""The trailer that names the event of the journal, and so the message on the bus, that a commit was made of."""
FRAMEWORK = "metaflow-agents <metaflow-agents@framework.invalid>"
PERSON = "user <user@run.invalid>"
"""Who gives a run its inputs, and changes its SOP."""
_DOERS = {"run": "a command", "call": "a function", "use": "an installed package", "tool": "a tool",
          "value": "an expression", "human": "a person", "sop": "a SOP"}
_LISTED = 100               # a firing of a thousand items is told by its first hundred
_LONGEST = 200
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@dataclass(frozen=True, slots=True)
class DoneStep:
    """Who did an item of a firing (None: no role), at which attempt, and the activation it was taken over from."""

    role: str | None
    attempt: int
    taken: str = ""


@dataclass(slots=True)
class StepFiring:
    """A firing as the journal tells it: what it read (artifact → version), its items, and those that are done."""

    step: str
    round: int
    read: Mapping[str, int]
    items: Sequence[str] | None
    done: dict[str | None, DoneStep] = field(default_factory=dict)

    def roles(self, step: Step | None, known: Mapping[str, Any]) -> list[str]:
        """The roles that worked at it, in the order of its items; the step's own where nobody's work is recorded."""
        order = [None] if self.items is None else self.items
        found = [done.role for item in order if (done := self.done.get(item)) is not None and done.role is not None]
        if not found and step is not None and step.role in known:
            found = [step.role or ""]
        return list(dict.fromkeys(found))


def author(firing: StepFiring, roles: Sequence[str]) -> str:
    """Whose a commit is: its role's, or its step's where no role made it."""
    return _person(roles[0]) if roles else f"{firing.step} <{firing.step}@step.invalid>"


def made(firing: StepFiring, step: Step | None, roles: Sequence[str], versions: Sequence[str], reused: Sequence[str],
         notes: Sequence[str], seq: int) -> str:
    """The message of a firing's commit. `versions` are like `prd@1`, `notes` what else has to be said of it."""
    by = " and ".join(roles) if roles else _DOERS[step.doer] if step is not None and step.doer in _DOERS else "nobody known"
    count = "" if firing.items is None else f", {len(firing.items)} item{'' if len(firing.items) == 1 else 's'}"
    read = [f"{name}@{number}" if number else f"no {name}" for name, number in firing.read.items()]
    lines = [f"{firing.step}: {', '.join(versions)} by {by}{count}", "",
             f"Round {firing.round}{', made from ' + _and(read) if read else ''}."]
    if firing.items:
        lines += ["", *_items(firing, firing.items, set(reused), several=len(roles) > 1)]
    lines += [line for note in notes for line in ("", one_line(note))]
    trailers = [f"Step: {firing.step}", f"Round: {firing.round}", *(f"Role: {role}" for role in roles)]
    trailers += [f"Artifact: {version}" for version in versions]
    present = [f"{name}@{number}" for name, number in firing.read.items() if number]
    trailers += [f"Made-From: {', '.join(present)}"] if present else []
    alone = firing.done.get(None)
    if alone is not None:
        trailers.append(f"Activation: {ActivationKey(firing.step, firing.round, None, alone.attempt)}")
    trailers += [f"{MESSAGE}: {seq}", *(f"Co-authored-by: {_person(role)}" for role in roles[1:])]
    return _text(lines, trailers)


def given(run: str, entry: str, versions: Sequence[str], notes: Sequence[str], seq: int) -> str:
    """The message of the first commit: what the run was given."""
    lines = [f"given: {', '.join(versions) or 'nothing'}", "", f"Run {run} of {one_line(entry)} begins."]
    lines += [line for note in notes for line in ("", one_line(note))]
    return _text(lines, [f"Run: {run}", *(f"Artifact: {version}" for version in versions), f"{MESSAGE}: {seq}"])


def changed(changes: Sequence[str], notes: Sequence[str], seq: int) -> str:
    """The message of the commit at which a run goes on with another SOP, and its files may lie elsewhere."""
    lines = ["resumed: the SOP changed", "", *(f"- {one_line(change)}" for change in changes[:_LISTED])]
    lines += [line for note in notes for line in ("", one_line(note))]
    return _text(lines, [f"{MESSAGE}: {seq}"])


def documented(version: str, notes: Sequence[str], seq: int) -> str:
    """The message of the commit at which a version has its documents made anew."""
    lines = [f"documents of {version}, made anew", *(line for note in notes for line in ("", one_line(note)))]
    return _text(lines, [f"Artifact: {version}", f"{MESSAGE}: {seq}"])


def one_line(text: str) -> str:
    """A text from outside as a part of a line: no control or invisible character, and no longer than one reads."""
    plain = _UNSEEN.sub("\ufffd", " ".join(text.split()))
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


def _items(firing: StepFiring, items: Sequence[str], reused: set[str], *, several: bool) -> list[str]:
    lines = []
    for item in items[:_LISTED]:
        done, told = firing.done.get(item), []
        if done is None:
            told.append("unchanged" if item in reused else "failed")
        else:
            told += [f"by {done.role}"] if several and done.role else []
            told += [f"attempt {done.attempt + 1}"] if done.attempt else []
            told += [f"taken over from {one_line(done.taken)}"] if done.taken else []
        lines.append(f"- {one_line(item)}{' (' + ', '.join(told) + ')' if told else ''}")
    return [*lines, f"and {len(items) - _LISTED} more"] if len(items) > _LISTED else lines


def _person(role: str) -> str:
    return f"{role} <{role}@role.invalid>"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _text(lines: Sequence[str], trailers: Sequence[str]) -> str:
    return "\n".join([*lines, "", *trailers]) + "\n"
