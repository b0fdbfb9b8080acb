"""The answer follows on from earlier ones, which stand in the prompt from worse to better.

Sources: Liu et al., "Chain of Hindsight Aligns Language Models with Feedback" (ICLR 2024; arXiv 2023): outputs with their
ratings in rising order, and the best rating asked for. Laskin et al., "In-context Reinforcement Learning with Algorithm
Distillation" (ICLR 2023; arXiv 2022): two to four episodes in the order of learning, which the next one goes on from. Both
train a model on such sequences; here they stand in the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.schema.strategies import hindsight


class HindsightStrategy(Strategy[hindsight.Hindsight]):
    """One call with what came before in its prompt; where nothing came before, a plain one."""

    SPEC = hindsight.Hindsight

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`. Raises AttemptFailed where what came before is no list, or the ratings no numbers for it."""
        prompt, seen, told = self._rated(thinking) if self.given.outputs is not None else self._episodes(thinking)
        await thinking.note("hindsight", told)
        if not next(iter(seen.values())):
            return await thinking.ask("turn.0", thinking.compose(thinking.output_format))
        shown = thinking.prompt(prompt, **seen, output_format=thinking.output_format)
        return await thinking.ask("turn.0", thinking.compose(shown))

    def _rated(self, thinking: Thinking) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
        """The prompt's name, what it sees, and what the journal says: those with the highest ratings, from low to high."""
        outputs, ratings = _list(thinking, "outputs", self.given.outputs), _list(thinking, "ratings", self.given.ratings)
        if len(outputs) != len(ratings):
            raise AttemptFailed(f"`outputs: {self.given.outputs}` gave {len(outputs)} and `ratings: {self.given.ratings}` "
                                f"{len(ratings)}: there has to be a rating for each output")
        for rating in ratings:
            if isinstance(rating, bool) or not isinstance(rating, int | float):
                raise AttemptFailed(f"`ratings: {self.given.ratings}` gave {rating!r}, which is no number")
        rising = sorted(range(len(outputs)), key=lambda place: ratings[place])[-self.given.most:]
        best = self.given.best if self.given.best is not None else max(ratings, default=None)
        earlier = [{"output": outputs[place], "rating": ratings[place]} for place in rising]
        return "outputs", {"earlier": earlier, "best": best}, {"of": len(outputs), "shown": rising,
                                                               "ratings": [ratings[place] for place in rising], "best": best}

    def _episodes(self, thinking: Thinking) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
        """The same for episodes: the last ones, in the order in which they were gone through."""
        episodes = _list(thinking, "episodes", self.given.episodes)
        last = episodes[-self.given.most:]
        return "episodes", {"episodes": last}, {"of": len(episodes), "shown": len(last)}


def _list(thinking: Thinking, parameter: str, expression: str | None) -> list[Any]:
    """The list that an expression gives. Raises AttemptFailed for anything else."""
    found = thinking.evaluate(expression or "")
    if not isinstance(found, list | tuple):
        raise AttemptFailed(f"`{parameter}: {expression}` gave {found!r}, which is no list")
    return list(found)
