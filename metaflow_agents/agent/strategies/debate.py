"""Several roles answer, read what the others answered, and answer anew.

Source: Du et al., "Improving Factuality and Reasoning in Language Models through Multiagent Debate" (ICML 2024; arXiv 2023):
agents that answer apart, then in rounds see the last answers of all others; most of them decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from metaflow_agents.agent.strategies.at_once import at_once
from metaflow_agents.agent.strategies.port import Messages, Said, Strategy, Thinking, above
from metaflow_agents.agent.strategies.voting import best_of, leaders
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.strategies import debate

_ADVICE = ("Look for the first step at which the answers differ, and check that step alone. Keep your answer or change it by "
           "what you find there, and say which step it is.")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one of them said last. `vote`: what of it is compared, in canonical JSON; None where it is not in form."""

    said: Said
    value: Any = None
    vote: bytes | None = None
    faults: tuple[str, ...] = ()


class DebateStrategy(Strategy[debate.Debate]):
    """All of a round at once. It ends early where all agree; where they don't a judge chooses, or the exact vote."""

    SPEC = debate.Debate

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`."""
        async with AsyncExitStack() as opened:
            debaters = [await opened.enter_async_context(thinking.apart(f"debater.{number}", role))
                        for number, role in enumerate(self.given.roles)]
            answers: list[_Answer] = []
            for number in range(self.given.rounds):
                hint = await self._no_nearer(thinking, number, answers)
                answers = await at_once(self._answered(one, number, self._asked(one, place, answers, hint))
                                        for place, one in enumerate(debaters))
                if _agreed(answers):
                    break
            chosen = await self._chosen(thinking, answers, number + 1)
            thinking.take(debaters[chosen])
        return answers[chosen].said

    async def _no_nearer(self, thinking: Thinking, number: int, answers: Sequence[_Answer]) -> str:
        """What all are told where the same answers stand against each other again. `number`: of the round that is to come."""
        votes = [None if answer.vote is None else answer.vote.decode() for answer in answers]
        return above(await thinking.failed(f"round.{number}", "agreeing on an answer", [votes], _ADVICE)) if answers else ""

    def _asked(self, thinking: Thinking, place: int, answers: Sequence[_Answer], hint: str) -> Messages:
        """What one is asked: first the task, then in its own conversation what the others said last, below `hint`."""
        if not answers:
            return thinking.compose(thinking.output_format)
        own = answers[place]
        others = [{"number": number + 1, "role": self.given.roles[number], "answer": answer.value}
                  for number, answer in enumerate(answers) if number != place and answer.vote is not None]
        asked = hint + thinking.prompt("round", answers=others, faults=list(own.faults), output_format=thinking.output_format)
        return (*own.said.messages, {"role": "assistant", "content": own.said.reply.said}, {"role": "user", "content": asked})

    async def _answered(self, thinking: Thinking, number: int, messages: Messages) -> _Answer:
        said = await thinking.ask(f"round.{number}/turn.0", messages)
        try:
            value = thinking.value(said.reply)
        except AnswerInvalid as error:
            return _Answer(said, faults=tuple(error.faults))
        compared = value if self.given.compare is None else thinking.evaluate(self.given.compare, answer=value)
        return _Answer(said, value, canonical(compared))

    async def _chosen(self, thinking: Thinking, answers: Sequence[_Answer], rounds: int) -> int:
        """The place of the answer that is taken."""
        votes = [answer.vote for answer in answers]
        first = leaders(votes)
        if not first:
            return 0                                # none is in form: the first one is repaired, as any other answer
        different = [votes.index(vote) for vote in dict.fromkeys(votes) if vote is not None]
        await thinking.note("debate", {"rounds": rounds, "answers": len(votes), "in_form": len(votes) - votes.count(None),
                                       "different": len(different), "most": votes.count(votes[first[0]]),
                                       "tied": len(first) if len(first) > 1 else 0})
        if len(different) == 1 or self.given.judge is None:
            return first[0]
        return different[await best_of(thinking, self.given.judge, [answers[place].value for place in different])]


def _agreed(answers: Sequence[_Answer]) -> bool:
    """Whether all of them are in form and say the same."""
    return answers[0].vote is not None and len({answer.vote for answer in answers}) == 1
