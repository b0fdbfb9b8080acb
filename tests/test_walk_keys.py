"""Every key of the language changes something: a walk over the models under `schema/sop.py` against the pairs of `walk_pairs.py`.

A key without a pair fails, a pair whose two sides are equal fails, and so does one whose sides differ by chance: each
side is observed twice.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from walk_journal import told
from walk_models import StandIn
from walk_pairs import KEYS_SET, LEFT_OUT, PAIRS, Pair
from walk_sops import LETTER, NOTES
from walk_strategies import planned_apart

from metaflow_agents.agent import strategies
from metaflow_agents.api.run import start
from metaflow_agents.api.sop_test import CaseVerdict, try_out
from metaflow_agents.cli import given
from metaflow_agents.errors import MetaflowError, UsageError
from metaflow_agents.kits.planning import solving
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.unconfined import Unconfined
from metaflow_agents.schema.sop import NOT_BUILT, SOP
from metaflow_agents.schema.step import Human, Makes, OnFail, Step
from metaflow_agents.schema.strategies import STRATEGIES, StrategySpec
from metaflow_agents.settings import Settings
from metaflow_agents.sop.check import check
from metaflow_agents.sop.load import load_sop
from metaflow_agents.views.page import Page

SETTINGS = Settings.read({"PATH": os.environ["PATH"], "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"], **KEYS_SET})


def key_paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key that can be written in a model and what it holds: `steps.*.foreach.in`, names and indices as `*`."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if field.annotation is Makes:
            yield from (path, f"{path}.*")
        elif field.annotation is OnFail:
            yield from (f"{path}({action})" for action in get_args(OnFail.model_fields["action"].annotation))
        elif path == "steps.*.human":
            yield from (f"{path}({kind})" for kind in get_args(Human.model_fields["kind"].annotation))
        elif path == "steps.*.strategy":
            for strategy, spec in STRATEGIES.items():
                yield f"{path}({strategy})"
                yield from _parameters(spec, f"{path}.{strategy}.")
        else:
            yield path
            yield from _inside(field.annotation, path)


def _parameters(spec: type[StrategySpec], prefix: str) -> Iterator[str]:
    """The keys of a strategy's parameters, with each of its prompts."""
    for path in key_paths(spec, prefix):
        if path == f"{prefix}prompts":
            yield from (f"{path}.{prompt}" for prompt in spec.PROMPTS)
        else:
            yield path


def _inside(annotation: Any, path: str) -> Iterator[str]:
    """The keys below one key: of a model itself, or of those in a mapping or a list, which are keys too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from key_paths(annotation, f"{path}.")
        return
    held = [one for arg in get_args(annotation) if arg is not Ellipsis for one in _inside(arg, f"{path}.*")]
    if get_origin(annotation) is dict and held:
        yield f"{path}.*"
    if get_origin(annotation) in (dict, tuple, list):
        yield from held
    elif get_origin(annotation) is not Literal:
        yield from (one for arg in get_args(annotation) for one in _inside(arg, path))


@pytest.fixture(autouse=True)
def no_endpoint_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.models.endpoint.endpoint_model", StandIn)


@pytest.fixture(autouse=True)
def acme_is_installed_where_it_is_named(request: pytest.FixtureRequest) -> None:
    pair = getattr(request.node, "callspec", None) and request.node.callspec.params.get("pair")
    if isinstance(pair, Pair) and "Acme" in pair.base:
        request.getfixturevalue("acme_here")


@pytest.fixture(autouse=True)
def no_planner_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Unconfined.run

    async def run(self: Unconfined, argv: Sequence[str], **given: Any) -> Completed:
        if "solve.py" not in argv:
            return await real(self, argv, **given)
        return Completed(0, "", "", 0.1, files={"outcome.json": planned_apart(argv, given["timeout"])})

    monkeypatch.setattr(Unconfined, "run", run)
    monkeypatch.setattr(solving, "missing", lambda: "")


KEYS = tuple(key_paths(SOP))


def key_of(pair: Pair) -> str | None:
    """The key that a pair is about."""
    def fits(key: str) -> bool:
        path, _, form = key.partition("(")
        wanted = re.escape(path).replace(r"\*", r"[^.]+")
        return re.fullmatch(wanted, pair.at) is not None and form.rstrip(")") in ("", pair.form)
    found = [key for key in KEYS if fits(key)]
    return max(found, key=lambda key: key.count("(")) if found else None


def test_the_walk_sees_every_kind_of_key() -> None:
    assert {"sop", "models", "budget.calls", "inputs.*.type", "roles.*.memory.window", "roles.*.budget.time",
            "artifacts.*.rules.*.message", "defaults.roles", "steps.*.foreach.parallel", "steps.*.check.repairs",
            "steps.*.makes", "steps.*.makes.*", "steps.*.on_fail(makes)", "steps.*.strategy(single)",
            "steps.*.strategy.reflexion.evaluator.run", "steps.*.strategy.react.prompts.act",
            "tests.*.expect"} <= set(KEYS)
    assert len(KEYS) == len(set(KEYS)) > 90
    assert strategies.known() == STRATEGIES


def test_every_key_has_a_pair_and_every_pair_a_key() -> None:
    covered = [key_of(pair) for pair in PAIRS]
    assert [pair.name for pair, key in zip(PAIRS, covered, strict=True) if key is None] == []
    assert [key for key in KEYS if key not in covered] == []
    assert covered and all(pair.form or "(" not in str(key) for pair, key in zip(PAIRS, covered, strict=True))


def side(pair: Pair, value: Any) -> dict[str, Any]:
    """The base with what both sides have, and with the value at the pair's place (LEFT_OUT: without the key)."""
    data: dict[str, Any] = yaml.safe_load(pair.base)
    for at, what in {**pair.also, pair.at: value}.items():
        *above, last = (int(part) if part.isdigit() else part for part in at.split("."))
        here: Any = data
        for part in above:
            here = here.setdefault(part, {}) if isinstance(here, dict) else here[part]
        if what is LEFT_OUT:
            here.pop(last, None)
        else:
            here[last] = copy.deepcopy(what)
    return data


def write(data: dict[str, Any], pair: Pair, folder: Path) -> Path:
    """The SOP and its files in a folder. JSON is YAML."""
    folder.mkdir(exist_ok=True)
    for name, text in pair.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    file = folder / "walk.yaml"
    file.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return file


async def observed(pair: Pair, file: Path) -> Any:
    """What a pair's side does, free of times, fingerprints and the SOP's own text."""
    if pair.shows == "check":
        found = check(file, start=file.parent)
        return sorted({problem.code for problem in found.problems})
    if pair.shows == "people":
        program = load_sop(file).program
        return given.help_lines(program, (), Page())
    if pair.shows == "tests":
        return [{**verdict.as_json(), "seconds": 0} for verdict in await _verdicts(file)]
    return await journalled(pair, file)


async def _verdicts(file: Path) -> list[CaseVerdict]:
    try:
        return [verdict async for verdict in try_out(file)]
    except UsageError as error:
        return [CaseVerdict("", False, str(error))]


async def journalled(pair: Pair, file: Path) -> Any:
    """The events of a run with what they name by digest; the refusal where none began."""
    found = check(file, start=file.parent)
    if not found.ok:
        raise AssertionError(f"{pair.name} needs two sides that may run:\n" + "\n".join(map(str, found.errors)))
    try:
        going = start(file, model=pair.model, inputs=pair.given, workspace=None, sandbox="none", settings=SETTINGS)
    except MetaflowError as error:
        return f"{type(error).__name__}: {error}"
    async with asyncio.timeout(20), going:
        await going.result()
        return told(going.journal)


async def differ(pair: Pair, folder: Path, absent: dict[str, Any], present: dict[str, Any]) -> None:
    """Fails where the two sides do the same, or one side not the same twice."""
    sides = [await observed(pair, write(data, pair, folder)) for data in (absent, present, absent, present)]
    texts = [json.dumps(one, indent=1, ensure_ascii=False) for one in sides]
    for first, second in ((0, 2), (1, 3)):
        if texts[first] != texts[second]:
            raise AssertionError(f"{pair.name}: the {('absent', 'present')[first]} side does not do the same twice:\n"
                                 + "\n".join(unified_diff(texts[first].splitlines(), texts[second].splitlines(), lineterm="")))
    if texts[0] == texts[1]:
        raise AssertionError(f"{pair.name} changes nothing: both sides give\n{texts[0]}")


@pytest.mark.one_in(9)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
async def test_a_key_changes_what_happens(pair: Pair, tmp_path: Path) -> None:
    await differ(pair, tmp_path, side(pair, pair.instead), side(pair, pair.value))


OF_A_ROLE = [pair for pair in PAIRS if pair.at.startswith("roles.writer.") and pair.shows in ("journal", "check")]
OF_A_STEP = [pair for pair in PAIRS if pair.at.count(".") > 1 and pair.at.startswith("steps.") and pair.shows == "journal"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pair", OF_A_ROLE, ids=lambda pair: pair.name)
async def test_a_key_of_a_role_does_the_same_in_its_file(pair: Pair, tmp_path: Path) -> None:
    for name, value in (("absent", pair.instead), ("present", pair.value)):
        data = side(pair, value)
        here = await observed(pair, write(data, pair, tmp_path / "here"))
        roles = tmp_path / name / "roles"
        roles.mkdir(parents=True)
        for other, text in {**pair.files, "writer.yaml": json.dumps(data["roles"]["writer"])}.items():
            (roles / other).write_text(text, encoding="utf-8")
        moved = {**data, "roles": {**data["roles"], "writer": {}}}
        assert await observed(pair, write(moved, pair, tmp_path / name)) == here


@pytest.mark.one_in(6)
@pytest.mark.parametrize("pair", [pair for pair in [*OF_A_ROLE, *OF_A_STEP] if pair.shows == "journal"],
                         ids=lambda pair: pair.name)
async def test_a_key_does_the_same_in_defaults(pair: Pair, tmp_path: Path) -> None:
    data = side(pair, pair.value)
    part, owner, key, *_ = pair.at.split(".")
    if len(data[part]) > 1 or key == "profile":
        pytest.skip("defaults are everybody's, and say of nobody who it is")
    here = await observed(pair, write(data, pair, tmp_path))
    moved = copy.deepcopy(data)
    moved.setdefault("defaults", {}).setdefault(part, {})[key] = moved[part][owner].pop(key)
    assert await observed(pair, write(moved, pair, tmp_path)) == here


@pytest.mark.parametrize(("part", "key"), [(part, key) for part, keys in NOT_BUILT.items() for key in keys])
def test_what_is_not_built_is_refused_by_name(part: str, key: str, tmp_path: Path) -> None:
    places = {"sop": "", "role": "roles.writer.", "step": "steps.write.", "foreach": "steps.write.foreach.",
              "artifact": "artifacts.notes.", "memory": "roles.writer.memory.",
              "recall": "roles.writer.memory.recall.", "budget": "budget."}
    pair = Pair(places[part] + key, {}, NOTES)
    found = check(write(side(pair, {}), pair, tmp_path), start=tmp_path)
    said = [problem for problem in found.problems if problem.code == "not-built"]
    assert [f"`{key}`" in problem.message for problem in said] == [True], [str(problem) for problem in found.problems]
    assert not found.ok and found.program is None


async def test_the_walk_tells_a_key_that_does_nothing(tmp_path: Path) -> None:
    pair = Pair("steps.write.foreach.as", "item", NOTES)            # the default, said again
    with pytest.raises(AssertionError, match="changes nothing"):
        await differ(pair, tmp_path, side(pair, pair.instead), side(pair, pair.value))


async def test_the_walk_tells_a_difference_by_chance(tmp_path: Path) -> None:
    count = iter(range(1000))
    pair = Pair("steps.write.foreach.as", "item", NOTES, model=lambda request: next(count))
    with pytest.raises(AssertionError, match="not do the same twice"):
        await differ(pair, tmp_path, side(pair, pair.instead), side(pair, pair.value))


def test_the_walk_tells_a_key_without_a_pair_and_a_pair_without_a_key() -> None:
    class Wider(Step):
        colour: str = "blue"

    assert "colour" in set(key_paths(Wider))
    assert key_of(Pair("steps.write.colour", "red", LETTER)) is None
    assert key_of(Pair("steps.write.on_fail", "skip", LETTER, form="skp")) is None
    assert key_of(Pair("steps.write.makes.notes", "a.txt", LETTER)) == "steps.*.makes.*"
