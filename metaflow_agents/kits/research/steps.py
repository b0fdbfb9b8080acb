"""The functions that `research_report.yaml` names: one for each step and check that is code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from metaflow_agents.documents.folder import read_folder
from metaflow_agents.errors import AttemptFailed, did_you_mean
from metaflow_agents.kits.research.passages import choose
from metaflow_agents.kits.research.quotations.marks import find_marks
from metaflow_agents.kits.research.quotations.verify import FoundQuotation, QuotationVerdict, verify
from metaflow_agents.kits.research.values import (
    Frame,
    Listed,
    Passage,
    Plan,
    Quoted,
    Report,
    ResearchSources,
    Section,
    WrittenSection,
)

SUMMARY = "drafts/summary.md"
LEAST = 2_000
_HIGH_HEADING = re.compile(r"^ {0,3}#{1,2}\s.*$", re.MULTILINE)
_ID = re.compile(r"[a-z][a-z0-9-]{0,39}")


async def read_documents(documents: Mapping[str, bytes], unreadable: Literal["stop", "leave_out"]) -> ResearchSources:
    """The documents of a folder as sources. Raises AttemptFailed where there are none, or where one can't be read.

    With `leave_out` those that can't be read are listed instead, and the report names them.
    """
    items, unread = await read_folder(documents)
    if unread and (unreadable == "stop" or not items):
        listed = " ".join(f"({number}) {one.path} {one.why}." for number, one in enumerate(unread, 1))
        others = " A new run with --unreadable leave_out goes on without them, and its report says so." if items else ""
        raise AttemptFailed(f"{len(unread)} of {len(unread) + len(items)} documents can't be read. {listed}{others}")
    if not items:
        raise AttemptFailed("the folder holds no documents: text, Markdown, HTML and PDF are read")
    return ResearchSources(items=tuple(items), unread=tuple(unread))


def check_plan(plan: Plan, sources: ResearchSources) -> list[str]:
    """Sources that a plan names and that do not exist; sections without any; ids that make poor names of files and anchors."""
    known = [source.id for source in sources.items]
    faults = [f"the id `{section.id}` is not like `what-it-costs`: lower-case letters, digits and hyphens, at most 40"
              for section in plan.sections if not _ID.fullmatch(section.id)]
    faults += [f"section `{section.id}` names the source `{name}`: {did_you_mean(name, known)}"
              for section in plan.sections for name in section.sources if name not in known]
    return faults + [f"section `{section.id}` names no source: every section rests on one at least"
                     for section in plan.sections if not section.sources]


def find_passages(section: Section, sources: ResearchSources, passage_characters: int) -> list[Passage]:
    """What the author of a section is given of its sources: so many characters at most.

    Raises AttemptFailed for a number that no passage fits into.
    """
    if passage_characters < LEAST:
        raise AttemptFailed(f"`passage_characters` is {passage_characters:,}, and has to be {LEAST:,} at least: a page of text")
    return choose(section, sources.items, passage_characters)


def check_section(drafts: Mapping[str, str], section: Section, sources: ResearchSources) -> list[str]:
    """What is wrong with the quotations and citations of one section as it was written."""
    return _faults({section.id: "\n\n".join(drafts.values())}, sources)


def check_frame(frame: Frame, plan: Plan) -> list[str]:
    """Whether a frame holds every section of the plan once."""
    planned, placed = [section.id for section in plan.sections], [section.id for section in frame.sections]
    faults = [f"`{name}` is no section: {did_you_mean(name, planned)}" for name in placed if name not in planned]
    faults += [f"the section `{name}` is missing" for name in planned if name not in placed]
    return faults + [f"the section `{name}` is duplicated" for name in sorted({one for one in placed if placed.count(one) > 1})]


def check_edit(drafts: Mapping[str, str], frame: Frame, sources: ResearchSources) -> list[str]:
    """What is wrong with the files that an editor wrote: paths, quotations and citations, a summary that is missing."""
    paths = {section_path(section.id): section.id for section in frame.sections} | {SUMMARY: "summary"}
    faults = [f"`{path}` is neither a section nor the summary: {did_you_mean(path, paths)}"
              for path in drafts if path not in paths]
    if SUMMARY not in drafts:
        faults.append(f"`{SUMMARY}` is missing: write it as a whole file")
    return faults + _faults({paths[path]: text for path, text in drafts.items() if path in paths}, sources)


def assemble(question: str, frame: Frame, drafts: Mapping[str, str], sources: ResearchSources) -> Report:
    """The report in its final order, every quotation and citation held against the sources once more."""
    sections = [WrittenSection(id=one.id, heading=one.heading.strip(), text=drafts[section_path(one.id)].strip())
                for one in frame.sections if section_path(one.id) in drafts]
    summary = drafts.get(SUMMARY, "").strip()
    verdict = verify({"summary": summary, **{section.id: section.text for section in sections}}, sources.items)
    faults = [*verdict.faults, *([] if summary else ["there is no summary"]), *([] if sections else ["there is no section"])]
    return Report(
        ok=not faults, title=frame.title.strip(), language=frame.language, question=question.strip(), summary=summary,
        sections=tuple(sections), sources=tuple(_listed(sources, verdict)), unread=sources.unread,
        quotations=tuple(_quoted(found) for found in verdict.found), citations=verdict.citations, faults=tuple(faults))


def section_path(name: str) -> str:
    """Where a section's text lies."""
    return f"drafts/sections/{name}.md"


def _faults(texts: Mapping[str, str], sources: ResearchSources) -> list[str]:
    verdict = verify(texts, sources.items)
    bare = [f"section `{name}`: it cites nothing: name the source behind what rests on it, like [S2] or [S2, p. 4]"
            for name, text in texts.items() if name != "summary" and not find_marks(text).citations]
    heads = [f"section `{name}`: the heading `{found[0].strip()}` is too high: write ### or deeper"
             for name, text in texts.items() for found in _HIGH_HEADING.finditer(text)]
    return [*verdict.faults, *bare, *heads]


def _listed(sources: ResearchSources, verdict: QuotationVerdict) -> Iterator[Listed]:
    for source in sources.items:
        yield Listed(id=source.id, title=source.title, author=source.author, date=source.date, path=source.path, kind=source.kind,
                     pages=source.pages[-1].number, words=source.words, cited=source.id in verdict.cited, notes=source.notes)


def _quoted(found: FoundQuotation) -> Quoted:
    pages = "" if found.first_page is None else \
        f"p. {found.first_page}" if found.first_page == found.last_page else f"pp. {found.first_page}–{found.last_page}"
    return Quoted(section=found.section, text=" ".join(found.text.split()), source=found.source, page=pages)
