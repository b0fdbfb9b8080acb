"""What the tests of the web UI share: a real server in a process of its own, and a client that keeps its cookie."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from cli_desk import SOP, environment
from patience import PATIENCE, until

from metaflow_agents.journal.run_summary import holder

TOKEN = re.compile(r"http://\S+#\S*token=([\w-]+)")


@dataclass(frozen=True)
class Said:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass
class Client:
    """A browser's side of one server. `cookie`: of its session, empty before it began."""

    port: int
    process: subprocess.Popen[str]
    lines: list[str]
    cookie: str = ""
    streams: list[Stream] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The token that the command printed last."""
        return TOKEN.findall("".join(self.lines))[-1]

    def ask(self, method: str, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None) -> Said:
        """A request with exactly these headers, besides `Host`, the length and the cookie."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, data, {**({"Cookie": self.cookie} if self.cookie else {}), **(headers or {})})
            answer = connection.getresponse()
            return Said(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Said:
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> Said:
        return self.ask("POST", path, json.dumps(body).encode(), {"Origin": self.origin, "Content-Type": "application/json"})

    def upload(self, name: str, data: bytes, batch: str = "") -> Said:
        from urllib.parse import urlencode

        return self.ask("POST", f"/api/upload?{urlencode({'name': name, 'batch': batch})}", data,
                        {"Origin": self.origin, "Content-Type": "application/octet-stream"})

    def begin(self) -> None:
        """A session, by the token that was printed last."""
        said = self.post("/api/session", {"token": self.token})
        assert said.status == 204, said
        self.cookie = str(said.headers["set-cookie"]).partition(";")[0]

    def listen(self, path: str) -> Stream:
        found = Stream(self, path)
        self.streams.append(found)
        return found

    def row(self, run: str) -> dict[str, Any]:
        """The row of a run; empty where there is none."""
        return next((row for row in self.get("/api/runs").json["runs"] if row["run"] == run), {})


class Stream:
    """Server-sent events of one address, heard by a thread: (event, data, id)."""

    def __init__(self, client: Client, path: str) -> None:
        self.events: list[tuple[str, Any, str]] = []
        self.over = False
        self._connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
        self._connection.request("GET", path, headers={"Cookie": client.cookie})
        self.answer = self._connection.getresponse()
        self._thread = Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        told: dict[str, str] = {}
        with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            for line in self.answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    told[name] = value
                elif "event" in told:
                    self.events.append((told["event"], json.loads(told["data"]), told.get("id", "")))
                if not name:
                    told = {}
        self.over = True

    def of(self, event: str) -> list[Any]:
        return [data for name, data, _ in self.events if name == event]

    def close(self) -> None:
        if self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()


@contextmanager
def serving(folder: Path, *words: str, session: bool = True, env: Mapping[str, str] | None = None,
            ends_runs: bool = True) -> Iterator[Client]:
    """`sop ui` in a folder, on a port of its own; with it ends, unless it is left to another one, what still runs there."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    process = subprocess.Popen([*SOP, "ui", "--no-browser", "--port", str(port), *words], cwd=folder, env=environment(env),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: list[str] = []
    assert process.stdout is not None
    reader = Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
    reader.start()
    client = Client(port, process, lines)
    try:
        until(lambda: TOKEN.search("".join(lines)) or process.poll() is not None, "the server prints its address")
        until(lambda: _answers(port) or process.poll() is not None, "the server listens")
        assert process.poll() is None, lines
        if session:
            client.begin()
        yield client
    finally:
        for stream in client.streams:
            stream.close()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            if ends_runs:
                _end_runs(folder)
        reader.join(PATIENCE)
        process.stdout.close()


def _end_runs(folder: Path) -> None:
    """A run that a page began lives on without the server: what is still under way in the folder is ended."""
    for journal in folder.rglob(".journals/*.db"):
        for number in (signal.SIGINT, signal.SIGKILL):
            process = holder(journal)
            if process is None or process == os.getpid():
                break
            with suppress(ProcessLookupError):
                os.kill(process, number)
            deadline = time.monotonic() + 10
            while holder(journal) == process and time.monotonic() < deadline:
                time.sleep(0.05)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def held(folder: Path, run: str, workspace: str = "workspace") -> int | None:
    """The process that has a run open."""
    return holder(folder / workspace / ".journals" / f"{run}.db")


def descriptors(process: int) -> int:
    """How many files and sockets a process has open."""
    return len(os.listdir(f"/proc/{process}/fd"))
