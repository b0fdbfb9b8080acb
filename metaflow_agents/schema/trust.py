"""The label `untrusted`: a text that is empty where something is trusted, and else says where it came from.

A label is one source or several, joined by `; `: `the input letter`, `fetched from https://…; the input letter`. It is bounded:
it names the first two sources in the order of their wording, and says whether there are others. So the join is associative,
commutative and idempotent, and what a step made in parallel is labelled the same whichever part of it ended first.
"""

from __future__ import annotations

NAMED = 2                           # sources that a label names
LONGEST = 120                       # characters of one source
OTHERS = "and others"
_BETWEEN = "; "


def joined(*labels: str) -> str:
    """One label for all that these say. Empty only where each of them is empty."""
    if not any(labels):
        return ""
    named: set[str] = set()
    others = False
    for label in labels:
        found = {source for part in _spaced(label).split(_BETWEEN) if (source := _fitting(part))}
        others = others or OTHERS in found or (bool(label) and not found)
        named |= found - {OTHERS}
    first = sorted(named)[:NAMED]
    return _BETWEEN.join([*first, *([OTHERS] if others or len(named) > NAMED else [])])


def of_input(name: str) -> str:
    """The label of what a person handed over without vouching for it."""
    return joined(f"the input {name}")


def _spaced(label: str) -> str:
    """A label in one line of visible characters: what came from outside says nothing about its own frame."""
    return " ".join("".join(character if character.isprintable() else " " for character in label).split())


def _fitting(part: str) -> str:
    source = part.strip(" ;")
    return source if len(source) <= LONGEST else f"{source[:LONGEST - 1].rstrip(' ;')}…"
