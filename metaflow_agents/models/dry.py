"""The `dry` model: walks a SOP free of charge, with the smallest answer that each schema allows."""

from __future__ import annotations

import re
from typing import Literal

from metaflow_agents.models.port import ModelRequest, Reply
from metaflow_agents.models.vectors import embedded
from metaflow_agents.schema import paths
from metaflow_agents.schema.minimal_example import smallest

_REPAIR = re.compile(r"/repair\.(\d+)$")


class DryModel:
    """Answers with `default`, else `examples`, else the first of an enumeration, else the smallest valid value.

    A list has one item. Where such an answer breaks a rule (an `after` that names no key, say) and comes back for
    repair, lists inside of items are left empty, then all lists. Texts are embedded all alike.
    """

    name = "dry"

    async def ask(self, request: ModelRequest) -> Reply:
        """The smallest answer. Raises SmallestUnknown where the schema leaves none to guess."""
        if request.embeds:
            return Reply(value=embedded([[1.0]] * len(request.messages)))
        if request.patterns:
            found = [example_path(pattern) for pattern in request.patterns]
            return Reply(text="\n".join(f"=== file: {path} ===\nmade by the dry model\n=== end ===" for path in found))
        if request.schema is None:
            return Reply(text=f"{request.step}, made by the dry model")
        again = _REPAIR.search(request.key)
        lists: tuple[Literal["one", "outer", "none"], ...] = ("one", "outer", "none")
        return Reply(value=smallest(request.schema, request.step, lists=lists[min(int(again[1]) if again else 0, 2)]))


def example_path(pattern: str) -> str:
    """A path that a pattern matches: the pattern itself where it is literal."""
    found = paths.literal(pattern)
    if found is not None:
        return found
    parts = ["example" if part in ("**", "*") else _filled(part) for part in pattern.split("/")]
    return "/".join(parts)


def _filled(part: str) -> str:
    part = re.sub(r"\[(!?)(.)[^\]]*\]", lambda match: "x" if match[1] else match[2], part)
    return part.replace("**", "example").replace("*", "example").replace("?", "x")
