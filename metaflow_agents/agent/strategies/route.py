"""A task is given to one of several experts: chosen by what each is for, with arguments in the form that it takes.

Sources: Karpas et al., "MRKL Systems" (2022): a router, experts, and the arguments of the chosen one extracted from the text.
Shen et al., "HuggingGPT" (NeurIPS 2023): which model does a task is chosen in context, against the models' descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.strategies import route


class RouteStrategy(Strategy[route.Route]):
    """The step's role chooses and extracts; the chosen one does the task on a branch of its own, by its own model and tools."""

    SPEC = route.Route

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`. Raises AnswerInvalid where there is no fallback and the arguments can't be had."""
        told = [self._told(thinking, role) for role in self.given.experts]
        chosen, why = await self._chosen(thinking, told)
        arguments, missed = await self._arguments(thinking, chosen)
        doer = chosen if missed is None or self.given.fallback is None else self.given.fallback
        await thinking.note("route", {"chosen": chosen, "why": why, "arguments": arguments, "given_to": doer,
                                      **({} if missed is None else {"not_given": missed})})
        async with thinking.apart(f"expert.{doer}", doer) as expert:
            asked = expert.compose(expert.prompt("work", arguments=arguments, output_format=expert.output_format))
            said = await expert.ask("turn.0", asked)
            thinking.take(expert)
        return said

    def _told(self, thinking: Thinking, role: str) -> Mapping[str, Any]:
        """An expert, as the prompt of the choice tells of it."""
        expert, its = self.given.experts[role], thinking.described(role)
        takes = None if expert.takes is None else to_json_schema(expert.takes)
        about = expert.about or " ".join(text for text in (its["profile"], its["goal"]) if text)
        return {"name": role, "about": about, "tools": its["tools"], "takes": takes}

    async def _chosen(self, thinking: Thinking, told: list[Mapping[str, Any]]) -> tuple[str, str]:
        """The role that is chosen, which may be the fallback, and why."""
        names = list(dict.fromkeys((*self.given.experts, *([] if self.given.fallback is None else [self.given.fallback]))))
        asked = thinking.compose(thinking.prompt("choose", experts=told, fallback=self.given.fallback or ""))
        found = await thinking.typed("choice", asked, {
            "type": "object", "properties": {"expert": {"enum": names}, "why": {"type": "string"}},
            "required": ["expert", "why"], "additionalProperties": False})
        return found["expert"], found["why"]

    async def _arguments(self, thinking: Thinking, chosen: str) -> tuple[Any, str | None]:
        """What the chosen one takes, None where it takes nothing; and, where a fallback has to do the task, why."""
        expert = self.given.experts.get(chosen)
        if expert is None or expert.takes is None:
            return None, None
        asked = thinking.compose(thinking.prompt("extract", expert=chosen, about=self._told(thinking, chosen)["about"]))
        try:
            return await thinking.typed("arguments", asked, expert.takes), None
        except AnswerInvalid as error:
            if self.given.fallback is None:
                raise
            return None, "; ".join(error.faults)
