"""MCP servers as real processes: what roles get of them, and what becomes of the processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from mcp_desk import HERE, SECRETS, alive, called, gone, good, misbehaving, odd, opened, said, setting, until

from metaflow_agents.errors import RunError, UsageError
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.tools import ServerSpec
from metaflow_agents.tools import mcp_connection
from metaflow_agents.tools.mcp import McpServer
from metaflow_agents.tools.mcp_result import LONGEST_RESULT


@pytest.mark.one_in(8)
async def test_tools_are_listed_and_called() -> None:
    async with opened(good()) as tools:
        assert [*tools][:3] == ["echo", "add", "fail"]
        echo = tools["echo"]
        assert (echo.name, echo.description) == ("good.echo", "Says it again.")
        assert echo.parameters["required"] == ["text"]
        assert echo.action({"text": "x"}) == Action("mcp", "good.echo") and echo.action({}).acting
        told = await called(echo, text="grüß dich")
        assert (told.text, told.error, told.untrusted) == ("grüß dich", False, "from the MCP server good")
        assert json.loads((await called(tools["add"], a=2, b=3)).text) == {"sum": 5}
        wrong = await called(tools["fail"], why="no paper")
        assert wrong.error and "no paper" in wrong.text and wrong.untrusted


@pytest.mark.one_in(8)
async def test_what_is_no_text_is_named() -> None:
    async with opened(good()) as tools:
        assert (await called(tools["picture"])).text == (
            "a cat:\n\n[image, image/png, 102 bytes: not shown]\n\n[the resource file:///cat.txt, text/plain]\npurr")


@pytest.mark.one_in(8)
async def test_a_long_result_is_cut_and_says_so() -> None:
    async with opened(good()) as tools:
        told = (await called(tools["huge"], characters=LONGEST_RESULT + 1234)).text
    assert told.endswith("\n… cut: 1,234 more characters") and told.count("x") == LONGEST_RESULT


@pytest.mark.one_in(8)
async def test_the_environment_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_SECRET", "do not tell")
    monkeypatch.setenv("LOGNAME", "somebody")
    async with opened(good(env={"MINE": "is ${KEY}", "MODE": "quiet"})) as tools:
        told = await called(tools["environment"])
    got = json.loads(told.text)
    assert {name for name in got if name not in ("LC_CTYPE", "SOP_MCP_SERVER")} == {"PATH", "MINE", "MODE"}
    assert got["MINE"] == "is [secret KEY]" and SECRETS["KEY"] not in told.text


@pytest.mark.one_in(16)
async def test_it_runs_where_the_sop_says(tmp_path: Path) -> None:
    async with opened(good()) as tools:
        assert (await called(tools["where"])).text == str(HERE)
    async with opened(good(cwd=str(tmp_path))) as tools:
        assert (await called(tools["where"])).text == str(tmp_path)


@pytest.mark.one_in(16)
async def test_effects_are_what_the_sop_says() -> None:
    async with opened(good(effects={"*": "idempotent", "echo": "none"})) as tools:
        assert (tools["echo"].effect({}), tools["add"].effect({})) == ("none", "idempotent")
    async with opened(good(effects={"ec*": "none"})) as tools:
        assert (tools["echo"].effect({}), tools["add"].effect({})) == ("none", "once")


# -- one server a run


@pytest.mark.one_in(8)
async def test_many_first_uses_start_one() -> None:
    server = good()
    async with server.opened():
        lists = await asyncio.gather(*(server.tools() for _ in range(5)))
        assert all(len(tools) == len(lists[0]) for tools in lists)
        pids = await asyncio.gather(*(server.call("pid", {}) for _ in range(8)))
    assert len({told.text for told in pids}) == 1


async def test_it_starts_at_its_first_use(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    server = McpServer("lazy", ServerSpec(command="touch", args=(str(touched),)), setting())
    async with server.opened():
        await asyncio.sleep(0.1)
        assert not touched.exists()
        with pytest.raises(RunError, match="the MCP server lazy: it ended with exit code 0"):
            await server.tools()
        assert touched.exists()


async def test_outside_of_opened_it_is_not_used() -> None:
    with pytest.raises(RuntimeError, match="outside of `opened`"):
        await good().tools()


# -- ends


@pytest.mark.one_in(16)
async def test_leaving_ends_it_and_all_it_started() -> None:
    server = good()
    async with opened(server) as tools:
        pids = [int((await called(tools["pid"])).text), *map(int, (await called(tools["children"])).text.split())]
        assert len(pids) == 5 and all(map(alive, pids))
    assert await gone(*pids)


@pytest.mark.one_in(8)
async def test_one_that_does_not_go_is_killed() -> None:
    async with opened(good()) as tools:
        pid = int((await called(tools["stubborn"])).text)
        assert alive(pid)
    assert await gone(pid)


@pytest.mark.one_in(3)
async def test_one_that_hangs_is_killed(tmp_path: Path) -> None:
    async with opened(misbehaving(tmp_path, "children", "deaf", timeout=0.5)) as tools:
        child = int((await called(tools["children"])).text.split()[1])
        slow = await called(tools["deaf"])
        assert slow.error and "the MCP server odd: it did not answer within 0.5 s" in slow.text
        assert alive(child)
    assert await gone(child)


@pytest.mark.one_in(8)
async def test_a_cancelled_run_leaves_nothing(tmp_path: Path) -> None:
    pids: list[int] = []
    note = tmp_path / "note"

    async def run() -> None:
        async with opened(good()) as tools:
            pids.extend([int((await called(tools["pid"])).text), *map(int, (await called(tools["children"])).text.split())])
            await called(tools["slow"], seconds=60, note=str(note))

    task = asyncio.create_task(run())
    await until(note.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(*pids)


@pytest.mark.one_in(8)
async def test_cancelled_again_and_again_it_still_leaves_nothing() -> None:
    pids: list[int] = []

    async def run() -> None:
        async with opened(good()) as tools:
            pids.append(int((await called(tools["stubborn"])).text))
            await asyncio.sleep(60)

    task = asyncio.create_task(run())
    await until(lambda: pids)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    assert await gone(*pids)


@pytest.mark.one_in(4)
async def test_a_run_that_is_cancelled_while_it_starts(tmp_path: Path) -> None:
    server = McpServer("sleepy", ServerSpec(command="sh", args=("-c", f"echo $$ > {tmp_path}/pid; sleep 300")), setting())

    async def run() -> None:
        async with server.opened():
            await server.tools()

    task = asyncio.create_task(run())
    await until(lambda: said(tmp_path / "pid"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int((tmp_path / "pid").read_text()))


# -- what goes wrong


@pytest.mark.one_in(12)
async def test_a_slow_call_is_told_and_called_off(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with opened(good(timeout=1)) as tools:
        slow = await called(tools["slow"], seconds=60, note=str(note))
        assert slow.error and slow.untrusted
        assert slow.text == ("the MCP server good: it did not answer within 1 s. Whether the call had its effect is not known.")
        await until(lambda: said(note) == "cancelled")
        assert (await called(tools["echo"], text="still there")).text == "still there"


@pytest.mark.one_in(8)
async def test_a_cancelled_call_is_called_off(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with opened(good()) as tools:
        call = asyncio.create_task(called(tools["slow"], seconds=60, note=str(note)))
        await until(note.exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: said(note) == "cancelled")
        assert (await called(tools["echo"], text="still there")).text == "still there"


@pytest.mark.one_in(12, always=False)
async def test_one_that_dies_is_told_and_started_once_more() -> None:
    async with opened(good()) as tools:
        first = int((await called(tools["pid"])).text)
        children = [int(pid) for pid in (await called(tools["children"])).text.split()]
        died = await called(tools["crash"], said=f"out of paper {SECRETS['KEY']}")
        assert died.error and died.untrusted
        assert "the MCP server good: it ended with exit code 3. Whether the call had its effect is not known. " in died.text
        assert "The next call starts it once more. It said last:" in died.text and "out of paper" in died.text
        assert await gone(first, *children)
        second = int((await called(tools["pid"])).text)
        assert second != first
        assert "It is not started again in this run." in (await called(tools["crash"], said="again")).text
        assert "It is not started again in this run." in (await called(tools["pid"])).text


@pytest.mark.one_in(8)
async def test_one_that_died_meanwhile_is_told_first() -> None:
    async with opened(good()) as tools:
        pid = int((await called(tools["pid"])).text)
        os.kill(pid, signal.SIGKILL)
        assert await gone(pid)
        told = await called(tools["echo"], text="anybody?")
        assert told.error and "the MCP server good: it was ended by signal 9" in told.text and "starts it once more" in told.text
        assert (await called(tools["echo"], text="anybody?")).text == "anybody?"


async def test_one_that_can_not_be_started() -> None:
    server = McpServer("absent", ServerSpec(command="no-such-program"), setting())
    async with server.opened():
        with pytest.raises(RunError, match=r"the MCP server absent: can't start `no-such-program`: .* install it"):
            await server.tools()
    server = McpServer("astray", ServerSpec(command=sys.executable, cwd="nowhere"), setting())
    async with server.opened():
        with pytest.raises(RunError, match="nowhere is not there"):
            await server.tools()


@pytest.mark.one_in(4)
async def test_one_that_does_not_greet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.tools.mcp.CALL_SECONDS", 0.3)
    server = McpServer("mute", ServerSpec(command="sleep", args=("300",)), setting())
    async with server.opened():
        with pytest.raises(RunError, match=r"the MCP server mute: it did not answer within 0\.3 s of its start"):
            await server.tools()


async def test_a_secret_that_is_not_set() -> None:
    server = good(env={"TOKEN": "${NOBODYS}"})
    async with server.opened():
        with pytest.raises(UsageError, match="NOBODYS is not set"):
            await server.tools()


@pytest.mark.parametrize("spec", [{}, {"command": "x", "url": "http://127.0.0.1:1/"}])
def test_one_that_is_reached_in_no_way_or_two(spec: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="either `command`"):
        McpServer("lost", ServerSpec(**spec), setting())


async def test_pages_of_the_list_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "_PAGES", 1)
    server = misbehaving(tmp_path, "one", "two")
    async with server.opened():
        with pytest.raises(RunError, match="more than 1 pages"):
            await server.tools()


async def test_the_number_of_tools_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.tools.mcp_listing.MOST_TOOLS", 3)
    server = misbehaving(tmp_path, *(f"tool_{number}" for number in range(5)))
    async with opened(server) as tools:
        assert [*tools] == ["tool_0", "tool_1", "tool_2"]
    assert set(server.refused) == {"tool_3", "tool_4"} and "more than" in server.refused["tool_3"]


async def test_chatter_between_messages_is_no_harm(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with opened(odd(tmp_path, [{"name": "chatter", "inputSchema": {"type": "object"}}])) as tools:
            assert (await called(tools["chatter"])).text == "still here"


async def test_nothing_of_a_server_reaches_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with opened(misbehaving(tmp_path, "chatter", "nonsense", "crash")) as tools:
        for tool in tools.values():
            await called(tool)
    seen = capfd.readouterr()
    assert (seen.out, seen.err) == ("", "")
