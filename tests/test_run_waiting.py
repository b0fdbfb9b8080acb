"""Parking: activations that wait for answers, in this process or over several, in any order, end where they always end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from random_sops import random_sop
from reference import Procedure, play
from reference_runner import Held, Machine
from scripted import Scripted, events, firings, write
from virtual_time import simulated

from metaflow_agents.api.run import go_on, resume, run, start
from metaflow_agents.engine import step_execution as fanout
from metaflow_agents.engine.attempts import Holding
from metaflow_agents.engine.scheduler import Scheduler
from metaflow_agents.engine.scope import Scopes
from metaflow_agents.engine.step_execution import Fanout
from metaflow_agents.engine.suspension import Parking
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import Waiting
from metaflow_agents.journal.run_context import RunContext
from metaflow_agents.questions.answering import give
from metaflow_agents.questions.inbox import open_questions
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Answered, Asked, Failed, RunEnded
from metaflow_agents.schema.program import Program
from metaflow_agents.settings import Settings
from metaflow_agents.sop.graph import SOPGraph

# -- random procedures, of which some activations wait


class Answering:
    """Fits the engine's `Answers`: answers in an order of its own, or never in this process."""

    def __init__(self, pick: random.Random, *, here: bool) -> None:
        self.pick, self.here = pick, here
        self.asked: list[str] = []
        self.answered: set[str] = set()

    def open(self, key: str) -> bool:
        return key not in self.answered

    def one(self) -> bool:
        left = sorted(set(self.asked) - self.answered)
        if left:
            self.answered.add(self.pick.choice(left))
        return bool(left)

    async def attend(self, told: Callable[[], None]) -> None:
        while self.here:
            for _ in range(self.pick.randrange(1, 9)):
                await asyncio.sleep(0)
            if self.one():
                told()

    async def more(self) -> bool:
        return self.here and self.one()

    def waiting(self) -> str:
        return "answers"


class AtOnce(dict[Any, Any]):
    """What the test would let go on goes on."""

    def __setitem__(self, key: Any, gate: Any) -> None:
        super().__setitem__(key, gate)
        gate.set_result(None)


class Asking(Held):
    """A step runner, some of whose activations wait for an answer first, after they have taken a while."""

    def __init__(self, held: Held, answers: Answering, share: float) -> None:
        super().__init__(held.procedure, held.sop, held.values)
        self.running, self.answers, self.share = AtOnce(), answers, share

    async def work(self, activation: Activation) -> Work:
        key = str(activation.key)
        for _ in range(self.answers.pick.randrange(4)):
            await asyncio.sleep(0)
        if random.Random(key).random() < self.share and self.answers.open(key):
            self.answers.asked.append(key)
            raise Waiting([key])
        return await super().work(activation)


async def waited(procedure: Procedure, seed: int, *, here: bool, share: float = 0.6) -> tuple[Any, Any, int]:
    """Plays a procedure to its end, over as many processes as it takes: its firings, what it made, and how often it rested."""
    before = asyncio.all_tasks()
    machine, answers = Machine(procedure), Answering(random.Random(seed), here=here)
    program, state = Program(sop=machine.sop), machine.journal.state
    runner = Asking(machine.runner, answers, share)
    rests = -1

    def scheduler() -> Scheduler:
        scopes = Scopes(program, machine.values, "test")
        context = RunContext(program, machine.bus, state, machine.values)
        work = Fanout(context, scopes, runner, holding=Holding(parking=Parking(answers)))
        return Scheduler(context, SOPGraph(machine.sop), scopes, work)

    machine.scheduler = scheduler()
    async with machine:
        assert machine.task is not None
        ended = await machine.task
        while ended.outcome == "waiting":
            assert not here
            rests += 1
            for _ in range(answers.pick.randrange(1, 4)):
                answers.one()
            ended = await scheduler().run()
        assert asyncio.all_tasks() - before - {machine.task} == set()
        return sorted(machine.log(), key=repr), machine.artifacts(), rests + 1


def procedures(first: int, count: int) -> list[tuple[int, Procedure]]:
    """Those that nothing stops: `on_fail: stop` is the exception that the language names."""
    drawn = [(seed, random_sop(seed)) for seed in range(first, first + count)]
    return [(seed, procedure) for seed, procedure in drawn if play(procedure, seed).ended != "stopped"]


@pytest.mark.one_in(16, always=False)
@pytest.mark.parametrize("here", [True, False], ids=["in one process", "over several"])
@pytest.mark.parametrize("first", range(0, 90, 30))
def test_waiting_changes_nothing_but_the_time(first: int, here: bool) -> None:
    rested = 0
    for seed, procedure in procedures(first, 30):
        at_once = asyncio.run(waited(procedure, 1, here=here, share=0.0))
        assert at_once[1] == play(procedure, seed).artifacts
        for order in (2, 3):
            log, made, rests = asyncio.run(asyncio.wait_for(waited(procedure, order, here=here), 30))
            assert (log, made) == at_once[:2], f"seed {seed}"
            rested += rests
    assert bool(rested) is not here


def test_a_parked_firing_that_did_not_block_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the firing given free while it is parked, some procedure ends otherwise, or runs into what that prevents."""
    original = Parking.rest

    def free(self: Parking, firing: str) -> Any:
        for scheduler in list(Schedulers.all):
            scheduler._running.pop(firing.partition("@")[0], None)
        return original(self, firing)

    class Schedulers(Scheduler):
        all: list[Scheduler] = []  # noqa: RUF012

        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.all.append(self)

    monkeypatch.setattr("test_run_waiting.Scheduler", Schedulers)
    monkeypatch.setattr(Parking, "rest", free)
    for seed, procedure in procedures(0, 60):
        Schedulers.all.clear()
        try:
            _, made, _ = asyncio.run(asyncio.wait_for(waited(procedure, 2, here=False), 5))
        except Exception:
            return
        if made != play(procedure, seed).artifacts:
            return
    pytest.fail("nothing notices that parked firings block nobody")


def test_a_lost_wakeup_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nobody woken, the parked wait on though they are answered."""
    monkeypatch.setattr(Parking, "look", lambda self: None)

    async def play_it() -> None:
        with pytest.raises((TimeoutError, AssertionError)):     # it rests, or hangs
            await asyncio.wait_for(waited(random_sop(0), 2, here=True, share=1.0), 0.5)

    asyncio.run(play_it())


# -- whole runs

REVIEWED = """
    sop: reviewed
    inputs: {names: {type: [string], default: [a, b, c]}}
    roles: {writer: {profile: You write.}}
    artifacts: {pages: {each: string}, ok: {each: boolean}, aside: {}, note: {}, book: {}}
    steps:
      write: {role: writer, needs: [names], foreach: {in: names}, makes: pages}
      judge:
        human: approve
        needs: [pages, names]
        foreach: {in: names, as: name}
        makes: ok
        task: "Is {{ pages[name] }} good?"
      look: {role: writer, needs: [names], makes: aside}
      more: {role: writer, needs: [aside], makes: note}
      bind: {value: "(ok | list | length) ~ note", needs: [ok, note], makes: book}
"""


def model() -> Scripted:
    return Scripted(write=lambda request: f"page {request.key.partition('[')[2][:1]}")


def answers(workspace: Path, name: str, *given: tuple[str, Answer]) -> None:
    """Puts answers into the journal of a run that rests, by what stands in the question."""
    path = workspace / ".journals" / f"{name}.db"
    for words, answer in given:
        (found,) = [one for one in open_questions(path) if words in one.question.text]
        assert asyncio.run(give(path, found.question, answer, Settings.read())) == ""


YES, NO = Answer(verdict="yes"), Answer(verdict="no", text="too plain")


def test_a_run_goes_on_with_what_does_not_depend_on_the_answer_and_then_rests(tmp_path: Path) -> None:
    home, asked = tmp_path / "w", model()
    result = asyncio.run(run(write(tmp_path, REVIEWED), model=asked, workspace=home, name="one"))
    assert (result.outcome, result.exit_status) == ("waiting", 4)
    assert firings(home, "one") == ["write@1", "look@1", "more@1", "judge@1"] and set(result.outputs) == set()
    assert [event.key for event in events(home, "one", Asked)] == ["judge@1[a]~0", "judge@1[b]~0", "judge@1[c]~0"]
    for words in ("Is page a good?", "sop inbox one", "sop answer one", "sop resume one"):
        assert words in result.reason
    answers(home, "one", ("page b", NO))
    again = asyncio.run(resume("one", workspace=home, model=asked))
    assert again.outcome == "waiting" and len(open_questions(home / ".journals" / "one.db")) == 2
    answers(home, "one", ("page c", YES), ("page a", YES))
    last = asyncio.run(resume("one", workspace=home, model=asked))
    assert last.outcome == "success" and last["book"] == "3more done"
    assert len(events(home, "one", Asked)) == len(events(home, "one", Answered)) == 3         # nobody is asked twice
    assert asked.steps.count("write") == 3                                                    # and nothing is paid twice


def test_a_place_among_parallel_items_is_free_while_one_waits(tmp_path: Path) -> None:
    text = REVIEWED.replace("foreach: {in: names, as: name}", "foreach: {in: names, as: name, parallel: 1}")
    asyncio.run(run(write(tmp_path, text), model=model(), workspace=tmp_path / "w", name="one"))
    assert len(open_questions(tmp_path / "w" / ".journals" / "one.db")) == 3


def test_a_whole_run_mends_a_lost_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: a waiting item that keeps its place lets only one be asked."""
    original = fanout._Job._publish_item

    async def kept(self: Any, *args: Any) -> Any:
        try:
            return await original(self, *args)
        except Waiting as waiting:
            with self._means.parking.rest(self._firing.key):
                await self._means.parking.closed(self._firing.key, waiting.keys)
            raise AssertionError from None

    monkeypatch.setattr(fanout._Job, "_publish_item", kept)
    text = REVIEWED.replace("foreach: {in: names, as: name}", "foreach: {in: names, as: name, parallel: 1}")
    asyncio.run(run(write(tmp_path, text), model=model(), workspace=tmp_path / "w", name="one"))
    assert len(open_questions(tmp_path / "w" / ".journals" / "one.db")) == 1


async def yes(question: Question, number: int) -> Answer:
    return YES


def test_who_is_there_is_asked_one_question_at_a_time(tmp_path: Path) -> None:
    under_way, most, numbers = 0, 0, []

    async def asker(question: Question, number: int) -> Answer:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        numbers.append(number)
        await asyncio.sleep(0.01)
        under_way -= 1
        return YES

    result = asyncio.run(run(write(tmp_path, REVIEWED), model=model(), workspace=None, asker=asker))
    assert result.ok and most == 1 and numbers == [1, 2, 3]


def test_what_is_put_off_parks_the_run(tmp_path: Path) -> None:
    async def asker(question: Question, number: int) -> Answer | None:
        return YES if "page b" in question.text else None

    result = asyncio.run(run(write(tmp_path, REVIEWED), model=model(), workspace=tmp_path / "w", name="one", asker=asker))
    left = open_questions(tmp_path / "w" / ".journals" / "one.db")
    assert result.outcome == "waiting" and [one.number for one in left] == [1, 3]
    assert asyncio.run(resume("one", workspace=tmp_path / "w", model=model(), asker=yes)).ok


TIMED = """
    sop: timed
    budget: {time: 1h}
    roles: {writer: {profile: You write.}}
    artifacts: {go: {}, letter: {}, last: {}}
    steps:
      ask: {human: text, makes: go, task: "When?", timeout: 60, budget: {time: 90}}
      write: {role: writer, needs: [go], makes: letter, task: "Write at {{ go.text }}."}
      ask_again: {human: text, needs: [letter], makes: last, task: "And then?"}
"""


def test_the_time_that_a_person_takes_counts_against_nothing(tmp_path: Path) -> None:
    async def slow(question: Question, number: int) -> Answer:
        await asyncio.sleep(40_000)
        return Answer(text="at noon")

    async def play_it() -> Any:
        async with start(write(tmp_path, TIMED), model=Scripted(), workspace=None, asker=slow) as going:
            return await going.result(), [event.rested for _, event in going.journal.events(Answered)]

    result, rested = simulated(play_it())
    assert result.ok, result.reason
    assert rested == [pytest.approx(40_000, abs=1), pytest.approx(40_000, abs=1)]


def test_the_budget_of_time_goes_on_after_the_answer(tmp_path: Path) -> None:
    async def slow(question: Question, number: int) -> Answer:
        await asyncio.sleep(40_000)
        return Answer(text="at noon")

    async def model(request: Any) -> str:
        await asyncio.sleep(3_700)
        return "late"

    result = simulated(run(write(tmp_path, TIMED), model=model, workspace=None, asker=slow))
    assert result.outcome == "budget" and "time" in result.reason


def test_days_between_question_and_answer_are_no_time_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "w"
    asyncio.run(run(write(tmp_path, TIMED), model=Scripted(), workspace=home, name="one"))
    path = home / ".journals" / "one.db"
    days = 3 * 86_400.0
    monkeypatch.setattr("metaflow_agents.questions.answering.time", lambda: __import__("time").time() + days)
    asyncio.run(give(path, open_questions(path)[0].question, Answer(text="noon"), Settings.read()))
    monkeypatch.undo()
    monkeypatch.setattr("metaflow_agents.api.run.Resumed", _in(days))
    from metaflow_agents.journal.run_summary import RawJournal
    with RawJournal(path) as journal:
        assert journal.glance().seconds < 3600

    async def state() -> Any:
        going = go_on("one", workspace=home, model=Scripted())
        async with going:
            await going.result()
            return going.journal.state

    left = asyncio.run(state())
    assert left.elapsed < 3600 and left.busy["ask"] < 3600


def _in(days: float) -> Any:
    from metaflow_agents.schema.event import Resumed
    return lambda **fields: Resumed(at=__import__("time").time() + days, **fields)


@pytest.mark.one_in(4)
def test_the_inbox_and_the_outline_agree_with_the_state(tmp_path: Path) -> None:
    """Folds of the same events, of every prefix of a run that rests twice and is answered in between."""
    from metaflow_agents.journal.journal import Journal
    from metaflow_agents.journal.run_summary import RawJournal

    home, asked = tmp_path / "w", model()
    asyncio.run(run(write(tmp_path, REVIEWED), model=asked, workspace=home, name="one"))
    answers(home, "one", ("page b", NO))
    asyncio.run(resume("one", workspace=home, model=asked))
    answers(home, "one", ("page a", YES), ("page c", YES))
    asyncio.run(resume("one", workspace=home, model=asked))
    path = home / ".journals" / "one.db"
    with Journal.read(path) as journal:
        last = journal.last
    for until in range(1, last + 1):
        Journal.copy(path, path.with_name(f"until-{until}.db"), until).__exit__()
        part = path.with_name(f"until-{until}.db")
        with Journal.read(part) as journal, RawJournal(part) as raw:
            state, glance = journal.state, raw.glance()
        assert {one.question.key: one.number for one in open_questions(part)} == {
            key: state.asked[key] for key in state.questions}
        assert glance.seconds == pytest.approx(state.elapsed, abs=0.002)
        assert all(firing.questions == sum(key.startswith(f"{firing.key}[") for key in state.questions)
                   for firing in state.active.values())


FALLBACK = """
    sop: fallback
    artifacts: {word: {}, told: {}}
    steps:
      ask: {human: text, makes: word, task: "Well?", on_no_answer: fail, retries: 1, on_fail: {makes: told}}
"""


def test_where_nobody_answers_the_attempts_fail(tmp_path: Path) -> None:
    home = tmp_path / "w"
    asyncio.run(run(write(tmp_path, FALLBACK), workspace=home, name="one"))
    assert [event.error for event in events(home, "one", Failed)] == ["nobody answers step ask: Well?"] * 2
    assert events(home, "one", Asked) == []


def test_what_is_put_off_fails_where_it_has_to(tmp_path: Path) -> None:
    seen = []

    async def later(question: Question, number: int) -> None:
        seen.append(question.key)

    home = tmp_path / "w"
    asyncio.run(run(write(tmp_path, FALLBACK), workspace=home, name="one", asker=later))
    assert seen == ["ask@1~0", "ask@1~1"] and len(events(home, "one", Failed)) == 2
    assert open_questions(home / ".journals" / "one.db") == []


def test_an_interrupt_while_a_person_is_asked_leaves_nothing_behind(tmp_path: Path) -> None:
    async def play_it() -> RunEnded | None:
        begun = asyncio.Event()

        async def never(question: Question, number: int) -> Answer:
            begun.set()
            await asyncio.Event().wait()
            return YES

        async with start(write(tmp_path, REVIEWED), model=model(), workspace=None, asker=never) as going:
            await begun.wait()
            going.stop()
            await going.result()
            ended = going.journal.state.ended
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
        return ended

    ended = asyncio.run(play_it())
    assert ended is not None and ended.outcome == "interrupted"
