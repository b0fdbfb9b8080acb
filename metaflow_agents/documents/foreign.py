"""HTML and PDF as text, read in a worker: a page may take a parser as long as its author likes."""

from __future__ import annotations

from typing import Any

from metaflow_agents.documents.decoding import Unreadable
from metaflow_agents.errors import ForeignRefused
from metaflow_agents.workers.pool import parsed


async def html_text(data: bytes) -> tuple[str, str]:
    """(title, text) of an HTML page; see `read_html`. Raises Unreadable, RunError where no worker starts."""
    found = await _parsed("html", data)
    return str(found["title"]), str(found["text"])


async def pdf_texts(data: bytes) -> tuple[str, list[str], list[str]]:
    """(title, texts of the pages, notes) of a PDF file; see `read_pdf`. Raises as `html_text` does."""
    found = await _parsed("pdf", data)
    return str(found["title"]), [str(page) for page in found["pages"]], [str(note) for note in found["notes"]]


async def _parsed(job: str, data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await parsed(job, data)
    except ForeignRefused as error:
        raise Unreadable(f"is refused: reading it {error}; save it as plain text, or leave it out") from None
    if "unreadable" in found:
        raise Unreadable(str(found["unreadable"]))
    return found
