"""The desk: each question is asked once, answered once, and each answer is journalled with whose it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents.errors import AttemptFailed, Waiting
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.journal import Journal
from metaflow_agents.questions.answer_queue import AnswerQueue, Letter
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Answered, Asked, Fired

YES, NO = Answer(verdict="yes"), Answer(verdict="no")
KEY = "write@1~0/turn.0/tool.0"


def action(key: str = KEY, **more: Any) -> Question:
    fields: dict[str, Any] = {"kind": "action", "text": "", "role": "writer", "step": "write", "tool": "fetch",
                              "action": "fetch(https://example.com/a)", "arguments": {"url": "https://example.com/a"},
                              "rule": "ask fetch(**) of the SOP", **more}
    return Question(key=key, **fields)


def text(key: str = "ask@1~0", **more: Any) -> Question:
    return Question(key=key, kind=more.pop("kind", "text"), text=more.pop("text", "Well?"), step="ask", **more)


class Room:
    """A journal with a desk at it; `again` is the desk of the next process."""

    def __init__(self, journal: Journal, **options: Any) -> None:
        self.journal, self.bus = journal, Bus(journal)
        self.desk = self.again(**options)

    def again(self, **options: Any) -> QuestionBroker:
        return QuestionBroker(self.bus, self.journal.state, self.journal.blob, **options)

    async def ask(self, question: Question, desk: QuestionBroker | None = None) -> Answer | tuple[str, ...]:
        """The answer, or the keys that are waited for."""
        try:
            return await (desk or self.desk).ask(question)
        except Waiting as waiting:
            return waiting.keys

    def told(self) -> list[str]:
        """What was asked, and who answered."""
        return [f"{event.key}?" if isinstance(event, Asked) else f"{event.key}: {event.by}"
                for _, event in self.journal.events(Asked, Answered)]


@asynccontextmanager
async def room(**options: Any) -> AsyncIterator[Room]:
    async with Journal.in_memory() as journal:
        await journal.append(Fired(step="write", round=1, read={}), Fired(step="ask", round=1, read={}))
        yield Room(journal, **options)


async def answered(at: Room, key: str, answer: Answer, by: str = "answer") -> None:
    await at.desk._take(key, answer, by)


async def test_a_question_is_asked_once_and_its_answer_serves_every_later_process() -> None:
    async with room() as at:
        assert await at.ask(text()) == ("ask@1~0",)
        assert await at.ask(text()) == ("ask@1~0",)
        assert await at.ask(text(), at.again()) == ("ask@1~0",)
        await answered(at, "ask@1~0", Answer(text="yes, well"))
        assert await at.ask(text()) == Answer(text="yes, well") == await at.ask(text(), at.again())
        assert at.told() == ["ask@1~0?", "ask@1~0: answer"]


async def test_a_changed_question_is_asked_anew_and_says_why() -> None:
    async with room() as at:
        await at.ask(text())
        await answered(at, "ask@1~0", Answer(text="well"))
        assert await at.ask(text(text="Really?")) == ("ask@1~0",)
        assert at.told() == ["ask@1~0?", "ask@1~0: answer", "ask@1~0?"]
        *_, (_, last) = at.journal.events(Asked)
        assert last.why == "the question changed since it was asked: text"
        assert list(at.journal.state.questions) == ["ask@1~0"] and not at.journal.state.answers


async def test_yes_allows_and_approves_and_answers_nothing_else() -> None:
    async with room(yes=True) as at:
        assert await at.ask(action()) == YES
        assert await at.ask(text("ask@1~0", kind="approve")) == YES
        for kind, more in (("text", {}), ("choice", {"choices": ("a", "b")}), ("effect", {})):
            key = f"ask@1~0/{kind}"
            assert await at.ask(text(key, kind=kind, **more)) == (key,)
        assert [line for line in at.told() if line.endswith("--yes")] == [f"{KEY}: --yes", "ask@1~0: --yes"]


async def test_where_nobody_answers_it_is_assumed_or_fails() -> None:
    async with room() as at:
        found = await at.ask(text(on_no_answer="assume", assumption="sunny"))
        assert found == Answer(text="sunny", assumed=True)
        assert await at.ask(text("ask@1~0/a", kind="approve", on_no_answer="assume")) == Answer(verdict="no", assumed=True)
        assert await at.ask(text("ask@1~0/b", kind="choice", choices=("x", "y"), on_no_answer="assume")) == Answer(
            text="x", assumed=True)
        assert await at.ask(action(on_no_answer="assume")) == Answer(verdict="no", assumed=True)      # never an allowance
        with pytest.raises(AttemptFailed, match="nobody answers step ask: Well"):
            await at.desk.ask(text("ask@1~0/c", on_no_answer="fail"))
        assert "ask@1~0/c?" not in at.told() and "ask@1~0: assumed" in at.told()


def other(**more: Any) -> Question:
    return action("write@1~0/turn.1/tool.0", **more)


ELSEWHERE = {"action": "fetch(https://example.com/b)", "arguments": {"url": "https://example.com/b"}}
STANDING = [
    ("once", {}, False), ("run", {}, True), ("rule", {}, True),
    ("run", ELSEWHERE, False), ("rule", ELSEWHERE, True),
    ("run", {"rule": "ask fetch of the role"}, True), ("rule", {"rule": "ask fetch of the role"}, False),
    ("run", {"tool": "fetch2"}, False),
    ("rule", {**ELSEWHERE, "untrusted": "fetched from https://evil.example"}, False),     # it has read more since
]


@pytest.mark.parametrize(("scope", "more", "covered"), STANDING)
async def test_an_allowance_covers_what_it_was_given_for(scope: Any, more: dict[str, Any], covered: bool) -> None:
    async with room() as at:
        await at.ask(action())
        await answered(at, KEY, Answer(verdict="yes", scope=scope))
        for desk in (at.desk, at.again()):
            found = await at.ask(other(**more), desk)
            assert found == (YES if covered else (other().key,))
        assert (f"{other().key}: earlier answer {KEY}" in at.told()) is covered


async def test_a_refusal_and_edited_arguments_cover_nothing_else() -> None:
    async with room() as at:
        for number, answer in enumerate((Answer(verdict="no", scope="run"),
                                         Answer(verdict="yes", scope="run", arguments={"url": "https://example.com/c"}))):
            key = f"{KEY}.{number}"
            await at.ask(action(key, arguments={"n": number}))
            await answered(at, key, answer)
            assert await at.ask(action(f"{key}.again", arguments={"n": number})) == (f"{key}.again",)


async def test_an_allowance_for_who_read_from_outside_covers_who_read_the_same() -> None:
    async with room() as at:
        await at.ask(action(untrusted="the input `docs`"))
        await answered(at, KEY, Answer(verdict="yes", scope="rule"))
        assert await at.ask(other(untrusted="the input `docs`", **ELSEWHERE)) == YES


async def attended(at: Room, desk: QuestionBroker, *, until: int) -> None:
    """Lets the desk ask until so many are answered."""
    done = asyncio.Event()

    def told() -> None:
        if len(at.journal.state.answers) >= until:
            done.set()

    attending = asyncio.create_task(desk.attend(told))
    await asyncio.wait_for(done.wait(), 5)
    attending.cancel()
    await asyncio.wait([attending])


async def test_an_answer_from_elsewhere_takes_the_question_off_the_terminal(tmp_path: Path) -> None:
    shown: list[str] = []

    async def asker(question: Question, number: int) -> Answer:
        shown.append(question.key)
        if question.key == "ask@1~0":
            box.put(Letter(key="ask@1~0", question=question.digest, answer=Answer(text="by letter")))
            await asyncio.Event().wait()
        return Answer(text="typed")

    box = AnswerQueue(tmp_path / "one.db")
    async with room() as at:
        desk = at.again(asker=asker, mailbox=box, poll=0.01)
        for key in ("ask@1~0", "ask@1~0/again.1"):
            assert await at.ask(text(key), desk) == (key,)
        await attended(at, desk, until=2)
        assert shown == ["ask@1~0", "ask@1~0/again.1"]
        assert at.told()[2:] == ["ask@1~0: answer", "ask@1~0/again.1: terminal"] and not box.path.exists()


async def test_letters_count_once_and_only_to_the_question_that_was_shown(tmp_path: Path) -> None:
    box = AnswerQueue(tmp_path / "one.db")
    async with room(mailbox=box) as at:
        await at.ask(text())
        await at.ask(text("ask@1~0/b"))
        for question, said in ((text(text="Another?"), "to another"), (text(), "first"), (text(), "second")):
            box.put(Letter(key=question.key, question=question.digest, answer=Answer(text=said)))
        assert await at.desk.take_in() == 1
        assert await at.ask(text()) == Answer(text="first")
        assert at.told()[2:] == ["ask@1~0: answer"] and box.letters() == []


async def test_a_letter_is_kept_until_it_is_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two leaves the letter, and its answer counts once all the same."""
    box = AnswerQueue(tmp_path / "one.db")
    async with room(mailbox=box) as at:
        await at.ask(text())
        box.put(Letter(key="ask@1~0", question=text().digest, answer=Answer(text="kept")))
        with monkeypatch.context() as patch:
            patch.setattr(AnswerQueue, "drop", _killed)
            with pytest.raises(KeyboardInterrupt):
                await at.desk.take_in()
        assert len(box.letters()) == 1 and await at.again(mailbox=box).take_in() == 0
        assert at.told() == ["ask@1~0?", "ask@1~0: answer"] and box.letters() == []


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


async def test_what_an_activation_asked_is_closed_with_it() -> None:
    from metaflow_agents.schema.event import Failed

    async with room() as at:
        await at.ask(action())
        await at.ask(text())
        await at.bus.publish(Failed(activation="write@1~0", error="timed out"))
        assert list(at.journal.state.questions) == ["ask@1~0"]
