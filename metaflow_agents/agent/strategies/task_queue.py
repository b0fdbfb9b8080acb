"""A queue of tasks: the first is done, new ones are made from its result, the queue is ordered anew.

Source: Nakajima, "Task-driven Autonomous Agent Utilizing GPT-4, Pinecone, and LangChain for Diverse Applications" (2023),
known as BabyAGI. There the queue is whatever list of lines the model gives back: tasks get lost in it, come twice, and it has
no end. Here it is bounded, tasks have numbers, and an order that is not one of just these numbers goes back to its author.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from metaflow_agents.agent.strategies.port import Messages, Said, Strategy, Thinking, above
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.prompts import from_package
from metaflow_agents.schema.strategies import task_queue

_TEXT = {"type": "string", "minLength": 1}
_TASKS = {"type": "object", "required": ["tasks"], "additionalProperties": False}
_RESULT = {"ok": "boolean", "result": "string"}
_ORDER = {"order": ["integer"]}


@dataclass(frozen=True, slots=True)
class _Task:
    """A task in the queue."""

    number: int
    task: str


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of one."""

    number: int
    task: str
    ok: bool
    result: str


@dataclass(slots=True)
class _Queue:
    """`left_out`: tasks for which there was no room. `made`: how many there have been, for the next one's number."""

    waiting: list[_Task] = field(default_factory=list)
    done: list[_Done] = field(default_factory=list)
    left_out: list[_Task] = field(default_factory=list)
    made: int = 0
    hint: str = ""
    """What is told next, of failing again and again."""

    def hinted(self, prompt: str) -> str:
        """A prompt below what is to be told, which is told once."""
        hint, self.hint = self.hint, ""
        return hint + prompt

    def shown(self) -> dict[str, Any]:
        """As prompts show it."""
        return {"done": [asdict(one) for one in self.done], "waiting": [asdict(one) for one in self.waiting]}


class TaskQueueStrategy(Strategy[task_queue.TaskQueue]):
    """Does task after task until the queue is empty or as many are done as may be; then the answer is made from the results."""

    SPEC = task_queue.TaskQueue
    _record = ""

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`."""
        queue = _Queue()
        await self._create(thinking, "queue", queue, None)
        while queue.waiting and len(queue.done) < self.given.tasks:
            task, branch = queue.waiting.pop(0), f"queue.{len(queue.done)}"
            done = await self._do(thinking, branch, queue, task)
            if not done.ok:
                queue.hint = above(await thinking.failed(branch, "a task", [done.result]))
            if len(queue.done) + 1 < self.given.tasks:
                await self._create(thinking, branch, queue, done)
                queue.done.append(done)
                if self.given.reprioritise and len(queue.waiting) > 1:
                    await self._reprioritise(thinking, branch, queue)
            else:
                queue.done.append(done)
        unfinished = [*queue.shown()["waiting"], *map(asdict, queue.left_out)]
        asked = thinking.prompt("answer", results=[asdict(one) for one in queue.done], waiting=unfinished,
                                output_format=thinking.output_format)
        self._record = from_package("strategies/task_queue.record", {"results": [asdict(one) for one in queue.done],
                                                                     "waiting": unfinished})
        return self._recorded(await thinking.ask("turn.0", thinking.compose(asked)))

    async def mended(self, thinking: Thinking, branch: str, messages: Messages, *, form: bool) -> Said:
        """See `Strategy.mended`. The record stays what it was."""
        return self._recorded(await super().mended(thinking, branch, messages, form=form))

    def _recorded(self, said: Said) -> Said:
        """The answer, and beside its files that of the record."""
        if self.given.record is None or said.reply.text is None:
            return said
        fence = "=" * max(3, *(len(found) + 1 for found in re.findall("={3,}", self._record)), 3)
        block = f"{fence} file: {self.given.record} {fence}\n{self._record.strip()}\n{fence} end {fence}\n"
        return said._replace(reply=replace(said.reply, text=f"{said.reply.text.rstrip()}\n{block}"))

    async def _do(self, thinking: Thinking, branch: str, queue: _Queue, task: _Task) -> _Done:
        async with thinking.apart(f"{branch}/do", self.given.executor or "") as doing:
            prompt = doing.prompt("execute", task=task.task, results=[asdict(one) for one in queue.done],
                                  number=len(queue.done) + 1, most=self.given.tasks)
            try:
                said = await doing.typed("turn.0", doing.compose(queue.hinted(prompt)), _RESULT, tools=True)
            except AnswerInvalid as error:
                said = {"ok": False, "result": f"it gave no result that can be taken: {error}"}
        thinking.join(doing)
        return _Done(task.number, task.task, said["ok"], said["result"])

    async def _create(self, thinking: Thinking, branch: str, queue: _Queue, done: _Done | None) -> None:
        """Puts tasks into the queue: the first ones, or those that follow from what was done last."""
        left = self.given.tasks - len(queue.done) - (done is not None)      # of those that wait and of new ones
        room = min(self.given.queue - len(queue.waiting), left)
        if room == 0:
            return await thinking.note(f"{branch}/full", {"waiting": len(queue.waiting)})
        known = {_same(one.task): "is in the queue already" for one in queue.waiting}
        known |= {_same(one.task): "is done already" for one in (*queue.done, *([done] if done else []))}

        def faults(said: Mapping[str, Any]) -> list[str]:
            twice = [text for text, count in Counter(map(_same, said["tasks"])).items() if count > 1]
            found = [f"`{one.strip()}` {known[_same(one)]}: leave it out" for one in said["tasks"] if _same(one) in known]
            found += [f"`{text}` stands in the list more than once" for text in twice]
            if len(said["tasks"]) > room:
                found.append(f"these are {len(said['tasks'])} tasks, and there is room for {room}: give what matters most")
            return found

        prompt = thinking.prompt("create", task=done.task if done else None, result=done.result if done else "",
                                 ok=done is None or done.ok, room=room, left=left, **queue.shown())
        form = {**_TASKS, "properties": {"tasks": {"type": "array", "items": _TEXT, "minItems": 0 if done else 1}}}
        said, wrong = await _best(thinking, f"{branch}/create", thinking.compose(queue.hinted(prompt)), form, faults)
        for text in said["tasks"]:
            if _same(text) not in known:
                known[_same(text)], queue.made = "is in the queue already", queue.made + 1
                place = queue.waiting if len(queue.waiting) < self.given.queue else queue.left_out
                place.append(_Task(queue.made, text.strip()))
        if wrong:
            await thinking.note(f"{branch}/created", {"faults": wrong, "left_out": [asdict(one) for one in queue.left_out]})

    async def _reprioritise(self, thinking: Thinking, branch: str, queue: _Queue) -> None:
        """Puts the queue into the order that the model gives. No task gets lost: those that it leaves out come last."""
        waiting = {one.number: one for one in queue.waiting}
        prompt = thinking.prompt("reprioritise", task=queue.done[-1].task, left=self.given.tasks - len(queue.done),
                                 **queue.shown())
        said, wrong = await _best(thinking, f"{branch}/order", thinking.compose(prompt), _ORDER,
                                 lambda said: order_faults(said["order"], {one.number: one.task for one in queue.waiting}))
        numbers = dict.fromkeys([*(number for number in said["order"] if number in waiting), *waiting])
        queue.waiting = [waiting[number] for number in numbers]
        if wrong:
            await thinking.note(f"{branch}/kept", {"faults": wrong, "order": [*numbers]})


def order_faults(order: Sequence[int], waiting: Mapping[int, str]) -> list[str]:
    """What an order of the queue loses, doubles or makes up, by number and words. `waiting`: number → task."""
    counts = Counter(order)
    found = [f"task {number} is missing, and would be lost: `{task}`" for number, task in waiting.items() if number not in counts]
    found += [f"task {number} stands there {count} times: `{waiting[number]}`"
              for number, count in counts.items() if count > 1 and number in waiting]
    listed = ", ".join(map(str, waiting))
    return found + [f"there is no task {number} in the queue: there are {listed}" for number in counts if number not in waiting]


async def _best(thinking: Thinking, branch: str, messages: Messages, form: Mapping[str, Any],
                faults: Callable[[Any], Sequence[str]]) -> tuple[Any, Sequence[str]]:
    """An answer without faults; else, where repairs don't help, the last one in form, and the faults that it has.

    Raises AnswerInvalid where none was in form.
    """
    last: list[tuple[Any, Sequence[str]]] = []

    def told(said: Any) -> Sequence[str]:
        found = faults(said)
        last.append((said, found))
        return found

    try:
        return await thinking.typed(branch, messages, form, told), ()
    except AnswerInvalid:
        if not last:
            raise
        return last[-1]


def _same(task: str) -> str:
    """What is equal of tasks that are one and the same, written in a slightly other way."""
    return " ".join(task.casefold().split()).rstrip(".!")
