"""Relevance by embeddings: memories are embedded once, their vectors lie in the project's file, and an index over them is made
from there when it is first asked.

What an index holds is what one mind sees of other runs, and nothing else: what is found in a graph hangs on all that is in it. It
is brought up to date before each question, so that what another process stored or forgot meanwhile is seen, and lives as long as
its process. What a mind sees of its own run changes with each firing, and is compared one by one.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from metaflow_agents.errors import MemoryFault
from metaflow_agents.memory.indexes import make_index
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.store import EMBEDDED, Known, MemoryDatabase
from metaflow_agents.schema.role import IndexName, Similarity

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from metaflow_agents.memory.indexes.port import VectorIndex

_TEXTS = 128                        # of one call at most
_BYTES = 2**16                      # of their texts: what a call may cost is held until it came back
_FEW = 1000                         # memories that are compared one by one, and need no index
_LENGTHS = 3                        # times that an embedder may come with another length

T = TypeVar("T")


class Do(Protocol):
    """Has a thread do something with the file, and gives what comes of it."""

    async def __call__(self, work: Callable[[MemoryDatabase], T]) -> T:
        """Raises MemoryFault."""
        ...


@dataclass(frozen=True, slots=True)
class Embedder:
    """Who embeds. `name`: vectors of one name may be compared. `ask` gives a vector for each text, as the store keeps them;
    `recorded` what of this name was answered before the run was stopped, texts and vectors, and may not be stored yet.
    """

    name: str
    ask: Callable[[Sequence[str]], Awaitable[list[bytes]]]
    recorded: Callable[[], Iterator[tuple[Sequence[str], list[bytes]]]] = lambda: iter(())


@dataclass(frozen=True, slots=True)
class WantedEmbedding:
    """What is looked for: memories near to `question`, embedded by `embedder`, in an index."""

    embedder: Embedder
    question: str
    index: IndexName = "hnsw"
    similarity: Similarity = "cosine"


@dataclass(slots=True)
class _Filled:
    """An index, and the memories in it."""

    index: VectorIndex
    memories: list[int] = field(default_factory=list)
    age: object = None                                      # see `Known`


class Embeddings:
    """The embeddings of one memory file, as the roles of a run use them. `do` has the file's thread do something."""

    def __init__(self, do: Do) -> None:
        self._do = do
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._filled: dict[tuple[str, IndexName, Similarity, int, Scope], _Filled] = {}
        self._whole: dict[tuple[str, Scope], Known] = {}        # up to where each memory has its vector

    async def prepare(self, wanted: WantedEmbedding, scope: Scope) -> bytes:
        """The embedding of the question, once it and the memories that a scope sees are embedded: nobody asks for the same
        meanwhile. Raises MemoryFault, and what asking the model raises.
        """
        embedder = wanted.embedder
        async with self._turns[embedder.name]:
            for texts, vectors in embedder.recorded():
                await self._keep(embedder.name, texts, vectors)
            for _ in range(_LENGTHS):
                if not await self._embedded(wanted, scope):
                    found = await self._do(lambda store: store.vector(embedder.name, wanted.question))
                    if found is not None:                       # another process may have forgotten it already
                        return found
        raise MemoryFault(f"the embedder {embedder.name} gives vectors now of one length and now of another: they can't be "
                          "compared; name another model under `embeddings`")

    async def _embedded(self, wanted: WantedEmbedding, scope: Scope) -> bool:
        """Embeds what is missing. Whether what was there before had to be dropped, so that more is missing now."""
        name = wanted.embedder.name

        key = name, replace(scope, own=())

        def look(store: MemoryDatabase) -> tuple[list[str], list[str], Known]:
            asked = [] if store.vector(name, wanted.question) is not None else [wanted.question[:EMBEDDED]]
            before, now = self._whole.get(key), store.known()
            after = before.last if before is not None and before.age is now.age else 0
            own = store.unembedded(name, replace(scope, others=False)) if scope.own else []
            return asked + own, store.unembedded(*key, after), now

        missing, theirs, now = await self._do(look)
        if theirs:                                              # indexes that hold later ones lack them
            self._filled.update({one: replace(filled, age=None) for one, filled in self._filled.items() if one[0] == name})
        dropped = False
        for texts in batches(list(dict.fromkeys(missing + theirs))):
            dropped |= await self._keep(name, texts, await wanted.embedder.ask(texts))
        if not dropped:
            self._whole[key] = now                              # up to there each has its vector, and none is looked for again
        return dropped

    async def _keep(self, name: str, texts: Sequence[str], vectors: Sequence[bytes]) -> bool:
        return await self._do(lambda store: store.keep_vectors(name, dict(zip(texts, vectors, strict=True))))

    def nearest(self, store: MemoryDatabase, wanted: WantedEmbedding, asked: bytes, scope: Scope, limit: int) -> dict[int, float]:
        """Memory → similarity to an embedding of the `limit` nearest that a scope sees. In the file's thread."""
        import numpy as np

        question = np.frombuffer(asked, "<f4")
        near = _exactly(store, wanted, replace(scope, others=False), question, limit)
        others = replace(scope, own=())
        index = self._up_to_date(store, wanted, others, len(question))
        near |= _exactly(store, wanted, others, question, limit) if index is None else dict(index.nearest(question, limit))
        finite = ((memory, value) for memory, value in near.items() if math.isfinite(value))
        return dict(sorted(finite, key=lambda pair: (-pair[1], pair[0]))[:limit])

    def _up_to_date(self, store: MemoryDatabase, wanted: WantedEmbedding, scope: Scope, dimensions: int) -> VectorIndex | None:
        """The index of what a scope sees: the same memories in the same order, so that it is made anew where one is gone. None
        where these are few.
        """
        import numpy as np

        key = (wanted.embedder.name, wanted.index, wanted.similarity, dimensions, scope)
        filled, now = self._filled.get(key), store.known()
        if filled is None or filled.age is not now.age:             # else nothing is gone, and what is new came behind
            there = store.embedded(wanted.embedder.name, scope, 4 * dimensions)
            if len(there) < _FEW:
                return None
            if filled is None or filled.memories != there[:len(filled.memories)]:
                filled = self._filled[key] = _Filled(make_index(wanted.index, dimensions, wanted.similarity))
            filled.age = now.age
        fresh = store.vectors(wanted.embedder.name, scope, 4 * dimensions, filled.memories[-1] if filled.memories else 0)
        if fresh:
            filled.memories += [number for number, _ in fresh]
            filled.index.add(np.array([number for number, _ in fresh], np.int64), _matrix([vector for _, vector in fresh]))
        return filled.index


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in as few calls as can be, in their order, none too large."""
    batch: list[str] = []
    size = 0
    for text in texts:
        its = len(text.encode())
        if batch and (len(batch) == _TEXTS or size + its > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += its
    if batch:
        yield batch


def _exactly(
    store: MemoryDatabase, wanted: WantedEmbedding, scope: Scope, question: NDArray[float32], limit: int
) -> dict[int, float]:
    import numpy as np

    rows = store.vectors(wanted.embedder.name, scope, question.nbytes)
    if not rows:
        return {}
    index = make_index("exact", len(question), wanted.similarity)
    index.add(np.array([memory for memory, _ in rows], np.int64), _matrix([vector for _, vector in rows]))
    return dict(index.nearest(question, limit))


def _matrix(vectors: Sequence[bytes]) -> NDArray[float32]:
    import numpy as np

    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)
