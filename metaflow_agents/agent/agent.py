"""One activation of one role: prompt, model, answer, repair, check, artifact."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from metaflow_agents.agent import strategies
from metaflow_agents.agent.acting import Acting, Scene
from metaflow_agents.agent.blocks import apply_blocks, holds_block, parse_blocks
from metaflow_agents.agent.continuing import whole
from metaflow_agents.agent.conversation import Conversations
from metaflow_agents.agent.equipment import Equipment
from metaflow_agents.agent.strategies.port import Ask, Messages
from metaflow_agents.agent.talking import Delegate
from metaflow_agents.doers.acceptance import Acceptance
from metaflow_agents.doers.command import Commands
from metaflow_agents.doers.function import Functions
from metaflow_agents.doers.observed import Observations
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AnswerInvalid, AttemptFailed, RunError, did_you_mean
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.window import RoleMemory, Turn
from metaflow_agents.models.caller import Caller
from metaflow_agents.models.port import Model, ModelRequest, Reply, traits
from metaflow_agents.models.registry import Models
from metaflow_agents.prompts import MISSING, evaluate, package_template, render
from metaflow_agents.schema.event import Entry
from metaflow_agents.schema.model import canonical, digest
from metaflow_agents.schema.payload import Patch
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import ANSWER_REPAIRS, TOOL_TURNS, Step
from metaflow_agents.schema.trust import joined
from metaflow_agents.tools.port import Result

_NAME = re.compile(r"[A-Za-z_]\w*")
_FENCED = re.compile(r"\s*```[a-zA-Z]*\n(.*)\n```\s*", re.DOTALL)


class RoleAgent:
    """Does the work of `role:` steps."""

    def __init__(self, program: Program, models: Models, caller: Caller, acceptance: Acceptance, commands: Commands,
                 functions: Functions, memory: RoleMemory, observations: Observations, state: RunState, values: Values,
                 equipment: Equipment) -> None:
        self._program, self._sop, self._models, self._caller = program, program.sop, models, caller
        self._acceptance, self._commands, self._functions = acceptance, commands, functions
        self._memory, self._observations, self._state, self._values = memory, observations, state, values
        self._conversations, self._equipment = Conversations(program, acceptance, values), equipment

    def role_of(self, activation: Activation) -> str:
        """Who does this activation: the step's role, or the one that its expression names. Raises AttemptFailed."""
        written = self._sop.steps[activation.key.step].role or ""
        if _NAME.fullmatch(written):
            return written
        name = evaluate(written, activation.scope)
        if not isinstance(name, str) or name not in self._sop.roles:
            shown = "nothing" if name is MISSING else repr(name)
            raise AttemptFailed(f"`role: {written}` gave {shown}, which is no role: {did_you_mean(str(name), self._sop.roles)}")
        return name

    def model_of(self, activation: Activation, role: str) -> Model:
        """The model that answers: the step's, the role's, the default. Raises ModelMissing."""
        return self._models.of(self._sop.steps[activation.key.step].model or self._sop.roles[role].model)

    def recalled(self, activation: Activation) -> str:
        """What of the role's memory, as it stands in this activation's prompts, came from outside the user; empty: nothing."""
        name = self.role_of(activation)
        return self._memory.untrusted(name, self._sop.roles[name], activation.key.firing)

    async def work(self, activation: Activation) -> Work:
        """The artifact that the role's answer becomes. Raises AnswerInvalid, AttemptFailed where the attempt failed."""
        letters = await self._inbox(self.role_of(activation), activation)
        heard = joined(*(letter.untrusted for letter in letters), self._checker_hears(activation))
        try:
            return await self._answered(activation, letters, heard)
        except RunError as error:
            error.untrusted = joined(error.untrusted, heard)
            raise

    async def _answered(self, activation: Activation, letters: list[Turn], heard: str) -> Work:
        """`heard`: the label of what the activation takes in besides what it starts with."""
        step = self._sop.steps[activation.key.step]
        name = self.role_of(activation)
        role = self._sop.roles[name]
        system = self._conversations.system(name, role, activation)
        remembered = [*self._memory.turns(name, role, activation.key.firing), *letters]
        output_format = self._conversations.output_format(step, activation)
        material, asked = self._conversations.material(step, activation), self._conversations.asked(step, activation)

        def compose(ending: str) -> Messages:
            return self._conversations.opening(system, remembered, f"{material}{asked}{ending.strip()}\n")

        (strategy, parameters), = (step.strategy or {"single": {}}).items()
        acting = await self._equipment.acting(activation, name, self._delegate(activation), joined(activation.untrusted, heard))
        try:
            async with acting:
                output_format += self._conversations.writing(acting.offered.told()) if acting.tree.patterns else ""
                ask = self._asker(step, name, activation, acting)
                messages, reply = await strategies.make(strategy, parameters or {}).answer(ask, compose, output_format)
                work, said = await self._mended(step, activation, ask, messages, reply, acting)
        except RunError as error:
            error.untrusted = joined(error.untrusted, acting.untrusted)
            raise
        asked = asked or f"Step `{activation.key.step}`: make `{step.makes.artifact}`.\n"
        return self._with_memory(name, activation, asked, work, said, heard, acting)

    def _delegate(self, activation: Activation) -> Delegate:
        """Has another role do a part of an activation's task."""
        async def delegate(role: str, task: str, scene: Scene) -> Result:
            model = self.model_of(activation, role)
            its, payer = traits(model), _payer(scene.acting)

            async def send(at: str, messages: Messages, tools: tuple[Mapping[str, Any], ...]) -> Reply:
                return await self._caller.ask(model, ModelRequest(
                    key=f"{scene.key}/{at}", role=role, step=activation.key.step, messages=messages, model=model.name,
                    payer=payer,
                    tools=tools, max_tokens=its.max_tokens, parameters=its.parameters))

            system = self._conversations.system(role, self._sop.roles[role], activation)
            asked = render(package_template("subtask"), {"by": scene.acting.role, "task": task})
            messages = self._conversations.opening(system, [], asked)
            acting = await self._equipment.below(activation, role, delegate, scene)
            try:
                async with acting:
                    _, _, reply = await turns(send, acting, scene.key, "turn.0", messages)
            except RunError as error:
                error.untrusted = joined(error.untrusted, acting.untrusted)
                raise
            return Result(reply.said, untrusted=joined(acting.untrusted, acting.heard), written=acting.tree.written,
                          deleted=tuple(sorted(acting.tree.deleted)))
        return delegate

    def _asker(self, step: Step, role: str, activation: Activation, acting: Acting) -> Ask:
        model = self.model_of(activation, role)
        its = traits(model)
        files = bool(self._sop.artifacts[step.makes.artifact].files)

        async def send(branch: str, messages: Messages, schema: Mapping[str, Any] | None, patterns: tuple[str, ...],
                       tools: tuple[Mapping[str, Any], ...] = ()) -> Reply:
            return await self._caller.ask(model, ModelRequest(
                key=f"{activation.key}/{branch}", role=role, step=activation.key.step, messages=messages, model=model.name,
                schema=schema, patterns=patterns, tools=tools, max_tokens=its.max_tokens, parameters=its.parameters))

        async def ask(branch: str, messages: Messages, *, structured: bool = True) -> tuple[Messages, Reply]:
            schema = self._acceptance.schema(step.makes.artifact) if structured else None
            patterns = activation.patterns if files and structured else ()

            async def turn(at: str, messages: Messages, tools: tuple[Mapping[str, Any], ...]) -> Reply:
                return await send(at, messages, schema, patterns, tools)

            if structured and acting.offered:
                branch, messages, reply = await turns(turn, acting, str(activation.key), branch, messages)
            else:
                reply = await turn(branch, messages, ())
            if not reply.cut:
                return messages, reply

            async def more(part: str, messages: Messages) -> Reply:
                return await send(f"{branch}/{part}", messages, None, ())

            return messages, await whole(reply, messages, more, its.max_tokens, None if schema == {"type": "string"} else schema)
        return ask

    async def _mended(self, step: Step, activation: Activation, ask: Ask, messages: Messages, reply: Reply,
                      acting: Acting) -> tuple[Work, str]:
        """The work, after repairs of form and of what the check says; and the answer that was taken."""
        branch, checks = "turn.0", 0
        while True:
            work, messages, reply = await self._in_form(activation, ask, messages, reply, branch, acting)
            told = None if step.check is None or self._models.dry else await self._checked(step, activation, work, reply, checks)
            if told is None:
                return work, reply.said
            if step.check is None or checks >= step.check.repairs:
                raise AnswerInvalid([f"its check still fails: {told}"])
            checks += 1
            branch = f"check.{checks}"
            messages, reply = await ask(branch, _sent_back(messages, reply, [told], step.check.repairs - checks + 1))

    async def _in_form(self, activation: Activation, ask: Ask, messages: Messages, reply: Reply, branch: str,
                       acting: Acting) -> tuple[Work, Messages, Reply]:
        """The work that an answer is, repaired up to `ANSWER_REPAIRS` times. Raises AnswerInvalid."""
        repairs = 0
        while True:
            try:
                return self._taken(activation, reply, acting), messages, reply
            except AnswerInvalid as error:
                if repairs >= ANSWER_REPAIRS:
                    raise
                repairs += 1
                messages = _sent_back(messages, reply, error.faults, ANSWER_REPAIRS - repairs + 1)
            messages, reply = await ask(f"{branch}/repair.{repairs}", messages)

    def _taken(self, activation: Activation, reply: Reply, acting: Acting) -> Work:
        artifact = self._sop.steps[activation.key.step].makes.artifact
        if reply.text is None:
            return self._acceptance.accept(activation, reply.value)
        if self._sop.artifacts[artifact].files:
            written, deleted = self._files_made(activation, reply.text, acting)
            return self._acceptance.files(activation, written, deleted, ruled=not self._models.dry)
        schema = self._acceptance.schema(artifact)
        if schema is None or schema == {"type": "string"}:
            return self._acceptance.accept(activation, reply.text)
        fenced = _FENCED.fullmatch(reply.text)
        value = self._acceptance.validator(artifact).validate_json(fenced[1] if fenced else reply.text)
        return self._acceptance.accept(activation, value)

    def _files_made(self, activation: Activation, answer: str, acting: Acting) -> tuple[dict[str, str], tuple[str, ...]]:
        """What the tools wrote and, over it, what the blocks of the answer say."""
        by_tools = {path: data.decode() for path, data in acting.tree.written.items()}
        gone = acting.tree.deleted
        if (by_tools or gone) and not holds_block(answer):
            return by_tools, tuple(sorted(gone))
        before = {path: text for path, text in self._files_before(activation).items() if path not in gone} | by_tools
        written, deleted = apply_blocks(parse_blocks(answer), before, activation.patterns)
        left = {path: text for path, text in by_tools.items() if path not in deleted}
        return {**left, **written}, tuple(sorted({*deleted, *gone} - set(written)))

    def _files_before(self, activation: Activation) -> Mapping[str, str]:
        """The files that edits apply to: the latest version, and on it what the items made that this one comes after."""
        latest: Mapping[str, str] = {} if activation.base is None else self._values.view(activation.base)
        patches = activation.patches()
        if not patches:
            return latest
        found = dict(latest)
        for patch in patches:
            for path in patch.deleted:
                found.pop(path, None)
            found.update((path, self._values.text(blob)) for path, blob in patch.written.items())
        return found

    async def _checked(self, step: Step, activation: Activation, work: Work, reply: Reply, number: int) -> str | None:
        check = step.check
        if check is None:
            return None
        key = f"{activation.key}/checked.{number}"
        if check.run is not None:
            return await self._commands.check(check.run, activation, work, key)
        given = work.payload
        made: Any = {path: work.blobs[blob].decode() for path, blob in given.written.items()} \
            if isinstance(given, Patch) else given.value
        return await self._functions.check(check.call or "", activation, made, key)

    async def _inbox(self, role: str, activation: Activation) -> list[Turn]:
        """Messages that were sent to the role: which ones it has seen is not determined, and so it is journalled."""
        slot = self._state.active[activation.key.firing].slot(activation.key.item)
        key = f"{activation.key}/inbox"
        waiting = [sent for sent in self._state.sent if sent.to == role or (sent.to is None and sent.sender != role)]
        if key not in slot.observed and (not waiting or slot.calls):
            return []

        async def look() -> Any:
            return [[sent.sender, self._values.plain(sent.payload), *([sent.untrusted] if sent.untrusted else [])]
                    for sent in waiting]

        letters = await self._observations.once(key, look)
        return [Turn(f"Message from {sender}:\n\n{said if isinstance(said, str) else canonical(said).decode()}", None,
                     *untrusted) for sender, said, *untrusted in letters]

    def _checker_hears(self, activation: Activation) -> str:
        check = self._sop.steps[activation.key.step].check
        return "" if check is None or check.call is None or self._models.dry else self._functions.hears(check.call, activation)

    @staticmethod
    def _with_memory(role: str, activation: Activation, asked: str, work: Work, said: str, heard: str, acting: Acting) -> Work:
        question, answer = asked.encode(), said.encode()
        entry = Entry(role=role, activation=str(activation.key), asked=digest(question), answered=digest(answer),
                      untrusted=joined(activation.unlifted, heard, acting.heard))
        payload = work.payload.model_copy(update={"assumed": tuple(acting.assumed)}) if acting.assumed else work.payload
        return Work(payload, {**work.blobs, entry.asked: question, entry.answered: answer}, entry, tuple(acting.assumed),
                    acting.untrusted)


async def turns(send: Callable[[str, Messages, tuple[Mapping[str, Any], ...]], Awaitable[Reply]], acting: Acting, key: str,
                branch: str, messages: Messages) -> tuple[str, Messages, Reply]:
    """Turn after turn, until the model calls no tool any more: the last turn's branch, the conversation, the reply.

    The first turn is at `branch`, those after it at `turn.1`, `turn.2`, … After `TOOL_TURNS` it is given no more tools.
    """
    first, at = branch.removesuffix("turn.0"), branch
    for number in range(TOOL_TURNS + 1):
        tools = acting.offered.told() if number < TOOL_TURNS else ()
        reply = await send(at, messages, tools)
        if not reply.calls or not tools:
            break
        told = await acting.answered(f"{key}/{at}", reply.calls)
        messages = (*messages, reply.message, *told)
        if number + 1 == TOOL_TURNS:
            messages = (*messages, {"role": "user", "content": render(package_template("last_turn"), {"turns": TOOL_TURNS})})
        at = f"{first}turn.{number + 1}" if branch.endswith("turn.0") else f"{branch}/turn.{number + 1}"
    return at, messages, reply


def _payer(acting: Acting) -> str:
    """The role whose budget a started role's calls count against: that of the first one who started another."""
    return acting.role if acting.above is None else _payer(acting.above)


def _sent_back(messages: Messages, reply: Reply, faults: Any, left: int) -> Messages:
    """The conversation with the answer and what is wrong with it."""
    told = render(package_template("repair"), {"faults": list(faults), "output_format": "", "left": left})
    return (*messages, {"role": "assistant", "content": reply.said}, {"role": "user", "content": told})
