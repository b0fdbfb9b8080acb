"""Who looks at a run as a whole (`progress:`): what the role is shown, and what it may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.agent import doings, repair
from metaflow_agents.agent.conversation import Conversations
from metaflow_agents.agent.material import named
from metaflow_agents.agent.strategies.port import Messages, Said
from metaflow_agents.agent.structured_output import typed
from metaflow_agents.engine.progress import Judgement
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.journal.run_context import RunContext
from metaflow_agents.memory.window import RoleMemory
from metaflow_agents.models.caller import Caller
from metaflow_agents.models.port import ModelRequest, traits
from metaflow_agents.models.pricing import PICO
from metaflow_agents.models.registry import Models
from metaflow_agents.prompts import FilesView, from_package, render
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.keys import LOOK
from metaflow_agents.schema.sop import Progress
from metaflow_agents.schema.trust import joined
from metaflow_agents.steps.side_effects import Observations

_SHOWN = 2000                       # characters of each artifact


class RunJudge:
    """Fits the engine's `Judge`. `caps` are those of the run."""

    def __init__(self, context: RunContext, spec: Progress, models: Models, caller: Caller, conversations: Conversations,
                 memory: RoleMemory, observations: Observations, caps: Budget) -> None:
        self._sop, self._spec, self._models, self._caller = context.sop, spec, models, caller
        self._conversations, self._memory, self._observations = conversations, memory, observations
        self._state, self._values, self._caps = context.state, context.values, caps

    async def judged(self, activation: Activation, *, replan: bool) -> Judgement:
        """See `Judge`."""
        name, role = self._spec.role, self._sop.roles[self._spec.role]
        model, firing = self._models.of(role.model, self._spec.role), activation.key.firing
        its = traits(model)

        async def look() -> Any:
            return self._standing(activation)

        async def send(at: str, messages: Messages, schema: Mapping[str, Any]) -> Said:
            key = f"{activation.key}/{at}"
            reply = await self._caller.ask(model, ModelRequest(
                key=key, role=name, step=LOOK, messages=messages, model=model.name, schema=schema, max_tokens=its.max_tokens,
                parameters=its.parameters))
            return Said(messages, await repair.data(self._observations, key, reply, schema))

        standing = await self._observations.once(f"{activation.key}/standing", look)
        doing = standing.get("doing", [])
        actions = ["continue", *(["replan"] if replan else []), "stop"]
        asked = from_package("progress", {
            "goal": self._spec.goal, "description": self._sop.description, "replan": replan, "artifacts": self._shown(activation),
            **standing, "doing": [{"key": one["key"], "told": doings.told(one)} for one in doing]})
        messages = self._conversations.opening(
            self._conversations.system(name, role, activation), self._memory.turns(name, role, firing), asked)
        schema = {"type": "object", "required": ["action", "why"], "additionalProperties": False,
                  "properties": {"action": {"type": "string", "enum": actions}, "why": {"type": "string"}}}
        try:
            said = await typed(send, "verdict", messages, schema)
        except AnswerInvalid as error:
            raise AnswerInvalid([f"`{name}`, who looks at the run, gives no verdict: {error}"]) from None
        heard = joined(self._memory.untrusted(name, role, firing), *(one["untrusted"] for one in doing))
        return Judgement(said["action"], said["why"], heard)

    def _standing(self, activation: Activation) -> dict[str, Any]:
        """What was spent and done up to now. It is not determined, and so it is journalled; time and money are told in tenths of
        their caps, so that a recording can be played again.
        """
        (calls, tokens, cost), caps = self._state.total().charged, self._caps
        used = {"time": (self._state.elapsed, caps.time), "money": (cost / PICO, caps.usd)}
        return {
            "calls": calls, "tokens": tokens, "caps": {"calls": caps.calls, "tokens": caps.tokens},
            "tenths": {what: min(int(10 * now / cap), 10) for what, (now, cap) in used.items() if cap},
            "steps": [{"name": name, "fired": self._state.fired.get(name, 0), "rounds": step.rounds,
                       "running": any(one.step == name for one in self._state.active.values())}
                      for name, step in self._sop.steps.items()],
            "doing": [*doings.under_way(self._values, self._state)],
            "before": [self._values.plain(payload) for payload in self._state.looks],
        }

    def _shown(self, activation: Activation) -> list[dict[str, Any]]:
        shown = []
        for name, number in activation.read.items():
            if number:
                value = activation.scope[name]
                names = named(value) if isinstance(value, FilesView) else None
                text = render("{{ value }}", {"value": value}) if names is None else "\n".join(f"- {one}" for one in names)
                shown.append({"name": name, "version": number, "given": name in self._sop.inputs, "text": text[:_SHOWN],
                              "left": max(len(text) - _SHOWN, 0)})
        return shown
