"""Recall by embeddings in a run: found in other words, asked once for all roles and runs, journalled, resumed, capped."""

from __future__ import annotations

import asyncio
import re
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from embedders import DESK, Embedder, vector
from scripted import Scripted, events, write

from metaflow_agents import check, resume, run, start
from metaflow_agents.errors import UsageError
from metaflow_agents.memory import embeddings, indexes
from metaflow_agents.memory.embeddings import Embedder as Embeds
from metaflow_agents.memory.embeddings import Embeddings, WantedEmbedding, batches
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.store import EMBEDDED, PLACE, MemoryDatabase, StoredMemory
from metaflow_agents.schema.event import Observed, Reserved, Settled

pytest.importorskip("usearch")

SENSES = "embeddings: senses, top: 1"
OTHERS = "embeddings: senses, from: project, top: 2"


def desk(folder: Path, recall: str = SENSES, text: str = DESK) -> Path:
    return write(folder, text.replace("RECALL", recall))


def poet() -> Scripted:
    return Scripted(dict.fromkeys(("first", "second", "third", "fourth"), lambda request: f"{request.step} of {request.key}"))


async def went(path: Path, topic: str, workspace: Path | None = None, model: Scripted | None = None,
               embedder: Embedder | None = None, **options: Any) -> tuple[Any, Scripted, Embedder]:
    model, embedder = model or poet(), embedder or Embedder()
    result = await run(path, topic=topic, models={"default": model, "senses": embedder}, workspace=workspace, **options)
    return result, model, embedder


def mind(model: Scripted, step: str) -> list[str]:
    """The steps whose memories a step was told of."""
    (request,) = [request for request in model.requests if request.key == f"{step}@1~0/turn.0"]
    told = [message["content"] for message in request.messages if "comes to your mind" in message["content"]]
    return re.findall(r"Answered:\n(\w+) of", told[0]) if told else []


# -- what is found

@pytest.mark.parametrize("index", ["hnsw", "exact", "faiss"])
async def test_a_memory_in_other_words_is_found_with_embeddings_and_not_without(index: str, tmp_path: Path) -> None:
    """Words alone know nothing of a whale, so that the newest comes; the embedder knows that a cetacean is one."""
    if index == "faiss":
        pytest.importorskip("faiss")
    for topic, meant in (("Whales", "first"), ("A brew", "third")):
        _, model, _ = await went(desk(tmp_path, f"{SENSES}, index: {index}"), topic)
        assert mind(model, "fourth") == [meant]
    without = poet()
    await run(desk(tmp_path, "top: 1"), topic="Whales", model=without, workspace=None)
    assert mind(without, "fourth") == ["third"], "no word in common: of equal ones the newest"


async def test_a_rare_word_is_found_by_words_though_its_embedding_says_nothing(tmp_path: Path) -> None:
    """To this embedder every text is the same: the newest would come. BM25 holds the other half of relevance."""
    blind = Embedder(lambda text: [1.0, 0.0])
    _, model, _ = await went(desk(tmp_path), "zyzzyva", embedder=blind)
    assert mind(model, "fourth") == ["second"]


async def test_lengths_count_for_the_inner_product_and_not_for_the_cosine(tmp_path: Path) -> None:
    """The first memory points where the question does; the third is ten times as long, and points half aside."""
    def shouting(text: str) -> list[float]:
        return [10.0, 10.0] if "infusion" in text else [1.0, 0.0] if "cetacean" in text or "Whales" in text else [0.0, 0.1]

    for similarity, wanted in (("cosine", "first"), ("inner_product", "third")):
        for index in ("exact", "hnsw"):
            recall = f"{SENSES}, index: {index}, similarity: {similarity}"
            _, model, _ = await went(desk(tmp_path, recall), "Whales", embedder=Embedder(shouting))
            assert mind(model, "fourth") == [wanted], (similarity, index)


# -- asked once

async def test_a_text_is_embedded_once_over_roles_steps_and_runs(tmp_path: Path) -> None:
    path = desk(tmp_path, OTHERS)
    _, _, monday = await went(path, "Whales", tmp_path, name="monday")
    assert len(monday.texts) == len(set(monday.texts)) == 4 + 3, "four questions, and the three memories before the last one"
    _, model, tuesday = await went(path, "Whales", tmp_path, name="tuesday")
    assert not set(tuesday.texts) & set(monday.texts)
    assert len(tuesday.texts) == 1, "what the fourth of monday said; questions and memories of tuesday are monday's"
    assert mind(model, "first")


async def test_activations_side_by_side_do_not_ask_for_the_same_twice(tmp_path: Path) -> None:
    text = """
        sop: desk
        inputs: {names: [string]}
        models: {senses: "openai:text-embedding-3-small"}
        roles: {poet: {profile: You write., memory: {window: 1 tokens, recall: {importance: 0, embeddings: senses}}}}
        artifacts: {one: {}, poems: {each: string}}
        steps:
          first: {role: poet, makes: one, task: A cetacean.}
          write: {role: poet, needs: [names, one], foreach: {in: names, as: name}, makes: poems, task: "All write the same."}
    """
    embedder = Embedder()
    result = await run(write(tmp_path, text), names=[*"abcdef"], models={"default": Scripted(), "senses": embedder},
                       workspace=None)
    assert result.ok and len(embedder.texts) == len(set(embedder.texts)) == 8, "seven questions, and the memory of the first"


@pytest.mark.one_in(4)
async def test_long_texts_are_cut_and_many_go_in_several_calls(tmp_path: Path) -> None:
    path, long = desk(tmp_path, OTHERS), poet()
    long.answers["first"] = lambda request: "whale " * 2000
    _, _, embedder = await went(path, "Whales", tmp_path, model=long)
    assert max(map(len, embedder.texts)) == EMBEDDED
    store = MemoryDatabase(tmp_path / PLACE)
    store.keep([one for place in range(300) for one in [_numbered(store, place)]])
    store.close()
    _, _, embedder = await went(path, "Snow", tmp_path, name="again")
    assert len(embedder.texts) == len(set(embedder.texts)) >= 300
    assert [len(request.texts) for request in embedder.requests][:2] == [128, 128]


def _numbered(store: MemoryDatabase, place: int) -> Any:
    return replace(store.listed(limit=1)[0], key=f"k{place}", text=f"memory number {place}")


@pytest.mark.one_in(4)
async def test_an_embedder_that_changed_its_length_is_another_one(tmp_path: Path) -> None:
    path = desk(tmp_path, OTHERS)
    await went(path, "Whales", tmp_path, name="monday")
    _, _, before = await went(path, "Snow", tmp_path, name="between")
    result, model, embedder = await went(path, "Whales", tmp_path, name="tuesday",
                                         embedder=Embedder(lambda text: [*vector(text), 1.0]))
    assert result.ok and "first" in mind(model, "fourth")
    assert set(before.texts) - {"Snow"} < set(embedder.texts), "what was embedded is embedded anew"


# -- journalled, resumed, capped

@pytest.mark.one_in(16)
async def test_a_resume_after_every_call_asks_nothing_twice_and_sees_the_same(tmp_path: Path) -> None:
    """Stopped in each call in turn, of the poet and of the embedder; in between another run fills the memory."""
    path = desk(tmp_path, OTHERS)

    async def stopped(home: Path, after: int) -> tuple[Scripted, Embedder]:
        await went(path, "Blizzard", home, name="before")
        model, embedder = poet(), Embedder()
        said, embed = model.answers["first"], Embedder.__call__
        count = iter(range(1000))

        async def stop_here(requests: list[Any]) -> Any:
            requests.pop()
            going.stop()
            await asyncio.sleep(60)

        model.answers = dict.fromkeys(
            model.answers, lambda request: stop_here(model.requests) if next(count) >= after else said(request))

        async def embeds(request: Any) -> Any:
            given = embed(embedder, request)
            return await stop_here(embedder.requests) if next(count) >= after else given

        models = {"default": model, "senses": embeds}
        async with start(path, topic="Whales", models=models, workspace=home, name="whole") as going:
            await going.result()
        return model, embedder

    whole, its = await stopped(tmp_path / "whole", 99)
    calls = len(whole.requests) + len(its.requests)
    assert calls == 8
    wanted = {request.key: request.messages for request in whole.requests}
    for after in range(calls):
        home = tmp_path / f"k{after}"
        inner, inner_embedder = await stopped(home, after)
        await went(path, "Frost", home, name="between")
        rest, embedder = poet(), Embedder()
        assert (await resume("whole", models={"default": rest, "senses": embedder}, workspace=home)).ok
        assert [*inner.keys, *rest.keys] == list(wanted), "no finished call is asked twice"
        assert not set(inner_embedder.texts) & set(embedder.texts), "no text is embedded twice"
        assert all(request.messages == wanted[request.key] for request in inner.requests)
        assert len({event.key for event in events(home, "whole", Observed) if event.key.endswith("/recalled")}) == 4


KILLED = """
import os, sys, time
from pathlib import Path
from metaflow_agents.journal.journal import Journal
from metaflow_agents import run_sync
from metaflow_agents.memory.store import MemoryDatabase
from embedders import Embedder

def dies(self, name, vectors):
    for _ in range(200):                # until what the embedder said is in the journal
        with Journal.read(Path(sys.argv[2]) / ".journals" / "it.db") as journal:
            if any(event.kind == "settled" for _, event in journal.events()):
                break
        time.sleep(0.02)
    os._exit(9)

MemoryDatabase.keep_vectors = dies
run_sync(sys.argv[1], topic="Whales", models={"default": lambda request: "words", "senses": Embedder()}, workspace=sys.argv[2],
         name="it")
"""


@pytest.mark.one_in(4)
async def test_what_was_embedded_and_not_kept_is_taken_from_the_journal(tmp_path: Path) -> None:
    """Killed between the reply and the memory file: what was paid for is not asked again, though others asked a part of it."""
    path, store = desk(tmp_path, OTHERS), MemoryDatabase(tmp_path / PLACE)
    store.keep([StoredMemory("k", "turn", "a", "a", "poet", "w@1~0", 1.0, "an orca")])
    store.close()
    died = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(path), str(tmp_path), cwd=Path(__file__).parent)
    assert await died.wait() == 9
    assert [event.reply is not None for event in events(tmp_path, "it", Settled)] == [True]
    (tmp_path / "other").mkdir()
    _, _, other = await went(desk(tmp_path / "other", OTHERS, DESK.replace("A cetacean", "A ship")), "Snow", tmp_path)
    assert "an orca" in other.texts
    again = Embedder()
    assert (await resume("it", models={"default": poet(), "senses": again}, workspace=tmp_path)).ok
    assert "Whales" in again.texts
    assert not {"# Your task\n\nA cetacean in the bay.\n\n", "an orca"} & set(again.texts)


async def test_a_cap_on_calls_and_tokens_holds_for_embedders(tmp_path: Path) -> None:
    path = desk(tmp_path)
    result, model, embedder = await went(path, "Whales", tmp_path, budget={"calls": 3}, name="capped")
    assert result.outcome == "budget" and len(model.requests) + len(embedder.requests) == 3
    settled = events(tmp_path, "capped", Settled)
    assert sum(event.tokens_in + event.tokens_out for event in settled) == result.tokens
    result, _, embedder = await went(path, "Whales", tmp_path, budget={"tokens": 20}, name="tight")
    assert result.outcome == "budget" and embedder.requests == []
    report = check(path)
    assert report.bounds is not None and report.bounds.calls == 4 * (3 + 1)


async def test_who_fails_to_embed_fails_the_attempt(tmp_path: Path) -> None:
    path = desk(tmp_path)
    for wrong, told in ((lambda request: "words", "str came instead of lists of numbers"),
                        (lambda request: [[1.0]] * 9, "gave 9 where the embeddings of 1 texts were asked for"),
                        (lambda request: [[float("nan")]], "holds what is no finite number"),
                        (lambda request: [[1.0, 2.0], [1.0]], "not all of one length")):
        result = await run(path, topic="tea", models={"default": poet(), "senses": wrong}, workspace=None)
        assert not result.ok and told in str(result), (told, str(result))


# -- who embeds

@pytest.mark.one_in(4)
async def test_dry_everybody_and_recordings_embed_too(tmp_path: Path) -> None:
    path = desk(tmp_path)
    assert (await run(path, topic="tea", model="dry", workspace=tmp_path / "dry", name="dry")).ok
    (tmp_path / "one").mkdir()
    _, model, embedder = await went(path, "Whales", tmp_path / "one", name="it")
    again = await run(path, topic="Whales", model=f"replay:{tmp_path}/one/.journals/it.db", workspace=tmp_path / "two", name="it")
    assert again.ok and again.calls == len(model.requests) + len(embedder.requests)
    from metaflow_agents.journal.run_summary import RawJournal
    from metaflow_agents.models.recording import save

    with RawJournal(tmp_path / "one" / ".journals" / "it.db") as journal:
        save(journal, tmp_path / "it.jsonl", "by hand")
    again = await run(path, topic="Whales", model="replay:it.jsonl", workspace=tmp_path / "three", name="it")
    assert again.ok
    asked = {event.key for event in events(tmp_path / "three", "it", Reserved)}
    assert asked == {*model.keys, *embedder.keys}


async def test_a_person_at_the_terminal_answers_for_everybody_but_who_embeds(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text("def embed(request):\n    return [[1.0, 2.0] for text in request.texts]\n")
    path = desk(tmp_path, text=DESK.replace("openai:text-embedding-3-small", "python:desk.py:embed"))
    with pytest.raises(UsageError, match="`senses` embeds texts, which a person can't"):
        await run(path, topic="tea", models={"default": poet(), "senses": f"manual:{tmp_path}/answers"}, workspace=None)
    going = start(path, topic="tea", model=f"manual:{tmp_path}/answers", workspace=tmp_path, name="it")
    async with going:
        assert dict(going.journal.state.models) == {
            "*": f"manual:{tmp_path}/answers", "senses": "python:desk.py:embed"}
        going.stop()
        await going.result()


def test_what_is_not_installed_is_told_by_check_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = indexes.find_spec
    monkeypatch.setattr(indexes, "find_spec", lambda name: None if name == "usearch" else found(name))
    (problem,) = check(desk(tmp_path)).problems
    assert "the index `hnsw` needs the package usearch" in str(problem)
    assert "pip install 'metaflow-agents[embeddings]', or take another index" in str(problem)
    assert check(desk(tmp_path, f"{SENSES}, index: exact")).ok


async def test_a_sop_in_a_sop_and_a_fork_share_what_is_embedded(tmp_path: Path) -> None:
    write(tmp_path, DESK.replace("RECALL", OTHERS)).rename(tmp_path / "inner.yaml")
    outer = write(tmp_path, """
        sop: outer
        inputs: {topic: string}
        artifacts: {a: {}, b: {}}
        steps:
          one: {sop: inner, inputs: {topic: topic}, output: four, needs: [topic], makes: a}
          two: {sop: inner, inputs: {topic: topic}, output: four, needs: [topic, a], makes: b}
    """)
    model, embedder = poet(), Embedder()
    result = await run(outer, topic="Whales", models={"default": model, "senses": embedder}, workspace=tmp_path, name="it")
    assert result.ok, str(result)
    assert len(embedder.texts) == len(set(embedder.texts))
    assert embedder.keys[0].startswith("one@1~0/first@1~0/embed.")




async def test_two_runs_at_once_in_one_project_leave_its_file_whole(tmp_path: Path) -> None:
    path = desk(tmp_path, OTHERS)
    both = await asyncio.gather(*(went(path, topic, tmp_path, name=name) for name, topic in (("a", "Whales"), ("b", "Frost"))))
    assert all(result.ok for result, _, _ in both)
    store = MemoryDatabase(tmp_path / PLACE)
    assert store.sound() == []
    _, model, embedder = await went(path, "Leviathan", tmp_path, name="c")
    assert "first" in mind(model, "fourth") and len(embedder.texts) <= 2 + 2


def memories(store: MemoryDatabase, count: int, role: str) -> None:
    texts = [f"{role} {place} {'whale ' * (place % 7)}" for place in range(count)]
    store.keep([StoredMemory(f"{role}{place}", "turn", "a", "a", role, "w@1~0", 1.0, text) for place, text in enumerate(texts)])
    store.keep_vectors("e", {text: struct.pack("<64f", *vector(text)) for text in texts})


def test_an_index_holds_what_one_mind_sees_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph over all would lead to what it does not see: what is near is the same, whoever else remembers how much."""
    made: list[str] = []

    def make(name: Any, *given: Any) -> Any:
        made.append(name)
        return indexes.make_index(name, *given)

    monkeypatch.setattr(embeddings, "make_index", make)
    monkeypatch.setattr(embeddings, "_FEW", 10)
    store = MemoryDatabase(None)
    memories(store, 20, "poet")
    wanted = WantedEmbedding(Embeds("e", None), "whale", "hnsw")       # type: ignore[arg-type]
    its, question = Embeddings(None), struct.pack("<64f", *vector("whale"))       # type: ignore[arg-type]
    alone = its.nearest(store, wanted, question, Scope("poet"), 5)
    assert made == ["hnsw"] and len(alone) == 5 and min(alone.values()) > 0.99
    memories(store, 400, "judge")
    assert its.nearest(store, wanted, question, Scope("poet"), 5) == alone and made == ["hnsw"]
    everybody = its.nearest(store, wanted, question, Scope(), 300)
    assert made == ["hnsw", "hnsw"] and max(everybody) > 20
    memories(store, 21, "poet")
    assert max(its.nearest(store, wanted, question, Scope("poet"), 21)) > 420, "the index follows what is stored"
    store.forget(role="judge")
    assert len(its.nearest(store, wanted, question, Scope(), 300)) == 21 and made == ["hnsw", "hnsw", "hnsw"]
    own = Scope("poet", "a", (3, 4))                           # of its own run: of the others nothing is seen
    assert set(its.nearest(store, wanted, question, own, 20)) == {3, 4} and made[3:] == ["exact"]


def test_texts_go_in_as_few_calls_as_can_be_and_none_is_too_large() -> None:
    texts = ["a" * 2000] * 40 + ["b"] * 200 + ["ß" * 2000] * 20
    made = list(batches(texts))
    assert [text for batch in made for text in batch] == texts
    assert all(len(batch) <= 128 and sum(len(text.encode()) for text in batch) <= 2**16 for batch in made)
    assert [len(batch) for batch in made] == [32, 128, 96, 4] and list(batches([])) == [] and list(batches(["c" * 2**20])) != []
