"""Reasoning and acting in turns: each message is a thought and exactly one action, and what the action gave comes next.

Source: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (ICLR 2023). As there, `finish` with the answer
is an action. A message without an action is an answer only where it is in the artifact's form and mere words are not
(`Thinking.plain`): a thought can't be taken for an answer then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from metaflow_agents.agent.only_file import as_block
from metaflow_agents.agent.strategies.port import Messages, Said, Strategy, Thinking
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.models.port import Reply
from metaflow_agents.schema.strategies import react

FINISH: Mapping[str, Any] = {
    "name": react.FINISH, "description": "Ends your work: gives your answer.",
    "parameters": {"type": "object", "additionalProperties": False, "required": ["answer"], "properties": {
        "answer": {"type": "string", "description": "the whole of your answer, in the form that was asked for"}}}}


class ReactStrategy(Strategy[react.React]):
    """Thought, action, observation, until the role finishes; after `max_steps` it is asked for its best answer."""

    SPEC = react.React

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`. The steps have the branches `step.1`, `step.2`, …, the best answer `turn.0`."""
        messages = thinking.compose(thinking.prompt("act", steps=self.given.max_steps, plain=thinking.plain,
                                                    output_format=thinking.form_in_words, last_word=self.given.last_word))
        return await self._steps(thinking, "", "turn.0", messages)

    async def mended(self, thinking: Thinking, branch: str, messages: Messages, *, form: bool) -> Said:
        """See `Strategy.mended`. What a check or a review says is mended in steps as well, as many as before; only a best answer
        can lack the form, and the steps are used up then.
        """
        if form:
            return await thinking.ask(branch, messages, tools=False)
        return await self._steps(thinking, f"{branch}/", branch, messages)

    async def _steps(self, thinking: Thinking, below: str, best: str, messages: Messages) -> Said:
        """Step after step until it finishes. `below`: what stands before a step's branch; `best`: that of the best answer."""
        most = self.given.max_steps
        for number in range(1, most + 1):
            branch = f"{below}step.{number}"
            reply = await thinking.turn(branch, messages, also=(FINISH,), one=True)
            if len(reply.calls) == 1 and reply.calls[0].name != react.FINISH:
                told = await thinking.act(branch, reply.calls)
            else:
                given, faults = _given(thinking, reply, self.given.last_word)
                if given is not None:
                    return Said(messages, given)
                told = await self._corrected(thinking, branch, reply, faults, most - number)
            messages = (*messages, reply.message, *told)
        await thinking.note(f"{below}steps", {"steps": most, "ended": "max_steps"})
        asked = thinking.prompt("best", steps=most, output_format=thinking.output_format)
        said = await thinking.ask(best, _asked(messages, asked), tools=False)
        return said._replace(reply=_kept(said.reply, self.given.last_word))

    @staticmethod
    async def _corrected(thinking: Thinking, branch: str, reply: Reply, faults: Sequence[str], left: int) -> Messages:
        """What is told of a message that is neither one action nor an answer: none of its calls is carried out."""
        told = thinking.prompt("correct", actions=len(reply.calls), finishing=_finishes(reply), faults=list(faults), left=left)
        messages = tuple(call.answered(told) for call in reply.calls) or ({"role": "user", "content": told},)
        hint = await thinking.failed(branch, "a message", [[len(reply.calls), _finishes(reply), list(faults)]])
        return _asked(messages, hint) if hint else messages


def _given(thinking: Thinking, reply: Reply, last_word: str | None) -> tuple[Reply | None, Sequence[str]]:
    """The answer that a message gives; None, and what is wrong with it, where it gives none in the artifact's form."""
    given: Reply | None = None
    if _finishes(reply):
        arguments = reply.calls[0].arguments
        answer = arguments.get("answer") if isinstance(arguments, Mapping) else None
        if answer is None:
            return None, [f"`{react.FINISH}` wants `answer`: the whole of your answer, as a text"]
        as_text = isinstance(answer, str)
        given = _kept(replace(reply, text=answer if as_text else None, value=None if as_text else answer, calls=(), cut=False),
                      last_word)
    elif not reply.calls and not thinking.plain:
        given = reply
    if given is None:
        return None, []
    try:
        thinking.value(given)
    except AnswerInvalid as error:
        return None, error.faults
    return given, []


def _kept(reply: Reply, last_word: str | None) -> Reply:
    """An answer in words as the file of that name; without a name, and where it holds files itself, as it is."""
    made = None if last_word is None or reply.text is None else as_block(reply.text, last_word)
    return reply if made is None else replace(reply, text=made[0])


def _finishes(reply: Reply) -> bool:
    return len(reply.calls) == 1 and reply.calls[0].name == react.FINISH


def _asked(messages: Messages, text: str) -> Messages:
    """The messages and a question at their end. Many models take no two messages of one side in a row."""
    *before, last = messages
    if last["role"] == "user":
        return (*before, {**last, "content": f"{str(last['content']).rstrip()}\n\n{text}"})
    return (*messages, {"role": "user", "content": text})
