"""`human:` steps: a person is asked, and the answer becomes the artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AnswerInvalid, AttemptFailed
from metaflow_agents.prompts import render
from metaflow_agents.questions.answering import value_of
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.minimal_example import SmallestUnknown, smallest
from metaflow_agents.schema.payload import Data
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Human, Step
from metaflow_agents.steps.validation import Acceptance
from metaflow_agents.texts.strict_json import read


class Humans:
    """Asks what steps ask people. An artifact without a schema of its own gets the fixed one of the kind of question.

    What a person said is trusted, whatever the person was shown.
    """

    def __init__(self, program: Program, acceptance: Acceptance, desk: QuestionBroker) -> None:
        self._program, self._acceptance, self._desk = program, acceptance, desk

    async def work(self, activation: Activation) -> Work:
        """What the person said. Raises Waiting until somebody has; AttemptFailed where nobody does and that is a failure.

        An answer that does not fit the artifact is asked for again, with what is wrong.
        """
        step = self._program.sop.steps[activation.key.step]
        asked = render(step.task or "", activation.scope, self._program.templates).strip()
        faults: tuple[str, ...] = ()
        tries = 0
        while True:
            key = f"{activation.key}/again.{tries}" if tries else str(activation.key)
            question = self._question(step, key, asked, faults, activation.untrusted)
            answer = await self._desk.ask(question)
            assumed = (f"{key}: {_words(answer)}",) if answer.assumed else ()
            try:
                return Work(self._payload(step, activation, question, answer), untrusted="", assumed=assumed)
            except AnswerInvalid as error:
                if answer.assumed or question.kind != "text":
                    raise AttemptFailed(f"the answer {_words(answer)!r} does not fit: {error}") from None
                tries, faults = tries + 1, error.faults

    def _question(self, step: Step, key: str, asked: str, faults: tuple[str, ...], untrusted: str) -> Question:
        human = step.human or Human(kind="text")
        again = "".join(f"\n(The answer before does not fit: {fault})" for fault in faults)
        schema = self._own(step) if human.kind == "text" else None
        return Question(key=key, kind=human.kind, text=asked + again, step=key.partition("@")[0], choices=human.choices,
                        answer_schema=schema, assumption=self._assumption(step, schema), on_no_answer=step.on_no_answer,
                        untrusted=untrusted)

    def _own(self, step: Step) -> dict[str, Any] | None:
        """The schema that an answer is held against while it is typed; a python model only sees what was typed."""
        own = self._program.schemas.get(step.makes.artifact)
        return None if own is None or "$python" in own else own

    def _assumption(self, step: Step, schema: Mapping[str, Any] | None) -> str:
        """What a text is taken to be where nobody gives one: nothing, or the smallest value of the artifact's own schema."""
        if schema is None or step.on_no_answer != "assume":
            return ""
        try:
            value = smallest(schema, step.makes.artifact, lists="none")
        except SmallestUnknown as error:
            raise AttemptFailed(f"nobody answers, and what to assume is not known: {error}") from None
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def _payload(self, step: Step, activation: Activation, question: Question, answer: Answer) -> Data:
        plain, fixed = _forms(question, answer)
        own = self._program.schemas.get(step.makes.artifact)
        if own is None:
            return Data(value=fixed)
        if question.kind == "text" and "$python" in own:
            plain = _json_or_text(answer.text)
        try:
            return self._acceptance.data(activation, plain)
        except AnswerInvalid as error:
            try:
                return self._acceptance.data(activation, fixed)
            except AnswerInvalid:
                raise error from None


def _forms(question: Question, answer: Answer) -> tuple[Any, dict[str, Any]]:
    """An answer as a plain value, and as the object of its kind. Raises AnswerInvalid for what is no value at all."""
    match question.kind:
        case "approve":
            approved = answer.verdict == "yes"
            return approved, {"approved": approved, "reason": answer.text, "assumed": answer.assumed}
        case "choice":
            return answer.text, {"choice": answer.text, "assumed": answer.assumed}
        case _:
            return value_of(question, answer.text), {"text": answer.text, "assumed": answer.assumed}


def _json_or_text(written: str) -> Any:
    try:
        return read(written)
    except ValueError:
        return written


def _words(answer: Answer) -> str:
    if answer.verdict:
        return "approved" if answer.verdict == "yes" else "not approved"
    return answer.text or "nothing"

