"""Runs of `crash/crash.yaml` in forked processes that die, or find the disk full, at a chosen write; and what is left of them.

Everything here is called in a process without threads (`crash_worker.py`): a fork copies the thread that forks and no other.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_minds as minds
from real_git import timeless

from metaflow_agents.api.run import fork, go_on, start
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.store import Batch, Store
from metaflow_agents.memory.store import MemoryDatabase
from metaflow_agents.modules import load_function
from metaflow_agents.runtime.handle import Run, RunResult
from metaflow_agents.schema.event import (
    Answered,
    Asked,
    Committed,
    Decided,
    Done,
    Event,
    Failed,
    Finished,
    Fired,
    Inner,
    Intended,
    Observed,
    Reserved,
    RunEnded,
    Sent,
    Settled,
)
from metaflow_agents.schema.keys import ActivationKey, firing_key, parse_activation, parse_firing
from metaflow_agents.schema.payload import Collection, blobs_of, unpack
from metaflow_agents.sop.library import Folders

SOP = Path(__file__).parent / "crash" / "crash.yaml"
NAME = "run"
KILLS = ("before", "inserted", "unsynced", "torn", "after")
"""Before the transaction; in it, open; committed but never synced, as the kernel has it (`unsynced`) and as a power cut
leaves it (`torn`: the unsynced bytes reached the disk in part); durable, and nobody told."""
BESIDE = ("partial", "renamed", "command")
"""Not at the journal: a file of the run's folder is written but not in its place, or is; a command has just been started."""
MEMORY = ("remembering", "remembered")
"""Before something comes into the project's memory, which is a file of its own, and after that."""
desk: Any = sys.modules[load_function("crash_desk:answer", Folders(SOP.parent).python).__module__]
FEW = 6
"""So many of its topics let everything happen that `crash.yaml` is for, in half of the writes."""


def begin(home: Path) -> Run:
    """The run from its first event."""
    return start(SOP, model=desk.answering(home / "calls"), sandbox="none", name=NAME, workspace=home,
                 inputs={"topics": desk.TOPICS})


def carry_on(home: Path, name: str = NAME) -> Run:
    """The run from where its journal stands."""
    return go_on(name, model=desk.answering(home / "calls"), workspace=home)


async def drive(run: Run, beside: Callable[[Run], None] | None = None) -> RunResult:
    """To the end. The editor's letter is sent once in the life of the run, however often that is taken up again."""
    desk.new_desk()
    async with run as going:
        if beside is not None:
            beside(going)
        if not going.journal.state.sent:
            await going.bus.send("desk", "editor", {"please": "be kind"})
        desk.letter_came().set()
        return await going.result()


# What a run left.


@dataclass
class Facts:
    """What must be equal however a run came to its end, and what was asked of its model."""

    outcome: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    folder: dict[str, str] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    slots: set[str] = field(default_factory=set)
    over: dict[str, int] = field(default_factory=dict)
    intended: dict[str, int] = field(default_factory=dict)
    doubts: dict[str, int] = field(default_factory=dict)        # questions whether an effect has happened: asked, and answered

    def not_once(self) -> list[str]:
        """Firings and activations that did not come to an end exactly once, of those that ever began."""
        return [f"{slot} came to an end {self.over.get(slot, 0)} times"
                for slot in sorted({*self.slots, *self.over}) if self.over.get(slot) != 1]

    def differences(self, other: Facts) -> list[str]:
        """In words, this being as it should be."""
        found = other.not_once()
        found += [] if self.outcome == other.outcome else [f"ended as {other.outcome}, not {self.outcome}"]
        for what, mine, its in (("state", self.state, other.state), ("folder", self.folder, other.folder),
                                ("times that it happened", self.events, other.events)):
            found += [f"{what}: {key}: {its.get(key)}, not {mine.get(key)}"
                      for key in sorted({*mine, *its}) if mine.get(key) != its.get(key)]
        return found


def facts(path: Path, folder: Path | None = None) -> Facts:
    """The facts of a journal, and of the run's folder where one is given. Reads every payload: none may be missing."""
    found = Facts()
    happened: Counter[str] = Counter()
    over: Counter[str] = Counter()      # slot → how often it came to an end
    with Journal.read(path) as journal:
        for _, event in journal.events():
            match event:
                case Fired():
                    firing = firing_key(event.step, event.round)
                    happened[f"fired {firing}"] += 1
                    found.slots |= {firing, *(slot_of(firing, item) for item in event.items or (None,))}
                case Committed():
                    happened[f"committed {event.firing}"] += 1
                    over.update([event.firing, *(slot_of(event.firing, item) for item in event.reused)] if event.firing else [])
                case Finished():
                    happened[f"finished {parse_activation(event.activation).slot}"] += 1
                    over[f"slot {parse_activation(event.activation).slot}"] += 1
                case Failed():
                    happened[f"failed {event.activation}"] += 1
                    over[f"slot {parse_activation(event.activation).slot}"] += event.final and not event.stops
                case Observed():
                    happened[f"observed {event.key}"] += 1
                case Reserved():
                    found.reserved.add(event.key)
                case Settled() if not event.again:
                    found.settled.add(event.key)
                case RunEnded():
                    found.outcome = event.outcome
                case _:
                    _acted(event, found, happened)
        found.state = image(journal.state)
        for made in journal.state.versions.values():
            for version in made:
                read_through(journal, version.payload)
    found.events, found.over = dict(happened), dict(over)
    found.folder = {} if folder is None else tree(folder)
    return found


def _acted(event: Event, found: Facts, happened: Counter[str]) -> None:
    """Takes in what a role did, or a person was asked."""
    match event:
        case Decided():
            happened[f"decided {event.key} {event.action}: {event.verdict}"] += 1
        case Intended():
            found.intended[event.key] = found.intended.get(event.key, 0) + 1
        case Done():
            happened[f"done {event.key}"] += 1
        case Asked() | Answered() if "/happened" in event.key:
            what = f"{event.kind} {event.key}"
            found.doubts[what] = found.doubts.get(what, 0) + 1
        case Asked() | Answered():
            happened[f"{event.kind} {event.key}"] += 1
        case Inner() | Sent():
            happened[_inward(event)] += 1


def _inward(event: Event) -> str:
    """What happened in a SOP that is a step, with the way there."""
    match event:
        case Inner():
            return f"{event.activation}/{_inward(event.event)}"
        case Fired():
            return f"fired {firing_key(event.step, event.round)}"
        case Committed():
            return f"committed {event.firing}"
        case Finished() | Failed():
            return f"{event.kind} {event.activation}"
        case Sent():
            return f"sent {event.key}"
    raise TypeError(event.kind)


def slot_of(firing: str, item: str | None) -> str:
    step, round_ = parse_firing(firing)
    return f"slot {ActivationKey(step, round_, item, 0).slot}"


def image(state: RunState) -> dict[str, Any]:
    """A fold without times, spending and the order in which things happened."""
    return {"versions": state.versions, "maker": state.maker, "fired": state.fired, "cursor": state.cursor,
            "active": list(state.active), "last": state.last, "walked": state.walked, "reads": state.reads,
            "memory": minds.timeless(state), "activations": state.activations, "sent": [sent.payload for sent in state.sent]}


def read_through(journal: Journal, digest: str) -> None:
    """Raises JournalError where a payload, or what it names, is not in the journal."""
    payload = unpack(journal.blob(digest))
    for name in blobs_of(payload):
        if isinstance(payload, Collection):
            read_through(journal, name)
        else:
            journal.blob(name)


def tree(folder: Path) -> dict[str, str]:
    """Path → mode and hash of its bytes, for everything in a folder, and what its repository tells that follows no times."""
    files = (path for path in sorted(folder.rglob("*")) if not path.is_dir() and ".git" not in path.relative_to(folder).parts)
    return {**timeless(folder), **{path.relative_to(folder).as_posix():
                                   f"{path.lstat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files}}


def called(home: Path) -> list[str]:
    """The keys of all calls of the model so far."""
    try:
        return (home / "calls").read_text().splitlines()
    except FileNotFoundError:
        return []


# Processes.


def forked(home: Path, work: Callable[[], Any]) -> int:
    """Does some work in a fork and waits for its end: its exit code, negative for a signal. A traceback goes to `home/trace`."""
    # An idle thread that asks warm workers is one that a fork makes anew when it first asks (`Threads._executor`).
    lost = [one for one in threading.enumerate() if one is not threading.main_thread() and not one.name.startswith("worker_")]
    if lost:
        raise RuntimeError(f"a fork would lose threads: {lost}")
    child = os.fork()
    if child == 0:
        code = 99
        try:
            (home / "tmp").mkdir(exist_ok=True)
            tempfile.tempdir = str(home / "tmp")
            code = int(work() or 0)
        except BaseException:
            (home / "trace").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(number: int | str, phase: str, home: Path) -> Callable[[], int]:
    """From now on this process dies at its `number`-th transaction, file, command or batch of memories, in one phase of it.

    Of a transaction `number` may be an event that it holds, too: `done KEY`. What comes back tells how many of them there were.
    """
    if phase in KILLS:
        return _kill_at_write(number, phase, home)
    count = 0

    def dies() -> bool:
        nonlocal count
        count += 1
        return count == number

    owner, name = {"command": (subprocess, "Popen"), **dict.fromkeys(MEMORY, (MemoryDatabase, "keep"))}.get(
        phase, (os, "replace")
    )
    work = getattr(owner, name)

    def working(*arguments: Any, **options: Any) -> Any:
        now = dies()
        if now and phase in ("partial", "remembering"):
            die()
        made = work(*arguments, **options)
        if now:
            if phase == "command":
                made.send_signal(signal.SIGSTOP)    # until it was seen to have outlived the run: most end within a millisecond
            die()
        return made

    setattr(owner, name, working)
    return lambda: count


def _kill_at_write(number: int | str, phase: str, home: Path) -> Callable[[], int]:
    begin_and_insert, commit = Store._begin_and_insert, Store._commit
    writes, now = 0, False

    def dying_begin(store: Store, batches: Sequence[Batch]) -> None:
        nonlocal writes, now
        writes += 1
        now = writes == number or (isinstance(number, str) and _holds(batches, number))
        if now:
            if phase == "before":
                die()
            if phase in ("unsynced", "torn"):
                # In WAL mode every commit is synced at FULL, and none before a checkpoint below that (sqlite.org/pragma.html).
                synced = store._writing().execute("PRAGMA synchronous").fetchone()[0] >= 2
                (home / "synced-wal").write_bytes(Path(f"{store.path}-wal").read_bytes() if synced else b"")
                store._writing().execute("PRAGMA synchronous=OFF")
        begin_and_insert(store, batches)
        if now and phase == "inserted":
            die()

    def dying_commit(store: Store) -> None:
        commit(store)
        if now:
            die()

    Store._begin_and_insert, Store._commit = dying_begin, dying_commit      # type: ignore[method-assign]
    return lambda: writes


def _holds(batches: Sequence[Batch], event: str) -> bool:
    kind, _, key = event.partition(" ")
    return any(row[1] == kind and json.loads(row[2])["key"] == key for batch in batches for row in batch.rows)


def tear(home: Path, chance: random.Random) -> None:
    """What a power cut may leave: of all that was not synced, in the WAL and in the run's folder, a part."""
    wal = Path(f"{journal_path(home, NAME)}-wal")
    new, old = wal.read_bytes(), (home / "synced-wal").read_bytes()
    same = next((place for place, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), min(len(new), len(old)))
    cut = chance.randint(same, len(new))
    wal.write_bytes(new[:cut] + old[cut:])
    Path(f"{journal_path(home, NAME)}-shm").unlink()
    for path in [*sorted((home / NAME).rglob("*.txt")), *sorted((home / NAME / ".git").rglob("[!.]*"))]:
        if chance.random() < 0.3 and path.is_file():
            path.write_bytes(path.read_bytes()[: chance.randint(0, 5)])


def marked(home: Path) -> list[int]:
    """Commands that were started by runs in this home, and still run."""
    found, mark = [], f"SOP_COMMAND_FOLDER={os.path.realpath(home)}/".encode()
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/environ", "rb") as environment:
                if mark in environment.read():
                    found.append(int(process))
        except OSError:
            continue                    # it ended meanwhile, or is somebody else's
    return found


def gone(home: Path, within: float = 10.0) -> bool:
    """Whether no command of a killed run is left, or will be soon."""
    deadline = time.monotonic() + within
    while marked(home):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def left_running(home: Path, before: Sequence[threading.Thread] = ()) -> list[str]:
    """Threads and processes that this process has not ended, but for threads that were there `before`, and those that talk with
    warm workers: they are the process's own, for all its runs.
    """
    gc.collect()                        # pools of threads end with their owners
    deadline = time.monotonic() + 5
    known = {threading.current_thread(), *before}

    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread not in known and not thread.name.startswith("worker_")]

    while threads() and time.monotonic() < deadline:
        time.sleep(0.002)
    return [*(f"thread {name}" for name in threads()), *(f"command {pid}" for pid in marked(home))]


# One death, or several, and the way on.


@dataclass
class Life:
    """What one process of a run did: calls of the model, and the facts that it left, if it was killed."""

    code: int
    asked: set[str]
    survivors: int
    left: Facts | None = None


Process = Callable[[Path, tuple[int, str] | None], int]
"""What one process of a run does, in a fork: the folder, and where it dies. Its exit code."""


def live(home: Path, kill: tuple[int, str] | None = None, name: str = NAME) -> int:
    """In a fork: goes on with the run, or begins it where there is nothing to go on with; dies where `kill` says so."""
    if kill is not None:
        kill_at(*kill, home)
    try:
        run = carry_on(home, name)
    except UsageError as error:
        if journal_path(home, NAME).exists() and "before it began" not in str(error):
            raise
        run = begin(home)
    return 0 if asyncio.run(drive(run)).outcome == "success" else 1


def reference(home: Path) -> Facts:
    """The run in one go. It also warms the process up: what is imported late is imported here."""
    before = threading.enumerate()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    result = asyncio.run(drive(begin(home)))
    left = left_running(home, before)
    if result.outcome != "success" or left:
        raise RuntimeError(f"the run in one go: {result}, left running: {left}")
    found = facts(journal_path(home, NAME), home / NAME)
    if faults := found.not_once():
        raise RuntimeError(f"the run in one go: {faults}")
    if sorted(called(home)) != sorted(found.reserved):
        raise RuntimeError("the run in one go asked twice")
    return found


def die_and_go_on(home: Path, kills: Sequence[tuple[int, str]], reference: Facts, seed: int,
                  process: Process = live, *, same_calls: bool = True) -> dict[str, Any]:
    """Kills the run at each of these moments in turn, goes on to the end, and compares. `reached`: how many it came to.

    Without `same_calls` its facts are not those of the reference: whoever asks for that compares what it made.
    """
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    chance = random.Random(seed)
    lives: list[Life] = []
    for kill in kills:
        lives.append(_life(home, kill, chance, process))
        if lives[-1].left is None or lives[-1].left.outcome == "success":
            break                       # it came to its end before that moment, or the moment was its end
    killed = [life for life in lives if life.left is not None]
    resumed = bool(killed) and (lives[-1].left is None or lives[-1].left.outcome != "success")
    if resumed and lives[-1].left is not None:
        lives.append(_life(home, None, chance, process))
    calls = Counter(called(home))
    return {
        "reached": len(killed),
        "faults": [*faults(home, lives, resumed=resumed), *(others(home, lives, reference) if same_calls else ())],
        "survivors": sum(life.survivors for life in lives), "excess": sum(calls.values()) - len(reference.reserved),
        "in_flight": sum(len(life.left.reserved - life.left.settled) for life in lives if life.left is not None)}


def die_and_fork(home: Path, number: int, reference: Facts, seed: int) -> dict[str, Any]:
    """Kills the run at a write, forks it as a whole and before a firing taken by chance, and brings all three to the end."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    chance, found = random.Random(seed), []
    killed = _life(home, (number, chance.choice(KILLS)), chance).left
    branches = [NAME]
    if killed is not None and killed.outcome != "success":
        firings = sorted(key.split()[1] for key in killed.events if key.startswith("fired "))
        at = [None, *(chance.sample(firings, 1) if firings else ())] if killed.state["sent"] or firings else []
        branches += [fork(NAME, at=firing, workspace=home) for firing in at]
    for branch in branches:
        code = forked(home, lambda branch=branch: live(home, name=branch))
        if code:
            found.append(f"{branch} ended with {code}: {trace(home)}")
        else:
            found += [f"{branch}: {told}" for told in reference.differences(facts(journal_path(home, branch), home / branch))]
    return {"reached": len(branches) - 1, "faults": found}


def _life(home: Path, kill: tuple[int, str] | None, chance: random.Random, process: Process = live) -> Life:
    before = len(called(home))
    code = forked(home, lambda: process(home, kill))
    survivors = marked(home)
    for command in survivors:
        with suppress(ProcessLookupError):      # it may end of itself meanwhile
            os.kill(command, signal.SIGCONT)
    life = Life(code, set(called(home)[before:]), len(survivors))
    if code == -signal.SIGKILL and kill is not None:
        if kill[1] == "torn":
            tear(home, chance)
        life.left = at_death(journal_path(home, NAME), home / f"death-{before}-{chance.random()}")
    return life


def others(home: Path, lives: Sequence[Life], reference: Facts) -> Iterator[str]:
    """All that is not as in the run that was never killed."""
    yield from reference.differences(facts(journal_path(home, NAME), home / NAME))
    asked = {key for life in lives for key in life.asked}
    if asked != reference.reserved:
        yield f"other calls than in one go: {sorted(asked ^ reference.reserved)}"


def faults(home: Path, lives: Sequence[Life], *, resumed: bool) -> Iterator[str]:
    """All that may not be of any run that was killed."""
    path = journal_path(home, NAME)
    if not gone(home):
        yield f"commands of a killed process live on: {marked(home)}"
    if resumed and sorted(os.listdir(path.parent)) != [path.name]:
        yield f"left beside the journal: {sorted(os.listdir(path.parent))}"
    for place, life in enumerate(lives):
        if life.left is None:
            if life.code:
                yield f"a process ended with {life.code}: {trace(home)}"
            continue
        if life.asked - life.left.reserved:
            yield f"asked before that was durable: {sorted(life.asked - life.left.reserved)}"
        again = life.left.settled & {key for later in lives[place + 1:] for key in later.asked}
        if again:
            yield f"settled, and asked again: {sorted(again)}"


def at_death(path: Path, copy: Path) -> Facts:
    """The facts of a journal as a dead process left it. Read in a copy, so that the resume meets the very files."""
    copy.mkdir()
    if not path.exists():
        return Facts()
    for end in ("", "-wal"):
        if Path(f"{path}{end}").exists():
            shutil.copyfile(f"{path}{end}", copy / f"{path.name}{end}")
    return facts(copy / path.name)


def trace(home: Path) -> str:
    """The traceback of the last process that failed."""
    try:
        return (home / "trace").read_text()
    except FileNotFoundError:
        return "no traceback"
