"""What documents read of Markdown, and what of it never gets into them: links that act, pictures from elsewhere."""

from __future__ import annotations

import io
import random
import re
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import docx
import pytest
from bytes_files import png
from pypdf import PdfReader
from scripted import Scripted, write
from selectolax.lexbor import LexborHTMLParser
from tiers import some

from metaflow_agents import run
from metaflow_agents.documents import publishing
from metaflow_agents.prompts import render

ALL = ("a.html", "a.pdf", "a.docx", "a.epub")


def converted(folder: Path, text: str, names: tuple[str, ...] = ALL, tree: Mapping[str, bytes] | None = None,
              ends: int = 0) -> str:
    """The converter run by itself in a folder, where what it made is found; what it said."""
    for path, data in publishing.files(text, "report", names, tree or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    done = subprocess.run(publishing.command(), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == ends, done.stderr
    return done.stderr


def page(folder: Path) -> LexborHTMLParser:
    return LexborHTMLParser((folder / "a.html").read_bytes())


def members(path: Path) -> dict[str, str]:
    """The XML files of a ZIP archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()
                if name.endswith(("xml", "xhtml", "rels", "opf"))}


LIVE = {
    "[a](http://one.example/x)": "http://one.example/x", "[a](HTTPS://two.example)": "HTTPS://two.example",
    "[a](mailto:ann@example.org)": "mailto:ann@example.org", "<https://three.example>": "https://three.example",
    "<ann@mail.example>": "mailto:ann@mail.example", "[a](beside.csv)": "beside.csv", "[a](sub/a:b)": "sub/a:b",
    "[a][four]\n\n[four]: https://four.example": "https://four.example", "[a](?x=1)": "?x=1",
}
"""Markdown → the address to which its link leads."""
DEAD = {
    "plain": "[text](javascript:alert(1))", "case": "[text](JaVaScRiPt:alert(1))", "space": "[text](< javascript:alert(1)>)",
    "tab": "[text](<java\tscript:alert(1)>)", "tab entity": "[text](java&Tab;script:alert(1))",
    "line entity": "[text](java&#10;script:alert(1))", "control": "[text](&#1;javascript:alert(1))",
    "control inside": "[text](java&#x0B;script:alert(1))", "colon entity": "[text](javascript&colon;alert(1))",
    "letters as entities": "[text](&#106;&#97;vascript:alert(1))", "no-break space": "[text](&nbsp;javascript:alert(1))",
    "zero width": "[text](\u200bjavascript:alert(1))", "escaped colon": r"[text](javascript\:alert(1))",
    "reference": "[text][bad]\n\n[bad]: javascript:alert(1)", "autolink": "<javascript:alert(1)>",
    "vbscript": "[text](vbscript:x)",
    "data": "[text](data:text/html,<b>x</b>)", "data page": "[text](data:text/html;base64,PHNjcmlwdD4=)",
    "file": "[text](file:///etc/passwd)", "blob": "[text](blob:x)", "view": "[text](view-source:http://x.example)",
    "office": "[text](ms-word:ofe|u|http://x.example/y)", "drive": "[text](c:/windows)", "ftp": "<ftp://x.example/y>",
    "another machine": "[text](//x.example/y)", "another machine by backslashes": r"[text](<\\\\x.example\\y>)",
    "mixed slashes": r"[text](</\\x.example>)", "the whole machine": "[text](/etc/passwd)",
    "space before": "[text](<&#9;//x.example>)",
    "two colons": "[text](x:http://y.example)", "HTML": "<a href='javascript:alert(1)'>text</a>",
    "picture": "[![text](javascript:alert(1))](javascript:alert(2))",
    "footnote": "text[^1]\n\n[^1]: [inner](javascript:alert(1))", "heading": "# [text](javascript:alert(1))",
    "table": "| a |\n| - |\n| [text](javascript:alert(1)) |",
}


def leads(folder: Path) -> dict[str, set[str]]:
    """Format → where its links lead, those inside of the document left out."""
    found = {"html": {one.attributes.get("href") or "" for one in page(folder).css("[href]")}}
    found["html"] |= {one.attributes.get("src") or "" for one in page(folder).css("[src]")}
    pdf = PdfReader(folder / "a.pdf")
    actions = [note.get_object().get("/A", {}) for one in pdf.pages for note in one.get("/Annots", [])]
    found["pdf"] = {str(action["/URI"]) for action in actions if "/URI" in action}
    assert all(action.get("/S") in (None, "/URI") for action in actions)
    word = members(folder / "a.docx")
    found["docx"] = {one for name, text in word.items() if name.endswith("rels")
                     for one in re.findall(r'Target="([^"]*)" TargetMode="External"|TargetMode="External" Target="([^"]*)"', text)
                     for one in one if one}
    book = members(folder / "a.epub")
    found["epub"] = {one for name, text in book.items() if name.endswith("xhtml") and "/text/" in name
                     for one in re.findall(r'(?:href|src)="([^"]*)"', text)}
    inside = re.compile(r"#|ch\d+\.xhtml|\.\./styles/|nav\.xhtml|title_page\.xhtml")
    return {kind: {one for one in there if not inside.match(one)} for kind, there in found.items()}


@pytest.mark.one_in(4)
def test_only_links_to_the_web_to_mail_and_beside_the_document_are_live(tmp_path: Path) -> None:
    text = "\n\n".join([*LIVE, "[in](#part)", *DEAD.values(), "# Part"]).replace("[^1]", "[^x]")
    converted(tmp_path, text, ends=publishing.FAULTY)                         # `picture` shows one that is none
    wanted = set(LIVE.values())
    for kind, found in leads(tmp_path).items():
        assert {one.lower().rstrip("/") for one in found} == {one.lower() for one in wanted}, kind
    assert page(tmp_path).css("a[href='#part']") and "javascript:alert(1)" in page(tmp_path).body.text()   # type: ignore[union-attr]


@pytest.mark.parametrize("written", DEAD.values(), ids=DEAD)
@pytest.mark.one_in(4)
def test_each_of_them_is_text(tmp_path: Path, written: str) -> None:
    converted(tmp_path, written, ("a.html",), ends=publishing.FAULTY if "![" in written else 0)
    found = page(tmp_path)
    assert all((one.attributes.get("href") or "").startswith("#") for one in found.css("[href], [src], [action]"))
    assert found.body is not None and ("text" in found.body.text() or written.startswith("<"))


def test_a_picture_of_the_web_is_a_link_to_it(tmp_path: Path) -> None:
    converted(tmp_path, "![A plate](https://x.example/p.png)", ("a.html",))
    assert [(one.text(), one.attributes["href"]) for one in page(tmp_path).css("a")] == [("A plate", "https://x.example/p.png")]


PRINT = """
    sop: desk
    inputs: {text: string, plates: {type: folder, optional: true}}
    artifacts: {report: {file: [report.md, report.html, report.pdf]}}
    steps: {print: {value: text, needs: [text], SEES makes: report}}
"""


@pytest.mark.parametrize(("sees", "shown", "said"), [
    ("sees: [plates],", "plates/no.png",
     "`plates/no.png` is not among the files that the step reads; pictures that the step reads: "
     "`plates/fake.png`, `plates/moss.png`; "),
    ("", "plates/moss.png", "`plates/moss.png` is not among the files that the step reads; pictures that the step reads: none; "),
    ("sees: [plates],", "../plates/moss.png", "`../plates/moss.png` is no path of a file that the step reads; "),
    ("sees: [plates],", "data:image/png;base64,aaaa", "`data:image/png;base64,aaaa` is no path of a file that the step reads; "),
    ("sees: [plates],", "plates/fake.png", "`plates/fake.png` is no PNG, JPEG, GIF, WebP or SVG; ")])
async def test_a_picture_that_can_not_be_shown_fails_the_attempt_and_is_named(tmp_path: Path, sees: str, shown: str,
                                                                               said: str) -> None:
    (tmp_path / "given/plates").mkdir(parents=True)
    (tmp_path / "given/plates/moss.png").write_bytes(png(6, 2, 6, 5))
    (tmp_path / "given/plates/fake.png").write_bytes(b"no picture")
    sop = write(tmp_path, PRINT.replace("SEES", sees))
    result = await run(sop, text=f"![Cover]({shown})\n\n![Cover]({shown})", plates=tmp_path / "given", workspace=tmp_path / "w",
                       name="one", sandbox="none", model=Scripted())
    assert result.outcome == "stopped"
    head = "print@1~0: report.html, report.pdf can't be made of `report`: pictures can't be shown: "
    assert result.reason.startswith(head + said)
    assert result.reason.endswith("let the step read their files (`needs` or `sees`), correct their paths, or take them out of "
                                  "the text")
    assert result.reason.count(f"`{shown}` is") == 1


AS_WRITTEN = ['"Plus" -- PO--1 --- x ...', "it's 'so'", "$5 and 7$ $$x$$", "4~5~6 H^2^ a^b", ":smile: :+1:",
              "x {.class} {#id key=v}",
              "[x]{.cls}", "@user and @doe2020", "a ::: b", "\\(x\\)", "[[wiki]]", "> [!NOTE] x"[2:], "#read(\"x\") #let x = 1",
              "www.example.org http://x.example", "~one tilde~", "-? a--b ~ c", "<b>x</b> &lt;", "1986\\. x", "Term : definition"]
"""Texts that other Markdown reads as something else."""


def test_text_comes_out_as_it_is_written(tmp_path: Path) -> None:
    converted(tmp_path, "\n\n".join(AS_WRITTEN) + "\n\n~~gone~~\n\n- [x] done\n")
    shown = [one.replace("&lt;", "<").replace("1986\\.", "1986.").replace("\\(x\\)", "(x)") for one in AS_WRITTEN]
    told = [one.text().replace("\n", " ") for one in page(tmp_path).css("main p")]
    assert told[:len(shown)] == shown
    assert page(tmp_path).css("del") and page(tmp_path).css("li input[checked]")
    assert not page(tmp_path).css("sup, sub, math, .class")
    word = [one.text for one in docx.Document(str(tmp_path / "a.docx")).paragraphs]
    assert word[:len(shown)] == shown
    read = " ".join("".join(one.extract_text() for one in PdfReader(tmp_path / "a.pdf").pages).split())
    for one in shown:
        assert one in read, one
    with zipfile.ZipFile(io.BytesIO((tmp_path / "a.epub").read_bytes())) as book:
        chapter = LexborHTMLParser(book.read("EPUB/text/ch001.xhtml"))
    assert [one.text().replace("\n", " ") for one in chapter.css("p")][:len(shown)] == shown


def random_text(seed: int) -> str:
    chance = random.Random(seed)
    parts = [*r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~""", *"abz 0 1 2 é ß – “ \u00a0".split(" "), " ", "  ", "\n", "\t", "---",
             "***", "](",
             "![", "[^1]", "&amp;", "1. ", "- ", "# ", "    ", "\\|", "|", "http://x.example", "<b>", "```", "$x$", "**", "~~"]
    return "".join(chance.choice(parts) for _ in range(chance.randint(1, 14)))


@pytest.mark.one_in(4)
def test_escaped_text_is_itself_in_a_paragraph_a_heading_and_a_cell(tmp_path: Path) -> None:
    texts = [text for text in map(random_text, some(range(400))) if text.strip()]
    template = """\
# First

{% for text in texts %}
{{ text | markdown_text }}

## {{ text | markdown_text }}

| a | b |
| --- | --- |
| {{ text | markdown_text }} | {{ text | markdown_text }} |

- {{ text | markdown_text }}

{% endfor %}
"""
    converted(tmp_path, render(template, {"texts": texts}, {}), ("a.html", "a.pdf"))
    shown = [" ".join(re.split(r"[ \t\n]+", text)).strip(" ") for text in texts]
    for place, times in (("main > p", 1), ("main > h1", 1), ("main td", 2), ("main > ul > li", 1)):
        found = [one.text().replace("\n", " ") for one in page(tmp_path).css(place)]
        assert found == [text for text in shown for _ in range(times)], place
    read = "".join("".join(one.extract_text().rpartition("\n")[0] for one in PdfReader(tmp_path / "a.pdf").pages).split())
    assert read == "First" + "".join("".join(f"{text} {text} ab {text} {text} •{text}".split()) for text in shown)


@pytest.mark.parametrize(("value", "shown"), [
    ("  a *b*\n\tc  ", r"a \*b\* c"), ("", ""), (5, "5"), ("é – ü", "é – ü"), ("a|b", r"a\|b"), (r"a\b", r"a\\b")])
def test_the_filter_for_markdown(value: object, shown: str) -> None:
    assert render("{{ x | markdown_text }}", {"x": value}, {}) == shown


FRONT = """---
title: "The [Moss](javascript:x) ... 'Book'"
subtitle: A *sub*
author: [Ann Bell, Bo Cruz]
date: 2026-11-24
lang: en
description: 'What "moss" http-equiv="refresh" is'
keywords: [moss, '"><script>']
publisher: Press & Co
rights: © 2026 Ann
identifier: 978-3-16-148410-0
toc: true
book: true
cover-image: plates/moss.png
papersize: A5
---

# What is known

Text.

## Inner

# What is not

More.
"""
PLATES = {"plates/moss.png": png(60, 20, 6, 5)}


@pytest.mark.one_in(4)
def test_front_matter_does_what_the_reference_says(tmp_path: Path) -> None:
    converted(tmp_path, FRONT, tree=PLATES)
    title, described = "The [Moss](javascript:x) ... 'Book'", 'What "moss" http-equiv="refresh" is'
    html = page(tmp_path)
    metas = [(one.attributes["name"], one.attributes["content"]) for one in html.css("meta[name]")][1:]
    assert metas == [("author", "Ann Bell"), ("author", "Bo Cruz"), ("keywords", "moss"), ("keywords", '"><script>'),
                     ("description", described), ("dcterms.publisher", "Press & Co"), ("dcterms.rights", "© 2026 Ann"),
                     ("dcterms.identifier", "978-3-16-148410-0")]
    assert not html.css("script, [http-equiv]") and [one.text() for one in html.css("h1.title")] == [title]
    assert [one.text() for one in html.css("nav a")] == ["What is known", "Inner", "What is not"]
    assert html.css("body > img[src^='data:image/png']") and "size: A5" in (tmp_path / "a.html").read_text()

    pdf = PdfReader(tmp_path / "a.pdf")
    told = pdf.metadata
    assert told is not None and (told.title, told.subject, told.author) == (title, described, "Ann Bell, Bo Cruz")
    assert told["/Keywords"] == 'moss, "><script>' and [round(side) for side in pdf.pages[1].mediabox[2:]] == [420, 595]
    pages = [" ".join(one.extract_text().split()) for one in pdf.pages]
    assert [len(one.images) for one in pdf.pages] == [1, 0, 0, 0, 0] and pages[1].replace(" ", "").startswith(
        title.replace(" ", ""))
    assert all(one in pages[1] for one in ("A *sub*", "Press & Co", "© 2026 Ann", "978-3-16-148410-0"))
    assert re.search(r"What is known.*4.*Inner.*What is not.*5", pages[2])
    assert pages[3].startswith("What is known Text.") and pages[4].startswith("What is not")

    word = docx.Document(str(tmp_path / "a.docx"))
    assert (word.core_properties.title, word.core_properties.keywords) == (title, 'moss, "><script>')
    assert word.core_properties.comments == described and len(word.inline_shapes) == 1
    assert "<pic:pic" in word.paragraphs[0]._p.xml and 'w:br w:type="page"' in word.paragraphs[0]._p.xml
    assert word.paragraphs[1].text == title
    own = members(tmp_path / "a.docx")
    assert all(one in own["docProps/custom.xml"] for one in ("Press &amp; Co", "© 2026 Ann", "978-3-16-148410-0"))
    assert "TOC" in own["word/document.xml"] and "pageBreakBefore" in own["word/styles.xml"]
    assert round(word.sections[-1].page_width.mm) == 148                                                # type: ignore[union-attr]

    package = members(tmp_path / "a.epub")["EPUB/content.opf"]
    assert all(one in package for one in (">Press &amp; Co<", ">© 2026 Ann<", ">978-3-16-148410-0<", 'properties="cover-image"'))


def test_without_front_matter_there_is_none_of_it(tmp_path: Path) -> None:
    converted(tmp_path, "# One\n\n# Two\n")
    assert not page(tmp_path).css("nav, img, meta[name='keywords']") and len(PdfReader(tmp_path / "a.pdf").pages) == 1
    own = members(tmp_path / "a.docx")
    assert docx.Document(str(tmp_path / "a.docx")).paragraphs[0].text == "One"
    assert "TOC" not in own["word/document.xml"] and "pageBreakBefore" not in own["word/styles.xml"]
    assert "urn:sha256:" in members(tmp_path / "a.epub")["EPUB/content.opf"]


@pytest.mark.parametrize("path", ["plates/no.png", "../x.png", "job.json"])
def test_a_cover_that_is_not_there_is_told(tmp_path: Path, path: str) -> None:
    said = converted(tmp_path, f"---\ncover-image: {path}\n---\n\nText.\n", ("a.html", "a.epub"), PLATES, ends=publishing.FAULTY)
    assert said.startswith(f"pictures can't be shown: `{path}` is not among the files that the step reads")


def test_a_link_to_a_heading_leads_there_and_one_to_none_is_text(tmp_path: Path) -> None:
    """A PDF would not come about at all."""
    text = "# A\n\n[one](#gates-and-wheels) [two](#not-there) [three](#b%C3%BCcher) [four](#)\n\n# Gates and wheels\n\n# Bücher\n"
    converted(tmp_path, text)
    assert {link.text(): link.attributes["href"] for link in page(tmp_path).css("a") if link.text() in "one two three four"} == {
        "one": "#gates-and-wheels", "three": "#bücher"}
    assert [word for word in PdfReader(tmp_path / "a.pdf").pages[0].extract_text().split() if word in "one two three four"] == [
        "one", "two", "three", "four"]
