# ruff: noqa: E501  (prose and markup stand here as people write them)
"""The report's page: what a model wrote can't become markup, citations lead to their sources and back, nothing is loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from metaflow_agents.kits.research.page import set_page
from metaflow_agents.kits.research.values import Listed, Quoted, Report, WrittenSection
from metaflow_agents.prompts import render

TEMPLATE = (Path(__file__).resolve().parent.parent / "sops/report.html.j2").read_text(encoding="utf-8")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\" onload=\"alert(1)"


def report(text: str = "Plain.", **other: Any) -> Report:
    sources = (Listed(id="S1", title="One", path="one.txt", kind="text", pages=None, words=900, cited=True, notes=()),
               Listed(id="S2", title="Two", path="two.pdf", kind="pdf", pages=12, words=900, cited=True, notes=("no text on page 3",)),
               Listed(id="S3", title="Three", path="three.md", kind="markdown", pages=None, words=9, cited=False, notes=()))
    facts: dict[str, Any] = {
        "ok": True, "title": "A title", "language": "en", "question": "Why?", "summary": "Because [S1].", "sources": sources, "unread": (),
        "sections": (WrittenSection(id="first", heading="First", text=text),), "quotations": (), "citations": 1, "faults": (), **other}
    return Report(**facts)


def page(text: str = "Plain.", **other: Any) -> str:
    parts = set_page(report(text, **other))
    return render(TEMPLATE, {"page": parts.model_dump(mode="json"), "run": {"name": "x", "inputs": {}}}, {})


def body(text: str) -> str:
    return set_page(report(text)).sections[0].body


@pytest.mark.parametrize("text", [
    HOSTILE, f"**{HOSTILE}**", f"`{HOSTILE}`", f"> {HOSTILE} [S1]", f"| a |\n| --- |\n| {HOSTILE} |", f"```{HOSTILE}\n{HOSTILE}\n```",
    "[x](javascript:alert(1))", "[x](https://example.org \"t\")", "![x](https://example.org/x.png)", "<https://example.org>",
    "[x]: javascript:alert(1)\n\n[x]", "[S1<script>alert(1)</script>]", "[S9<script>alert(1)</script>]", "[S1\" onmouseover=\"alert(1)]", f"# {HOSTILE}", "&lt;script&gt;",
    f"\"{HOSTILE}\" [S1]", "\ue100<script>\ue101",
])
def test_what_a_model_writes_stays_text(text: str) -> None:
    tree = LexborHTMLParser(page(text))
    assert [node.tag for query in ("script", "img", "iframe", "object", "form", "link", "base") for node in tree.css(query)] == []
    for node in tree.css("*"):
        assert not [name for name in node.attributes if name.startswith("on")]
        assert (node.attributes.get("href") or "#").startswith("#")


def test_every_value_of_the_template_is_escaped() -> None:
    html = page(title=HOSTILE, question=HOSTILE, language=HOSTILE, faults=(HOSTILE,), unread=({"path": HOSTILE, "why": HOSTILE},),
                sections=(WrittenSection(id="first", heading=HOSTILE, text="x"),),
                quotations=(Quoted(section="first", text=HOSTILE, source="S1", page=HOSTILE),),
                sources=tuple(Listed(id=name, title=HOSTILE, path=HOSTILE, kind="text", pages=None, words=1, cited=cited, notes=(HOSTILE,))
                              for name, cited in (("S1", True), ("S2", False))))
    tree = LexborHTMLParser(html)
    assert tree.css("script") == tree.css("img") == []
    assert not [name for node in tree.css("*") for name in node.attributes if name.startswith("on")]
    assert html.count("&lt;script&gt;") >= 12


def test_the_page_loads_nothing() -> None:
    html = page('"Quoted words" [S1], others [S2, p. 4].')
    assert re.findall(r"(?:https?:|//|@import|url\()", html) == []
    assert "default-src 'none'" in html and html.startswith("<!doctype html>")


def test_citations_lead_to_their_sources_and_back() -> None:
    html = page("It is so [S2, p. 4; S1], and so [S1].")
    tree = LexborHTMLParser(html)
    identifiers = [node.attributes["id"] for node in tree.css("[id]")]
    assert len(identifiers) == len(set(identifiers))
    targets = [node.attributes["href"] for node in tree.css("a[href]")]
    assert {target.removeprefix("#") for target in targets if target} <= set(identifiers)
    assert "It is so" in html and ">S2, p. 4</a>; <a" in html and 'title="Two"' in html
    one = tree.css_first("#S1")
    assert one is not None and [node.text() for node in one.css(".back a")] == ["1", "2", "3"]
    assert "PDF, 12 pages · no text on page 3" in html
    assert "Read and not cited: Three (three.md)." in html


def test_a_citation_of_an_unknown_source_is_shown_and_leads_nowhere() -> None:
    assert '<span class="cite">[S9]</span>' in body("So [S9].")


@pytest.mark.parametrize(("text", "wanted"), [
    ('He said "these very words here" [S1].', "“<q>these very words here</q>” <span"),
    ('He said "these *very* words here" [S1].', "“<q>these <em>very</em> words here</q>”"),
    ('He said "these *very words" here* [S1].', "<em>very words&quot; here</em>"),           # not nested: no element
    ('A "term" of art.', "“term”"),
    ("`\"some code in here\"` [S1].", "<code>&quot;some code in here&quot;</code>"),
    ("> Words of a source.\n>\n> — Somebody, [S1]", '<p class="by">— Somebody'),
    ("# Heading\n\nText.", "<h3>Heading</h3>"),
    ("#### Heading\n\nText.", "<h4>Heading</h4>"),
    ("It's the owner's.", "It’s the owner’s."),
])
def test_quotations_headings_and_type(text: str, wanted: str) -> None:
    assert wanted in body(text)


def test_other_languages_keep_their_own_quotation_marks() -> None:
    parts = set_page(report('„Genau diese Worte hier“ [S1], "und" so.', language="de"))
    assert "„<q>Genau diese Worte hier</q>“" in parts.sections[0].body and "&quot;und&quot;" in parts.sections[0].body


def test_faults_are_shown_where_there_are_any() -> None:
    html = page(ok=False, faults=("a fault",))
    assert "1 fault, listed at the end" in html and "<li>a fault</li>" in html
    assert "found word for word" not in html
