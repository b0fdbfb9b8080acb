"""`sop show RUN --html`: one file that opens without a server, holds no secret, and lets no text of a run act."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from cli_desk import sop
from scripted import write
from ui_desk import texts

from metaflow_agents.errors import RunError
from metaflow_agents.terminal import printing
from metaflow_agents.views.page_file.bundle import bundled
from metaflow_agents.views.page_file.document import document

CANARY = "c4nary-of-acme-9174"
HOSTILE = ("</script><script>window.hit=1</script><!-- <img src=x onerror='window.hit=1'> \x1b[31m \u202e "
           "[a](javascript:window.hit=1)")
DESK = """
    sop: desk
    secrets: [ACME_KEY]
    inputs: {topic: string}
    roles: {writer: {profile: You write.}}
    artifacts: {draft: {file: draft.md}, page: {file: page.html}, data: {schema: {topic: [string]}}, long: {}}
    steps:
      write: {role: writer, needs: [topic], makes: draft, rounds: 2}
      lay: {value: "topic", needs: [topic, draft], makes: page, when: "topic != '<script>'"}
      note: {value: "{'topic': [topic, draft]}", needs: [topic, draft], makes: data}
      stretch: {role: writer, needs: [draft], makes: long, retries: 1}
"""
MODEL = """
from pathlib import Path

tried = []


def answer(request):
    if request.step == 'stretch' and not tried:
        tried.append(request)
        raise ValueError(f'{Path(__file__).resolve()} and {Path.home()}/.keys are broken')
    return 'x ' * 12_000 if request.step == 'stretch' else '# Draft\\n\\n' + request.messages[-1]['content']
"""


class Parts(HTMLParser):
    """The scripts, the title and the policy of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.policy = self.title = self.styles = ""
        self.tags: list[str] = []
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag == "script":
            self.scripts.append((given, ""))
        self.tags.append(tag)
        self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        self.title += data if self._in == "title" else ""
        self.styles += data if self._in == "style" else ""
        if self._in == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("file")
    write(folder, DESK, minds_py=MODEL)
    ran = sop(folder, "run", "desk.yaml", "--topic", f"{HOSTILE} {CANARY}", "--model", "python:minds.py:answer", "--name", "it",
              env={"ACME_KEY": CANARY})
    assert "success" in ran.stdout, ran.stderr
    shown = sop(folder, "show", "it", "--html", "it.html", env={"ACME_KEY": CANARY})
    assert shown.returncode == 0 and "wrote it.html" in shown.stdout, shown.stderr
    return folder / "it.html"


def named(part: str) -> str:
    """How a policy names a script or styles."""
    return f"'sha256-{base64.b64encode(sha256(part.encode()).digest()).decode()}'"


def walked(value: Any) -> Iterator[Any]:
    """A JSON value and all in it."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walked(inner)


def read(file: Path) -> tuple[Parts, dict[str, Any]]:
    parts = Parts()
    parts.feed(file.read_text())
    return parts, json.loads(parts.scripts[0][1])


@pytest.mark.one_in(8, always=False)
def test_it_holds_one_script_that_its_policy_names_and_data_that_no_text_leaves(file: Path) -> None:
    parts, data = read(file)
    assert [given for given, _ in parts.scripts] == [{"type": "application/json", "id": "sop-data"}, {}]
    assert parts.policy.split("; ") == [
        "default-src 'none'", f"script-src {named(parts.scripts[1][1])}", f"style-src {named(parts.styles)}",
        "img-src data: blob:", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"]
    asks = r"\bfetch\(|\b(?:EventSource|WebSocket|XMLHttpRequest)\b|sendBeacon|\bimport\("
    assert re.findall(asks, parts.scripts[1][1]) == [], "nobody is asked, and there is nobody to ask"
    raw = parts.scripts[0][1]
    assert not re.search(r"[<>&\x1b\u202e]", raw)
    assert any("<script>" in text for text in texts(data)), "it is there, as text"


@pytest.mark.one_in(8, always=False)
def test_a_page_is_its_source_and_what_is_cut_leads_nowhere(file: Path) -> None:
    _, data = read(file)
    assert data["shown"]["page@1"]["kind"] == "code", "the file's policy lets no frame in"
    cut = [one for one in walked(data) if isinstance(one, dict) and one.get("cut")]
    assert cut and not any("digest" in one for one in cut)


def test_names_and_data_are_no_markup_and_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the projections let something through: what is written is made harmless once more."""
    monkeypatch.setitem(printing._redactors, "test", lambda text: text.replace(CANARY, "[secret]"))
    parts = Parts()
    told = {f"{CANARY} {HOSTILE}": [f"{HOSTILE} here {CANARY}"]}
    parts.feed(document(f"</title>{HOSTILE}", told, lambda text: text.replace("here", "~")))
    assert parts.tags == ["html", "head", *["meta"] * 5, "title", "link", "style", "body", "div", "noscript", "script", "script"]
    data = json.loads(parts.scripts[0][1])
    assert CANARY not in str(data) and data == {f"[secret] {HOSTILE}": [f"{HOSTILE} ~ [secret]"]}


def test_a_part_of_ours_that_would_end_early_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for script, styles in (("'</SCRIPT>'", ""), ("'<!--'", ""), ("", "/* </style> */")):
        monkeypatch.setattr("metaflow_agents.views.page_file.document._text",
                            lambda path, script=script, styles=styles: script if path == "app.js" else styles)
        with pytest.raises(RuntimeError, match="would end there"):
            document("it", {}, str)


@pytest.mark.one_in(12, always=False)
def test_a_run_of_many_files_is_one_small_file(tmp_path: Path) -> None:
    write(tmp_path, "sop: desk\nroles: {}\ninputs: {given: {type: any}}\nartifacts: {tree: {files: 'tree/**'}}\n"
                    "steps: {lay: {needs: [given], makes: tree, value: given}}\n")
    given = {f"tree/{number}.txt": f"{number} ".ljust(7, "x") * 2_700 for number in range(120)}
    (tmp_path / "given.json").write_text(json.dumps(given))
    assert "success" in sop(tmp_path, "run", "desk.yaml", "--input", "given=@given.json", "--name", "it").stdout
    assert sop(tmp_path, "show", "it", "--html", "it.html").returncode == 0
    written = tmp_path / "it.html"
    assert 500_000 < written.stat().st_size < 2_000_000
    held = [name for name in read(written)[1]["shown"] if name.startswith("tree@1/")]
    assert 20 < len(held) < 120


@pytest.mark.one_in(8, always=False)
def test_it_holds_no_secret_and_no_place_of_this_machine(file: Path) -> None:
    written = file.read_text()
    assert CANARY not in written and base64.b64encode(CANARY.encode()).decode().rstrip("=") not in written
    assert "[secret ACME_KEY]" in written and len(written) < 2_000_000
    assert str(file.parent) not in written and str(Path.home()) not in written, "where it was made is nobody's business"
    assert any("minds.py and ~/.keys are broken" in text for text in texts(read(file)[1]))


@pytest.mark.one_in(8, always=False)
def test_what_it_is_not_is_refused(tmp_path: Path) -> None:
    for words in (["--html", "x", "--json"], ["draft", "--html", "x"], ["--html", "x", "--costs"]):
        refused = sop(tmp_path, "show", "it", *words)
        assert refused.returncode == 2 and "--html" in refused.stderr
    assert "no run `it`" in sop(tmp_path, "show", "it", "--html", "x").stderr


def test_a_form_that_is_not_bundled_is_refused() -> None:
    for text in ('export * from "./b.js";', 'import * as b from "./b.js";', 'import "./b.js";', 'import a from "../../x.js";'):
        with pytest.raises(RunError):
            bundled("a.js", {"a.js": text, "b.js": ""}.__getitem__)
    with pytest.raises(RunError, match="import each other"):
        bundled("a.js", {"a.js": 'import b from "./b.js";', "b.js": 'import a from "./a.js";'}.__getitem__)


@pytest.mark.one_in(8, always=False)
def test_a_graph_is_one_file_without_a_script(tmp_path: Path) -> None:
    write(tmp_path, DESK.replace("sop: desk", "sop: desk\n    description: '</pre><script>window.hit=1</script>'"))
    assert sop(tmp_path, "graph", "desk.yaml", "--html", "g.html").returncode == 0
    written = (tmp_path / "g.html").read_text()
    parts = Parts()
    parts.feed(written)
    assert parts.policy == f"default-src 'none'; img-src data:; style-src {named(parts.styles)}"
    assert set(parts.tags) == {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "img", "pre"}
    assert "&lt;script&gt;" in written and "data:image/svg+xml;base64," in written
    assert sop(tmp_path, "graph", "desk.yaml", "--html", "g.html", "--svg").returncode == 2
