"""What memory costs at 100,000 memories of 384 dimensions: each index against exact search, and full text.

    python -m benchmarks.memory            # the table; some minutes
    python -m benchmarks.memory --json     # the same, for programs
    python -m benchmarks.memory --tiny     # sizes that only show that it works

Clustered vectors: `centres` points drawn from a normal distribution in all dimensions; each memory is one of them, drawn alike,
and SPREAD times as much noise; questions likewise. So are embeddings of texts: those on one topic lie together. Noise: every
component drawn from a normal distribution by itself; all vectors are about as far from each other, and no graph leads anywhere;
a fifth of them shows that. Texts: 12 to 60 words from a vocabulary in which the n-th word comes as often as 1/n (Zipf);
questions are of 8 such words. All is seeded. One question at a time; exact search (as many threads as numpy takes) and an index
take turns, question by question, and what is told are medians. `benchmarks/README.md` says what each row means.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Report, command_line
from metaflow_agents.memory.embeddings import Embedder, Embeddings, WantedEmbedding
from metaflow_agents.memory.indexes import IndexName, make_index
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.scoring import Weights, best
from metaflow_agents.memory.store import MemoryDatabase, StoredMemory

INDEXES: tuple[IndexName, ...] = ("hnsw", "faiss")
SPREAD = 1.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    memories: int = 100_000
    dimensions: int = 384
    centres: int = 1_000
    questions: int = 300
    noise: int = 20_000
    texts: int = 100_000
    vocabulary: int = 50_000


TINY = Sizes(memories=600, dimensions=32, centres=10, questions=10, noise=300, texts=300, vocabulary=500)
Vectors = NDArray[np.float32]


def clustered(count: int, asked: int, dimensions: int, centres: int, seed: int = 7) -> tuple[Vectors, Vectors]:
    """Points around centres, and questions around the same."""
    rng = np.random.default_rng(seed)
    middle = rng.standard_normal((centres, dimensions), np.float32)

    def around(number: int) -> Vectors:
        noise = rng.standard_normal((number, dimensions), np.float32)
        return middle[rng.integers(centres, size=number)] + np.float32(SPREAD) * noise
    return around(count), around(asked)


def noise(count: int, asked: int, dimensions: int, seed: int = 11) -> tuple[Vectors, Vectors]:
    """Points and questions without any structure."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, dimensions), np.float32), rng.standard_normal((asked, dimensions), np.float32)


class Bench:
    """The rows."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.folder, self.sizes, self.report = folder, sizes, Report()

    def run(self) -> Report:
        """All rows."""
        sizes = self.sizes
        self.indexes("clustered", *clustered(sizes.memories, sizes.questions, sizes.dimensions, sizes.centres), least=0.95)
        self.texts()
        self.indexes("noise", *noise(sizes.noise, sizes.questions, sizes.dimensions), least=None)
        return self.report

    def indexes(self, kind: str, points: Vectors, asked: Vectors, least: float | None) -> None:
        """Recall and rate of each index, against exact search."""
        exact, numbers = make_index("exact", points.shape[1]), np.arange(len(points))
        exact.add(numbers, points)
        for name in INDEXES:
            _say(f"{kind}: {name}")
            began, index = time.monotonic(), make_index(name, points.shape[1])
            index.add(numbers, points)
            built = time.monotonic() - began
            hits, took_exact, took = 0, [], []
            for question in asked:
                wanted, slow = _timed(partial(exact.nearest, question, 10))
                found, fast = _timed(partial(index.nearest, question, 10))
                hits += len({number for number, _ in wanted} & {number for number, _ in found})
                took_exact.append(slow)
                took.append(fast)
            slow, fast, recall = statistics.median(took_exact), statistics.median(took), hits / 10 / len(asked)
            bounded = least is not None and name == "hnsw"
            self.report.add(f"{kind}, {name}: what of the 10 nearest it misses", 1 - recall, "of 1", "recall@10", recall,
                            bound=round(1 - least, 6) if bounded and least is not None else None)
            self.report.add(f"{kind}, {name}: a question", fast * 1e3, "ms", "exact search", slow * 1e3, compared=True,
                            bound=0.1 if bounded else None)
            self.report.add(f"{kind}, {name}: built in", built, "s")
            _say(f"{kind}: {name}: recall@10 {recall:.3f}, {fast * 1e3:.2f} ms, exact {slow * 1e3:.1f} ms; {built:.0f} s")

    def texts(self) -> None:
        """The memory file: written, asked by words, and a whole recall."""
        sizes, rng = self.sizes, np.random.default_rng(13)
        weight = 1 / np.arange(1, sizes.vocabulary + 1)
        weight /= weight.sum()

        def text(words: int) -> str:
            return " ".join(f"w{number}" for number in rng.choice(sizes.vocabulary, words, p=weight))
        _say("full text")
        lengths = rng.integers(12, 61, size=sizes.texts)
        drawn = rng.choice(sizes.vocabulary, int(lengths.sum()), p=weight)
        ends = np.cumsum(lengths)
        memories = [StoredMemory(f"k{place}", "turn", "earlier", "earlier-1", "writer", "write@1~0", float(place),
                           " ".join(f"w{number}" for number in drawn[end - length:end]), int(length) % 10 + 1)
                    for place, (end, length) in enumerate(zip(ends, lengths, strict=True))]
        store = MemoryDatabase(self.folder / "project.db")
        began = time.monotonic()
        for start in range(0, len(memories), 1000):
            store.keep(memories[start:start + 1000])
        self.report.add("full text: built in", time.monotonic() - began, "s")
        one = [_timed(lambda n=number: store.keep([_another(memories[0], n)]))[1] for number in range(30)]
        self.report.add("a memory stored, durable", statistics.median(one) * 1e3, "ms")
        questions, scope = [text(8) for _ in range(min(sizes.questions, 100))], Scope("writer", "this")
        found = [_timed(lambda q=question: store.matching(q, scope, 256))[1] for question in questions]
        self.report.add("full text: a question of 8 words", statistics.median(found) * 1e3, "ms")

        store.close()
        self.recalls(questions)

    def recalls(self, questions: list[str]) -> None:
        """Whole recalls as a run has them: each stores a memory of its own before. A new process looks up all at its first."""
        store, sizes = MemoryDatabase(self.folder / "project.db"), self.sizes
        numbers = iter(range(10**6))

        def scope() -> Scope:
            store.keep([StoredMemory(f"own{next(numbers)}", "turn", "this", "this-1", "writer", "write@1~0", 1.0, questions[0])])
            return Scope("writer", "this", tuple(one.seq for one in store.listed(run="this-1", limit=40)))

        def by_words(question: str, seen: Scope) -> Any:
            return best(store.seen(seen), [store.matching(question, seen, 256)], Weights(), 24)
        self._recalled("words", [_timed(partial(by_words, question, scope()))[1] for question in questions], bound=50)

        _say("recalls by embeddings")
        rng = np.random.default_rng(17)
        memories = store.listed()
        for start in range(0, len(memories), 1000):
            texts = [memory.text for memory in memories[start:start + 1000]]
            vectors = map(_bytes, rng.standard_normal((len(texts), sizes.dimensions)))
            store.keep_vectors("e", dict(zip(texts, vectors, strict=True)))

        async def do(work: Callable[[MemoryDatabase], Any]) -> Any:
            return work(store)

        async def ask(texts: Sequence[str]) -> list[bytes]:
            return [*map(_bytes, rng.standard_normal((len(texts), sizes.dimensions)))]

        async def by_embeddings() -> list[float]:
            embeddings, took = Embeddings(do), []
            for question in questions[:20]:
                seen, wanted = scope(), WantedEmbedding(Embedder("e", ask), question)
                began = time.perf_counter()
                near = embeddings.nearest(store, wanted, await embeddings.prepare(wanted, seen), seen, 256)
                best(store.seen(seen), [near], Weights(), 24)
                took.append(time.perf_counter() - began)
            return took
        self._recalled("embeddings", asyncio.run(by_embeddings()), bound=10)
        store.close()

    def _recalled(self, by: str, took: list[float], bound: float) -> None:
        self.report.add(f"a recall by {by}", statistics.median(took[1:]) * 1e3, "ms", bound=bound)
        self.report.add(f"a recall by {by}, the first of a process", took[0] * 1e3, "ms")


def _bytes(vector: NDArray[np.float64]) -> bytes:
    return vector.astype("<f4").tobytes()


def _another(memory: StoredMemory, number: int) -> StoredMemory:
    return replace(memory, key=f"another{number}")


def _timed(do: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    given = do()
    return given, time.perf_counter() - began


def _say(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)


def measure(folder: Path, sizes: Sizes) -> tuple[Report, dict[str, Any]]:
    """All rows, in one run. `folder` is where the memory file is written."""
    report = Bench(folder, sizes).run()
    return report, {"memories": sizes.memories, "dimensions": sizes.dimensions, "numpy": version("numpy"),
                    "usearch": version("usearch"), "faiss": version("faiss-cpu")}


if __name__ == "__main__":
    command_line(__doc__, measure, Sizes(), TINY)
