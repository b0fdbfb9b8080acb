"""The memory file: durable, shared by processes, searched by words; and the scores by which memories come to mind."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from memory_writer import batch
from tiers import some

from metaflow_agents.errors import MemoryFault
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.scoring import Weights, best
from metaflow_agents.memory.seen import Memories, Seen
from metaflow_agents.memory.store import EMBEDDED, MemoryDatabase, StoredMemory, query

HERE = Path(__file__).parent


def memory(
    key: str, text: str = "something", *, role: str = "poet", run: str = "a", importance: int | None = None
) -> StoredMemory:
    return StoredMemory(key, "turn", run, run, role, "write@1~0", 1.0, text, importance)


def test_what_is_stored_is_there_for_the_next_who_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "deep/project.db"
    first = replace(memory("k", "a poem on tea", importance=7), untrusted="a mail", cites=("b", "c"))
    one = MemoryDatabase(path)
    assert one.keep([first, memory("l")]) == 2
    other = MemoryDatabase(path)
    assert replace(other.listed()[0], seq=0) == first
    assert other.keep([memory("k", "something else"), memory("m")]) == 1, "a key is stored once"
    assert [found.text for found in one.listed()] == ["a poem on tea", "something", "something"]
    assert one.sound() == other.sound() == []


def test_what_is_forgotten_does_not_come_back_and_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "project.db"
    store = MemoryDatabase(path)
    store.keep([memory("k", "the word xylophone"), memory("l", role="judge"), memory("m", run="b")])
    store.keep_vectors("e", {"the word xylophone": b"1234"})
    assert store.forget(keys=["k"]) == 1 and store.forget(role="judge") == 1
    assert store.keep([memory("k", "the word xylophone"), memory("n")]) == 1
    assert [found.key for found in store.listed()] == ["m", "n"] and store.search("xylophone") == []
    assert store.vector("e", "the word xylophone") is None
    store.close()
    assert b"xylophone" not in path.read_bytes()


def test_embeddings_are_stored_by_content_and_found_by_memory() -> None:
    store = MemoryDatabase(None)
    store.keep([memory("1", "tea"), memory("2", "cake"), memory("3", "tea")])
    assert store.unembedded("small", Scope()) == ["tea", "cake"]
    assert not store.keep_vectors("small", {"tea": b"old ", "nobody": b"else"})
    assert not store.keep_vectors("small", {"tea": b"new "})
    assert store.vector("small", "tea") == b"old " and store.vector("large", "tea") is None
    assert store.vectors("small", Scope(), 4) == [(1, b"old "), (3, b"old ")] and store.embedded("small", Scope(), 4) == [1, 3]
    assert store.vectors("small", Scope(), 4, after=1) == [(3, b"old ")] and store.vectors("small", Scope("judge"), 4) == []
    assert store.unembedded("small", Scope()) == ["cake"] and store.unembedded("large", Scope()) == ["tea", "cake"]
    assert store.keep_vectors("small", {"tea": b"longer.."}), "of another length: another embedder"
    assert store.vectors("small", Scope(), 4) == [] and store.embedded("small", Scope(), 4) == []
    assert store.vectors("small", Scope(), 8) == [(1, b"longer.."), (3, b"longer..")]


def test_of_a_long_memory_the_beginning_is_embedded() -> None:
    store, long = MemoryDatabase(None), "tea " * EMBEDDED
    store.keep([memory("1", long), memory("2", long + "cake")])
    assert store.unembedded("small", Scope()) == [long[:EMBEDDED]]
    store.keep_vectors("small", {long[:EMBEDDED]: b"same"})
    assert store.vector("small", long) == b"same" and store.unembedded("small", Scope()) == []
    assert store.embedded("small", Scope(), 4) == [1, 2]


def test_what_is_forgotten_takes_its_embedding_along_and_its_number_is_not_given_again() -> None:
    store = MemoryDatabase(None)
    store.keep([memory("1", "tea"), memory("2", "cake")])
    store.keep_vectors("small", {"tea": b"tea.", "cake": b"cake"})
    store.forget(keys=["2"])
    assert store.vectors("small", Scope(), 4) == [(1, b"tea.")]
    store.keep([memory("3", "snow")])
    store.keep_vectors("small", {"snow": b"snow"})
    assert store.vectors("small", Scope(), 4, after=2) == [(3, b"snow")], "an index that goes on behind the last number sees it"


def test_bm25_is_that_of_the_formula() -> None:
    """Against a count of its own: k1 1.2, b 0.75, idf ln((N - n + ½) / (n + ½)), as Robertson and Zaragoza have it."""
    texts = ["tea and tea and cake", "a cup of coffee", "tea", "the weather today is fine and dry", "cake for everybody here"]
    store = MemoryDatabase(None)
    store.keep([memory(str(place), text) for place, text in enumerate(texts)])
    lengths = [len(text.split()) for text in texts]
    usual = sum(lengths) / len(lengths)

    def score(text: str, words: list[str]) -> float:
        counts, total = Counter(text.split()), 0.0
        for word in words:
            holding = sum(word in other.split() for other in texts)
            idf = max(log((len(texts) - holding + 0.5) / (holding + 0.5)), 1e-6)
            total += idf * counts[word] * 2.2 / (counts[word] + 1.2 * (0.25 + 0.75 * len(text.split()) / usual))
        return total

    found = store.matching("cake, coffee?", Scope(), 10)
    assert {texts[seq - 1]: pytest.approx(value, rel=1e-6) for seq, value in found.items()} == {
        text: score(text, ["cake", "coffee"]) for text in texts if {"cake", "coffee"} & set(text.split())}
    assert store.matching("?!", Scope(), 10) == {} and query('NEAR "a" OR b*') == '"near" OR "a" OR "or" OR "b"'
    assert [found.text for found, _ in store.search("teas", limit=1)] == ["tea"], "words are stemmed"


def test_a_scope_sees_its_own_run_as_far_as_told_and_its_role_in_others() -> None:
    store = MemoryDatabase(None)
    store.keep([memory("1", "word1"), memory("2", "word2", role="judge"), memory("3", "word3", run="b"),
                memory("4", "word4", run="b"), memory("5", "word5", run="b", role="judge"), memory("6", "word6")])

    def seen(scope: Scope) -> list[int]:
        there = [*store.seen(scope)]
        found = store.matching("word1 word2 word3 word4 word5 word6", scope, 10)
        assert sorted(found) == (sorted(there) if len(there) > 2 else []), "what half of the memories hold says nothing"
        return there
    assert seen(Scope("poet", "b", (4, 5))) == [1, 6, 4, 5], "its own run last, in the order of its causal past"
    assert seen(Scope(None, "b", (5,))) == [1, 2, 6, 5]
    assert seen(Scope(None, "b", (3, 5), others=False)) == [3, 5]


@pytest.mark.parametrize("seed", some(range(40)))
@pytest.mark.parametrize("others", [True, False])
def test_what_others_remember_changes_no_score(others: bool, seed: int) -> None:
    """Other owners; and where a mind recalls its run alone, other runs of its own too."""
    rng = random.Random(seed)
    words = ["tavern", "bakeries", "bakery", "foo_bar", "café", "mill", "tide", "news", "\U0001d54f"]

    def text() -> str:
        return " ".join(rng.choices(words, weights=range(len(words), 0, -1), k=rng.choice([0, 3, 9, 200])))
    mine = [memory(f"mine{at}", text(), run=rng.choice("ab") if others else "a", importance=rng.choice([None, 2, 9]))
            for at in range(rng.choice([1, 4, 30]))]
    foreign = [memory(f"other{at}", text(), run=rng.choice("abc"), role="judge") for at in range(60)]
    foreign += [] if others else [memory(f"before{at}", text(), run="b", importance=10) for at in range(60)]
    mixed = [*mine]
    for one in foreign:
        mixed.insert(rng.randrange(len(mixed) + 1), one)
    gone = [one.key for one in foreign if rng.random() < 0.2]

    def recalled(kept: list[StoredMemory]) -> list[tuple[str, float, float]]:
        store = MemoryDatabase(None)
        store.keep(kept)
        store.forget(keys=gone)
        own = store.numbers([one.key for one in mine if one.run == "a"])
        scope = Scope("poet", "a", tuple(own.values()), others)
        found = best(store.seen(scope), [store.matching("the bakery, foo_bar of the tide?", scope, 8)], Weights(), 6)
        return [(store.read([one.seq])[one.seq].key, one.score, one.relevance) for one in found]
    assert recalled(mixed) == recalled([one for one in mixed if one in mine])


def test_scores_are_those_computed_by_hand() -> None:
    """Park et al., section 4.1, decay ½ so that it can be computed in the head."""
    seen = Seen(Memories([(1, 10, 1), (2, 1, 1), (3, 1, 1)]))   # oldest first; recency ¼, ½, 1 → 0, ⅓, 1; importance 1, 0, 0
    relevances = [{1: 2.0, 2: 8.0}]                     # 3 is not found: 0; → ¼, 1, 0
    scored = best(seen, relevances, Weights(decay=0.5), 3)
    assert [(one.seq, one.score) for one in scored] == [
        (2, pytest.approx(1 / 3 + 0 + 1)), (1, pytest.approx(0 + 1 + 1 / 4)), (3, pytest.approx(1 + 0 + 0))]
    for weights, order in ((Weights(1, 0, 0, 0.5), [3, 2, 1]), (Weights(0, 1, 0, 0.5), [1, 3, 2]),
                           (Weights(0, 0, 1, 0.5), [2, 1, 3]), (Weights(0, 2, 1, 0.5), [1, 2, 3])):
        assert [one.seq for one in best(seen, relevances, weights, 3)] == order
    assert [one.seq for one in best(seen, relevances, Weights(0, 1, 0), 1, frozenset({1}))] == [3]
    two = best(seen, [{1: 2.0, 2: 8.0}, {1: -1.0, 2: 0.0, 3: 1.0}], Weights(0, 0, 1), 3)
    assert {one.seq: one.score for one in two} == {1: 0.125, 2: 0.75, 3: 0.5}, "words and embeddings count alike"
    unrated = Seen(Memories([(1, None, 1), (2, 6, 1)]))
    assert best(unrated, [], Weights(0, 1, 0), 1)[0].seq == 2, "one that nobody rated counts 5"
    assert best(Seen(Memories([(1, 3, 1)])), [], Weights(), 3)[0].importance == 0.5
    assert best(Seen(Memories()), [], Weights(), 3) == []


@pytest.mark.one_in(12)
@pytest.mark.parametrize("kill", [False, True])
def test_processes_that_write_at_once_and_are_killed(tmp_path: Path, kill: bool) -> None:
    """What was said to be durable is there; of a batch that was cut off, all or nothing; the file is whole and goes on."""
    path, rng, size = tmp_path / "project.db", random.Random(5), 7
    for turn in range(4 if kill else 1):
        names = [f"p{turn}{place}" for place in range(3)]
        batches = "20000" if kill else "25"         # more than are written before they are killed
        processes = [subprocess.Popen([sys.executable, "-m", "memory_writer", str(path), name, batches, str(size)],
                                      cwd=HERE, stdout=subprocess.PIPE, text=True) for name in names]
        said: dict[str, int] = {}
        if kill:
            for process in processes:
                assert process.stdout is not None
                process.stdout.readline()
            time.sleep(rng.random() * 0.3)
            for process in processes:
                process.kill()
        for name, process in zip(names, processes, strict=True):
            lines = (process.communicate()[0] or "").split()
            said[name] = int(lines[-1]) if lines else 0
            assert process.returncode == (-9 if kill else 0)
        store = MemoryDatabase(path)
        assert store.sound() == []
        for name, last in said.items():
            found = Counter(one.key.split(".")[1] for one in store.listed(run=name))
            assert set(found.values()) == {size}, "a batch is there whole"
            assert set(found) >= {str(number) for number in range(last + 1)}
            assert len(found) <= last + 2 and (kill or len(found) == 25)
            words = store.search("poem", run=name, limit=10**6)
            assert len(words) == sum(found.values()), "the words are those of the memories"
        assert store.keep(batch("after", turn, 2)) == 2
        store.close()


def test_another_file_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE x(y)")
    other.close()
    with pytest.raises(MemoryFault, match="is no memory file"):
        MemoryDatabase(path)
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(MemoryFault, match="can't open the memory file"):
        MemoryDatabase(tmp_path / "text.db")
    (tmp_path / "file").write_text("")
    with pytest.raises(MemoryFault, match="can't open"):
        MemoryDatabase(tmp_path / "file/project.db")
