"""Answers that are nearly in their form, brought into it before a model is asked again.

JSON with faults of spelling, and the only file of a step as a fenced block or as plain text. What was changed stands in the
journal under the key of the call and `/repaired`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from metaflow_agents.agent.answers import unfenced
from metaflow_agents.agent.only_file import as_block
from metaflow_agents.errors import ForeignRefused
from metaflow_agents.models.port import Reply
from metaflow_agents.models.structured import as_asked
from metaflow_agents.schema.keys import REPAIRED
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.texts.strict_json import NotJSON, read
from metaflow_agents.workers.pool import parsed

LONGEST = 256_000                   # bytes of an answer that is repaired; who answers with more is asked again


async def data(observations: Observations, key: str, reply: Reply, schema: Mapping[str, Any] | None) -> Reply:
    """The reply of the call `key` with JSON in it, where `schema` asks for JSON and that is what the answer nearly is; else as it
    came. Whether it fits the schema is asked where it is taken.
    """
    text = reply.text
    if text is None or schema in (None, {"type": "string"}) or not any(bracket in text for bracket in "{["):
        return reply
    bare = unfenced(text)
    fault = _fault(bare)
    if not fault and bare == text:
        return reply

    async def look() -> Any:
        if not fault:
            return {"changes": ["code fence left out"]}
        try:
            return await parsed("json", encoded)
        except ForeignRefused as error:                 # that depends on the machine, so it is journalled like the rest
            return {"refused": f"a repair {error}"}

    encoded = text.encode()
    if len(encoded) > LONGEST:
        return reply
    found = await observations.once(f"{key}{REPAIRED}", look)
    if "text" not in found or _fault(found["text"]):
        return reply
    return replace(reply, text=as_asked(schema or {}, found["text"]))


async def only_file(observations: Observations, key: str, reply: Reply, path: str | None) -> Reply:
    """The reply of the call `key` with the file `path` as a block, where the answer is that file's text; else as it came.

    `path` is None where the step may make other files, or where this one exists: then only the answer could say which it means.
    """
    made = None if path is None or reply.text is None else as_block(reply.text, path)
    if made is None:
        return reply
    text, change = made

    async def look() -> Any:
        return {"text": text, "changes": [change]}

    await observations.once(f"{key}{REPAIRED}", look)
    return replace(reply, text=text)


def _fault(text: str) -> str:
    """Why a text is no JSON; empty where it is."""
    try:
        read(text)
    except NotJSON as error:
        return str(error) or "not JSON"
    return ""
