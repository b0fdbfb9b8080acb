"""The mailbox: nothing acknowledged is lost, whoever is killed when, and nothing foreign is taken for an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.errors import AnswerInvalid, JournalError, UsageError
from metaflow_agents.questions.answer_queue import AnswerQueue, Letter
from metaflow_agents.questions.answering import answer_of, value_of, wanted
from metaflow_agents.questions.question import Answer, Question


def letter(said: str) -> Letter:
    return Letter(key="ask@1~0", question="d", answer=Answer(text=said))


def said(box: AnswerQueue) -> list[str]:
    return [one.answer.text for one in box.letters()]


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6), st.integers(0, 6))
def test_letters_come_out_as_they_went_in(tmp_path_factory: pytest.TempPathFactory, words: list[str], dropped: int) -> None:
    box = AnswerQueue(tmp_path_factory.mktemp("box") / "one.db")
    for word in words:
        box.put(letter(word))
    assert said(box) == words
    box.drop(box.letters()[:dropped])
    assert said(box) == words[dropped:] and box.path.exists() is bool(words[dropped:])


def test_a_letter_cut_off_by_a_kill_hurts_none_that_comes_after(tmp_path: Path) -> None:
    box = AnswerQueue(tmp_path / "one.db")
    box.put(letter("whole"))
    with box.path.open("ab") as file:
        file.write(b'{"key":"ask@1~0","question":"d","answer":{"te')
    assert said(box) == ["whole"]
    box.put(letter("after"))
    assert said(box) == ["whole", "after"]


@pytest.mark.one_in(4)
def test_many_processes_write_at_once(tmp_path: Path) -> None:
    code = ("import sys; from pathlib import Path; from metaflow_agents.questions.answer_queue import *; "
            "from metaflow_agents.questions.question import Answer\n"
            "box = AnswerQueue(Path(sys.argv[1]))\n"
            "for n in range(20): box.put(Letter(key='k', question='d', answer=Answer(text=f'{sys.argv[2]}.{n}')))")
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "one.db"), str(number)]) for number in range(4)]
    box = AnswerQueue(tmp_path / "one.db")
    found: list[str] = []
    while any(writer.poll() is None for writer in writers) or box.letters():
        letters = box.letters()
        found += [one.answer.text for one in letters]
        box.drop(letters)
    assert all(writer.returncode == 0 for writer in writers)
    assert sorted(found) == sorted(f"{number}.{n}" for number in range(4) for n in range(20))


def test_what_is_no_mailbox_is_refused_in_words(tmp_path: Path) -> None:
    box = AnswerQueue(tmp_path / "one.db")
    box.path.write_text("cos\nsystem\n(S'id'\ntR.\n")
    with pytest.raises(JournalError, match="line 1, is no answer"):
        box.letters()
    box.path.unlink()
    (tmp_path / "elsewhere").write_text("")
    box.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="can't use"):
        box.put(letter("through a link"))
    assert (tmp_path / "elsewhere").read_text() == ""


def test_nobody_else_may_read_answers(tmp_path: Path) -> None:
    box = AnswerQueue(tmp_path / "one.db")
    for word in ("a", "b"):
        box.put(letter(word))
        assert os.stat(box.path).st_mode & 0o077 == 0
    box.drop(box.letters()[:1])
    assert said(box) == ["b"] and os.stat(box.path).st_mode & 0o077 == 0


# -- what was typed → an answer

def question(kind: str, **more: object) -> Question:
    return Question.model_validate({"key": "ask@1~0", "kind": kind, "text": "Well?", "step": "ask", **more})


CHOICE = {"choices": ("warm", "cold")}
RECEIPT = {"answer_schema": {"type": "object", "properties": {"receipt": {"type": "string"}}, "required": ["receipt"]}}
FITS = [
    ("text", {}, {"text": "hello"}, Answer(text="hello")),
    ("text", {"answer_schema": {"type": "integer"}}, {"text": "3"}, Answer(text="3")),
    ("choice", CHOICE, {"text": "warm"}, Answer(text="warm")),
    ("approve", {}, {"verdict": "no", "reason": "dull"}, Answer(verdict="no", text="dull")),
    ("effect", {"role": "clerk"}, {"verdict": "yes"}, Answer(verdict="yes")),
    ("effect", {}, {"verdict": "no"}, Answer(verdict="no")),
    ("effect", {}, {"verdict": "yes", "reason": "it went"}, Answer(verdict="yes", text="it went")),
    ("effect", RECEIPT, {"verdict": "yes", "reason": '{"receipt": "7"}'}, Answer(verdict="yes", text='{"receipt": "7"}')),
    ("action", {}, {"verdict": "yes", "scope": "rule"}, Answer(verdict="yes", scope="rule")),
    ("action", {}, {"verdict": "yes", "arguments": '{"a": 1}'}, Answer(verdict="yes", arguments={"a": 1})),
]
MISFITS = [
    ("text", {}, {}, "wants a text"),
    ("text", {}, {"verdict": "yes"}, "wants a text, and no --yes"),
    ("text", {"answer_schema": {"type": "integer"}}, {"text": "three"}, "wanted is integer"),
    ("choice", CHOICE, {"text": "wram"}, "did you mean `warm`"),
    ("choice", CHOICE, {}, "one of its choices: warm, cold"),
    ("effect", {}, {"verdict": "yes"}, "the step goes on with what it gave: say that, too (a text)"),
    ("effect", RECEIPT, {"verdict": "yes"}, "say that, too ({receipt, …}, as JSON)"),
    ("effect", RECEIPT, {"verdict": "yes", "reason": "it went"}, "can't go on with that as what it gave: not JSON"),
    ("effect", RECEIPT, {"verdict": "yes", "reason": "{}"}, "wanted is {receipt, …}, as JSON"),
    ("approve", {}, {"text": "fine"}, "wants --yes or --no; words go with --reason"),
    ("approve", {}, {"verdict": "yes", "scope": "run"}, "`--for` belongs to an action"),
    ("approve", {}, {"verdict": "yes", "arguments": "{}"}, "`--arguments` belongs to an action"),
    ("effect", {}, {}, "it has happened"),
    ("action", {}, {"verdict": "yes", "scope": "ever"}, "there is: once, run, rule"),
    ("action", {}, {"verdict": "no", "scope": "run"}, "a refusal counts once"),
    ("action", {}, {"verdict": "yes", "scope": "run", "arguments": "{}"}, "with other arguments it is allowed once"),
    ("action", {}, {"verdict": "no", "arguments": "{}"}, "`--arguments` go with --yes"),
    ("action", {}, {"verdict": "yes", "arguments": "[1]"}, "are a JSON object"),
    ("action", {}, {"verdict": "yes", "arguments": "{a: 1}"}, "are no JSON"),
]


@pytest.mark.parametrize(("kind", "more", "typed", "answer"), FITS)
def test_what_fits_a_question(kind: str, more: dict[str, object], typed: dict[str, str], answer: Answer) -> None:
    assert answer_of(question(kind, **more), **typed) == answer  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "more", "typed", "words"), MISFITS)
def test_what_does_not_is_told_with_the_mend(kind: str, more: dict[str, object], typed: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as told:
        answer_of(question(kind, **more), **typed)  # type: ignore[arg-type]
    assert words in str(told.value) and "\n" not in str(told.value)


def test_a_text_is_typed_without_quotes_and_the_rest_as_json() -> None:
    union = question("text", answer_schema={"anyOf": [{"type": "string", "maxLength": 3}, {"type": "array", "items": {}}]})
    assert value_of(union, "[1]") == "[1]" and value_of(union, "[1, 2]") == [1, 2]
    with pytest.raises(AnswerInvalid):
        value_of(union, "[1, 2")
    assert "as JSON" in wanted(union) and wanted(question("text")) == "a text"
