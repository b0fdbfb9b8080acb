"""Asks the person at this terminal, in between what is drawn there."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Literal, Protocol

from metaflow_agents.cli.output import page, prompt
from metaflow_agents.errors import UsageError, nearest
from metaflow_agents.questions.answering import Scope, answer_of, wanted
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.terminal.reader import Terminal
from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.questions import cut_lines, question_lines

_MOST_TYPED = 4095          # bytes: what Linux keeps of a line that is being typed (the canonical mode of termios(3))
_ALLOWED: dict[str, Scope] = {"y": "once", "r": "run", "a": "rule"}
_KEYS = {
    "action": "[y] allow once  [r] for this run  [a] for all that this rule asks about  [e] edit the arguments  "
              "[n] refuse  [l] later",
    "approve": "[y] yes  [n] no  [l] later",
    "effect": "[y] it has happened  [n] it has not  [l] later",
}
_WORDS = {"yes": "y", "no": "n", "run": "r", "rule": "a", "all": "a", "edit": "e", "later": "l", "once": "y", "refuse": "n",
          "allow": "y"}


class AskingStage(Protocol):
    """What is drawn on the terminal meanwhile."""

    def pause(self) -> None:
        """Nothing is drawn from here on."""
        ...

    def go_on(self) -> None:
        """Drawn again, with what happened since."""
        ...


def at_terminal() -> bool:
    """Whether a person sits here who can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class TerminalAsker:
    """Fits the desk's `Asker`. One question at a time: the desk asks them so."""

    def __init__(self, terminal: Terminal, write: Callable[[str], object] | None = None) -> None:
        self._terminal, self._write = terminal, write or prompt
        self.stage: AskingStage | None = None

    async def __call__(self, question: Question, number: int) -> Answer | None:
        """The answer; None where the person puts it off (`l`, or Ctrl-D), or says nothing where it is assumed then."""
        async with self._terminal.turn:
            if self.stage is not None:
                self.stage.pause()
            self._terminal.forget()                            # nobody answers what they have not read
            try:
                return await self._asked(question, number)
            except asyncio.CancelledError:                     # stopped, or answered from elsewhere
                self._say("")
                raise
            finally:
                if self.stage is not None:
                    self.stage.go_on()

    async def _asked(self, question: Question, number: int) -> Answer | None:
        shown = page(sys.stderr)
        head, *rest = question_lines(question, shown)
        self._say("", shown.paint(f"----- question {number} -----", "dim"), head, *rest,
                  *cut_lines(question, shown, f"sop inbox RUN {number}"))
        while True:
            try:
                if question.kind in _KEYS:
                    return await self._judged(question, shown)
                return await self._told(question)
            except UsageError as error:
                self._say(str(error))
            except EOFError:
                assumed = question.on_no_answer == "assume"
                self._say("", "it is assumed" if assumed else "put off: `sop answer` takes the answer later")
                return None

    async def _told(self, question: Question) -> Answer:
        """A text or a choice: by its words, or by its place in the list."""
        if question.choices:
            self._say(*(f"  [{place}] {safe(choice)}" for place, choice in enumerate(question.choices, 1)))
        assumes = question.on_no_answer == "assume" and not question.default
        enter = f"Enter: {question.default}; Ctrl-D: later" if question.default else "Ctrl-D: later"
        said = await self._line(f"answer ({'Enter: it is assumed' if assumes else enter})> ") or question.default
        if assumes and not said.strip():
            raise EOFError
        if question.choices and said not in question.choices and said.isdecimal() and 1 <= int(said) <= len(question.choices):
            said = question.choices[int(said) - 1]
        if not said.strip():
            raise UsageError("that was nothing: write the answer")
        return answer_of(question, text=said)

    async def _judged(self, question: Question, shown: Page) -> Answer:
        self._say(*shown.packed(_KEYS[question.kind].split("  ")))
        said = (await self._line("> ")).strip().lower()
        key = _WORDS.get(said, said)
        offered = [part.partition("]")[0] for part in _KEYS[question.kind].split("[")[1:]]
        if key not in offered:
            close = nearest(said, [word for word, letter in _WORDS.items() if letter in offered]) if said else None
            raise UsageError((f"did you mean `{_WORDS[close]}`? " if close else "") + f"write one of {', '.join(offered)}")
        if key == "l":
            raise EOFError
        if key == "e":
            return await self._edited(question)
        reason = await self._line("why (it is told; Enter: no reason)> ") if key == "n" and question.kind != "effect" else ""
        if key == "y" and question.needs_result:
            reason = await self._line(f"what it gave ({wanted(question)})> ")
        verdict: Literal["yes", "no"] = "no" if key == "n" else "yes"
        return answer_of(question, verdict=verdict, reason=reason.strip(), scope=_ALLOWED.get(key, "once"))

    async def _edited(self, question: Question) -> Answer:
        self._say("the arguments as they are:", f"  {json.dumps(question.arguments, ensure_ascii=True)}")
        return answer_of(question, verdict="yes", arguments=await self._line("as they shall be (JSON)> "))

    async def _line(self, prompt: str) -> str:
        self._write(prompt)
        line = await self._terminal.line()
        if not line.endswith(b"\n"):                           # Ctrl-D, also behind what was typed and not entered
            raise EOFError
        if len(line) > _MOST_TYPED:
            raise UsageError(f"a terminal hands over {_MOST_TYPED:,} bytes of a line at most, and what stood behind is lost: "
                             "put it off, and give it with `sop answer`")
        return line.decode("utf-8", "replace").rstrip("\r\n")

    def _say(self, *lines: str) -> None:
        self._write("".join(f"{line}\n" for line in lines))
