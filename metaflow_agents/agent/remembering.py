"""What stands in an activation's prompt of its role's memory: the window, and before it what comes back to its mind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from metaflow_agents.agent.embedding import Embedding
from metaflow_agents.agent.reflecting import Reflecting, Typed
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.memory.project import ProjectMemory
from metaflow_agents.memory.window import RoleMemory, Turn
from metaflow_agents.memory.wording import observed, worded
from metaflow_agents.prompts import from_package
from metaflow_agents.schema.event import Entry
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.trust import joined
from metaflow_agents.steps.assignment import mind_for
from metaflow_agents.steps.side_effects import Observations

IMPORTANCE = {"type": "object", "required": ["importance"], "additionalProperties": False,
              "properties": {"importance": {"type": "integer", "minimum": 1, "maximum": 10}}}
_SUMMED = 8000                      # characters of a question, and of an answer, that are summed up
_RATED = 4000                       # characters of a memory that is rated: how important it is shows in its beginning

Says = Callable[[str, str], Awaitable[str]]
"""Asks the role's model for words: branch, what is asked."""


@dataclass(frozen=True, slots=True)
class Summary(Turn):
    """What stands in a prompt in place of what fell out of the window; `covers`: how many turns these are."""

    text: str = ""
    covers: int = 0


@dataclass(frozen=True, slots=True)
class KeptMemories:
    """What a role remembers of an activation, what besides, and the words of it by digest."""

    turn: Entry
    besides: tuple[Entry, ...]
    blobs: dict[str, bytes]


class Remembering:
    """The memory of activations. What is recalled is in the journal before a prompt is built from it, so that a resume sees the
    same (journal rule 3).
    """

    def __init__(self, sop: SOP, window: RoleMemory, project: ProjectMemory, observations: Observations,
                 embedding: Embedding) -> None:
        self._sop, self._window, self._project, self._observations = sop, window, project, observations
        self._embedding = embedding
        self._reflecting = Reflecting(sop, window, project, observations, embedding)

    def mind(self, activation: Activation, name: str) -> str:
        """Whose memory works: the role's, or that of the character which the step says it is here. Raises AttemptFailed."""
        return mind_for(self._sop.steps[activation.key.step], name, activation.scope)

    async def recalled(self, activation: Activation, name: str, asked: str) -> list[Turn]:
        """What comes to a role's mind as it is asked something; nothing where it recalls nothing. Raises MemoryFault."""
        role, firing = self._sop.roles[name], activation.key.firing
        wanted, mind = role.memory.recall, self.mind(activation, name)
        if wanted is None:
            return []

        async def look() -> Any:
            past = self._window.past(None if wanted.from_ != "role" else mind, firing)
            embedder = None if wanted.embedder is None else self._embedding.of(activation, name, wanted.embedder)
            standing = self._window.standing(mind, role, firing)
            return await self._project.recall(mind, wanted, past, standing, observed(asked), embedder,
                                              others=role.memory.recalls_other_runs)

        found = await self._observations.once(f"{activation.key}/recalled", look)
        if not found:
            return []
        told = from_package("recalled", {"memories": found, "role": mind})
        return [Turn(told, None, joined(*(one["untrusted"] for one in found)))]

    async def lessons(self, activation: Activation, name: str) -> list[Turn]:
        """The latest lessons of a role, as they stand in its prompts; nothing where it keeps or has none. Raises MemoryFault."""
        memory, mind = self._sop.roles[name].memory, self.mind(activation, name)
        most = memory.lessons
        if most is None:
            return []

        async def look() -> Any:
            past = self._window.lessons(mind, activation.key.firing)
            return await self._project.lessons(mind, past, most, others=memory.over == "runs")

        found = await self._observations.once(f"{activation.key}/lessons", look)
        if not found:
            return []
        told = from_package("lessons", {"lessons": found})
        return [Turn(told, None, joined(*(one["untrusted"] for one in found)))]

    async def summarised(self, activation: Activation, name: str, say: Says) -> list[Summary]:
        """What stands in the prompts in place of the turns that fell out of the window: nothing, or one summary of them all."""
        role, mind = self._sop.roles[name], self.mind(activation, name)
        fallen = self._window.fallen(mind, role, activation.key.firing) if role.memory.summary else None
        if fallen is None or not fallen.covers:
            return []
        text = fallen.before
        if fallen.turns:
            turns = [{"asked": observed(turn.asked)[:_SUMMED], "answered": turn.answered and turn.answered[:_SUMMED]}
                     for turn in fallen.turns]
            text = await say("summary", from_package("summary", {"part": "ask", "before": text, "turns": turns}))
        told = from_package("summary", {"part": "told", "before": text, "turns": []})
        return [Summary(told, None, fallen.untrusted, text, fallen.covers)]

    async def kept(self, activation: Activation, name: str, asked: str, answered: str, untrusted: str, ask: Typed,
                   summaries: Sequence[Summary], lessons: Sequence[str]) -> KeptMemories:
        """What the role remembers of an activation that is done: how it is rated, what it comes to see by it, the lessons that it
        drew on its way, and the summary that was made before it.
        """
        mind, question, answer = self.mind(activation, name), asked.encode(), answered.encode()
        turn = Entry(role=name, activation=str(activation.key), asked=digest(question), answered=digest(answer),
                     untrusted=untrusted, importance=await self._importance(name, asked, answered, ask),
                     mind="" if mind == name else mind)
        besides = await self._reflecting.insights(activation, turn, self._project.masked(worded(asked, answered)), ask)
        for lesson in dict.fromkeys(lessons) if self._sop.roles[name].memory.lessons is not None else ():
            entry = turn.model_copy(update={"kind": "lesson", "answered": digest(lesson.encode()), "importance": None})
            besides.append((entry, asked, lesson))
        for one in summaries:
            entry = turn.model_copy(update={
                "kind": "summary", "asked": digest(b""), "answered": digest(one.text.encode()), "importance": None,
                "untrusted": one.untrusted, "covers": one.covers})
            besides.append((entry, "", one.text))
        blobs = {turn.asked: question, turn.answered: answer}
        for entry, asks, words in besides:
            blobs |= {entry.asked: asks.encode(), entry.answered: words.encode()}
        return KeptMemories(turn, tuple(entry for entry, _, _ in besides), blobs)

    async def _importance(self, name: str, asked: str, answered: str, ask: Typed) -> int | None:
        """How important it is to remember this, 1 to 10; None where nobody weighs it, or the model has no number for it."""
        if not self._sop.rates(name):
            return None
        text = from_package("importance", {"asked": observed(asked)[:_RATED], "answered": answered[:_RATED]})
        try:
            rated: int = (await ask("importance", text, IMPORTANCE))["importance"]
        except AnswerInvalid:           # its answers stand in the journal; the work is done, and the memory counts as unrated
            return None
        return rated
