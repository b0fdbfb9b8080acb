"""`sop preview`: what a step would send, and what its parts cost. The SOP is walked in memory up to it, by the `dry` model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.agent.material import ShownArtifact
from metaflow_agents.api.run import start
from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest, tokens_of
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.runtime.prepare import prepare
from metaflow_agents.runtime.prepared import Prepared
from metaflow_agents.schema.address import Address, address_of, alike, lies_in, parse_address
from metaflow_agents.schema.event import Reserved
from metaflow_agents.schema.keys import activations_in, steps_in
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.pictures import usual_tokens
from metaflow_agents.schema.program import Program
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
    shown: Sequence[ShownArtifact]

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


async def rehearse(sop: str | Path | Prepared, step: str, *, inputs: Mapping[str, Any],
                   given: Mapping[str, Any]) -> list[Rehearsed]:
    """The first request of each activation of a step's first firing, or of that which an address names: `write[ann]`,
    `write@2`, `chapters[one]/write` in a sub-SOP, which gets the inputs that the walk leads to.

    `sop`: a file, a name, or what was prepared with the model `dry` and no workspace.
    `given`: artifact (`chapters/text` in a sub-SOP) → value in place of the dry one. Raises SOPNotFound, SOPInvalid, and
    UsageError for a step that is unknown, asks no model, or is not reached.
    """
    address = _address(step)
    prepared = sop if isinstance(sop, Prepared) else prepare(sop, model="dry", workspace=None)
    program, outer = prepared.program, address[0]
    step_at(program, address)
    async with start(prepared, inputs=inputs, given=given,
                     until=outer.step if outer.round in (None, 1) else None) as going:
        shown = going.material.note()
        result = await going.result()
        sent = _sent(going.journal, [part.step for part in address])
    wanted = tuple(part._replace(round=part.round or 1) for part in address)
    found = [Rehearsed(request, shown[at]) for at, request in sent.values() if lies_in(address_of(request.key), wanted)]
    if found:
        return found
    if sent:
        there = dict.fromkeys(alike(address_of(request.key), address) for _, request in sent.values())
        raise UsageError(f"`{step}` is not reached in this dry run: {did_you_mean(step, there)}; `--stub ARTIFACT=JSON` gives "
                         "what leads to it")
    steps = [part.step for part in address]
    raise UsageError(f"step `{'/'.join(steps)}` is not reached in this dry run: {_why(program, steps, result, given)}; `--stub "
                     f"{'/'.join((*steps[:-1], 'ARTIFACT=JSON'))}` gives what leads to it")


def step_at(program: Program, address: Sequence[Address]) -> tuple[Program, str]:
    """The SOP in which an addressed step stands, and the step's name. Raises UsageError where it is none, or asks no model."""
    for place, part in enumerate(address):
        if place:
            program = program.inside([address[place - 1].step])
        steps, name = program.sop.steps, part.step
        if part.item is not None and name in steps and steps[name].foreach is None:
            raise UsageError(f"step `{name}` has no items: leave out `[{part.item}]`")
    if name not in steps:
        inside = f" in {program.sop.sop}" if len(address) > 1 else ""
        raise UsageError(f"there is no step `{name}`{inside}: {did_you_mean(name, steps)}")
    if steps[name].sop is not None:
        path = "/".join(part.step for part in address)
        inner = program.inside([name]).sop.steps
        asking = [f"{path}/{one}" for one, spec in inner.items() if spec.doer in ("role", "sop")]
        raise UsageError(f"step `{name}` sends no prompt: it is a SOP; of its own steps "
                         + (f"there is: {', '.join(asking)}" if asking else "none asks a model"))
    if steps[name].role is None:
        raise UsageError(f"step `{name}` sends no prompt: it has no `role`, and asks no model")
    return program, name


def _address(step: str) -> tuple[Address, ...]:
    try:
        return parse_address(step)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _why(program: Program, steps: Sequence[str], result: RunResult, given: Mapping[str, Any]) -> str:
    """Why nothing was sent: what stands in for it, or why it was not reached."""
    *outer, name = steps
    for place, one in enumerate(steps):
        made = "/".join((*outer[:place], program.sop.steps[one].makes.artifact))
        if made in given:
            return f"`{made}`, which {f'`{one}`' if outer else 'it'} makes, is given"
        program = program if place == len(outer) else program.inside([one])
    if not outer or outer[0] in result.never or not result.ok:
        return result.never.get(steps[0]) or result.reason
    when = program.sop.steps[name].when
    return f"{program.sop.sop} does not come to it{'' if when is None else f': `when: {when}` never held'}"


def _sent(journal: Journal, steps: Sequence[str]) -> dict[tuple[Address, ...], tuple[str, ModelRequest]]:
    """Activation → where is noted what it was shown, and its first request; of a step that others lead to."""
    found: dict[tuple[Address, ...], tuple[str, ModelRequest]] = {}
    for _, event in journal.events(Reserved):
        if steps_in(event.key) == tuple(steps) and (at := address_of(event.key)) not in found:
            *outer, own = activations_in(event.key)
            asked = json.loads(journal.blob(event.request))
            found[at] = "/".join((*map(str, outer), own.slot)), ModelRequest(
                key=event.key, role=event.role, step=own.step, messages=tuple(asked["messages"]), model=event.model,
                schema=asked.get("schema"), tools=tuple(asked["tools"]))
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
