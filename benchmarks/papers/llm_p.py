"""LLM+P to its end: `examples/classics/llm_p.yaml` on PlanBench, from the story in English to the plan told in English.

The model reads English of one form and writes PDDL, as in `solver`, and tells the plan that its prompt shows, by one sentence for
each action. Then the right texts are made wrong, in ways of ours, and held against the check alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.papers import needs, solver
from benchmarks.papers.row import PaperRow
from metaflow_agents import ModelRequest, prepare, run
from metaflow_agents.kits.planning import solving
from metaflow_agents.kits.planning.domains import read_domain
from metaflow_agents.kits.planning.executing import execute
from metaflow_agents.kits.planning.problems import read_problem
from metaflow_agents.modules import load_function

EXAMPLE = Path(__file__).parents[2] / "examples/classics"
SENTENCES = {
    "pick-up": "Pick up the block {}.", "put-down": "Put the block {} down on the table.", "stack": "Stack the block {} on {}.",
    "unstack": "Unstack the block {} from {}.",
    "load-truck": "Load {} on the truck {} at {}.", "unload-truck": "Unload {} from the truck {} at {}.",
    "load-airplane": "Load {} on the airplane {} at {}.", "unload-airplane": "Unload {} from the airplane {} at {}.",
    "drive-truck": "Drive the truck {} from {} to {} in the city {}.", "fly-airplane": "Fly the airplane {} from {} to {}.",
    "drive": "Drive {} from {} to {}.", "lift": "With {} lift {} off {} at {}.", "drop": "With {} drop {} on {} at {}.",
    "load": "With {} load {} on {} at {}.", "unload": "With {} unload {} from {} at {}.",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """What a run came to: its plan, the plan in words, the domain, and whether the plan holds in the original problem."""

    plan: dict[str, list[str]]
    text: str
    rules: str
    holds: bool


def model(request: ModelRequest) -> Any:
    """Translates the story of its prompt; says the plan of its prompt; tells it in sentences."""
    asked = str(request.messages[-1]["content"])
    if request.step == "tell":
        return "\n".join(told([action for _, action in re.findall(r"(?m)^ *(\d+)\. (\(.*\))$", asked)]))
    if request.key.endswith("/translate"):
        return solver.translator(request)
    listed = re.search(r"\(:objects(.*?)\)", asked, re.DOTALL)
    objects = re.sub(r"- \S+", "", listed[1]).split() if listed else []
    return {"objects": objects, "actions": re.findall(r"^\(.*\)$", asked.partition("\nThe plan, ")[2], re.M)}


def told(actions: Sequence[str]) -> list[str]:
    """A numbered line for each action."""
    found = [action.strip("()").split() for action in actions]
    return [f"{number}. {SENTENCES[name].format(*objects)}" for number, (name, *objects) in enumerate(found, 1)]


async def carried_out(data: Path, domain: str, most: int | None = None, sandbox: str | None = None) -> list[Planned]:
    """The problems of a domain, each a run of the example; a plan need not be the shortest. Raises RuntimeError."""
    folder = data / "planbench" / domain
    rules = (folder / "domain.pddl").read_text()
    instances = sorted(folder.glob("instance-*.pddl"))[:most]
    texts = {instance: instance.read_text() for instance in instances}
    read, _ = read_domain(rules, "domain.pddl")
    assert read is not None
    turns = asyncio.Semaphore(os.cpu_count() or 1)
    with any_plan() as sop:
        ready = prepare(sop, model=model, workspace=None, sandbox=sandbox)

        async def one(instance: Path) -> Planned:
            async with turns:
                result = await run(ready, wish=solver.story(folder, instance), rules=folder / "domain.pddl")
            if not result.ok:
                raise RuntimeError(f"{domain}, {instance.name}: the run ended as {result.outcome}: {result.reason}")
            original, _ = read_problem(texts[instance], instance.name, read)
            assert original is not None
            plan = result["plan"]
            return Planned(plan, result["instructions"], rules, execute(read, original, "\n".join(plan["actions"])).ok)

        return await asyncio.gather(*map(one, instances))


@contextmanager
def any_plan() -> Any:
    """The example in a folder of its own, with the first plan that is found in place of the shortest."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "classics")
        folder.mkdir()
        for name in ("telling.py", "telling.words.j2"):
            shutil.copy(EXAMPLE / name, folder)
        shutil.copytree(EXAMPLE / "pddl", folder / "pddl")
        data = yaml.safe_load((EXAMPLE / "llm_p.yaml").read_text(encoding="utf-8"))
        del data["steps"]["plan_it"]["strategy"]["solver"]["optimal"], data["tests"]
        (folder / "llm_p.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        yield folder / "llm_p.yaml"


def _left_out(lines: list[str], plan: dict[str, list[str]], chance: random.Random) -> tuple[list[str], str]:
    place = chance.randrange(len(lines))
    return lines[:place] + lines[place + 1:], f"step {place + 1} of the plan"


def _added(lines: list[str], plan: dict[str, list[str]], chance: random.Random) -> tuple[list[str], str]:
    place = chance.randrange(len(lines))
    return lines[:place + 1] + lines[place:], "tells `("


def _order(lines: list[str], plan: dict[str, list[str]], chance: random.Random) -> tuple[list[str], str]:
    place = chance.randrange(len(lines) - 1)
    return [*lines[:place], lines[place + 1], lines[place], *lines[place + 2:]], "out of order"


def _renamed(lines: list[str], plan: dict[str, list[str]], chance: random.Random) -> tuple[list[str], str]:
    place = chance.randrange(len(lines))
    own = plan["actions"][place].strip("()").split()[1:]
    was, other = chance.choice(own), chance.choice([name for name in plan["objects"] if name not in own] or ["nothing"])
    lines[place] = re.sub(rf"(?<![\w-]){re.escape(was)}(?![\w-])", other, lines[place])
    return lines, f"step {place + 1} of the plan"


def _negated(lines: list[str], plan: dict[str, list[str]], chance: random.Random) -> tuple[list[str], str]:
    place = chance.randrange(len(lines))
    lines[place] = lines[place].replace(". ", ". Never do this: ", 1)
    return lines, f"line {place + 1} ("


WRONG: dict[str, Callable[[list[str], dict[str, list[str]], random.Random], tuple[list[str], str]]] = {
    "a step left out": _left_out, "a step added": _added, "two steps exchanged": _order, "an object renamed": _renamed,
    "a step denied": _negated}
"""Kind of wrong text → what makes it of the lines of a right one, and what the refusal has to name."""


def refused(made: Sequence[Planned], kind: str) -> tuple[int, int]:
    """Of the right texts with at least two steps, made wrong in one way: how many there are, how many are refused by name."""
    faults = load_function("telling:faults", [EXAMPLE])
    chance, among = random.Random(4711), [one for one in made if len(one.plan["actions"]) > 1]
    count = 0
    for one in among:
        lines, named = WRONG[kind](told(one.plan["actions"]), one.plan, chance)
        text = "\n".join(f"{number}. {line.partition('. ')[2]}" for number, line in enumerate(lines, 1))
        count += any(named in fault for fault in faults(text, one.plan, one.rules))
    return len(among), count


def rows(data: Path) -> list[PaperRow]:
    """The figures of the table. Raises NotMeasured where the planner is not installed, or there is no sandbox."""
    if lacking := solving.missing():
        raise needs.NotMeasured(lacking)
    needs.sandbox()
    faults, found, all_made = load_function("telling:faults", [EXAMPLE]), [], []
    for domain in solver.DOMAINS:
        made = asyncio.run(carried_out(data, domain))
        all_made += made
        again = sum(not faults(one.text, one.plan, one.rules) for one in made)
        found.append(PaperRow(
            "llm_p", f"PlanBench {domain}: plans that hold in the original; plans found again in the words, step by step",
            "90 % of its blocksworld problems hold; its words are not checked" if domain == "blocksworld" else
            "not among its domains",
            f"{sum(one.holds for one in made)} of {len(made)}; {again} of {len(made)}",
            "in the model's place a program that reads and writes English of one form"))
    counts = {kind: refused(all_made, kind) for kind in WRONG}
    found.append(PaperRow(
        "llm_p", "wrong texts that are refused with the step or the line named", "no figure: it checks no words",
        "\n".join(f"{kind}: {right} of {many}" for kind, (many, right) in counts.items()),
        "the ways of being wrong are ours; without the check each of these texts is taken"))
    return found
