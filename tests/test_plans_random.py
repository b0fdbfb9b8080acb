"""Later versions of random plans, against a small model of the rules: what is done stands, what changed runs, the rest goes.

The model knows nothing of the engine. Of each version of a plan it says which tasks are asked, and what stands afterwards.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripted import write
from tiers import some

from metaflow_agents import resume, run, start
from metaflow_agents.models.port import ModelRequest

COUNT = 120
NAMES = "abcdefgh"
ROUNDS = 5
DESK = """
    sop: desk
    inputs: {goal: string}
    roles: {planner: {profile: You plan.}, writer: {profile: You write.}}
    artifacts:
      plan:
        schema: {tasks: [{id: string, what: string, needs: [string]}]}
        graph: {nodes: tasks, key: id, edges: needs}
      MADE
    steps:
      make_plan: {role: planner, needs: [goal], makes: plan}
      do:
        role: writer
        needs: [plan]
        foreach: {in: plan.tasks, as: task}
        task: "Do {{ task.what }} after{% for one in prior | sort %} {{ one }}={{ prior[one]SEEN }}{% endfor %} (end)"
        on_fail: skip
        PARTS
      replan: {role: planner, needs: [made], sees: [plan], makes: plan, rounds: 5}
    outputs: [made]
"""
KINDS = {
    "collection": DESK.replace("MADE", "made: {each: {v: string}}").replace("SEEN", ".v").replace("PARTS", "makes: made"),
    "files": DESK.replace("MADE", 'made: {files: "pages/**"}').replace("SEEN", "['pages/' ~ one] | trim").replace(
        "PARTS", 'makes: {made: ["pages/{{ task.id }}", "pages/{{ task.id }}.*"]}'),
}
Task = dict[str, Any]


def plans(seed: int) -> list[list[Task]]:
    """Versions of a plan: tasks join, leave, change, wait for others; their order changes. Every fifth `what` can't be done."""
    chance = random.Random(seed)

    def task(name: str, earlier: list[str]) -> Task:
        what = f"job{chance.randrange(6)}" if chance.random() < 0.85 else "impossible"
        return {"id": name, "what": what, "needs": sorted(one for one in earlier if chance.random() < 0.35)}

    order = chance.sample(NAMES, len(NAMES))                   # nobody comes after one that is later in here: no circles
    tasks = {name: task(name, order[:place]) for place, name in enumerate(order) if chance.random() < 0.6}
    found: list[list[Task]] = []
    for _ in range(chance.randint(2, ROUNDS + 1)):
        known = {name: {**one, "needs": [other for other in one["needs"] if other in tasks]} for name, one in tasks.items()}
        found.append(chance.sample(list(known.values()), len(known)))
        for place, name in enumerate(order):
            fate = chance.random()
            if name in tasks and fate < 0.15:
                del tasks[name]
            elif (name not in tasks and fate < 0.25) or (name in tasks and fate < 0.35):
                tasks[name] = task(name, [one for one in order[:place] if one in tasks])
    return found


def worked(task: str) -> str | None:
    """What a task comes to, by the words of its prompt: None where it can't be done. Two jobs in a row come to the same."""
    what, after = re.findall(r"Do (\S+) after(.*?) \(end\)", task, re.DOTALL)[-1]
    return None if what == "impossible" else f"{int(what[3:]) // 2}({' '.join(after.split())})"


@dataclass
class Model:
    """The rules. `done`: task → (what it was made of, what it came to, in which round); `files`: task → path → text of what it
    wrote since it stands. Files have the round in their names, so that what a task made is another thing each time.
    """

    kind: str
    done: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: int = 0
    walked: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def plan(self, tasks: list[Task], round_: int) -> tuple[set[str], bool]:
        """Takes in a version: the tasks that are asked, and whether anything of it is new."""
        by_name = {task["id"]: task for task in tasks}
        now: dict[str, tuple[str, str, int]] = {}
        asked: set[str] = set()
        lost: set[str] = set()
        while len(now) + len(lost) < len(tasks):
            for name, task in by_name.items():
                if name in now or name in lost or not all(one in now or one in lost for one in task["needs"]):
                    continue
                if any(one in lost for one in task["needs"]):
                    lost.add(name)
                    continue
                before = self._before(name, by_name)
                made_of = json.dumps([task, {one: self._made(now[one]) for one in before}], sort_keys=True)
                if self.done.get(name, ("", "", 0))[0] == made_of:
                    now[name] = self.done[name]
                    continue
                asked.add(name)
                words = " ".join(f"{one}={now[one][1]}" for one in sorted(before))
                came = worked(f"Do {task['what']} after {words} (end)")
                if came is None:
                    lost.add(name)
                else:
                    now[name] = made_of, came, round_
                    self._write(name, came, round_)
        dropped = [name for name in self.walked if name not in by_name]
        for name in (*dropped, *lost):
            self.files.pop(name, None)
        fresh = bool(asked or lost or dropped) or not self.versions
        self.versions += fresh
        self.done, self.walked = now, [task["id"] for task in tasks]
        self.order = [task["id"] for task in tasks if task["id"] in now] if fresh else self.order
        return asked, fresh

    def stands(self) -> dict[str, Any]:
        if self.kind == "files":
            return {path: text for paths in self.files.values() for path, text in paths.items()}
        return {name: {"v": self.done[name][1]} for name in self.order}

    def _made(self, one: tuple[str, str, int]) -> list[Any]:
        return [one[1], one[2] if self.kind == "files" else 0]

    def _before(self, name: str, by_name: dict[str, Task]) -> set[str]:
        found = set(by_name[name]["needs"])
        return found.union(*(self._before(one, by_name) for one in found)) if found else found

    def _write(self, name: str, came: str, round_: int) -> None:
        self.files.setdefault(name, {}).update({f"pages/{name}": came, f"pages/{name}.{round_}": came})


class Desk:
    """Plays the planner and the writer; at its `at`-th call it stops the run instead."""

    def __init__(self, versions: list[list[Task]], kind: str, at: int = 0) -> None:
        self.versions, self.kind, self.at = versions, kind, at
        self.keys: list[str] = []
        self.answered: list[str] = []
        self.stop: Any = None

    async def __call__(self, request: ModelRequest) -> Any:
        self.keys.append(request.key)
        if len(self.keys) == self.at:
            self.stop()
            await asyncio.sleep(3600)
        self.answered.append(request.key)
        round_ = int(request.key.partition("@")[2].partition("[")[0].partition("~")[0])
        if request.step != "do":
            place = 0 if request.step == "make_plan" else round_
            return {"tasks": self.versions[min(place, len(self.versions) - 1)]}
        name = request.key.partition("[")[2].partition("]")[0]
        came = worked("\n".join(str(message["content"]) for message in request.messages if message["role"] == "user"))
        if came is None:
            return "I can't."
        if self.kind == "collection":
            return {"v": came}
        return "\n".join(f"=== file: pages/{path} ===\n{came}\n=== end ===" for path in (name, f"{name}.{round_}"))


def asked(keys: list[str]) -> dict[int, list[str]]:
    """Round → the tasks that were asked in it, each attempt at its answer counted once."""
    found: dict[int, list[str]] = {}
    for key in dict.fromkeys(key.partition("/")[0] for key in keys if key.startswith("do@")):
        found.setdefault(int(key[3:].partition("[")[0]), []).append(key.partition("[")[2].partition("]")[0])
    return found


def expected(kind: str, versions: list[list[Task]]) -> tuple[dict[int, set[str]], dict[str, Any]]:
    """Round → the tasks that the rules ask, and what stands in the end."""
    model, told = Model(kind), {}
    for round_ in range(1, ROUNDS + 2):
        told[round_], fresh = model.plan(versions[min(round_ - 1, len(versions) - 1)], round_)
        if not fresh:
            break                                              # nothing new was made, and so nothing is planned anew
    return {round_: names for round_, names in told.items() if names}, model.stands()


def plain(made: Any) -> dict[str, Any]:
    return {key: value.removesuffix("\n") if isinstance(value, str) else value for key, value in made.items()}


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_later_plan_keeps_what_is_done_runs_what_changed_and_drops_the_rest(tmp_path: Path, kind: str) -> None:
    path, seen = write(tmp_path, KINDS[kind]), Counter[str]()
    seeds = some(range(COUNT), 4)
    for seed in seeds:
        versions = plans(seed)
        told, stands = expected(kind, versions)
        desk = Desk(versions, kind)
        home = tmp_path / "runs" if kind == "files" and seed % 5 == 0 else None
        result = await run(path, goal="x", model=desk, workspace=home, name=f"run{seed}")
        assert result.ok, (seed, result.reason)
        calls = asked(desk.keys)
        assert {round_: set(names) for round_, names in calls.items()} == told, seed
        assert all(len(names) == len(set(names)) for names in calls.values()), seed
        assert plain(result["made"]) == stands, seed
        assert kind == "files" or list(result["made"]) == list(stands), (seed, "the order of the list")
        if home is not None:
            there = {f"pages/{file.name}" for file in (home / f"run{seed}" / "pages").glob("*")}
            assert there == set(stands), (seed, "the folder holds what stands and nothing else")
        wanted = [{task["id"] for task in version} for version in versions]
        seen["tasks dropped"] += sum(len(a - b) for a, b in pairwise(wanted))
        seen["plans"] += max(calls, default=0)
        seen["asked"] += sum(map(len, calls.values()))
        seen["kept"] += sum(len(version) for version in versions) - sum(map(len, calls.values()))
    assert seen["plans"] > 2 * len(seeds) and min(seen.values()) > len(seeds), seen


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", some(range(0, 24, 3), 4))
async def test_a_replanned_run_that_is_stopped_anywhere_comes_to_the_same(tmp_path: Path, seed: int) -> None:
    kind = list(KINDS)[seed % 2]
    path, versions = write(tmp_path, KINDS[kind]), plans(seed)
    whole = Desk(versions, kind)
    await run(path, goal="x", model=whole, workspace=None)
    _, stands = expected(kind, versions)
    first = Desk(versions, kind, at=random.Random(seed).randint(1, len(whole.keys)))
    async with start(path, goal="x", model=first, workspace=tmp_path, name="it") as going:
        first.stop = going.stop
        assert (await going.result()).outcome == "interrupted"
    again = Desk(versions, kind)
    result = await resume("it", model=again, workspace=tmp_path)
    assert result.ok and plain(result["made"]) == stands
    assert not set(first.answered[:-1]) & set(again.keys), "what was finished is not asked again"
    assert set(first.answered) | set(again.answered) == set(whole.keys)
