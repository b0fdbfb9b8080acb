"""Effects of functions that must not happen twice: `call:` steps with `effect: once`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import time
from typing import Any

from metaflow_agents.errors import AttemptFailed
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.records import Act
from metaflow_agents.journal.state import RunState
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import EarlierEffect, Intended, Observed
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Data, pack
from metaflow_agents.steps.repeats import Repeats
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.texts.strict_json import read

MEANS = "(yes, and what it gave: it is not done again, and the step goes on with that; no: it is done now)"
"""Of a question to a person whether what a step does has happened: what the answers do."""


class Effects:
    """Does something at most once: where a crash cut it off, a person says whether it has happened; where an earlier run did it,
    whether it is done again.
    """

    def __init__(self, bus: Bus, state: RunState, observations: Observations, desk: QuestionBroker, repeats: Repeats) -> None:
        self._bus, self._state, self._observations, self._desk, self._repeats = bus, state, observations, desk, repeats

    async def once(self, key: str, what: str, arguments: dict[str, Any], do: Callable[[], Awaitable[Any]],
                   gives: dict[str, Any]) -> tuple[Any, str]:
        """The JSON value that `do` gave: now, before a crash, or in an earlier run; and of the last its label, else no text.
        `what` names it for people, `arguments` are what it is done with, `gives` is what that value fits.

        Raises Waiting where a person has to say, Halted where they stop the run, AttemptFailed where it has happened and nobody
        knows what it gave.
        """
        activation = parse_activation(key)
        slot = self._state.active[activation.firing].slot(activation.item)
        if key in slot.observed:
            taken = slot.acts[key].intended.taken if key in slot.acts else None
            return await self._observations.once(key, do), "" if taken is None else taken.untrusted
        packed = pack(Data(value=arguments))
        intended = Intended(at=time(), key=key, tool=what, arguments=digest(packed), effect="once")
        if key in slot.acts:
            given = await self._cut_off(slot.acts[key], what, gives)
            if given is not None:
                return await self._observations.once(key, given), ""
        else:
            found = await self._repeats.settled(key, what, what, packed, role="", step=activation.step, gives=gives)
            if isinstance(found, EarlierEffect):
                blobs = {**self._repeats.blobs(found), intended.arguments: packed}
                await self._bus.publish(intended.model_copy(update={"taken": found}),
                                        Observed(at=time(), key=key, payload=found.payload), blobs=blobs)
                return await self._observations.once(key, do), found.untrusted
            if found is not None:
                return await self._observations.once(key, _said(what, found)), ""
        await self._bus.publish(intended, blobs={intended.arguments: packed})
        return await self._observations.once(key, do), ""

    async def _cut_off(self, act: Act, what: str, gives: dict[str, Any]) -> Callable[[], Awaitable[Any]] | None:
        """What it gave, as a person knows it; None where it has not happened."""
        answer = await self._desk.ask(Question(
            key=act.doubt, kind="effect", step=parse_activation(act.intended.key).step, action=what, effect="once",
            answer_schema=gives, text=f"The run was cut off while `{what}` was under way. Has it happened? {MEANS}"))
        return _said(what, answer) if answer.verdict == "yes" else None


def _said(what: str, answer: Answer) -> Callable[[], Awaitable[Any]]:
    """What it gave, in the words of a person. Raises AttemptFailed where these are no JSON."""
    try:
        value = read(answer.text)
    except ValueError:
        raise AttemptFailed(f"`{what}` has happened, and what it gave is lost: answer with it as JSON, or let another step "
                            "go on from here") from None

    async def told() -> Any:
        return value
    return told
