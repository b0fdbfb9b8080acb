"""The whole of a text that a page shows cut: by the digest of the blob that holds it, and the way to it.

The way is that of a JSON value, `messages/1/content`, and behind `@` the characters of the clean text, `@200-40000`; empty: the
blob itself, as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.schema.binary import text_in
from metaflow_agents.texts.strict_json import NotJSON, read
from metaflow_agents.views.ui.texts import WHOLE, Text, clean, cut
from metaflow_agents.views.values import text_of

_DIGEST = re.compile(r"[0-9a-f]{64}")
_WAY = re.compile(r"(?P<way>[^@]{0,200})(?:@(?P<start>\d{1,9})-(?P<end>\d{1,9}))?")


def whole_text(blob: Callable[[str], bytes], digest: str, path: str) -> Text:
    """The text. Raises UsageError where there is none, JournalError where the run has no such blob."""
    place = _WAY.fullmatch(path)
    if place is None or not _DIGEST.fullmatch(digest):
        raise UsageError(f"`{path[:80]}` in `{digest[:80]}` is no place of a text")
    data = blob(digest)
    cleaned = clean(_text(data, place["way"], path))
    if place["start"] is not None:
        cleaned = cleaned[int(place["start"]):int(place["end"])]
    return cut(cleaned, most=WHOLE)


def _text(data: bytes, way: str, path: str) -> str:
    if not way:
        found = text_in(data)
        if found is None:
            raise UsageError(f"these {len(data):,} bytes are no text")
        return found
    try:
        value: Any = read(data)
        for word in way.split("/"):
            value = value[int(word)] if isinstance(value, list) else value[word]
    except (NotJSON, KeyError, IndexError, ValueError, TypeError):
        raise UsageError(f"there is no text at `{path[:80]}`") from None
    return text_of(value)
