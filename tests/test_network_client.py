"""What a fetch gives back, and what it does not take along."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from network_site import KEY, Site, granting, keys

from metaflow_agents.errors import FetchFailed, FetchRefused
from metaflow_agents.network.client import FetchLimits, FetchRequest, _Gzip, fetch
from metaflow_agents.network.hosts import NetworkPlace, parse

EVERYTHING = granting(["*"])


async def test_what_comes_back() -> None:
    async with Site({"/a?b=c": {"body": "<p>hi</p>", "gzip": True}}) as site:
        got = await fetch(FetchRequest("https://open.example.com/a?b=c"), granted=EVERYTHING, guard=site.guard(), tls=site.tls)
    assert (got.status, got.body, got.url, got.cut) == (200, b"<p>hi</p>", "https://open.example.com/a?b=c", False)
    assert ("content-encoding", "gzip") in got.headers


@pytest.mark.parametrize(("status", "method", "line", "body"), [
    (301, "POST", "GET /there HTTP/1.1", b""), (302, "POST", "GET /there HTTP/1.1", b""),
    (303, "PUT", "GET /there HTTP/1.1", b""),
    (303, "HEAD", "HEAD /there HTTP/1.1", b""), (307, "POST", "POST /there HTTP/1.1", b"data"),
    (308, "PUT", "PUT /there HTTP/1.1", b"data"), (302, "PUT", "PUT /there HTTP/1.1", b"data"),
])
async def test_methods_over_redirects(status: int, method: str, line: str, body: bytes) -> None:
    async with Site({"/": {"status": status, "location": "/there"}}) as site:
        sent = None if method == "HEAD" else b"data"
        await fetch(FetchRequest("https://open.example.com/", method, {"Content-Type": "text/plain"}, sent), granted=EVERYTHING,
                    guard=site.guard(), tls=site.tls)
    assert (site.seen[-1].line, site.seen[-1].body) == (line, body)
    assert ("content-type" in site.seen[-1].headers.lower()) == (body != b"" or method == "HEAD")


async def test_a_name_is_asked_for_once_however_many_fetch_it() -> None:
    async with Site() as site:
        guard = site.guard()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(fetch(FetchRequest("https://open.example.com/"), granted=EVERYTHING, guard=guard, tls=site.tls))
    assert site.asked == {"open.example.com": 1}


async def test_what_is_not_granted_is_not_even_resolved() -> None:
    async with Site() as site:
        with pytest.raises(FetchRefused):
            await fetch(FetchRequest("https://data-that-leaks.example/"), granted=granting([]), guard=site.guard(), tls=site.tls)
    assert not site.asked


async def test_time_does_not_run_while_a_person_is_asked() -> None:
    async def slow(place: NetworkPlace) -> None:
        await asyncio.sleep(0.4)

    async with Site() as site:
        got = await fetch(FetchRequest("https://open.example.com/"), granted=slow, guard=site.guard(), tls=site.tls,
                          limits=FetchLimits(seconds=0.39))
    assert got.status == 200


async def test_with_a_key_there_are_no_ranges() -> None:
    async with Site() as site:
        for host in ("api", "open"):
            await fetch(FetchRequest(f"https://{host}.example.com/", headers={"Range": "bytes=0-3"}), granted=EVERYTHING,
                        guard=site.guard(), headers_for=keys, tls=site.tls)
    assert ["Range" in seen.headers for seen in site.seen] == [False, True]


async def test_a_key_does_not_leave_in_a_redirect() -> None:
    async with Site({"/": {"status": 302, "location": f"https://other.example.com/?q={KEY}"}}) as site:
        got = await fetch(FetchRequest("https://api.example.com/"), granted=EVERYTHING, guard=site.guard(), headers_for=keys,
                          tls=site.tls)
    assert KEY not in got.url and KEY not in site.seen[-1].line


@pytest.mark.parametrize("cap", [1, 40, 60, 80, 100])
async def test_a_cap_does_not_leave_half_a_key(cap: int) -> None:
    async with Site({"/": {"echo": True}}) as site:
        got = await fetch(FetchRequest("https://api.example.com/"), granted=EVERYTHING, guard=site.guard(), headers_for=keys,
                          limits=FetchLimits(body=cap), tls=site.tls)
    assert got.cut and len(got.body) == cap and b"sk-pl" not in got.body and b"Bear" not in got.body


async def test_localhost_granted_by_a_person() -> None:
    async with Site({"/": {"body": "here"}}) as site:
        port = site.server_of(("", 80))[1]
        place = parse(f"http://localhost:{port}/")
        guard = site.guard([place.authority])
        site.server_of = lambda address: ("127.0.0.1", address[1])         # type: ignore[method-assign]
        got = await fetch(FetchRequest(place.url), granted=EVERYTHING, guard=guard)
    assert got.body == b"here"


async def test_what_is_packed_is_unpacked_whole_or_refused() -> None:
    data = gzip.compress(b"a" * 10_000) + gzip.compress(b"b" * 10)
    unpack = _Gzip()
    assert b"".join(unpack.fed(data[at:at + 7], 10**6) for at in range(0, len(data), 7)) == b"a" * 10_000 + b"b" * 10
    assert unpack.complete
    cut = _Gzip()
    cut.fed(data[:20], 10**6)
    assert not cut.complete
    assert len(_Gzip().fed(gzip.compress(b"a" * 10**7), 100)) == 100


async def test_a_host_that_is_not_there() -> None:
    async with Site(names={"gone.example.com": [["93.184.215.99"]]}) as site:
        guard = site.guard()
        site.server_of = lambda address: ("127.0.0.1", 1)                  # type: ignore[method-assign]
        with pytest.raises(FetchFailed, match="can't be reached"):
            await fetch(FetchRequest("https://gone.example.com/"), granted=EVERYTHING, guard=guard)
