"""The proxy as a whole: its life, its limits, and what tears it down."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from network_site import Site, Told, granting, keys

from metaflow_agents.errors import RunError
from metaflow_agents.network import bridge
from metaflow_agents.network.hosts import NetworkPlace
from metaflow_agents.network.passing import ProxyLimits
from metaflow_agents.network.proxy import Proxy

GET = b"GET http://open.example.com/ HTTP/1.1\r\nHost: open.example.com\r\n\r\n"


def opened(site: Site, folder: Path, told: Told, **more: Any) -> Proxy:
    return Proxy(folder, **{"granted": granting(["http://open.example.com"]), "guard": site.guard(), "headers_for": keys,
                            "decided": told, "tls": site.tls} | more)


async def asked(path: Path, data: bytes = GET) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_the_socket_is_ours_alone_and_gone_at_the_end(tmp_path: Path) -> None:
    async with Site() as site:
        async with opened(site, tmp_path, Told()) as proxy:
            assert os.stat(proxy.socket).st_mode & 0o777 == 0o600
        assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives a socket to another user")
async def test_the_socket_of_another_user(tmp_path: Path) -> None:
    async with Site() as site, opened(site, tmp_path, Told(), owner=65533) as proxy:
        assert os.stat(proxy.socket).st_uid == 65533


async def test_a_folder_that_is_too_long_or_not_there(tmp_path: Path) -> None:
    async with Site() as site:
        for folder in (tmp_path / ("x" * 120), tmp_path / "nowhere"):
            with pytest.raises(RunError, match=r"sock"):
                async with opened(site, folder, Told()):
                    pass


async def test_what_lies_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "proxy.sock").write_text("mine")
    async with Site() as site:
        with pytest.raises(RunError):
            async with opened(site, tmp_path, Told()):
                pass
    assert (tmp_path / "proxy.sock").read_text() == "mine"


async def test_too_many_connections_are_told_so(tmp_path: Path) -> None:
    async with Site() as site, opened(site, tmp_path, Told(), limits=ProxyLimits(connections=2)) as proxy:
        waiting = [await asyncio.open_unix_connection(proxy.socket) for _ in range(2)]
        assert (await asked(proxy.socket, b"")).startswith(b"HTTP/1.1 503 ")
        for _, writer in waiting:
            writer.close()


async def test_connections_end_with_the_proxy(tmp_path: Path) -> None:
    async with Site({"/": {"endless": True}}) as site:
        async with opened(site, tmp_path, Told()) as proxy:
            reader, writer = await asyncio.open_unix_connection(proxy.socket)
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        with suppress(OSError):
            await reader.read()
        writer.close()


async def test_what_is_no_refusal_reaches_who_opened_it(tmp_path: Path) -> None:
    class Parked(Exception):
        pass

    async def granted(place: NetworkPlace) -> None:
        raise Parked

    async with Site() as site:
        with pytest.raises(ExceptionGroup) as raised:
            async with opened(site, tmp_path, Told(), granted=granted) as proxy:
                await asked(proxy.socket)
                await asyncio.Event().wait()
        assert raised.group_contains(Parked)
    assert os.listdir(tmp_path) == []


async def test_a_body_is_passed_on_and_an_upload_may_ask_first(tmp_path: Path) -> None:
    async with Site() as site, opened(site, tmp_path, Told()) as proxy:
        reader, writer = await asyncio.open_unix_connection(proxy.socket)
        writer.write(b"POST http://open.example.com/ HTTP/1.1\r\nHost: open.example.com\r\nTransfer-Encoding: chunked\r\n"
                     b"Expect: 100-continue\r\nConnection: X-Mine\r\nX-Mine: 1\r\nX-Other: 2\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 100")
        writer.write(b"5\r\nhello\r\n0\r\n\r\n")
        assert (await reader.read()).endswith(b"hello")
        writer.close()
    assert site.seen[0].body == b"hello"
    assert "X-Mine" not in site.seen[0].headers.title() and "X-Other" in site.seen[0].headers.title()


@asynccontextmanager
async def bridged(path: Path) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    ready, tell = os.pipe()
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", bridge.__file__, str(path), "0", str(tell), env={},
                                                   pass_fds=[tell])
    os.close(tell)
    try:
        yield int(await asyncio.to_thread(os.read, ready, 16)), process
    finally:
        os.close(ready)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_the_bridge_passes_large_answers_to_many_at_once(tmp_path: Path) -> None:
    async with (Site({"/": {"size": 1_000_000}}) as site, opened(site, tmp_path, Told()) as proxy,
                bridged(proxy.socket) as (port, _)):
        async def one() -> int:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            got = await reader.read()
            writer.close()
            return len(got.partition(b"\r\n\r\n")[2])

        assert await asyncio.gather(*(one() for _ in range(12))) == [1_000_000] * 12


async def test_the_bridge_outlives_a_proxy_that_is_gone(tmp_path: Path) -> None:
    async with bridged(tmp_path / "proxy.sock") as (port, process):
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with suppress(OSError):
                assert await reader.read() == b""
            writer.close()
        assert process.returncode is None


async def test_the_bridge_ends_with_its_parent(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c",
        "import os, subprocess, sys\n"
        "ready, tell = os.pipe()\n"
        "child = subprocess.Popen([sys.executable, '-I', sys.argv[1], sys.argv[2], '0', str(tell)], pass_fds=[tell])\n"
        "os.read(ready, 16)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n",
        bridge.__file__, str(tmp_path / "proxy.sock"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    gone = os.pidfd_open(child)
    parent.kill()
    await parent.wait()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(gone, ended.set)
    async with asyncio.timeout(20):
        await ended.wait()
    asyncio.get_running_loop().remove_reader(gone)
    os.close(gone)


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b"], ["a", "1", "2", "3"]])
async def test_the_bridge_says_how_it_is_used(arguments: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", bridge.__file__, *arguments,
                                                   stderr=asyncio.subprocess.PIPE)
    _, told = await process.communicate()
    assert process.returncode == 1 and told.startswith(b"usage: ")
