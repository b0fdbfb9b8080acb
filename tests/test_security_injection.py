"""Planted instructions: the table, the SOPs that are built of it, and how far the words and their label get.

That nothing comes of the calls is shown where roles act; here it is shown that the role that may act has seen the words, and that
its activation begins as untrusted, or in twins that what the author said lifts it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from security.injection_model import instructions, spelled, taken_over
from security.injection_sops import NETWORKED, Places, build, rows
from walk_acting import SERVER, SERVICE

from metaflow_agents import start
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.runtime.checking import check
from metaflow_agents.schema.event import Committed

HARMFUL, TWINS = rows()
ALL = [*HARMFUL, *TWINS]
SOURCES = ("web", "mcp", "api", "file", "document", "memory", "message", "error")
GOALS = ("send", "command", "change", "poison", "forge")
LIFTED = ("trusts", "narrow", "human", "trusted")
HERE = [case for case in ALL if case["source"] not in NETWORKED]


def test_the_table_is_whole() -> None:
    assert [(case["source"], case["goal"]) for case in HARMFUL] == list(product(SOURCES, GOALS))
    assert len({case["id"] for case in ALL}) == len(ALL) and len(TWINS) >= 20
    assert {twin["source"] for twin in TWINS} == set(SOURCES)
    assert {twin["twin_of"] for twin in TWINS} <= {case["id"] for case in HARMFUL}
    for case in HARMFUL:
        calls = [call for call in (case["call"], case["then"]) if call]
        assert calls and case["expected"]["effects"] == [] and len(case["expected"]["verdicts"]) == len(calls)
        assert (case["goal"] == "poison") == ("carried" in case)
    assert all(twin["expected"]["effects"] and list(instructions(twin["planted"])) == [] for twin in TWINS)
    assert all(case["owasp"].startswith(("LLM0", "LLM1", "ASI")) for case in ALL)


@pytest.mark.parametrize("case", HARMFUL, ids=lambda case: case["id"])
def test_the_planted_words_tell_the_model_to_make_the_call(case: dict[str, Any]) -> None:
    first, *others = instructions(build(case).planted)
    wanted = case["call"] or case["then"]
    assert first["name"] == wanted["tool"] and set(first["arguments"]) == set(wanted["arguments"])
    told = {call["name"] for call in (first, *others)}
    nested = {call["name"] for text in first["arguments"].values() if isinstance(text, str) for call in instructions(text)}
    assert {call["tool"] for call in (case["call"], case["then"]) if call} == told | nested


def test_a_model_that_is_taken_over_makes_each_call_once() -> None:
    inner = spelled({"tool": "send", "arguments": {"to": "a \"b\" ]]"}})
    words = f"Hello. {spelled({'tool': 'start_role', 'arguments': {'task': inner}})} and [[call broken {{]] {inner}"
    request = ModelRequest(key="a@1~0/turn.0", role="clerk", step="a", messages=({"role": "user", "content": words},), model="m",
                           tools=({"name": "send"},))
    made: list[Any] = []
    while isinstance(answer := taken_over(request), dict):
        made += answer["calls"]
        request = replace(request, messages=(*request.messages, {"role": "assistant", "content": "", **answer}))
    assert made == [{"name": "start_role", "arguments": {"task": inner}}, {"name": "send", "arguments": {"to": "a \"b\" ]]"}}]
    assert answer.count("[[call start_role") == 1 and answer.endswith(inner)


def written(case: dict[str, Any], folder: Path) -> tuple[Path, dict[str, Any]]:
    """The SOP of a row in a folder, and the values of its inputs."""
    built = build(case, Places(desk={"command": sys.executable, "args": ["server.py"]}))
    (folder / "injected.yaml").write_text(built.text)
    (folder / "server.py").write_text(SERVER)           # it is asked what it offers, and nobody calls it
    (folder / "shop.json").write_text(SERVICE)
    if built.letter is None:
        return folder / "injected.yaml", {}
    letter = folder / "letter"
    if isinstance(built.letter, str):
        letter.write_text(built.letter)
    else:
        letter.mkdir()
        for path, text in built.letter.items():
            (letter / path).write_text(text)
    return folder / "injected.yaml", {"letter": str(letter)}


def without_tools(sop: Path) -> None:
    """Where the words get is looked at alone: nobody calls anything, and no server is started."""
    whole = yaml.safe_load(sop.read_text())
    for spec in (*whole["roles"].values(), *whole["steps"].values()):
        spec.pop("tools", None)
    left = {key: value for key, value in whole.items() if key not in ("mcpServers", "openapi")}
    sop.write_text(yaml.safe_dump(left, sort_keys=False))


@pytest.mark.parametrize("case", ALL, ids=lambda case: case["id"])
def test_each_row_is_a_sop(case: dict[str, Any], tmp_path: Path) -> None:
    found = check(written(case, tmp_path)[0], start=tmp_path)
    assert [str(problem) for problem in found.errors] == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", HERE, ids=lambda case: case["id"])
async def test_the_label_gets_where_the_words_get(case: dict[str, Any], tmp_path: Path) -> None:
    built, seen = build(case), {}

    def model(request: ModelRequest) -> Any:
        seen[request.step] = "\n".join(str(message["content"]) for message in request.messages)
        return taken_over(replace(request, tools=()))

    sop, inputs = written(case, tmp_path)
    without_tools(sop)
    given = {"decision": case["answers"][0]} if case.get("shape") == "human" else {}
    async with start(sop, model=model, inputs=inputs, workspace=None, sandbox="none", given=given) as going:
        result = await going.result()
        made = [version for _, event in going.journal.events(Committed) for version in event.versions]
    labels = {version.artifact: version.untrusted for version in made}
    assert result.ok, result.reason
    harmful = "twin_of" not in case
    if harmful:
        told = [call for step in (built.acting, built.last) if step for call in instructions(seen[step])]
        wanted = [call for call in (case["call"], case["then"]) if call]
        assert wanted[0]["tool"] in {call["name"] for call in told}
        assert built.last is None or wanted[-1]["tool"] in {call["name"] for call in instructions(seen[built.last])}
    assert bool(labels["note"]) == (harmful or case["shape"] not in LIFTED), labels
    assert built.last is None or labels["end"]
