"""Two runs beside each other, for a page: what `sop diff --json` says, with the artifacts' differences left to be asked for."""

from __future__ import annotations

from typing import Any

from metaflow_agents.views.difference import as_json
from metaflow_agents.views.summary import Told
from metaflow_agents.views.ui.texts import bounded

_CALLS = 3_000                      # of a run whose prompts are compared


def compared(one: Told, two: Told) -> dict[str, Any]:
    """How two runs differ. `artifacts`: those that either has, how many versions of each, whether the latest are the same."""
    prompts = max(one.outline.glance.calls, two.outline.glance.calls) <= _CALLS
    told, cut = bounded(as_json(one, two, artifacts=False, prompts=prompts))
    names = dict.fromkeys((*one.outline.versions, *two.outline.versions))
    return {**told, **({"cut": True} if cut else {}), **({} if prompts else {"prompts_left_out": True}),
            "artifacts": [{"name": name, "input": name in one.program.sop.inputs or name in two.program.sop.inputs,
                           "a": one.outline.version(name), "b": two.outline.version(name),
                           "same": one.outline.payload(name) == two.outline.payload(name)} for name in names]}
