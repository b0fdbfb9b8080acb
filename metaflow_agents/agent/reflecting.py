"""Reflections: once what a role remembers weighs enough, it asks itself what it comes to, and remembers the answers.

Source: Park et al., "Generative Agents: Interactive Simulacra of Human Behavior" (UIST 2023), section 4.2: when the summed
importance of the latest memories passes a threshold (150 there), three questions over the hundred latest memories; for each
of them the memories that have to do with it, and insights that cite those which they rest on. An insight is a memory like
others: it is recalled, and later ones rest on it. Its importance is asked with the insight, not in a call of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from metaflow_agents.agent.embedding import Embedding
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.memory.project import ProjectMemory
from metaflow_agents.memory.seen import UNRATED
from metaflow_agents.memory.window import RoleMemory
from metaflow_agents.prompts import from_package
from metaflow_agents.schema.caps import REFLECTION_QUESTIONS
from metaflow_agents.schema.event import Entry
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.role import Recall
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.trust import joined
from metaflow_agents.steps.side_effects import Observations

RECENT = 100                        # memories that the questions are asked over
STATEMENTS = 30                     # memories that are found for a question
INSIGHTS = 5                        # for a question, at most
_BEGINNING, _END = 200, 300         # characters of a memory in these prompts: what was asked, and what came of it

QUESTIONS = {"type": "object", "required": ["questions"], "additionalProperties": False, "properties": {"questions": {
    "type": "array", "minItems": REFLECTION_QUESTIONS, "maxItems": REFLECTION_QUESTIONS, "items": {"type": "string"}}}}

Typed = Callable[[str, str, Any], Awaitable[Any]]
"""Asks the role's model for a value: branch, what is asked, the value's schema. Raises AnswerInvalid."""
Written = list[tuple[Entry, str, str]]
"""What a role remembers besides, each with the words of what was asked and answered."""


class Reflecting:
    """Reflects at the end of activations. All that is found is journalled before anything is asked about it."""

    def __init__(self, sop: SOP, window: RoleMemory, project: ProjectMemory, observations: Observations,
                 embedding: Embedding) -> None:
        self._sop, self._window, self._project, self._observations = sop, window, project, observations
        self._embedding = embedding

    async def insights(self, activation: Activation, turn: Entry, text: str, ask: Typed) -> Written:
        """What a role comes to see once an activation is done: mostly nothing. `turn` is what it remembers of that activation,
        `text` in words. Raises MemoryFault.
        """
        memory = self._sop.roles[turn.role].memory
        if memory.reflect is None or not self._is_its_turn(activation):
            return []
        wanted, least, mind = memory.recall or Recall(), memory.reflect.after, turn.whose
        weighed = self._window.unreflected(mind, activation.key.firing)
        rated = sum(UNRATED if one.importance is None else one.importance for one in (*weighed, turn))
        past = self._window.past(mind, activation.key.firing)

        async def look() -> Any:
            elsewhere, recent = await self._project.recent(mind, past, RECENT - 1, others=memory.recalls_other_runs)
            summed = rated + elsewhere
            return {"summed": summed, "after": least, "recent": recent if summed >= least else []}

        found = await self._observations.once(f"{activation.key}/reflect", look)
        if found["summed"] < least:
            return []
        own = {"key": self._project.key(turn), "text": text, "untrusted": turn.untrusted}
        try:
            return await self._reflected(activation, turn, wanted, [*found["recent"], own], ask)
        except AnswerInvalid:               # its answers stand in the journal; the work is done, and it reflects the next time
            return []

    async def _reflected(self, activation: Activation, turn: Entry, wanted: Recall, recent: Sequence[Any], ask: Typed) -> Written:
        asked = from_package("reflect", {
            "part": "questions", "memories": [_stated(one) for one in recent], "question": "", "number": REFLECTION_QUESTIONS})
        questions: list[str] = (await ask("reflect/questions", asked, QUESTIONS))["questions"]
        label = joined(*(one["untrusted"] for one in recent))
        found: dict[str, tuple[Entry, str, str]] = {}
        for number, question in enumerate(questions, 1):
            statements = [*await self._found(activation, turn, wanted, question, number), recent[-1]]
            for insight in await _inferred(number, question, statements, ask):
                words = insight["insight"].strip()
                cited = dict.fromkeys(statements[place - 1]["key"] for place in insight["because"])
                found.setdefault(words, (turn.model_copy(update={
                    "kind": "reflection", "asked": digest(question.encode()), "answered": digest(words.encode()),
                    "importance": insight["importance"], "cites": tuple(cited),
                    "untrusted": joined(label, *(one["untrusted"] for one in statements))}), question, words))
        return [*found.values()]

    async def _found(self, activation: Activation, turn: Entry, wanted: Recall, question: str, number: int) -> list[Any]:
        past = self._window.past(None if wanted.from_ != "role" else turn.whose, activation.key.firing)

        async def look() -> Any:
            embedder = None if wanted.embedder is None else self._embedding.of(activation, turn.role, wanted.embedder)
            most = wanted.model_copy(update={"top": STATEMENTS})
            others = self._sop.roles[turn.role].memory.recalls_other_runs
            return await self._project.recall(turn.whose, most, past, [], question, embedder, others=others)

        found: list[Any] = await self._observations.once(f"{activation.key}/reflect/found.{number}", look)
        return found

    def _is_its_turn(self, activation: Activation) -> bool:
        """Of items that share one memory, which they all see as it was before them, the first reflects for all."""
        step, item = self._sop.steps[activation.key.step], activation.item
        items = self._window.items(activation.key.firing)
        return step.self_ is not None or step.memory_of is not None or item is None or not items or items[0] == item.key


async def _inferred(number: int, question: str, statements: Sequence[Any], ask: Typed) -> list[Any]:
    asked = from_package("reflect", {
        "part": "insights", "memories": [_stated(one) for one in statements], "question": question, "number": INSIGHTS})
    place = {"type": "integer", "minimum": 1, "maximum": len(statements)}
    insight = {"type": "object", "required": ["insight", "because", "importance"], "additionalProperties": False, "properties": {
        "insight": {"type": "string", "minLength": 1}, "because": {"type": "array", "minItems": 1, "items": place},
        "importance": {"type": "integer", "minimum": 1, "maximum": 10}}}
    form = {"type": "object", "required": ["insights"], "additionalProperties": False, "properties": {
        "insights": {"type": "array", "minItems": 1, "maxItems": INSIGHTS, "items": insight}}}
    said: list[Any] = (await ask(f"reflect/insights.{number}", asked, form))["insights"]
    return said


def _stated(memory: Any) -> str:
    """A memory in short: how it begins and how it ends."""
    text: str = memory["text"]
    return text if len(text) <= _BEGINNING + _END else f"{text[:_BEGINNING]} … {text[-_END:]}"
