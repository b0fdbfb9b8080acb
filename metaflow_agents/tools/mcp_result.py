"""What a server's tool gave, as text: what is no text is named, what is too long is cut and said to be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from metaflow_agents.texts.strict_json import NotJSON, check, read
from metaflow_agents.tools.mcp_text import cut

if TYPE_CHECKING:
    from mcp_types import CallToolResult

LONGEST_RESULT = 100_000            # characters


def text_of(answer: CallToolResult, masked: Callable[[str], str] = str) -> str:
    """The blocks one after the other, then the structured content, unless a block says the same. `masked`: redacts secrets,
    before anything is cut, since half of one is too much.
    """
    parts = [_block(block) for block in answer.content]
    structured = answer.structured_content
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(_structured(structured))
    return cut(masked("\n\n".join(part for part in parts if part)) or "(nothing)", LONGEST_RESULT)


def content_of(answer: CallToolResult, masked: Callable[[str], str] = str) -> tuple[str, str]:
    """The same without any words about it: the texts, or the structured content, unless a text says the same. And why that is
    not all that the server gave; empty where it is.
    """
    texts = [str(block.text) for block in answer.content if block.type == "text"]
    other = [_block(block) for block in answer.content if block.type != "text"]
    structured = answer.structured_content
    found = "\n\n".join(texts)
    if structured is not None and not any(_says(text, structured) for text in texts):
        found = _structured(structured)
    found = masked(found)
    if other:
        return "", f"it holds what is no text: {masked(', '.join(other))[:500]}"
    return found, f"it is longer than {LONGEST_RESULT:,} characters" if len(found) > LONGEST_RESULT else ""


def _structured(content: Any) -> str:
    try:
        check(content)
    except NotJSON as error:
        return f"[structured content that is no JSON, not shown: {error}]"
    return json.dumps(content, ensure_ascii=False)


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {_bytes(block.data)}: not shown]"
        case "resource_link":
            return f"[a resource, not read: {block.uri}{f', {block.mime_type}' if block.mime_type else ''}]"
        case "resource":
            held = block.resource
            kind = f", {held.mime_type}" if held.mime_type else ""
            if hasattr(held, "text"):
                return f"[the resource {held.uri}{kind}]\n{held.text}"
            return f"[the resource {held.uri}{kind}, {_bytes(held.blob)}: not shown]"
        case other:
            return f"[{other}: not shown]"


def _bytes(base64: str) -> str:
    return f"{len(base64) * 3 // 4:,} bytes"


def _says(part: str, structured: Any) -> bool:
    """Whether a block holds the structured content, as servers give it to clients that know none: as JSON, wrapped or not."""
    wrapped = structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
    try:
        return part == wrapped or read(part) in (structured, wrapped)
    except NotJSON:
        return False
