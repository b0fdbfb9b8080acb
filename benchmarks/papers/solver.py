"""LLM+P (Liu et al. 2023) on PlanBench: worlds told in English, translated, solved by Fast Downward, checked by the validator.

The model is a function that reads the English of its prompt and writes PDDL, sentence by sentence: it shows what the machinery
does, not what a language model knows. `corrupted` says in how many ways its PDDL is broken on purpose.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.papers import needs
from benchmarks.papers.corrupted import KINDS, Kind, base_of, mended
from benchmarks.papers.row import PaperRow
from metaflow_agents import run
from metaflow_agents.kits.planning import solving
from metaflow_agents.kits.planning.domains import read_domain
from metaflow_agents.kits.planning.executing import execute
from metaflow_agents.kits.planning.model import AllOf, Atom, Condition, Holds
from metaflow_agents.kits.planning.problems import read_problem

DOMAINS = ("blocksworld", "logistics", "depots")
SOP = """
sop: plans
inputs: {rules: string, story: string}
roles: {planner: {profile: You plan.}}
artifacts: {done: {schema: {steps: [string]}}}
steps:
  plan_it: {role: planner, needs: [rules, story], makes: done, task: "{{ story }}", strategy: {solver: {PARAMETERS}}}
"""
_SENTENCES = {
    "clear": "nothing lies on {0}", "ontable": "{0} lies on the table", "handempty": "the hand is empty",
    "holding": "the hand has {0}", "on": "{0} lies on {1}", "at": "{0} is at {1}", "in": "{0} is in {1}",
    "in-city": "{0} belongs to the city {1}",
    "obj": "{0} is a package", "truck": "{0} is a truck", "location": "{0} is a place", "airplane": "{0} is a plane",
    "city": "{0} is a city", "airport": "{0} is an airport", "lifting": "{0} lifts {1}", "available": "{0} is free",
}
Answer = Callable[[Any], Any]
T = TypeVar("T")


def story(folder: Path, instance: Path) -> str:
    """A PlanBench problem in English: who is there, what is true at first, what has to be."""
    domain, _ = read_domain((folder / "domain.pddl").read_text(), "domain.pddl")
    assert domain is not None
    problem, faults = read_problem(instance.read_text(), instance.name, domain)
    assert problem is not None and not faults, faults
    there = [f"There is {name}, of the kind {type_}." for name, type_ in problem.objects.items()]
    first = [f"At first {_sentence(atom)}." for atom in sorted(problem.initial)]
    last = [f"In the end {_sentence(atom)}." for atom in _atoms(problem.goal)]
    return "\n".join([f"The world is called {domain.name}.", *there, *first, *last])


def translated(told: str) -> str:
    """The problem in PDDL that a story tells: what a model makes of its prompt."""
    name = re.search(r"The world is called (\S+)\.", told)
    there = re.findall(r"There is (\S+), of the kind (\S+)\.", told)
    first = [_fact(one) for one in re.findall(r"^At first (.+)\.$", told, re.M)]
    last = [_fact(one) for one in re.findall(r"^In the end (.+)\.$", told, re.M)]
    kinds = "\n ".join(one if kind == "object" else f"{one} - {kind}" for one, kind in there)
    nl = "\n "
    return (f"(define (problem told)\n(:domain {name[1] if name else ''})\n(:objects\n {kinds})\n(:init\n {nl.join(first)})\n"
            f"(:goal (and\n {nl.join(last)})))")


def translator(request: Any) -> Any:
    """A model that translates the story of its prompt, and then tells the plan of its prompt."""
    told = request.messages[-1]["content"]
    if request.key.endswith("/translate"):
        return f"=== file: problem.pddl ===\n{translated(told)}\n=== end ==="
    return {"steps": re.findall(r"^\(.*\)$", told.partition("\nThe plan, ")[2], re.M)}


async def solved(rules: str, told: str, model: Answer, parameters: str, sandbox: str | None = None) -> list[str]:
    """The plan that the strategy comes to."""
    with tempfile.TemporaryDirectory() as folder:
        path = _written(Path(folder), parameters)
        result = await run(path, rules=rules, story=told, model=model, workspace=None, sandbox=sandbox)
        steps: list[str] = result["done"]["steps"]
        return steps


async def planbench(data: Path, domain: str, most: int | None = None, sandbox: str | None = None) -> tuple[int, int, int]:
    """Of a domain's problems: how many there are, how many were solved and hold in the original, actions of all plans."""
    folder = data / "planbench" / domain
    rules = (folder / "domain.pddl").read_text()
    read, _ = read_domain(rules, "domain.pddl")
    assert read is not None
    instances = sorted(folder.glob("instance-*.pddl"))[:most]
    given = "domain: rules, plan: answer.steps"
    plans = await _side_by_side([solved(rules, story(folder, one), translator, given, sandbox) for one in instances])
    held = 0
    for instance, steps in zip(instances, plans, strict=True):
        original, _ = read_problem(instance.read_text(), instance.name, read)
        assert original is not None
        held += execute(read, original, "\n".join(steps)).ok
    return len(instances), held, sum(map(len, plans))


async def _side_by_side(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """What they give, in their order; as many at once as there are cores, since a planner keeps one busy."""
    turns = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(work: Coroutine[Any, Any, T]) -> T:
        async with turns:
            return await work

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(work)) for work in works]
    return [task.result() for task in tasks]


class Careless:
    """A model whose first answer is broken in one way, and which then does what the faults name, and nothing else.

    `deaf`: it is told nothing, which shows what the telling is worth.
    """

    def __init__(self, kind: Kind, texts: Mapping[str, str], *, deaf: bool = False) -> None:
        self.kind, self.deaf = kind, deaf
        self.texts = {**texts, kind.file: kind.broken(texts[kind.file])}
        self.mends = 0

    def __call__(self, request: Any) -> Any:
        """The texts as they stand, or the plan of its prompt."""
        told = request.messages[-1]["content"]
        if request.key.endswith("/turn.0"):
            return {"steps": re.findall(r"^\(.*\)$", told.partition("\nThe plan, ")[2], re.M)}
        if "/mend." in request.key:
            self.mends += 1
            self.texts = dict(self.texts) if self.deaf else mended(self.texts, told)
        return "\n".join(f"=== file: {name} ===\n{text}\n=== end ===" for name, text in self.texts.items())


async def repaired(data: Path, kind: Kind, *, deaf: bool = False, sandbox: str | None = None) -> tuple[list[str], int]:
    """The plan that a broken translation comes to, and how often it was mended. Raises RunError where it is not."""
    texts = base_of(data, kind)
    model = Careless(kind, texts, deaf=deaf)
    steps = await solved("", "Do what is asked.", model, "plan: answer.steps, repairs: 8", sandbox)
    return steps, model.mends


def rows(data: Path) -> list[PaperRow]:
    """The figures of the table. Raises NotMeasured where the planner is not installed, or there is no sandbox."""
    if lacking := solving.missing():
        raise needs.NotMeasured(lacking)
    needs.sandbox()
    return asyncio.run(_rows(data))


async def _rows(data: Path) -> list[PaperRow]:
    found = []
    for domain in DOMAINS:
        count, held, actions = await planbench(data, domain)
        found.append(PaperRow(
            "solver", f"PlanBench {domain}: problems whose plan holds in the original; actions in all",
            "90 % of its blocksworld problems" if domain == "blocksworld" else "not among its domains",
            f"{held} of {count}; {actions:,}", "in the model's place a program that reads English of one form, and other "
            "problems: the figure is of the solver, the validator and the loop"))
    mends = [count for _, count in await _side_by_side([repaired(data, kind) for kind in KINDS])]
    found.append(PaperRow("solver", "kinds of broken PDDL repaired by a model that mends only what the message names",
                          "no figure: it repairs nothing", f"{len(mends)} of {len(KINDS)}, by {sum(mends)} mends in all",
                          "the ways of breaking it are ours"))
    return found


def _written(folder: Path, parameters: str) -> Path:
    path = folder / "plans.yaml"
    path.write_text(SOP.replace("PARAMETERS", parameters))
    return path


def _sentence(atom: Atom) -> str:
    return _SENTENCES[atom[0]].format(*atom[1:])


def _fact(sentence: str) -> str:
    for name, form in _SENTENCES.items():
        pattern = re.escape(form).replace(r"\{0\}", r"(\S+)").replace(r"\{1\}", r"(\S+)")
        if name not in ("on", "at") and (found := re.fullmatch(pattern, sentence)):
            return f"({' '.join((name, *found.groups()))})"
    for name in ("on", "at"):
        found = re.fullmatch(_SENTENCES[name].replace("{0}", r"(\S+)").replace("{1}", r"(\S+)"), sentence)
        if found:
            return f"({' '.join((name, *found.groups()))})"
    raise ValueError(f"no sentence of this world: {sentence}")


def _atoms(condition: Condition) -> list[Atom]:
    if isinstance(condition, Holds):
        return [condition.atom]
    return [atom for part in condition.parts for atom in _atoms(part)] if isinstance(condition, AllOf) else []
