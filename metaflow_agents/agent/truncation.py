"""Answers that were cut at their longest length: gone on with, and joined without a seam."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from metaflow_agents.agent.strategies.port import Messages
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.models.port import Reply
from metaflow_agents.models.schema_in_words import in_words
from metaflow_agents.models.structured import as_asked
from metaflow_agents.prompts import from_package

MORE = 3                            # calls that go on with one answer, at most
_TAIL = 120                         # characters of the end that are shown
_REPEATED = 20                      # characters: what is shorter may well stand there twice
_SEAM = 100_000                     # characters on each side, in which a repetition is looked for
_VARIED = 8                         # different characters among them: a rule of dashes may well go on
_OPENING = re.compile(r"\s*```[a-zA-Z]*\n")
_CLOSING = re.compile(r"\n```\s*$")


async def whole(reply: Reply, messages: Messages, ask: Callable[[str, Messages], Awaitable[Reply]], longest: int,
                schema: Mapping[str, Any] | None) -> Reply:
    """The reply, gone on with until it ends of itself. `ask(branch, messages)` asks for text, `longest` bounds one answer in
    tokens, `schema` is the form of an answer that is JSON. Raises AnswerInvalid where `MORE` calls are too few.
    """
    text = reply.text
    if not reply.cut or text is None:
        return reply
    asked = in_words(messages, schema)                  # it is not told as the form of a part
    for number in range(1, MORE + 1):
        told = from_package("more", {"tail": text[-_TAIL:]})
        more = await ask(f"more.{number}", (*asked, {"role": "assistant", "content": text}, {"role": "user", "content": told}))
        text = joined(text, more.said, data=schema is not None)
        if not more.cut:
            return replace(reply, text=text if schema is None else as_asked(schema, text), cut=False)
    raise AnswerInvalid([f"the answer was cut {MORE + 1} times: it may be {(MORE + 1) * longest:,} tokens long; make it shorter, "
                         "or raise `max_tokens` of the model"])


def joined(before: str, after: str, *, data: bool = False) -> str:
    """Two parts of one text. What the second repeats of the first's end stands there once. A fence around JSON (`data`) goes."""
    if data and _OPENING.match(after) and not _OPENING.match(before):
        after = _CLOSING.sub("", _OPENING.sub("", after, count=1))
    start = after[:_REPEATED]
    if len(start) == _REPEATED and len(set(start)) >= _VARIED:
        repeated, period = _overlap(before[-_SEAM:], after[:_SEAM])
        if repeated >= _REPEATED and period > repeated // 2:        # a part again and again may well go on as it ended
            return before + after[repeated:]
    return before + after


def _overlap(before: str, after: str) -> tuple[int, int]:
    """How many characters at the end of the first text begin the second one, and the shortest period of these.

    Knuth, Morris and Pratt, "Fast Pattern Matching in Strings" (1977): in time that grows with the texts.
    """
    borders = [0]                                   # of each beginning of `after`: its longest end that begins it too
    for letter in after[1:]:
        borders.append(_longer(after, borders, borders[-1], letter))
    length = 0
    for letter in before:
        if length == len(after):
            length = borders[length - 1]
        length = _longer(after, borders, length, letter)
    return length, length - borders[length - 1] if length else 0


def _longer(text: str, borders: list[int], length: int, letter: str) -> int:
    while length and text[length] != letter:
        length = borders[length - 1]
    return length + 1 if text[length] == letter else 0
