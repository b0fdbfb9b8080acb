"""`sop show RUN --html`: one file that opens without a server, holds no secret, and lets no text of a run act."""

from __future__ import annotations

import base64
import json
import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from cli_desk import sop
from scripted import write
from ui_desk import texts

from metaflow_agents.errors import RunError
from metaflow_agents.views.page_file.bundle import bundled

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
      lay: {value: "topic", needs: [topic, draft], makes: page}
      note: {value: "{'topic': [topic, draft]}", needs: [topic, draft], makes: data}
      stretch: {role: writer, needs: [draft], makes: long}
"""
MODEL = """
def answer(request):
    return 'x ' * 250_000 if request.step == 'stretch' else '# Draft\\n\\n' + request.messages[-1]['content']
"""


class Parts(HTMLParser):
    """The scripts and the policy of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.policy = ""
        self._in = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag == "script":
            self.scripts.append((given, ""))
        self._in = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in = False

    def handle_data(self, data: str) -> None:
        if self._in:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("file")
    write(folder, DESK, minds_py=MODEL)
    ran = sop(folder, "run", "desk.yaml", "--topic", f"{HOSTILE} {CANARY}", "--model", "python:minds.py:answer", "--name", "it",
              env={"ACME_KEY": CANARY})
    assert "begins" in ran.stdout, ran.stderr
    shown = sop(folder, "show", "it", "--html", "it.html", env={"ACME_KEY": CANARY})
    assert shown.returncode == 0 and "wrote it.html" in shown.stdout, shown.stderr
    return folder / "it.html"


def read(file: Path) -> tuple[Parts, dict[str, Any]]:
    parts = Parts()
    parts.feed(file.read_text())
    return parts, json.loads(parts.scripts[0][1])


@pytest.mark.one_in(8, always=False)
def test_it_holds_one_script_that_its_policy_names_and_data_that_no_text_leaves(file: Path) -> None:
    parts, data = read(file)
    assert [given for given, _ in parts.scripts] == [{"type": "application/json", "id": "sop-data"}, {}]
    named = base64.b64encode(sha256(parts.scripts[1][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{named}';" in parts.policy and parts.policy.startswith("default-src 'none';")
    assert "unsafe" not in parts.policy and "connect-src" not in parts.policy
    raw = parts.scripts[0][1]
    assert not re.search(r"[<>&\x1b\u202e]", raw)
    assert any("<script>" in text for text in texts(data)), "it is there, as text"


@pytest.mark.one_in(8, always=False)
def test_it_holds_no_secret_and_no_place_of_this_machine(file: Path) -> None:
    written = file.read_text()
    assert CANARY not in written and base64.b64encode(CANARY.encode()).decode().rstrip("=") not in written
    assert "[secret ACME_KEY]" in written and len(written) < 2_000_000
    assert str(file.parent) not in written, "where it was made is nobody's business"


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


@pytest.mark.one_in(4)
def test_a_graph_is_one_file_without_a_script(tmp_path: Path) -> None:
    write(tmp_path, DESK.replace("sop: desk", "sop: desk\n    description: '</pre><script>window.hit=1</script>'"))
    assert sop(tmp_path, "graph", "desk.yaml", "--html", "g.html").returncode == 0
    written = (tmp_path / "g.html").read_text()
    assert "<script" not in written and "&lt;script&gt;" in written and "data:image/svg+xml;base64," in written
    assert sop(tmp_path, "graph", "desk.yaml", "--html", "g.html", "--svg").returncode == 2
