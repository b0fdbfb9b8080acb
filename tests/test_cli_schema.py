"""The JSON Schema for editors, read by an independent reader: accepts what `sop check` accepts, refuses unknown keys."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from metaflow_agents.cli import command
from metaflow_agents.schema.sop import NOT_BUILT
from metaflow_agents.sop.check import check
from metaflow_agents.sop.editor_schema import role_schema, sop_schema
from metaflow_agents.sop.reading import read_yaml

ROOT = Path(__file__).parent.parent
FOLDERS = ("sops", "tests/sops/good", "examples/*")
SOPS = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.yaml")
              if not {".schema", ".openapi"} & set(path.suffixes))
ROLES = sorted(path for folder in ("roles", "tests/sops/good/roles") for path in (ROOT / folder).glob("*.yaml"))
BAD = sorted((ROOT / "tests" / "sops" / "bad").glob("*.yaml"))

SOP_FILE = jsonschema.Draft7Validator(sop_schema())
ROLE_FILE = jsonschema.Draft7Validator(role_schema())


def data(path: Path) -> Any:
    return read_yaml(path.read_bytes(), path.name).data


def faults(reader: jsonschema.Draft7Validator, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in reader.iter_errors(value)]


def test_both_are_schemas() -> None:
    for schema in (sop_schema(), role_schema()):
        jsonschema.Draft7Validator.check_schema(schema)


@pytest.mark.parametrize("path", SOPS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_good_sop_is_accepted(path: Path) -> None:
    assert faults(SOP_FILE, data(path)) == []


@pytest.mark.parametrize("path", ROLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_role_is_accepted(path: Path) -> None:
    assert faults(ROLE_FILE, data(path)) == []


@pytest.mark.one_in(4)
def test_what_the_schema_refuses_is_refused_by_check() -> None:
    """An editor must not mark what is fine. What is no mapping at all is told by the YAML reader alone."""
    refused = [path for path in BAD if isinstance(data(path), dict) and faults(SOP_FILE, data(path))]
    assert len(refused) > 10
    assert [path.name for path in refused if check(path).ok] == []


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_an_unknown_key_is_refused(path: Path) -> None:
    report = check(path)
    told = [problem for problem in report.problems if problem.code == "unknown-key" and problem.file.endswith(path.name)]
    if told and isinstance(data(path), dict):
        assert faults(SOP_FILE, data(path)), told


PLACES: list[tuple[Any, ...]] = [
    (), ("steps", "write_code"), ("steps", "write_code", "foreach"), ("steps", "write_code", "check"), ("roles", "engineer"),
    ("artifacts", "prd"), ("artifacts", "prd", "rules", 0), ("tests", "walks_through"), ("budget",)]
"""Mappings of the language in the software company: those in which a person does not choose the keys."""


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for part in place:
        value = value[part]
    return value


def test_an_unknown_key_is_refused_everywhere() -> None:
    good = data(ROOT / "sops" / "design_first.yaml")
    for place in PLACES:
        spoilt = copy.deepcopy(good)
        _at(spoilt, place)["surprise"] = 1
        assert any("surprise" in fault for fault in faults(SOP_FILE, spoilt)), place
    assert faults(ROLE_FILE, {"role": "x", "surprise": 1})


def test_what_is_not_built_is_no_key() -> None:
    whole = sop_schema()
    kinds = {"sop": whole, **{kind: whole["definitions"][kind.capitalize()] for kind in NOT_BUILT if kind != "sop"}}
    for kind, keys in NOT_BUILT.items():
        assert not set(keys) & set(kinds[kind]["properties"]), kind


@pytest.mark.parametrize(("place", "value"), [
    (("steps", "write_code", "retries"), -1), (("steps", "write_code", "makes"), 3),
    (("steps", "write_code", "makes"), {"a": "x", "b": "y"}), (("steps", "write_code", "on_fail"), "skipp"),
    (("steps", "write_code", "on_fail"), {"make": "x"}), (("budget", "calls"), [1]),
    (("steps", "write_code", "foreach", "parallel"), "two"), (("roles",), []), (("language",), 7), (("outputs",), "source"),
    (("steps", "9th"), {}), (("artifacts", "source", "files"), 1)])
def test_a_wrong_type_is_refused(place: tuple[Any, ...], value: Any) -> None:
    good = data(ROOT / "sops" / "design_first.yaml")
    assert faults(SOP_FILE, good) == []
    _at(good, place[:-1])[place[-1]] = value
    assert faults(SOP_FILE, good)


@pytest.mark.parametrize(("words", "file"), [(["schema"], "sop.schema.json"), (["schema", "--role"], "role.schema.json")])
def test_the_files_in_docs_are_what_the_command_prints(words: list[str], file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(words) == 0
    printed = capsys.readouterr().out
    kept = (ROOT / "docs" / file).read_text(encoding="utf-8")
    assert kept == printed, f"run: sop {' '.join(words)} > docs/{file}"


@pytest.mark.parametrize("path", [path for path in (*SOPS, *ROLES) if path.parent in (ROOT / "sops", ROOT / "roles")],
                         ids=lambda path: path.name)
def test_shipped_files_name_the_schema(path: Path) -> None:
    named = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / named).resolve().is_relative_to(ROOT / "docs")
    assert (path.parent / named).is_file()
