"""Every case of `network.yaml`, against real servers on loopback."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from network_site import CALLERS_OWN, KEY, Site, Told, granting, keys

from metaflow_agents.errors import FetchFailed, FetchRefused, UsageError
from metaflow_agents.network import bridge
from metaflow_agents.network.client import FetchLimits, FetchRequest, fetch
from metaflow_agents.network.guard import Guard
from metaflow_agents.network.hosts import parse
from metaflow_agents.network.passing import ProxyLimits
from metaflow_agents.network.proxy import Proxy

TABLE: dict[str, list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("network.yaml").read_text(encoding="utf-8"))
LIMITS = ProxyLimits(body=1_000_000, passed=1_000_000, head=2.0, seconds=20.0)
PROXIED = {"/echo": {"echo": True}, "/echo-gzip": {"echo": True, "gzip": True}, "/large": {"size": 5_000_000}}
GRANTED = ("http://open.example.com", "https://open.example.com", "https://api.example.com", "http://metadata.example.com",
           "https://inside.example.com", "http://127.0.0.1:8009")


def rows(kind: str) -> Any:
    return pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in TABLE[kind]])


def test_every_kind_is_run_and_every_case_is_whole() -> None:
    run = {mark.args[1][0].values[0]["id"] for name, test in globals().items() if name.startswith("test_")
           for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"}
    assert run == {each[0]["id"] for each in TABLE.values()}
    every = [row for each in TABLE.values() for row in each]
    assert len({row["id"] for row in every}) == len(every) >= 20
    assert all({"id", "owasp", "what", "expected"} <= set(row) for row in every)


@rows("url")
def test_url(row: dict[str, Any]) -> None:
    if row["expected"] == "refused":
        with pytest.raises(FetchRefused) as refused:
            parse(row["url"])
        assert row["why"] in str(refused.value)
        assert str(refused.value).isascii() and str(refused.value).isprintable()
    else:
        place = parse(row["url"])
        assert f"{place.scheme}://{place.authority}{place.path}{'?' if place.query else ''}{place.query}" == row["place"]
        assert parse(place.url) == place


@rows("resolve")
async def test_resolve(row: dict[str, Any]) -> None:
    async def resolve(host: str) -> list[str]:
        return list(row["addresses"])

    async def pin() -> None:
        await Guard(row.get("private", ()), resolve=resolve).pin(parse(row["url"]))

    if row["expected"] == "reached":
        await pin()
        return
    with pytest.raises((FetchRefused, UsageError)) as refused:
        await pin()
    assert row["why"] in str(refused.value)


@rows("fetch")
async def test_fetch(row: dict[str, Any]) -> None:
    limits = FetchLimits(seconds=0.6 if row["id"] == "body-slow" else 20.0, body=100_000)
    async with Site(row.get("site", {}), row.get("names", {})) as site:
        request = FetchRequest(row["url"], row.get("method", "GET"), row.get("headers", {}))
        told = ""
        try:
            answer = await fetch(request, granted=granting(row["granted"]), guard=site.guard(), headers_for=keys, limits=limits,
                                 tls=site.tls)
        except FetchFailed as error:
            outcome = "refused" if isinstance(error, FetchRefused) else "failed"
            told = "".join(traceback.format_exception(error))
            assert row["why"] in str(error)
        else:
            outcome = "cut" if answer.cut else "reached"
            assert len(answer.body) <= limits.body
            told = repr(answer)
    assert outcome == row["expected"], told
    assert site.dialled == row.get("dialled", site.dialled)
    assert site.keys_at() == row.get("keys_at", site.keys_at())
    assert KEY not in told and CALLERS_OWN not in told.replace(repr(request), "")


@asynccontextmanager
async def proxied(site: Site) -> AsyncIterator[tuple[Proxy, Told]]:
    told = Told()
    with tempfile.TemporaryDirectory(prefix="sop-proxy-") as folder:
        async with Proxy(Path(folder), granted=granting(GRANTED), guard=site.guard(), headers_for=keys, decided=told,
                         limits=LIMITS, tls=site.tls) as proxy:
            yield proxy, told


async def read_all(reader: asyncio.StreamReader) -> bytes:
    whole = b""
    with suppress(OSError, ssl.SSLError):
        while more := await reader.read(65536):
            whole += more
    return whole


def judged(row: dict[str, Any], told: Told) -> None:
    """The last thing that was decided is what the case expects."""
    place, verdict, why = told.all[-1]
    assert {"reached": "allowed"}.get(row["expected"], row["expected"]) == verdict, (place, verdict, why)
    assert row.get("why", "") in why
    assert KEY not in repr(told.all)


@pytest.mark.one_in(4)
@rows("proxy")
async def test_proxy(row: dict[str, Any]) -> None:
    async with Site(PROXIED) as site, proxied(site) as (proxy, told):
        reader, writer = await asyncio.open_unix_connection(proxy.socket)
        with suppress(OSError):
            writer.write(row["send"].encode("latin-1") + b"a" * row.get("fill", 0))
            await writer.drain()
        answer = await read_all(reader)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 %d " % row["status"]), answer[:300]
    judged(row, told)
    assert KEY.encode() not in answer
    assert not [seen for seen in site.seen if "sk-from-inside" in seen.headers or seen.host == "evil.example"]
    assert len(site.seen) == (row["expected"] != "refused" or "keys_at" in row)
    assert site.keys_at() == row.get("keys_at", [])
    assert answer.count(b"HTTP/1.1 ") == 1
    if row["expected"] == "cut":
        assert len(answer) < LIMITS.passed + 1000


def hello(name: str | None) -> bytes:
    """What OpenSSL sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


def split(data: bytes, size: int) -> bytes:
    """The same message in records of a few bytes."""
    message = data[5:]
    parts = [message[at:at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


def with_extension(data: bytes, kind: int) -> bytes:
    """The same hello with one more extension, all lengths right."""
    message = data[9:]
    at = 34
    for size in (1, 2, 1):
        at += size + int.from_bytes(message[at:at + size], "big")
    extensions = message[at + 2:] + kind.to_bytes(2, "big") + b"\0\x04\0\0\0\0"
    message = message[:at] + len(extensions).to_bytes(2, "big") + extensions
    message = b"\x01" + len(message).to_bytes(3, "big") + message
    return data[:3] + len(message).to_bytes(2, "big") + message


@pytest.mark.one_in(4)
@rows("tunnel")
async def test_tunnel(row: dict[str, Any]) -> None:
    async with Site(PROXIED) as site, proxied(site) as (proxy, told):
        reader, writer = await asyncio.open_unix_connection(proxy.socket)
        writer.write(f"CONNECT {row['connect']} HTTP/1.1\r\nHost: {row.get('host', row['connect'])}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        got = b""
        if "then" in row:
            with suppress(OSError, ssl.SSLError):
                got = await then(row["then"], reader, writer, site)
        else:
            await read_all(reader)
        writer.close()
        await asyncio.sleep(0)
    assert head.startswith(b"HTTP/1.1 %d " % row["status"]), head
    judged(row, told)
    if row["expected"] == "refused":
        assert site.seen == [] and site.received == 0 and got == b""
    if row["expected"] == "reached":
        assert got.endswith(b"hello")
    if row["expected"] == "cut":
        assert len(got) < LIMITS.passed + 1000


async def then(what: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, site: Site) -> bytes:
    how, _, name = what.partition(" ")
    if what in ("hello open.example.com", "flood open.example.com"):
        await writer.start_tls(site.tls, server_hostname=name)
        writer.write(f"GET {'/large' if how == 'flood' else '/'} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        return await read_all(reader)
    first = hello(name or None)
    if how == "silence":
        return await read_all(reader)
    writer.write({"hello": first, "split": split(first, 5), "hidden": with_extension(first, 0xFE0D),
                  "plaintext": b"GET / HTTP/1.1\r\nHost: open.example.com\r\n\r\n",
                  "garbage": b"\x16\x03\x01\x00\x08\x01\x00\x00\x04abcd"}[how])
    return await read_all(reader)


ASK = """
import json, os, sys, urllib.request
asked = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:" + sys.argv[1]}))
answers = [asked.open("http://api.example.com" + path).read().decode("latin-1") for path in ("/echo", "/")]
print(json.dumps(answers), flush=True)
sys.stdin.read()
"""


def shown(pid: int) -> Iterator[bytes]:
    for name in ("environ", "cmdline", "maps"):
        yield Path(f"/proc/{pid}/{name}").read_bytes()


@pytest.mark.one_in(4)
@rows("inside")
async def test_inside(row: dict[str, Any]) -> None:
    async with Site(PROXIED) as site, proxied(site) as (proxy, told):
        ready, tell = os.pipe()
        passer = await asyncio.create_subprocess_exec(sys.executable, "-I", bridge.__file__, str(proxy.socket), "0", str(tell),
                                                      env={}, pass_fds=[tell])
        os.close(tell)
        port = (await asyncio.to_thread(os.read, ready, 16)).decode().strip()
        os.close(ready)
        asker = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", ASK, port, env={}, stdin=asyncio.subprocess.PIPE,
                                                     stdout=asyncio.subprocess.PIPE)
        assert asker.stdout is not None
        answers = await asker.stdout.readline()
        try:
            looked = {"processes": lambda: [*shown(asker.pid), *shown(passer.pid)], "answers": lambda: [answers],
                      "folder": lambda: [path.name.encode() for path in proxy.socket.parent.iterdir()]}[row["look"]]()
        finally:
            passer.kill()
            await asker.communicate(b"")
            await passer.wait()
    assert b"****" in answers and b"hello" in answers
    assert site.keys_at() == ["api.example.com"], "the key was used"
    assert all(verdict == "allowed" for _, verdict, _ in told.all)
    assert ("unseen" if KEY.encode() not in b"".join(looked) else "seen") == row["expected"]
    if row["look"] == "folder":
        assert looked == [b"proxy.sock"]
