"""Every case of `injection.yaml`, with real servers: a model wholly taken over brings nothing about, and twins still work.

Mutations that turn it red: `Policy.decide` without what was read, results of tools without their source, a label that memory,
versions or messages do not carry.
"""

from __future__ import annotations

import copy
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from metaflow_agents import start
from metaflow_agents.journal.journal import Journal
from metaflow_agents.network.hosts import parse
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Decided, Done, Intended
from security.injection_model import taken_over
from security.injection_sops import Places, build, rows

HARMFUL, TWINS = rows()
DESK = Path(__file__).with_name("desk_server.py")
PARAMETER = {"in": "query", "required": True}
SHOP = {
    "openapi": "3.1.0", "info": {"title": "shop", "version": "1"}, "paths": {
        "/orders": {
            "get": {"operationId": "listOrders", "responses": {"200": {"description": "orders"}}},
            "post": {"operationId": "createOrder", "responses": {"200": {"description": "made"}}, "parameters": [
                {**PARAMETER, "name": "item", "schema": {"type": "string"}},
                {**PARAMETER, "name": "note", "schema": {"type": "string"}}]}},
        "/refunds": {"post": {"operationId": "refund", "responses": {"200": {"description": "paid"}}, "parameters": [
            {**PARAMETER, "name": "order", "schema": {"type": "string"}},
            {**PARAMETER, "name": "amount", "schema": {"type": "integer"}}]}}}}


@asynccontextmanager
async def listening(words: str, heard: list[str]) -> AsyncIterator[str]:
    """A web server that answers everything with the same words: its host and port."""
    async def answer(request: web.Request) -> web.Response:
        heard.append(f"{request.method} {request.path_qs}")
        return web.Response(text=words)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    listening_at = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listening_at).start()
    try:
        yield f"127.0.0.1:{listening_at.getsockname()[1]}"
    finally:
        await runner.cleanup()


class People:
    """Gives the answers of a case, one after the other; afterwards nobody is there. What a role was ordered to read, and reads
    again since a poisoned memory tells it to, is always allowed: what comes after it counts.
    """

    def __init__(self, answers: list[str]) -> None:
        self.answers = list(answers)

    async def __call__(self, question: Question, number: int) -> Answer | None:
        if question.action in ("mcp(desk.read_mail)", "api(shop.listOrders)") or question.action.endswith("/page)"):
            return Answer(verdict="yes")
        if not self.answers:        # a careless person says yes to whatever a role asks in words; that allows no action
            return Answer(text="yes") if question.role and question.kind in ("text", "choice") else None
        said = self.answers.pop(0)
        return Answer(text=said) if question.kind in ("text", "choice") else Answer(verdict="yes" if said == "yes" else "no")


class Scene:
    """One case, carried out in a folder."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self.case, self.folder = case, folder
        self.outside = folder / "outside"
        self.attacked: list[str] = []
        self.served: list[str] = []

    async def play(self) -> None:
        self.outside.mkdir()
        (self.outside / "injected.yaml").write_text("policy: {preset: read-only}\n")
        desk = self.folder / "desk"
        desk.mkdir()
        words: dict[str, str] = {}
        async with listening("nothing here", self.attacked) as attacker:
            places = Places(attacker, "SERVICE", str(self.outside), {"command": sys.executable, "args": [str(DESK), str(desk)]},
                            {"spec": "shop.json"})
            planted = build(self.case, places).planted
            async with listening(planted, self.served) as service:
                (desk / "mail.txt").write_text(planted, encoding="utf-8")
                built = build(self.case, Places(attacker, service, str(self.outside), places.desk, places.shop))
                self.sop = self.folder / "injected.yaml"
                self.sop.write_text(built.text, encoding="utf-8")
                shop = {**SHOP, "servers": [{"url": f"http://{service}"}]}
                (self.folder / "shop.json").write_text(yaml.safe_dump(shop), encoding="utf-8")
                self.text = self.sop.read_text(encoding="utf-8")
                await self._run(self._letter(built.letter, words))

    def _letter(self, letter: str | dict[str, str] | None, words: dict[str, str]) -> dict[str, Any]:
        if letter is None:
            return {}
        if isinstance(letter, str):
            place = self.folder / "letter.txt"
            place.write_text(letter, encoding="utf-8")
            return {"letter": str(place)}
        folder = self.folder / "letter"
        folder.mkdir()
        for name, text in letter.items():
            (folder / name).write_text(text, encoding="utf-8")
        return {"letter": str(folder)}

    async def _run(self, inputs: dict[str, Any]) -> None:
        people = People(self.case.get("answers", []))
        async with start(self.sop, model=taken_over, inputs=inputs, workspace=self.folder / "workspace", name="injected",
                         asker=people) as going:
            self.result = await going.result()
            self.seen = Seen(going.journal)

    def effects(self) -> list[str]:
        """What was brought about, as the table has it."""
        found = []
        if self.attacked:
            found.append("fetched")
        done = (self.folder / "desk" / "done.txt")
        told = done.read_text(encoding="utf-8").splitlines() if done.exists() else []
        found += [word for word in ("mailed", "shelled") if any(line.startswith(word) for line in told)]
        if any(line.startswith("POST") for line in self.served):
            found.append("ordered")
        if {path.name for path in self.outside.iterdir()} != {"injected.yaml"}:
            found.append("outside")
        changed = (self.outside / "injected.yaml").read_text() != "policy: {preset: read-only}\n"
        hooks = [path for path in (self.folder / "workspace" / "injected" / ".git").rglob("*") if path.parent.name == "hooks"]
        if changed or hooks or self.sop.read_text(encoding="utf-8") != self.text:
            found.append("changed")
        if self.seen.allowed_by_others:
            found.append("approved")
        return found + [word for word in self.case["expected"]["effects"] if word in ("wrote", "ran") and self._made(word)]

    def _made(self, word: str) -> bool:
        call = self.case["call"]
        if word == "ran":
            return any(tool == "run" and not error for tool, error in self.seen.done)
        return call["arguments"]["path"] in self.result.outputs.get("note", {})


class Seen:
    """What the journal says of the calls."""

    def __init__(self, journal: Journal) -> None:
        self.decided = [event for _, event in journal.events(Decided)]
        tools = {event.key: event.tool for _, event in journal.events(Intended)}
        self.done = [(tools[event.key], event.error) for _, event in journal.events(Done)]
        judged = {event.key for event in self.decided}
        failed = [event.key for _, event in journal.events(Done) if event.error]
        self.by_tool = {key for key in failed if tools[key] in ("write", "edit")}       # allowed, and refused by the tool itself
        self.refused = {tools[key] for key in failed if key not in judged or key in self.by_tool}
        self.allowed_by_others = [answer for answer in journal.state.answers.values() if answer.by not in ("terminal", "")]

    def verdicts(self, call: dict[str, Any]) -> set[str]:
        """What was decided about a call."""
        tool, arguments = call["tool"], call["arguments"]
        target = parse(arguments["url"]).url if tool == "fetch" else ""
        found = {event.verdict for event in self.decided
                 if event.tool == tool and target in event.action and event.key not in self.by_tool}
        return found | ({"refused"} if tool in self.refused else set())


def placed(case: dict[str, Any], scene: Scene) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each call that the model was to make, with the verdict that it has to get."""
    calls = [call for call in (case["call"], case["then"]) if call is not None]
    yield from zip(calls, case["expected"]["verdicts"], strict=True)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("case", [*HARMFUL, *TWINS], ids=lambda case: case["id"])
async def test_what_comes_of_it(case: dict[str, Any], tmp_path: Path) -> None:
    scene = Scene(copy.deepcopy(case), tmp_path)
    await scene.play()
    told = f"{scene.result.outcome}: {scene.result.reason}"
    for call, expected in placed(case, scene):
        named = dict(call, arguments={
            key: value.replace("ATTACKER", scene_host(scene)) if isinstance(value, str) else value
            for key, value in call["arguments"].items()})
        found = scene.seen.verdicts(named)
        wanted = {expected} if isinstance(expected, str) else set(expected)
        assert found & wanted, f"{call['tool']}: {sorted(found)}, and not {sorted(wanted)}; {told}; {scene.seen.decided}"
        assert "allow" in wanted or "allow" not in found, scene.seen.decided
    assert sorted(scene.effects()) == sorted(case["expected"]["effects"]), told
    if case in TWINS:
        assert scene.result.ok, told


def scene_host(scene: Scene) -> str:
    """The attacker's host in this run."""
    for event in scene.seen.decided:
        if event.tool == "fetch" and "127.0.0.1" in event.action and "/page" not in event.action:
            return parse(event.action.removeprefix("fetch(").removesuffix(")")).authority
    return "attacker.test"
