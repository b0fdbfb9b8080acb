"""How two runs differ: their SOPs, what they made, who was asked, what was asked, their firings, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metaflow_agents.journal.ledger import Dimension, told
from metaflow_agents.journal.records import Spending
from metaflow_agents.schema.difference import unified
from metaflow_agents.schema.payload import Files
from metaflow_agents.sop.changes import changes
from metaflow_agents.views.asked import Changed, asked, changed
from metaflow_agents.views.costs import spent_told
from metaflow_agents.views.event_log import OUTCOMES
from metaflow_agents.views.page import Page, safe, table
from metaflow_agents.views.roles_table import cast
from metaflow_agents.views.summary import Told
from metaflow_agents.views.values import text_of
from metaflow_agents.views.wording import amount, duration, listed, money

_BY: tuple[Dimension, ...] = ("step", "role", "model")
_COUNTS = ("calls", "tokens", "activations")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def as_json(one: Told, two: Told, *, artifacts: bool = True, prompts: bool = True) -> dict[str, Any]:
    """What `sop diff --json` prints; without texts of artifacts, or without prompts: in large runs these take long to read."""
    return {
        "runs": [one.name, two.name],
        "sop": list(changes(one.program, two.program)),
        "artifacts": {name: "\n".join(lines) for name, lines in (differing(one, two) if artifacts else ())},
        "models": {role: list(both) for role, both in _models(one, two)},
        "prompts": {step: found.as_json() for step, found in (_prompts(one, two) if prompts else {}).items()},
        "firings": {step: [a, b] for step, a, b in _firings(one, two)},
        "costs": {f"{dimension}s": {name: [told(a), told(b)] for name, a, b in rows}
                  for dimension, rows in _costs(one, two).items()},
        "cost": {run.name: {"state": run.standing, **{word: getattr(run.outline.glance, word) for word in (*_COUNTS, "seconds")},
                            "cost": run.outline.glance.usd, "unanswered": run.outline.glance.unanswered}
                 for run in (one, two)},
    }


def diff_lines(one: Told, two: Told, page: Page) -> Iterator[str]:
    """`sop diff RUN1 RUN2`."""
    edited = changes(one.program, two.program)
    if edited:
        yield page.paint("the SOP", "bold")
        yield from (f"  {safe(change)}" for change in edited)
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
    models = [[role, a or "none", b or "none"] for role, (a, b) in _models(one, two)]
    if models:
        yield from table(models, page, headings=("model", one.name, two.name))
        yield ""
    for step, found in _prompts(one, two).items():
        yield page.paint(f"prompts of {safe(step)}", "bold")
        yield from _prompt_lines(found, one, two, page)
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
    for dimension, rows in _costs(one, two).items():
        if rows:
            yield ""
            yield from table([[name, spent_told(a) or "nothing", spent_told(b) or "nothing"] for name, a, b in rows], page,
                             headings=(f"cost by {dimension}", one.name, two.name))


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


def _models(one: Told, two: Told) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each role whose model is another one."""
    casts = [cast(run.program, run.outline.models) for run in (one, two)]
    for role in dict.fromkeys((*casts[0], *casts[1])):
        both = casts[0].get(role, ""), casts[1].get(role, "")
        if both[0] != both[1]:
            yield role, both


def _prompts(one: Told, two: Told) -> dict[str, Changed]:
    return changed(asked(one.events("reserved")), asked(two.events("reserved")), (one.values, two.values), (one.name, two.name))


def _prompt_lines(found: Changed, one: Told, two: Told, page: Page) -> Iterator[str]:
    """How many differ, which, and the first difference."""
    for what, keys in (("differ", found.differ), *((f"in {run.name} alone", keys)
                                                   for run, keys in zip((one, two), found.only, strict=True))):
        if keys:
            yield from page.wrapped(f"{amount(len(keys), 'call')} {what}: {safe(listed(keys))}", "  ")
    for line in found.first:
        shown = safe(line, lines=False)
        yield "  " + page.paint(shown, _COLOURS.get(shown[:1], ""))


def _costs(one: Told, two: Told) -> dict[Dimension, list[tuple[str, Spending, Spending]]]:
    """By step, role and model: each whose cost differs."""
    a, b = one.costs().by, two.costs().by
    none = Spending()
    return {dimension: [(name, a[dimension].get(name, none), b[dimension].get(name, none))
                        for name in dict.fromkeys((*a[dimension], *b[dimension]))
                        if a[dimension].get(name, none) != b[dimension].get(name, none)] for dimension in _BY}


def _firings(one: Told, two: Told) -> list[tuple[str, int, int]]:
    steps = dict.fromkeys((*one.program.sop.steps, *two.program.sop.steps))
    found = [(step, one.outline.fired.get(step, 0), two.outline.fired.get(step, 0)) for step in steps]
    return [(step, a, b) for step, a, b in found if a != b]
