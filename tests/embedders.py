"""An embedder that computes: words of one meaning have one direction, all others a direction of their own."""

from __future__ import annotations

import re
import zlib
from typing import Any

MEANINGS = ({"whale", "cetacean", "leviathan", "orca"}, {"tea", "infusion", "brew"}, {"snow", "frost", "blizzard"})
DIMENSIONS = 64
DESK = """
    sop: desk
    inputs: {topic: string}
    models: {senses: "openai:text-embedding-3-small"}
    roles: {poet: {profile: You write., memory: {window: 1 tokens, recall: {importance: 0, recency: 0, RECALL}}}}
    artifacts: {one: {}, two: {}, three: {}, four: {}}
    steps:
      first: {role: poet, needs: [topic], makes: one, task: A cetacean in the bay.}
      second: {role: poet, needs: [one], makes: two, task: The cellar holds a zyzzyva.}
      third: {role: poet, needs: [two], makes: three, task: An infusion of leaves.}
      fourth: {role: poet, needs: [three], sees: [topic], makes: four, task: "{{ topic }}"}
"""
"""A poet who is reminded of what is near to a topic in meaning; RECALL: what else `recall` says."""


def vector(text: str) -> list[float]:
    """How often each meaning comes in a text; any other word counts a hundredth, in one of the rest of the dimensions."""
    found = [0.0] * DIMENSIONS
    for word in re.findall(r"[a-z]+", text.lower()):
        own = next((place for place, words in enumerate(MEANINGS) if word in words or word.rstrip("s") in words), None)
        if own is None:
            found[len(MEANINGS) + zlib.crc32(word.encode()) % (DIMENSIONS - len(MEANINGS))] += 0.01
        else:
            found[own] += 1.0
    return found


class Embedder:
    """A model that embeds, and keeps what it was asked."""

    def __init__(self, make: Any = vector) -> None:
        self.requests: list[Any] = []
        self.make = make

    def __call__(self, request: Any) -> Any:
        assert request.embeds
        self.requests.append(request)
        return [self.make(text) for text in request.texts]

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request.texts]

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.requests]
