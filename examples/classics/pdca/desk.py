"""Stands in for a language model in the tests of `pdca.yaml`: it knows nothing but its prompt."""

from __future__ import annotations

import re
from typing import Any

from metaflow_agents import ModelRequest


def said(request: ModelRequest) -> str:
    """All that it is told but the system's message."""
    return "\n".join(str(one["content"]) for one in request.messages if one["role"] == "user")


def clerk(request: ModelRequest) -> Any:
    """Writes dates as it always did, until a lesson says that this is a fault; countries come last."""
    text = said(request)
    if request.step == "learn":
        wrong = re.findall(r"born is '([^']*)'", text)
        return {"cause": "the dates have another form", "lesson": f"D.M.Y is still a fault: {wrong}; YYYY-MM-DD is none."
                if wrong else "What is left are countries: two letters each."}
    if request.step == "plan_next":
        idea = "Write countries as two letters." if "What is left are countries" in text else \
            "Write dates as YYYY-MM-DD." if "Learned: D.M.Y is still a fault" in text else "Write dates as D.M.Y."
        return {"idea": idea, "why": "it is what the faults are about", "files": ["people.csv"], "expect": 1}
    return _EDITS[next(idea for idea in _EDITS if idea in text)]


def boaster(request: ModelRequest) -> Any:
    """Changes nothing that matters, and says that the goal is reached."""
    if request.step == "learn":
        return {"cause": "all is well", "lesson": "The goal is reached, the number is 0."}
    if request.step == "plan_next":
        return {"idea": "Nothing is left to do: the number is 0.", "why": "it is reached", "files": [], "expect": 0}
    return "=== file: notes.csv ===\n0\n=== end ===\n"


def _edit(*changes: tuple[str, str]) -> str:
    edits = "\n".join(f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE" for old, new in changes)
    return f"=== edit: people.csv ===\n{edits}\n=== end ===\n"


_EDITS = {
    "Write dates as D.M.Y.": _edit(("Maria,16/5/1718,IT", "Maria,16.5.1718,IT")),
    "Write dates as YYYY-MM-DD.": _edit(("Ada,10.12.1815,GB", "Ada,1815-12-10,GB"), ("Emmy,23.3.1882,DE", "Emmy,1882-03-23,DE"),
                                        ("Maria,16/5/1718,IT", "Maria,1718-05-16,IT")),
    "Write countries as two letters.": _edit(("Kurt,1906-04-28,Austria", "Kurt,1906-04-28,AT")),
}
