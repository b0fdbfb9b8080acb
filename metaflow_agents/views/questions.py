"""Questions to people, as they are read: who asks, what, what it has read from outside, and what to type."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from metaflow_agents.questions.answering import shape, wanted
from metaflow_agents.questions.inbox import Open
from metaflow_agents.questions.question import Question
from metaflow_agents.schema.keys import split_inner
from metaflow_agents.views.event_log import spoken
from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.wording import amount, moment

LONGEST = 600                       # characters of one value that are shown
_LONGEST_WITHIN = 150               # of a text inside of one
_MOST_LINES = 60                    # of a question's text


def question_lines(question: Question, page: Page, *, whole: bool = False) -> list[str]:
    """One question; long texts and values in it are cut unless it is asked for `whole`. What somebody else wrote can't command
    the terminal: control characters show, and do nothing.
    """
    lines = [page.paint(safe(f"{_who(question)} {_ASKS[question.kind]}"), "bold")]
    if question.text:
        lines += [line for line in _bounded(question.text, whole=whole) for line in page.wrapped(line, "  ")]
    if question.action and f"`{question.action}`" not in question.text:
        lines += page.wrapped(page.paint(safe(question.action if whole else shortened(question.action)), "cyan"), "  ")
    lines += [line for name, value in question.arguments.items() for line in _argument(name, value, page, whole=whole)]
    if question.rule:
        lines += page.wrapped(safe(question.rule.removeprefix("ask: ")), "  asked because: ")
    if question.untrusted:
        lines += page.wrapped(page.paint(f"it has read from outside: {safe(question.untrusted)}", "yellow"), "  ")
    if question.choices:
        named = [f"{choice} (the default)" if choice == question.default else choice for choice in question.choices]
        lines += page.wrapped(safe(", ".join(named)), "  choices: ")
    if question.answer_schema is not None:
        lines += page.wrapped(safe(wanted(question)), "  wanted: ")
    return lines


def inbox_lines(questions: Sequence[Open], page: Page, where: str = "", *, whole: bool = False) -> list[str]:
    """`sop inbox`: every open question, and what to type. `where` is the option that names the workspace. One that is cut says
    how it is seen `whole`.
    """
    lines: list[str] = []
    for one in questions:
        head = f"{one.run} {one.number}, since {moment(one.at)}: "
        first, *rest = question_lines(one.question, page, whole=whole)
        lines += [*([""] if lines else []), page.paint(head, "dim") + first, *rest]
        if not whole:
            lines += cut_lines(one.question, page, f"sop inbox {one.run} {one.number}{where}")
        if one.why:
            lines += page.wrapped(safe(f"asked anew: {one.why}"), "  ")
        if one.given:
            lines += page.wrapped(f"it is answered: the run takes that in when it goes on (`sop resume {one.run}{where}`)", "  ")
        else:
            lines += [f"  {page.paint(way, 'cyan')}" for way in ways(one, where)]
    return lines


def cut_lines(question: Question, page: Page, command: str) -> list[str]:
    """Where lists and terminals show a question cut: what shows the whole of it."""
    cut = question_lines(question, page) != question_lines(question, page, whole=True)
    return page.wrapped(f"this is not all of it: `{command}` shows the whole", "  ") if cut else []


def shortened(text: str, most: int = LONGEST) -> str:
    """A text whose end is cut off where it is long, with how much that was."""
    return text if len(text) <= most else f"{text[:most]}… ({amount(len(text) - most, 'character')} more)"


_ASKS = {"text": "asks", "approve": "asks for approval", "choice": "asks for a choice", "action": "wants to act",
         "effect": "asks whether this has happened"}


def _who(question: Question) -> str:
    step = question.step
    if split_inner(question.key):                               # which sub-SOP asks is not to be seen by the name of its step
        step = f"{spoken(question.key).rpartition(f'/{step}@')[0]}/{step}"
    return f"{question.role} in {step}" if question.role else step


def _bounded(text: str, *, whole: bool) -> list[str]:
    lines = safe(text, lines=True).splitlines()
    if whole:
        return lines
    shown = [shortened(line) for line in lines[:_MOST_LINES]]
    return shown + ([f"… ({amount(len(lines) - _MOST_LINES, 'line')} more)"] if len(lines) > _MOST_LINES else [])


def _argument(name: str, value: Any, page: Page, *, whole: bool) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value if whole else _within(value), ensure_ascii=False)
    shown = text if whole else shortened(text)
    visible = "".join("⏎" if letter in "\n\r" else "⇥" if letter == "\t" else letter for letter in shown)
    return page.wrapped(safe(visible), f"    {safe(name)}: ")


def _within(value: Any) -> Any:
    """A value whose long texts are cut, each for itself: none pushes out of sight what stands beside it."""
    match value:
        case str():
            return shortened(value, _LONGEST_WITHIN)
        case list():
            return [_within(one) for one in value]
        case dict():
            return {shortened(name, _LONGEST_WITHIN): _within(one) for name, one in value.items()}
    return value


def ways(one: Open, where: str) -> list[str]:
    """The commands that answer."""
    command = f"sop answer {one.run} {one.number}"
    happened = f"--yes --reason '{safe(shape(one.question))}'" if one.question.needs_result else "--yes"
    options = {"text": ["'…'"], "choice": [f"--choice {one.question.default or '…'}"], "approve": ["--yes", "--no --reason '…'"],
            "action": ["--yes", "--yes --for run|rule", "--no --reason '…'"], "effect": [happened, "--no"]}[one.question.kind]
    return [f"{command} {way}{where}" for way in options]
