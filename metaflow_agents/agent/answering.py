"""Who is asked by `ask_role` answers: from its own prompt and memory, over the bus, under the key of the question."""

from __future__ import annotations

from collections.abc import Callable

from metaflow_agents.agent.ask_role import Consult, RoleQuestion
from metaflow_agents.agent.conversation import Conversations
from metaflow_agents.agent.strategies.port import Messages
from metaflow_agents.agent.truncation import whole
from metaflow_agents.engine.work import Activation
from metaflow_agents.journal.state import RunState
from metaflow_agents.memory.window import RoleMemory, Turn
from metaflow_agents.models.caller import Caller
from metaflow_agents.models.port import Model, ModelRequest, Reply, traits
from metaflow_agents.prompts import from_package
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.trust import joined
from metaflow_agents.tools.port import ToolResult


class Consulting:
    """Answers questions of activations. Who asks pays: a role's own budget is not spent by others."""

    def __init__(self, sop: SOP, caller: Caller, conversations: Conversations, memory: RoleMemory, state: RunState) -> None:
        self._sop, self._caller, self._conversations, self._memory, self._state = sop, caller, conversations, memory, state

    def of(self, activation: Activation, model_of: Callable[[Activation, str], Model]) -> Consult:
        """What answers the questions of an activation.

        The label of a question is that of all that its activation has read, what its step trusts included; to whoever asked, the
        answer is as untrusted as what the other one remembers.
        """
        async def consult(question: RoleQuestion) -> ToolResult:
            key, role = f"{question.key}/ask.0.{question.to}", self._sop.roles[question.to]
            firing = activation.key.firing
            asks = joined(activation.unlifted, question.untrusted)
            label = joined(question.untrusted, self._memory.untrusted(question.to, role, firing))
            await self._say(activation, key, question.by, question.to, question.text, asks)
            remembered = [*self._memory.turns(question.to, role, firing),
                          *(Turn(_asked(question.by, activation, text), said) for text, said in question.before)]
            messages = self._conversations.opening(
                self._conversations.system(question.to, role, activation), remembered,
                _asked(question.by, activation, question.text))
            reply = await self._reply(activation, key, question, messages, model_of(activation, question.to))
            await self._say(activation, key, question.to, question.by, reply.said, joined(asks, label))
            return ToolResult(reply.said, untrusted=label)
        return consult

    async def _reply(self, activation: Activation, key: str, question: RoleQuestion, messages: Messages, model: Model) -> Reply:
        its = traits(model)

        async def send(at: str, messages: Messages) -> Reply:
            return await self._caller.ask(model, ModelRequest(
                key=at, role=question.to, step=activation.key.step, messages=messages, model=model.name, payer=question.by,
                max_tokens=its.max_tokens, parameters=its.parameters))

        async def more(part: str, messages: Messages) -> Reply:
            return await send(f"{key}/{part}", messages)

        reply = await send(key, messages)
        return await whole(reply, messages, more, its.max_tokens, None) if reply.cut else reply

    async def _say(self, activation: Activation, key: str, sender: str, to: str, text: str, untrusted: str) -> None:
        """Puts a word on the bus, once."""
        slot = self._state.active[activation.key.firing].slot(activation.key.item)
        if (key, sender) not in slot.said:
            await self._caller.bus.send(sender, to, text, untrusted=untrusted, key=key)


def _asked(by: str, activation: Activation, text: str) -> str:
    return from_package("question", {"by": by, "step": activation.key.step, "question": text})
