"""The same work done three ways, each in a process of its own: what `overhead.py` compares.

    python -m benchmarks.contenders engine chain http://127.0.0.1:PORT --count 100 --folder FOLDER

`engine` is this framework with everything on; `openai` a loop written by hand on `openai.AsyncOpenAI` as it comes, which saves
each answer in a file; `aiohttp` the same loop without a client library. What is done:

- `chain`: four roles, one after the other, each given what the one before it said and its own last turn; `count` times round;
- `runs`: such chains, `count` of them, each a run of its own with its journal, its folder and its repository;
- `team`: a planner, `count` engineers side by side, one who judges all that they wrote;
- `start`: one chain, to see when its first request comes.

It prints one line of JSON: calls, processor seconds (children counted), seconds, and the most memory ever (bytes).
Nothing is imported before it is needed: `start` measures that too.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metaflow_agents import RunResult

Ask = Callable[[list[dict[str, str]]], Awaitable[str]]
"""Messages → the answer's text."""

SYSTEM = "You are {role}: somebody who knows this trade. Your goal: good work.\n\n- be brief\n- say what is so\n"
NEXT = "Write the next note after the one before it."
PART = "Write the file src/{id}.py. It is one of {count} parts and does this: {text}"
JUDGE = "Say whether this does what was asked for."
WAIT = {"chain": 0, "runs": 0, "start": 0, "team": 200}        # milliseconds that the endpoint takes


def messages(role: str, task: str, material: str = "", before: tuple[str, str] | None = None) -> list[dict[str, str]]:
    """A conversation as a person would put it together by hand."""
    turn = [] if before is None else [{"role": "user", "content": before[0]}, {"role": "assistant", "content": before[1]}]
    return [{"role": "system", "content": SYSTEM.format(role=role)}, *turn, {"role": "user", "content": f"{material}\n\n{task}"}]


def save(folder: Path, name: str, text: str) -> None:
    """One answer, kept."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def chain_by_hand(ask: Ask, folder: Path, count: int) -> int:
    """Four roles in turn."""
    said, last = "a pocket calculator", dict[int, tuple[str, str]]()
    for number in range(4 * count):
        role = number % 4
        said = await ask(messages(f"worker_{role}", NEXT, said, last.get(role)))
        last[role] = NEXT, said
        save(folder, f"docs/n{role}.md", said)
    return 4 * count


async def runs_by_hand(ask: Ask, folder: Path, count: int) -> int:
    """Chains that know nothing of each other."""
    return sum([await chain_by_hand(ask, folder / str(number), 1) for number in range(count)])


async def team_by_hand(ask: Ask, folder: Path, count: int) -> int:
    """Plan, build in parallel, judge."""
    parts = json.loads(await ask(messages("planner", f"Plan {count} parts.", "a pocket calculator")))["parts"]

    async def build(part: dict[str, str]) -> str:
        said = await ask(messages("engineer", PART.format(count=count, **part)))
        text = said.split("===\n", 1)[1].rsplit("=== end", 1)[0]
        save(folder, f"src/{part['id']}.py", text)
        return said

    built = await asyncio.gather(*map(build, parts))
    save(folder, "verdict.md", await ask(messages("judge", JUDGE, "\n".join(built))))
    return count + 2


BY_HAND: dict[str, Callable[[Ask, Path, int], Awaitable[int]]] = {
    "chain": chain_by_hand, "runs": runs_by_hand, "start": chain_by_hand, "team": team_by_hand}


async def with_openai(task: str, url: str, folder: Path, count: int) -> dict[str, float]:
    """The bare loop."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:1/v1") as client:
        def asking(wait: int) -> Ask:
            there = client.with_options(base_url=f"{url}/{wait}/v1")

            async def ask(conversation: list[dict[str, str]]) -> str:
                answer = await there.chat.completions.create(model="mock", messages=conversation)  # type: ignore[arg-type]
                return answer.choices[0].message.content or ""
            return ask

        return await measured(task, folder, count, asking)


async def with_aiohttp(task: str, url: str, folder: Path, count: int) -> dict[str, float]:
    """The least that Python does it with."""
    from aiohttp import ClientSession, TCPConnector

    async with ClientSession(connector=TCPConnector(limit=0)) as session:
        def asking(wait: int) -> Ask:
            async def ask(conversation: list[dict[str, str]]) -> str:
                headers = {"Authorization": "Bearer none"}
                body = {"model": "mock", "messages": conversation}
                async with session.post(f"{url}/{wait}/v1/chat/completions", json=body, headers=headers) as answer:
                    found: str = (await answer.json())["choices"][0]["message"]["content"]
                    return found
            return ask

        return await measured(task, folder, count, asking)


async def measured(task: str, folder: Path, count: int, asking: Callable[[int], Ask]) -> dict[str, float]:
    """A loop by hand, after one small one that warms everything."""
    if task != "start":
        await chain_by_hand(asking(0), folder / "warm", 1)
    with Clock() as clock:
        clock.calls = await BY_HAND[task](asking(WAIT[task]), folder / "work", count)
    return clock.told


class Clock:
    """Processor time (children counted), time, and the most memory of what is done in it."""

    calls = 0
    told: dict[str, float]

    def __enter__(self) -> Clock:
        self._began, self._used = time.perf_counter(), _used()
        return self

    def __exit__(self, *_: object) -> None:
        most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        self.told = {"calls": self.calls, "cpu": _used() - self._used, "wall": time.perf_counter() - self._began,
                     "memory": most * (1 if sys.platform == "darwin" else 1024)}


def _used() -> float:
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in found)


def chain_sop(count: int) -> str:
    """Four roles in a loop; each version of what one makes is a file in the run's folder and a commit in its repository."""
    roles = "".join(f"  worker_{n}: {{{_WHO}, memory: {{window: 1 turns}}}}\n" for n in range(4))
    artifacts = "".join(f"  n{n}: {{file: docs/n{n}.md}}\n" for n in range(4))
    steps = "".join(
        f"  s{n}: {{role: worker_{n}, makes: n{n}, task: \"{NEXT}\", "
        + (f"needs: [n{n - 1}]}}\n" if n else f"needs: [idea], wants: [n3], rounds: {count}}}\n") for n in range(4))
    return f"sop: chain\ninputs: {{idea: string}}\nroles:\n{roles}artifacts:\n{artifacts}steps:\n{steps}outputs: [n3]\n"


def team_sop(count: int) -> str:
    """A planner, engineers side by side, each with a file of its own, and a judge."""
    task = PART.format(count="{{ plan.parts | length }}", id="{{ part.id }}", text="{{ part.text }}")
    return f"""\
sop: team
inputs: {{idea: string}}
roles: {{planner: {{{_WHO}}}, engineer: {{{_WHO}}}, judge: {{{_WHO}}}}}
artifacts:
  plan: {{schema: {{parts: [{{id: string, text: string}}]}}}}
  app: {{files: ["src/*.py"]}}
  verdict: {{file: verdict.md}}
steps:
  plan_it: {{role: planner, needs: [idea], makes: plan, task: "Plan {count} parts."}}
  build: {{role: engineer, needs: [plan], makes: {{app: "src/{{{{ part.id }}}}.py"}},
    foreach: {{in: plan.parts, as: part, key: part.id}}, task: "{task}"}}
  judge: {{role: judge, needs: [app], makes: verdict, task: "{JUDGE}"}}
outputs: [app, verdict]
"""


_WHO = "profile: somebody who knows this trade, goal: good work, constraints: [be brief, say what is so]"
SOPS: dict[str, Callable[[int], str]] = {"chain": chain_sop, "start": chain_sop, "team": team_sop}


async def with_engine(task: str, url: str, folder: Path, count: int) -> dict[str, float]:
    """Everything on: SOP checked, journal synced, files in the run's folder, git history at the end."""
    if task != "start":
        await _run("chain", f"{url}/0/v1", folder, 1, "warm")
    url = f"{url}/{WAIT[task]}/v1"
    with Clock() as clock:
        if task == "runs":
            clock.calls = sum([(await _run("chain", url, folder, 1, f"work{number}")).calls for number in range(count)])
        else:
            clock.calls = (await _run(task, url, folder, count, "work")).calls
    return clock.told


async def _run(task: str, url: str, folder: Path, count: int, name: str) -> RunResult:
    from metaflow_agents import run
    from metaflow_agents.models.endpoint.model import endpoint_model
    from metaflow_agents.schema.endpoint import EndpointModel

    sop = folder / f"{name}.yaml"
    sop.write_text(SOPS[task](count), encoding="utf-8")
    model = endpoint_model(EndpointModel(name="mock", endpoint=url, max_tokens=65_536), "none", None)
    result = await run(sop, model=model, workspace=folder / "runs", name=name, idea="a pocket calculator")
    if not result.ok:
        raise RuntimeError(f"the run ended with {result.outcome}: {result.reason}")
    return result


CONTENDERS: dict[str, Callable[[str, str, Path, int], Any]] = {
    "engine": with_engine, "openai": with_openai, "aiohttp": with_aiohttp}


def main() -> None:
    """WHO TASK URL --count N --folder FOLDER."""
    who, task, url, _, count, _, folder = sys.argv[1:]
    os.umask(0o022)
    print(json.dumps(asyncio.run(CONTENDERS[who](task, url, Path(folder), int(count)))))


if __name__ == "__main__":
    main()
