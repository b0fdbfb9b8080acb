"""The task queue on GSM8K: sums that follow from each other, beside tasks that bring nothing, within a bound.

Nakajima, "Task-driven Autonomous Agent Utilizing GPT-4, Pinecone, and LangChain for Diverse Applications" (2023), BabyAGI.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.papers.arithmetic import Problem, computed, problems
from benchmarks.papers.planned import carried_out, item_of
from benchmarks.papers.row import PaperRow
from metaflow_agents.models.port import ModelRequest

BOUND = 6
"""Tasks that may be done of one problem; most have fewer sums, and with a check after each all have more."""
ONCE = """{% if task is none %}The tasks to begin with:{% else %}No further tasks: give an empty list.{% endif %}
"""
"""The prompt of a queue that does not grow: nobody is asked what follows."""
_DONE = re.compile(r"<(?:done|failed)[^>]*>\n(.*)\n<(?:result|failed)>\n(.*)\n</")
_WAITING = re.compile(r"(?m)^- (\d+): (.*)$")


@dataclass
class Counts:
    """Over all problems: right answers, orders that lost a task, of these told, tasks that were lost in the end."""

    right: int = 0
    lossy: int = 0
    told: int = 0
    lost: int = 0


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    fitting = ((key, problem) for key, problem in problems(data).items() if 1 < len(problem.sums) <= BOUND)
    asked = dict(islice(fitting, 128))
    whole, fifo = solved(asked), solved(asked, "reprioritise: false")
    once, forgetful = solved(asked, "prompts: {create: once.md.j2}"), solved(asked, forgets=True)
    return [
        PaperRow("task_queue", f"GSM8K, {BOUND} tasks at most: right; without reprioritising; without new tasks",
                 "none published", f"{whole.right}; {fifo.right}; {once.right} of {len(asked)}",
                 "in the model's place a program that makes the sums which follow from a result, and beside each a check that "
                 "brings nothing"),
        PaperRow("task_queue", "orders of the queue that lacked a task: told so; right in the end; tasks lost",
                 "none published: there the list that the model gives is the queue",
                 f"{forgetful.told} of {forgetful.lossy}; {forgetful.right} of {len(asked)}; {forgetful.lost}",
                 "the program leaves out the last task of each first order, and mends what it is told by number"),
    ]


def solved(asked: Mapping[str, Problem], parameters: str = "", *, forgets: bool = False) -> Counts:
    """Does the problems. `forgets`: each first order leaves out the task that it puts last."""
    counts, made, done = Counts(), dict[str, set[str]](), dict[str, set[str]]()

    async def model(request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        key = item_of(request)
        problem, said = asked[key], [str(one["content"]) for one in request.messages if one["role"] == "user"]
        if "/create" in request.key:
            tasks = _following(problem, said[0])
            made.setdefault(key, set()).update(tasks)
            return {"tasks": tasks}
        if "/order" in request.key:
            order = _ordered(_WAITING.findall(said[0]))
            again = len(said) > 1
            counts.lossy += forgets and not again
            counts.told += forgets and again and "is missing, and would be lost" in said[-1]
            return {"order": order[:-1] if forgets and not again else order}
        if "/do/" in request.key:
            done.setdefault(key, set()).add(_part(said[-1]))
            return _result(said[-1])
        waiting = set(re.findall(r"(?m)^- (.*)$", said[-1].partition("There was no time for these")[2]))
        counts.lost += len(made[key] - done[key] - waiting)
        return {"results": [_value_of(said[-1], len(problem.sums) - 1)]}

    more = f", {parameters}" if parameters else ""
    found = carried_out({key: problem.question for key, problem in asked.items()}, model,
                        f"{{task_queue: {{tasks: {BOUND}{more}}}}}", **({"once": ONCE} if "once" in parameters else {}))
    counts.right = sum(problem.right(found[key][0]) for key, problem in asked.items() if key in found)
    return counts


def _task(problem: Problem, number: int) -> str:
    return f"Compute r{number} = {problem.sums[number].text}"


def _following(problem: Problem, said: str) -> list[str]:
    """At the beginning the sums that need no other. After one: a check of it, and those that need it and nothing undone."""
    if "To begin" in said or "tasks to begin with" in said:
        return [_task(problem, number) for number, one in enumerate(problem.sums) if not one.needs]
    told = re.search(r"<done>\nCompute (r\d+) = ", said)
    if told is None:
        return []
    known = {told[1], *re.findall(r"(?m)^- Compute (r\d+) = ", said.partition("Done before it:")[2].partition("Waiting in")[0])}
    waits = {*re.findall(r"(?m)^- Compute (r\d+) = ", said.partition("Waiting in the queue:")[2])}
    return [f"Check {told[1]}", *(_task(problem, number) for number, one in enumerate(problem.sums)
                                  if f"r{number}" not in known | waits and told[1] in {f"r{need}" for need in one.needs}
                                  and {f"r{need}" for need in one.needs} <= known)]


def _ordered(waiting: Sequence[tuple[str, str]]) -> list[int]:
    """Sums by their number, checks last."""
    return [int(number) for number, _ in sorted(waiting, key=lambda one: (one[1].startswith("Check"), one[1]))]


def _part(said: str) -> str:
    (task,) = re.findall(r"<part>\n(.*)\n</part>", said)
    return str(task)


def _result(said: str) -> dict[str, Any]:
    """Computes a sum from the results that the prompt shows."""
    task, known = _part(said), _known(said)
    if not task.startswith("Compute"):
        return {"ok": True, "result": "looks right"}
    text = task.partition(" = ")[2]
    missing = [name for name in re.findall(r"<(\w+)>", text) if name not in known]
    if missing:
        return {"ok": False, "result": f"there is no {', '.join(missing)}"}
    return {"ok": True, "result": computed(re.sub(r"<(\w+)>", lambda found: f"({known[found[1]]})", text))}


def _known(said: str) -> dict[str, str]:
    return {task.split()[1]: value for task, value in _DONE.findall(said) if task.startswith("Compute")}


def _value_of(said: str, last: int) -> str:
    return _known(said).get(f"r{last}", "")
