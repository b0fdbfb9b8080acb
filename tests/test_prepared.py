"""A SOP that was prepared once, and run many times."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer
from scripted import Scripted, events, write

from metaflow_agents import ModelMissing, SOPInvalid, SOPNotFound, UsageError, prepare, resume, run, run_sync, start
from metaflow_agents.models.endpoint.clients import open_clients
from metaflow_agents.models.endpoint.model import endpoint_model
from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.event import Committed, RunOpened
from metaflow_agents.settings import Settings
from metaflow_agents.sop import load

ECHO = """
    sop: echo
    inputs: {letter: string, tone: {type: string, default: kind}}
    roles: {clerk: {profile: You write.}}
    artifacts: {count: {schema: {n: integer}, initial: {n: 0}}, reply: {file: reply.txt}}
    steps:
      answer: {role: clerk, needs: [letter, tone, count], makes: reply, task: "Answer <{{ letter }}>."}
"""


def echo(request: Any) -> str:
    """The letter, as the prompt has it."""
    return str(request.messages[-1]["content"]).rpartition("Answer <")[2].partition(">")[0]


async def test_each_run_has_its_own_inputs(tmp_path: Path) -> None:
    prepared = prepare(write(tmp_path, ECHO), model=echo, workspace=tmp_path)
    results = await asyncio.gather(*(run(prepared, letter=f"letter {number}") for number in range(12)))
    assert [result["reply"] for result in results] == [f"letter {number}" for number in range(12)]
    assert {result.name for result in results} == {f"echo-{number}" for number in range(1, 13)}
    assert (await run(prepared, letter="last", name="named"))["reply"] == "last"
    assert run_sync_elsewhere(prepared) == "in a thread"


def run_sync_elsewhere(prepared: Any) -> str:
    return str(run_sync(prepared, letter="in a thread")["reply"])


async def test_a_run_of_it_is_a_run_of_the_file(tmp_path: Path) -> None:
    """The same events, but for times, numbers and names."""
    path = write(tmp_path, ECHO)
    await run(path, letter="x", name="plain", model=echo, workspace=tmp_path)
    prepared = prepare(path, model=echo, workspace=tmp_path)
    for name in ("first", "second"):
        await run(prepared, letter="x", name=name)

    def told(name: str) -> list[Any]:
        return [event.model_dump(exclude={"at", "run", "elapsed", "seconds"}) for event in events(tmp_path, name)]

    assert told("first") == told("second")
    assert told("first") == told("plain")


async def test_later_edits_are_not_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again, so that what is written over does not matter."""
    path = write(tmp_path, ECHO)
    prepared = prepare(path, model=echo, workspace=tmp_path)
    path.write_text("no SOP at all: [")
    monkeypatch.setattr(load, "read_sop", lambda *_, **__: pytest.fail("it is read again"))
    result = await run(prepared, letter="x", name="one", until="answer")
    assert result["reply"] == "x"
    opened = events(tmp_path, "one", RunOpened)[0]
    assert opened.location == str(path.resolve()) and len(opened.sources) == 1


async def test_its_journal_goes_on_without_it(tmp_path: Path) -> None:
    model = Scripted({"answer": RuntimeError("not now")})
    prepared = prepare(write(tmp_path, ECHO), model=model, workspace=tmp_path)
    assert not (await run(prepared, letter="x", name="one")).ok
    assert (await resume("one", model=echo, workspace=tmp_path))["reply"] == "x"
    assert [version.artifact for event in events(tmp_path, "one", Committed) for version in event.versions] == [
        "letter", "tone", "count", "reply"]


@pytest.mark.parametrize("choice", [{"model": "dry"}, {"models": {"default": "dry"}}, {"sandbox": "none"}, {"workspace": None},
                                    {"workspace": "elsewhere"}, {"settings": Settings()}, {"late": True}])
def test_what_is_chosen_is_not_chosen_again(tmp_path: Path, choice: dict[str, Any]) -> None:
    prepared = prepare(write(tmp_path, ECHO), model=echo, workspace=tmp_path)
    name = next(iter(choice))
    with pytest.raises(UsageError, match=f"`{name}` is chosen when a SOP is prepared: write `prepare"):
        start(prepared, letter="x", **choice)


def test_what_is_a_runs_own_is_refused_by_each(tmp_path: Path) -> None:
    prepared = prepare(write(tmp_path, ECHO), model=echo, workspace=None)
    for wrong, told in (({}, "input `letter` is missing"), ({"letter": 5}, "input `letter`"), ({"until": "x"}, "no such step"),
                        ({"budget": {"calls": "x"}}, "is not a count"), ({"given": {"x": 1}}, "which no step makes")):
        with pytest.raises(UsageError, match=told):
            start(prepared, **{"letter": "x", **wrong} if wrong else {})


def test_what_can_never_run_is_refused_once(tmp_path: Path) -> None:
    with pytest.raises(SOPNotFound):
        prepare(tmp_path / "nothing.yaml", model=echo)
    with pytest.raises(SOPInvalid):
        prepare(write(tmp_path, ECHO.replace("makes: reply", "makes: nothing")), model=echo)
    with pytest.raises(ModelMissing):
        prepare(write(tmp_path, ECHO), settings=Settings())
    with pytest.raises(UsageError, match="no step and no role asks for a model `x`"):
        prepare(write(tmp_path, ECHO), models={"x": echo}, model=echo)


async def test_connections_stay_open_between_its_runs(tmp_path: Path) -> None:
    async with OpenAIServer() as server:
        model = endpoint_model(EndpointModel(name="gpt-4o-mini", endpoint=server.url), "sk-key", None)
        prepared = prepare(write(tmp_path, ECHO), model=model, workspace=None)
        async with prepared:
            async with prepared:
                assert (await run(prepared, letter="x")).ok
            assert open_clients() == 1
            assert (await run(prepared, letter="y")).ok
            assert open_clients() == 1
        assert open_clients() == 0
        assert (await run(prepared, letter="z")).ok
        assert open_clients() == 0


async def test_what_is_compiled_is_that_of_each_sop(tmp_path: Path) -> None:
    """The SOPs that are steps have forms of their own, which their activations share."""
    outer = write(tmp_path, """
        sop: outer
        inputs: {words: [string]}
        artifacts: {lines: {each: string}}
        steps:
          every: {sop: inner.yaml, foreach: {in: words, as: word}, needs: [words], makes: lines, inputs: {word: word}}
        outputs: [lines]
    """, inner_yaml="""
        sop: inner
        inputs: {word: string}
        roles: {poet: {profile: You rhyme.}}
        artifacts: {line: {}}
        steps: {rhyme: {role: poet, needs: [word], makes: line, task: "Answer <{{ word }}>."}}
        outputs: [line]
    """)
    prepared = prepare(outer, model=echo, workspace=None)
    for words in (["sea", "sky"], ["tree"]):
        result = await run(prepared, words=words)
        assert list(result["lines"].values()) == words
    made = prepared.shared
    assert made.of(prepared.program) is made.of(prepared.program)
    assert made.of(prepared.program).meanings.program.sop.sop == "outer"
    assert [made.of(one).meanings.program.sop.sop for one in prepared.program.sops.values()] == ["inner"]
