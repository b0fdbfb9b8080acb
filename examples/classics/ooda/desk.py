"""Stands in for a language model in the tests of `ooda.yaml`: it knows nothing but its prompt."""

from __future__ import annotations

import re
from typing import Any

from metaflow_agents import ModelRequest


def pilot(request: ModelRequest) -> Any:
    """Drains above the bounds, fills below, waits within them; what it decides on is that the level is on that side."""
    text = "\n".join(str(one["content"]) for one in request.messages if one["role"] == "user")
    level = float(re.findall(r"Look \d+:.* level (-?\d+(?:\.\d+)?)", text)[-1])
    if request.step == "orient":
        done = re.findall(r"Decided: `(\w+)`", text)
        return {"situation": f"The level is {level:g}.", "heading": "It goes on as before.",
                "learned": f"{done[-1]} changes level by what it says" if done else "nothing yet"}
    least, most = map(float, re.search(r"level from (\S+) to (\S+),", text).groups())                       # type: ignore[union-attr]
    act, low, high = ("drain", most, 1e6) if level > most else ("fill", -1e6, least) if level < least else ("wait", least, most)
    return {"act": act, "why": f"level is {level:g}.", "expect": "the level nearer to its bounds",
            "holds": [{"number": "level", "least": low, "most": high}]}
