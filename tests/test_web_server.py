"""`sop ui` as a process: what it prints, serves and refuses, what its start costs others, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cli_desk import SOP, environment, lay_out, sop
from patience import PATIENCE, until
from web_desk import descriptors, serving

from metaflow_agents.web.security import HEADERS
from metaflow_agents.web.static_files import TYPES

STATIC = Path(__file__).parent.parent / "metaflow_agents" / "web" / "static"


def ran(folder: Path) -> None:
    """A run called `it` that has succeeded."""
    lay_out(folder)
    done = sop(folder, "run", "looped.yaml", "--topic", "tea", "--model", "python:desk.py:answer", "--name", "it")
    assert done.returncode == 0, done.stderr


@pytest.mark.one_in(4)
def test_help_lists_it_among_our_commands_and_imports_no_server(tmp_path: Path) -> None:
    told = sop(tmp_path, "--help").stdout
    commands = told.partition("\nCommands:\n")[2].partition("\n\n")[0]
    assert re.search(r"^  check +Validate", commands, re.MULTILINE) and re.search(r"^  ui +Show runs", commands, re.MULTILINE)
    assert "metaflow-agents" not in told and "PluginCommands" not in told, "headings are for people"
    heavy = ("starlette", "uvicorn", "anyio", "h11", "asyncio", "sqlite3")
    for words in (["--help"], ["ui", "--help"]):
        code = (f"import sys; from metaflow_agents.cli import command\nstatus = command({words!r})\n"
                f"sys.stderr.write(' '.join(m for m in {heavy!r} if m in sys.modules)); sys.exit(status)")
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True,
                              timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.one_in(4)
def test_a_session_begins_with_a_token_that_works_once(tmp_path: Path) -> None:
    with serving(tmp_path, session=False) as client:
        first = client.token
        assert client.get("/api/runs").status == 401
        assert client.post("/api/session", {"token": "guessed"}).status == 401
        assert client.post("/api/session", {"token": first[:-1]}).status == 401
        client.begin()
        assert client.get("/api/runs").json == {"runs": []}
        until(lambda: client.token != first, "the command prints another address, for another browser")
        cookie, client.cookie = client.cookie, ""
        assert client.post("/api/session", {"token": first}).status == 401, "it is used up"
        client.begin()
        assert client.cookie != cookie
        for one in (cookie, client.cookie):
            client.cookie = one
            assert client.get("/api/runs").status == 200
        assert cookie.startswith(f"sop_session_{client.port}=")
        assert first not in cookie


@pytest.mark.one_in(4)
def test_every_answer_has_its_headers_and_pages_come_from_the_package_alone(tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("not a page")
    with serving(tmp_path, session=False) as client:
        for path in ("/", "/index.html", "/app.js", "/api/runs", "/nothing", "/../secret.html"):
            said = client.get(path)
            assert {name: said.headers[name] for name in HEADERS} == HEADERS, path
        assert client.get("/").data == client.get("/index.html").data == (STATIC / "index.html").read_bytes()
        for file in STATIC.rglob("*"):
            if file.suffix in TYPES:
                said = client.get(f"/{file.relative_to(STATIC).as_posix()}")
                assert said.status == 200 and said.data == file.read_bytes()
                assert said.headers["content-type"].startswith(TYPES[file.suffix])
                mark = {"If-None-Match": str(said.headers["etag"])}
                assert client.ask("GET", f"/{file.relative_to(STATIC).as_posix()}", headers=mark).status == 304
        assert client.get("/app.py").status == client.get("/%2e%2e/security.py").status == client.get("/pages").status == 404


@pytest.mark.one_in(8, always=False)
def test_it_takes_the_next_free_port_and_says_where_none_is(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = sop(tmp_path, "ui", "--no-browser", "--port", port)
    assert done.returncode == 2 and f"can't listen on 127.0.0.1, port {port}" in done.stderr and "--port" in done.stderr
    done = sop(tmp_path, "ui", "nobody", "--no-browser")
    assert done.returncode == 2 and "no run `nobody`" in done.stderr


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_although_streams_are_open(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as client:
        streams = [client.listen("/api/runs/stream") for _ in range(3)]
        until(lambda: all(stream.answer.status == 200 for stream in streams), "they are heard")
        client.process.send_signal(number)
        client.process.wait(PATIENCE)
        until(lambda: all(stream.over for stream in streams), "nobody listens any more")
    assert "Traceback" not in "".join(client.lines)


@pytest.mark.one_in(8, always=False)
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no /proc")
def test_closed_tabs_leave_nothing_open(tmp_path: Path) -> None:
    ran(tmp_path)
    with serving(tmp_path) as client:
        def look() -> None:
            streams = [client.listen("/api/runs/stream"), client.listen("/api/run/stream?run=it")]
            until(lambda: all(stream.events for stream in streams), "they hear")
            for stream in streams:
                stream.close()
        look()
        usual = descriptors(client.process.pid)
        for _ in range(10):
            look()
        until(lambda: descriptors(client.process.pid) <= usual, "what tabs held is closed")


@pytest.mark.one_in(8, always=False)
def test_a_browser_is_opened_at_the_page_of_the_run(tmp_path: Path) -> None:
    """BROWSER is what Python's `webbrowser` starts."""
    ran(tmp_path)
    opens = tmp_path / "opens.sh"
    opens.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/part"; mv "{tmp_path}/part" "{tmp_path}/opened"\n')
    opens.chmod(0o755)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    process = subprocess.Popen([*SOP, "ui", "it", "--port", str(port)], cwd=tmp_path, env=environment({"BROWSER": str(opens)}),
                               stdout=subprocess.DEVNULL)
    try:
        until((tmp_path / "opened").exists, "the browser is started")
        address = (tmp_path / "opened").read_text().strip()
        assert re.fullmatch(rf"http://127\.0\.0\.1:{port}/#/run/it\?token=[\w-]{{20,}}", address)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


@pytest.mark.one_in(8, always=False)
def test_errors_are_the_words_of_the_command_line(tmp_path: Path) -> None:
    lay_out(tmp_path)
    (tmp_path / "workspace" / ".journals").mkdir(parents=True)
    (tmp_path / "workspace" / ".journals" / "odd.db").write_text("no journal at all, but for its name")
    with serving(tmp_path) as client:
        for run in ("nobody", "../x", "odd"):
            shown = sop(tmp_path, "show", run)
            said = client.get(f"/api/run?run={run}")
            assert said.status in (400, 409) and shown.stderr == f"sop: {said.error}\n", said.data
        assert client.get("/api/run").error == "`run` is missing"
        assert "whole number" in client.get("/api/run/at?run=odd&seq=-1").error
        said = client.post("/api/runs", {"file": "looped.yaml", "inputs": {"topik": "tea"}})
        assert said.status == 400 and "did you mean `topic`" in said.error
        assert client.row("odd")["state"] == "damaged", "one that can't be read hides none of the others"
        sent = {"Origin": client.origin, "Content-Type": "application/json"}
        raw = client.ask("POST", "/api/answer", b'{"a": 1, "a": 2}', sent)
        assert raw.status == 400 and "no JSON" in raw.error
        assert client.post("/api/answer", [1]).error == "what was sent is no JSON object"


@pytest.mark.one_in(8, always=False)
def test_secrets_are_masked_in_whatever_is_sent(tmp_path: Path) -> None:
    """Also where a journal holds one: somebody may have typed it as an input."""
    (tmp_path / "keyed.yaml").write_text(
        "sop: keyed\nsecrets: [SHOP_KEY]\nroles: {}\ninputs: {word: string}\nartifacts: {out: {}}\n"
        "steps: {copy_it: {value: word, needs: [word], makes: out, when: word != ''}}\n")
    canary = 'wombat-"4711"'
    env = {"SHOP_KEY": canary}
    done = sop(tmp_path, "run", "keyed.yaml", "--word", canary, "--name", "keyed", env=env)
    assert done.returncode == 0, done.stderr
    with serving(tmp_path, env=env) as client:
        stream = client.listen("/api/run/stream?run=keyed")
        until(lambda: stream.of("rests"), "it is told")
        said = [client.get(path).data.decode() for path in ("/api/runs", "/api/run?run=keyed", "/api/run/at?run=keyed&seq=2",
                                                             "/frame?run=keyed&name=out")]
        said.append(json.dumps(stream.events))
    assert [one for one in said if "wombat" in one] == []
    assert "[secret SHOP_KEY]" in said[3]
    assert os.environ.get("SHOP_KEY") is None
