"""Plans that others published, carried out: GSM8K's solutions as tasks, HuggingGPT's demonstrations, TaskBench's graph of tools.

Wang et al., "Plan-and-Solve Prompting" (ACL 2023); Shen et al., "HuggingGPT" (NeurIPS 2023); Shen et al., "TaskBench" (2023);
Kim et al., "An LLM Compiler for Parallel Function Calling" (ICML 2024).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx

from benchmarks.papers.arithmetic import Problem, computed, problems
from benchmarks.papers.broken_plans import mended_plans
from benchmarks.papers.planned import Plan, answered, asked_of, carried_out, filled, item_of, results_in, task_of
from benchmarks.papers.row import PaperRow
from metaflow_agents.models.port import ModelRequest

BLIND = """One part of the whole, without the results that it works from:
<part name="{{ task.name }}">
{{ task.does }}
</part>
"""


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    asked = problems(data)
    told, blind, alone = solved(asked), solved(asked, blind=True), solved(asked, strategy="single")
    shown, bench = demonstrations(data), tool_plans(data)
    wide = [widths(plans) for plans in (shown, bench)]
    orders = smith()
    mended = mended_plans(dict(itertools.islice(bench.items(), 60)))
    return [
        PaperRow("plan_and_execute", "GSM8K, each sum a task: right where tasks are given the results they need; not "
                                     "given them; one call for all",
                 "59.3 % (PS+), 56.4 % (chain of thought; Plan-and-Solve, table 2)",
                 f"{told}; {blind}; {alone} of {len(asked)}",
                 "in the model's place a program that plans the published solution and does one sum a call: shown is that "
                 "results reach who needs them"),
        PaperRow("plan_and_execute", "HuggingGPT's demonstrations: tasks with the result of doing them one by one",
                 "no figure of this kind", f"{wide[0].same} of {wide[0].tasks}",
                 "HuggingGPT scores how well models plan; here the models behind the tasks are stand-ins"),
        PaperRow("plan_and_execute", "graphs whose measured concurrency is their width: HuggingGPT; TaskBench",
                 "no figure of this kind", f"{wide[0].reached} of {wide[0].plans}; {wide[1].reached} of {wide[1].plans}",
                 "TaskBench's own plans are not at hand: for each of its requests a plan is made on its graph of tools"),
        PaperRow("plan_and_execute", "TaskBench's requests: rounds of calls, tasks side by side; one by one",
                 "up to 3.7 times faster than ReAct (LLMCompiler, abstract)",
                 f"{wide[1].rounds:,}; {wide[1].tasks:,}: {wide[1].tasks / wide[1].rounds:.2f} times fewer",
                 "rounds are counted, not seconds; other tasks"),
        PaperRow("plan_and_execute", "by value over effort, one at a time: weighted completion time the least of all orders",
                 "always the least (Smith 1956, a theorem)", f"{orders.best} of {orders.all}; in the order of the plan "
                 f"{100 * (orders.planned / orders.least - 1):.0f} % more", "seeded values and efforts of 6 tasks"),
        PaperRow("plan_and_execute", "TaskBench: plans broken in one of 4 ways, mended by what is told alone",
                 "no figure of this kind", f"{mended[0]} of {mended[1]}",
                 "a program that does what the message says; of two makers of one result it guesses which is wrong"),
    ]


# -- GSM8K: each calculator mark of the published solution is a task

def plan_of(problem: Problem) -> Plan:
    """Each sum a task that needs the sums whose results stand in it."""
    return [{"name": f"s{number}", "does": f"Compute {sum_.text}.", "needs": [f"r{one}" for one in sum_.needs],
             "makes": [f"r{number}"], "value": 1, "effort": 1} for number, sum_ in enumerate(problem.sums)]


def solved(asked: Mapping[str, Problem], *, blind: bool = False, strategy: str = "") -> int:
    """How many problems come out right. `blind`: tasks are not given results; `strategy`: another one."""
    async def model(request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        problem = asked[item_of(request)]
        if "/plan." in request.key and not task_of(request):
            return {"tasks": plan_of(problem)}
        if task_of(request):
            does, missing = filled(request, "({})")
            value = "" if missing else computed(does.removeprefix("Compute ").removesuffix("."))
            return answered(request, value, f"there is no value of {missing}" if missing else "")
        shown = results_in(asked_of(request))
        return {"results": [[*shown.values()][-1] if shown else computed(problem.sums[0].text)]}    # one sum a call

    prompts = ", prompts: {execute: blind.md.j2}" if blind else ""
    written = strategy or f"{{plan_and_execute: {{tasks: 50, replans: 0{prompts}}}}}"
    found = carried_out({key: problem.question for key, problem in asked.items()}, model, written,
                        **({"blind": BLIND} if blind else {}))
    return sum(problem.right(found[key][0]) for key, problem in asked.items() if key in found)


# -- HuggingGPT and TaskBench: graphs of tools

def demonstrations(data: Path) -> dict[str, Plan]:
    """The demonstrations of task parsing as plans. Their brackets are broken in part: each task is read on its own."""
    talk = json.loads((data / "hugginggpt/demo_parse_task.json").read_text(encoding="utf-8"))
    found = {}
    for number, (_, said) in enumerate(zip(talk[::2], talk[1::2], strict=True)):
        tasks = [json.JSONDecoder().raw_decode(said["content"], at.start())[0]
                 for at in re.finditer(r'\{"task"', said["content"])]
        found[f"d{number}"] = [_demonstrated(task) for task in tasks]
    return found


def _demonstrated(task: Mapping[str, Any]) -> dict[str, Any]:
    told = " ".join(str(value) for value in task["args"].values())
    told = re.sub(r"<GENERATED>-(\d+)|<GENERATED-(\d+)>", lambda found: f"<r{found[1] or found[2]}>", told)
    return {"name": f"t{task['id']}", "does": f"{task['task']}({told})", "needs": [f"r{one}" for one in task["dep"] if one >= 0],
            "makes": [f"r{task['id']}"], "value": 1, "effort": 1}


def tool_plans(data: Path) -> dict[str, Plan]:
    """For each request of TaskBench a plan of the tools that its words call for. A tool works on what the last tool before it
    made that the published graph joins to it, for each kind of input; else on what the request gives.
    """
    graph = json.loads((data / "taskbench_huggingface/graph_desc.json").read_text(encoding="utf-8"))
    tools = {node["id"]: node for node in graph["nodes"]}
    joined = {(link["source"], link["target"], link["type"]) for link in graph["links"]}
    lines = (data / "taskbench_huggingface/user_requests.jsonl").read_text(encoding="utf-8").splitlines()
    found = {}
    for request in map(json.loads, lines):
        chosen = _called_for(request["user_request"], tools)
        plan: Plan = []
        for number, name in enumerate(chosen):
            needs = {}
            for kind in tools[name]["input-type"]:
                makers = [one for one in range(number) if (chosen[one], name, kind) in joined]
                if makers:
                    needs[f"r{makers[-1]}"] = None
            told = ", ".join(f"<{one}>" for one in needs) or "the request"
            plan.append({"name": f"t{number}", "does": f"{name}({told})", "needs": [*needs], "makes": [f"r{number}"],
                         "value": 1, "effort": 1})
        found[request["id"]] = plan
    return found


def _called_for(request: str, tools: Mapping[str, Any]) -> list[str]:
    """Up to 8 tools that share most stems with a request, as in the order in which it speaks of them; one at least."""
    words = [word[:5] for word in re.findall(r"[a-z]{4,}", request.casefold())]
    places = {}
    for name in tools:
        stems = {word[:5] for word in re.findall(r"[a-z]{4,}", name.casefold())}
        hits = [place for place, word in enumerate(words) if word in stems]
        if hits:
            places[name] = (len({words[place] for place in hits}) / len(stems), hits[0])
    best = sorted(places, key=lambda name: -places[name][0])[:8]
    return sorted(best, key=lambda name: places[name][1]) or [next(iter(tools))]


@dataclass
class Widths:
    """What was measured over plans: how many had as many tasks under way as they are wide, tasks, rounds, equal results."""

    plans: int = 0
    reached: int = 0
    tasks: int = 0
    rounds: int = 0
    same: int = 0


@dataclass
class _Bench:
    """One plan under way: the tasks of its widest front are held until all of them are under way."""

    front: frozenset[str]
    running: set[str] = field(default_factory=set)
    most: int = 0
    gathered: asyncio.Event = field(default_factory=asyncio.Event)
    depth: dict[str, int] = field(default_factory=dict)


def widths(plans: Mapping[str, Plan]) -> Widths:
    """Carries plans out. A round is what could be asked for at once: one more than that of the latest task that is shown."""
    benches = {key: _Bench(front(plan)) for key, plan in plans.items()}

    async def model(request: ModelRequest) -> Any:
        name, bench = task_of(request), benches[item_of(request)]
        if not name:
            shown = results_in(asked_of(request))
            return {"tasks": plans[item_of(request)]} if "/plan." in request.key else {"results": [*shown.values()]}
        bench.running.add(name)
        bench.most = max(bench.most, len(bench.running))
        if bench.front <= bench.running:
            bench.gathered.set()
        if name in bench.front:
            async with asyncio.timeout(20):
                await bench.gathered.wait()
        bench.running.remove(name)
        needs = results_in(asked_of(request))
        bench.depth[name] = 1 + max((bench.depth[f"t{need[1:]}"] for need in needs), default=0)
        does, missing = filled(request)
        return answered(request, does, missing)

    found = carried_out(dict.fromkeys(plans, ""), model, "{plan_and_execute: {tasks: 50, parallel: 50, replans: 0}}")
    return Widths(len(plans), sum(bench.most == len(bench.front) for bench in benches.values()),
                  sum(map(len, plans.values())), sum(max(bench.depth.values()) for bench in benches.values()),
                  sum(len({*found.get(key, ())} & {*one_by_one(plan)}) for key, plan in plans.items()))


def front(plan: Plan) -> frozenset[str]:
    """The most tasks of which none waits for another: a largest antichain of the graph."""
    graph = nx.DiGraph()
    makers = {name: task["name"] for task in plan for name in task["makes"]}
    graph.add_nodes_from(makers.values())
    graph.add_edges_from((makers[need], task["name"]) for task in plan for need in task["needs"])
    return frozenset(max(nx.antichains(graph), key=len))


def one_by_one(plan: Plan) -> list[str]:
    """The results of a plan, done without the strategy."""
    makers = {name: task for task in plan for name in task["makes"]}

    def result(name: str) -> str:
        return re.sub(r"<(\w+)>", lambda found: result(found[1]), makers[name]["does"])

    return [result(name) for name in makers]


# -- value for effort

@dataclass
class Orders:
    """Sums over instances of the weighted completion time: as done, the least of all orders, in the order of the plan."""

    best: int = 0
    all: int = 0
    least: float = 0
    planned: float = 0


def smith(instances: int = 20, size: int = 6) -> Orders:
    """Independent tasks one at a time: the order in which they were asked for, against all orders."""
    chance = random.Random(24)
    plans = {f"i{number}": [{"name": f"t{one}", "does": "x", "needs": [], "makes": [f"r{one}"], "value": chance.randint(1, 10),
                             "effort": chance.randint(1, 10)} for one in range(size)] for number in range(instances)}
    orders: dict[str, list[dict[str, Any]]] = {key: [] for key in plans}

    async def model(request: ModelRequest) -> Any:
        name, plan = task_of(request), plans[item_of(request)]
        if name:
            orders[item_of(request)].append(next(task for task in plan if task["name"] == name))
            return answered(request, "done", "")
        return {"tasks": plan} if "/plan." in request.key else {"results": []}

    carried_out(dict.fromkeys(plans, ""), model, "{plan_and_execute: {parallel: 1}}")
    found = Orders(all=instances)
    for key, plan in plans.items():
        least = min(map(_weighted, itertools.permutations(plan)))
        found.best += _weighted(orders[key]) == least
        found.least += least
        found.planned += _weighted(plan)
    return found


def _weighted(order: Sequence[Mapping[str, Any]]) -> float:
    ends = itertools.accumulate(task["effort"] for task in order)
    return sum(task["value"] * end for task, end in zip(order, ends, strict=True))
