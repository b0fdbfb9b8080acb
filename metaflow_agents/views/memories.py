"""What roles remember beyond a run, told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from metaflow_agents.memory.store import StoredMemory
from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.wording import amount, moment

_SHOWN = 600                        # characters of a memory; all of it stands in `--json`


def counted(memories: Sequence[StoredMemory]) -> list[str]:
    """How much everybody remembers, by kind: `clerk: 10 turns, 2 reflections`."""
    found: dict[str, Counter[str]] = {}
    for one in memories:
        found.setdefault(one.role, Counter())[one.kind] += 1
    return [f"{safe(owner)}: {', '.join(amount(number, kind) for kind, number in kinds.items())}"
            for owner, kinds in sorted(found.items())]


def memory_lines(memories: Sequence[StoredMemory], page: Page) -> list[str]:
    """A heading each: key, kind, whose, from where and when, how important; below it the text, and what it rests on."""
    lines: list[str] = []
    for one in memories:
        rated = "" if one.importance is None else f", importance {one.importance}"
        origin = "by a person" if one.kind in ("note", "pin") else f"{one.name} {one.activation}"
        alone = ", of that run alone" if one.apart else ""
        head = f"{one.key}  {one.kind} of {one.role}, {origin}, {moment(one.at)}{rated}{alone}"
        lines.append(page.paint(safe(head), "bold"))
        if one.untrusted:
            lines += page.wrapped(f"from outside: {safe(one.untrusted)}", "  ")
        text = one.text if len(one.text) <= _SHOWN else f"{one.text[:_SHOWN]} … ({len(one.text):,} characters)"
        lines += page.wrapped(safe(text.strip(), lines=True), "  ")
        if one.cites:
            lines += page.wrapped(f"rests on {', '.join(one.cites)}", "  ", "    ")
    return lines
