"""One of several answers: the exact vote, and a role that judges where the vote leaves more than one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metaflow_agents.agent.strategies.port import Thinking


def leaders(votes: Sequence[bytes | None]) -> list[int]:
    """Of each vote that comes up most often, the place where it comes first; empty where there is no vote at all."""
    places: dict[bytes, list[int]] = {}
    for place, vote in enumerate(votes):
        if vote is not None:
            places.setdefault(vote, []).append(place)
    most = max(map(len, places.values()), default=0)
    return [where[0] for where in places.values() if len(where) == most]


async def best_of(thinking: Thinking, judge: str, answers: Sequence[Any]) -> int:
    """The place of the answer that a role finds best, told by the strategy's prompt `judge`, on a branch of that name."""
    async with thinking.apart("judge", judge) as one:
        asked = one.compose(thinking.prompt("judge", answers=list(answers)))
        found = await one.typed("choice", asked, {"why": "string", "best": "integer"},
                                lambda given: [] if 1 <= given["best"] <= len(answers)
                                else [f"`best` is {given['best']}; there are the answers 1 to {len(answers)}"])
    best: int = found["best"]
    return best - 1
