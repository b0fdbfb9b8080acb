"""What must pass: `tests/sops/good/` exercises every key of the language, and the SOPs that ship."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from metaflow_agents.errors import Problem
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.check import check
from metaflow_agents.sop.load import load_sop, read_sop
from metaflow_agents.sop.reading import read_yaml
from metaflow_agents.sop.shape_errors import MODELS, keys_of
from metaflow_agents.tools.known import known_tools

ROOT = Path(__file__).parent.parent
GOOD = Path(__file__).parent / "sops" / "good"
FILES = sorted(file for file in GOOD.glob("*.yaml") if not file.name.endswith(".schema.yaml"))
SHIPPED = sorted(file for file in (ROOT / "sops").glob("*.yaml") if not file.name.endswith(".schema.yaml"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("file", [*FILES, *SHIPPED], ids=lambda file: file.stem)
def test_a_good_file_passes_without_a_word(file: Path) -> None:
    found = check(file.name, start=file.parent, tools=known_tools)
    assert [str(problem) for problem in found.problems] == []
    assert found.ok and found.program is not None and found.bounds is not None
    assert list(found.bounds.steps) == list(found.program.sop.steps)


def _keys(kind: str, written: Any) -> Iterator[tuple[str, str]]:
    """(kind, key) for every key of the language that stands in a file's data."""
    children = {"roles": "role", "artifacts": "artifact", "inputs": "input", "steps": "step", "tests": "case",
                "models": "model", "tools": "tool", "mcpServers": "server", "openapi": "api"}
    for key, value in written.items() if isinstance(written, dict) else ():
        yield kind, key
        if kind == "sop" and key in children:
            for one in value.values():
                if key != "inputs" or (isinstance(one, dict) and "type" in one):
                    yield from _keys(children[key], one)
        elif key in MODELS and isinstance(value, dict):
            yield from _keys(key, value)
        elif (kind, key) == ("step", "tools") and isinstance(value, dict):
            yield from _keys("choice", value)
        elif kind == "artifact" and key == "rules":
            for rule in value:
                yield from _keys("rule", rule)
        elif kind == "case" and key == "prompts":
            for one in value.values():
                yield from _keys("prompted", one)
        elif kind == "defaults":
            yield from _keys(key.removesuffix("s"), value)


def test_together_they_use_every_key_of_the_language() -> None:
    used = {pair for file in [*FILES, *GOOD.glob("roles/*.yaml")]
            for pair in _keys("role" if file.parent.name == "roles" else "sop", read_yaml(file.read_bytes(), file.name).data)}
    known = {(kind, key) for kind in MODELS if kind != "configuration" for key in keys_of(kind)}      # a file of its own
    of_packages = {("step", "use"), ("step", "with"), ("tool", "source"), ("tool", "with"), ("tool", "effects")}
    assert known - used == of_packages              # the SOPs with these need a package: tests/test_plugins.py has them
    assert all(issubclass(model, BaseModel) for model in MODELS.values())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_manifest_is_stable_and_whole(file: Path) -> None:
    found = check(file.name, start=file.parent)
    manifest = found.as_json()
    assert list(manifest) == ["manifest", "file", "ok", "problems", "bounds", "fingerprint", "functions", "unfollowed", "program"]
    assert manifest == json.loads(json.dumps(manifest)) == check(read_sop(file.name, start=file.parent),
                                                                 start=file.parent).as_json()
    assert Program.model_validate(manifest["program"]).fingerprint == manifest["fingerprint"] == load_sop(
        file.name, start=file.parent).program.fingerprint


def test_bounds_are_those_of_the_rules() -> None:
    """Of `debate.yaml`: 3 replies and 3 rejoinders follow 1 opening; the judge may speak after each speech, 6 times at most."""
    steps = check("debate.yaml", start=GOOD).as_json()["bounds"]["steps"]
    assert {name: step["firings"] for name, step in steps.items()} == {"open": 1, "reply": 3, "rejoin": 3, "rule": 6}
    assert {name: step["calls"] for name, step in steps.items()} == dict.fromkeys(steps, 3)


def test_bounds_count_attempts_repairs_items_and_caps(tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text(
        "sop: it\nroles: {writer: {profile: You write.}}\n"
        "inputs: {names: [string], three: {type: {type: array, items: {type: string}, maxItems: 3}}}\n"
        "artifacts: {letter: {file: letter.txt}, notes: {each: string}, more: {each: string}}\nsteps:\n"
        "  write: {role: writer, makes: letter, retries: 2, strategy: chain_of_thought, check: {run: 'true', repairs: 4}}\n"
        "  note: {role: writer, needs: [names, letter], foreach: {in: names}, makes: notes, budget: {calls: 7}}\n"
        "  add: {role: writer, needs: [three, notes], foreach: {in: three}, makes: more}\n")
    bounds = check("it.yaml", start=tmp_path).bounds
    assert bounds is not None
    assert bounds.steps["write"].calls == 3 * (2 + 2 + 4 * (1 + 2))      # attempts (strategy, repairs, checks (answer, repairs))
    assert (bounds.steps["note"].activations, bounds.steps["note"].total_calls) == ("per item of names", 7)
    assert (bounds.steps["add"].activations, bounds.steps["add"].total_calls) == (3, 9)
    assert bounds.calls == 48 + 7 + 9


def mutated(text: str, chance: random.Random) -> str:
    """The text with one to three slips: a line lost or doubled, a word changed, a character typed or lost."""
    for _ in range(chance.randint(1, 3)):
        lines = text.splitlines(keepends=True)
        words = list(re.finditer(r"[A-Za-z_]\w*|\d+|\[[^\[\]]*\]|\{[^{}]*\}", text))
        at = chance.randrange(len(lines) or 1)
        match chance.randrange(6):
            case 0:
                text = "".join(lines[:at] + lines[at + 1:])
            case 1:
                text = "".join(lines[:at] + lines[at:at + 1] * 2 + lines[at + 1:])
            case 2 | 3 if len(words) > 1:
                one, other = chance.choice(words), chance.choice(words)
                text = text[:one.start()] + other[0] + text[one.end():]
            case 4:
                offset = chance.randrange(len(text) or 1)
                text = text[:offset] + chance.choice("{}[]:,#|'\"&*!%@\t \n-?<>\\é\u2028\0") + text[offset:]
            case _:
                offset = chance.randrange(len(text) or 1)
                text = text[:offset] + chance.choice(["null", "true", "[]", "{}", "{{ x }}", "-1", "1e999", "''", ".missing",
                                                      "*a", "&a "]) + text[offset + 1:]
    return text


def _mutants(folder: Path, seeds: range) -> None:
    texts = {file.name: file.read_text(encoding="utf-8") for file in FILES}
    for other in [*GOOD.glob("*.j2"), *GOOD.glob("*.py"), *GOOD.glob("*.schema.yaml")]:
        (folder / other.name).write_bytes(other.read_bytes())
    (folder / "roles").mkdir()
    for other in GOOD.glob("roles/*"):
        (folder / "roles" / other.name).write_bytes(other.read_bytes())
    for seed in seeds:
        chance = random.Random(seed)
        text = mutated(texts[chance.choice(sorted(texts))], chance)
        (folder / "mutant.yaml").write_text(text, encoding="utf-8", errors="replace")
        try:
            found = check("mutant.yaml", start=folder)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
        lines = text.splitlines()
        for problem in found.problems:
            assert isinstance(problem, Problem)
            assert "Traceback" not in str(problem) and problem.message, f"seed {seed}: {problem}"
            if problem.file == "mutant.yaml":
                assert 0 <= problem.line <= len(lines) + 1, f"seed {seed}: {problem}"


@pytest.mark.one_in(4)
def test_no_slip_makes_the_checker_itself_fail(tmp_path: Path) -> None:
    _mutants(tmp_path, range(150))


@pytest.mark.slow
def test_no_slip_of_very_many_makes_the_checker_itself_fail(tmp_path: Path) -> None:
    _mutants(tmp_path, range(1000, 9000))
