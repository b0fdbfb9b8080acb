"""Runs of `crash/tools.yaml`, whose roles act, in forks that die at a chosen write; and what is left inside and outside.

A run is a row of processes: it is under way until it ends, dies, or parks; where it parks, its questions are answered as by
`sop answer`, in a process that may die as well. Outside, each effect leaves a line in a file: whether one that was cut off has
happened is answered from there.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_harness as harness
from crash_harness import NAME, Facts

from metaflow_agents.api.run import go_on, start
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.audit import RECORDS, Heads, verified
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.modules import load_function
from metaflow_agents.questions.answer_queue import AnswerQueue, Letter
from metaflow_agents.questions.answering import give
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.runtime.handle import Run, RunResult
from metaflow_agents.schema.event import Asked, Decided, Event, Intended
from metaflow_agents.settings import Settings
from metaflow_agents.sop.library import Folders

CRASH = Path(__file__).parent / "crash"
WAITS = 4
ONCE = ("pay", "ledger.enter", "depot.send", "charge")
IN_FLIGHT = "in flight"
desk: Any = None
"""The module that the SOP's functions come from."""
port = 0
"""Of the depot of this process."""


@contextmanager
def staged(home: Path) -> Iterator[None]:
    """The SOP in a folder of its own, and the depot that it asks."""
    global desk, port
    folder, outside = _folder(home), home / "outside"
    folder.mkdir(parents=True)
    with subprocess.Popen([sys.executable, str(CRASH / "crash_depot.py"), str(outside)], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL) as depot:
        try:
            assert depot.stdout is not None
            port = int(depot.stdout.readline())
            for path in CRASH.iterdir():
                if path.is_file():
                    shutil.copy(path, folder)
            text = (folder / "tools.yaml").read_text()
            for name, value in (("PYTHON", sys.executable), ("OUTSIDE", outside), ("PORT", port)):
                text = text.replace(name, str(value))
            (folder / "tools.yaml").write_text(text)
            desk = sys.modules[load_function("crash_tools_desk:answer", Folders(folder).python).__module__]
            desk.outside = outside
            QuestionBroker.__init__.__kwdefaults__["poll"] = 0.02         # the mailbox is looked into more often than by day
            yield
        finally:
            depot.kill()


def _folder(home: Path) -> Path:
    return home.with_name(f"{home.name}-sop")


# Who answers.


def at_terminal(question: Question) -> Answer | None:
    """The person who sits there says what may be paid, once for all, and nothing else."""
    return Answer(verdict="yes", scope="rule") if question.tool == "pay" and question.kind == "action" else None


def by_post(question: Question) -> Answer | None:
    """Somebody elsewhere answers while the run is under way."""
    if question.tool == "write":
        return Answer(verdict="yes", arguments={"path": "src/edited.txt", "text": f"edited: {question.arguments['text']}"})
    return Answer(verdict="yes") if question.kind == "approve" else None


def later(question: Question, outside: Counter[str]) -> Answer:
    """Somebody answers once the run rests: what nobody else does, and truly whether an effect has happened."""
    if question.kind == "effect":
        return has_happened(question, outside)
    if question.tool == "depot.send":
        return Answer(verdict="yes", arguments={"body": {"id": "work", "to": "Lisbon"}})
    if question.kind == "text":
        return Answer(text="To Lisbon")
    return at_terminal(question) or by_post(question) or Answer(text="unforeseen")


def has_happened(question: Question, outside: Counter[str]) -> Answer:
    if not question.tool:
        happened = outside["charge tea"] > 0
        return Answer(verdict="yes" if happened else "no", text=json.dumps(desk.RECEIPT) if happened else "")
    given = question.arguments.get("body", question.arguments)
    return Answer(verdict="yes" if outside[f"{question.tool} {given['id']}"] else "no")


def happened_outside() -> Counter[str]:
    """Tool and id → how often it was done."""
    lines = desk.outside.read_text().splitlines() if desk.outside.exists() else []
    return Counter(" ".join(line.split()[:2]) for line in lines)


# The processes of a run.


def begin(home: Path) -> Run:
    return start(_folder(home) / "tools.yaml", model=desk.answering(home / "calls"), sandbox="none", name=NAME, workspace=home,
                 inputs={"order": "tea"})


def carry_on(home: Path) -> Run:
    return go_on(NAME, model=desk.answering(home / "calls"), workspace=home)


async def drive(run: Run) -> RunResult:
    async def asker(question: Question, number: int) -> Answer | None:
        return at_terminal(question)

    run.attend(asker)
    async with run as going:
        journal = going.journal

        def hear(_: int, event: Event) -> None:
            if isinstance(event, Asked):
                post(event)

        def post(event: Asked) -> None:
            question = Question.model_validate_json(journal.blob(event.question))
            answer = by_post(question)
            if answer is not None:
                for _ in range(2):              # whoever says it twice has said it once
                    AnswerQueue(journal.path).put(Letter(key=event.key, question=event.question, answer=answer))

        for event in list(journal.state.questions.values()):
            post(event)
        journal.listeners.append(hear)
        return await going.result()


def live(home: Path) -> int:
    """Goes on with the run, or begins it where there is nothing to go on with."""
    try:
        run = carry_on(home)
    except UsageError as error:
        if journal_path(home, NAME).exists() and "before it began" not in str(error):
            raise
        run = begin(home)
    result = asyncio.run(drive(run))
    if result.exit_status not in (0, WAITS):
        raise RuntimeError(f"{result}")
    return result.exit_status


def answer_all(home: Path) -> int:
    """What `sop answer` does, for each question that is open."""
    path = journal_path(home, NAME)
    with Journal.read(path) as journal:
        waiting = [Question.model_validate_json(journal.blob(asked.question)) for asked in journal.state.questions.values()]
    if not waiting:
        raise RuntimeError("it waits for an answer, and nothing is asked")
    outside = happened_outside()
    for question in waiting:
        asyncio.run(give(path, question, later(question, outside), Settings.read()))
    return 0


def settle(home: Path) -> None:
    """Returns when nothing is under way outside any more."""
    deadline = time.monotonic() + 20
    while ledgers(home):
        if time.monotonic() > deadline:
            raise RuntimeError(f"servers of a dead run live on: {ledgers(home)}")
        time.sleep(0.002)
    urllib.request.urlopen(f"http://127.0.0.1:{port}/quiet", timeout=20).close()


def ledgers(home: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if b"crash_ledger.py" in command and str(desk.outside).encode() in command:
            found.append(int(entry.name))
    return found


# A run and its deaths.


@dataclass
class Row:
    """The processes of one run. `deaths`: what each that was killed left."""

    deaths: list[Facts] = field(default_factory=list)
    asked: list[set[str]] = field(default_factory=list)         # calls of the model: one set for each death, and what came after
    faults: list[str] = field(default_factory=list)
    processes: int = 0
    reached: int = 0


def to_the_end(home: Path) -> int:
    """Goes on with the run, or begins it, and answers where it parks: its last exit code."""
    for _ in range(9):
        code = live(home)
        if not code:
            break
        answer_all(home)
    settle(home)
    return code


def reference(home: Path) -> Facts:
    """The run in one go, answered where it parks. In this process: what is imported late is imported here."""
    before = threading.enumerate()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    code = to_the_end(home)
    if code or (left := harness.left_running(home, before)):
        raise RuntimeError(f"the run in one go: {code}, left running: {left}")
    found = harness.facts(journal_path(home, NAME), home / NAME)
    faults = [*found.not_once(), *of_effects(home, found)]
    if faults or sorted(harness.called(home)) != sorted(found.reserved):
        raise RuntimeError(f"the run in one go: {faults}")
    return found


def die_and_go_on(home: Path, kills: Sequence[tuple[int | str, str]], known: Facts, seed: int) -> dict[str, Any]:
    """Kills the run at each of these moments in turn, goes on to the end, and compares. `reached`: how many it came to.

    A moment is the number of a write, counted from the last death through all processes since, or an event that is written.
    """
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    row = Row()
    ended = _run_through(home, row, list(kills), random.Random(seed))
    found = harness.facts(journal_path(home, NAME), home / NAME)
    if ended:
        row.faults += [*known.differences(found), *of_effects(home, found), *_calls(row, known)]
        if not harness.gone(home):
            row.faults.append(f"commands of a killed process live on: {harness.marked(home)}")
        left = sorted(os.listdir(journal_path(home, NAME).parent))
        if row.deaths and row.deaths[-1].outcome != "success" and left != [f"{NAME}.db"]:
            row.faults.append(f"left beside the journal: {left}")
    calls = Counter(harness.called(home))
    return {"reached": row.reached, "faults": row.faults, "processes": row.processes, "doubts": len(found.doubts) // 2,
            "excess": sum(calls.values()) - len(known.reserved),
            "in_flight": sum(len(left.reserved - left.settled) for left in row.deaths)}


def _run_through(home: Path, row: Row, kills: list[tuple[int | str, str]], chance: random.Random) -> bool:
    """Whether it came to its end, as it should."""
    answering = False
    before = 0
    kill = kills.pop(0) if kills else None
    while row.processes < 60:
        row.processes += 1
        work = answer_all if answering else live
        code = harness.forked(home, lambda work=work, kill=kill: _armed(home, work, kill))
        settle(home)
        calls = harness.called(home)
        if code < 0 and kill is not None:
            if kill[1] == "torn":
                harness.tear(home, chance)
            row.reached += 1
            row.deaths.append(_left(home, row, chance))
            row.asked.append(set(calls[before:]))
            before, answering = len(calls), False
            if row.deaths[-1].outcome == "success":
                return True
            kill = kills.pop(0) if kills else None
            continue
        if code == 0 and not answering:
            row.asked.append(set(calls[before:]))
            return True
        if code not in (0, WAITS):
            row.faults.append(f"a process ended with {code}: {harness.trace(home)}")
            return False
        answering = code == WAITS
        if kill is not None and isinstance(kill[0], int):
            kill = kill[0] - int((home / "writes").read_text()), kill[1]
    row.faults.append("it comes to no end")
    return False


def _armed(home: Path, work: Any, kill: tuple[int | str, str] | None) -> int:
    count = harness.kill_at(*kill, home) if kill is not None else lambda: 0
    code: int = work(home)
    (home / "writes").write_text(str(count()))
    return code


def _left(home: Path, row: Row, chance: random.Random) -> Facts:
    """The facts that a dead process left. What was done outside has to stand there, and the audit has to be whole."""
    folder = home / f"death-{len(row.deaths)}-{chance.random()}"
    found = harness.at_death(journal_path(home, NAME), folder)
    row.faults += done_too_early(folder / f"{NAME}.db")
    return found


def done_too_early(path: Path) -> Iterator[str]:
    """What happened outside and does not stand in this journal, which a dead process left; and where its audit is not whole."""
    if path.exists():
        yield from _audit(path)
    done = {effect for effect in happened_outside() if effect.split()[0] in ONCE}
    known = _intended(path) if path.exists() else set()
    yield from (f"done before it was intended: {effect}" for effect in sorted(done - known))
    decided = _decided(path) if path.exists() else Counter[str]()
    called = Counter(effect.split()[0] for effect in happened_outside() if effect != "charge tea")
    yield from (f"done before that was decided: {tool}, {times} times" for tool, times in called.items() if times > decided[tool])


def _intended(path: Path) -> set[str]:
    """Tool and id of all effects that may have happened, as the journal tells it."""
    found = set()
    with Journal.read(path) as journal:
        for _, event in journal.events(Intended):
            if event.tool.startswith("call("):
                found.add("charge tea")
                continue
            given = json.loads(journal.blob(event.arguments))["value"]
            given = given.get("body", given) if isinstance(given, dict) else {}
            found.add(f"{event.tool} {given.get('id')}")
    return found


def _decided(path: Path) -> Counter[str]:
    """Tool → calls of it that the policy has decided about, as the journal tells it."""
    with Journal.read(path) as journal:
        return Counter(tool for tool, _ in {(event.tool, event.key) for _, event in journal.events(Decided)})


# What has to hold.


def of_effects(home: Path, found: Facts) -> Iterator[str]:
    """All that may not be of the effects of a run that came to its end."""
    yield from _twice(found)
    yield from _effects(found)
    yield from _audit(journal_path(home, NAME))


def _twice(found: Facts) -> Iterator[str]:
    """Each call is done once, and intended once more only where a person said that it had not happened."""
    for what, times in (found.events | found.doubts).items():
        if times != 1 and what.split()[0] in ("decided", "done", "asked", "answered"):
            yield f"{what}: {times} times"
    for key, times in found.intended.items():
        asked = sum(what.startswith(f"asked {key}/happened") for what in found.doubts)
        if times > 1 + asked:
            yield f"intended {key}: {times} times, and asked about {asked} times"


def _effects(found: Facts) -> Iterator[str]:
    """Outside, what may happen once has happened once."""
    outside = happened_outside()
    for effect, times in outside.items():
        if effect.split()[0] in ONCE and times != 1:
            yield f"{effect} happened {times} times"
    wanted = {f"{tool} {id_}" for tool, ids in WANTED.items() for id_ in ids}
    if set(outside) != wanted:
        yield f"happened outside: {sorted(set(outside) ^ wanted)}"
    notes = set(desk.outside.read_text().splitlines())
    if len([line for line in notes if line.startswith("note ")]) != len(WANTED["note"]):
        yield f"noted with another content: {sorted(notes)}"


WANTED = {
    "pay": ("work", "again", "one", "two", "three"),
    "ledger.enter": ("work", "more", "helped", "helped-more", "one", "two", "three"),
    "depot.send": ("work",), "charge": ("tea",), "note": ("first", "helped", "one", "two", "three"),
    "ledger.look": ("first", "one", "two", "three"), "depot.find": ("first",)}
"""All that is done outside."""


def _audit(path: Path) -> Iterator[str]:
    """The chain of the audit is whole, and its head does not run ahead."""
    with Journal.read(path) as journal:
        opened = journal.state.opened
        if opened is not None:
            yield from verified(journal.events(*RECORDS), Heads(Settings.read().heads).read(opened, path)).faults


def _calls(row: Row, known: Facts) -> Iterator[str]:
    """What was asked of the model: nothing else than in one go, nothing before it was durable, no answered call twice."""
    asked = set().union(*row.asked)
    if asked != known.reserved:
        yield f"other calls than in one go: {sorted(asked ^ known.reserved)}"
    for place, left in enumerate(row.deaths):
        if row.asked[place] - left.reserved:
            yield f"asked before that was durable: {sorted(row.asked[place] - left.reserved)}"
        again = left.settled & set().union(*row.asked[place + 1:])
        if again:
            yield f"settled, and asked again: {sorted(again)}"
