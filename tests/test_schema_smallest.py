"""The value that the `dry` model gives: valid, small, and what the schema itself offers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schema_strategies import RECURSIVE, SCHEMAS
from tiers import examples

from metaflow_agents.schema.faults import SchemaWritten
from metaflow_agents.schema.minimal_example import Lists, SmallestUnknown, smallest
from metaflow_agents.schema.results import FAILURE, JUNIT_RESULT, RUN_RESULT
from metaflow_agents.schema.shorthand import to_json_schema

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def of(written: Any, *, lists: Lists = "one") -> Any:
    return smallest(to_json_schema(written), "it", lists=lists)


def one(**schema: Any) -> Any:
    return of({"$schema": DRAFT, **schema})


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS | RECURSIVE, st.sampled_from(["one", "outer", "none"]))
def test_it_fits_its_own_schema(written: Any, lists: Lists) -> None:
    try:
        schema = to_json_schema(written)
    except SchemaWritten:
        event("no schema")
        return
    try:
        value = smallest(schema, "a", lists=lists)
    except SmallestUnknown as unknown:
        event("unknown")
        text = str(schema)
        assert any(word in text for word in ("pattern", "uniqueItems", "oneOf")), unknown
        return
    event("found")
    assert Draft202012Validator(schema).is_valid(value)


def test_the_fixed_schemas() -> None:
    assert smallest(RUN_RESULT, "it") == {"ok": True, "exit_code": 0, "stdout": "stdout", "stderr": "stderr"}
    assert smallest(JUNIT_RESULT, "it", lists="none")["failures"] == []
    assert smallest(JUNIT_RESULT, "it")["failures"] == [
        {"id": "id", "kind": "failure", "exception": "exception", "message": "message", "place": "place"}
    ]
    assert smallest(FAILURE, "it")["items"] == [{"key": "key", "error": "error"}]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("string", "it"),
        ("integer", 0),
        ("boolean", False),
        ("null", None),
        ("any", "it"),
        ("null | string", "it"),
        ("low | high", "low"),
        (["string"], ["it"]),
        ({"ok": "boolean", "sure": "boolean", "x?": "string"}, {"ok": True, "sure": False}),
        ({"a": {"enum": [3, 4], "default": 4}, "b": "string"}, {"a": 4, "b": "b"}),
    ],
)
def test_plain_kinds(written: Any, expected: Any) -> None:
    assert of(written) == expected


def test_what_the_schema_offers_comes_first() -> None:
    assert one(type="string", default="d", examples=["e"]) == "d"
    assert one(type="string", examples=["e", "f"]) == "e"
    assert one(type="string", pattern="^[0-9]+$", examples=["12"]) == "12"
    assert one(type="string", enum=["x", "y"], examples=["y"]) == "y"


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, 0),
        ({"minimum": 3}, 3),
        ({"exclusiveMinimum": 3}, 4),
        ({"maximum": -3}, -3),
        ({"exclusiveMaximum": -3}, -4),
        ({"minimum": 0.5}, 1),
        ({"minimum": 5, "multipleOf": 3}, 6),
        ({"maximum": -5, "multipleOf": 3}, -6),
        ({"minimum": 1, "multipleOf": 1.5}, 3),
        ({"minimum": -2, "maximum": 9}, 0),
    ],
)
def test_integers_nearest_to_zero(bounds: Any, expected: int) -> None:
    assert one(type="integer", **bounds) == expected


def test_numbers_nearest_to_zero() -> None:
    assert one(type="number", minimum=0.5) == 0.5
    assert one(type="number", exclusiveMinimum=0, maximum=0.5) in (0.25, 0.5)
    assert one(type="number", exclusiveMinimum=0, exclusiveMaximum=1) == 0.5
    assert one(type="number", minimum=0.7, multipleOf=0.5) == 1


def test_texts_are_fitted_to_their_lengths() -> None:
    assert one(type="string", minLength=5) == "ititi"
    assert one(type="string", maxLength=1) == "i"
    assert one(type="string", maxLength=0) == ""


def test_lists_hold_as_many_as_asked() -> None:
    written = {"a": [["string"]], "b": [{"c": ["string"]}]}
    assert of(written) == {"a": [["a"]], "b": [{"c": ["c"]}]}
    assert of(written, lists="outer") == {"a": [[]], "b": [{"c": []}]}
    assert of(written, lists="none") == {"a": [], "b": []}
    assert one(type="array", items={"type": "string"}, minItems=2) == ["it", "it"]
    assert one(type="array", maxItems=0) == []


@pytest.mark.parametrize(
    "items",
    [
        {"type": "string"},
        {"type": "string", "maxLength": 2},
        {"type": "integer", "minimum": 4},
        {"type": "number"},
        {"enum": ["a", "b", "c"]},
        {"properties": {"path": {"type": "string"}}, "required": ["path"]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    ],
)
def test_items_differ_where_they_must(items: Any) -> None:
    value = one(type="array", items=items, minItems=3, uniqueItems=True)
    assert len(value) == len({str(each) for each in value}) == 3


def test_recursion_ends() -> None:
    node = {
        "properties": {
            "v": {"type": "string"},
            "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
            "kids": {"items": {"$ref": "#/$defs/n"}},
        },
        "required": ["v", "next", "kids"],
    }
    assert of({"$ref": "#/$defs/n", "$defs": {"n": node}}) == {"v": "v", "next": None, "kids": []}


def test_what_is_not_known_names_its_field_and_the_mend() -> None:
    digits = {"properties": {"year": {"type": "string", "pattern": "^[0-9]{4}$"}}, "required": ["year"]}
    with pytest.raises(SmallestUnknown, match=r"`books\[0\]\.year`.*`default` or `examples`") as caught:
        of({"books": [digits]})
    assert caught.value.field == "`books[0].year`"
    assert of({"books": [digits]}, lists="none") == {"books": []}
    with pytest.raises(SmallestUnknown, match=r"a\.b:Model"):
        of({"python": "a.b:Model"})
    with pytest.raises(SmallestUnknown, match="`it`"):
        one(type="integer", minimum=0.2, maximum=0.8)
