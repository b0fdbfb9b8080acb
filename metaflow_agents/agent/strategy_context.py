"""How an activation's calls are made: with its role's model and tools, each under a key of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from metaflow_agents.agent import repair
from metaflow_agents.agent.answers import Answers
from metaflow_agents.agent.loop_detection import Acts, Ladder
from metaflow_agents.agent.strategies.port import Messages, Ran, Said, Thinking, Verdict
from metaflow_agents.agent.structured_output import typed
from metaflow_agents.agent.tool_executor import Acting
from metaflow_agents.agent.truncation import whole
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AnswerInvalid, AttemptFailed, ExpressionError
from metaflow_agents.models.caller import Caller
from metaflow_agents.models.port import Model, ModelRequest, Reply, ToolCall, traits
from metaflow_agents.models.schema_in_words import told_schema
from metaflow_agents.prompts import evaluate, from_package, from_text, render
from metaflow_agents.schema.caps import TOOL_TURNS
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.strategies import Evaluator
from metaflow_agents.steps.command import Commands
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.steps.validation import Acceptance

Equip = Callable[[str, str, Acting], Awaitable[Acting]]
"""The acting of a role on a branch of its own, not yet entered: role, the branch's key, the acting that it goes off from."""

Noticed = Callable[[str, Sequence[ToolCall], Messages], Awaitable[Messages]]
"""What a role is told besides the results of a turn: the turn's branch, its calls, their results."""


@dataclass(frozen=True, slots=True)
class Means:
    """What thinking takes; the same for all activations of a run."""

    program: Program
    caller: Caller
    acceptance: Acceptance
    answers: Answers
    commands: Commands
    observations: Observations
    model_of: Callable[[Activation, str], Model]
    dry: bool = False


@dataclass(frozen=True, slots=True)
class Prompting:
    """The prompts of one activation: what is asked, the form of the answer, and `prompts`, the SOP's own templates in the place
    of the strategy's. `texts`: the strategy's own, where it is no strategy of this package. `compose` gives, for a role, what
    makes its messages: the last one ends with a text. `alone` gives,
    for a role and a text, messages without task and memory. `equip` gives what a role has at hand that thinks beside it.
    """

    strategy: str
    task: str
    output_format: Callable[[Acting], str]
    prompts: Mapping[str, str]
    texts: Mapping[str, str]
    compose: Callable[[str], Callable[[str], Messages]]
    alone: Callable[[str, str], Messages]
    equip: Equip


class ActivationThinking:
    """Fits `Thinking`. `branch`: the key below which all of its calls lie. `kept`: what stays open until the activation ends."""

    def __init__(self, means: Means, activation: Activation, role: str, acting: Acting, prompting: Prompting, ladder: Ladder,
                 kept: AsyncExitStack, branch: str = "") -> None:
        self._means, self._activation, self.role, self.acting = means, activation, role, acting
        self._kept = kept
        self._author: ActivationThinking | None = None
        self._prompting, self._branch = prompting, branch
        self.ladder, self._acts = ladder, Acts()
        self.lessons: list[str] = []
        self.key = f"{activation.key}/{branch}" if branch else str(activation.key)
        self.scope, self.task, self.output_format = activation.scope, prompting.task, prompting.output_format(acting)
        self.dry = means.dry
        self._step = means.program.sop.steps[activation.key.step]
        self._model = means.model_of(activation, role)
        self._its = traits(self._model)

    def described(self, role: str) -> Mapping[str, Any]:
        """See `Thinking`."""
        its = self._means.program.sop.roles[role]
        return {"profile": its.profile, "goal": its.goal, "tools": list(its.tools)}

    def compose(self, ending: str) -> Messages:
        """See `Thinking`."""
        return self._prompting.compose(self.role)(ending)

    def alone(self, ending: str) -> Messages:
        """See `Thinking`."""
        return self._prompting.alone(self.role, ending)

    def prompt(self, name: str, **more: Any) -> str:
        """See `Thinking`."""
        scope, templates = {**self.scope, **more}, self._means.program.templates
        own = self._prompting.prompts.get(name)
        if own is not None:
            return render(templates[own], scope, templates, name=own)
        told = self._prompting.texts.get(name)
        return from_package(f"strategies/{self._prompting.strategy}.{name}", scope) if told is None else from_text(told, scope)

    def evaluate(self, expression: str, **more: Any) -> Any:
        """See `Thinking`."""
        try:
            return evaluate(expression, {**self.scope, **more})
        except ExpressionError as error:
            raise AttemptFailed(f"`{expression}` failed: {error}") from None

    @property
    def form_in_words(self) -> str:
        """See `Thinking`."""
        words = told_schema(self._means.acceptance.schema(self._step.makes.artifact))
        return f"{self.output_format.rstrip()}\n\n{words}" if words else self.output_format

    @property
    def plain(self) -> bool:
        """See `Thinking`."""
        return self._means.answers.plain(self._activation, self.acting)

    async def ask(self, branch: str, messages: Messages, *, structured: bool = True, tools: bool = True,
                  temperature: float | None = None) -> Said:
        """See `Thinking`."""
        schema = self._means.acceptance.schema(self._step.makes.artifact) if structured else None
        files = bool(self._means.program.sop.artifacts[self._step.makes.artifact].files)
        patterns = self._activation.patterns if files and structured else ()

        async def turn(at: str, messages: Messages, tools: tuple[Mapping[str, Any], ...]) -> Reply:
            return await self._send(at, messages, schema, patterns, tools, temperature)

        if structured and tools and self.acting.offered:
            branch, messages, reply = await turns(turn, self.acting, self.key, branch, messages, self._noticed)
        else:
            reply = await turn(branch, messages, ())
        reply = await self._whole(branch, messages, reply, schema, temperature)
        only = self._means.answers.only_path(self._activation, self.acting) if patterns else None
        return Said(messages, await repair.only_file(self._means.observations, f"{self.key}/{branch}", reply, only))

    async def typed(self, branch: str, messages: Messages, form: Mapping[str, Any],
                    faults: Callable[[Any], Sequence[str]] | None = None, *, tools: bool = False,
                    temperature: float | None = None) -> Any:
        """See `Thinking`."""
        async def send(at: str, messages: Messages, schema: Mapping[str, Any]) -> Said:
            async def turn(at: str, messages: Messages, tools: tuple[Mapping[str, Any], ...]) -> Reply:
                return await self._send(at, messages, schema, (), tools, temperature)

            if tools and at == branch and self.acting.offered:
                at, messages, reply = await turns(turn, self.acting, self.key, at, messages, self._noticed)
            else:
                reply = await turn(at, messages, ())
            return Said(messages, await self._whole(at, messages, reply, schema, temperature))

        return await typed(send, branch, messages, to_json_schema(form), faults)

    async def turn(self, branch: str, messages: Messages, *, tools: bool = True,
                   also: Sequence[Mapping[str, Any]] = (), one: bool = False) -> Reply:
        """See `Thinking`."""
        reply = await self._send(branch, messages, None, (), (*(self.tools if tools else ()), *also), one=one)
        return reply if reply.calls else await self._whole(branch, messages, reply, None)

    async def act(self, branch: str, calls: Sequence[ToolCall]) -> Messages:
        """See `Thinking`."""
        told = tuple(await self.acting.answered(f"{self.key}/{branch}", calls))
        return (*told, *await self._noticed(branch, calls, told))

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """See `Thinking`."""
        return self.acting.offered.told()

    def value(self, reply: Reply) -> Any:
        """See `Thinking`."""
        return self._means.answers.value(self._means.answers.taken(self._activation, reply, self.acting).work)

    async def judged(self, branch: str, evaluator: Evaluator, reply: Reply) -> Verdict:
        """See `Thinking`. Nothing is executed in a dry run, where every answer is good."""
        if self._means.dry and evaluator.role is None:
            return Verdict(True)
        try:
            work = self._means.answers.taken(self._activation, reply, self.acting).work
        except AnswerInvalid as error:
            return Verdict(self._means.dry, "; ".join(error.faults))
        answer = self._means.answers.value(work)
        if evaluator.assert_ is not None:
            held = bool(self.evaluate(evaluator.assert_, answer=answer))
            return Verdict(held, "" if held else f"`{evaluator.assert_}` does not hold")
        if evaluator.run is not None:
            told = await self._means.commands.check(evaluator.run, self._activation, work, f"{self.key}/{branch}")
            return Verdict(told is None, told or "")
        async with self.apart(branch, evaluator.role or "") as judge:
            asked = judge.compose(from_package("strategies/verdict", {"answer": answer}))
            found = await judge.typed("verdict", asked, {"good": "boolean", "why": "string"})
        return Verdict(found["good"] or self._means.dry, found["why"])

    async def run(self, branch: str, argv: Sequence[str], *, files: Mapping[str, bytes], timeout: float,  # noqa: ASYNC109
                  collect: str) -> Ran:
        """See `Thinking`."""
        return Ran(**await self._means.commands.own(argv, f"{self.key}/{branch}", files=files, timeout=timeout, collect=collect))

    def learn(self, lesson: str) -> None:
        """See `Thinking`."""
        self.lessons.append(lesson)

    async def note(self, branch: str, told: Mapping[str, Any]) -> None:
        """See `Thinking`."""
        async def look() -> Any:
            return dict(told)

        await self._means.observations.once(f"{self.key}/{branch}", look)

    @asynccontextmanager
    async def apart(self, branch: str, role: str = "") -> AsyncIterator[Thinking]:
        """See `Thinking`."""
        name, place = role or self.role, f"{self._branch}/{branch}" if self._branch else branch
        acting = await self._prompting.equip(name, f"{self._activation.key}/{place}", self.acting)
        other = ActivationThinking(self._means, self._activation, name, acting, self._prompting, self.ladder, self._kept,
                                   place)
        if name == self.role:
            other.lessons = self.lessons
        async with AsyncExitStack() as opened:
            opened.callback(self.acting.heed, acting)
            await opened.enter_async_context(acting)
            yield other
            if self._author is other:               # it may have to mend its answer
                self.acting.heed(acting)
                self._kept.push_async_exit(opened.pop_all())

    def take(self, other: Thinking) -> None:
        """See `Thinking`."""
        if not isinstance(other, ActivationThinking):
            raise TypeError("what is taken has to come from `apart`")
        self.acting.go_on_from(other.acting)
        self._author = other if other.role != self.role or other.author is not other else None

    @property
    def author(self) -> ActivationThinking:
        """Whose the answer is: this one's, or that of another role which was taken."""
        return self if self._author is None else self._author.author

    def join(self, other: Thinking) -> tuple[str, ...]:
        """See `Thinking`."""
        if not isinstance(other, ActivationThinking):
            raise TypeError("what is joined has to come from `apart`")
        return self.acting.join(other.acting)

    @property
    def watched(self) -> bool:
        """See `Thinking`."""
        return self.ladder.watches

    async def failed(self, branch: str, what: str, came: Sequence[Any], advice: str = "") -> str:
        """See `Thinking`."""
        if not self.watched:
            return ""
        return await self.ladder.climb(self, branch, self._acts.failed(what, came), self.acting.untrusted, advice)

    async def _noticed(self, branch: str, calls: Sequence[ToolCall], told: Messages) -> Messages:
        """What the role is told besides, where its calls come to the same again and again."""
        if not self.ladder.watches:
            return ()
        said = await self.ladder.climb(self, branch, self._acts.done(calls, told), self.acting.untrusted)
        return ({"role": "user", "content": said},) if said else ()

    async def _send(self, branch: str, messages: Messages, schema: Mapping[str, Any] | None, patterns: tuple[str, ...],
                    tools: tuple[Mapping[str, Any], ...], temperature: float | None = None, *, one: bool = False) -> Reply:
        parameters = self._its.parameters if temperature is None else {**self._its.parameters, "temperature": temperature}
        return await self._means.caller.ask(self._model, ModelRequest(
            key=f"{self.key}/{branch}", role=self.role, step=self._activation.key.step, messages=messages,
            model=self._model.name, schema=schema, patterns=patterns, tools=tools, max_tokens=self._its.max_tokens,
            parameters=parameters, one_call=one))

    async def _whole(self, branch: str, messages: Messages, reply: Reply, schema: Mapping[str, Any] | None,
                     temperature: float | None = None) -> Reply:
        async def more(part: str, messages: Messages) -> Reply:
            return await self._send(f"{branch}/{part}", messages, None, (), (), temperature)

        reply = await whole(reply, messages, more, self._its.max_tokens, None if schema == {"type": "string"} else schema)
        return await repair.data(self._means.observations, f"{self.key}/{branch}", reply, schema)


async def turns(send: Callable[[str, Messages, tuple[Mapping[str, Any], ...]], Awaitable[Reply]], acting: Acting, key: str,
                branch: str, messages: Messages, noticed: Noticed | None = None) -> tuple[str, Messages, Reply]:
    """Turn after turn, until the model calls no tool any more: the last turn's branch, the conversation, the reply.

    `noticed` says what is told besides the results of a turn.

    The first turn is at `branch`, those after it at `turn.1`, `turn.2`, … After `TOOL_TURNS` it is given no more tools.
    """
    first, at = branch.removesuffix("turn.0"), branch
    for number in range(TOOL_TURNS + 1):
        tools = acting.offered.told() if number < TOOL_TURNS else ()
        reply = await send(at, messages, tools)
        if not reply.calls or not tools:
            break
        told = await acting.answered(f"{key}/{at}", reply.calls)
        besides = () if noticed is None else await noticed(at, reply.calls, tuple(told))
        messages = (*messages, reply.message, *told, *besides)
        if number + 1 == TOOL_TURNS:
            messages = (*messages, {"role": "user", "content": from_package("last_turn", {"turns": TOOL_TURNS})})
        at = f"{first}turn.{number + 1}" if branch.endswith("turn.0") else f"{branch}/turn.{number + 1}"
    return at, messages, reply
