"""Runs into which one exception is thrown at a random call, and what their resume makes of them.

The place is any call (or resumption of a coroutine) of a Python function of the rooms that do an attempt's work, found by the
interpreter's own trace hook, so that no list of places has to be kept: `sys.settrace` may raise in the frame that it is told of.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import re
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import FrameType
from typing import Any

from crash_scenes import SCENES, TILL, Scene, react
from scripted import events

import metaflow_agents
from metaflow_agents.api.run import go_on, start
from metaflow_agents.errors import JournalError, MetaflowError
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.runtime.handle import Run, RunResult
from metaflow_agents.schema.event import Done, Failed, Reserved, RunEnded

PACKAGE = str(Path(metaflow_agents.__file__).parent) + "/"
ROOMS = ("agent/", "doers/", "models/", "tools/", "memory/", "prompts/", "schema/", "policy/", "sandbox/", "inside.py",
         "runner.py", "workspace.py", "folder.py", "documents/", "quotations/", "contract/", "planning/", "people/")
CLEANING = ("__exit__", "__aexit__", "__del__", "close", "aclose", "settle", "_release", "forget", "release", "stop", "end")
"""What cleans up after others is no place of an attempt: what a broken release leaves held is another matter."""
GOES_ON = ("plan_and_execute",)
"""Where a part that fails is a part of the plan."""
NAME = "run"


MIXED = """
    sop: mixed
    inputs: {{names: [string]}}
    roles: {{clerk: {{profile: You write., tools: [read, write]}}}}
    artifacts:
      letters: {{each: {{text: string}}}}
      counted: {{schema: {{n: integer, words: [string]}}}}
      notes: {{files: ["notes/**"]}}
      listing: {{}}
      checked: {{schema: {{found: [string]}}}}
    steps:
      write: {{role: clerk, needs: [names], foreach: {{in: names, as: name}}, makes: letters, RULE,
              task: "Write {{{{ name }}}}."}}
      count: {{call: "counting:count", needs: [letters], makes: counted, RULE}}
      note: {{role: clerk, needs: [counted], makes: notes, RULE, check: {{run: "grep -q n notes/a.txt"}}}}
      list: {{value: "counted.words | sort | join(' ') ~ (notes | join(' '))", needs: [counted, notes], makes: listing, RULE}}
      look: {{run: [python, -c, COMMAND], parse: json out.json, needs: [notes, listing], makes: checked, RULE}}
"""
COMMAND = "import json, os; json.dump(dict(found=sorted(os.listdir('notes'))), open('out.json', 'w'))"
COUNTING = """
    def count(letters):
        return {"n": len(letters), "words": [one["text"] for one in letters.values()]}
"""


def mixed(rule: str) -> str:
    return MIXED.format().replace("RULE", rule).replace("COMMAND", json.dumps(COMMAND))


def mixing(request: ModelRequest) -> Any:
    if request.step == "write":
        name = re.findall(r"Write (\w+)", str(request.messages[-1]["content"]))[-1]
        return json.dumps({"text": f"to {name}"})
    if not any(message["role"] == "tool" for message in request.messages):
        return Reply(text="", calls=(ToolCall("c1", "write", {"path": "notes/a.txt", "text": "n\n"}),))
    return "Done."


OWN = {"retried": Scene(mixed("retries: 2"), lambda: mixing, {"names": ["ann", "bob"]}, {"counting.py": COUNTING}),
       "skipped": Scene(mixed("on_fail: skip"), lambda: mixing, {"names": ["ann", "bob"]}, {"counting.py": COUNTING}),
       "stopped": Scene(mixed("on_fail: stop"), lambda: mixing, {"names": ["ann", "bob"]}, {"counting.py": COUNTING})}
"""One of each kind of step, under each rule of what becomes of a failure."""


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Own(BaseException):
    """Of somebody's library, and no Exception."""


EXCEPTIONS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("odd \udc80 value"), "KeyError": lambda: KeyError("k\ud800"),
    "OverflowError": lambda: OverflowError("int too large to convert to float"),
    "RecursionError": lambda: RecursionError("maximum recursion depth exceeded"),
    "UnicodeEncodeError": lambda: UnicodeEncodeError("utf-8", "a\udcffb", 1, 2, "surrogates not allowed"),
    "OSError": lambda: OSError(28, "No space left on device", "file\udc80"), "PermissionError": lambda: PermissionError(13, "no"),
    "AttributeError": lambda: AttributeError("'NoneType' object has no attribute 'x'"),
    "TypeError": lambda: TypeError("unhashable"),
    "ZeroDivisionError": lambda: ZeroDivisionError("division by zero"), "TimeoutError": TimeoutError,
    "CancelledError": lambda: asyncio.CancelledError("by nobody"), "Silent": Silent, "Own": lambda: Own("mine"),
    "ExceptionGroup": lambda: ExceptionGroup("two", [ValueError("one\udc80"), KeyError("two")]),
    "ConnectionError": lambda: ConnectionResetError(104, "reset"), "MemoryError": MemoryError,
    "sqlite3": lambda: sqlite3.OperationalError("disk I/O error"), "StopIteration": lambda: StopIteration("over"),
    "StopAsyncIteration": StopAsyncIteration, "AssertionError": AssertionError, "IndexError": lambda: IndexError("list index"),
    "huge": lambda: RuntimeError("x" * 3_000_000), "lines": lambda: RuntimeError("a\nb\x1b[31m\u202e"),
}
ALL = {**SCENES, **OWN}
PLACES = (*OWN, "single", "chain_of_thought", "self_consistency", "react", "route", "debate", "plan_and_execute", "task_queue",
          "tree_of_thoughts_breadth_first", "review", "talks_to", "stuck", "sop", "lessons", "summary", "react_in_foreach",
          "characters")


@dataclass
class Trouble:
    """Raises one exception at the `at`-th call (of `named`, where that is given); counts them where there is none."""

    at: int = 0
    make: Callable[[], BaseException] | None = None
    named: str = ""
    count: int = 0
    place: str = ""
    lock: Any = field(default_factory=threading.Lock)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if not eligible(frame.f_code.co_filename, frame.f_code.co_name) or not begins(frame):
            return
        if self.named and frame.f_code.co_qualname != self.named:
            return
        with self.lock:
            self.count += 1
            now = self.count == self.at
        if now and self.make is not None:
            self.place = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno} {frame.f_code.co_qualname}"
            raise self.make()


@cache
def eligible(file: str, name: str) -> bool:
    return file.startswith(PACKAGE) and file.removeprefix(PACKAGE).startswith(ROOMS) and name not in CLEANING


def begins(frame: FrameType) -> bool:
    """No resumption of a generator or a coroutine: what is raised there was raised in what it waits for."""
    resumable = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return not frame.f_code.co_flags & resumable or frame.f_lineno == frame.f_code.co_firstlineno


@contextmanager
def troubled(trouble: Trouble | None) -> Iterator[None]:
    if trouble is None:
        yield
        return
    before = sys.gettrace()
    threading.settrace(trouble)
    sys.settrace(trouble)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)                              # type: ignore[arg-type]


@dataclass
class Ended:
    """How a run ended: its result, or what it raised; and what the loop was told that nobody else heard of."""

    result: RunResult | None
    error: BaseException | None
    unheard: list[str]

    @property
    def outcome(self) -> str:
        return f"raised {self.error!r:.200}" if self.result is None else self.result.outcome


def drive(make: Callable[[], Run], trouble: Trouble | None) -> Ended:
    """The run to its end, in a loop of its own; within, the exception is thrown."""
    unheard: list[str] = []

    async def whole() -> Ended:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(str(told.get("message"))))
        try:
            async with asyncio.timeout(60), make() as going:
                with troubled(trouble):
                    return Ended(await going.result(), None, unheard)
        except (Exception, asyncio.CancelledError, Own) as error:       # the loop's own end prints a task with what it raised
            return Ended(None, error, unheard)

    with no_standstill():
        return asyncio.run(whole())


@contextmanager
def no_standstill() -> Iterator[None]:
    """A loop that nothing wakes any more is ended from outside: no timeout within it helps where cancelling waits, too."""
    def ended(*_: Any) -> None:
        raise AssertionError("the run waits for ever")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(180)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def stage(folder: Path) -> None:
    """The SOPs of the scenes, in a folder of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "till.py").write_text(dedent(TILL).replace("OUTSIDE", str(folder / "outside")))
    (folder / "adding.py").write_text(dedent(react.ADDING))
    for name, scene in ALL.items():
        scene.lay(folder, name)


def begun(scene: Scene, name: str, folder: Path, home: Path) -> Run:
    models = {each: model() for each, model in scene.models.items()}
    return start(folder / f"{name}.yaml", model=scene.model(), models=models, workspace=home, name=NAME, sandbox="none",
                 inputs=scene.given(folder))


def gone_on(scene: Scene, home: Path) -> Run:
    models = {each: model() for each, model in scene.models.items()}
    return go_on(NAME, model=scene.model(), models=models, workspace=home, sandbox="none", asker=not_happened)


async def not_happened(question: Question, number: int) -> Answer | None:
    """An effect that was cut off where one beside it failed: it is done again."""
    return Answer(verdict="no") if question.kind == "effect" else None


@dataclass(frozen=True)
class Untroubled:
    calls: int
    outcome: str
    outputs: dict[str, Any]
    errors: int
    again: int


class Harness:
    """Throws exceptions into scenes. `folder`: where the SOPs and the runs lie."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sops = folder, folder / "sops"
        stage(self.sops)
        self._known: dict[str, Untroubled] = {}
        self.runs = 0
        self.ends: dict[str, int] = {}

    def known(self, name: str) -> Untroubled:
        if name not in self._known:
            drive(lambda: begun(ALL[name], name, self.sops, self.folder / f"{name}-warm"), None)     # what is imported late
            counting, home = Trouble(), self.folder / f"{name}-whole"
            ended = drive(lambda: begun(ALL[name], name, self.sops, home), counting)
            assert ended.result is not None and not ended.unheard, ended
            self._known[name] = Untroubled(counting.count, ended.outcome, dict(ended.result.outputs),
                                           tool_errors(home), asked_again(home))
        return self._known[name]

    def throw(self, name: str, at: int, kind: str) -> list[str]:
        """What is wrong with how the run ended, or with what its resume gave; nothing where all is well."""
        known, scene = self.known(name), ALL[name]
        self.runs += 1
        home = self.folder / f"{name}-{self.runs}"
        trouble = Trouble(at, EXCEPTIONS[kind])
        ended = drive(lambda: begun(scene, name, self.sops, home), trouble)
        told = f"{name}, {kind} at call {at} of {known.calls}: {trouble.place or 'nowhere'}: "
        faults = [f"{told}unheard: {one}" for one in ended.unheard]
        if ended.error is not None and not isinstance(ended.error, MetaflowError) and events(home, NAME, RunEnded):
            return faults                       # the run had ended, and was being told of: no place of an attempt
        beside = isinstance(ended.error, Own) and trouble.place.startswith(("workspace.py", "folder.py"))   # as a kill
        if ended.error is not None and not isinstance(ended.error, MetaflowError) and not beside:
            return [*faults, f"{told}{ended.outcome}"]
        if ended.error is not None and not isinstance(ended.error, JournalError) and not beside:
            faults.append(f"{told}{ended.outcome}")
        first = ended.outcome
        failed = events(home, NAME, Failed)
        if name == "retried" and failed and first != known.outcome:
            faults.append(f"{told}an attempt failed, and no other was made: {first}")
        if name == "skipped" and any(event.stops for event in failed):
            faults.append(f"{told}`on_fail: skip` is not kept: {first}")
        if name == "skipped" and failed and first == "failure":
            return faults                       # what was skipped is not there, as the SOP has it
        if ended.result is not None and not ended.result.ok and not ended.result.reason:
            faults.append(f"{told}ended as {first} without a reason")
        if ended.result is not None and ended.outcome in ("success", "failure"):
            self._count(first)
            return faults + self._judged(told, known, home, ended)
        self._count(first.partition("(")[0])
        ended = drive(lambda: gone_on(scene, home), None)
        if ended.result is None or ended.outcome != known.outcome:
            reason = "" if ended.result is None else ended.result.reason
            return [*faults, f"{told}was {first}, and its resume {ended.outcome} {reason[:200]}"]
        return faults + self._judged(f"{told}was {first}: ", known, home, ended)

    def _judged(self, told: str, known: Untroubled, home: Path, ended: Ended) -> list[str]:
        assert ended.result is not None
        failed = events(home, NAME, Failed)
        if any(not event.error.isascii() and not encodable(event.error) for event in failed):
            return [f"{told}a failure that can't be written"]
        if asked_again(home) > known.again:
            return []                           # and it said something else
        if tool_errors(home) > known.errors:
            return []                           # a role was told that its tool failed, and went on from there
        if told.startswith(GOES_ON) or any(event.final and not event.stops for event in failed):
            return []                           # it was skipped, and others went on without it
        if ended.outcome != known.outcome:
            return [f"{told}ended as {ended.outcome}, not {known.outcome}: {ended.result.reason[:200]}"]
        if plain(ended.result.outputs) != plain(known.outputs):
            return [f"{told}made {dict(ended.result.outputs)!r:.300}, not {known.outputs!r:.300}"]
        return []

    def _count(self, outcome: str) -> None:
        self.ends[outcome] = self.ends.get(outcome, 0) + 1

    def random(self, seed: int, count: int) -> list[str]:
        """`count` exceptions at places that follow from the seed, spread over the scenes."""
        chance, faults = random.Random(seed), list[str]()
        for number in range(count):
            name = PLACES[number % len(PLACES)]
            faults += self.throw(name, chance.randint(1, self.known(name).calls), chance.choice(list(EXCEPTIONS)))
        return faults


def plain(outputs: Any) -> str:
    """Outputs without the numbers of attempts, which some models tell."""
    return re.sub(r"~\d+", "~", repr(dict(outputs)))


def encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def tool_errors(home: Path) -> int:
    return sum(event.error for event in events(home, NAME, Done))


def asked_again(home: Path) -> int:
    """How often a model was told what is wrong with its answer: what a check raises is what it says of the answer."""
    return sum("/repair." in event.key for event in events(home, NAME, Reserved))
