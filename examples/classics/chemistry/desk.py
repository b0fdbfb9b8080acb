"""Stands in for a language model in the tests of this SOP: it picks a tool by the question's words, and quotes the result."""

from __future__ import annotations

import json
import re
from typing import Any

from metaflow_agents.models.port import ModelRequest, Reply, ToolCall


def chemist(request: ModelRequest) -> Any:
    """A look into the notes where the question is about them, one tool, and its result as the answer."""
    asked = "\n".join(str(one["content"]) for one in request.messages if one["role"] == "user")
    found = [str(one["content"]) for one in request.messages if one["role"] == "tool"]
    if "in the notes" in asked and not found:
        return _call("search", expression="(?i)solvent")
    made = re.search(r"How much (\w+) do (.+?) of a solution of (.+?) hold", asked)
    noted = re.search(r"glassware: (\w+)", found[0]) if found else None
    if made is not None and not found:
        return _call("solution", substance=made[1], volume=made[2], concentration=made[3])
    if noted is not None and len(found) == 1:
        return _call("safety", substance=noted[1])
    return _call("finish", answer=json.dumps({"answer": found[-1], "because": found[-1:]}))


def _call(name: str, **arguments: Any) -> Reply:
    return Reply("", calls=(ToolCall("", name, arguments),))
