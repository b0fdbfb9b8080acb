"""`sop prompt`: what a step would send. The SOP is walked in memory up to it, by the `dry` model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.opening import checked
from metaflow_agents.runs import start
from metaflow_agents.schema.event import Reserved
from metaflow_agents.schema.keys import parse_activation


async def rehearse(sop: str | Path, step: str, *, inputs: Mapping[str, Any], given: Mapping[str, Any]) -> list[ModelRequest]:
    """The first request of each activation of a step's first firing. `given`: artifact → value in place of the dry one.

    Raises SOPNotFound, SOPInvalid, and UsageError for a step that is unknown, asks no model, or is not reached.
    """
    steps = checked(sop).program.sop.steps
    if step not in steps:
        raise UsageError(f"there is no step `{step}`: {did_you_mean(step, steps)}")
    if steps[step].role is None:
        raise UsageError(f"step `{step}` sends no prompt: it has no `role`, and asks no model")
    async with start(sop, model="dry", inputs=inputs, given=given, until=step, workspace=None) as going:
        result = await going.result()
        found = _sent(going.journal, step)
    if found:
        return found
    why = result.never.get(step) or result.reason
    made = steps[step].makes.artifact
    if made in given:
        why = f"`{made}`, which it makes, is given"
    raise UsageError(f"step `{step}` sends nothing in this walk: {why}; `--given ARTIFACT=JSON` gives what leads to it")


def _sent(journal: Journal, step: str) -> list[ModelRequest]:
    found: dict[str, ModelRequest] = {}
    for _, event in journal.events(Reserved):
        at = parse_activation(event.key)
        if at.step == step and at.round == 1:
            asked = json.loads(journal.blob(event.request))
            found.setdefault(at.slot, ModelRequest(key=event.key, role=event.role, step=step, messages=tuple(asked["messages"]),
                                                   model=event.model, schema=asked.get("schema"), tools=tuple(asked["tools"])))
    return list(found.values())
