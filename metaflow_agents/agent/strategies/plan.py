"""A plan that a model made: its tasks, the graph that follows from what they need and make, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from metaflow_agents.errors import did_you_mean

_SHARE = {"type": "number", "exclusiveMinimum": 0}
_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.-]+$"}
_NAMES = {"type": "array", "items": _NAME}


def form(*, least: int) -> Mapping[str, Any]:
    """The form in which a plan is asked for. `least`: the fewest tasks that it may have."""
    task = {
        "name": {**_NAME, "description": "a short name of its own"},
        "does": {"type": "string", "minLength": 1, "description": "what is to be done, understood without the plan"},
        "needs": {**_NAMES, "default": [], "description": "results of other tasks that it works from, by their names"},
        "makes": {**_NAMES, "minItems": 1, "description": "its results: names that no other task's have"},
        "value": {**_SHARE, "description": "how much it brings, beside the other tasks"},
        "effort": {**_SHARE, "description": "how much work it is, beside the other tasks"},
    }
    item = {"type": "object", "properties": task, "required": list(task), "additionalProperties": False}
    return {"type": "object", "required": ["tasks"], "additionalProperties": False,
            "properties": {"tasks": {"type": "array", "minItems": least, "items": item}}}


@dataclass(frozen=True, slots=True)
class Task:
    """One task: what it needs and makes are names of results. `value` and `effort` are positive; only their ratio counts."""

    name: str
    does: str
    needs: tuple[str, ...]
    makes: tuple[str, ...]
    value: float
    effort: float

    def shown(self) -> dict[str, Any]:
        """As prompts and the journal show it."""
        return {"name": self.name, "does": self.does, "needs": list(self.needs), "makes": list(self.makes), "value": self.value,
                "effort": self.effort}


def tasks_of(plan: Mapping[str, Any]) -> tuple[Task, ...]:
    """The tasks of a plan in its form. What a task needs twice it needs once."""
    return tuple(Task(one["name"], one["does"], tuple(dict.fromkeys(one["needs"])), tuple(one["makes"]), one["value"],
                      one["effort"]) for one in plan["tasks"])


def faults_of(tasks: Sequence[Task], finished: Sequence[Task], room: int) -> list[str]:
    """What is wrong with a plan, by name, as its planner is told. `room`: the tasks that it may have."""
    found = [] if len(tasks) <= room else \
        [f"the plan has {len(tasks)} tasks, and there may be {room}: leave out what is not needed, or do more in one"]
    done = {task.name for task in finished}
    found += [f"`{name}` is done: leave it out, its results are there" for name in sorted({task.name for task in tasks} & done)]
    found += [f"{count} tasks are called `{name}`: each has a name of its own"
              for name, count in Counter(task.name for task in tasks).items() if count > 1]
    makers = _makers([*finished, *tasks])
    for name, by in makers.items():
        if len(by) > 1:
            found.append(f"`{name}` is made by {_listed(by)}: let one task make it, or give the results names of their own")
    for task in tasks:
        found += [f"`{task.name}` needs `{name}`, which no task makes: {did_you_mean(name, makers)}; what stands above the plan "
                  "is there for every task and is no need" for name in task.needs if name not in makers]
    return found + [f"these wait for each other: {way}; no task may need what is made from its own results"
                    for way in _circles(tasks, makers)]


def ready(waiting: Sequence[Task], made: Collection[str]) -> list[Task]:
    """Those of which all is there that they need: first what brings most for its effort, then what stands first in the plan."""
    return sorted((task for task in waiting if all(name in made for name in task.needs)),
                  key=lambda task: -task.value / task.effort)


def leading(tasks: Sequence[Task], made: Collection[str], count: int | None = None) -> list[Task]:
    """The first so many tasks, in the order in which they would be done one after the other: each after those that it needs.

    Whichever comes to its end first where they are done side by side, it is these.
    """
    left, there, taken = list(tasks), set(made), list[Task]()
    while (count is None or len(taken) < count) and (found := ready(left, there)):
        left.remove(found[0])
        there |= {*found[0].makes}
        taken.append(found[0])
    return taken


def before(task: Task, tasks: Sequence[Task]) -> list[Task]:
    """Those whose results a task builds on, also by way of others, in the order of `tasks`."""
    makers = {name: one for one in tasks for name in one.makes}
    wanted: set[str] = set()
    left = list(task.needs)
    while left:
        maker = makers[left.pop()]
        if maker.name not in wanted:
            wanted.add(maker.name)
            left += maker.needs
    return [one for one in tasks if one.name in wanted]


def _makers(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    makers: dict[str, list[Task]] = {}
    for task in tasks:
        for name in task.makes:
            makers.setdefault(name, []).append(task)
    return makers


def _circles(tasks: Sequence[Task], makers: Mapping[str, Sequence[Task]]) -> Iterator[str]:
    """Cycles that have no task in common, each in words."""
    graph = {task.name: {maker.name for name in task.needs for maker in makers.get(name, ())} for task in tasks}
    while True:
        try:
            TopologicalSorter({name: sorted(needs & graph.keys()) for name, needs in graph.items()}).prepare()
            return
        except CycleError as error:
            circle = error.args[1]
            yield " → ".join(f"`{name}`" for name in circle)
            graph = {name: needs for name, needs in graph.items() if name not in circle}


def _listed(tasks: Sequence[Task]) -> str:
    names = [f"`{task.name}`" for task in tasks]
    return f"`{tasks[0].name}` twice" if len(set(names)) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"
