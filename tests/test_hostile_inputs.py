"""Inputs that somebody wrote to freeze the process: a run beside them is not held up, timeouts and Ctrl-C hold."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cli_desk import SOP, environment
from test_agent_tools import TEXT, Script, calls, sop

from metaflow_agents import run
from metaflow_agents.agent.applying import apply_blocks
from metaflow_agents.agent.blocks import Block, Edit, parse_blocks
from metaflow_agents.agent.tool_executor import MOST_CALLS
from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.kits.research.quotations.marks import find_marks
from metaflow_agents.sandbox.junit import MAX_BYTES, MAX_CASES
from metaflow_agents.sandbox.report import read_junit
from metaflow_agents.workers import pool
from metaflow_agents.workers.jobs import JOBS
from tests.patience import PATIENCE

DEEP = b"<div>" * 300_000                       # no page is nested like that; parsing it takes a minute
CASE = b'<testcase classname="tests.test_a" name="test_x"><failure message="no">E no</failure></testcase>'


@asynccontextmanager
async def page(body: bytes) -> AsyncIterator[str]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listening).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        await runner.cleanup()


async def late(work: Any) -> float:
    """By how many seconds the loop was late at worst, at one of its timers, while this was done; of a delay counts what this
    process worked meanwhile, in all its threads: the rest is the machine's, which may be busy with other tests.
    """
    loop, worst = asyncio.get_running_loop(), 0.0
    task = asyncio.ensure_future(work)
    while not task.done():
        due, worked = loop.time() + 0.02, time.process_time()
        await asyncio.sleep(0.02)
        worst = max(worst, min(loop.time() - due, time.process_time() - worked))
    await task
    return worst


@pytest.mark.one_in(8, always=False)
async def test_a_page_that_takes_too_long_is_told_to_the_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also: the step's timeout is not needed for that, and the loop turns meanwhile. The time is ten seconds for users."""
    assert JOBS["html"].seconds == 10
    monkeypatch.setitem(JOBS, "html", replace(JOBS["html"], seconds=2))
    monkeypatch.setattr(pool, "POOL", pool.Pool())              # without workers that began with another time
    async with page(DEEP) as url:
        model = Script(calls(("fetch", {"url": url})), "done")
        path = sop(tmp_path, TEXT, "fetch", policy=f'{{allow: ["fetch({url}*)"]}}')
        worst = await late(run(path, topic="x", model=model, workspace=None))
    assert "[the page can't be read: is refused: reading it took more than 2 s of processor time" in model.results(1)[0]
    assert worst < 5, "the loop waited for the parser"


@pytest.mark.one_in(8, always=False)
async def test_a_timeout_holds_while_a_page_is_parsed(tmp_path: Path) -> None:
    async with page(DEEP) as url:
        model = Script(calls(("fetch", {"url": url})), "done")
        path = sop(tmp_path, TEXT, "fetch", policy=f'{{allow: ["fetch({url}*)"]}}')
        path.write_text(path.read_text().replace("makes: note", "makes: note, timeout: 1s"))
        begun = time.monotonic()
        result = await run(path, topic="x", model=model, workspace=None)
    assert not result.ok and "1s" in result.reason.replace("1 s", "1s") and time.monotonic() - begun < 9


@pytest.mark.parametrize("xml, told", [
    (b"<testsuite>" + CASE * (MAX_BYTES // len(CASE) + 1) + b"</testsuite>", "bytes, and a test report may have 4,000,000"),
    (b"<testsuite>" + b"<testcase/>" * (MAX_CASES + 1) + b"</testsuite>", "holds more than 10,000 test cases"),
])
async def test_a_report_beyond_its_bounds_is_a_fault(xml: bytes, told: str) -> None:
    with pytest.raises(AnswerInvalid, match=told):
        await read_junit(xml, 1, "r.xml")


async def test_a_report_within_them_is_read() -> None:
    found = await read_junit(b"<testsuite>" + CASE * 9000 + b"</testsuite>", 1, "r.xml")
    assert found["total"] == found["failed"] == 9000


async def test_the_calls_of_a_turn_are_capped_and_the_role_hears_it(tmp_path: Path) -> None:
    many = 500
    model = Script(calls(*[("read", {"path": f"a{number}"}) for number in range(many)]), "done")
    assert (await run(sop(tmp_path, TEXT, "read"), topic="x", model=model, workspace=None)).ok
    told = model.results(1)
    assert len(told) == many and "there is no file `a0`" in told[0] and "there is no file" in told[MOST_CALLS - 1]
    assert set(told[MOST_CALLS:]) == {"`read` was not called: a turn has 200 calls at most, and had 500; call it in the next one"}


def _edit(search: list[str], lines: list[str]) -> None:
    apply_blocks([Block("edit", "a.py", 1, edits=(Edit(tuple(search), ("x",), 1),))], {"a.py": "\n".join(lines)}, ["**"])


WORDS = "alpha beta gamma delta self return value if else for in range".split()
LINES = [" ".join(WORDS[(number * step) % 12] for step in range(1, 9)) for number in range(361)]
FREEZING: dict[str, Callable[[], object]] = {
    "a header and spaces": lambda: parse_blocks("=== x: " + " " * 30_000),
    "an edit that fits nowhere": lambda: _edit([f"{line} no" for line in LINES[40:100]], LINES),
    "quotations that open": lambda: find_marks("“" * 20_000),
}


@pytest.mark.parametrize("name", FREEZING)
def test_what_froze_the_process_takes_no_time(name: str) -> None:
    """28, 149 and 62 s before; now milliseconds."""
    begun = time.process_time()
    try:
        FREEZING[name]()
    except AnswerInvalid:
        pass
    assert time.process_time() - begun < 5


def test_an_edit_that_fits_nowhere_is_still_told_where_it_nearly_fits() -> None:
    with pytest.raises(AnswerInvalid, match=r"SEARCH is not in the file; nearest, at its line 41:"):
        lines = [f"{line} {number}" for number, line in enumerate(LINES)]
        _edit([line.replace("self", "this") for line in lines[40:100]], lines)


@pytest.mark.one_in(8)
def test_ctrl_c_holds_while_pages_are_parsed(tmp_path: Path) -> None:
    """A real process, whose documents are three pages that each take all the time they are given."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.html").write_bytes(DEEP)
    (tmp_path / "reads.yaml").write_text(
        "sop: reads\ninputs: {documents: folder}\nartifacts:\n"
        "  sources: {schema: {$schema: 'https://json-schema.org/draft/2020-12/schema', type: object}}\nsteps:\n"
        "  s: {call: 'metaflow_agents.research.steps:read_documents', needs: [documents],\n"
        "      args: {unreadable: stop}, makes: sources}\n")
    with subprocess.Popen([*SOP, "run", "reads.yaml", "--documents", str(folder)], cwd=tmp_path, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            assert process.stdout.readline(), process.stderr.read().decode()
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            begun = time.monotonic()
            assert process.wait(PATIENCE) == 130
            assert time.monotonic() - begun < 6, "it waited for the parser, which has 10 s for each page"
        finally:
            process.kill()


@pytest.mark.slow
async def test_twenty_hostile_inputs_hold_up_nobody(tmp_path: Path) -> None:
    """Line 4 of the issue: another run in the same process misses no deadline by more than 200 ms (here generously: 1 s)."""
    async with page(DEEP) as url:
        async def hostile(number: int) -> None:
            folder = tmp_path / str(number)
            folder.mkdir()
            wanted = [("fetch", {"url": url})] if number % 2 else [("read", {"path": "x" * 30_000}), *[("list", {})] * 500]
            model = Script(calls(*wanted), "=== x: " + " " * 30_000 + "“" * 20_000)
            path = sop(folder, TEXT, "fetch, read, list", policy=f'{{allow: ["fetch({url}*)", "read(*)"]}}')
            await run(path, topic="x", model=model, workspace=None)

        worst = await late(asyncio.wait([asyncio.ensure_future(hostile(number)) for number in range(20)], timeout=40))
    assert worst < 1


