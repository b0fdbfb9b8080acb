"""The open questions of a run, for who looks at it from outside: from its journal's rows and its mailbox."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.questions.answer_queue import AnswerQueue
from metaflow_agents.questions.question import Question


@dataclass(frozen=True, slots=True)
class Open:
    """A question that nobody answered yet. `number` counts the run's questions from 1 and stays; `at` is Unix time.

    `given`: it is answered, and the run takes that in as soon as it goes on. `why`: why it was asked anew.
    """

    run: str
    number: int
    at: float
    question: Question
    given: bool = False
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """What `sop inbox --json` prints of it."""
        return {"run": self.run, "number": self.number, "asked": self.at, "given": self.given, "why": self.why,
                **self.question.model_dump(mode="json")}


def open_questions(path: Path) -> list[Open]:
    """Those of one run, in the order in which they were asked. Raises UsageError for an unknown run, JournalError."""
    numbers: dict[str, int] = {}
    found: dict[str, dict[str, Any]] = {}
    with RawJournal(path) as journal:
        for _, event in journal.events("asked", "answered", "failed"):
            if event["kind"] == "asked":
                numbers.setdefault(event["key"], len(numbers) + 1)
                found[event["key"]] = event
            elif event["kind"] == "answered":
                found.pop(event["key"], None)
            else:
                _close(found, event["activation"])
        if found:                                              # seldom: and then most of a journal is looked through
            for _, event in journal.events("finished"):
                _close(found, event["activation"])
        letters = {(letter.key, letter.question) for letter in AnswerQueue(path).letters()} if found else set()
        return [Open(path.stem, numbers[key], event.get("at", 0.0), Question.model_validate_json(journal.blob(event["question"])),
                     (key, event["question"]) in letters, event.get("why", "")) for key, event in found.items()]


def chosen(questions: list[Open], run: str, number: int | None) -> Open:
    """The question of that number; without one the only one there is. Raises UsageError."""
    waiting = [one for one in questions if not one.given]
    if not waiting:
        given = " but what was answered and is taken in when it goes on" if questions else ""
        raise UsageError(f"run `{run}` asks nothing{given}: there is nothing to answer; to change an earlier answer, branch "
                         f"off before the step that asked: `sop fork {run} --at STEP@1`")
    if number is None:
        if len(waiting) > 1:
            listed = ", ".join(str(one.number) for one in waiting)
            raise UsageError(f"run `{run}` asks {len(waiting)} questions: say which, {listed}; `sop inbox {run}` shows them")
        return waiting[0]
    found = numbered(questions, run, number)
    if found.given:
        raise UsageError(f"question {number} of run `{run}` is answered already: it is taken in when the run goes on")
    return found


def numbered(questions: list[Open], run: str, number: int) -> Open:
    """The question of that number, answered or not. Raises UsageError where none of that number is open."""
    found = next((one for one in questions if one.number == number), None)
    if found is None:
        listed = ", ".join(str(one.number) for one in questions if not one.given)
        there = f"there is {listed}; others are answered or unknown" if questions else "it asks nothing"
        raise UsageError(f"run `{run}` has no open question {number}: {there}")
    return found


def _close(found: dict[str, dict[str, Any]], activation: str) -> None:
    for key in [key for key in found if key == activation or key.startswith(f"{activation}/")]:
        del found[key]
