"""`review:`: another role judges an answer inside the activation, and what it says goes back to the author.

It comes after the form and the `check`. The judge has a conversation of its own: its own prompt and memory, what the step
reads, the answer, and what it said of earlier ones.
"""

from __future__ import annotations

from typing import Any

from metaflow_agents.agent.strategies.port import Thinking
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.prompts import from_package
from metaflow_agents.schema.model import as_ordered
from metaflow_agents.schema.payload import Binary, Data, Patch
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.results import VERDICT
from metaflow_agents.schema.step import Step

ACCEPT = "verdict.good"


class Reviewing:
    """The reviews of one attempt. `dry`: the judge is asked, so that its prompt is seen, and content whatever it says."""

    def __init__(self, program: Program, step: Step, activation: Activation, thinking: Thinking, *, dry: bool) -> None:
        self._review, self._thinking, self._dry = step.review, thinking, dry
        self._schema = program.schemas.get(f"review:{activation.key.step}", VERDICT)
        self._before: list[str] = []

    @property
    def repairs(self) -> int:
        """How often the author may mend."""
        return 0 if self._review is None else self._review.repairs

    @property
    def wanted(self) -> str:
        """The condition that a rejection did not meet, for people; empty where it is the usual one."""
        accept = None if self._review is None else self._review.accept
        return f"; `accept: {accept}` does not hold" if accept else ""

    async def told(self, answer: Any, payload: Data | Binary | Patch, number: int) -> str | None:
        """What the judge says against an answer; None where it is taken. `number`: how many reviews came before.

        Raises AnswerInvalid where the judge gives no verdict, AttemptFailed where `accept` fails on it.
        """
        review = self._review
        if review is None:
            return None
        async with self._thinking.apart(f"reviewed.{number}", review.role) as judge:
            deleted = list(payload.deleted) if isinstance(payload, Patch) else []
            asked = judge.compose(from_package("review", {
                "answer": answer, "files": isinstance(payload, Patch), "deleted": deleted, "before": self._before,
                "accept": review.accept or ""}))
            try:
                verdict = await judge.typed("verdict", asked, self._schema)
            except AnswerInvalid as error:
                raise AnswerInvalid([f"`{review.role}`, who judges it, gives no verdict: {error}"]) from None
        if self._dry or self._thinking.evaluate(review.accept or ACCEPT, verdict=verdict, answer=answer):
            return None
        said = verdict["why"] if review.verdict is None else as_ordered(verdict).decode()
        self._before.append(said)
        return f"`{review.role}`, who judges it, says: {said}"
