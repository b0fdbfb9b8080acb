"""What a case's run did, from its journal: which firings in which order, what each activation was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Fired, Inner, Reserved
from metaflow_agents.schema.keys import ActivationKey, activations_in, parse_activation

Path = tuple[ActivationKey, ...]
"""The activations that lead to one, from the run's own inward; attempts are not told apart."""


@dataclass(slots=True)
class Lived:
    """`fired`: each firing in order, as the activations that lead to it; `sent`: activation → the prompts of its calls."""

    fired: list[Path] = field(default_factory=list)
    sent: dict[Path, list[str]] = field(default_factory=dict)


def lived(journal: Journal) -> Lived:
    """What the journal says of it."""
    found = Lived()
    for _, event in journal.events(Fired, Inner, Reserved):
        if isinstance(event, Reserved):
            asked = json.loads(journal.blob(event.request))
            if not asked.get("embeds"):
                key = tuple(one._replace(attempt=0) for one in activations_in(event.key))
                found.sent.setdefault(key, []).append("\n".join(map(_said, asked["messages"])))
        else:
            _fire(found, event, ())
    return found


def _fire(found: Lived, event: object, above: Path) -> None:
    if isinstance(event, Inner):
        _fire(found, event.event, (*above, parse_activation(event.activation)._replace(attempt=0)))
    elif isinstance(event, Fired):
        found.fired.append((*above, ActivationKey(event.step, event.round, None, 0)))


def _said(message: Mapping[str, Any]) -> str:
    """The text of a message; of one in parts, the texts among them."""
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if "text" in part)


def spelt(path: Path, *, firing: bool = False) -> str:
    """An activation as people name it, `write@1[ann]/draft@1`; with `firing` the last one without its item."""
    parts = [one.slot for one in path]
    return "/".join([*parts[:-1], path[-1].firing] if firing else parts)
