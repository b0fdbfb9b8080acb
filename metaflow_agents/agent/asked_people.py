"""What people answered to a role, for the steps that build on what it made."""

from __future__ import annotations

from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.questions.question import Answer, Question


class AskedPeople:
    """The questions that roles put to people by `ask_person`, as the journal has them."""

    def __init__(self, state: RunState, values: Values) -> None:
        self._state, self._values = state, values

    def behind(self, artifact: str, version: int) -> list[dict[str, str]]:
        """`question` and `answer` of each that was answered, and not just assumed, while a version of an artifact was made."""
        made = self._state.versions.get(artifact, ())
        firing = made[version - 1].firing if 0 < version <= len(made) else None
        found = []
        for key, answered in self._state.answers.items() if firing is not None else ():
            if not key.startswith((f"{firing}~", f"{firing}[")) or "/tool." not in key or key not in self._state.put:
                continue
            question = Question.model_validate_json(self._values.data(self._state.put[key]))
            answer = Answer.model_validate_json(self._values.data(answered.answer))
            if question.kind in ("text", "choice") and question.role and not answer.assumed:
                found.append({"question": question.text, "answer": answer.text})
        return found
