"""Files of a repository, parsed in workers, and kept by what they hold: a file that did not change is parsed once."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from metaflow_agents.code.map.languages import language_of
from metaflow_agents.errors import ForeignRefused
from metaflow_agents.schema.binary import text_in
from metaflow_agents.texts.search_words import words
from metaflow_agents.workers.pool import parsed

MOST_BYTES = 1 << 20                # of a file that is read; larger ones are made by programs
MOST_FILES = 20_000                 # of a repository
_KEPT_BYTES = 64 << 20              # of the files whose parts are kept
_AT_ONCE = max(1, min(4, os.cpu_count() or 1))


class Definition(NamedTuple):
    """What a file defines: `kind` is class, function or value; `line` begins at 1; `depth`: in how many others it stands."""

    name: str
    kind: str
    line: int
    depth: int
    head: str


@dataclass(frozen=True, slots=True)
class Parts:
    """What was found in a file. `uses` and `words`: how often each name is used, and each word stands there. `named`: the words
    of the names that it defines. `refused`: why nothing was found; empty where it was read.
    """

    definitions: tuple[Definition, ...] = ()
    uses: Mapping[str, int] | None = None
    words: Mapping[str, int] | None = None
    named: frozenset[str] = frozenset()
    refused: str = ""


class KeptTags:
    """The parts of files by the digest of what they hold, the last used ones up to a size of their files."""

    def __init__(self, most: int = _KEPT_BYTES) -> None:
        self._most, self._size = most, 0
        self._parts: OrderedDict[bytes, tuple[Parts, int]] = OrderedDict()

    async def read(self, files: Mapping[str, bytes]) -> dict[str, Parts]:
        """Path → parts, in the order of the paths, without files that are no text. Raises RunError where no worker starts."""
        chosen = sorted(path for path, data in files.items() if text_in(data[:MOST_BYTES + 4]) is not None
                        or len(data) > MOST_BYTES)[:MOST_FILES]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(path: str) -> Parts:
            async with gate:
                return await self._one(path, files[path])

        return dict(zip(chosen, await asyncio.gather(*map(one, chosen)), strict=True))

    async def _one(self, path: str, data: bytes) -> Parts:
        if len(data) > MOST_BYTES:
            return Parts(refused=f"has {len(data):,} bytes, and at most {MOST_BYTES:,} are read")
        language = language_of(path)
        key = hashlib.sha256(language.encode() + b"\0" + data).digest()
        held = self._parts.get(key)
        if held is None:
            found = await _parts(data, language)
            if key not in self._parts:
                self._parts[key] = found, len(data)
                self._size += len(data)
            while self._size > self._most and len(self._parts) > 1:
                _, (_, size) = self._parts.popitem(last=False)
                self._size -= size
            return found
        self._parts.move_to_end(key)
        return held[0]


KEPT = KeptTags()
"""What this process has parsed."""


async def _parts(data: bytes, language: str) -> Parts:
    try:
        found = await parsed("code", data, language=language)
    except ForeignRefused as error:
        return Parts(refused=f"reading it {error}")
    definitions = tuple(Definition(*one) for one in found["definitions"])
    named = frozenset(word for one in definitions for word in words(one.name))
    return Parts(definitions, found["uses"], found["words"], named)
