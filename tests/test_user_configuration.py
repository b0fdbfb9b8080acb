"""The user's own file: where it lies, what it gives, how its mistakes are told, and that a SOP goes before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted import write

from metaflow_agents import check, run
from metaflow_agents.cli import command
from metaflow_agents.errors import SOPInvalid
from metaflow_agents.schema.endpoint import EndpointLimits, EndpointModel
from metaflow_agents.settings import Settings
from metaflow_agents.sop.configuration import load_configuration, read_configuration

SOP = """
    sop: desk
    roles: {ann: {profile: You write.MODEL}}
    artifacts: {one: {}}
    steps: {first: {role: ann, makes: one}}
"""
MINE = "models: {default: 'python:mine.py:answer', strong: 'python:mine.py:strongly'}\nlimits: {rpm: 60}\n"
FILES = {"mine_py": "def answer(r):\n    return 'mine'\ndef strongly(r):\n    return 'strongly'\n",
         "theirs_py": "def answer(r):\n    return 'theirs'\n"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file lies for this process."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    (tmp_path / "settings" / "sop").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "settings" / "sop" / "config.yaml"


def desk(folder: Path, model: str = "", top: str = "") -> Path:
    return write(folder, SOP.replace("MODEL", model).replace("    roles:", f"    {top}\n    roles:"), **FILES)


def configured(place: Path, text: str) -> None:
    place.write_text(text)


async def said(path: Path, **options: object) -> str:
    return str((await run(path, workspace=None, **options))["one"])


@pytest.mark.parametrize(("variables", "found"), [
    ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/sop/config.yaml"), ({"HOME": "/h"}, "/h/.config/sop/config.yaml"),
    ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/sop/config.yaml"),
    ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/sop/config.yaml"),        # as the specification says
    ({}, None), ({"HOME": "h"}, None)])
def test_where_it_lies(variables: dict[str, str], found: str | None) -> None:
    assert Settings.read(variables).configuration == (None if found is None else Path(found))


async def test_it_names_the_default_and_other_models(place: Path, tmp_path: Path) -> None:
    configured(place, MINE)
    assert await said(desk(tmp_path)) == "mine"
    assert await said(desk(tmp_path, ", model: strong")) == "strongly"
    assert await said(desk(tmp_path), model="strong") == "strongly"


async def test_everything_else_goes_before_it(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(place, MINE)
    assert await said(desk(tmp_path, top="models: {default: 'python:theirs.py:answer'}")) == "theirs"
    assert await said(desk(tmp_path, ", model: strong", "models: {strong: 'python:theirs.py:answer'}")) == "theirs"
    assert await said(desk(tmp_path), model="python:theirs.py:answer") == "theirs"
    monkeypatch.setenv("SOP_MODEL", "python:theirs.py:answer")
    assert await said(desk(tmp_path)) == "theirs"


async def test_without_it_nothing_is_configured(place: Path, tmp_path: Path) -> None:
    assert load_configuration(place) == load_configuration(None) and not read_configuration(place).there
    configured(place, "# nothing yet\n")
    assert read_configuration(place).there and read_configuration(place).problems == ()


def test_all_of_it_is_read(place: Path) -> None:
    place.write_text("models: {near: {name: qwen3, endpoint: 'http://localhost:1/v1', price: {in: 1, out: 2}}}\n"
                     "limits: {rpm: 9}\n")
    found = load_configuration(place)
    near = found.models["near"]
    assert isinstance(near, EndpointModel) and near.price is not None and near.price.out == 2
    assert found.limits == EndpointLimits(rpm=9)


@pytest.mark.parametrize(("text", "code", "at", "told"), [
    ("modles: {}\n", "unknown-key", "1:1", "did you mean `models`"),
    ("models: {strong: {name: m, base_url: x}}\n", "foreign-key", "1:28", "write `endpoint: URL`"),
    ("models:\n  strong: {name: m, key: sk-0123456789}\n", "model-key", "2:26", "keys are never written"),
    ("models: {strong: gpt-5}\n", "unknown-model", "1:18", "`openai:gpt-5` asks an endpoint"),
    ("models: {strong: {name: m, endpoint: 'http://x/v1/chat/completions'}}\n", "model-endpoint", "1:38", "write `http://x/v1`"),
    ("models: {strong: {name: m, parameters: {n: 2}}}\n", "model-parameter", "1:44", "a call has one answer"),
    ("models: {strong: {name: m, price: {in_: 1, out: 1}}}\n", "unknown-key", "1:36", "did you mean `in`"),
    ("limits: {rmp: 1}\n", "unknown-key", "1:10", "did you mean `rpm`"),
    ("limits: {rpm: many}\n", "bad-quantity", "1:15", "not a count"),
    ("default: dry\n", "foreign-key", "1:1", "`models: {default: …}`"),
    ("models: [a\n", "yaml-syntax", "1:9", ""),
    ("models: {a: dry, a: dry}\n", "yaml-duplicate-key", "1:18", ""),
    ("- models\n", "yaml-top", "1:1", ""),
])
def test_its_mistakes_are_told_with_their_place(place: Path, text: str, code: str, at: str, told: str) -> None:
    place.write_text(text)
    with pytest.raises(SOPInvalid) as caught:
        load_configuration(place)
    (problem,) = caught.value.problems
    assert (problem.code, problem.place) == (code, f"{place}:{at}")
    assert told in f"{problem.message} {problem.mend}" and "sk-0123456789" not in str(problem)


async def test_a_broken_one_stops_a_run_that_needs_it_and_no_other(place: Path, tmp_path: Path,
                                                                   capsys: pytest.CaptureFixture[str]) -> None:
    configured(place, "modles: {}\n")
    assert await said(desk(tmp_path), model="python:theirs.py:answer") == "theirs"
    assert command(["run", "desk.yaml"]) == 2
    err = capsys.readouterr().err
    assert f"{place}:1:1" in err and err.splitlines()[-1] == "sop: your configuration has 1 error: nothing was run"
    assert not (tmp_path / "workspace").exists()


def test_a_check_knows_its_names(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = desk(tmp_path, ", model: strong")
    assert [problem.code for problem in check(path).problems] == ["unknown-model"] and command(["check", "desk.yaml"]) == 2
    place.write_text(MINE)
    assert check(path).ok and command(["check", "desk.yaml"]) == 0
    assert not check(path, settings=Settings()).ok
    place.write_text(MINE.replace("'python:mine.py:strongly'", "{name: qwen3}"))
    path.write_text(path.read_text() + "tests: {walks: {model: strong}}\n")
    assert [problem.code for problem in check(path).problems] == ["model-in-test"]
    capsys.readouterr()


@pytest.mark.one_in(4)
def test_doctor_tells_of_it(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> dict[str, tuple[str, str]]:
        command(["doctor", "--json"])
        return {one["what"]: (one["state"], one["said"]) for one in json.loads(capsys.readouterr().out)}

    assert told()["configuration"] == ("ok", f"none; it would be {place}")
    assert told()["model"][0] == "note" and told()["endpoint"] == (
        "note", "of a model that names none: OpenAI's; OPENAI_API_KEY is not set")
    place.write_text(MINE)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-told")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    seen = told()
    assert seen["configuration"] == ("ok", f"{place}: models default, strong; limits")
    assert seen["model"] == ("ok", "python:mine.py:answer, of your configuration")
    assert seen["endpoint"] == (
        "ok", "of a model that names none: OPENAI_BASE_URL, http://localhost:1/v1; OPENAI_API_KEY is set")
    assert "sk-not" not in str(seen)
    place.write_text('models: {default: {name: qwen3, endpoint: "http://localhost:11434/v1"}}\n')
    assert told()["model"] == ("ok", "openai:qwen3 at http://localhost:11434/v1, of your configuration")
    place.write_text("modles: {}\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:1/v1")
    assert told()["configuration"][0] == told()["endpoint"][0] == "bad" and command(["doctor"]) == 1
    capsys.readouterr()
