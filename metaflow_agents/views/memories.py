"""What roles remember beyond a run, told."""

from __future__ import annotations

from collections.abc import Sequence

from metaflow_agents.memory.store import Memory
from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.wording import moment

_SHOWN = 600                        # characters of a memory; all of it stands in `--json`


def memory_lines(memories: Sequence[Memory], page: Page) -> list[str]:
    """A heading each: key, kind, whose, from where and when, how important; below it the text, and what it rests on."""
    lines: list[str] = []
    for one in memories:
        rated = "" if one.importance is None else f", importance {one.importance}"
        head = f"{one.key}  {one.kind} of {one.role}, {one.name} {one.activation}, {moment(one.at)}{rated}"
        lines.append(page.paint(safe(head), "bold"))
        if one.untrusted:
            lines += page.wrapped(f"from outside: {safe(one.untrusted)}", "  ")
        text = one.text if len(one.text) <= _SHOWN else f"{one.text[:_SHOWN]} … ({len(one.text):,} characters)"
        lines += page.wrapped(safe(text.strip(), lines=True), "  ")
        if one.cites:
            lines += page.wrapped(f"rests on {', '.join(one.cites)}", "  ", "    ")
    return lines
