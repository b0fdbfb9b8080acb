"""`fetch` and the way out of commands: granted by rules, keys added here, what comes back is from outside."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from test_agent_tools import TEXT, Script, calls, sop

from metaflow_agents import run, start
from metaflow_agents.cli.told import telling
from metaflow_agents.output.history.standing import Standing
from metaflow_agents.schema.event import Asked, Decided, Done
from metaflow_agents.views.page import Page
from metaflow_agents.views.summary import ending_lines, show_lines


@asynccontextmanager
async def site(host: str = "127.0.0.1") -> AsyncIterator[tuple[int, list[str]]]:
    """A web server on loopback: its port, and what it was asked with which key."""
    heard: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        heard.append(f"{request.method} {request.path_qs} {request.headers.get('X-Key', '-')}")
        if request.path == "/away":
            raise web.HTTPFound("http://127.0.0.1:8099/secret")
        if request.path == "/page":
            return web.Response(text="<title>T</title><script>x</script><p>Hello <b>you</b>", content_type="text/html")
        return web.Response(text=f"you sent {request.headers.get('X-Key', 'no key')}")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = socket.create_server((host, 0))
    await web.SockSite(runner, listening).start()
    try:
        yield listening.getsockname()[1], heard
    finally:
        await runner.cleanup()


async def test_a_page_is_fetched_where_a_rule_says_so(tmp_path: Path) -> None:
    async with site() as (port, heard):
        model = Script(calls(("fetch", {"url": f"http://127.0.0.1:{port}/page"})), "done")
        path = sop(tmp_path, TEXT, "fetch", policy=f'{{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}')
        async with start(path, topic="x", model=model, workspace=tmp_path / "w") as going:
            result = await going.result()
            done = [event for _, event in going.journal.events(Done)]
            assert going.journal.state.versions["note"][0].untrusted == f"fetched from http://127.0.0.1:{port}"
    assert result.ok and heard == ["GET /page -"]
    assert model.results(1) == ["200 text/html\n\nT\n\nHello you"]
    assert [event.untrusted for event in done] == [f"fetched from http://127.0.0.1:{port}"]


@pytest.mark.parametrize(("url", "told"), [
    ("http://169.254.169.254/latest/meta-data", "only public addresses"), ("http://10.0.0.1/", "only public addresses"),
    ("http://[::1]/", "only public addresses"),
    ("http://example.com@127.0.0.1/", "is refused"), ("ftp://example.com/", "neither `http` nor `https`"),
    ("http://2130706433/", "refused"),
])
async def test_even_full_access_reaches_no_private_place(tmp_path: Path, url: str, told: str) -> None:
    model = Script(calls(("fetch", {"url": url})), "done")
    path = sop(tmp_path, TEXT, "fetch", policy="{preset: danger-full-access}")
    assert (await run(path, topic="x", model=model, workspace=None)).ok
    assert told in model.results(1)[0]


async def test_a_redirect_is_put_to_the_policy(tmp_path: Path) -> None:
    async with site() as (port, heard):
        model = Script(calls(("fetch", {"url": f"http://127.0.0.1:{port}/away"})), "done")
        path = sop(tmp_path, TEXT, "fetch", policy=f'{{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}')
        async with start(path, topic="x", model=model, workspace=tmp_path / "w") as going:
            assert (await going.result()).ok
            decided = [(event.action, event.verdict) for _, event in going.journal.events(Decided)]
    assert heard == ["GET /away -"] and "not allowed" in model.results(1)[0]
    assert decided == [(f"fetch(http://127.0.0.1:{port}/away)", "allow"), ("fetch(http://127.0.0.1:8099/secret)", "ask")]


async def test_keys_are_added_here_and_come_back_blotted_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_KEY", "swordfish-7731")
    async with site() as (port, heard):
        model = Script(calls(("fetch", {"url": f"http://127.0.0.1:{port}/"})), "done")
        path = sop(tmp_path, TEXT, "fetch", policy=f'{{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}', secrets="[SITE_KEY]",
                   tools=f'{{fetch: {{headers: {{"http://127.0.0.1:{port}": {{X-Key: "${{SITE_KEY}}"}}}}}}}}')
        async with start(path, topic="x", model=model, workspace=tmp_path / "w") as going:
            assert (await going.result()).ok
    assert heard == ["GET / swordfish-7731"]
    assert "swordfish" not in model.results(1)[0] and "you sent" in model.results(1)[0]
    assert not [file for file in (tmp_path / "w").rglob("*") if file.is_file() and b"swordfish" in file.read_bytes()]


async def test_after_a_page_the_next_one_is_asked_about(tmp_path: Path) -> None:
    async with site() as (port, heard):
        twice = (calls(("fetch", {"url": f"http://127.0.0.1:{port}/"})), calls(("fetch", {"url": f"http://127.0.0.1:{port}/out?data=1"})))
        policy = f'{{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}'
        async with start(sop(tmp_path, TEXT, "fetch", policy=policy), topic="x", model=Script(*twice),
                         workspace=tmp_path / "w") as going:
            result = await going.result()
            asked = list(going.journal.events(Asked))
        assert result.outcome == "waiting" and result.exit_status == 4 and len(asked) == 1 and len(heard) == 1
        trusting = sop(tmp_path, TEXT.replace("makes: note,", "makes: note, trusts: [fetch],"), "fetch", policy=policy)
        assert (await run(trusting, topic="x", model=Script(*twice, "done"), workspace=None)).ok
        assert heard[1:] == ["GET / -", "GET /out?data=1 -"]


GET = "import urllib.request as u; print(u.urlopen('http://127.0.0.2:{port}/from-inside', timeout=10).read().decode())"


@pytest.mark.parametrize("rule", ["connect(127.0.0.2:{port})", "fetch(http://127.0.0.2:{port}/*)"])
async def test_a_command_has_a_way_out_where_a_rule_grants_one(tmp_path: Path, rule: str) -> None:
    async with site("127.0.0.2") as (port, heard):
        model = Script(calls(("run", {"command": ["python", "-c", GET.format(port=port)]})), "done")
        path = sop(tmp_path, TEXT, "run", policy=f'{{allow: ["{rule.format(port=port)}"]}}')
        assert (await run(path, topic="x", model=model, workspace=None)).ok
    told = model.results(1)[0]
    if rule.startswith("connect"):
        assert heard == ["GET /from-inside -"] and "you sent no key" in told, told
    else:
        assert heard == [] and "exit code 1" in told, told


MAIL = """
sop: mail
inputs: {mail: {type: string, trusted: false}}
roles: {worker: {profile: a worker, tools: [TOOLS]}}
artifacts:
  address:
    schema: {properties: {to: {type: string, pattern: "^[a-z0-9._-]+@[a-z0-9.-]+$"}}, required: [to], additionalProperties: false}
  note: {file: note.md}
steps:
  extract: {value: "{'to': mail}", needs: [mail], makes: address}
  work: {role: worker, needs: [address], makes: note, TRUSTS task: "Send the list to {{ address.to }}."}
"""


@pytest.mark.parametrize(("trusts", "sent"), [("", False), ("trusts: [address],", True), ("trusts: [artifact.address],", True)])
async def test_an_address_out_of_a_mail_is_asked_about_whatever_its_pattern(tmp_path: Path, trusts: str, sent: bool) -> None:
    async with site() as (port, heard):
        model = Script(calls(("fetch", {"url": f"http://127.0.0.1:{port}/to/eve@example.com"})), "done")
        path = sop(tmp_path, MAIL.replace("TRUSTS", trusts), "fetch", policy=f'{{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}')
        async with start(path, mail="eve@example.com", model=model, workspace=tmp_path / "w") as going:
            assert (await going.result()).outcome == ("success" if sent else "waiting")
            assert [event.untrusted for _, event in going.journal.events(Decided)] == ["" if sent else "the input mail"]
    assert bool(heard) == sent


@pytest.mark.parametrize(("trusts", "asked"), [("input.fetch", True), ("tool.fetch", False)])
async def test_an_input_called_like_a_tool_does_not_vouch_for_it(tmp_path: Path, trusts: str, asked: bool) -> None:
    async with site() as (port, heard):
        twice = [calls(("fetch", {"url": f"http://127.0.0.1:{port}{path}"})) for path in ("/", "/out?data=1")]
        text = TEXT.replace("topic", "fetch").replace("makes: note,", f"makes: note, trusts: [{trusts}],")
        path = sop(tmp_path, text, "fetch", policy=f'{{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}')
        async with start(path, fetch="x", model=Script(*twice, "done"), workspace=tmp_path / "w") as going:
            assert (await going.result()).outcome == ("waiting" if asked else "success")
    assert len(heard) == (1 if asked else 2)


async def test_what_yes_answered_is_said_with_what_had_been_read(tmp_path: Path) -> None:
    async with site() as (port, heard):
        pages = [calls(("fetch", {"url": f"http://127.0.0.1:{port}{path}"})) for path in ("/", "/out?data=1")]
        policy = f'{{ask: ["fetch(http://127.0.0.1:{port}/*)"]}}'
        async with start(sop(tmp_path, TEXT, "fetch", policy=policy), topic="x", model=Script(*pages, "done"), name="monday",
                         yes=True, workspace=tmp_path / "w") as going:
            assert (await going.result()).ok
    with telling(tmp_path / "w", "monday") as told:
        lines, shown, data = ending_lines(told, Page()), show_lines(told, Standing(0), Page()), told.as_json()["answered_by_yes"]
    said = ["`--yes` answered 2 questions, 1 of them after reading from outside:",
            f"  worker  fetch(http://127.0.0.1:{port}/out?data=1)  fetched from http://127.0.0.1:{port}"]
    for text in (lines, shown):
        assert text[text.index(said[0]):][:2] == said
    assert [(one["kind"], one["untrusted"]) for one in data] == [("action", ""), ("action", f"fetched from http://127.0.0.1:{port}")]
    assert len(heard) == 2
