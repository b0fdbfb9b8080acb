"""What comes to mind is what scoring every memory would bring, though few are scored: figures and ranking, to the last bit."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tiers import examples

from metaflow_agents.memory.embeddings import Embedder, Embeddings, WantedEmbedding
from metaflow_agents.memory.postings import Posting, ranked
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.scoring import Scored, Weights, best
from metaflow_agents.memory.seen import UNRATED, Memories, Seen
from metaflow_agents.memory.store import MemoryDatabase, StoredMemory

WORDS = ["tavern", "bakery", "mill", "tide", "news", "café", "foo_bar", "owl", "ash", "fir", "elm", "oak"]


def normalised(values: Sequence[float]) -> list[float]:
    least, most = min(values), max(values)
    return [0.5] * len(values) if most == least else [(value - least) / (most - least) for value in values]


def best_of_all(seen: Sequence[tuple[int, int | None]], relevances: Sequence[Mapping[int, float]], weights: Weights, top: int,
                leave_out: frozenset[int]) -> list[Scored]:
    """Section 4.1 of the paper, over all of them (this is how it was computed before)."""
    if not seen:
        return []
    newest_first = [number for number, _ in reversed(seen)]
    recency = normalised([weights.decay**place for place in range(len(newest_first))])
    importance = normalised([float(UNRATED if rated is None else rated) for _, rated in reversed(seen)])
    parts = [normalised([found.get(number, min(0.0, *found.values())) for number in newest_first])
             for found in relevances if found]
    relevance = [sum(values) / len(parts) for values in zip(*parts, strict=True)] if parts else [0.0] * len(newest_first)
    scored = [Scored(number, weights.recency * r + weights.importance * i + weights.relevance * v, r, i, v)
              for number, r, i, v in zip(newest_first, recency, importance, relevance, strict=True) if number not in leave_out]
    return heapq.nlargest(top, scored, key=lambda one: one.score)


def bm25_of_all(words: Sequence[str], texts: Mapping[int, str], limit: int) -> dict[int, float]:
    """Of each text, for words of one token that need no stemming."""
    counts = {number: Counter(text.replace("café", "cafe").replace("_", " ").split()) for number, text in texts.items()}
    lengths = {number: held.total() for number, held in counts.items()}
    mean = sum(lengths.values()) / max(len(lengths), 1)
    scores: dict[int, float] = {}
    for word in words:
        holding = sum(held[word] > 0 for held in counts.values())
        if not holding or holding * 2 >= len(texts):
            continue
        rarity = math.log((len(texts) - holding + 0.5) / (holding + 0.5))
        for number, held in counts.items() if rarity > 0 else ():
            if count := held[word]:
                scores[number] = scores.get(number, 0.0) + rarity * count * 2.2 / (
                    count + 1.2 * (1 - 0.75 + 0.75 * lengths[number] / mean))
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit])


def test_the_best_are_those_of_scoring_all() -> None:
    for _ in range(examples(2000)):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        count, own = rng.choice([1, 2, 9, 60, 300]), rng.choice([0, 1, 5])
        rows = [(number, rng.choice([None, 1, 5, 5, 9, 10])) for number in range(1, count + own + 1)]
        mine = rng.sample(rows[count:], own)
        relevances = []
        for _ in range(rng.choice([0, 1, 1, 2])):
            named = rng.sample(range(1, count + own + 9), rng.choice([0, 1, min(count, 20)]))
            relevances.append({number: rng.choice([0.0, 0.5, 1.0, rng.uniform(-1, 9)]) for number in named})
        weights = Weights(rng.choice([0, 1, 2.5]), rng.choice([0, 1]), rng.choice([0, 1, 3]), rng.choice([0.5, 0.995, 1.0]))
        left_out = frozenset(rng.sample(range(1, count + own + 1), rng.choice([0, 1, min(count, 7)])))
        top = rng.choice([1, 6, 24])
        seen = Seen(Memories((number, rated, 1) for number, rated in rows[:count]),
                    [(number, rated, 1) for number, rated in mine])
        assert best(seen, relevances, weights, top, left_out) == best_of_all([*rows[:count], *mine], relevances, weights, top,
                                                                              left_out), f"seed {seed}"
        assert [*seen] == [number for number, _ in rows[:count]] + [number for number, _ in mine]
        assert seen.newest(7) == [*seen][-7:] and len(seen) == count + own


def test_what_its_own_run_has_counts_once_and_as_the_newest() -> None:
    seen = Seen(Memories([(1, 9, 3), (2, None, 4), (3, 2, 5)]), [(2, None, 4), (7, 1, 6)])
    assert [*seen] == [1, 3, 2, 7] and len(seen) == 4 and seen.mean == 4.5 and seen.shortest == 3
    assert [seen.place(number) for number in seen] == [3, 2, 1, 0] and seen.importance(2) == UNRATED


def test_few_are_scored_of_many() -> None:
    looked_at: list[int] = []

    class Counting(Seen):
        def importance(self, number: int) -> float:
            looked_at.append(number)
            return super().importance(number)

    memories = Memories((number, number % 10 + 1, 5) for number in range(1, 20_001))
    found = {number: 1.0 + number / 20_000 for number in range(1, 20_001, 100)}
    assert best(Counting(memories), [found], Weights(), 6) == best_of_all(
        [(number, number % 10 + 1) for number in range(1, 20_001)], [found], Weights(), 6, frozenset())
    assert len(looked_at) == 200 + 6 * 10


@pytest.mark.parametrize("common", [0, 3, 10])
def test_bm25_ranks_as_counting_every_memory_does(common: int) -> None:
    """With words that many memories hold, of which some are looked up only where others were met."""
    for _ in range(examples(200)):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        weights = [40 if place < common else 1 for place in range(len(WORDS))]
        texts = {number: " ".join([*rng.choices(WORDS, weights, k=rng.choice([1, 3, 8])), *["so"] * rng.choice([0, 2, 30])])
                 for number in range(1, rng.choice([3, 40, 200]))}
        counts = {number: Counter(text.split()) for number, text in texts.items()}
        asked = rng.sample(WORDS, rng.choice([1, 4, 9]))
        postings = [Posting([number for number in texts if counts[number][word]],
                            [held[word] for held in counts.values() if held[word]]) for word in asked]
        own = rng.sample([*texts], rng.choice([0, 1]))
        seen = Seen(Memories((number, None, held.total()) for number, held in counts.items() if number not in own),
                    [(number, None, counts[number].total()) for number in own])
        for limit in (1, 5, 50):
            plain = [word.replace("_", "-").replace("é", "e") for word in asked]
            found = ranked(postings, seen, limit)
            wanted = bm25_of_all(plain, {number: text.replace("_", "-") for number, text in texts.items()}, limit)
            assert [*found.items()] == [*wanted.items()], f"seed {seed}"


def test_a_memory_file_is_searched_as_it_stands_whoever_changed_it(tmp_path: Path) -> None:
    """What was looked up before is brought up to date: after what this process stored and forgot, and after another one."""
    for turn in range(examples(60)):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        path = tmp_path / f"{turn}.db"
        stores = [MemoryDatabase(path), MemoryDatabase(path)]
        texts: dict[str, tuple[str, str, str]] = {}
        asked = "the owl of the mill, a foo_bar and the tide?"
        for step in range(rng.choice([3, 12])):
            store = rng.choice(stores)
            fresh = [(f"{step}.{place}", rng.choice("ab"), rng.choice(["poet", "judge"]),
                      " ".join(rng.choices(WORDS, range(1, len(WORDS) + 1), k=rng.choice([1, 5, 200]))))
                     for place in range(rng.choice([0, 1, 30]))]
            store.keep([StoredMemory(key, "turn", run, run, role, "write@1~0", 1.0, text, rng.choice([None, 3, 8]))
                        for key, run, role, text in fresh])
            texts |= {key: (run, role, text) for key, run, role, text in fresh}
            if texts and rng.random() < 0.4:
                gone = rng.sample([*texts], min(len(texts), rng.choice([1, 9])))
                rng.choice(stores).forget(keys=gone)
                texts = {key: held for key, held in texts.items() if key not in gone}
            reader = rng.choice(stores)
            numbers = reader.numbers([*texts])
            role = rng.choice(["poet", None])
            own = tuple(numbers[key] for key, (run, _, _) in texts.items() if run == "b" and rng.random() < 0.5)
            scope = Scope(role, "b", own)
            fresh_store = MemoryDatabase(path)                         # which knows nothing from before
            assert [*reader.seen(scope)] == [*fresh_store.seen(scope)], f"seed {seed}"
            assert [*reader.matching(asked, scope, 9).items()] == [*fresh_store.matching(asked, scope, 9).items()], f"seed {seed}"
            seen = {numbers[key]: text for key, (run, whose, text) in texts.items()
                    if numbers[key] in own or (run != "b" and role in (None, whose))}
            assert {*reader.seen(scope)} == {*seen}, f"seed {seed}"
            plain = ["the", "owl", "of", "mill", "a", "foo", "bar", "and", "tide"]
            assert reader.matching(asked, scope, 9) == pytest.approx(bm25_of_all(plain, seen, 9)), f"seed {seed}"
            fresh_store.close()
        for store in stores:
            store.close()


async def test_an_index_over_embeddings_holds_what_the_file_holds_whoever_changed_it(tmp_path: Path,
                                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.memory.embeddings._FEW", 4)
    np = pytest.importorskip("numpy")

    def vector(text: str) -> bytes:
        found: bytes = np.random.default_rng(len(text) + 31 * sum(map(ord, text))).standard_normal(8).astype("<f4").tobytes()
        return found

    async def ask(texts: Sequence[str]) -> list[bytes]:
        return [vector(text) for text in texts]

    for turn in range(examples(60)):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        path = tmp_path / f"{turn}.db"
        one, other = MemoryDatabase(path), MemoryDatabase(path)

        async def do(work, store=one):
            return work(store)

        embeddings, asks = Embeddings(do), WantedEmbedding(Embedder("e", ask), "what?", "exact")
        keys: list[str] = []
        for step in range(12):
            act, store = rng.choice(["keep", "keep", "forget", "embed", "nothing"]), rng.choice([one, other])
            if act == "keep":
                fresh = [f"{step}.{place}" for place in range(rng.choice([1, 5]))]
                store.keep(
                    [StoredMemory(key, "turn", rng.choice("ab"), "r", "poet", "w@1~0", 1.0, f"text {key}") for key in fresh]
                )
                keys += fresh
            if act == "forget" and keys:
                gone = rng.sample(keys, 1)
                store.forget(keys=gone)
                keys.remove(gone[0])
            if act == "embed" and keys:
                store.keep_vectors("e", {f"text {key}": vector(f"text {key}") for key in rng.sample(keys, 1)})
            own = tuple(number for number, memory in one.read([*one.numbers(keys).values()]).items() if memory.run == "b")
            scope = Scope("poet", "b", own)
            question = await embeddings.prepare(asks, scope)
            found = embeddings.nearest(one, asks, question, scope, 99)
            anew = Embeddings(do).nearest(one, asks, question, scope, 99)
            assert found == anew and len(found) == len(keys), f"seed {seed}, step {step}"
        one.close()
        other.close()


async def test_what_has_its_embedding_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in what is asked of the file: a recall of many reads what came since the last one."""
    pytest.importorskip("numpy")
    monkeypatch.setattr("metaflow_agents.memory.embeddings._FEW", 4)
    store = MemoryDatabase(None)
    store.keep([StoredMemory(str(place), "turn", "a", "a", "poet", "w@1~0", 1.0, f"text {place}") for place in range(50)])
    read: list[int] = []

    async def do(work):
        return work(store)

    async def ask(texts: Sequence[str]) -> list[bytes]:
        return [b"\0\0\x80\x3f" * 2 for _ in texts]

    rows = store._rows
    monkeypatch.setattr(store, "_rows", lambda *given: (found := rows(*given), read.append(len(found)))[0])
    embeddings, asks = Embeddings(do), WantedEmbedding(Embedder("e", ask), "what?", "exact")
    for number in range(3):
        store.keep([replace(StoredMemory("", "turn", "b", "b", "poet", "w@1~0", 1.0, f"own {number}"), key=f"own{number}")])
        scope = Scope("poet", "b", tuple(store.numbers([f"own{number}"]).values()))
        read.clear()
        assert len(embeddings.nearest(store, asks, await embeddings.prepare(asks, scope), scope, 99)) == 51
        assert sum(read) >= 50 if not number else sum(read) < 10, read
