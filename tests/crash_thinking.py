"""Runs of the scenes of `crash_scenes.py` in forks that die at a chosen write; and what is left inside and outside.

Everything here is called in a process without threads (`crash_worker.py`). What a role was asked is compared as well: under the
same key the same messages, whoever asks. Where a kill cuts a payment off, whoever is asked looks outside.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import crash_harness as harness
from crash_harness import NAME, Facts
from crash_minds import minds
from crash_scenes import SCENES, TILL, Earlier, Model, Refusing, Scene, react
from scripted import tree

from metaflow_agents.api.run import go_on, start
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.memory.store import PLACE, MemoryDatabase, StoredMemory
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.model import canonical, digest
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.graph import outputs_of

LOST = "pay"
"""What this tool gives back may be lost in a crash: its results are left out of what a role was told."""


@dataclass(frozen=True, slots=True)
class Known:
    """Of a scene in one go: its facts, what it made, what was told under each key, what came into the project's memory, and
    what its journal tells of the minds of its roles.
    """

    facts: Facts
    made: Mapping[str, Any]
    told: Mapping[str, set[str]]
    memories: Sequence[Any]
    minds: Sequence[str]


_known: dict[str, Known] = {}


@contextmanager
def staged(home: Path) -> Iterator[Path]:
    """The SOPs in a folder of their own, which is given."""
    folder = _folder(home)
    folder.mkdir(parents=True)
    (folder / "till.py").write_text(dedent(TILL).replace("OUTSIDE", str(home / "outside")))
    (folder / "adding.py").write_text(dedent(react.ADDING))
    for name, scene in SCENES.items():
        scene.lay(folder, name)
    yield folder


def _folder(home: Path) -> Path:
    return home.with_name(f"{home.name}-sops")


def die_and_go_on(home: Path, name: str, kills: Sequence[tuple[int, str]], seed: int) -> dict[str, Any]:
    """See `crash_harness.die_and_go_on`."""
    known, scene = reference(home, name), SCENES[name]
    gc.freeze()                         # a collection in a fork would copy every page that it looks at
    result = harness.die_and_go_on(home, kills, known.facts, seed, partial(live, name), same_calls=not scene.freely)
    found = found_in(home, harness.facts(journal_path(home, NAME)))
    result["faults"] += different(scene, known, found)
    return {**result, "doubts": len(found.facts.doubts) // 2}


def different(scene: Scene, known: Known, found: Known) -> Iterator[str]:
    """What came of a run of the scene that did not come of it in one go."""
    if found.made != known.made:
        yield f"made {found.made}, not {known.made}"
    twice = {what: times for what, times in Counter(found.made["paid"]).items() if times > 1}
    if twice:
        yield f"paid more than once: {twice}"
    if found.memories != known.memories:
        yield f"remembered: {found.memories}, not {known.memories}"
    if found.minds != known.minds and not scene.freely:
        yield f"had in mind: {found.minds}, not {known.minds}"
    for key, told in found.told.items():
        if len(told) > 1 or (not scene.freely and told != known.told.get(key)):
            yield f"asked in other words than in one go: {key}"


def reference(home: Path, name: str) -> Known:
    """The scene in one go. In this process: what is imported late is imported here."""
    if name not in _known:
        before = threading.enumerate()
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        scene = SCENES[name]
        code, left = live(name, home), harness.left_running(home, before)
        facts = harness.facts(journal_path(home, NAME), home / NAME)
        faults = [*facts.not_once(), *left, *([f"ended with {code}"] if code else [])]
        if faults or sorted(harness.called(home)) != sorted(facts.reserved):
            raise RuntimeError(f"{name} in one go: {faults}")
        found = found_in(home, facts)
        if found.made["paid"] != sorted(scene.pays):
            raise RuntimeError(f"{name} in one go: paid {found.made['paid']}")
        at_work = {*found.minds, *facts.events}
        if not at_work.issuperset(scene.at_work):
            raise RuntimeError(f"{name} in one go: {sorted({*scene.at_work} - at_work)} is not among {sorted(at_work)}")
        _known[name] = found
    return _known[name]


def live(name: str, home: Path, kill: tuple[int, str] | None = None) -> int:
    """Goes on with the run, or begins it where there is nothing to go on with; dies where `kill` says so."""
    scene = SCENES[name]
    if scene.before and not (home / PLACE).exists():
        _come_between(home, *scene.before)
    elif scene.meanwhile is not None and (home / PLACE).exists():
        _come_between(home, scene.meanwhile)
    if kill is not None:
        harness.kill_at(*kill, home)
    given: dict[str, Any] = {"model": _answering(scene.model, home), "workspace": home, "sandbox": "none",
                             "models": {name: _answering(model, home) for name, model in scene.models.items()},
                             "asker": partial(_look_outside, home)}
    try:
        run = go_on(NAME, **given)
    except UsageError as error:
        if journal_path(home, NAME).exists() and "before it began" not in str(error):
            raise
        run = start(_folder(home) / f"{name}.yaml", inputs=scene.given(_folder(home)), name=NAME, **given)

    async def drive() -> int:
        async with run as going:
            result = await going.result()
        if not result.ok:
            raise RuntimeError(f"{result}")
        return 0

    return asyncio.run(drive())


def _come_between(home: Path, *earlier: Earlier) -> None:
    """Another run has remembered something."""
    store = MemoryDatabase(home / PLACE)
    before = len(store.listed())
    store.keep([StoredMemory(f"between-{place}", one.kind, "another", "another", one.role, f"write@{place}~0", 0.0, one.text)
                for place, one in enumerate(earlier, before)])
    store.close()


def _answering(make: Callable[[], Model], home: Path) -> Any:
    """A scene's model. Each call leaves its key in the file `calls`, and what it was told in `told`, before it answers."""
    model = make()

    async def answer(request: ModelRequest) -> Any:
        if isinstance(model, Refusing):
            model.refuse(request)
        told = [dict(message) for message in request.messages if message.get("name") != LOST]
        _append(home / "told", json.dumps([request.key, digest(canonical(told))]))
        _append(home / "calls", request.key)
        await asyncio.sleep(0)
        said = model(request)
        return await said if inspect.isawaitable(said) else said

    return answer


async def _look_outside(home: Path, question: Question, number: int) -> Answer | None:
    """Whether a payment has happened that a kill cut off; a step that paid itself goes on with what is said. An
    action may be done.
    """
    if question.kind == "action":
        return Answer(verdict="yes")
    if question.kind != "effect":
        return None
    paid = question.arguments["id"] in _lines(home / "outside")
    gave = "" if question.role or not paid else f"paid {question.arguments['id']}"
    return Answer(text=gave, verdict="yes" if paid else "no")


def found_in(home: Path, facts: Facts) -> Known:
    path = journal_path(home, NAME)
    with Journal.read(path) as journal:
        sop, its_minds = Program.model_validate_json(journal.blob(journal.state.compiled)).sop, minds(journal)
        last = {name: versions[-1] for name, versions in journal.state.versions.items() if versions}
    outputs = {name: [last[name].payload, last[name].untrusted] for name in outputs_of(sop) if name in last}
    made = {"outcome": facts.outcome, "outputs": outputs, "paid": sorted(_lines(home / "outside")), "files": tree(home / NAME)}
    told: dict[str, set[str]] = {}
    for line in _lines(home / "told"):
        key, words = json.loads(line)
        told.setdefault(key, set()).add(words)
    return Known(facts, made, told, _remembered(home / PLACE), its_minds)


def _remembered(path: Path) -> list[Any]:
    """In no order: steps that run side by side commit as it comes."""
    if not path.exists():
        return []
    store = MemoryDatabase(path)
    try:
        return sorted(([one.role, one.activation, one.kind, one.text, one.importance, one.untrusted]
                       for one in store.listed(run=NAME)), key=str)
    finally:
        store.close()


def _append(path: Path, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
