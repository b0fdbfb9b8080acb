"""What the tests of a SOP showed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.wording import amount, duration


def verdict_lines(verdict: Mapping[str, Any], page: Page) -> list[str]:
    """One case: whether it holds, and if not, what was expected, what was found, and where the expectation is written."""
    word = page.paint("ok  ", "green") if verdict["ok"] else page.paint("FAIL", "red", "bold")
    cost = f"{amount(verdict['activations'], 'activation')}, {amount(verdict['calls'], 'call')}, {duration(verdict['seconds'])}"
    lines = [f"{word} {verdict['case']}  {page.paint(cost, 'dim')}"]
    for one in verdict["unmet"]:
        lines.append(f"     {safe(one['place'])}")
        lines += page.wrapped(safe(one["expected"], lines=True), "       expected  ")
        lines += page.wrapped(safe(one["was"], lines=True), "       found     ")
    if verdict["error"]:
        lines += page.wrapped(safe(verdict["error"], lines=True), "     ")
    if verdict["stopped"]:
        lines += page.wrapped(safe(f"the run was stopped: {verdict['stopped']}", lines=True), "     ")
    return lines
