"""The desk of a sub-SOP: its questions are the run's, under keys that begin with the activation that the sub-SOP is."""

from __future__ import annotations

from collections.abc import Callable

from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Answer, Question


class InnerDesk(QuestionBroker):
    """Puts the questions of a sub-SOP to the desk of what it is a part of. Nobody is waited for in here: where nothing else is
    left to do the sub-SOP rests, and the activation that it is waits.
    """

    def __init__(self, outer: QuestionBroker, key: str) -> None:
        self._outer, self._prefix = outer, f"{key}/"
        self.idle: Callable[[], float] = lambda: 0.0

    async def ask(self, question: Question) -> Answer:
        """See `QuestionBroker`. The keys of a `Waiting` are those of the run."""
        return await self._outer.ask(question.model_copy(update={"key": self._prefix + question.key}))

    def known(self, key: str) -> Answer | None:
        """See `QuestionBroker`."""
        return self._outer.known(self._prefix + key)

    def answered(self, prefix: str) -> list[str]:
        """See `QuestionBroker`."""
        return [key.removeprefix(self._prefix) for key in self._outer.answered(self._prefix + prefix)]

    def question(self, key: str) -> Question:
        """See `QuestionBroker`."""
        return self._outer.question(self._prefix + key)

    def open(self, key: str) -> bool:
        """Whether it must be waited for; the key is one of a `Waiting`."""
        return self._outer.open(key)

    def still_open(self) -> list[str]:
        """The questions of the sub-SOP for which it has to wait, by the keys that people know."""
        return [key for key in self._outer.still_open() if key.startswith(self._prefix)]

    async def attend(self, told: Callable[[], None]) -> None:
        """Others take answers in."""

    async def more(self) -> bool:
        """Not in here."""
        return False

    def waiting(self) -> str:
        """See `QuestionBroker`."""
        return self._outer.waiting()
