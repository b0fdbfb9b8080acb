"""What passes between the steps of a research report, as its functions see it."""

from __future__ import annotations

from metaflow_agents.schema.model import Value
from metaflow_agents.schema.source import Source, Unread


class ResearchSources(Value):
    """The documents that were read, and the files that were not."""

    items: tuple[Source, ...]
    unread: tuple[Unread, ...] = ()


class Section(Value):
    """A section as it is planned: what it answers, from which sources, with which words to search them."""

    id: str
    heading: str
    question: str
    points: tuple[str, ...]
    sources: tuple[str, ...]
    terms: tuple[str, ...]


class Plan(Value):
    """The plan of a report."""

    answer: str
    sections: tuple[Section, ...]


class Passage(Value):
    """A stretch of a source that a writer works from."""

    source: str
    page: int | None
    text: str
    whole: bool
    """Whether all of its source's text is among the passages of the section."""


class Placed(Value):
    """A section in its final place, under its final heading."""

    id: str
    heading: str


class Frame(Value):
    """How the editor frames the report: its title, its sections in their order."""

    title: str
    language: str
    sections: tuple[Placed, ...]
    notes: tuple[str, ...]


class WrittenSection(Placed):
    """A section with its text, Markdown."""

    text: str


class Quoted(Value):
    """A quotation as it was found in its source."""

    section: str
    text: str
    source: str
    page: str


class Listed(Value):
    """A source as the report lists it."""

    id: str
    title: str
    author: str = ""
    date: str = ""
    path: str
    kind: str
    pages: int | None
    words: int
    cited: bool
    notes: tuple[str, ...]


class Report(Value):
    """The report, whole. `ok`: no fault was found in its quotations and citations."""

    ok: bool
    title: str
    language: str
    question: str
    summary: str
    sections: tuple[WrittenSection, ...]
    sources: tuple[Listed, ...]
    unread: tuple[Unread, ...]
    quotations: tuple[Quoted, ...]
    citations: int
    faults: tuple[str, ...]
