"""How two runs differ: their SOPs, what they made, their firings, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metaflow_agents.schema.difference import unified
from metaflow_agents.schema.payload import Files
from metaflow_agents.sop.changes import changes
from metaflow_agents.views.minutes import OUTCOMES
from metaflow_agents.views.page import Page, safe, table
from metaflow_agents.views.story import Told
from metaflow_agents.views.values import text_of
from metaflow_agents.views.wording import duration, money

_COUNTS = ("calls", "tokens", "activations")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def as_json(one: Told, two: Told) -> dict[str, Any]:
    """What `sop diff --json` prints."""
    return {
        "runs": [one.name, two.name],
        "sop": list(changes(one.program, two.program)),
        "artifacts": {name: "\n".join(lines) for name, lines in differing(one, two)},
        "firings": {step: [a, b] for step, a, b in _firings(one, two)},
        "cost": {run.name: {"state": run.standing, **{word: getattr(run.outline.glance, word) for word in (*_COUNTS, "seconds")},
                            "cost": run.outline.glance.usd}
                 for run in (one, two)},
    }


def diff_lines(one: Told, two: Told, page: Page) -> Iterator[str]:
    """`sop diff RUN1 RUN2`."""
    told = changes(one.program, two.program)
    if told:
        yield page.paint("the SOP", "bold")
        yield from (f"  {safe(change)}" for change in told)
        yield ""
    same = True
    for name, lines in differing(one, two):
        same = False
        yield page.paint(name, "bold")
        for line in lines:
            shown = safe(line, lines=False)
            yield "  " + page.paint(shown, _COLOURS.get(shown[:1], ""))
        yield ""
    if same:
        yield "both made the same"
        yield ""
    firings = [[step, str(a), str(b)] for step, a, b in _firings(one, two)]
    facts = [["state", OUTCOMES[one.standing], OUTCOMES[two.standing]],
             *([f"{step} fired", *counts] for step, *counts in firings)]
    a, b = one.outline.glance, two.outline.glance
    facts += [[word, f"{getattr(a, word):,}", f"{getattr(b, word):,}"] for word in _COUNTS]
    if a.cost or b.cost:
        facts.append(["cost", money(a.cost, a.estimated), money(b.cost, b.estimated)])
    facts.append(["time", duration(a.seconds), duration(b.seconds)])
    yield from table(facts, page, headings=("", one.name, two.name), right=(1, 2))


def differing(one: Told, two: Told) -> Iterator[tuple[str, list[str]]]:
    """Each artifact (or input) whose latest versions differ, with a unified diff."""
    for name in dict.fromkeys((*one.outline.versions, *two.outline.versions)):
        payloads = one.outline.payload(name), two.outline.payload(name)
        if payloads[0] != payloads[1]:
            before, after = _parts(one, payloads[0]), _parts(two, payloads[1])
            lines: list[str] = []
            for part in dict.fromkeys((*before, *after)):
                label = f"{name}/{part}" if part else name
                lines += unified(before.get(part, []), after.get(part, []), f"{one.name}:{label}", f"{two.name}:{label}")
            if lines:
                yield name, lines


def _parts(run: Told, payload: str | None) -> dict[str, list[str]]:
    """Path or key → lines; one part without a name for a value."""
    if payload is None:
        return {}
    held, value = run.values.payload(payload), run.values.plain(payload)
    if isinstance(held, Files):
        return {path: text_of(run.values.content(digest, path)).splitlines() for path, digest in held.files.items()}
    return {"": text_of(value).splitlines()}


def _firings(one: Told, two: Told) -> list[tuple[str, int, int]]:
    steps = dict.fromkeys((*one.program.sop.steps, *two.program.sop.steps))
    found = [(step, one.outline.fired.get(step, 0), two.outline.fired.get(step, 0)) for step in steps]
    return [(step, a, b) for step, a, b in found if a != b]
