"""The same work done four ways, each in a process of its own: what `overhead.py` compares.

    python -m benchmarks.contenders engine chain http://127.0.0.1:PORT --count 100 --folder FOLDER

`engine` is this framework with everything on, `exported` the same while it is exported to OpenTelemetry too (of `chain` alone);
`openai` a loop written by hand on `openai.AsyncOpenAI` as it comes, which saves
each answer in a file; `aiohttp` the same loop without a client library; `langgraph` a graph of LangGraph with a node for each
role, which asks by `openai.AsyncOpenAI` too and keeps its state by `AsyncSqliteSaver`. What is done:

- `chain`: four roles, one after the other, each given what the one before it said and its own last turn; `count` times round;
- `runs`: such chains, `count` of them, each a run of its own with its journal, its folder and its repository (of LangGraph: a
  thread of its own), of a SOP that was prepared once;
- `memory`: the same with everything in memory, and no file written by anybody;
- `many`: the same in memory, 200 at a time;
- `team`: a planner, `count` engineers side by side, one who judges all that they wrote;
- `start`: one chain, to see when its first request comes.

It prints one line of JSON: calls, processor seconds (children counted), seconds, and the most memory ever (bytes); of `many` also
by how much resident memory grew in the second half of the runs (`grown`).
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
    from openai import AsyncOpenAI

    from metaflow_agents import RunResult
    from metaflow_agents.models.endpoint.model import Endpoint

Ask = Callable[[list[dict[str, str]]], Awaitable[str]]
"""Messages → the answer's text."""

SYSTEM = "You are {role}: somebody who knows this trade. Your goal: good work.\n\n- be brief\n- say what is so\n"
NEXT = "Write the next note after the one before it."
PART = "Write the file src/{id}.py. It is one of {count} parts and does this: {text}"
JUDGE = "Say whether this does what was asked for."
WAIT = {"team": 200}                # milliseconds that the endpoint takes; of other tasks none
WIDE = 200                          # runs at a time, of `many`


def messages(role: str, task: str, material: str = "", before: tuple[str, str] | None = None) -> list[dict[str, str]]:
    """A conversation as a person would put it together by hand."""
    turn = [] if before is None else [{"role": "user", "content": before[0]}, {"role": "assistant", "content": before[1]}]
    return [{"role": "system", "content": SYSTEM.format(role=role)}, *turn, {"role": "user", "content": f"{material}\n\n{task}"}]


def save(folder: Path, name: str, text: str) -> None:
    """One answer, kept."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def chain_by_hand(ask: Ask, folder: Path | None, count: int) -> int:
    """Four roles in turn. Without a folder nothing is saved."""
    said, last = "a pocket calculator", dict[int, tuple[str, str]]()
    for number in range(4 * count):
        role = number % 4
        said = await ask(messages(f"worker_{role}", NEXT, said, last.get(role)))
        last[role] = NEXT, said
        if folder is not None:
            save(folder, f"docs/n{role}.md", said)
    return 4 * count


async def runs_by_hand(ask: Ask, folder: Path, count: int) -> int:
    """Chains that know nothing of each other."""
    return sum([await chain_by_hand(ask, folder / str(number), 1) for number in range(count)])


async def memory_by_hand(ask: Ask, _: Path, count: int) -> int:
    """The same, and nothing is saved."""
    return sum([await chain_by_hand(ask, None, 1) for _ in range(count)])


async def many_by_hand(ask: Ask, _: Path, count: int) -> int:
    """The same, side by side."""
    return sum(await side_by_side(count, lambda _: chain_by_hand(ask, None, 1)))


async def side_by_side(count: int, one: Callable[[int], Awaitable[int]]) -> list[int]:
    """What each of so many gives; `WIDE` are under way at a time."""
    numbers, found = iter(range(count)), list[int]()

    async def next_ones() -> None:
        for number in numbers:
            found.append(await one(number))

    await asyncio.gather(*(next_ones() for _ in range(WIDE)))
    return found


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
    "chain": chain_by_hand, "runs": runs_by_hand, "memory": memory_by_hand, "many": many_by_hand, "start": chain_by_hand,
    "team": team_by_hand}


async def with_openai(task: str, url: str, folder: Path, count: int) -> dict[str, float]:
    """The bare loop."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:1/v1") as client:
        return await measured(task, folder, count, lambda wait: _by_openai(client, f"{url}/{wait}/v1"))


def _by_openai(client: AsyncOpenAI, url: str) -> Ask:
    there = client.with_options(base_url=url)

    async def ask(conversation: list[dict[str, str]]) -> str:
        answer = await there.chat.completions.create(model="mock", messages=conversation)  # type: ignore[arg-type]
        return answer.choices[0].message.content or ""
    return ask


async def with_langgraph(task: str, url: str, folder: Path, count: int) -> dict[str, float]:
    """Chains alone (`runs`): a graph compiled once, each chain a thread with its checkpoints on the disk."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="none", base_url=f"{url}/0/v1") as client, \
            AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        ask = _by_openai(client, f"{url}/0/v1")
        graph = StateGraph(dict)
        for number in range(4):
            graph.add_node(f"worker_{number}", _node(ask, number))
            graph.add_edge(START if number == 0 else f"worker_{number - 1}", f"worker_{number}")
        graph.add_edge("worker_3", END)
        compiled = graph.compile(checkpointer=saver)

        async def chain(name: str) -> int:
            given = {"said": "a pocket calculator", "folder": str(folder / name)}
            await compiled.ainvoke(given, {"configurable": {"thread_id": name}}, durability="sync")
            return 4

        await chain("warm")
        with Clock() as clock:
            clock.calls = sum([await chain(f"work{number}") for number in range(count)])
    return clock.told


def _node(ask: Ask, number: int) -> Callable[[dict[str, str]], Awaitable[dict[str, str]]]:
    """A role as a node: what the one before it said → what it says, which is saved in a file too."""
    async def node(state: dict[str, str]) -> dict[str, str]:
        said = await ask(messages(f"worker_{number}", NEXT, state["said"]))
        save(Path(state["folder"]), f"docs/n{number}.md", said)
        return {**state, "said": said}
    return node


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
        clock.calls = await BY_HAND[task](asking(WAIT.get(task, 0)), folder / "work", count)
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
    """Everything on: SOP checked, journal synced, files in the run's folder, git history at the end; but what `memory` and `many`
    keep in memory. A SOP that runs many times is prepared once.
    """
    if task in ("runs", "memory", "many"):
        return await _many_runs(task, url, folder, count)
    if task != "start":
        await _run("chain", f"{url}/0/v1", folder, 1, "warm")
    with Clock() as clock:
        clock.calls = (await _run(task, f"{url}/{WAIT.get(task, 0)}/v1", folder, count, "work")).calls
    return clock.told


async def with_export(task: str, url: str, folder: Path, count: int) -> dict[str, float]:
    """The engine, exported to a collector at the same address. Also how much of the processor time the exporting thread took."""
    await _exported(f"{url}/0/v1", url, folder, 1, "warm")
    with Clock() as clock:
        clock.calls, thread = await _exported(f"{url}/0/v1", url, folder, count, "work")
    return {**clock.told, "thread": thread}


async def _exported(model: str, collector: str, folder: Path, count: int, name: str) -> tuple[int, float]:
    """Calls, and processor seconds of the thread."""
    from metaflow_agents import start
    from metaflow_agents.api.telemetry import exporting, live, target_of
    from metaflow_agents.settings import Settings

    took = 0.0

    class Timed(live.Live):
        def run(self) -> None:
            nonlocal took
            super().run()
            took = time.thread_time()

    live.Live = Timed  # type: ignore[misc]
    sop = folder / f"{name}.yaml"
    sop.write_text(chain_sop(count), encoding="utf-8")
    target = target_of(collector, Settings.read({}))
    async with start(sop, model=_model(model), workspace=folder / "runs", name=name, idea="a pocket calculator") as going:
        async with exporting(going.journal, target, tell=lambda text: sys.exit(text)):
            result = await going.result()
    return result.calls, took


async def _many_runs(task: str, url: str, folder: Path, count: int) -> dict[str, float]:
    """Runs of four calls: one after the other, or side by side."""
    from metaflow_agents import prepare, run

    sop = folder / "chain.yaml"
    sop.write_text(chain_sop(1), encoding="utf-8")
    async with prepare(sop, model=_model(f"{url}/0/v1"), workspace=folder / "runs" if task == "runs" else None) as prepared:
        settled = 0

        async def one(number: int) -> int:
            nonlocal settled
            result = await run(prepared, idea="a pocket calculator")
            if not result.ok:
                raise RuntimeError(f"the run ended with {result.outcome}: {result.reason}")
            if number == count // 2:
                settled = _resident()
            return result.calls

        await one(-1)
        with Clock() as clock:
            clock.calls = sum(await side_by_side(count, one) if task == "many" else [await one(each) for each in range(count)])
        return {**clock.told, "grown": _resident() - settled}


def _resident() -> int:
    """Bytes of memory that the process has now; 0 where the system does not tell it in this form."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _model(url: str) -> Endpoint:
    from metaflow_agents.models.endpoint.model import endpoint_model
    from metaflow_agents.schema.endpoint import EndpointModel

    return endpoint_model(EndpointModel(name="mock", endpoint=url, max_tokens=65_536), "none", None)


async def _run(task: str, url: str, folder: Path, count: int, name: str) -> RunResult:
    from metaflow_agents import run

    sop = folder / f"{name}.yaml"
    sop.write_text(SOPS[task](count), encoding="utf-8")
    result = await run(sop, model=_model(url), workspace=folder / "runs", name=name, idea="a pocket calculator")
    if not result.ok:
        raise RuntimeError(f"the run ended with {result.outcome}: {result.reason}")
    return result


CONTENDERS: dict[str, Callable[[str, str, Path, int], Any]] = {
    "engine": with_engine, "exported": with_export, "openai": with_openai, "aiohttp": with_aiohttp, "langgraph": with_langgraph}


def main() -> None:
    """WHO TASK URL --count N --folder FOLDER."""
    who, task, url, _, count, _, folder = sys.argv[1:]
    os.umask(0o022)
    print(json.dumps(asyncio.run(CONTENDERS[who](task, url, Path(folder), int(count)))))


if __name__ == "__main__":
    main()
