"""How much of a run's prompts repeats the beginning of an earlier one: what endpoints that cache need not read again."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

from metaflow_agents.schema.model import canonical
from metaflow_agents.texts.strict_json import read

BLOCK = 512
"""Bytes that are compared at a time, some 128 tokens: endpoints cache by blocks of about that size."""


def repeated(prompts: Iterable[tuple[str, bytes]]) -> float:
    """The share, 0 to 1, of the bytes of all prompts that stand at the beginning of an earlier prompt to the same model.

    `prompts`: (model, prompt), in the order in which they were sent. What stands in the middle of an earlier one does not count.
    """
    seen: dict[str, set[bytes]] = defaultdict(set)
    again = whole = 0
    for model, prompt in prompts:
        known, beginning = seen[model], hashlib.blake2b(digest_size=16)
        for at in range(0, len(prompt) - BLOCK + 1, BLOCK):
            beginning.update(prompt[at:at + BLOCK])
            name = beginning.digest()                                   # of all so far
            again += BLOCK if name in known else 0
            known.add(name)
        whole += len(prompt)
    return again / whole if whole else 0.0


def as_sent(request: bytes) -> bytes:
    """A journalled request in the order in which endpoints read it: the tools, then the messages."""
    asked = read(request.decode())
    return canonical([asked.get("tools") or [], asked["messages"]])
