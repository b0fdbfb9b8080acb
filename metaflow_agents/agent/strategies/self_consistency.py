"""Several answers to one question, and the one that most of them agree on.

Source: Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (ICLR 2023): sample a set of
answers, leave the ways to them out, take the answer that comes up most often.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from metaflow_agents.agent.strategies.at_once import at_once
from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking
from metaflow_agents.agent.strategies.voting import best_of, leaders
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.strategies import self_consistency


@dataclass(frozen=True, slots=True)
class _Sample:
    """One answer: what of it is voted on, in canonical JSON; None where it is not in the artifact's form."""

    said: Said
    value: Any
    vote: bytes | None


class SelfConsistencyStrategy(Strategy[self_consistency.SelfConsistency]):
    """Samples at once, an exact vote; of a tie the judge decides, and without one the answer that was asked for first."""

    SPEC = self_consistency.SelfConsistency

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`."""
        messages = thinking.compose(thinking.output_format)
        async with AsyncExitStack() as opened:
            apart = [await opened.enter_async_context(thinking.apart(f"vote.s{number}")) for number in range(self.given.samples)]
            samples = await at_once(self._sample(one, messages) for one in apart)
            chosen = await self._chosen(thinking, samples)
            thinking.take(apart[chosen])
        return samples[chosen].said

    async def _sample(self, thinking: Thinking, messages: Any) -> _Sample:
        said = await thinking.ask("turn.0", messages, temperature=self.given.temperature)
        try:
            value = thinking.value(said.reply)
        except AnswerInvalid:
            return _Sample(said, None, None)
        voted = value if self.given.compare is None else thinking.evaluate(self.given.compare, answer=value)
        return _Sample(said, value, canonical(voted))

    async def _chosen(self, thinking: Thinking, samples: Sequence[_Sample]) -> int:
        """The place of the answer that is taken."""
        votes = [sample.vote for sample in samples]
        first = leaders(votes)
        if not first:
            return 0                                # none is in form: the first one is repaired, as any other answer
        await thinking.note("vote", {"answers": len(votes), "in_form": len(votes) - votes.count(None),
                                     "most": votes.count(votes[first[0]]), "tied": len(first) if len(first) > 1 else 0})
        if len(first) == 1 or self.given.judge is None:
            return first[0]
        return first[await best_of(thinking, self.given.judge, [samples[place].value for place in first])]
