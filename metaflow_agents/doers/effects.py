"""Effects of functions that must not happen twice: `call:` steps with `effect: once`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import time
from typing import Any

from metaflow_agents.bus import Bus
from metaflow_agents.doers.observed import Observations
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.foreign_json import read
from metaflow_agents.journal.facts import Act
from metaflow_agents.journal.state import RunState
from metaflow_agents.people.desk import Desk
from metaflow_agents.people.question import Question
from metaflow_agents.schema.event import Intended
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Data, pack

MEANS = "(yes, and what it gave: it is not done again, and the step goes on with that; no: it is done now)"
"""Of a question to a person whether what a step does has happened: what the answers do."""


class Effects:
    """Does something at most once: where a crash cut it off, a person says whether it has happened."""

    def __init__(self, bus: Bus, state: RunState, observations: Observations, desk: Desk) -> None:
        self._bus, self._state, self._observations, self._desk = bus, state, observations, desk

    async def once(self, key: str, what: str, do: Callable[[], Awaitable[Any]], gives: dict[str, Any]) -> Any:
        """The JSON value that `do` gave, now or before a crash. `what` names it for people, `gives` is what that value fits.

        Raises Waiting where a person has to say, AttemptFailed where it has happened and nobody knows what it gave.
        """
        activation = parse_activation(key)
        slot = self._state.active[activation.firing].slot(activation.item)
        if key in slot.observed:
            return await self._observations.once(key, do)
        if key in slot.acts:
            given = await self._cut_off(slot.acts[key], what, gives)
            if given is not None:
                return await self._observations.once(key, given)
        packed = pack(Data(value={}))
        name = digest(packed)
        await self._bus.publish(Intended(at=time(), key=key, tool=what, arguments=name, effect="once"), blobs={name: packed})
        return await self._observations.once(key, do)

    async def _cut_off(self, act: Act, what: str, gives: dict[str, Any]) -> Callable[[], Awaitable[Any]] | None:
        """What it gave, as a person knows it; None where it has not happened."""
        answer = await self._desk.ask(Question(
            key=act.doubt, kind="effect", step=parse_activation(act.intended.key).step, action=what, effect="once",
            answer_schema=gives, text=f"The run was cut off while `{what}` was under way. Has it happened? {MEANS}"))
        if answer.verdict != "yes":
            return None
        try:
            value = read(answer.text)
        except ValueError:
            raise AttemptFailed(f"`{what}` has happened, and what it gave is lost: answer with it as JSON, or let another step "
                                "go on from here") from None

        async def told() -> Any:
            return value
        return told
