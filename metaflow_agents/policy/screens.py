"""Screens: what a text may not speak of, whoever says it. The port, the screen of a SOP's own list, and the texts of a value.

A policy names its screens (`policy: {screen: [chemistry, own.yaml]}`). A screen gets texts and says what of them it refuses.
`steps/screening.py` asks it: where it fails, what it looked at is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from metaflow_agents.texts.names import Names

PIECE = 200
"""Characters up to which a text may be a piece of a name that is cut into several."""


class Screen(Protocol):
    """What an entry point `metaflow_agents.screens` gives, called without arguments. It raises NotHere, with the fix, where it
    can't run on this machine: no run begins without it.
    """

    def find(self, parts: Sequence[str]) -> str | Awaitable[str]:
        """What of these texts is refused, in words that a person reads; empty: nothing. The texts follow each other: what one
        of them names by its end and the next one by its beginning counts. The same texts give the same words. It may be an
        async function, as where a worker parses; one that is not is called in a thread.
        """
        ...


class Terms:
    """The screen of a file: heading → the names below it, found as whole names."""

    def __init__(self, terms: Mapping[str, Sequence[str]]) -> None:
        self._names = Names({name: f"{name} ({heading})" for heading, names in terms.items() for name in names})

    def find(self, parts: Sequence[str]) -> str:
        """The first name that stands there."""
        return self._names.find(parts)


@dataclass(frozen=True, slots=True)
class ScreenRule:
    """One screen that a policy names. `owner`: whose policy."""

    name: str
    owner: str
    screen: Screen

    def says(self, found: str) -> str:
        """The rule and what it refuses, in words; empty where nothing was found."""
        return f"deny screen({self.name}) of {self.owner}: {found}" if found else ""


def texts_in(value: Any) -> Iterator[str]:
    """The texts and numbers of a JSON value in their order, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def names_in(value: Any) -> Iterator[str]:
    """The names of fields in a JSON value, at any depth."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from names_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from names_in(inner)
