"""The list of runs, and one run as a whole."""

from __future__ import annotations

from typing import Any

from metaflow_agents.journal.places import journal_path, run_names
from metaflow_agents.journal.run_summary import glances
from metaflow_agents.web.asked import Asked, get


def runs(asked: Asked) -> dict[str, Any]:
    """The newest first."""
    workspace = asked.site.workspace
    found = glances([journal_path(workspace, name) for name in run_names(workspace)])
    return {"runs": [run.as_json() for run in sorted(found, key=lambda run: -run.began)]}


def run(asked: Asked) -> dict[str, Any]:
    """One run."""
    with asked.run() as found:
        return found.told.as_json()


routes = [get("/api/runs", runs), get("/api/run", run)]
