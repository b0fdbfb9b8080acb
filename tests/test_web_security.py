"""Requests of strangers' pages, programs and files, by the table tests/security/web.yaml: each is made of a real server, and what
came of it is counted. Beside it stands, for each, the request that works.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_desk import sop
from patience import PATIENCE, until
from test_web_runs import ASKING, GATE, GATED
from web_desk import Client, held, serving

from metaflow_agents.journal.run_summary import RawJournal

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "security" / "web.yaml").read_text(encoding="utf-8"))
REQUESTS = [row for row in ROWS if "base" in row]
PRIVATE, SECRET = "wombat-4711", "platypus-0815"
READ = f"/api/run/artifact?run={PRIVATE}&name=out&version=1"
SOPS = {
    "marking": "sop: marking\nroles: {}\ninputs: {word: string}\nartifacts: {out: {}}\n"
               "steps: {mark: {value: word, needs: [word], makes: out}}\n",
    "reading": "sop: reading\nroles: {}\ninputs: {paper: {type: file}}\nartifacts: {out: {}}\n"
               "steps: {mark: {value: paper, needs: [paper], makes: out}}\n",
    "walking": "sop: walking\nroles: {}\ninputs: {tree: {type: folder}}\nartifacts: {out: {}}\n"
               "steps: {mark: {value: \"tree | join(' ')\", needs: [tree], makes: out}}\n",
    "asking": ASKING, "gated": GATED}
BASES: dict[str, tuple[str, str, Any]] = {
    "list": ("GET", READ, None),
    "frame": ("GET", f"/frame?run={PRIVATE}&name=out", None),
    "page": ("GET", "/app.js", None),
    "session": ("POST", "/api/session", {"token": "{token}"}),
    "stop": ("POST", "/api/run/stop", {"run": "waiting"}),
    "begin": ("POST", "/api/runs", {"file": "marking.yaml", "inputs": {"word": "a"}}),
    "resume": ("POST", "/api/run/resume", {"run": "asking"}),
    "answer": ("POST", "/api/answer", {"run": "asking", "number": 1, "answer": {"choice": "good"}}),
    "upload": ("POST", "/api/upload?name=a.txt", None)}


@dataclass(frozen=True)
class Answer:
    status: int
    head: str
    body: bytes


class Stage:
    """A folder with SOPs and runs, one of them private, one under way, one that asks; and a server there, with a session."""

    def __init__(self, folder: Path) -> None:
        """In a folder that has been one, everything is as it was at first."""
        self._opened = ExitStack()
        self.home, self.outside = folder / "home", folder / "outside"
        kept = folder / "kept"
        if kept.exists():
            for place in (self.home, self.outside):
                shutil.rmtree(place)
                shutil.copytree(kept / place.name, place, symlinks=True)
        else:
            self._lay_out()
            for place in (self.home, self.outside):
                shutil.copytree(place, kept / place.name, symlinks=True)
        self._begin()

    def _lay_out(self) -> None:
        for place in (self.home, self.outside):
            place.mkdir(parents=True)
        for name, text in SOPS.items():
            (self.home / f"{name}.yaml").write_text(text)
        (self.home / "gate.py").write_text(GATE)
        (self.outside / "secret.txt").write_text(SECRET)
        (self.outside / "marking.yaml").write_text(SOPS["marking"])
        (self.home / "linked.yaml").symlink_to(self.outside / "marking.yaml")
        (self.home / "link.txt").symlink_to(self.outside / "secret.txt")
        assert sop(self.home, "run", "marking.yaml", "--word", PRIVATE, "--name", PRIVATE).returncode == 0
        shutil.copy(self.home / "workspace" / ".journals" / f"{PRIVATE}.db", self.outside / "elsewhere.db")
        assert sop(self.home, "run", "asking.yaml", "--name", "asking").returncode == 4

    def _begin(self) -> None:
        self.client: Client = self._opened.enter_context(serving(self.home, session=False))
        self.used = self.client.token
        self.client.begin()
        until(lambda: self.client.token != self.used, "the next token is printed")
        said = self.client.post("/api/runs", {"file": "gated.yaml", "model": "python:gate.py:answer", "name": "waiting"})
        assert said.status == 200, said.data
        until((self.home / "begun").exists, "its model is asked")
        self.wanted = False             # whether what was done last was to be done

    def close(self) -> None:
        self.client.post("/api/run/stop", {"run": "waiting"})
        self._opened.close()

    def filled(self, value: Any) -> Any:
        """A part of a row, with what stands in braces filled in."""
        known = {"port": self.client.port, "other": self.client.port + 1, "token": self.client.token, "used": self.used,
                 "outside": str(self.outside), "read": READ, "cut": self.client.cookie[:-1], "long": "x" * 1_000_000,
                 "renamed": f"sop_session_{self.client.port + 1}={self.client.cookie.partition('=')[2]}"}
        if isinstance(value, str):
            return re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), value)
        if isinstance(value, dict):
            return {self.filled(name): self.filled(one) for name, one in value.items()}
        return [self.filled(one) for one in value] if isinstance(value, list) else value

    def ask(self, row: Mapping[str, Any]) -> Answer:
        method, path, body = BASES[row["base"]]
        body = self.filled(row.get("body", body))
        data = b"" if method == "GET" else b"uploaded" if row["base"] == "upload" else json.dumps(body).encode()
        data = row["raw"].encode() if "raw" in row else data
        data = b" " * row["pad"] + data if "pad" in row else data
        data = b'{"run": "waiting", "more": ' + b"[" * row["deep"] + b"]" * row["deep"] + b"}" if "deep" in row else data
        kind = "application/octet-stream" if row["base"] == "upload" else "application/json"
        headers = {"Host": f"127.0.0.1:{self.client.port}", "Cookie": self.client.cookie, "Sec-Fetch-Site": "same-origin",
                   "Connection": "close"}
        if data:
            length = {"Transfer-Encoding": "chunked"} if row.get("chunked") else {"Content-Length": str(len(data))}
            headers |= {"Origin": self.client.origin, "Content-Type": kind, **length}
        headers |= self.filled(row.get("headers", {}))
        lines = [f"{row.get('method', method)} {self.filled(row.get('target', row.get('path', path)))} "
                 f"HTTP/{row.get('version', '1.1')}",
                 *(f"{name}: {value}" for name, value in (*headers.items(), *self.filled(row.get("twice", {})).items())
                   if value is not None)]
        if row.get("chunked"):
            data = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (data[:60_000], data[60_000:])) + b"0\r\n\r\n"
        return _exchanged(self.client.port, "\r\n".join([*lines, "", ""]).encode("latin-1") + data)

    def effects(self) -> dict[str, Any]:
        """What a request could have changed."""
        journals = {path.stem: path for path in (self.home / "workspace" / ".journals").glob("*.db")}
        events = {}
        for name, path in journals.items():
            with RawJournal(path) as journal:
                events[name] = journal.last()
        left_out = (self.home / "workspace" / ".journals", self.home / "workspace")
        files = {str(path): sha256(path.read_bytes()).hexdigest() for place in (self.home, self.outside)
                 for path in place.rglob("*") if path.is_file() and left_out[0] not in path.parents and ".git" not in path.parts}
        return {"events": events, "files": files, "under way": held(self.home, "waiting"), "sessions": self.client.token}


def _exchanged(port: int, sent: bytes) -> Answer:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(sent)
        except OSError:                             # refused before it was read
            pass
        found = b""
        try:
            while (piece := connection.recv(1 << 16)) and not (b"text/event-stream" in found and b"\ndata: " in found):
                found += piece                      # of a stream, which has no end, the first event
        except OSError:
            pass
    head, _, body = found.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.1 (\d+)", head)
    return Answer(int(status[1]) if status else 0, head.decode("latin-1"), body)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Stage]]:
    """The stage for the next row; another one after a row that had an effect."""
    made: list[Stage] = []
    yield made
    for stage in made:
        stage.close()


@pytest.fixture
def stage(stages: list[Stage], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if not stages:
        stages.append(Stage(tmp_path_factory.getbasetemp() / "stage"))
    found = stages[0]
    before, found.wanted = found.effects(), False
    yield found
    if found.effects() != before and not found.wanted:
        found.close()
        stages.clear()


def test_every_row_is_run() -> None:
    assert len({row["id"] for row in ROWS}) == len(ROWS) and len(REQUESTS) >= 60
    assert all(re.match(r"(LLM\d\d:2025|ASI\d\d) ", row["owasp"]) for row in ROWS)
    assert {row["base"] for row in REQUESTS} == set(BASES)
    assert {row.get("expected", "refused") for row in ROWS} == {"refused", "literal"}


@pytest.mark.one_in(4, always=False)
@pytest.mark.parametrize("row", REQUESTS, ids=lambda row: row["id"])
def test_what_comes_of_a_request(stage: Stage, row: dict[str, Any]) -> None:
    before = stage.effects()
    answer = stage.ask(row)
    if row.get("expected") == "literal":
        run, stage.wanted = json.loads(answer.body)["run"], True
        until(lambda: stage.client.row(run)["state"] == "success", "it is carried out")
        said = stage.client.get(f"/api/run/artifact?run={run}&name=out&version=1").data.decode()
        assert SECRET not in said and "secret.txt" in said
        return
    seen = PRIVATE.encode() in answer.body and not row.get("reads") and (answer.status == 200 or PRIVATE not in str(row))
    effects = [*(["it is shown"] if seen else []), *(["a secret is shown"] if SECRET.encode() in answer.body else []),
               *(["a session"] if "set-cookie" in answer.head.lower() else []),
               *(name for name, was in before.items() if stage.effects()[name] != was)]
    assert effects == []
    assert answer.status == row["status"] and row.get("says", "") in answer.body.decode(), answer
    assert "access-control-allow" not in answer.head.lower()


@pytest.mark.slow
def test_the_requests_without_their_faults_work(tmp_path: Path) -> None:
    """Else a row would be refused for something else than it says."""
    stage = Stage(tmp_path)
    try:
        for base in ("list", "frame", "page"):
            answer = stage.ask({"base": base})
            assert answer.status == 200 and (PRIVATE.encode() in answer.body) == (base != "page"), answer
        for base in ("upload", "begin", "answer", "stop"):
            before = stage.effects()
            answer = stage.ask({"base": base})
            assert answer.status == 200, answer
            until(lambda before=before: stage.effects() != before, "it has its effect")
        assert stage.ask({"base": "resume"}).status == 200
        answer = stage.ask({"base": "session"})
        assert answer.status == 204 and "set-cookie" in answer.head.lower()
    finally:
        stage.close()
