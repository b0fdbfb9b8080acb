"""`file: [report.md, report.pdf, …]`: documents of a text, opened by other programs; what a hostile text can't put into them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import zipfile
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import docx
import pytest
from bytes_files import png
from dulwich.repo import Repo
from pypdf import PdfReader
from scripted import Scripted, write
from selectolax.lexbor import LexborHTMLParser

from metaflow_agents import resume, run
from metaflow_agents.documents import publishing
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.integrity import fault
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.schema.event import Documented, Finished
from metaflow_agents.schema.payload import Data, pack, unpack

NAMES = ("out/report.md", "out/report.html", "out/report.pdf", "out/report.docx", "out/report.epub")
SOP = f"""
    sop: desk
    inputs: {{topic: {{type: string, default: moss}}, plates: {{type: folder, optional: true}}}}
    roles: {{ann: {{profile: You write.}}}}
    artifacts: {{report: {{file: [{', '.join(NAMES)}]}}}}
    steps: {{write: {{role: ann, needs: [topic], sees: [plates], makes: report, task: Write.}}}}
"""
TEXT = """\
---
title: Moss in cities
author: [Ann Bell, Bo Cruz]
date: 2026-11-24
lang: en
---

# What is known

A **report** on moss[^1].

| Species | Share |
| --- | ---: |
| Bryum argenteum | 41 % |

![A plate](plates/moss.png)

# What is not

```python
x = 1
```

[^1]: The footnote.
"""


async def made(folder: Path, text: str = TEXT, **options: Any) -> dict[str, bytes]:
    """What stands in the run's folder."""
    plates = folder / "given" / "plates"
    plates.mkdir(parents=True, exist_ok=True)
    (plates / "moss.png").write_bytes(png(60, 20, 6, 5))
    result = await run(write(folder, SOP), plates=folder / "given", model=Scripted(write=text), workspace=folder / "w",
                       **{"name": "one", "sandbox": "none", **options})
    assert result.ok, result.reason
    return {name: (folder / "w/one" / name).read_bytes() for name in NAMES if (folder / "w/one" / name).exists()}


@pytest.mark.one_in(4)
async def test_each_format_is_opened_by_another_program_and_says_what_the_text_says(tmp_path: Path) -> None:
    files = await made(tmp_path)
    assert set(files) == set(NAMES) and files["out/report.md"].decode() == TEXT
    page = LexborHTMLParser(files["out/report.html"])
    assert page.css_first("title").text() == "Moss in cities" and [one.text() for one in page.css("main h1")] == [
        "What is known", "What is not"]
    assert [cell.text() for cell in page.css("td")] == ["Bryum argenteum", "41 %"]
    assert page.css_first("img").attributes["src"].startswith("data:image/png;base64,")
    assert not page.css("script, link") and "viewport" in files["out/report.html"].decode()

    pdf = PdfReader(io.BytesIO(files["out/report.pdf"]))
    told = "\n".join(one.extract_text() for one in pdf.pages)
    assert pdf.metadata is not None and (pdf.metadata.title, pdf.metadata.author) == ("Moss in cities", "Ann Bell, Bo Cruz")
    assert all(said in told for said in ("What is known", "Bryum argenteum", "The footnote.", "x = 1", "1 / "))
    assert sum(len(one.images) for one in pdf.pages) == 1

    word = docx.Document(io.BytesIO(files["out/report.docx"]))
    assert [one.text for one in word.paragraphs if one.style is not None and one.style.name == "Heading 1"] == [
        "What is known", "What is not"]
    assert [cell.text for cell in word.tables[0].rows[1].cells] == ["Bryum argenteum", "41 %"] and len(word.inline_shapes) == 1

    with zipfile.ZipFile(io.BytesIO(files["out/report.epub"])) as book:
        assert book.testzip() is None
        first = book.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        assert book.read(first) == b"application/epub+zip"
        root = ET.fromstring(book.read("META-INF/container.xml")).find(".//{*}rootfile")
        package = ET.fromstring(book.read(root.attrib["full-path"]))            # type: ignore[union-attr]
        listed = {one.attrib["id"]: one.attrib["href"] for one in package.iter("{http://www.idpf.org/2007/opf}item")}
        chapters = [listed[one.attrib["idref"]] for one in package.iter("{http://www.idpf.org/2007/opf}itemref")]
        base = root.attrib["full-path"].rpartition("/")[0]                      # type: ignore[union-attr]
        assert {f"{base}/{href}" for href in listed.values()} <= set(book.namelist())
        read = "".join("".join(ET.fromstring(book.read(f"{base}/{name}")).itertext()) for name in chapters)
    assert "What is known" in read and "Bryum argenteum" in read and len(chapters) >= 4


@pytest.mark.one_in(4)
async def test_the_same_text_gives_the_same_bytes_and_the_history_holds_them(tmp_path: Path) -> None:
    first, second = await made(tmp_path), await made(tmp_path / "again")
    assert first == second
    with closing(Repo(str(tmp_path / "w/one"))) as repo:
        tree = repo[repo[repo.head()].tree]                                     # type: ignore[attr-defined]
        held = repo[tree[b"out"][1]]                                            # type: ignore[index]
        assert {f"out/{name.decode()}": repo[sha].data for name, _, sha in held.items()} == first       # type: ignore[attr-defined]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "title", "headings"), [
    ("# Only one\n\nText.\n\n## Part\n", "Only one", ["Part"]), ("# One\n\n# Two\n", "report", ["One", "Two"]),
    ("Text alone.\n", "report", []), ("---\n- no mapping\n---\n\n# One\n\nx\n", "report", ["One"]),
    ("---\ntitle: [unclosed\n---\n\nText.\n", "report", []),
    ("---\ntitle: 'A \"quoted\" #let x = [1] $y$ @z <b>'\n---\n\nText.\n", 'A "quoted" #let x = [1] $y$ @z <b>', []),
    ("---\ntitle: T\nlang: '\"; drop'\nauthor: ['\"); panic(\"', '\\u202e']\n---\n\nText.\n", "T", [])])
async def test_the_title_is_what_the_front_matter_or_the_only_heading_says(tmp_path: Path, text: str, title: str,
                                                                            headings: list[str]) -> None:
    files = await made(tmp_path, text)
    page = LexborHTMLParser(files["out/report.html"])
    assert page.css_first("title").text() == title
    assert [one.text() for one in page.css("main h1, main h2")][-len(headings):] == headings or not headings
    told = PdfReader(io.BytesIO(files["out/report.pdf"])).metadata
    assert told is not None and (told.title or "report") == title


SECRET = "the-secret-of-this-machine"
OUTSIDE = ["/secret.png", "../secret.png", "a/../../secret.png", "file:///secret.png", "file:secret.png", "..%2fsecret.png",
           "%2e%2e/secret.png", "\\\\host\\secret.png", "//127.0.0.1:PORT/x.png", "http://127.0.0.1:PORT/x.png", "https://127.0.0.1:PORT/x.png",
           "data:image/svg+xml,<svg/>", "PLACE/secret.png", "job.json", "convert.py"]


@pytest.fixture
def heard() -> Any:
    asked: list[str] = []

    class Hears(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hears)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.one_in(8, always=False)
def test_no_word_of_a_text_reads_a_file_or_asks_a_server(tmp_path: Path, heard: Any) -> None:
    """Unconfined, where nothing but the converter itself holds."""
    port, asked = heard
    (tmp_path / "secret.png").write_text(SECRET)
    shown = "\n\n".join(f"![picture {number}](<{one}>)" for number, one in enumerate(OUTSIDE))
    hostile = f"""
{shown}

<img src="file://PLACE/secret.png"> <iframe src="http://127.0.0.1:PORT/frame"></iframe>
<script src="http://127.0.0.1:PORT/s.js"></script> <link rel="stylesheet" href="http://127.0.0.1:PORT/s.css">

```{{=typst}}
#read("/secret.png") #image("../secret.png")
```

```{{=html}}
<script>fetch("http://127.0.0.1:PORT/x")</script>
```

\\input{{PLACE/secret.png}} #include "PLACE/secret.png" #read("PLACE/secret.png")

`#read("/etc/hostname")`{{=typst}}

$#read("/etc/hostname")$
"""
    front = "---\ntitle: T\ncss: PLACE/secret.png\nheader-includes: '<script>1</script>'\nbibliography: PLACE/secret.png\n---\n"
    text = (front + hostile).replace("PLACE", str(tmp_path)).replace("PORT", str(port))
    folder = tmp_path / "a/b"
    for path, data in publishing.files(text, "report", NAMES[1:], {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    done = subprocess.run(publishing.command(), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == publishing.FAULTY and "`/secret.png`" in done.stderr and "4 more" in done.stderr, done.stderr
    files = {name: (folder / name).read_bytes() for name in NAMES[1:]}
    assert asked == []
    for name, data in files.items():
        opened = data
        if name.endswith(("docx", "epub")):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                opened = b"".join(archive.read(one) for one in archive.namelist())
        assert SECRET.encode() not in opened, name
    page = LexborHTMLParser(files["out/report.html"])
    assert not page.css("script, iframe, link, img, object, embed")


ODD = {"quotes": "> " * 5_000 + "x", "brackets": "[" * 20_000, "heading": "# " + "a " * 20_000,
       "lists": "\n".join("* " * 200 for _ in range(50)), "table": "| a |\n| - |\n" + "| b |\n" * 3_000,
       "characters": "\x01\x02 \u202e \ufffe \U0001f331", "math": "$" + "{" * 3_000 + "$", "empty": "",
       "aliases": "---\na: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ntitle: *c\n---\n",
       "picture": "![broken](broken.png)"}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
async def test_an_odd_text_is_made_or_refused_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "plates").mkdir()
    (tmp_path / "plates/broken.png").write_bytes(png(60, 20, 6, 5)[:200])
    (tmp_path / "given").mkdir()
    sop = write(tmp_path, f"""
        sop: desk
        inputs: {{text: string, plates: folder}}
        artifacts: {{report: {{file: [{', '.join(NAMES)}]}}}}
        steps: {{copy: {{value: text, needs: [text], sees: [plates], makes: report}}}}
    """)
    result = await run(sop, text=text, plates=tmp_path / "plates", workspace=tmp_path / "w", name="one", sandbox="none")
    assert result.ok or "can't be made of `report`: exit code 1\nout/report." in result.reason, result.reason[:500]
    assert "Traceback" not in result.reason


async def test_a_text_that_takes_too_long_is_a_failed_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "SECONDS", 0.01)
    sop = write(tmp_path, "sop: desk\nartifacts: {it: {file: [a.md, a.pdf]}}\nsteps: {x: {value: \"'x' * 900000\", makes: it}}\n")
    result = await run(sop, workspace=tmp_path / "w", name="one", sandbox="none")
    assert result.reason == "x@1~0: a.pdf can't be made of `it`: it takes longer than 0.01 s"


async def test_a_dry_run_makes_no_documents(tmp_path: Path) -> None:
    result = await run(write(tmp_path, SOP), model="dry", workspace=tmp_path / "w", name="one")
    assert result.ok and sorted(path.name for path in (tmp_path / "w/one/out").iterdir()) == ["report.md"]


@pytest.mark.one_in(4)
async def test_a_text_from_another_step_has_its_documents_without_a_model(tmp_path: Path) -> None:
    """So a format can be added later, and nothing is asked again."""
    sop = """
        sop: desk
        roles: {ann: {profile: You write.}}
        artifacts: {draft: {}, paper: {file: FILES}}
        steps: {write: {role: ann, makes: draft, task: Write.}, print: {value: draft, needs: [draft], makes: paper}}
    """
    asked = []
    for name, files in (("one", "[a.md, a.html]"), ("two", "[a.md, a.html]"), ("three", "[a.md, a.html, a.docx]")):
        model = Scripted(write="# T\n")
        before = {} if name == "one" else {"from_run": "one"}
        result = await run(write(tmp_path, sop.replace("FILES", files)), model=model, workspace=tmp_path / "w", name=name,
                           sandbox="none", **before)
        assert result.ok, result.reason
        asked.append(len(model.keys))
    assert asked == [1, 0, 0]
    assert {path.name for path in (tmp_path / "w/three").glob("a.*")} == {"a.md", "a.html", "a.docx"}
    assert (tmp_path / "w/two/a.html").read_bytes() == (tmp_path / "w/three/a.html").read_bytes()


async def test_what_is_not_installed_is_said_before_a_model_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_WANTED", {"pypandoc_binary": (99, 0), "no-such-package": (1, 0)})
    model = Scripted()
    with pytest.raises(UsageError, match=r"writes out/report.html, .* no-such-package is not installed: `pip install 'metaflow"):
        await run(write(tmp_path, SOP), model=model, workspace=None, sandbox="none")
    assert model.keys == []


async def test_what_is_no_text_has_no_documents(tmp_path: Path) -> None:
    (tmp_path / "fns.py").write_text("def paint():\n    return b'\\x89PNG\\x00'\n")
    sop = write(tmp_path, "sop: desk\nartifacts: {it: {file: [a.md, a.html]}}\nsteps: {paint: {call: 'fns:paint', makes: it}}\n")
    result = await run(sop, workspace=tmp_path / "w", name="one", sandbox="none")
    assert not result.ok and "`it` is no text: a.html can't be made of it" in result.reason


def test_a_payload_without_documents_is_what_it_was() -> None:
    assert pack(Data(value="x")) == b'{"kind":"data","value":"x"}'
    assert unpack(pack(Data(value="x", documents={"a.pdf": "ab"}))) == Data(value="x", documents={"a.pdf": "ab"})


def test_the_converter_imports_nothing_of_this_package_and_nothing_imports_it() -> None:
    listing = "import sys, json, metaflow_agents.documents.publishing; print(json.dumps(sorted(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    loaded = json.loads(told.stdout)
    assert "metaflow_agents.documents.publishing.convert" not in loaded and not {"pypandoc", "typst"} & set(loaded)
    script = Path(publishing.__file__).with_name("convert.py").read_text(encoding="utf-8")
    assert "metaflow_agents" not in script


EDITED = """
    sop: desk
    inputs: {{topic: {{type: string, default: tea}}}}
    roles: {{ann: {{profile: You write.}}}}
    artifacts: {{report: {{schema: {{text: string}}, file: {files}, render: report.md.j2}}, note: {{}}, size: {{}}, said: {{}}}}
    steps:
      write: {{role: ann, needs: [topic], makes: report, task: Write.}}
      sum_up: {{role: ann, needs: [report], show: {{report: whole}}, makes: note, task: Sum up.}}
      weigh: {{run: "wc -c report.html", needs: [report], makes: size}}
      say: {{human: text, task: Fine?, needs: [note, size], makes: said}}
"""


def edited(folder: Path, heading: str, files: str = "[report.md, report.html]") -> Path:
    (folder / "report.md.j2").write_text(f"# {heading} {{{{ report.text }}}} of {{{{ run.name }}}}\n")
    return write(folder, EDITED.format(files=files))


@pytest.mark.one_in(4)
async def test_an_edited_template_makes_documents_anew_and_asks_nobody(tmp_path: Path) -> None:
    """Under `--from`; a command that reads them runs again, and a role that reads the artifact does not."""
    asked = {}
    for name, heading, files in (("one", "OLD", "[report.md, report.html]"), ("two", "NEW", "[report.md, report.html]"),
                                 ("three", "NEW", "[report.md, report.docx]"), ("four", "NEW", "[report.md]"),
                                 ("five", "OLD", "[report.md, report.html]")):
        model = Scripted(write='{"text": "tea"}', sum_up="Short.")
        earlier = {"from_run": "one"} if name != "one" else {}
        result = await run(edited(tmp_path, heading, files), model=model, workspace=tmp_path / "w", name=name, sandbox="none",
                           **earlier)
        assert result.outcome == "waiting", result.reason
        asked[name] = model.keys
        assert (tmp_path / "w" / name / "report.md").read_text() == f"# {heading} tea of {name}\n"
        with Journal.read(journal_path(tmp_path / "w", name)) as journal:
            anew = [event.activation for _, event in journal.events(Finished) if event.reused_from is None]
        assert name == "one" or anew == ["weigh@1~0"]
    assert [len(keys) for keys in asked.values()] == [2, 0, 0, 0, 0]
    page = (tmp_path / "w/two/report.html").read_text()
    assert "NEW tea of two" in page and "OLD" not in page
    assert {path.name for path in (tmp_path / "w/three").glob("report.*")} == {"report.md", "report.docx"}
    assert {path.name for path in (tmp_path / "w/four").glob("report.*")} == {"report.md"}


@pytest.mark.one_in(4)
async def test_a_resume_makes_the_documents_of_what_is_done_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(write='{"text": "tea"}', sum_up="Short.")
    first = await run(edited(tmp_path, "OLD"), model=model, workspace=tmp_path / "w", name="one", sandbox="none")
    assert first.outcome == "waiting" and "OLD tea" in (tmp_path / "w/one/report.html").read_text()
    edited(tmp_path, "NEW")
    for documented in (1, 1):                                                   # the second time nothing is another
        again = await resume("one", model=model, workspace=tmp_path / "w", sandbox="none", accept_changes=True)
        assert again.outcome == "waiting" and len(model.keys) == 2, again.reason
        assert (tmp_path / "w/one/report.md").read_text() == "# NEW tea of one\n"
        page = (tmp_path / "w/one/report.html").read_text()
        assert "NEW tea of one" in page and "OLD" not in page
        with Journal.read(journal_path(tmp_path / "w", "one")) as journal:
            assert len(list(journal.events(Documented))) == documented
        monkeypatch.setattr(publishing, "command", lambda: ("false",))
    assert fault(journal_path(tmp_path / "w", "one")) is None
    with closing(Repo(str(tmp_path / "w/one"))) as repo:
        commit = repo[repo.head()]
        tree = repo[commit.tree]                                                # type: ignore[attr-defined]
        assert repo[tree[b"report.html"][1]].data.decode() == page              # type: ignore[attr-defined, index]
        assert commit.message.startswith(b"documents of report@1, made anew")   # type: ignore[attr-defined]
