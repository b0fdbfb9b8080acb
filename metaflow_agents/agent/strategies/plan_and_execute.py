"""A plan of tasks that say what they need and what they make; they are done side by side as the graph of these lets them.

Sources: Wang et al., "Plan-and-Solve Prompting" (ACL 2023): a plan first, then its parts. Shen et al., "HuggingGPT" (NeurIPS
2023): tasks with their dependencies, given each other's results, and an answer made from all of them. Kim et al., "An LLM
Compiler for Parallel Function Calling" (ICML 2024): tasks start as soon as what they need is there; planning anew. That those
of most value for their effort come first is Smith's rule ("Various optimizers for single-stage production", 1956).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.agent.strategies.plan import Task, before, faults_of, form, leading, ready, tasks_of
from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking, above
from metaflow_agents.errors import AnswerInvalid, AttemptFailed, MetaflowError, Stuck, raise_first
from metaflow_agents.schema.strategies import plan_and_execute


@dataclass(slots=True)
class _Work:
    """How far it has come. `finished`: each after those that it needs. `branches`: where tasks were done, with their files."""

    finished: list[Task] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    branches: dict[str, Thinking] = field(default_factory=dict)
    begun: int = 0
    plans: int = 0
    tools: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of one task: its results and where it was done; else why it was not, or what ends the attempt."""

    task: Task
    results: Mapping[str, str] = field(default_factory=dict)
    branch: Thinking | None = None
    why: str = ""
    error: MetaflowError | None = None


class PlanAndExecuteStrategy(Strategy[plan_and_execute.PlanAndExecute]):
    """Plans, does, plans anew where a task failed or so many are done; what is done is kept.

    What a task is told is the results that it needs, and its files are those of the tasks that it builds on: never what else
    happens to be done. And a new plan is made only when nothing is under way. So no prompt depends on who was ready first.
    """

    SPEC = plan_and_execute.PlanAndExecute

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`. Raises AttemptFailed where tasks fail and no new plan may be made."""
        work, replans = _Work(tools=await self._tools(thinking)), 0
        waiting: Sequence[Task] = await self._planned(thinking, work, (), ())
        while waiting:
            outcomes = await self._do(thinking, work, leading(waiting, work.results, self.given.every))
            failed = [one for one in outcomes if one.branch is None]
            gone = {one.task.name for one in outcomes}
            waiting = [task for task in waiting if task.name not in gone]
            if failed and (replans == self.given.replans or work.begun == self.given.tasks):
                spent = f"`replans: {replans}`" if replans == self.given.replans else f"`tasks: {work.begun}`"
                told = "; ".join(f"the task `{one.task.name}` failed: {one.why}" for one in failed)
                raise AttemptFailed(f"the plan was not carried out, and {spent} allows no other one: {told}")
            if failed or waiting:
                replans += bool(failed)
                waiting = await self._planned(thinking, work, failed, waiting)
        clashes = [path for task in work.finished for path in thinking.join(work.branches[task.name])]
        results = _results((name for task in work.finished for name in task.makes), work)
        asked = thinking.prompt("answer", results=results, clashes=clashes, output_format=thinking.output_format)
        return await thinking.ask("turn.0", thinking.compose(asked))

    async def _tools(self, thinking: Thinking) -> Sequence[Mapping[str, Any]]:
        """What those who do the tasks have at hand: a plan asks for nothing else."""
        if self.given.executor is None:
            return thinking.tools
        async with thinking.apart("plan.0/executor", self.given.executor) as executor:
            return executor.tools

    async def _planned(self, thinking: Thinking, work: _Work, failed: Sequence[_Outcome],
                       waiting: Sequence[Task]) -> Sequence[Task]:
        """The tasks of the next plan. Raises AnswerInvalid for one whose faults its planner does not mend."""
        room, number = self.given.tasks - work.begun, work.plans
        if number == 0:
            prompt = thinking.prompt("plan", room=room, tools=work.tools)
        else:
            finished = [{**task.shown(), "results": _results(task.makes, work)} for task in work.finished]
            prompt = thinking.prompt("replan", room=room, tools=work.tools, finished=finished,
                                     failed=[{**one.task.shown(), "why": one.why} for one in failed],
                                     waiting=[task.shown() for task in waiting])
        hint = above(await thinking.failed(f"plan.{number}", "the plan", [one.why for one in failed])) if failed else ""
        plan = await thinking.typed(f"plan.{number}", thinking.compose(hint + prompt), form(least=0 if number else 1),
                                    lambda given: faults_of(tasks_of(given), work.finished, room))
        tasks = tasks_of(plan)
        await thinking.note(f"plan.{number}/tasks", {"order": [task.name for task in leading(tasks, work.results)],
                                                     "kept": [task.name for task in work.finished]})
        work.plans += 1
        return tasks

    async def _do(self, thinking: Thinking, work: _Work, tasks: Sequence[Task]) -> list[_Outcome]:
        """Does these tasks, but none that builds on one that failed. Raises what ends the attempt, once none is under way."""
        waiting, outcomes, running = list(tasks), dict[str, _Outcome](), set[asyncio.Task[_Outcome]]()
        known = [*work.finished, *tasks]
        async with AsyncExitStack() as opened, asyncio.TaskGroup() as group:
            # All before the first one is begun: what others read meanwhile must not depend on who was ready first.
            branches = {task.name: await opened.enter_async_context(thinking.apart(
                f"plan.{work.plans - 1}/task.{task.name}", self.given.executor or "")) for task in tasks}
            while True:
                for task in ready(waiting, work.results)[:self.given.parallel - len(running)]:
                    waiting.remove(task)
                    running.add(group.create_task(self._one(branches[task.name], work, task, before(task, known))))
                if not running:
                    break
                over, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for outcome in (one.result() for one in over):
                    outcomes[outcome.task.name] = outcome
                    if outcome.branch is not None:
                        work.branches[outcome.task.name] = outcome.branch
                        work.results.update(outcome.results)
        work.begun += len(outcomes)
        found = [outcomes[task.name] for task in tasks if task.name in outcomes]
        raise_first(one.error for one in found if one.error is not None)
        work.finished += [one.task for one in found if one.branch is not None]
        return found

    async def _one(self, doing: Thinking, work: _Work, task: Task, on: Sequence[Task]) -> _Outcome:
        """One task on its branch, with the files of those that it builds on. What goes wrong is an outcome: the others go on."""
        try:
            clashes = [path for one in on for path in doing.join(work.branches[one.name])]
            prompt = doing.prompt("execute", task=task.shown(), results=_results(task.needs, work), clashes=clashes)
            said = await doing.typed("turn.0", doing.compose(prompt), _form(task), _faults, tools=True)
        except MetaflowError as error:
            if isinstance(error, AnswerInvalid | AttemptFailed) and not isinstance(error, Stuck):
                return _Outcome(task, why=str(error))
            return _Outcome(task, error=error)
        return _Outcome(task, said["results"], doing) if said["ok"] else _Outcome(task, why=said["why"])


def _results(names: Iterable[str], work: _Work) -> dict[str, str]:
    return {name: work.results[name] for name in names}


def _form(task: Task) -> Mapping[str, Any]:
    """What a task is answered in."""
    results = {"type": "object", "properties": {name: {"type": "string"} for name in task.makes}, "required": list(task.makes),
               "additionalProperties": False}
    return {"type": "object", "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}, "results": results},
            "required": ["ok", "why", "results"], "additionalProperties": False}


def _faults(said: Mapping[str, Any]) -> list[str]:
    return [] if said["ok"] or said["why"].strip() else ["`ok` is false: say in `why` what stood in the way"]
