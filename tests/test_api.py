"""The Python API as a program uses it: run, run_sync, start, go_on, events, the bus from outside, typed results, errors."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from scripted import Scripted, events, tree, write

import metaflow_agents
from metaflow_agents import Run, fork, go_on, resume, run, run_sync, start
from metaflow_agents.errors import (
    JournalError,
    MetaflowError,
    ModelMissing,
    RunBusy,
    SOPInvalid,
    SOPNotFound,
    UsageError,
)
from metaflow_agents.models.port import ModelRequest, Reply
from metaflow_agents.schema.event import Committed, RunEnded, RunOpened, Sent
from metaflow_agents.settings import Settings
from metaflow_agents.threads.collector import THRESHOLDS

LETTERS = """
    sop: letters
    inputs: {letter: string}
    roles: {clerk: {profile: You write.}}
    artifacts:
      facts: {schema: {sender: string, pages: integer}}
      reply: {file: reply.txt}
    steps:
      read: {role: clerk, needs: [letter], makes: facts}
      answer: {role: clerk, needs: [letter, facts], makes: reply, task: "Answer {{ facts.sender }}."}
    outputs: [facts, reply]
"""
FACTS = {"sender": "Jo", "pages": 2}


def clerk(**answers: Any) -> Scripted:
    return Scripted({"read": FACTS, "answer": "Dear Jo", **answers})


async def test_a_run_tells_what_it_made_and_what_it_took(tmp_path: Path) -> None:
    result = await run(write(tmp_path, LETTERS), letter="Hello", model=clerk(), workspace=tmp_path / "runs")
    assert (result.name, result.outcome, result.ok, result.exit_status, result.reason) == ("letters-1", "success", True, 0, "")
    assert dict(result.outputs) == {"facts": FACTS, "reply": "Dear Jo"}
    assert result["reply"] == "Dear Jo"
    assert (result.calls, result.activations, dict(result.never)) == (2, 2, {})
    assert result.tokens > 0 and result.seconds > 0
    assert result.folder == tmp_path / "runs" / "letters-1"
    assert tree(result.folder) == {"reply.txt": "Dear Jo\n"}


async def test_results_come_typed(tmp_path: Path) -> None:
    class Facts(BaseModel):
        sender: str
        pages: int

    result = await run(write(tmp_path, LETTERS), letter="Hello", model=clerk(), workspace=None)
    assert result.get("facts", Facts) == Facts(sender="Jo", pages=2)
    assert result.get("facts", dict[str, str | int])["pages"] == 2
    with pytest.raises(ValidationError):
        result.get("reply", int)
    with pytest.raises(KeyError, match="did you mean `reply`"):
        result["rply"]
    assert result.folder is None


def test_without_a_loop_run_sync_runs(tmp_path: Path) -> None:
    assert run_sync(write(tmp_path, LETTERS), letter="Hello", model=clerk(), workspace=None)["reply"] == "Dear Jo"


async def test_under_a_running_loop_run_sync_works_as_in_a_notebook(tmp_path: Path) -> None:
    here = threading.get_ident()
    where: list[int] = []

    def answer(request: ModelRequest) -> str:
        where.append(threading.get_ident())
        return "Dear Jo"

    result = run_sync(write(tmp_path, LETTERS), letter="Hello", model=clerk(answer=answer), workspace=tmp_path)
    assert result.ok and where != [here]
    with pytest.raises(UsageError, match="`leter` is no input"):
        run_sync(tmp_path / "desk.yaml", leter="Hello", model=clerk(), workspace=tmp_path)
    assert (await run(tmp_path / "desk.yaml", letter="Hello", model=clerk(), workspace=tmp_path)).ok


@pytest.mark.parametrize("in_memory", [True, False])
async def test_two_runs_at_once_in_one_process_know_nothing_of_each_other(tmp_path: Path, in_memory: bool) -> None:
    path = write(tmp_path, LETTERS)
    together = asyncio.Barrier(2)

    async def model(request: ModelRequest) -> Any:
        await asyncio.wait_for(together.wait(), 5)          # only both together get past here
        said = request.messages[-1]["content"]
        return FACTS if request.schema else next(name for name in ("Ann", "Bob") if name in said)

    workspace = None if in_memory else tmp_path
    results = await asyncio.gather(*(run(path, letter=name, model=model, workspace=workspace) for name in ("Ann", "Bob")))
    assert [result["reply"] for result in results] == ["Ann", "Bob"]
    if not in_memory:
        assert {result.name for result in results} == {"letters-1", "letters-2"}
        assert [tree(result.folder or tmp_path) for result in results] == [{"reply.txt": "Ann\n"}, {"reply.txt": "Bob\n"}]


async def test_two_runs_that_are_prepared_before_either_begins_get_names_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path, LETTERS)
    one, two = (start(path, letter="x", model=clerk(), workspace=tmp_path) for _ in range(2))
    async with one, two:
        names = {(await one.result()).name, (await two.result()).name}
    assert names == {one.name, two.name} == {"letters-1", "letters-2"}
    assert {event.run for name in names for event in events(tmp_path, name, RunOpened)} == names
    assert all(tree(tmp_path / name) for name in names)


def test_many_threads_run_side_by_side(tmp_path: Path) -> None:
    path = write(tmp_path, LETTERS)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(run_sync(path, letter="x", model=clerk(), workspace=tmp_path)))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(result.name for result in results) == [f"letters-{number}" for number in range(1, 7)]


async def test_events_come_from_the_first_to_the_last(tmp_path: Path) -> None:
    async with start(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=tmp_path) as going:
        kinds = [event.kind async for event in going.events()]
        assert kinds[0] == "run_opened" and kinds[-1] == "run_ended" and kinds.count("finished") == 2
        assert kinds == [event.kind for event in events(tmp_path, going.name)]


@pytest.mark.parametrize("workspace", [None, "runs"])
async def test_events_can_be_walked_when_the_run_is_over_and_twice(tmp_path: Path, workspace: str | None) -> None:
    where = None if workspace is None else tmp_path / workspace
    async with start(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=where) as going:
        await going.result()
        for _ in range(2):
            async with asyncio.timeout(5):
                assert [event.kind async for event in going.events()][-1] == "run_ended"


async def test_events_of_a_resumed_run_go_past_its_earlier_endings(tmp_path: Path) -> None:
    await run(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=tmp_path, until="read")
    async with go_on("letters-1", model=clerk(), workspace=tmp_path) as going:
        async with asyncio.timeout(5):
            outcomes = [event.outcome async for event in going.events() if isinstance(event, RunEnded)]
        assert outcomes == ["until", "success"]


async def test_a_program_hears_each_version_from_outside(tmp_path: Path) -> None:
    async with start(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=None) as going:
        async for message in going.bus.subscribe("reply"):
            assert (message.topic, message.version, message.sender, message.payload) == ("reply", 1, "answer", "Dear Jo")
            assert message.made_from == {"letter": 1, "facts": 1}
            break
        async with going.bus.subscribe(after=0) as everything:
            heard = [await everything.get() for _ in range(3)]
        assert [message.topic for message in heard] == ["letter", "facts", "reply"]


async def test_a_subscription_ends_with_its_run(tmp_path: Path) -> None:
    heard: list[str] = []
    async with start(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=None) as going:
        async def listen() -> None:
            async for message in going.bus.subscribe("facts", "reply", after=0):
                heard.append(message.topic)

        listening = asyncio.create_task(listen())
        await going.result()
        await asyncio.sleep(0.01)
    await asyncio.wait_for(listening, 5)
    assert heard == ["facts", "reply"]


async def test_a_program_writes_to_a_role_which_reads_it_before_its_next_step(tmp_path: Path) -> None:
    hold = asyncio.Event()
    model = clerk()

    async def slow(request: ModelRequest) -> Any:
        if request.step == "read":
            await hold.wait()
        return await model(request)

    async with start(write(tmp_path, LETTERS), letter="x", model=slow, workspace=tmp_path) as going:
        await going.bus.send("boss", "clerk", {"tone": "warm"})
        await going.bus.broadcast("boss", "tea is ready")
        await going.bus.send("boss", "somebody_else", "not for you")
        hold.set()
        assert (await going.result()).ok
    told = model.said("answer@1~0/turn.0")
    assert '{"tone":"warm"}' in told and "tea is ready" in told and "Message from boss" in told
    assert "not for you" not in told
    assert len(events(tmp_path, "letters-1", Sent)) == 3


async def test_leaving_early_stops_the_run_and_leaves_nothing_running(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def endless(request: ModelRequest) -> Any:
        begun.set()
        await asyncio.sleep(60)

    before = asyncio.all_tasks()
    async with start(write(tmp_path, LETTERS), letter="x", model=endless, workspace=tmp_path):
        await begun.wait()
    assert asyncio.all_tasks() == before
    assert [event.outcome for event in events(tmp_path, "letters-1", RunEnded)] == ["interrupted"]
    result = await resume("letters-1", model=clerk(), workspace=tmp_path)
    assert result.ok


async def test_stop_ends_it_with_130_and_resume_goes_on(tmp_path: Path) -> None:
    async def endless(request: ModelRequest) -> Any:
        await asyncio.sleep(60)

    async with start(write(tmp_path, LETTERS), letter="x", model=endless, workspace=tmp_path) as going:
        await asyncio.sleep(0.05)
        going.stop()
        going.stop()
        result = await asyncio.wait_for(going.result(), 5)
    assert (result.outcome, result.exit_status, result.ok) == ("interrupted", 130, False)
    assert (await resume("letters-1", model=clerk(), workspace=tmp_path))["reply"] == "Dear Jo"


async def test_a_cancelled_caller_cancels_the_run(tmp_path: Path) -> None:
    async def endless(request: ModelRequest) -> Any:
        await asyncio.sleep(60)

    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run(write(tmp_path, LETTERS), letter="x", model=endless, workspace=tmp_path), 0.1)
    assert asyncio.all_tasks() == before
    assert (await resume("letters-1", model=clerk(), workspace=tmp_path)).ok


async def test_a_body_that_raises_stops_its_run(tmp_path: Path) -> None:
    async def endless(request: ModelRequest) -> Any:
        await asyncio.sleep(60)

    with pytest.raises(ZeroDivisionError):
        async with start(write(tmp_path, LETTERS), letter="x", model=endless, workspace=None):
            raise ZeroDivisionError
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_a_run_open_here_is_refused_to_a_second(tmp_path: Path) -> None:
    async with start(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=tmp_path) as going:
        with pytest.raises(RunBusy, match="`letters-1` is open"):
            go_on("letters-1", workspace=tmp_path)
        await going.result()


@pytest.mark.one_in(4)
async def test_nothing_is_left_open(tmp_path: Path) -> None:
    """A run, a refused one, one that takes over and one gone on with leave no connection for the collector to complain of."""
    path = write(tmp_path, LETTERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await run(path, letter="x", model=clerk(), workspace=tmp_path)
        for wrong in ({"name": "../x"}, {"budget": {"usd": -1}}, {"given": {"nothing": 1}}):
            with pytest.raises(UsageError):
                await run(path, letter="x", model=clerk(), workspace=tmp_path, from_run="letters-1", **wrong)
        assert (await run(path, letter="x", model=clerk(), workspace=tmp_path, from_run="letters-1")).calls == 0
        with pytest.raises(UsageError, match="has succeeded"):
            await resume("letters-1", workspace=tmp_path)
        gc.collect()
    assert not list((tmp_path / ".journals").glob("*-wal")) and not list((tmp_path / ".journals").glob("*.lock"))


def opened_file(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the list of open files is read from /proc")
async def test_no_file_is_open_when_a_run_is_left(tmp_path: Path) -> None:
    path = write(tmp_path, LETTERS)
    await run(path, letter="x", model=clerk(), workspace=tmp_path)
    async with start(path, letter="x", model=clerk(), workspace=tmp_path, from_run="letters-1") as going:
        assert (await going.result()).calls == 0
    assert [found for entry in os.listdir("/proc/self/fd") if str(tmp_path) in (found := opened_file(entry))] == []
    assert going.name == "letters-2"                    # it is still held, and nothing of it


async def test_the_garbage_collector_is_asked_less_often_while_a_run_is_under_way(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, usual = write(tmp_path, LETTERS), gc.get_threshold()

    def begun(**options: Any) -> Run:
        return start(path, **{"letter": "x", "model": clerk(), "workspace": tmp_path, **options})

    async with begun() as first, begun() as second:
        assert gc.get_threshold() == THRESHOLDS
        await first.result()
        async with begun():
            pass
        assert gc.get_threshold() == THRESHOLDS, "others are under way"
        await second.result()
    assert gc.get_threshold() == usual
    monkeypatch.setattr("metaflow_agents.runtime.handle.assemble", lambda *_, **__: pytest.fail("it comes to no beginning"))
    with pytest.raises(pytest.fail.Exception, match="no beginning"):
        async with begun():
            pass
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("own", [(0, 10, 10), (100_000, 10, 10)])
async def test_what_a_process_said_of_its_garbage_collector_stays(tmp_path: Path, own: tuple[int, int, int]) -> None:
    """Before the run; or in it: then it stays afterwards as well."""
    path, usual = write(tmp_path, LETTERS), gc.get_threshold()
    try:
        for set_before in (True, False):
            gc.set_threshold(*(own if set_before else usual))
            async with start(path, letter="x", model=clerk(), workspace=tmp_path) as going:
                gc.set_threshold(*(gc.get_threshold() if set_before else own))
                assert gc.get_threshold() == own
                await going.result()
            assert gc.get_threshold() == own
    finally:
        gc.set_threshold(*usual)


@pytest.mark.one_in(4)
async def test_idle_threads_end_with_their_run(tmp_path: Path) -> None:
    before = set(threading.enumerate())                         # of tests that leave one hanging
    for _ in range(3):
        await run(write(tmp_path, LETTERS), letter="x", model=lambda r: FACTS if r.schema else "x", workspace=tmp_path)
    gc.collect()

    def left() -> list[str]:
        return [thread.name for thread in {*threading.enumerate()} - before if thread.name.startswith("python-")]

    deadline = time.monotonic() + 60
    while left() and time.monotonic() < deadline:           # noqa: ASYNC110  a thread that ends sets no event
        await asyncio.sleep(0.01)
    assert left() == []


async def test_until_rests_after_its_step(tmp_path: Path) -> None:
    result = await run(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=tmp_path, until="read")
    assert (result.outcome, result.reason, result.exit_status, result.ok) == ("until", "read is done", 0, True)
    assert dict(result.outputs) == {"facts": FACTS}
    assert (await resume("letters-1", model=clerk(), workspace=tmp_path)).calls == 2        # one before, one now


async def test_given_values_stand_in_for_work(tmp_path: Path) -> None:
    model = clerk()
    result = await run(write(tmp_path, LETTERS), letter="x", model=model, workspace=tmp_path, given={"facts": {"sender": "Ann"}},
                       until="read")
    assert result["facts"] == {"sender": "Ann", "pages": 0}              # laid over the smallest valid value
    assert (await resume("letters-1", model=model, workspace=tmp_path)).ok
    assert model.steps == ["answer"] and "Answer Ann." in model.said("answer@1~0/turn.0")


async def test_inputs_may_have_the_names_of_options(tmp_path: Path) -> None:
    text = """
        sop: odd
        inputs: {name: string, model: string, sop: string, until: string}
        artifacts: {all: {}}
        steps: {join: {value: "name ~ model ~ sop ~ until", needs: [name, model, sop, until], makes: all}}
    """
    result = await run(write(tmp_path, text), sop="c", inputs={"name": "a", "model": "b", "until": "d"}, workspace=None)
    assert result["all"] == "abcd"


async def test_the_dry_model_walks_it(tmp_path: Path) -> None:
    result = await run(write(tmp_path, LETTERS), letter="x", model="dry", workspace=None)
    assert result["facts"] == {"sender": "sender", "pages": 0}


async def test_a_model_object_of_ones_own(tmp_path: Path) -> None:
    class Mine:
        name = "mine"

        async def ask(self, request: ModelRequest) -> Reply:
            return Reply(value=FACTS) if request.schema else Reply(text="Hi", tokens_in=10, tokens_out=1)

    result = await run(write(tmp_path, LETTERS), letter="x", model=Mine(), workspace=tmp_path)
    assert result["reply"] == "Hi"
    (opened,) = events(tmp_path, "letters-1", RunOpened)
    assert opened.models == {"*": "mine"}


@pytest.mark.parametrize(("options", "error", "told"), [
    ({"letter": "x", "leter": "x"}, UsageError, "`leter` is no input of this SOP: did you mean `letter`"),
    ({"letter": 5}, UsageError, "input `letter`"),
    ({"letter": None}, UsageError, "input `letter`"),
    ({"letter": b"x"}, UsageError, "input `letter`"),
    ({"letter": "\ud800"}, UsageError, "input `letter`"),
    ({}, UsageError, "input `letter` is missing"),
    ({"letter": "x", "model": "nope"}, UsageError, "`nope` is no model"),
    ({"letter": "x", "model": 42}, UsageError, "42 is no model"),
    ({"letter": "x", "model": "python:nowhere:f"}, UsageError, "no module `nowhere`"),
    ({"letter": "x", "model": "openai:gpt"}, ModelMissing, "OPENAI_API_KEY is not set"),
    ({"letter": "x", "models": {"strnog": "dry"}}, UsageError, "asks for a model `strnog`"),
    ({"letter": "x", "budget": {"tokns": 5}}, UsageError, "did you mean `tokens`"),
    ({"letter": "x", "budget": {"usd": "five"}}, UsageError, "budget `usd`: 'five' is not an amount"),
    ({"letter": "x", "budget": {"calls": "five"}}, UsageError, "budget `calls`: 'five' is not a count"),
    ({"letter": "x", "budget": {"calls": 0}}, UsageError, "budget `calls`"),
    ({"letter": "x", "budget": {"time": -1}}, UsageError, "budget `time`"),
    ({"letter": "x", "given": {"reply": "a", "fatcs": {}}}, UsageError, "did you mean `facts`"),
    ({"letter": "x", "given": {"letter": "a"}}, UsageError, "which no step makes"),
    ({"letter": "x", "given": {"reply": object()}}, UsageError, "is not JSON"),
    ({"letter": "x", "until": "anser"}, UsageError, "did you mean `answer`"),
    ({"letter": "x", "from_run": "gone"}, UsageError, "no run `gone`"),
    ({"letter": "x", "from_run": "../gone"}, UsageError, "can't be a run's name"),
    ({"letter": "x", "sandbox": "docker"}, UsageError, "there is no sandbox `docker`: `--sandbox container`"),
    ({"letter": "x", "name": "a b"}, UsageError, "can't be a run's name"),
])
async def test_a_wrong_call_is_told_in_a_line_before_anything_is_made(tmp_path: Path, options: dict[str, Any],
                                                                     error: type[MetaflowError], told: str) -> None:
    given = {"model": clerk(), "workspace": tmp_path / "runs", "settings": Settings(), **options}
    with pytest.raises(MetaflowError) as caught:
        await run(write(tmp_path, LETTERS), **given)
    assert type(caught.value) is error
    assert told in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).encode()                   # a terminal can print it
    assert not list((tmp_path / "runs").rglob("*.db")) and not (tmp_path / "runs" / "letters-1").exists()


async def test_what_is_wrong_around_a_run_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, LETTERS)
    await run(path, letter="x", model="dry", workspace=tmp_path, name="mine")
    with pytest.raises(UsageError, match="run `mine` exists already; give another name"):
        await run(path, letter="x", model="dry", workspace=tmp_path, name="mine")
    with pytest.raises(UsageError, match=r"no run `mime` in .*; did you mean `mine`"):
        await resume("mime", workspace=tmp_path)
    with pytest.raises(UsageError, match="did you mean `answer@1`"):
        fork("mine", at="anwser@1", workspace=tmp_path)
    for at, word in (("answer", "a step without a round"),
                     ("answer[x]", "one of its items"), ("answer@1/draft", "a step of a sub-SOP")):
        with pytest.raises(UsageError, match=f"`{re.escape(at)}` is {word}: write `answer@1`"):
            fork("mine", at=at, workspace=tmp_path)
    with pytest.raises(UsageError, match=r"names no firing: .*branches before a firing"):
        fork("mine", at="answer@", workspace=tmp_path)
    for until in ("answer@1", "answer[x]", "answer/draft"):
        with pytest.raises(UsageError, match=r"rests after a whole step .*`--until answer`"):
            await run(path, letter="x", model="dry", workspace=tmp_path, until=until)
    with pytest.raises(SOPNotFound):
        await run(tmp_path / "none.yaml", model="dry")
    with pytest.raises(SOPNotFound, match="is a folder"):
        await run(tmp_path, model="dry")
    with pytest.raises(JournalError, match="can't make the folder"):
        await run(path, letter="x", model="dry", workspace=path)
    (tmp_path / ".journals" / "torn.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(JournalError, match=r"torn\.db"):
        await resume("torn", workspace=tmp_path)
    with pytest.raises(SOPInvalid, match="needz"):
        await run(write(tmp_path, LETTERS.replace("needs: [letter]", "needz: [letter]")), letter="x", model="dry")
    with pytest.raises(UsageError, match="the run has not begun"):
        _ = start(write(tmp_path, LETTERS), letter="x", model="dry", workspace=tmp_path).bus


async def test_a_function_that_cannot_be_imported_stops_the_run_with_a_word(tmp_path: Path) -> None:
    text = """
        sop: calls
        inputs: {letter: string}
        artifacts: {reply: {}}
        steps: {answer: {call: "fns:answer", needs: [letter], makes: reply}}
    """
    path = write(tmp_path, text, fns_py="import nothing_of_that_name\n\ndef answer(letter):\n    return letter\n")
    result = await run(path, letter="x", workspace=tmp_path)
    assert (result.outcome, result.exit_status) == ("stopped", 1)
    assert "can't import `fns`" in result.reason and "fns.py:1" in result.reason
    (tmp_path / "fns.py").write_text("def answer(letter):\n    return letter + ' indeed'\n")
    assert (await resume("calls-1", workspace=tmp_path))["reply"] == "x indeed"


async def test_a_fork_of_a_run_that_is_over_can_be_gone_on_with(tmp_path: Path) -> None:
    path = write(tmp_path, LETTERS)
    await run(path, letter="x", model=clerk(), workspace=tmp_path, name="whole")
    name = fork("whole", workspace=tmp_path, new_name="branch")
    again = clerk()
    result = await resume(name, model=again, workspace=tmp_path)
    assert result.ok and again.keys == [] and result["reply"] == "Dear Jo"
    assert tree(tmp_path / "branch") == {"reply.txt": "Dear Jo\n"}


async def test_the_folder_and_journal_of_a_run_in_memory_are_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sops").mkdir()
    path = write(tmp_path / "sops", LETTERS)
    await run(path, letter="x", model=clerk(), workspace=None)
    assert os.listdir(tmp_path) == ["sops"]


def test_public_names_are_those_that_are_promised() -> None:
    assert dir(metaflow_agents) == sorted(metaflow_agents.__all__)
    for name in metaflow_agents.__all__:
        assert getattr(metaflow_agents, name) is not None
    with pytest.raises(AttributeError):
        _ = metaflow_agents.no_such_name


async def test_inputs_are_the_first_commit(tmp_path: Path) -> None:
    await run(write(tmp_path, LETTERS), letter="x", model=clerk(), workspace=tmp_path)
    first = events(tmp_path, "letters-1", Committed)[0]
    assert first.firing is None and [version.artifact for version in first.versions] == ["letter"]

