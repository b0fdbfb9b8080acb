"""What a role writes by its answers is bound by the rules about `write`: denied, asked about, recorded, as its tools are."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tiers
import yaml
from scripted import events
from test_agent_tools import calls

from metaflow_agents import resume, run
from metaflow_agents.cli import command
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Decided

SOP = """
sop: shelf
policy: {deny: ["write(src/top.txt)"]}
inputs: {more: {type: string, default: ""}}
roles:
  clerk: {profile: You write., tools: [TOOLS], policy: {deny: ["write(old/**)"]}}
artifacts:
  tree: {files: "**", initial: {src/top.txt: "one\\n", old/a.txt: "old\\n", src/b.txt: "b\\n"}}
steps:
  change: {role: clerk, needs: [more], sees: [tree], makes: tree STRATEGY}
outputs: [tree]
"""


def block(path: str, text: str = "new") -> str:
    return f"=== file: {path} ===\n{text}\n=== end ===\n"


WAYS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "security" / "answers.yaml").read_text(encoding="utf-8"))


def sop(folder: Path, text: str = SOP, tools: str = "", strategy: str = "") -> Path:
    (folder / "sop.yaml").write_text(text.replace("TOOLS", tools).replace(" STRATEGY", strategy))
    return folder / "sop.yaml"


def mending(first: Any) -> Callable[[ModelRequest], Any]:
    """Answers once, and otherwise where it is told of faults."""
    return lambda request: block("src/fine.txt") if "Fix " in str(request.messages[-1]["content"]) else first


def decisions(folder: Path, name: str = "r") -> list[tuple[str, str]]:
    return [(event.action, event.verdict) for event in events(folder, name) if isinstance(event, Decided)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way["way"])
async def test_what_is_denied_is_a_fault_that_its_author_is_told(tmp_path: Path, way: dict[str, Any]) -> None:
    said, paths = way["answer"], way["denied"]
    seen: list[str] = []

    def model(request: ModelRequest) -> str:
        seen.append(str(request.messages[-1]["content"]))
        return str(mending(said)(request))

    result = await run(sop(tmp_path), model=model, workspace=tmp_path / "w", name="r")
    assert result.ok and dict(result["tree"]) == {
        "src/top.txt": "one\n", "old/a.txt": "old\n", "src/b.txt": "b\n", "src/fine.txt": "new\n", **way.get("stands", {})}
    for path in paths:
        whose = "write(src/top.txt) of the SOP" if "top" in path else "write(old/**) of the role clerk"
        assert f"'{path}': `write({path})` is not allowed (deny {whose})" in seen[1]
        assert (f"write({path})", "deny") in decisions(tmp_path / "w")
    assert ("write(src/fine.txt)", "allow") in decisions(tmp_path / "w")


async def test_what_a_refused_deletion_made_room_for_does_not_stand(tmp_path: Path) -> None:
    seen: list[str] = []
    answers = iter(["=== delete: src/top.txt ===\n" + block("src/top.txt/x") + block("src/y"), block("src/fine.txt")])

    def model(request: ModelRequest) -> str:
        seen.append(str(request.messages[-1]["content"]))
        return next(answers)

    result = await run(sop(tmp_path), model=model, workspace=None)
    assert result.ok and set(result["tree"]) == {"src/top.txt", "old/a.txt", "src/b.txt", "src/fine.txt"}
    assert "'src/top.txt': `write(src/top.txt)` is not allowed" in seen[1] and "in full" in seen[1]


async def test_what_is_not_changed_is_not_written(tmp_path: Path) -> None:
    same = block("src/top.txt", "one") + block("src/b.txt", "c")
    result = await run(sop(tmp_path), model=lambda _: same, workspace=tmp_path / "w", name="r")
    assert result.ok and result["tree"]["src/b.txt"] == "c\n" and decisions(tmp_path / "w") == [("write(src/b.txt)", "allow")]


async def test_the_one_file_of_a_step_and_files_of_a_function(tmp_path: Path) -> None:
    one = sop(tmp_path, SOP.replace("makes: tree", "makes: {tree: old/new.txt}"))
    result = await run(one, model=lambda _: "just the text", workspace=None)
    assert not result.ok and "`write(old/new.txt)` is not allowed (deny write(old/**) of the role clerk)" in result.reason
    result = await run(sop(tmp_path), model=lambda _: {"old/x": "x"}, workspace=None)
    assert not result.ok and "`write(old/x)` is not allowed" in result.reason


async def test_strategies_and_roles_that_an_expression_names(tmp_path: Path) -> None:
    for strategy in (", strategy: {chain_of_thought: {}}", ", strategy: {reflexion: {evaluator: {assert: 'true'}, trials: 2}}",
                     ", review: {role: clerk}"):
        result = await run(sop(tmp_path, strategy=strategy), workspace=None, model=_thinking)
        assert result.outcome != "success" and "`write(old/x)` is not allowed" in result.reason, strategy
    chosen = SOP.replace("role: clerk,", "role: \"'cl' ~ 'erk'\",")
    result = await run(sop(tmp_path, chosen), workspace=None, model=lambda _: block("old/x"))
    assert not result.ok and "deny write(old/**) of the role clerk" in result.reason


def _thinking(request: ModelRequest) -> Any:
    if request.schema is not None and "steps" in str(request.schema):
        return {"steps": ["write it"]}
    return block("old/x")


async def test_a_sub_sop_writes_under_the_rules_of_the_one_around_it(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(SOP.replace("TOOLS", "").replace(" STRATEGY", "").replace("old/**", "other/**"))
    outer = ('sop: outer\npolicy: {deny: ["write(old/**)"]}\nartifacts: {all: {files: "**"}}\n'
             'steps: {enter: {sop: inner.yaml, makes: all}}\n')
    result = await run(sop(tmp_path, outer), workspace=None, model=mending(block("old/x")))
    assert result.ok and "old/x" not in result["all"] and "src/fine.txt" in result["all"]


async def test_what_a_command_of_a_role_did_is_kept_as_far_as_it_may(tmp_path: Path) -> None:
    script = iter([calls(("run", {"command": ["cp", "src/b.txt", "src/top.txt"]}), ("run", {"command": ["rm", "old/a.txt"]}),
                         ("run", {"command": ["cp", "src/b.txt", "src/c.txt"]})), "done"])
    told: list[str] = []

    def model(request: ModelRequest) -> Any:
        told.extend(str(message["content"]) for message in request.messages if message["role"] == "tool")
        return next(script)

    result = await run(sop(tmp_path, tools="run"), model=model, workspace=tmp_path / "w", name="r", sandbox="none")
    assert result.ok and dict(result["tree"]) == {
        "src/top.txt": "one\n", "old/a.txt": "old\n", "src/b.txt": "b\n", "src/c.txt": "b\n"}
    assert "not kept: `src/top.txt`: `write(src/top.txt)` is not allowed (deny write(src/top.txt) of the SOP)" in told[0]
    assert "not kept: `old/a.txt`" in told[1]
    assert {("write(src/top.txt)", "deny"), ("write(old/a.txt)", "deny"), ("write(src/c.txt)", "allow")} <= set(
        decisions(tmp_path / "w"))


async def test_a_command_is_not_recorded_file_by_file_where_no_rule_is_about_writing(tmp_path: Path) -> None:
    plain = SOP.replace('policy: {deny: ["write(src/top.txt)"]}\n', "").replace(', policy: {deny: ["write(old/**)"]}', "")
    script = iter([calls(("run", {"command": ["cp", "src/b.txt", "src/c.txt"]})), block("src/d.txt")])
    result = await run(sop(tmp_path, plain, "run"), model=lambda _: next(script), workspace=tmp_path / "w", name="r",
                       sandbox="none")
    assert result.ok and {"src/c.txt", "src/d.txt"} <= set(result["tree"])
    assert [action for action, _ in decisions(tmp_path / "w") if action.startswith("write")] == []


ASKING = SOP.replace('deny: ["write(src/top.txt)"]', 'ask: ["write(src/top.txt)", "write(src/b.txt)"]')


async def test_what_is_asked_about_waits_for_a_person_and_is_asked_once(tmp_path: Path) -> None:
    both = block("src/top.txt", "two") + "=== delete: src/b.txt ===\n"
    sent: list[str] = []

    def model(request: ModelRequest) -> str:
        sent.append(request.key)
        return both

    waiting = await run(sop(tmp_path, ASKING), model=model, workspace=tmp_path / "w", name="r")
    assert waiting.outcome == "waiting" and "src/top.txt" in waiting.reason and "src/b.txt" in waiting.reason
    asked: list[Question] = []

    async def asker(question: Question, _: int) -> Answer:
        asked.append(question)
        return Answer(verdict="yes")

    result = await resume("r", model=model, workspace=tmp_path / "w", asker=asker)
    assert len(sent) == 1, "what was answered is not asked again"
    assert result.ok and dict(result["tree"]) == {"src/top.txt": "two\n", "old/a.txt": "old\n"}
    assert sorted(question.action for question in asked) == ["write(src/b.txt)", "write(src/top.txt)"]
    assert sorted((question.arguments for question in asked), key=lambda given: given["path"]) == [
        {"path": "src/b.txt", "deleted": True}, {"path": "src/top.txt", "text": "two\n"}]
    assert asked[0].rule.startswith("ask write(src/") and asked[0].role == "clerk"


async def test_what_a_person_does_not_allow_is_told_and_other_words_are_asked_about_anew(tmp_path: Path) -> None:
    seen: list[str] = []

    async def asker(question: Question, _: int) -> Answer:
        text = question.arguments["text"]
        return Answer(verdict="yes") if text == "good\n" else Answer(verdict="no", text="not that")

    def model(request: ModelRequest) -> str:
        seen.append(str(request.messages[-1]["content"]))
        return block("src/top.txt", "bad" if len(seen) == 1 else "good")

    result = await run(sop(tmp_path, ASKING), model=model, workspace=None, asker=asker)
    assert result.ok and result["tree"]["src/top.txt"] == "good\n"
    assert len(seen) == 2 and "a person did not allow `write(src/top.txt)`: not that" in seen[1]


async def test_a_person_who_wants_other_words_is_heard(tmp_path: Path) -> None:
    seen: list[str] = []

    async def asker(question: Question, _: int) -> Answer:
        wanted = {"path": "src/top.txt", "text": "good\n"}
        return Answer(verdict="yes", arguments=wanted)

    def model(request: ModelRequest) -> str:
        seen.append(str(request.messages[-1]["content"]))
        return block("src/top.txt", "bad" if len(seen) == 1 else "good")

    result = await run(sop(tmp_path, ASKING), model=model, workspace=None, asker=asker)
    assert result.ok and result["tree"]["src/top.txt"] == "good\n" and "wants it to be" in seen[1] and "good" in seen[1]


async def test_what_was_written_under_other_rules_is_not_taken_over(tmp_path: Path) -> None:
    plain = SOP.replace('policy: {deny: ["write(src/top.txt)"]}', "policy: {deny: [fetch]}")
    said = mending(block("src/top.txt", "two"))
    home: dict[str, Any] = {"model": said, "workspace": tmp_path / "w"}
    assert (await run(sop(tmp_path, plain), name="one", **home)).ok
    again = await run(sop(tmp_path), name="two", from_run="one", **home)
    assert again.ok and again["tree"]["src/top.txt"] == "one\n"
    outer = 'sop: outer\npolicy: {deny: RULES}\nartifacts: {all: {files: "**"}}\nsteps: {enter: {sop: sop.yaml, makes: all}}\n'
    sop(tmp_path, SOP.replace('policy: {deny: ["write(src/top.txt)"]}\n', ""))
    (tmp_path / "outer.yaml").write_text(outer.replace("RULES", "[fetch]"))
    assert (await run(tmp_path / "outer.yaml", name="three", **home))["all"]["src/top.txt"] == "two\n"
    (tmp_path / "outer.yaml").write_text(outer.replace("RULES", '["write(src/top.txt)"]'))
    assert "src/fine.txt" in (await run(tmp_path / "outer.yaml", name="four", from_run="three", **home))["all"]


async def test_read_only_means_answers_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sop(tmp_path, SOP.replace('{deny: ["write(src/top.txt)"]}', "{preset: read-only}"))
    result = await run(path, model=lambda _: block("src/x"), workspace=None)
    assert not result.ok and "nor does its preset read-only" in result.reason
    assert await asyncio.to_thread(command, ["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "`clerk` may never write a file" in said and "tool-never-allowed" in said


async def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    seen: list[str] = []

    def model(request: ModelRequest) -> str:
        seen.append(str(request.messages[-1]["content"]))
        return str(mending("".join(map(block, ("../out.txt", ".env", "old/x", "src/sitecustomize.py", "src/ok"))))(request))

    assert (await run(sop(tmp_path), model=model, workspace=None)).ok
    assert all(path in seen[1] for path in ("../out.txt", "'.env': ", "'old/x': ", "'src/sitecustomize.py': "))
    assert "These stand as you answered them: `src/ok`." in seen[1]


async def test_the_refusal_of_a_file_that_acts_names_the_rule_that_denies_it(tmp_path: Path) -> None:
    text = SOP.replace('{deny: ["write(src/top.txt)"]}', '{allow: ["write(.github/**)"]}')
    text = text.replace("write(old/**)", "write(.github/**)")
    result = await run(sop(tmp_path, text), model=lambda _: block(".github/workflows/ci.yml"), workspace=None)
    assert "deny write(.github/**) of the role clerk" in result.reason and "to allow it" not in result.reason
    function = """
sop: copying
policy: {allow: ["write(.github/**)"], ask: ["write(**/a.yml)"]}
artifacts: {tree: {files: "**"}}
steps: {copy: {value: "{'.github/a.yml': 'x'}", makes: tree}}
"""
    result = await run(sop(tmp_path, function), workspace=None)
    assert "what would allow it is overruled: ask write(**/a.yml) of the SOP" in result.reason


FOLDERS, NAMES = ("src", "docs", "Old", ".github"), ("a.txt", "B.txt", "conftest.py", "pyproject.toml", ".envrc")
PATTERNS = ("src/**", "docs/*", "old/**", "**", "**/a.txt", "src/b.txt", ".github/**", "**/conftest.py")


def policy_of(chance: random.Random, presets: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {verdict: [f"write({pattern})" for pattern in chance.sample(PATTERNS, chance.randint(0, 2))]
                             for verdict in ("allow", "ask", "deny") if chance.random() < 0.6}
    preset = chance.choice(presets)
    return {**found, **({"preset": preset} if preset else {})}


def answer_of(chance: random.Random, before: Mapping[str, str]) -> tuple[str, dict[str, set[str]]]:
    """An answer, and block → the paths that it changes."""
    free = sorted({f"{folder}/{name}" for folder in FOLDERS for name in NAMES} - set(before))
    chance.shuffle(free)
    there = sorted(before)
    chance.shuffle(there)
    blocks: dict[str, set[str]] = {}
    for _ in range(chance.randint(1, 4)):
        path = free.pop()
        blocks[block(path)] = {path}
    for kind in chance.sample(["edit", "delete", "rename", "file"], chance.randint(0, 3)):
        path = there.pop()
        match kind:
            case "edit":
                said, paths = f"=== edit: {path} ===\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n=== end ===\n", {path}
            case "delete":
                said, paths = f"=== delete: {path} ===\n", {path}
            case "rename":
                said, paths = f"=== rename: {path} -> {(target := free.pop())} ===\n", {path, target}
            case _:
                said, paths = block(path), {path}
        blocks[said] = paths
    return "".join(blocks), blocks


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", tiers.some(range(120), 4))
async def test_what_is_written_is_what_explain_allows(tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int) -> None:
    chance = tiers.chance(f"written {number}")
    before = {path: "x\n" for path in chance.sample(["src/a.txt", "docs/B.txt", "Old/a.txt", "Old/B.txt", "docs/a.txt"], 4)}
    before[".github/a.txt"] = "x\n"
    role = policy_of(chance, ("", "workspace", "read-only")) if chance.random() < 0.7 else None
    text = {"sop": "law", "policy": policy_of(chance, ("workspace", "read-only", "danger-full-access", "")),
            "roles": {"clerk": {"profile": "You write.", **({"policy": role} if role is not None else {})}},
            "artifacts": {"tree": {"files": "**", "initial": before}},
            "steps": {"change": {"role": "clerk", "sees": ["tree"], "makes": "tree"}}, "outputs": ["tree"]}
    (tmp_path / "law.yaml").write_text(json.dumps(text))
    said, blocks = answer_of(chance, before)
    yes = chance.random() < 0.5
    told: list[str] = []

    def model(request: ModelRequest) -> str:
        told.append(str(request.messages[-1]["content"]))
        refused = set(re.findall(r"`write\(([^`]*)\)` is not allowed|a person did not allow `write\(([^`]*)\)`", "\n".join(told)))
        gone = {path for pair in refused for path in pair if path}
        kept = "".join(block_ for block_, paths in blocks.items() if not paths & gone)
        return said if len(told) == 1 else kept or block("src/nothing.md", "left")

    asked: list[str] = []

    async def asker(question: Question, _: int) -> Answer:
        asked.append(question.arguments["path"])
        return Answer(verdict="yes" if yes else "no")

    result = await run(tmp_path / "law.yaml", model=model, workspace=None, asker=asker)
    verdicts = {}
    for path in {"src/nothing.md"}.union(*blocks.values()):
        await asyncio.to_thread(command, ["policy", "explain", str(tmp_path / "law.yaml"), "clerk", f"write({path})", "--json"])
        verdicts[path] = json.loads(capsys.readouterr().out)["answer"]["verdict"]
    may = {path for path, verdict in verdicts.items() if verdict == "allow" or (verdict == "ask" and yes)}
    expected = [(one, paths) for one, paths in blocks.items() if paths <= may]
    assert set(asked) <= {path for path, verdict in verdicts.items() if verdict == "ask"}
    if not expected:
        assert result.ok == ("src/nothing.md" in may)
        return
    assert result.ok, (result.reason, verdicts)
    changed = {path for path in {*before, *result["tree"]} if before.get(path) != result["tree"].get(path)}
    written = set().union(*(paths for _, paths in expected))
    assert changed == {path for path in written if path not in before or block(path, "x") not in said}
