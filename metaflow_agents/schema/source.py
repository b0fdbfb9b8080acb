"""A document as the rest of the program sees it: its text, by pages where it has pages."""

from __future__ import annotations

from typing import Literal

from metaflow_agents.schema.model import Value

Kind = Literal["text", "markdown", "html", "pdf"]


class SourcePage(Value):
    """A stretch of a document. `number` counts from 1 as a PDF reader shows it; None where the document has no pages."""

    number: int | None = None
    text: str


class Source(Value):
    """One document. `id` is what citations name: S1, S2, … in the order of the paths.

    `author` and `date` are as it tells them of itself, empty where it does not. `about` is all of a short one, else its headings
    and how it begins, for somebody who plans; `notes` say what could not be read of it.
    """

    id: str
    path: str
    title: str
    author: str = ""
    date: str = ""
    kind: Kind
    words: int
    about: str = ""
    notes: tuple[str, ...] = ()
    pages: tuple[SourcePage, ...]


class Unread(Value):
    """A file that could not be taken as a document, and what to do about it."""

    path: str
    why: str
