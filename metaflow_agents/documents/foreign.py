"""HTML and PDF as text, read in a worker: a page may take a parser as long as its author likes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.documents.decoding import Unreadable
from metaflow_agents.errors import ForeignRefused
from metaflow_agents.workers.pool import parsed


async def html_text(data: bytes) -> tuple[Mapping[str, str], str]:
    """(what it tells of itself, text) of an HTML page; see `read_html`. Raises Unreadable, RunError where no worker starts."""
    found = await _parsed("html", data)
    return _head(found), str(found["text"])


async def pdf_texts(data: bytes) -> tuple[Mapping[str, str], list[str], list[str]]:
    """(what it tells of itself, texts of the pages, notes) of a PDF file; see `read_pdf`. Raises as `html_text` does."""
    found = await _parsed("pdf", data)
    return _head(found), [str(page) for page in found["pages"]], [str(note) for note in found["notes"]]


def _head(found: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: str(text) for name, text in dict(found["head"]).items()}


async def _parsed(job: str, data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await parsed(job, data)
    except ForeignRefused as error:
        raise Unreadable(f"is refused: reading it {error}; save it as plain text, or leave it out") from None
    if "unreadable" in found:
        raise Unreadable(str(found["unreadable"]))
    return found
