"""Where a run's questions to people are put: each is asked once, journalled before anybody sees it, and answered once.

An answer comes from the journal (a resume asks nobody twice), from an earlier answer that covers it, from `--yes`, from the
person at the terminal, from another process through the mailbox, or it is an assumption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from metaflow_agents.errors import AttemptFailed, Waiting
from metaflow_agents.journal.audit import chained
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.questions.answer_queue import AnswerQueue
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Answered, Asked
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.trust import OTHERS

Asker = Callable[[Question, int], Awaitable[Answer | None]]
"""Asks a person who is there; with the question comes its number in the run. None: not now, and the run parks."""
POLL = 0.5                               # seconds between two looks into the mailbox while something is asked
_YES: Mapping[str, Answer] = {"action": Answer(verdict="yes"), "approve": Answer(verdict="yes")}


class QuestionBroker:
    """Asks people for one run. It fits the engine's `Answers`. `blob` gives what the journal holds under a digest.

    `asker` asks who sits at this terminal (None: nobody does); `yes` allows actions and approves without asking anybody;
    `mailbox` is where `sop answer` of another process puts its answers; `run` is what the run is called. `idle` tells for how
    many seconds nothing has been running, and is set by who knows.
    """

    def __init__(self, bus: Bus, state: RunState, blob: Callable[[str], bytes], *, asker: Asker | None = None, yes: bool = False,
                 mailbox: AnswerQueue | None = None, run: str = "RUN", poll: float = POLL) -> None:
        self._bus, self._state, self._blob, self._run = bus, state, blob, run
        self._asker, self._yes, self._mailbox, self._poll = asker, yes, mailbox, poll
        self.idle: Callable[[], float] = lambda: 0.0
        self._put_off: set[str] = set()                        # what the person at the terminal does not answer now
        self._turn = asyncio.Event()                           # set at each answer, and where one is put off
        self._news = asyncio.Event()                           # something is asked
        self._at_terminal: tuple[str, asyncio.Future[Answer | None]] | None = None
        self._taking = asyncio.Lock()
        self._standing: dict[str, tuple[Question, Answer]] | None = None

    async def ask(self, question: Question) -> Answer:
        """The answer to a question, whose key is that of what waits for it.

        Raises Waiting where it is not there yet: to be asked again then, with the same question. Raises AttemptFailed where
        nobody answers and `on_no_answer` is `fail`.
        """
        asked = self._state.put.get(question.key) == question.digest
        recorded = self._state.answers.get(question.key)
        if asked and recorded is not None:
            return self._answer(recorded)
        found = self._at_once(question)
        if found is not None:
            return await self._settle(question, *found, asked=asked and question.key in self._state.questions)
        if question.on_no_answer == "fail" and self._gone(question.key):
            raise AttemptFailed(f"nobody answers {_who(question)}: {_words(question)}")
        if not asked:
            self._put_off.discard(question.key)
            await self._publish(Asked(key=question.key, question=question.digest, why=self._why(question)), question.packed)
        self._news.set()
        raise Waiting([question.key])

    def known(self, key: str) -> Answer | None:
        """The answer that was given under a key; None where there is none."""
        recorded = self._state.answers.get(key)
        return None if recorded is None else self._answer(recorded)

    def answered(self, prefix: str) -> list[str]:
        """The keys with this beginning under which an answer was given."""
        return [key for key in self._state.answers if key.startswith(prefix)]

    def question(self, key: str) -> Question:
        """The question that was asked last under a key."""
        return Question.model_validate_json(self._blob(self._state.put[key]))

    # what the engine asks for -----------------------------------------------------------------------------------------

    def open(self, key: str) -> bool:
        """Whether it must be waited for."""
        return key in self._state.questions and not (key in self._put_off and self.question(key).on_no_answer == "fail")

    def still_open(self) -> list[str]:
        """The keys of what has to be waited for."""
        return [key for key in self._state.questions if self.open(key)]

    async def attend(self, told: Callable[[], None]) -> None:
        """Asks at the terminal, one question after the other, and empties the mailbox, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._asker is not None:
                group.create_task(self._ask_all(self._asker, told), name="asking")
            if self._mailbox is not None:
                group.create_task(self._empty(told), name="mailbox")

    async def more(self) -> bool:
        """Waits for the next answer; False where none is to be expected in this process."""
        self._turn.clear()
        if await self.take_in():
            return True
        if self._asker is None or all(key in self._put_off for key in self._state.questions):
            return False
        await self._turn.wait()
        return True

    def waiting(self) -> str:
        """What is open, and the commands that go on."""
        told = [f"{self._state.asked[key]}: {_short(_words(self.question(key)))}" for key in self._state.questions]
        listed = "; ".join(told[:3]) + (f"; … ({len(told)} in all)" if len(told) > 3 else "")
        return (f"{listed} (`sop inbox {self._run}` shows it, `sop answer {self._run} …` answers, `sop resume {self._run}` "
                "goes on)")

    async def take_in(self) -> int:
        """Journals the answers that lie in the mailbox; how many counted. Raises JournalError."""
        if self._mailbox is None:
            return 0
        async with self._taking:
            letters = self._mailbox.letters()
            counted = 0
            for letter in letters:
                waits = self._state.questions.get(letter.key)
                if waits is None or waits.question != letter.question:
                    continue                                   # answered since, or never asked like that
                await self._take(letter.key, letter.answer, letter.by)
                counted += 1
            if letters:
                await self._bus.sync()
                self._mailbox.drop(letters)
            return counted

    # answers ----------------------------------------------------------------------------------------------------------

    def _at_once(self, question: Question) -> tuple[Answer, str] | None:
        """An answer that needs nobody, and whose it is."""
        if question.kind == "action":
            for key, (earlier, answer) in self._earlier.items():
                if _covers(earlier, answer, question):
                    return answer.model_copy(update={"scope": "once"}), f"earlier answer {key}"
        if self._yes and question.kind in _YES:
            return _YES[question.kind], "--yes"
        if question.on_no_answer == "assume" and self._gone(question.key):
            return assumed(question), "assumed"
        return None

    def _gone(self, key: str) -> bool:
        """Whether nobody is there who could answer in this process."""
        return self._asker is None or key in self._put_off

    @property
    def _earlier(self) -> dict[str, tuple[Question, Answer]]:
        """Key → answers that cover later actions too."""
        if self._standing is None:
            self._standing = {}
            for key, event in self._state.answers.items():
                self._remember(key, self._answer(event))
        return self._standing

    def _remember(self, key: str, answer: Answer) -> None:
        if answer.scope != "once" and answer.verdict == "yes" and self._standing is not None:
            self._standing[key] = self.question(key), answer

    def _answer(self, event: Answered) -> Answer:
        return Answer.model_validate_json(self._blob(event.answer))

    async def _settle(self, question: Question, answer: Answer, by: str, *, asked: bool) -> Answer:
        """Journals an answer that needed nobody, and its question, where that was not asked yet: nobody answers in between."""
        if not asked:
            event = Asked(key=question.key, question=question.digest, why=self._why(question))
            self._bus.post(chained(self._state, event), blobs={digest(question.packed): question.packed})
        await self._take(question.key, answer, by)
        return answer

    async def _take(self, key: str, answer: Answer, by: str) -> None:
        await self._publish(Answered(key=key, answer=digest(answer.packed), by=by, rested=self.idle()), answer.packed)
        self._remember(key, answer)
        if self._at_terminal is not None and self._at_terminal[0] == key:
            self._at_terminal[1].cancel()                      # it came from elsewhere
        self._turn.set()

    async def _publish(self, event: Asked | Answered, packed: bytes) -> None:
        await self._bus.publish(chained(self._state, event), blobs={digest(packed): packed})

    def _why(self, question: Question) -> str:
        """Why it is asked anew, where something else was asked under its key."""
        if question.key not in self._state.put:
            return ""
        before = self.question(question.key)
        changed = [name for name in Question.model_fields if getattr(before, name) != getattr(question, name)]
        return f"the question changed since it was asked: {', '.join(changed)}"

    # who is asked -----------------------------------------------------------------------------------------------------

    async def _ask_all(self, asker: Asker, told: Callable[[], None]) -> None:
        while True:
            key = next((key for key in self._state.questions if key not in self._put_off), None)
            if key is None:
                self._news.clear()
                await self._news.wait()
                continue
            answer = await self._one(asker, key)
            if key in self._state.questions:                   # and was not answered from elsewhere
                await self._said(key, answer)
            told()

    async def _one(self, asker: Asker, key: str) -> Answer | None:
        asking: asyncio.Future[Answer | None] = asyncio.ensure_future(asker(self.question(key), self._state.asked[key]))
        self._at_terminal = key, asking
        try:
            await asyncio.wait([asking])
            return None if asking.cancelled() else asking.result()
        finally:
            self._at_terminal = None
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])

    async def _said(self, key: str, answer: Answer | None) -> None:
        question = self.question(key)
        if answer is not None:
            await self._take(key, answer, "terminal")
        elif question.on_no_answer == "assume":
            await self._take(key, assumed(question), "assumed")
        else:
            self._put_off.add(key)
            self._turn.set()

    async def _empty(self, told: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._poll)
            if await self.take_in():
                told()


def assumed(question: Question) -> Answer:
    """What is taken for the answer where nobody gives one."""
    verdict: Literal["", "no"] = "no" if question.kind in ("approve", "action", "effect") else ""
    text = question.assumption or (question.choices[0] if question.kind == "choice" else "")
    return Answer(text=text, verdict=verdict, assumed=True)


def _covers(earlier: Question, answer: Answer, question: Question) -> bool:
    """Whether an allowance covers this action too.

    One for a rule was given to who had read this much: what reads more from outside afterwards is asked about again.
    """
    if answer.arguments is not None or not question.rule:
        return False
    if answer.scope == "run":
        return (earlier.tool, earlier.action, earlier.arguments) == (question.tool, question.action, question.arguments)
    if earlier.rule != question.rule:
        return False
    # A label that names not all of its sources may stand for others than it stood for then.
    return not question.untrusted or (question.untrusted == earlier.untrusted and OTHERS not in question.untrusted)


def _who(question: Question) -> str:
    return f"{question.role} in {question.step}" if question.role else f"step {question.step}"


def _words(question: Question) -> str:
    return question.text or question.action


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most - 1]}…"
