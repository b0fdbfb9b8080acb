# ruff: noqa: E501  (prose and markup stand here as people write them)
"""Documents of every kind read into text, and those that can't be: told by name, with the mend."""

from __future__ import annotations

import asyncio
import io
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from printed import Line, column, printed
from tiers import examples

from metaflow_agents.documents import folder, pdf
from metaflow_agents.documents.decoding import Unreadable, decoded
from metaflow_agents.documents.folder import read_folder
from metaflow_agents.documents.markup import read_html
from metaflow_agents.schema.source import Source


def one(path: str, data: bytes) -> Source:
    (source,), unread = asyncio.run(read_folder({path: data}))
    assert unread == []
    return source


def why(path: str, data: bytes) -> str:
    sources, (unread,) = asyncio.run(read_folder({path: data}))
    assert sources == [] and unread.path == path
    return unread.why


# --- encodings

@pytest.mark.parametrize(("data", "text"), [
    ("naïve café".encode(), "naïve café"),
    (b"\xef\xbb\xbf" + "naïve".encode(), "naïve"),
    ("naïve – €".encode("utf-16"), "naïve – €"),
    (b"\xfe\xff" + "naïve".encode("utf-16-be"), "naïve"),
    ("naïve – plain".encode("utf-16-le"), "naïve – plain"),
    ("naïve – plain".encode("utf-16-be"), "naïve – plain"),
    ("naïve".encode("utf-32"), "naïve"),
    (b"one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
])
def test_encodings_that_a_text_tells_itself(data: bytes, text: str) -> None:
    assert decoded(data) == text


@pytest.mark.parametrize("data", ["naïve café".encode("latin-1"), "日本語の文章です。".encode("shift_jis")])
def test_an_encoding_that_nothing_tells_is_not_guessed(data: bytes) -> None:
    assert "is not UTF-8" in why("a.txt", data) and "save it as UTF-8" in why("a.md", data)


@pytest.mark.parametrize(("head", "encoding", "text"), [
    ('<meta charset="iso-8859-1">', "cp1252", "naïve “café” 5 €"),
    ("<META HTTP-EQUIV=Content-Type CONTENT='text/html; charset=windows-1251'>", "cp1251", "Паром идёт ночью"),
    ('<?xml version="1.0" encoding="Shift_JIS"?>', "shift_jis", "夜の渡し船"),
    ("", "utf-8", "naïve"),
    ("", "cp1252", "naïve “café”"),                     # the HTML standard's own default where nothing is declared
    ('<meta charset="utf-16">', "utf-8", "naïve"),      # as the standard says: it was found as single bytes
])
def test_encodings_that_a_page_declares(head: str, encoding: str, text: str) -> None:
    assert read_html(f"<html><head>{head}</head><body><p>{text}</p>".encode(encoding))[1] == text


def test_a_declared_encoding_that_is_unknown_or_wrong_is_told() -> None:
    assert "`klingon`, which is unknown" in why("a.html", b'<meta charset="klingon"><p>x\xff')
    assert "`hex`" in why("a.html", b'<meta charset="hex"><p>x\xff')
    assert "is not UTF-8" in why("a.html", b'<meta charset="utf-8"><p>x\xff')


# --- HTML

@pytest.mark.parametrize(("html", "text"), [
    ("<h1>A</h1><p>one<p>two <b>bold</b>, <i>it</i>", "# A\n\none\n\ntwo bold, it"),
    ("<ul><li>one<li>two</ul>after", "- one\n- two\n\nafter"),
    ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n\n1 | 2"),
    ("a<br>b", "a\nb"),
    ("<pre>x\n  y</pre>z", "x\n  y\n\nz"),
    ("in<b>line</b>d wor<wbr>d", "inlined word"),
    ("<p hidden>no<p>yes", "yes"),                                  # an unclosed hidden paragraph ends where the standard says
    ("<div style='color:red; DISPLAY : none'>no</div><p style='visibility:hidden'>no</p>yes", "yes"),
    ("<body><script>no</script><style>no</style><template>no</template><noscript>no</noscript><nav>no</nav><!-- no -->yes", "yes"),
    ("<p>it <q>is so</q>", "it “is so”"),
    ("growth.<sup><a href='#n'>1</a></sup> km<sup>2</sup> <a href='#n'><sup>2</sup></a>x<a role='doc-noteref'>3</a>", "growth. km2 x"),
    ("<p>a&nbsp;b &amp; c &lt;d&gt; &hellip;", "a\u00a0b & c <d> …"),
    ("<div><div><section>deep</section></div></div>", "deep"),
    ("<p>one<p hidden><pre>a\n b</pre><p>two   three", "one\n\na\n b\n\ntwo three"),
])
def test_pages_as_their_readers_see_them(html: str, text: str) -> None:
    assert read_html(html.encode())[1] == text


def test_titles() -> None:
    assert one("a.html", b"<title> The  title </title><h1>x</h1>").title == "The title"
    assert one("a.html", b"<h1>The <i>heading</i></h1>").title == "The heading"
    assert one("annual_report-2023.html", b"<p>x").title == "Annual report 2023"
    assert one("a.md", b"text\n\n## The heading ##\n").title == "The heading"
    assert one("two words.txt", b"x").title == "Two words"


@pytest.mark.parametrize(("path", "text", "head"), [
    ("a.md", "---\ntitle: The mill\nauthor: [A. Bee, C. Dee]\ndate: 1911-05-02\n---\n# Other\n", ("The mill", "A. Bee, C. Dee", "1911-05-02")),
    ("a.txt", "---\ntitle: 'The mill'\n...\nText.\n", ("The mill", "", "")),
    ("a.txt", "The mill\n========\n\nText.\n", ("The mill", "", "")),
    ("a.txt", "=========\nThe mill\n=========\n\nText.\n", ("The mill", "", "")),
    ("a.md", "Text.\n\nThe mill\n---\n\n# After\n", ("The mill", "", "")),
    ("a.md", "| a | b |\n---\nText\n\n# The mill\n", ("The mill", "", "")),
    ("the_mill.txt", "# no heading in a plain text\n", ("The mill", "", "")),
    ("the_mill.md", "---\n- a list\n---\nText.\n", ("The mill", "", "")),
    ("the_mill.md", "---\ntitle: {a: b}\nauthor: [1, [2]]\n---\nText.\n", ("The mill", "1", "")),
    ("the_mill.md", "---\n" + "[" * 5_000 + "\n---\nText.\n", ("The mill", "", "")),
    ("a.html", "<meta name=author content=' A. \n Bee '><meta property='article:published_time' content='1911-05-02T10:00'>"
     "<title>The mill</title><p>x", ("The mill", "A. Bee", "1911-05-02T10:00")),
])
def test_what_a_document_tells_of_itself(path: str, text: str, head: tuple[str, str, str]) -> None:
    found = one(path, text.encode())
    assert (found.title, found.author, found.date) == head


@pytest.mark.slow
def test_a_page_that_is_nested_as_deep_as_one_likes() -> None:
    assert read_html(b"<div>" * 50_000 + b"deep")[1] == "deep"


# --- PDF

def pages(*texts: str, title: str = "") -> bytes:
    return printed([column(text, 60, 760) for text in texts], title)


def test_pages_ligatures_and_titles() -> None:
    source = one("a.pdf", pages("The ﬁrst page.", "The second — “quoted”.", title="A title"))
    assert [(page.number, page.text) for page in source.pages] == [(1, "The ﬁrst page."), (2, "The second — “quoted”.")]
    assert (source.title, source.kind, source.words) == ("A title", "pdf", 6)
    assert one("no_title.pdf", pages("x y")).title == "No title"
    assert one("a.pdf", pages("x y", title="Microsoft Word - draft.docx")).title == "A"


def test_columns_come_one_after_the_other() -> None:
    data = printed([[*column("left one left two left three", 60, 700, 10), *column("right one right two", 310, 700, 10)]])
    assert one("a.pdf", data).pages[0].text.split() == "left one left two left three right one right two".split()


def test_running_heads_and_page_numbers_go_so_that_a_sentence_goes_on_over_the_page() -> None:
    texts = ["It begins here and", "goes on here and", "there, until it", "ends."]
    made = [[Line(60, 800, "The running head", 8), Line(60, 700, text), Line(290, 40, f"– {number} –", 8)] for number, text in enumerate(texts, 7)]
    assert [page.text for page in one("a.pdf", printed(made)).pages] == texts
    assert "The running head" in one("a.pdf", printed(made[:2])).pages[0].text, "two pages do not show what is a head"


def encrypted(user: str, algorithm: str = "RC4-128") -> bytes:
    from pypdf import PdfReader, PdfWriter
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pages("Secret words."))))
    writer.encrypt(user, "owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_pdf_files_that_can_not_be_read_are_told_with_the_mend() -> None:
    good = pages("Some words.")
    assert "holds no text on its 2 pages, as a scan does; run text recognition" in why("a.pdf", printed([[], []]))
    assert "is encrypted; save a copy without protection" in why("a.pdf", encrypted("secret"))
    assert one("a.pdf", encrypted("")).pages[0].text == "Secret words.", "protected against printing only: anybody may read it"
    for data in (b"", b"%PDF-1.4", b"%PDF-1.4\ngarbage", good[:300], b"\0" * 500, good.replace(b"/Pages", b"/Sages")):
        assert "is broken" in why("a.pdf", data), data[:20]
    assert "is broken" in why("named_otherwise.txt", b"%PDF-1.7\n...")


def test_pages_without_text_are_noted() -> None:
    source = one("a.pdf", printed([[], column("Words.", 60, 700), []]))
    assert source.notes == ("no text on pages 1, 3",)
    assert [page.number for page in source.pages] == [1, 2, 3]


def test_fonts_whose_letters_can_not_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "_text", lambda reader, number: "\ue043\ue061\ufffd" * 20 + "abc")
    with pytest.raises(Unreadable, match="has fonts whose letters can't be told"):
        pdf.read_pdf(pages("x"))


def test_a_pdf_with_too_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_PAGES", 2)
    with pytest.raises(Unreadable, match="has 3 pages, more than 2; split it"):
        pdf.read_pdf(pages("a", "b", "c"))


@pytest.mark.one_in(4)
@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_no_damage_to_a_pdf_raises(roll: int) -> None:
    dice = random.Random(roll)
    data = bytearray(pages("Some words on a page.", "And some on another."))
    for _ in range(dice.randint(1, 30)):
        place = dice.randrange(len(data))
        data[place:place + dice.randint(0, 6)] = bytes(dice.randrange(256) for _ in range(dice.randint(0, 6)))
    sources, unread = asyncio.run(read_folder({"a.pdf": bytes(data)}))
    assert len(sources) + len(unread) == 1


# --- folders

def test_sources_are_numbered_in_the_order_of_their_paths() -> None:
    sources, unread = asyncio.run(read_folder({"b/z.txt": b"z", "a.md": b"# A", "b/a.html": b"<p>x", "B.txt": b"b"}))
    assert [(source.id, source.path) for source in sources] == [("S1", "B.txt"), ("S2", "a.md"), ("S3", "b/a.html"), ("S4", "b/z.txt")]
    assert unread == []


def test_clutter_is_no_document_and_other_kinds_are_told() -> None:
    files = {".DS_Store": b"\0", ".git/config": b"x", "a/.hidden.txt": b"x", "Thumbs.db": b"\0", "~$letter.docx": b"\0", "__MACOSX/a.txt": b"x",
             "letter.docx": b"PK\x03\x04\x14\0\0\0", "photo.jpg": b"\xff\xd8\xff\xe0\0\x10JFIF", "empty.txt": b" \n", "data.csv": b"a,b\n1,2\n"}
    sources, unread = asyncio.run(read_folder(files))
    assert [source.path for source in sources] == ["data.csv"]
    assert {one.path: one.why.partition(";")[0] for one in unread} == {
        "letter.docx": "is no text, Markdown, HTML or PDF", "photo.jpg": "is no text, Markdown, HTML or PDF", "empty.txt": "is empty"}


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MAX_DOCUMENTS", 2)
    monkeypatch.setattr(folder, "MAX_CHARACTERS", 100)
    sources, unread = asyncio.run(read_folder({"a.txt": b"a " * 40, "b.txt": b"b " * 40, "c.txt": b"c " * 5, "d.txt": b"d"}))
    assert [source.path for source in sources] == ["a.txt", "c.txt"]
    assert [one.why for one in unread] == ["goes beyond 100 characters of text in all; split the folder",
                                           "is one more than 2 documents; split the folder"]


@pytest.mark.one_in(8)
def test_what_a_planner_sees_of_many_documents_is_bounded() -> None:
    text = b"# Title\n\n" + b"\n\n".join(b"## Part %d\n\nSome words of the part." % part for part in range(400))
    few, _ = asyncio.run(read_folder({"a.md": text}))
    many, _ = asyncio.run(read_folder({f"{number}.md": text for number in range(900)}))
    assert few[0].about.startswith("Parts: Part 0; Part 1; ") and "Begins: Some words" in few[0].about and len(few[0].about) < 4100
    assert sum(len(source.about) for source in many) < 100_000


def test_a_planner_sees_all_of_a_short_document() -> None:
    (short,), _ = asyncio.run(read_folder({"a.md": b"# Title\n\n## Why\n\nSome words.\n"}))
    assert short.about == "All of it:\n\n# Title\n\n## Why\n\nSome words."
    (long,), _ = asyncio.run(read_folder({"a.txt": b"Some words. " * 4000}))
    assert long.about.startswith("Begins: Some words.") and long.about.endswith(" \u2026")


def test_unreadable_is_no_error_of_the_program() -> None:
    with pytest.raises(Unreadable):
        decoded(b"\0\1\2\3" * 30)
    assert decoded(b"") == ""


def kinds() -> list[Any]:
    return [b"\x89PNG\r\n\x1a\n\0\0", b"PK\x03\x04", bytes(range(256)), b"\x1f\x8b\x08\0\0\0", b"a\x00b"]


@pytest.mark.parametrize("data", kinds())
@pytest.mark.parametrize("path", ["a", "a.txt", "a.md", "a.html"])
def test_what_is_no_text_is_refused_whatever_its_name(path: str, data: bytes) -> None:
    _, unread = asyncio.run(read_folder({path: data}))
    assert len(unread) == 1 or path == "a.html" or data == b"PK\x03\x04"
