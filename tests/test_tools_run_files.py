"""Functions that act on the files of their activation: what a tool has to remember is an artifact, journalled with each call."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import Reply, RunFiles, ToolCall, check, resume, run
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.modules import CodeSources, sources_of
from metaflow_agents.runtime import wiring
from metaflow_agents.sop import functions as sop_functions

TILL = '''
from metaflow_agents import RunFiles

def pay(amount: int, till: RunFiles) -> str:
    """Pays in."""
    now = int(till.get("till/cash", b"0")) + amount
    till["till/cash"] = str(now).encode()
    if amount < 0:
        raise ValueError("nothing is paid out")
    return f"{now} in the till"

def stray(till: RunFiles) -> str:
    till["till/cash"] = b"9"
    till["elsewhere.txt"] = b"x"
    return "done"

def close(till: RunFiles) -> str:
    del till["till/cash"]
    return str(len(till))
'''
SOP = """
sop: tills
tools:
  pay: {python: "till:pay", effect: none}
  stray: {python: "till:stray", effect: none}
  close: {python: "till:close", effect: none}
roles: {clerk: {profile: a clerk, tools: [pay, stray, close]}}
artifacts: {money: {files: "till/**"}}
steps:
  work: {role: clerk, makes: money, task: Work.}
"""


def laid(folder: Path, text: str = SOP) -> Path:
    (folder / "till.py").write_text(TILL)
    (folder / "tills.yaml").write_text(textwrap.dedent(text))
    return folder / "tills.yaml"


class Clerk:
    """Makes the calls of one turn after the other, and keeps what it was sent."""

    def __init__(self, *turns: list[tuple[str, dict[str, Any]]]) -> None:
        self.turns, self.sent = list(turns), list[ModelRequest]()

    def __call__(self, request: ModelRequest) -> Any:
        self.sent.append(request)
        if len(self.sent) > len(self.turns):
            return "done"
        return Reply("", calls=tuple(ToolCall(f"c{place}", name, given)
                                     for place, (name, given) in enumerate(self.turns[len(self.sent) - 1])))

    @property
    def told(self) -> list[str]:
        return [str(one["content"]) for one in self.sent[-1].messages if one["role"] == "tool"]


async def test_calls_of_one_turn_go_one_after_the_other_and_make_the_artifact(tmp_path: Path) -> None:
    clerk = Clerk([("pay", {"amount": 1}), ("pay", {"amount": 2})], [("pay", {"amount": 4})])
    result = await run(laid(tmp_path), model=clerk, workspace=None)
    assert clerk.told == ["1 in the till", "3 in the till", "7 in the till"]
    assert result["money"] == {"till/cash": "7"}
    pay = next(tool for tool in clerk.sent[0].tools if tool["name"] == "pay")
    assert list(pay["parameters"]["properties"]) == ["amount"]          # the files are no part of what a role sees


@pytest.mark.parametrize(("call", "told"), [
    (("pay", {"amount": -5}), "nothing is paid out"),
    (("stray", {}), "`elsewhere.txt` is outside of what this step makes: till/**"),
])
async def test_all_of_it_counts_or_nothing(tmp_path: Path, call: tuple[str, dict[str, Any]], told: str) -> None:
    clerk = Clerk([("pay", {"amount": 1})], [call])
    result = await run(laid(tmp_path), model=clerk, workspace=None)
    assert told in clerk.told[1]
    assert result["money"] == {"till/cash": "1"}


async def test_a_rule_about_writing_holds_for_it(tmp_path: Path) -> None:
    clerk = Clerk([("pay", {"amount": 1})])
    result = await run(laid(tmp_path, SOP + "policy: {deny: ['write(till/cash)']}\n"), model=clerk, workspace=None)
    assert "`write(till/cash)` is not allowed" in clerk.told[0] and not result.ok


async def test_what_is_deleted_is_gone(tmp_path: Path) -> None:
    clerk = Clerk([("pay", {"amount": 1})], [("close", {})], [("pay", {"amount": 2})])
    result = await run(laid(tmp_path), model=clerk, workspace=None)
    assert clerk.told[1:] == ["0", "2 in the till"] and result["money"] == {"till/cash": "2"}


async def test_a_run_that_is_gone_on_with_has_what_its_tools_wrote(tmp_path: Path) -> None:
    """Stopped by its budget after two calls: the third one finds what those left, and none of them is made again."""
    path, first = laid(tmp_path, SOP + "budget: {calls: 2}\n"), Clerk([("pay", {"amount": 1})], [("pay", {"amount": 2})])
    assert (await run(path, model=first, workspace=tmp_path / "w", name="shift")).outcome == "budget"
    rest = Clerk([("pay", {"amount": 4})])
    result = await resume("shift", model=rest, workspace=tmp_path / "w", budget={"calls": 9})
    assert rest.told == ["1 in the till", "3 in the till", "7 in the till"] and result["money"] == {"till/cash": "7"}


async def test_who_finds_that_nothing_is_to_be_changed_says_so(tmp_path: Path) -> None:
    """What is there stays, where functions keep it: nobody writes such files by hand."""
    there = SOP.replace('"till/**"}', '"till/**", initial: {till/cash: "5"}}').replace(
        "makes: money", "makes: money, sees: [money]")
    clerk = Clerk([("pay", {"amount": -1})])
    result = await run(laid(tmp_path, there + "outputs: [money]\n"), model=clerk, workspace=None)
    assert (result.ok, len(clerk.sent), result["money"]) == (True, 2, {"till/cash": "5"})
    nothing = await run(laid(tmp_path, SOP), model=Clerk([("pay", {"amount": -1})]), workspace=None)
    assert not nothing.ok                   # where there is nothing yet, something has to be made


async def test_a_step_calls_it_without_a_role(tmp_path: Path) -> None:
    path = laid(tmp_path, """
        sop: tills
        tools: {pay: {python: "till:pay", effect: none}}
        artifacts: {money: {files: "till/**"}}
        steps: {work: {tool: pay, inputs: {amount: "3"}, makes: money}}
    """)
    assert list(check(path).problems) == []
    assert (await run(path, workspace=None))["money"] == {"till/cash": "3"}


def test_it_is_a_mapping() -> None:
    files = RunFiles({"a": b"1", "b": b"2"})
    files["c"] = b"3"
    del files["a"]
    assert (dict(files), len(files), "a" in files) == ({"b": b"2", "c": b"3"}, 2, False)
    assert (files.written, files.deleted) == ({"c": b"3"}, ("a",))
    files["a"] = b"1"                       # as it was
    assert (files.written, files.deleted) == ({"c": b"3"}, ())
    with pytest.raises(KeyError):
        del files["d"]
    with pytest.raises(TypeError, match="a path and bytes"):
        files["d"] = "text"  # type: ignore[assignment]


async def test_many_functions_of_one_module_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check and a step read what a module and its imports say once, however many functions it gives to the roles."""
    seen: list[str] = []

    def counted(spec: str, folders: Sequence[Path]) -> CodeSources:
        seen.append(spec)
        return sources_of(spec, folders)

    path = laid(tmp_path)
    for module in (sop_functions, wiring):
        monkeypatch.setattr(module, "sources_of", counted)
    assert check(path).ok and len(seen) == 1
    await run(path, model=Clerk([("pay", {"amount": 1})]), workspace=None)
    assert len(seen) == 3                   # checked once more, and read for `--from`
