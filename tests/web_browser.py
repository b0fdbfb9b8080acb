"""A browser that looks at a real server with real runs: one of each for a module of tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patience import PATIENCE, until

from metaflow_agents.kits.company.probing import browser_path

SOP = Path(sys.executable).with_name("sop")
RUNS = Path(__file__).parent / "web_runs"
NO_BROWSER = "" if browser_path() else "no Chromium on this machine: the pages are not looked at"
SLOWEST = int(PATIENCE * 1000)      # milliseconds until a page is given up


@dataclass
class Server:
    """`sop ui` in a folder of its own."""

    folder: Path
    process: subprocess.Popen[str]
    address: str                    # with the token
    token: str

    @property
    def origin(self) -> str:
        """Without path and token."""
        return self.address.partition("/#")[0]

    def shut(self, *steps: str) -> None:
        """The models of these steps wait before they answer."""
        (self.folder / "gates").mkdir(exist_ok=True)
        for step in steps:
            (self.folder / "gates" / f"{step}.shut").touch()

    def open(self) -> None:
        """No model waits any more."""
        shutil.rmtree(self.folder / "gates", ignore_errors=True)

    def sop(self, *words: str) -> str:
        """What a command prints there, as from a terminal beside the server."""
        done = subprocess.run([SOP, *words], cwd=self.folder, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False, timeout=PATIENCE)
        return done.stdout + done.stderr

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on while the test looks."""
        return subprocess.Popen([SOP, *words], cwd=self.folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)


@dataclass
class Watch:
    """What pages did that they should not: messages of the console, errors, requests to other hosts."""

    console: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """All of it, once."""
        found = [*self.console, *(f"asked {url}" for url in self.elsewhere)]
        self.console.clear()
        self.elsewhere.clear()
        return found


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """The SOPs of `web_runs`, served; the server ends with the block, and so does what it began."""
    shutil.copytree(RUNS, folder, dirs_exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen([SOP, "ui", "--no-browser", "--port", str(port)], cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        until(lambda: process.poll() is not None or "token=" in log.read_text(), "the address of the server")
        said = re.search(r"http://\S+token=([\w-]+)", log.read_text())
        assert said, log.read_text()
        server = Server(folder, process, said[0], said[1])
        yield server
        server.open()
        until(lambda: "running" not in server.sop("runs"), "the end of the runs that were begun")
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        process.kill()


@contextmanager
def browsing(server: Server) -> Iterator[tuple[Any, Watch]]:
    """A context of a browser with a session at the server, from which no other host can be reached."""
    from playwright.sync_api import sync_playwright

    watch = Watch()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1100, "height": 760}, reduced_motion="reduce")
        context.set_default_timeout(SLOWEST)

        def other(route: Any) -> None:
            watch.elsewhere.append(route.request.url)
            route.abort()

        context.route(lambda url: not url.startswith((server.origin, "data:", "blob:")), other)
        context.on("console", lambda message: message.type in ("error", "warning") and watch.console.append(message.text))
        context.on("weberror", lambda error: watch.console.append(str(error.error)))
        page = context.new_page()
        page.goto(server.address)
        page.get_by_role("heading", name="Runs").wait_for()
        assert "token" not in page.url
        page.close()
        try:
            yield context, watch
        finally:
            browser.close()
