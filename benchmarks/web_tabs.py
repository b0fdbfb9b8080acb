"""`sop ui` in a process of its own, and tabs of a real browser that look at it: how long until something is there, how many bytes
came, how much memory both take.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.web_runs import COMMAND

PATIENCE = 120.0                    # seconds until something is given up
STREAMS = 4                         # tabs of one browser that follow a run by a stream; others look every few seconds
GRAPH = ".graph [data-node]"
VIEWS = {"time line": ("#view-time", ".tl-row[data-key]"), "conversation": ("#view-conversation", ".turn"),
         "artifacts": ("#view-artifacts", ".panes-main .shown, .panes-main pre, .panes-main table"),
         "graph": ("#view-graph", GRAPH)}
"""View → its tab, and what stands there once its content does."""

_WATCH = """
(() => {
  const seen = {}, events = [];
  globalThis.bench = { seen, events };
  const wanted = { graph: "GRAPH", side: "#side-panel table, #side-panel .none" };
  const painted = (told) => requestAnimationFrame(() => setTimeout(told));
  const look = () => {
    for (const [name, selector] of Object.entries(wanted)) {
      if (seen[name] === undefined && document.querySelector(selector)) {
        seen[name] = 0;
        painted(() => { seen[name] = performance.now(); });
      }
    }
    const last = Number(document.querySelector(".slider input")?.max || 0);
    if (last && last !== events.at(-1)?.[1]) events.push([Date.now() / 1000, last]);
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["max"] });
})()
""".replace("GRAPH", GRAPH)

_CLICK = """async ([tab, selector, patience]) => {
  const began = performance.now();
  document.querySelector(tab).click();
  while (performance.now() - began < patience) {
    await new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)));
    if (document.querySelector(selector)) return (performance.now() - began) / 1000;
  }
  return null;
}"""

_TO_THE_END = """async ([patience]) => {
  const began = performance.now(), list = document.querySelector(".tl-list");
  list.scrollTop = list.scrollHeight;
  while (performance.now() - began < patience) {
    await new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)));
    const last = [...list.querySelectorAll(".tl-row[data-key]")].find((row) => row.ariaPosInSet === row.ariaSetSize);
    if (last) return [(performance.now() - began) / 1000, last.dataset.key];
  }
  return null;
}"""


class Silent(RuntimeError):
    """What was waited for did not come."""


@dataclass
class Server:
    """`sop ui`, under way. `address`: where a browser begins its session."""

    process: subprocess.Popen[str]
    address: str

    @property
    def origin(self) -> str:
        """Without path and token."""
        return self.address.partition("/#")[0]

    def memory(self) -> float:
        """MB that it takes, its part of what it shares counted."""
        return proportional(self.process.pid)

    def seconds(self) -> float:
        """Processor time by now."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """`sop ui` over the runs of a folder, fresh: it has read nothing yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    process = subprocess.Popen([*COMMAND, "ui", "--no-browser", "--port", port], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        said = re.search(r"http://\S+token=[\w-]+", process.stdout.readline())
        if said is None:
            raise Silent(f"`sop ui` says no address: {process.stdout.read()}")
        yield Server(process, said[0])
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def proportional(process: int) -> float:
    """MB of a process that are in memory; what it shares is divided among those that share it."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    if found is None:
        raise Silent(f"/proc/{process}/smaps_rollup says no Pss")
    return int(found[1]) * 1024 / 1e6


@dataclass
class Loaded:
    """A page as it came: seconds from the start of the navigation, and bytes of the answers up to then."""

    paint: float = 0.0
    graph: float = 0.0
    side: float = 0.0
    data: int = 0
    files: int = 0


@dataclass
class Tab:
    """One tab of a browser; `received`: address → bytes that came from it, streams too."""

    page: Any
    devtools: Any
    received: dict[str, int] = field(default_factory=dict)

    def load(self, address: str) -> Loaded:
        """Opens an address, until the graph and the panel beside it are there, and what came until then."""
        self.received.clear()
        self.page.goto(address)
        self.until("bench.seen.graph > 0 && bench.seen.side > 0", f"the graph at {address}")
        paint, graph, side = self.page.evaluate("""() => [performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
            bench.seen.graph, bench.seen.side]""")
        if paint is None:
            raise Silent("the browser tells of no first paint")
        data = sum(size for url, size in self.received.items() if "/api/" in url)
        return Loaded(paint / 1e3, graph / 1e3, side / 1e3, data, sum(self.received.values()) - data)

    def until(self, condition: str, what: str) -> None:
        """Waits for a condition in the page. Raises Silent."""
        deadline = time.monotonic() + PATIENCE
        while not self.page.evaluate(condition):
            if time.monotonic() > deadline:
                raise Silent(f"{what} did not come within {PATIENCE:.0f} s")
            self.page.wait_for_timeout(20)

    def show(self, view: str) -> float:
        """Seconds from the click on a view's tab until its content is painted. Raises Silent."""
        return float(self._measured(_CLICK, *VIEWS[view], what=f"the view {view}"))

    def to_the_end(self) -> tuple[float, str]:
        """The time line scrolled to its end: seconds until its last row is there, and that row's key. Raises Silent."""
        seconds, key = self._measured(_TO_THE_END, what="the last row")
        return seconds, key

    def _measured(self, script: str, *given: Any, what: str) -> Any:
        found = self.page.evaluate(script, [*given, PATIENCE * 1000])
        if found is None:
            raise Silent(f"{what} did not come within {PATIENCE:.0f} s")
        return found

    def heap(self) -> float:
        """MB of JavaScript's heap that are in use, garbage that was not collected yet counted."""
        metrics = {one["name"]: one["value"] for one in self.devtools.send("Performance.getMetrics")["metrics"]}
        return float(metrics["JSHeapUsedSize"]) / 1e6

    def shown(self) -> list[tuple[float, int]]:
        """When which event was the last one that the page knew: Unix time and its number."""
        return [(at, number) for at, number in self.page.evaluate("bench.events")]


@contextmanager
def browsing(program: str) -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def someone(browser: Any) -> Iterator[Any]:
    """A person's browser, with nothing in its cache and no session anywhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    context.add_init_script(_WATCH)
    try:
        yield context
    finally:
        context.close()


def tab(context: Any) -> Tab:
    """One more tab, empty."""
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    found, addresses = Tab(page, devtools), dict[str, str]()

    def answered(told: Any) -> None:
        addresses[told["requestId"]] = told["response"]["url"]

    def came(told: Any) -> None:
        url = addresses.get(told["requestId"], "")
        found.received[url] = found.received.get(url, 0) + told["dataLength"]

    devtools.on("Network.responseReceived", answered)
    devtools.on("Network.dataReceived", came)
    devtools.send("Network.enable")
    devtools.send("Performance.enable")
    return found


def renderers(browser: Any) -> list[int]:
    """The processes of a browser in which pages run."""
    told = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return [one["id"] for one in told if one["type"] == "renderer"]
