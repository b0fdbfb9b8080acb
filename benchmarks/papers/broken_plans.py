"""Plans broken in one of four ways, and a stand-in that mends them by what it is told alone."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from benchmarks.papers.planned import Plan, answered, carried_out, filled, item_of, task_of
from metaflow_agents.models.port import ModelRequest


def mended_plans(plans: Mapping[str, Plan]) -> tuple[int, int]:
    """How many broken plans were accepted in the end, of how many."""
    chance = random.Random(24)
    broken = {f"{key}-{way.__name__}": wrong for key, plan in plans.items() for way in (_unknown, _twice, _circle, _namesake)
              if (wrong := way(plan, chance)) is not None}
    accepted = set()

    def model(request: ModelRequest) -> Any:
        key = item_of(request)
        if task_of(request):
            return answered(request, *filled(request)[:1], "")
        if "/plan." not in request.key:
            accepted.add(key)
            return {"results": []}
        plan = broken[key]
        for message in request.messages:
            if message["role"] == "user" and "Your answer can't be taken" in str(message["content"]):
                plan = _as_told(plan, str(message["content"]))
        return {"tasks": plan}

    carried_out(dict.fromkeys(broken, ""), model, "{plan_and_execute: {tasks: 50, replans: 0}}")
    return len(accepted), len(broken)


def _unknown(plan: Plan, chance: random.Random) -> Plan | None:
    """A need with a letter too many."""
    users = [task for task in plan if task["needs"]]
    if not users:
        return None
    wrong = chance.choice(users)
    return [{**task, "needs": [f"{task['needs'][0]}x", *task["needs"][1:]]} if task is wrong else task for task in plan]


def _twice(plan: Plan, chance: random.Random) -> Plan | None:
    """A task that makes what another one makes, and not its own."""
    if len(plan) < 2:
        return None
    one, other = chance.sample(plan, 2)
    return [{**task, "makes": other["makes"]} if task is one else task for task in plan]


def _circle(plan: Plan, chance: random.Random) -> Plan | None:
    """The first task of a way needs its last one."""
    ways = [(need[1:], task) for task in plan for need in task["needs"]]
    if not ways:
        return None
    first, last = chance.choice(ways)
    return [{**task, "needs": [*task["needs"], *last["makes"]]} if task["name"] == f"t{first}" else task for task in plan]


def _namesake(plan: Plan, chance: random.Random) -> Plan | None:
    """Two tasks of one name."""
    if len(plan) < 2:
        return None
    one, other = chance.sample(plan, 2)
    return [{**task, "name": other["name"]} if task is one else task for task in plan]


def _as_told(plan: Plan, told: str) -> Plan:
    """The plan with what the message names, changed as it says."""
    makers = {name: task["name"] for task in plan for name in task["makes"]}
    unknown = re.findall(r"`(\w+)` needs `(\w+)`, which no task makes: (?:did you mean `(\w+)`)?", told)
    double = re.findall(r"`(\w+)` is made by .* and `(\w+)`:", told)
    for name, need, meant in unknown:
        if not double:
            plan = [{**task, "needs": [meant if one == need else one for one in task["needs"]]} if task["name"] == name else task
                    for task in plan]
    for name, by in double:
        plan = [{**task, "makes": [unknown[0][1] if unknown else f"{name}b"]} if task["name"] == by else task for task in plan]
    for way in re.findall(r"wait for each other: (.*?);", told):
        circle = re.findall(r"`(\w+)`", way)
        plan = [{**task, "needs": [need for need in task["needs"] if makers.get(need) != circle[-2]]}
                if task["name"] == circle[-1] else task for task in plan]
    for name in re.findall(r"tasks are called `(\w+)`", told):
        places = [place for place, task in enumerate(plan) if task["name"] == name]
        plan = [{**task, "name": f"{name}b"} if place == places[-1] else task for place, task in enumerate(plan)]
    return plan
