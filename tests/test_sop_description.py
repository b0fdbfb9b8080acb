"""Descriptions of services, as they come: JSON, YAML with numbers for keys, large, broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from api_server import DESCRIPTION, description

from metaflow_agents.sop.check import check
from metaflow_agents.sop.description import DESCRIPTIONS, read_description
from metaflow_agents.sop.load import load_sop
from metaflow_agents.sop.reading import read_yaml


def test_yaml_and_json_say_the_same() -> None:
    written = DESCRIPTION.read_bytes()
    assert read_description(written, "depot.yaml").data == description()
    assert read_description(json.dumps(description()).encode(), "depot.json").data == description()


def test_numbers_may_be_keys_and_stay_text() -> None:
    found = read_description(b"openapi: 3.0.0\nresponses: {200: {a: 1}, true: 2, 4XX: 3, 1.0: 4}\n", "a.yaml")
    assert found.problems == ()
    assert found.data == {"openapi": "3.0.0", "responses": {"200": {"a": 1}, "true": 2, "4XX": 3, "1.0": 4}}
    assert read_yaml(b"responses: {200: 1}\n", "a.yaml").problems[0].code == "yaml-key"      # a SOP's keys are words


@pytest.mark.parametrize(("written", "code", "place"), [
    (b'{"a": 1,\n "b": [1, 2}', "yaml-syntax", "a.json:2"), (b'{"a": 1, "a": 2}', "yaml-duplicate-key", "a.json:1:10"),
    (b'{"a": NaN, "a": 2}', "yaml-duplicate-key", "a.json:1:12"), (b'{"a": ' + b"[" * 5_000, "yaml-depth", "a.json:1"),
    (b"\xff{}", "yaml-encoding", "a.json:1"), (b"- a\n", "yaml-top", "a.json:1:1"),
    (b"200: 1\n200: 2\n", "yaml-duplicate-key", "a.json:2"),
    (b" " * (DESCRIPTIONS.size + 1), "yaml-size", "a.json"),
])
def test_what_is_wrong_has_a_place(written: bytes, code: str, place: str) -> None:
    problem = read_description(written, "a.json").problems[0]
    assert problem.code == code and problem.place.startswith(place)


def test_a_large_one_is_read(tmp_path: Path) -> None:
    """Three times as large as a SOP may be."""
    document = {"openapi": "3.0.0", "paths": {f"/r{number}": {"get": {"summary": "x" * 3_000}} for number in range(1_000)}}
    (tmp_path / "large.json").write_text(json.dumps(document))
    (tmp_path / "asks.yaml").write_text("sop: asks\nroles: {clerk: {goal: asks, tools: ['large.*']}}\n"
                                        "openapi: {large: {spec: large.json}}\n"
                                        "artifacts: {answer: {}}\nsteps:\n  ask: {role: clerk, makes: answer}\n")
    report = check(tmp_path / "asks.yaml")
    assert report.errors == ()
    assert load_sop(tmp_path / "asks.yaml").program.documents == {"large": document}
