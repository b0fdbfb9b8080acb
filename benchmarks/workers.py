"""What workers cost: an honest page, PDF and test report, beside the same parser here; and who waits for hostile pages."""

from __future__ import annotations

import asyncio
import io
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.report import Report
from metaflow_agents.documents.markup import html_job
from metaflow_agents.documents.pdf import pdf_job
from metaflow_agents.sandbox.junit import junit_job
from metaflow_agents.workers.pool import POOL, parsed

PAGE = b"<html><head><title>T</title></head><body>" + b"<p>Some words of a page, <a href='/x'>a link</a> and more.</p>" * 1000
CASE = b'<testcase classname="tests.test_a" name="test_%d"/>'
SUITE = b"<testsuite>" + b"".join(CASE % number for number in range(1000)) + b"</testsuite>"
DEEP = b"<div>" * 300_000
BESIDE_SECONDS = 5.0


def pages(count: int) -> bytes:
    """A PDF of so many pages of text."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    font = writer._add_object(DictionaryObject({NameObject(name): NameObject(value) for name, value in (
        ("/Type", "/Font"), ("/Subtype", "/Type1"), ("/BaseFont", "/Helvetica"))}))
    for number in range(count):
        page = writer.add_blank_page(300, 300)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
        stream = DecodedStreamObject()
        stream.set_data(b"BT /F1 12 Tf 20 200 Td (" + b"Some words of page %d. " % number * 10 + b") Tj ET")
        page[NameObject("/Contents")] = writer._add_object(stream)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


async def honest(report: Report, times: int) -> None:
    """What a warm worker adds to each of the three, in turns with the parser in this process; and what the first one costs."""
    cases: dict[str, tuple[bytes, Callable[..., Any], str, dict[str, Any]]] = {
        f"an honest page of {len(PAGE) // 1000} KB": (PAGE, html_job, "html", {}),
        "an honest PDF of 20 pages": (pages(20), pdf_job, "pdf", {}),
        "a test report of 1,000 cases": (SUITE, junit_job, "junit", {"exit_code": 0, "file": "r.xml"}),
    }
    for name, (data, here, job, arguments) in cases.items():
        POOL.close()
        first = await _seconds(parsed(job, data, **arguments))
        here(data, **arguments)
        alone, inside = [], []
        for _ in range(4 * times):
            begun = time.perf_counter()
            here(data, **arguments)
            alone.append(time.perf_counter() - begun)
            inside.append(await _seconds(parsed(job, data, **arguments)))
        there, own = statistics.median(inside), statistics.median(alone)
        report.add(f"{name}: added by a warm worker", 1000 * (there - own), "ms",
                   f"{1000 * own:.1f} ms in this process, {1000 * there:.1f} ms by a worker", bound=50)
        report.add(f"{name}: the first one, with the worker's start", 1000 * first, "ms")


async def beside(report: Report, count: int) -> None:
    """By how much timers of the same process are late while so many hostile pages are parsed."""
    tasks = [asyncio.ensure_future(parsed("html", DEEP)) for _ in range(count)]
    loop, worst, until = asyncio.get_running_loop(), 0.0, time.monotonic() + BESIDE_SECONDS
    while time.monotonic() < until:
        due = loop.time() + 0.01
        await asyncio.sleep(0.01)
        worst = max(worst, loop.time() - due)
    for task in tasks:
        task.cancel()
    begun = time.perf_counter()
    await asyncio.wait(tasks)
    report.add(f"{count} hostile pages at once: the latest timer beside them", 1000 * worst, "ms", bound=200)
    report.add(f"{count} hostile pages at once: until all of them are cancelled", time.perf_counter() - begun, "s", bound=1)


async def _seconds(work: Awaitable[Any]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun
