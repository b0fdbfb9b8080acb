"""The web UI with a run of 50,000 events and with one that is watched while it goes on, in a real browser.

    python -m benchmarks.web            # the table; some minutes
    python -m benchmarks.web --json     # the same, for programs
    python -m benchmarks.web --tiny     # sizes that only show that it works

The runs are made by the engine, each in a process of its own; `sop ui` is another one; Chromium opens its pages. A long run and
one of some 50 events take turns, and what is told are medians. `benchmarks/README.md` says what each row means.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import web_tabs
from benchmarks.report import Report, command_line
from benchmarks.web_runs import made, watching
from benchmarks.web_tabs import VIEWS, Loaded, Tab
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.kits.company.probing import browser_path

LONG, SHORT = "long", "short"
SAMPLE = 500                        # blobs that are read to tell how large all are
FIGURES = (("paint", "first paint"), ("graph", "its graph is there"))


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rounds of how many stories the long run has (a hundred are some 650 events), how often a page is loaded, how often
    more for the server's memory, how many items of a watched run are written and judged, and in how many tabs it is watched.
    """

    rounds: int = 77
    each: int = 100
    turns: int = 5
    further: int = 50
    items: int = 1000
    tabs: int = 10


TINY = Sizes(rounds=2, each=5, turns=1, further=1, items=8, tabs=2)


class Bench:
    """The rows."""

    def __init__(self, folder: Path, sizes: Sizes, browser: Any) -> None:
        self.folder, self.sizes, self.browser, self.report = folder, sizes, browser, Report()
        self.first: dict[str, list[Loaded]] = {LONG: [], SHORT: []}         # looks at a server that has not read the run
        self.hasty: dict[str, list[Loaded]] = {LONG: [], SHORT: []}         # at one that has just begun
        self.again: dict[str, list[Loaded]] = {LONG: [], SHORT: []}
        self.spent: dict[str, list[float]] = {"first look": [], "again": []}     # processor time of the server
        self.pace: list[float] = []

    def run(self) -> Report:
        """All rows."""
        _say("the runs are made")
        made(self.folder, SHORT, 1, 6)
        made(self.folder, LONG, self.sizes.rounds, self.sizes.each)
        with RawJournal(journal_path(self.folder / "workspace", LONG)) as journal:
            self.events = f"{journal.last():,} events"
        for turn in range(self.sizes.turns):
            _say(f"pages are loaded, {turn + 1} of {self.sizes.turns}")
            for name in (LONG, SHORT):
                self.pace.append(_pace())
                self.loads(name)
        self.loaded()
        self.payload()
        _say("views are opened, and pages loaded again and again")
        self.views_and_memory()
        for tabs in dict.fromkeys((1, self.sizes.tabs)):
            _say(f"a run goes on before {tabs} tabs")
            self.live(tabs)
        self.report.add("a second of processor time beside it took", statistics.median(self.pace), "s")
        return self.report

    def loads(self, name: str) -> None:
        """One turn: a server that has just begun; then one that knows the list of runs, by somebody new, and once more by him."""
        with web_tabs.serving(self.folder) as server, web_tabs.someone(self.browser) as context:
            with closing_tab(context) as tab:
                self.hasty[name].append(tab.load(server.address.replace("#", f"#/run/{name}?")))
        with web_tabs.serving(self.folder) as server, web_tabs.someone(self.browser) as context:
            with closing_tab(context) as tab:
                tab.page.goto(server.address)
                tab.until("document.querySelectorAll('[data-row]').length > 1", "the list of runs")
            for told, times in (("first look", self.first), ("again", self.again)):
                before = server.seconds()
                with closing_tab(context) as tab:
                    times[name].append(tab.load(f"{server.origin}/#/run/{name}"))
                if name == LONG:
                    self.spent[told].append(server.seconds() - before)

    def loaded(self) -> None:
        """What the turns came to."""
        looks = (("right after the start", self.hasty, None), ("first look", self.first, 1.0), ("again", self.again, 1.0))
        for when, times, bound in looks:
            for figure, told in FIGURES:
                long, short = (statistics.median(getattr(one, figure) for one in times[name]) for name in (LONG, SHORT))
                self.report.add(f"{self.events}: {told}, {when}", long, "s", "a run of some 50 events", short, bound=bound)
        long, short = (statistics.median(one.graph for one in self.again[name]) for name in (LONG, SHORT))
        self.report.add(f"{self.events}: beside a short run, again", long, "s", "a run of some 50 events", short, bound=1.5,
                        compared=True)
        for told, spent in self.spent.items():
            self.report.add(f"{self.events}: the server's processor time, {told}", statistics.median(spent), "s")

    def payload(self) -> None:
        """The first payload, beside what a page would send that knows no better."""
        plain, bodies = naive(journal_path(self.folder / "workspace", LONG))
        first = self.first[LONG][-1]
        self.report.add(f"{self.events}: first payload", first.data / 1e6, "MB", "all events as JSON", plain / 1e6, bound=1)
        self.report.add(f"{self.events}: all events as JSON, with their bodies", (plain + bodies) / 1e6, "MB")
        self.report.add("a page's files, nothing in the cache", self.hasty[LONG][-1].files / 1e6, "MB")

    def views_and_memory(self) -> None:
        """The views of one tab, opened in turn, twice; what the tab and the server take then, and the server later."""
        with web_tabs.serving(self.folder) as server, web_tabs.someone(self.browser) as context:
            with closing_tab(context) as tab:
                tab.load(server.address.replace("#", f"#/run/{LONG}?"))
                memory = server.memory()
                self.views(tab)
                process = max(map(web_tabs.proportional, web_tabs.renderers(self.browser)))
                self.report.add("the tab: JavaScript's heap, all views seen", tab.heap(), "MB", bound=200)
                self.report.add("the tab: its process, all views seen", process, "MB", bound=200)
            viewed = server.memory()
            for _ in range(self.sizes.further):
                with closing_tab(context) as tab:
                    tab.load(f"{server.origin}/#/run/{LONG}")
            self.report.add("the server: memory after the first look", memory, "MB")
            self.report.add(f"the server: memory after {self.sizes.further} further looks", server.memory(), "MB",
                            "before them, all views seen", viewed, bound=1.1, compared=True)

    def views(self, tab: Tab) -> None:
        """Each view, from the click until its content is there."""
        for when in ("first", "again"):
            for view in VIEWS:
                self.report.add(f"{self.events}: {view} opened, {when}", tab.show(view), "s", bound=1)
        tab.show("time line")
        seconds, key = tab.to_the_end()
        if key != f"sum_up@{self.sizes.rounds}~0":
            raise web_tabs.Silent(f"the last row of the time line is {key}")
        self.report.add(f"{self.events}: to the end of the time line", seconds, "s", bound=1)

    def live(self, tabs: int) -> None:
        """A run that goes on before so many tabs, how far they are behind its journal, and that they come to its end."""
        name, told = f"live{tabs}", "one tab" if tabs == 1 else f"{tabs} tabs"
        with (web_tabs.serving(self.folder) as server, watching(self.folder, name, self.sizes.items) as run,
              web_tabs.someone(self.browser) as context):
            opened = [web_tabs.tab(context) for _ in range(tabs)]
            for number, tab in enumerate(opened):
                tab.load(f"{server.origin}/#/run/{name}" if number else server.address.replace("#", f"#/run/{name}?"))
            used, began = server.seconds(), time.time()
            run.go()
            while run.goes_on():
                opened[0].page.wait_for_timeout(200)
            share = (server.seconds() - used) / (time.time() - began)
            for tab in opened:
                tab.until('document.querySelector(".run-title .state.done") !== null', "the end of the run")
                tab.until(f"bench.events.at(-1)[1] === {run.last()}", "the last event of the run")
            behind = [run.behind(tab.shown(), began) for tab in opened]
        self.lags(told, run.rate(began), behind, share)

    def lags(self, told: str, rate: float, behind: list[list[float]], share: float) -> None:
        """The rows of a run that was watched."""
        items, every = f"{self.sizes.items:,} items live", [one for tab in behind for one in tab]
        self.report.add(f"{items}, {told}: events", rate, "a second")
        self.report.add(f"{items}, {told}: behind by, half of the time", statistics.median(every), "s")
        self.report.add(f"{items}, {told}: behind by, at worst", max(every), "s", bound=1 if len(behind) == 1 else 5)
        if len(behind) > 1:
            streamed = sorted(behind, key=statistics.median)[:web_tabs.STREAMS]
            name = f"{items}, {told}: the {web_tabs.STREAMS} that stream, at worst"
            self.report.add(name, max(map(max, streamed)), "s", bound=1)
        self.report.add(f"{items}, {told}: the server's share of a processor", share, "of 1")


@contextmanager
def closing_tab(context: Any) -> Iterator[Tab]:
    """A tab that is closed in the end."""
    tab = web_tabs.tab(context)
    try:
        yield tab
    finally:
        tab.page.close()


def naive(path: Path) -> tuple[int, int]:
    """Bytes of all events of a journal as one JSON list, and of all that its blobs hold, by a sample of SAMPLE of them."""
    with RawJournal(path) as journal, closing(sqlite3.connect(path)) as rows:
        plain = len(json.dumps([{"seq": seq, **event} for seq, event in journal.events()], separators=(",", ":")))
        digests = [digest for (digest,) in rows.execute("SELECT digest FROM blobs ORDER BY digest")]
        sample = digests[::max(len(digests) // SAMPLE, 1)]
        return plain, round(sum(len(journal.blob(digest)) for digest in sample) / len(sample) * len(digests))


def _pace() -> float:
    """How long a second of processor time takes on this machine now: 1 where nobody else wants the processors."""
    began, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < 0.05:
        sum(range(1000))
    return (time.perf_counter() - began) / (time.process_time() - used)


def _say(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)


def measure(folder: Path, sizes: Sizes) -> tuple[Report, dict[str, Any]]:
    """All rows, in one run. Says so, and ends with status 1, where there is no Chromium."""
    program = browser_path()
    if not program:
        sys.exit("no Chromium on this machine: the pages can't be measured; `apt-get install chromium` has one")
    with web_tabs.browsing(program) as browser:
        bench = Bench(folder, sizes, browser)
        return bench.run(), {"chromium": browser.version, "tabs": sizes.tabs, "turns": sizes.turns}


if __name__ == "__main__":
    command_line(__doc__, measure, Sizes(), TINY)
