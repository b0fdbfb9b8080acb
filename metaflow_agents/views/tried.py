"""What the tests of a SOP showed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from metaflow_agents.views.page import Page, cut, safe
from metaflow_agents.views.wording import amount, duration

_VALUE = 300


def verdict_lines(verdict: Mapping[str, Any], page: Page) -> list[str]:
    """One case: whether it holds, and if not, why, with what its expression met."""
    word = page.paint("ok  ", "green") if verdict["ok"] else page.paint("FAIL", "red", "bold")
    cost = f"{amount(verdict['activations'], 'activation')}, {amount(verdict['calls'], 'call')}, {duration(verdict['seconds'])}"
    lines = [f"{word} {verdict['case']}  {page.paint(cost, 'dim')}"]
    if verdict["ok"]:
        return lines
    lines += page.wrapped(safe(verdict["why"], lines=True), "     ")
    for name, value in verdict["met"].items():
        lines.append(page.fitted(f"     {name} = {cut(safe(json.dumps(value, ensure_ascii=False)), _VALUE)}"))
    return lines
