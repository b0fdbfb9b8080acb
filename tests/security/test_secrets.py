"""Every case of `secrets.yaml`: planted canaries, said back in every way, are found nowhere."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tiers

from metaflow_agents.journal.run_summary import RawJournal
from security.path_scenes import cli
from security.secret_server import spelled

TABLE: list[dict[str, Any]] = tiers.table(Path(__file__).with_name("secrets.yaml"))
CANARY = 'sk-can4ry/+"q y&<4711>='
SERVER = Path(__file__).with_name("secret_server.py")
WAYS = ("plain", "percent", "lower", "plus", "base64", "json", "html", "hex")
ENDED = ("listed", "named", "greeting_error", "list_error")         # the run stops, since no tool is left
UNSAID = ("refused", "refused_cut", "twice", "greeting", "alien", "described_cut", "crash_cut", "cut", *ENDED)
COMMANDS = ("log r --full", "log r --json", "log r --audit", "show r", "show r --json", "runs --json", "inbox r", "diff r r",
            "resume r", "show r note", "history r", "inbox r --json", "memory show", "check sop.yaml", "graph sop.yaml",
            "policy explain sop.yaml worker run(x)", "doctor --json")

# Taken over: it calls the tool that there is, and then says again all that it was ever sent.
MODEL = """
import json
from pathlib import Path
from metaflow_agents.models.port import Reply, ToolCall
def answer(request):
    text = json.dumps([list(request.messages), list(request.tools)], ensure_ascii=False, default=str)
    with Path(__file__).with_name("seen.txt").open("a") as file:
        file.write(text + json.dumps(text))
    if not any(message["role"] == "tool" for message in request.messages):
        return CALL
    return "said: " + " ".join(str(message["content"]) for message in request.messages)
"""
FUNCTION = """
def tell(what: str, key: str) -> dict[str, list[str]] | str:
    try:
        if RAISES:
            raise KeyError(key)
        if LONG:
            return "y" * (1_000_000 - len(key) // 2) + key
        return {key: [key]} if KEYED else "it is " + key
    except KeyError as error:
        raise ValueError("bad key " + key) from error
"""


@contextmanager
def service(how: str) -> Iterator[str]:
    """Gives back the header `X-Key` (or, as an endpoint, the key)."""
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            secret = self.headers.get("X-Key") or (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            said = spelled(secret, how)
            status = {"error": 500, "location": 302}.get(how, 200)
            body = f"it is {said}" if how != "html" else f"<html><title>{said}</title><p>it is {said}</p></html>"
            if self.command == "POST":
                status, body = 401, json.dumps({"error": {"message": f"Incorrect API key provided: {secret}", "type": "auth"}})
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if how == "html" else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            if how == "location":
                self.send_header("Location", f"/next?key={spelled(secret, 'percent')}" if "next" not in self.path else f"http://other.invalid/{said}")
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def written(row: dict[str, Any], url: str) -> tuple[str, tuple[str, dict[str, Any]], str]:
    """What the SOP adds, the call of the model, and the tools of its role."""
    says = row["says"]
    secret = "secrets: [CANARY_KEY]\n"
    match row["given"]:
        case "server":
            spec = {"command": sys.executable, "args": [str(SERVER), says], "env": {"KEY": "${CANARY_KEY}"}}
            return f"{secret}mcpServers: {{s: {json.dumps(spec)}}}\npolicy: {{allow: ['mcp(s.*)']}}\n", ("s.tell", {}), "s.*"
        case "api":
            return (f"{secret}openapi: {{s: {{spec: s.yaml, server: '{url}', headers: {{X-Key: '${{CANARY_KEY}}'}}}}}}\n"
                    "policy: {allow: ['api(s.*)']}\n", ("s.tell", {}), "s.*")
        case "fetch":
            return (f"{secret}tools: {{fetch: {{headers: {{'{url}': {{X-Key: '${{CANARY_KEY}}'}}}}}}}}\n"
                    f"policy: {{allow: ['fetch({url}/*)']}}\n", ("fetch", {"url": f"{url}/page"}), "fetch")
        case "function":
            return (f"{secret}tools: {{tell: {{python: 'told:tell', secrets: {{key: CANARY_KEY}}}}}}\n"
                    "policy: {allow: [call]}\n", ("tell", {"what": "x"}), "tell")
        case "endpoint":
            return f"models: {{default: {{name: m, endpoint: '{url}/v1', key: CANARY_KEY}}}}\n", ("", {}), ""
    code = "import glob\nfor name in glob.glob('/proc/*/environ'):\n    try: print(open(name).read())\n    except OSError: pass"
    return "policy: {allow: ['run(**)']}\n", ("run", {"command": ["python3", "-c", code]}), "run"


def lay_out(folder: Path, row: dict[str, Any], url: str) -> None:
    more, (name, arguments), tools = written(row, url)
    tools = "s.none" if row["says"] == "listed" else tools
    (folder / "sop.yaml").write_text(f"""
sop: canaries
{more}
inputs: {{topic: string}}
roles: {{worker: {{profile: a worker, tools: [{f'"{tools}"' if tools else ''}]}}}}
artifacts: {{note: {{file: note.md}}, after: {{file: after.md}}}}
steps:
  work: {{role: worker, needs: [topic], makes: note}}
  more: {{value: "note ~ '!'", needs: [note], makes: after}}
""")
    function = FUNCTION
    for word, says in (("RAISES", "raised"), ("KEYED", "key"), ("LONG", "cut")):
        function = function.replace(word, str(row["says"] == says))
    (folder / "told.py").write_text(function)
    call = f"Reply(text='', calls=(ToolCall(id='c', name={name!r}, arguments={arguments!r}),))"
    (folder / "model.py").write_text(MODEL.replace("CALL", call))
    (folder / "s.yaml").write_text("openapi: 3.1.0\ninfo: {title: s, version: '1'}\npaths: {/tell: {get: {operationId: tell, "
                                   "responses: {'200': {description: it, content: {text/plain: {}}}}}}}\n")


def leavings(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Everything that a run left: what it is, and its bytes."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".journals" not in path.parts:
            yield str(path.relative_to(folder)), path.read_bytes()
    for path in folder.rglob("*.db"):
        with sqlite3.connect(path) as journal:
            for seq, kind, data in journal.execute("SELECT seq, kind, data FROM events"):
                yield f"event {seq} {kind}", data.encode()
            digests = [digest for digest, in journal.execute("SELECT digest FROM blobs")]
        journal.close()
        with RawJournal(path) as blobs:
            for digest in digests:
                yield f"blob {digest[:8]}", blobs.blob(digest)
    for path in folder.rglob(".git"):
        objects = subprocess.run(["git", "-C", str(path.parent), "cat-file", "--batch-all-objects", "--batch"],
                                 capture_output=True, check=True)
        yield "git objects", objects.stdout
        assert len(objects.stdout) > 100
    for file in (folder / "home").rglob("*"):
        if file.is_file():
            yield str(file), file.read_bytes()


def spellings(canary: str) -> dict[str, bytes]:
    found = {how: spelled(canary, how).strip('"').encode() for how in WAYS}
    for start in range(3):
        coded = base64.b64encode(b"\0" * start + canary.encode()).decode()
        found[f"base64 at {start}"] = coded[4 if start else 0:-4].encode()
    found["half"], found["other half"] = canary[:len(canary) // 2].encode(), canary[len(canary) // 2 + 1:].encode()
    return found


@pytest.mark.one_in(32)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["id"])
def test_a_canary_is_found_nowhere(row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = CANARY if row["given"] != "endpoint" else "sk-can4ry-0123456789-abcdef"
    monkeypatch.setenv("CANARY_KEY", canary)
    monkeypatch.chdir(tmp_path)
    with service(row["says"]) as url:
        lay_out(tmp_path, row, url)
        words = [] if row["given"] == "endpoint" else ["--model", "python:model.py:answer"]
        told = [cli("run", "sop.yaml", "--topic", "x", "--name", "r", *words)]
        assert told[0][0] == (5 if row["given"] == "endpoint" else 1 if row["says"] in ENDED else 0), told[0][1]
        told += [cli(*line.split()) for line in COMMANDS]
        told.append(cli("export", "r", "--recording", "r.jsonl", "--answered-by", "x"))
    if row["given"] in ("server", "function") and row["says"] not in UNSAID:
        assert "[secret C" in told[1][1], "it was said, and redacted"
    for what, data in [*((f"output {number}", said.encode()) for number, (_, said) in enumerate(told)), *leavings(tmp_path)]:
        for how, spelling in spellings(canary).items():
            assert spelling not in data, f"{how} in {what}: {data[max(data.index(spelling) - 200, 0):][:600]!r}"


def test_the_table_is_whole() -> None:
    assert len(TABLE) == len({row["id"] for row in TABLE}) >= 15
    keys = {"id", "owasp", "what", "given", "says", "expected"}
    assert all(row.keys() == keys and row["expected"] == "nowhere" for row in TABLE)
