"""The benchmarks run and print every row that their documentation names; what the figures are is not judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from sandboxes import LACKING
from tiers import ALL, some
from web_browser import NO_BROWSER

from benchmarks.overhead import endpoint

TOP = Path(__file__).resolve().parent.parent
NAMES = ("engine", "worst", "overhead", "memory", *(() if LACKING else ("sandbox",)), *(() if NO_BROWSER else ("web",)))
WEB = {
    "the tab: JavaScript's heap, all views seen": 200, "the tab: its process, all views seen": 200,
    "the server: memory after N further looks": 1.1, "N events: beside a short run, again": 1.5, "N events: first payload": 1,
    "N items live, one tab: behind by, at worst": 1, "N items live, N tabs: behind by, at worst": 5,
    "N items live, N tabs: the N that stream, at worst": 1, "N events: to the end of the time line": 1,
    **{f"N events: {what}, {when}": 1 for what in ("first paint", "its graph is there") for when in ("first look", "again")},
    **{f"N events: {view} opened, {when}": 1 for view in ("time line", "conversation", "artifacts", "graph")
       for when in ("first", "again")}}
README = (TOP / "benchmarks/README.md").read_text(encoding="utf-8")


def without_sizes(name: str) -> str:
    """A row's name without what another machine has another of: sizes, and the sandboxes that hold there."""
    return re.sub(r"\d[\d,]*", "N", re.sub(r" in (bubblewrap|landlock|container):", " in a sandbox:", name)).replace("`", "")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Of all benchmarks in the full tier; else of one, another one with each seed."""
    found: dict[str, dict[str, Any]] = {}
    for name in some(NAMES, 5):
        folder = tmp_path_factory.mktemp("bench")
        command = [sys.executable, "-m", f"benchmarks.{name}", "--tiny", "--json", "--folder", str(folder)]
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert list(folder.iterdir()) == [], "what it writes is removed"
        found[name] = json.loads(done.stdout)
    return found


@pytest.mark.one_in(10)
def test_every_row_is_explained(reports: dict[str, dict[str, Any]]) -> None:
    rows = {without_sizes(row["name"]) for report in reports.values() for row in report["rows"]}
    explained = {without_sizes(name) for name in re.findall(r"^\| (.+?) \|", README, re.MULTILINE)} - {"row", "---"}
    assert rows == explained if ALL and not LACKING and not NO_BROWSER else rows and rows <= explained


@pytest.mark.one_in(10)
def test_rows_have_figures_and_bounds(reports: dict[str, dict[str, Any]]) -> None:
    rows = [row for report in reports.values() for row in report["rows"]]
    assert all(row["figure"] is not None and row["unit"] for row in rows)
    bounds = {without_sizes(row["name"]): row["bound"] for row in rows if row["bound"] is not None}
    known = {
        "sop --help": 2, "sop check design_first.yaml": 3.5, "N activations: resume": 5, "N activations: sop log": 1,
        "N activations: sop show": 1, "N activations: resumed, to its first new firing or call": 5,
        "hostile files: the slowest check": 1, "hostile files: most memory": 200,
        "an honest page of N KB: added by a warm worker": 50, "an honest PDF of N pages: added by a warm worker": 50,
        "a test report of N cases: added by a warm worker": 50, "N hostile pages at once: the latest timer beside them": 200,
        "a conversation of N rounds: its journal": 3,
        "N hostile pages at once: until all of them are cancelled": 1,
        "(a) four roles in turn, one long run: CPU a call": 0.7,
        "(f) runs of four calls, in memory: CPU a call": 1, "(g) runs of four calls, durable: CPU a call": 1.6,
        "(g) the same beside LangGraph: CPU a call": 0.75, "(g) the same beside LangGraph: time a call": 0.75,
        "(h) memory grown in the second half of them": 16, "(e) N engineers: most memory": 1.2,
        "(b) N engineers at N ms: makespan": 0.75, "(c) N engineers at N ms: makespan": 0.5,
        "(d) from process start to the first request": 1,
        "clustered, hnsw: what of the N nearest it misses": 0.05, "clustered, hnsw: a question": 0.1,
        "a recall by words": 50, "a recall by embeddings": 10,
        **({} if LACKING else {"sandboxed command, added: N of N within": 50}), **({} if NO_BROWSER else WEB)}
    assert bounds == {name: bound for name, bound in known.items() if name in bounds}
    assert bounds == known or not ALL
    assert all({"date", "python", "cores", "load before", "load after"} <= report["facts"].keys() for report in reports.values())


def test_the_endpoint_answers_at_once_or_later_and_tells_of_its_first_request() -> None:
    with endpoint() as url:
        assert asked(f"{url}/first") == [None, 0]
        began = time.monotonic()
        assert chosen(url, 0, "Write.") != chosen(url, 0, "Write.")
        plan = json.loads(chosen(url, 0, "Plan 3 parts."))
        assert [part["id"] for part in plan["parts"]] == ["p0", "p1", "p2"]
        assert chosen(url, 0, "Write the file src/p0.py. It is small.").startswith("=== file: src/p0.py ===\n")
        before = time.monotonic()
        chosen(url, 300, "Write.")
        assert time.monotonic() - before >= 0.3
        first, requests = asked(f"{url}/first")
        assert began <= first <= before and requests == 5


def asked(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=10) as answer:
        return json.load(answer)


def chosen(url: str, wait: int, prompt: str) -> str:
    body = {"model": "mock", "messages": [{"role": "user", "content": prompt}]}
    text: str = asked(f"{url}/{wait}/v1/chat/completions", body)["choices"][0]["message"]["content"]
    return text
