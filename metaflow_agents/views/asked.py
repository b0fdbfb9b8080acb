"""Which prompts differ between two runs, call by call, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from metaflow_agents.journal.values import Values
from metaflow_agents.schema.difference import unified
from metaflow_agents.schema.keys import steps_in
from metaflow_agents.texts.strict_json import read
from metaflow_agents.views.values import text_of

_LINES = 40                         # of a difference
_ASKED = ("messages", "schema", "tools")


@dataclass(slots=True)
class Changed:
    """Of one step: keys of calls whose prompts differ, of those that one run alone has, and how the first one differs."""

    differ: list[str] = field(default_factory=list)
    only: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    first: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """What `sop diff --json` prints of it."""
        return {"differ": self.differ, "only": list(self.only), "first": "\n".join(self.first)}


def asked(events: Iterator[tuple[int, Mapping[str, Any]]]) -> dict[str, str]:
    """Key of a call → digest of its last request, of a journal's rows of the kind `reserved`."""
    return {event["key"]: event["request"] for _, event in events}


def changed(one: Mapping[str, str], two: Mapping[str, str], values: tuple[Values, Values],
            names: tuple[str, str]) -> dict[str, Changed]:
    """Step (`write/draft` in a sub-SOP) → what differs in what was asked; steps without a difference are left out."""
    found: dict[str, Changed] = {}
    for key in dict.fromkeys((*one, *two)):
        step = "/".join(steps_in(key))
        if key not in one or key not in two:
            found.setdefault(step, Changed()).only[key in two].append(key)
        elif one[key] != two[key]:
            before, after = (_request(own, digest) for own, digest in zip(values, (one[key], two[key]), strict=True))
            if before != after:
                ours = found.setdefault(step, Changed())
                if not ours.differ:
                    ours.first = _difference(before, after, f"{names[0]}:{key}", f"{names[1]}:{key}")
                ours.differ.append(key)
    return found


def _request(values: Values, digest: str) -> dict[str, Any]:
    """What was asked, whoever was asked."""
    request = read(values.data(digest).decode())
    return {name: request.get(name) for name in _ASKED}


def _difference(before: Mapping[str, Any], after: Mapping[str, Any], name: str, other: str) -> list[str]:
    lines = list(islice(unified(list(_lines(before)), list(_lines(after)), name, other, context=1), _LINES + 1))
    return lines if len(lines) <= _LINES else [*lines[:_LINES], "…"]


def _lines(request: Mapping[str, Any]) -> Iterator[str]:
    for message in request["messages"]:
        yield f"[{message['role']}]"
        yield from text_of(message["content"]).splitlines()
    for name in ("schema", "tools"):
        if request[name]:
            yield f"[{name}]"
            yield from text_of(request[name]).splitlines()
