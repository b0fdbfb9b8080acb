"""`sop prompt`: what a step would send, and what its parts cost. The SOP is walked in memory up to it, by the `dry` model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.agent.material import Shown
from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest, tokens_of
from metaflow_agents.opening import checked
from metaflow_agents.runs import start
from metaflow_agents.schema.event import Reserved
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.pictures import usual_tokens
from metaflow_agents.sop.checks.showing import READERS

LARGE = 8_000
"""Tokens of an artifact from which on it is told that the role could read it by a tool."""
_NOT_SHOWN = {"none": "not shown", "task": "as far as the task prints it"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a request. `artifact`: the one that it shows, empty for other parts; `how` it is shown. `tokens`: an estimate."""

    name: str
    artifact: str
    how: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A request, and what is shown in it of each artifact that its step reads."""

    request: ModelRequest
    shown: Sequence[Shown]

    @property
    def parts(self) -> list[Part]:
        """What it consists of, in its order."""
        system, *said = [len(str(message["content"]).encode()) for message in self.request.messages]
        whole, *earlier = reversed(said)
        parts = [Part("system prompt", "", "", tokens_of(system))]
        if earlier:
            parts.append(Part("memory", "", "", tokens_of(sum(earlier))))
        for one in self.shown:
            parts.append(Part("artifact", one.name, one.how, tokens_of(len(one.text.encode()))))
            whole -= len(one.text.encode())
        parts.append(Part("task and form of the answer", "", "", tokens_of(max(whole, 0))))
        if self.request.images:
            parts.append(Part("pictures", "", "", sum(map(usual_tokens, self.request.images))))
        if self.request.schema is not None:
            parts.append(Part("schema", "", "", tokens_of(len(canonical(self.request.schema)))))
        if self.request.tools:
            parts.append(Part("tools", "", "", tokens_of(len(canonical(list(self.request.tools))))))
        return parts


async def rehearse(sop: str | Path, step: str, *, inputs: Mapping[str, Any], given: Mapping[str, Any]) -> list[Rehearsed]:
    """The first request of each activation of a step's first firing. `given`: artifact → value in place of the dry one.

    Raises SOPNotFound, SOPInvalid, and UsageError for a step that is unknown, asks no model, or is not reached.
    """
    steps = checked(sop).program.sop.steps
    if step not in steps:
        raise UsageError(f"there is no step `{step}`: {did_you_mean(step, steps)}")
    if steps[step].role is None:
        raise UsageError(f"step `{step}` sends no prompt: it has no `role`, and asks no model")
    async with start(sop, model="dry", inputs=inputs, given=given, until=step, workspace=None) as going:
        shown = going.material.note()
        result = await going.result()
        found = _sent(going.journal, step)
    if found:
        return [Rehearsed(request, shown[at]) for at, request in found.items()]
    why = result.never.get(step) or result.reason
    made = steps[step].makes.artifact
    if made in given:
        why = f"`{made}`, which it makes, is given"
    raise UsageError(f"step `{step}` sends nothing in this walk: {why}; `--given ARTIFACT=JSON` gives what leads to it")


def _sent(journal: Journal, step: str) -> dict[str, ModelRequest]:
    found: dict[str, ModelRequest] = {}
    for _, event in journal.events(Reserved):
        at = parse_activation(event.key)
        if at.step == step and at.round == 1:
            asked = json.loads(journal.blob(event.request))
            found.setdefault(at.slot, ModelRequest(key=event.key, role=event.role, step=step, messages=tuple(asked["messages"]),
                                                   model=event.model, schema=asked.get("schema"), tools=tuple(asked["tools"])))
    return found


def costs_of(rehearsed: Rehearsed) -> Iterator[str]:
    """The lines of the table below a prompt."""
    parts = rehearsed.parts
    rows = [(_named(part), "" if part.how in _NOT_SHOWN else f"{part.tokens:,}") for part in parts]
    rows.append(("in all", f"{sum(part.tokens for part in parts):,}"))
    wide, digits = (max(len(row[at]) for row in rows) for at in (0, 1))
    yield "about so many tokens:"
    for name, tokens in rows:
        yield f"  {name:<{wide}}  {tokens:>{digits}}".rstrip()
    readers = [tool["name"] for tool in rehearsed.request.tools if tool["name"] in READERS]
    for part in parts:
        if readers and part.how == "whole" and part.tokens >= LARGE:
            yield (f"  `{part.artifact}` is large, and the role has {' and '.join(f'`{tool}`' for tool in readers)}: "
                   f"`show: {{{part.artifact}: names}}` at the step leaves it out")


def _named(part: Part) -> str:
    if not part.artifact:
        return part.name
    return f"{part.artifact}: {_NOT_SHOWN.get(part.how, part.how)}"
