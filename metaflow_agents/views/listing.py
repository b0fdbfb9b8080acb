"""The list of runs."""

from __future__ import annotations

from collections.abc import Sequence

from metaflow_agents.journal.run_summary import Glance
from metaflow_agents.views.event_log import OUTCOMES
from metaflow_agents.views.page import Page, table
from metaflow_agents.views.wording import duration, moment, money, short

_STYLES = {"success": "green", "at the step asked for": "green", "running": "cyan"}


def runs_lines(runs: Sequence[Glance], page: Page) -> list[str]:
    """`sop runs`: the newest last, as the eye is at the end of the list."""
    paid = any(run.cost for run in runs)
    rows = [[run.run, run.sop, OUTCOMES[run.state], moment(run.began) if run.began else "",
             duration(run.seconds) if run.began else "", f"{run.activations:,}", f"{run.calls:,}",
             short(run.tokens), *([_cost(run)] if paid else [])] for run in sorted(runs, key=lambda run: run.began)]
    headings = ("run", "SOP", "state", "began", "took", "activations", "calls", "tokens", *(["cost"] if paid else []))
    lines = table(rows, page, headings=headings,
                 right=(4, 5, 6, 7, 8), styles={2: lambda state: _STYLES.get(state, "red")})
    for run in runs:
        if run.state == "damaged":
            lines += page.wrapped(f"{run.run}: {run.reason}", "", "  ")
    return lines


def _cost(run: Glance) -> str:
    return money(run.cost, run.estimated) if run.cost else ""
