"""Answers in a form that is no artifact's: what a strategy, a review or a look at the run asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from metaflow_agents.agent.answers import unfenced
from metaflow_agents.agent.strategies.port import Messages, Said
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.prompts import from_package
from metaflow_agents.schema.caps import ANSWER_REPAIRS
from metaflow_agents.schema.validation import validator

Send = Callable[[str, Messages, Mapping[str, Any]], Awaitable[Said]]
"""Asks for an answer of a schema: branch, messages, schema."""


async def typed(send: Send, branch: str, messages: Messages, schema: Mapping[str, Any],
                faults: Callable[[Any], Sequence[str]] | None = None) -> Any:
    """A value of the schema. `faults` says what else is wrong with one.

    Raises AnswerInvalid where `ANSWER_REPAIRS` repairs don't help.
    """
    messages = ending(messages, from_package("strategies/form", {}))
    check, at = validator(schema, "answer"), branch
    for repairs in range(ANSWER_REPAIRS + 1):
        messages, reply = await send(at, messages, schema)
        try:
            value = check.validate(reply.value) if reply.text is None else check.validate_json(unfenced(reply.text))
            wrong = list(faults(value)) if faults is not None else []
            if not wrong:
                return value
        except AnswerInvalid as error:
            wrong = list(error.faults)
        messages, at = sent_back(messages, reply.said, wrong, ANSWER_REPAIRS - repairs), f"{branch}/repair.{repairs + 1}"
    raise AnswerInvalid(wrong)


def sent_back(messages: Messages, said: str, faults: Sequence[str], left: int, *, stands: Sequence[str] = (),
              edits_told: bool = True, whole: bool = True) -> Messages:
    """The conversation with the answer and what is wrong with it. `stands`: what of the answers need not be said again.
    `edits_told`: the conversation says how a file is edited. `whole`: what was `said` is the whole answer.
    """
    told = from_package("repair", {"faults": list(faults), "left": left, "stands": list(stands), "edits_told": edits_told,
                                   "whole": whole})
    return (*messages, {"role": "assistant", "content": said}, {"role": "user", "content": told})


def ending(messages: Messages, text: str) -> Messages:
    """The messages with a text at the end of the last one, which is the user's."""
    *before, last = messages
    return (*before, {**last, "content": f"{str(last['content']).rstrip()}\n\n{text.strip()}\n"})
