"""What was typed in answer to a question → an `Answer`, or why it is none; and an answer into the journal of a run that rests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Any, Literal

from metaflow_agents.errors import AnswerInvalid, RunBusy, UsageError, did_you_mean
from metaflow_agents.journal.audit import Heads, chained, keep_head
from metaflow_agents.journal.journal import Journal
from metaflow_agents.questions.answer_queue import AnswerQueue, Letter
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Answered
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.validation import validator
from metaflow_agents.schema.wording import describe
from metaflow_agents.settings import Settings
from metaflow_agents.texts.strict_json import read

Scope = Literal["once", "run", "rule"]
SCOPES: tuple[Scope, ...] = ("once", "run", "rule")
WANTS: Mapping[str, str] = {
    "text": "a text",
    "choice": "one of its choices",
    "approve": "--yes or --no",
    "action": "--yes or --no",
    "effect": "--yes (it has happened) or --no (it has not: it is done now)",
}
"""Kind of question → what answers it on the command line."""


def answer_of(question: Question, *, text: str | None = None, verdict: Literal["yes", "no"] | None = None, reason: str = "",
              scope: str = "once", arguments: str | None = None) -> Answer:
    """The answer that somebody gave. `arguments` is JSON. Raises UsageError, with what the question wants."""
    judged = question.kind in ("approve", "action", "effect")
    if judged and (verdict is None or text is not None):
        raise UsageError(f"the question wants {WANTS[question.kind]}" + ("" if text is None else "; words go with --reason"))
    if not judged and (verdict is not None or reason):
        given = "--reason" if verdict is None else f"--{verdict}"
        raise UsageError(f"the question wants {WANTS[question.kind]}{_listed(question)}, and no {given}")
    if question.kind != "action" and (scope != "once" or arguments is not None):
        raise UsageError(f"`{'--arguments' if arguments is not None else '--for'}` belongs to an action that is asked about")
    if verdict == "no" and arguments is not None:
        raise UsageError("`--arguments` go with --yes to an action: what is refused is not done, with whatever arguments")
    if judged:
        if question.needs_result and verdict == "yes":
            _check_result(question, reason)
        return Answer(text=reason, verdict=verdict or "", scope=_scope(scope, verdict, arguments),
                      arguments=_arguments(arguments))
    if text is None:
        raise UsageError(f"the question wants {WANTS[question.kind]}{_listed(question)}")
    if question.kind == "choice" and text not in question.choices:
        raise UsageError(f"{text!r} is no choice: {did_you_mean(text, question.choices)}")
    if question.kind == "text":
        try:
            value_of(question, text)
        except AnswerInvalid as error:
            raise UsageError(f"the answer does not fit: {error}; wanted is {wanted(question)}") from None
    return Answer(text=text)


def _check_result(question: Question, said: str) -> None:
    """Raises UsageError where a step could not go on with what a person says that an effect gave."""
    if not said:
        raise UsageError(f"it has happened, and the step goes on with what it gave: say that, too ({wanted(question)})")
    if question.answer_schema is None:
        return
    try:
        validator(question.answer_schema, "result").validate_json(said)
    except AnswerInvalid as error:
        raise UsageError(f"the step can't go on with that as what it gave: {error}; wanted is {wanted(question)}") from None


def shape(question: Question) -> str:
    """What an effect gave, as it is to be written, with dots where the person knows it."""
    schema = question.answer_schema or {}
    names = ", ".join(f'"{name}": …' for name in schema.get("properties", {}))
    return {"string": '"…"', "array": "[…]"}.get(str(schema.get("type")), f"{{{names}}}" if names else "…")


def value_of(question: Question, text: str) -> Any:
    """The value that an answer to a `text` question is: the text, or the JSON in it, where the question has a schema.

    Raises AnswerInvalid, with every fault.
    """
    schema = question.answer_schema
    if schema is None:
        return text
    check = validator(schema, "answer")
    try:
        return check.validate(text)                            # a text where texts fit: nobody quotes what they type
    except AnswerInvalid:
        return check.validate_json(text)


def wanted(question: Question) -> str:
    """What the answer to a `text` question, or what an effect gave, has to be, in words."""
    schema = question.answer_schema
    return "a text" if schema is None else (
        f"{describe(schema, bounds=True)}, as JSON{'' if question.needs_result else ' where it is no text'}")


def _listed(question: Question) -> str:
    return f": {', '.join(question.choices)}" if question.choices else ""


def _scope(scope: str, verdict: str | None, arguments: str | None) -> Scope:
    if scope not in SCOPES:
        raise UsageError(f"`--for {scope}`: {did_you_mean(scope, SCOPES)}")
    if scope != "once" and (verdict == "no" or arguments is not None):
        raise UsageError(f"`--for {scope}` goes with --yes to the action as it was asked for: "
                         + ("a refusal counts once" if verdict == "no" else "with other arguments it is allowed once"))
    return next(one for one in SCOPES if one == scope)


def _arguments(written: str | None) -> dict[str, Any] | None:
    if written is None:
        return None
    try:
        found = read(written)
    except ValueError as error:
        raise UsageError(f"the arguments are no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError('the arguments are a JSON object, like {"path": "a.txt"}')
    return found


async def give(path: Path, question: Question, answer: Answer, settings: Settings, by: str = "answer") -> str:
    """Puts an answer into a run's journal: "" where that is done, else the words of who has the run open and takes it in.

    Raises UsageError where the question was answered meanwhile, JournalError.
    """
    letter = Letter(key=question.key, question=question.digest, answer=answer, by=by)
    try:
        await _append(path, letter, settings)
        return ""
    except RunBusy as busy:
        AnswerQueue(path).put(letter)
        told = str(busy).partition(";")[0]
    try:
        await _append(path, letter, settings)                  # it has ended in between, and may not have looked again
    except (RunBusy, UsageError):                              # it has, or it still goes on
        return told
    return ""


async def _append(path: Path, letter: Letter, settings: Settings) -> None:
    async with Journal.open(path) as journal:
        state = journal.state
        waits = state.questions.get(letter.key)
        if waits is None or waits.question != letter.question:
            raise UsageError(f"the question under {letter.key} is answered already")
        packed = letter.answer.packed
        now = time()
        keep_head(journal, Heads(settings.heads))
        await journal.append(chained(state, Answered(at=now, key=letter.key, answer=digest(packed), by=letter.by,
                                                     rested=max(now - state.latest, 0.0))), blobs={digest(packed): packed})
