"""The validator: accepts what JSON Schema accepts, and tells everything that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from schema_strategies import RECURSIVE, SCHEMAS, cases
from tiers import examples

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.faults import SchemaWritten
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.validation import validator

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def check(written: Any, value: Any) -> Any:
    return validator(to_json_schema(written), "it").validate(value)


def faults(written: Any, value: Any) -> tuple[str, ...]:
    with pytest.raises(AnswerInvalid) as caught:
        check(written, value)
    return caught.value.faults


def one(schema: dict[str, Any], value: Any) -> Any:
    return check({"$schema": DRAFT, **schema}, value)


def normalise(written: Any) -> Any:
    try:
        return to_json_schema(written)
    except SchemaWritten as refused:  # only definitions that never end are left out
        assert {fault.code for fault in refused.faults} <= {"schema-endless"}, refused
        assume(False)


def agree(case: tuple[Any, Any, Any]) -> None:
    written, normal, value = case
    expected = Draft202012Validator(written).is_valid(value)
    assert Draft202012Validator(normal).is_valid(value) == expected
    event(f"valid: {expected}")
    try:
        found = validator(normal, "it").validate(value)
    except AnswerInvalid as refused:
        assert not expected, refused.faults
        assert refused.faults
        return
    assert expected
    assert found == value
    assert json.loads(json.dumps(found)) == found
    assert validator(normal, "it").validate(found) == found


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(SCHEMAS, normalise))
def test_equal_to_jsonschema(case: tuple[Any, Any, Any]) -> None:
    agree(case)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(RECURSIVE, normalise))
def test_equal_to_jsonschema_where_schemas_repeat(case: tuple[Any, Any, Any]) -> None:
    agree(case)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("integer", "1"),
        ("integer", True),
        ("integer", 1.5),
        ("number", "1"),
        ("number", False),
        ("string", 1),
        ("boolean", 1),
        ("boolean", "true"),
        ("null", ""),
        ("null", 0),
        (["string"], "ab"),
        (["string"], ("a",)),
        ({"a": "string"}, [("a", "b")]),
        ("number", float("nan")),
        ("number", float("inf")),
        ("any", float("nan")),
        ("any", {1, 2}),
        ("any", {1: 2}),
        ("any", b"a"),
        ("string", "\ud800"),
        ("any", ["\ud800"]),
        ("any", {"\ud800": 1}),
        ({"properties": {}}, {"\ud800": 1}),
        ({"a": "string"}, None),
    ],
)
def test_nothing_is_guessed(written: Any, value: Any) -> None:
    assert len(faults(written, value)) == 1


def test_whole_floats_are_integers_and_integers_stay_exact() -> None:
    assert type(check("integer", 3.0)) is int
    assert type(check("number", 3)) is int
    assert check("number", 10**40 + 1) == 10**40 + 1
    assert one({"type": "integer", "minimum": 10**40}, 10**40 + 1) == 10**40 + 1
    assert one({"type": "number", "multipleOf": 0.1}, 0.3) == 0.3
    with pytest.raises(AnswerInvalid):
        one({"type": "number", "multipleOf": 0.1}, 0.35)


def test_a_pattern_is_found_anywhere() -> None:
    assert one({"type": "string", "pattern": "a+$"}, "bbaa") == "bbaa"


def test_the_first_branch_that_takes_a_value_gives_the_result() -> None:
    branches = [{"properties": {"a": {"type": "integer", "default": default}}} for default in (1, 2)]
    assert check({"anyOf": branches}, {}) == {"a": 1}


def test_equal_in_json_is_not_equal_in_python() -> None:
    assert one({"enum": [1]}, 1.0) == 1
    assert one({"type": "array", "uniqueItems": True}, [1, True, [1], [True]]) == [1, True, [1], [True]]
    for value in (True, "1", [1]):
        with pytest.raises(AnswerInvalid):
            one({"enum": [1]}, value)


def test_defaults_are_filled_in_and_absent_fields_stay_absent() -> None:
    written = {
        "properties": {
            "a": {"type": "integer", "default": 3},
            "b": {"type": "string"},
            "c": {"properties": {"d": {"type": "boolean", "default": True}}, "default": {}},
        }
    }
    first = check(written, {})
    assert first == {"a": 3, "c": {"d": True}}
    first["c"]["d"] = False
    assert check(written, {}) == {"a": 3, "c": {"d": True}}  # a default is not shared between values
    assert check(written, {"a": 1, "more": [1]}) == {"a": 1, "c": {"d": True}, "more": [1]}
    assert check({"a?": "string | null"}, {"a": None}) == {"a": None}


def test_the_result_shares_nothing_with_what_was_given() -> None:
    given_ = {"a": [1], "b": {"c": [2]}}
    found = check({"a": "any", "b": {"c": ["integer"]}}, given_)
    found["a"].append(3)
    found["b"]["c"].append(3)
    assert given_ == {"a": [1], "b": {"c": [2]}}


@pytest.mark.parametrize(
    "name", ["class", "items", "schema", "as", "model_x", "model_config", "_private", "__class__", "two words", "é"]
)
def test_any_name_is_a_field_name(name: str) -> None:
    assert check({name: "string", "other": "integer"}, {name: "x", "other": 1}) == {name: "x", "other": 1}
    assert faults({name: "string", "other": "integer"}, {"other": 1})[0].endswith("is missing; expected string")


def test_all_faults_come_at_once_each_with_its_path() -> None:
    written = {"title": "string", "files": [{"path": "string", "level?": "low | high"}], "odd key": "integer"}
    value = {"titl": "x", "files": [{"path": "a"}, {"path": 3, "level": "hgh"}, 7], "odd key": "1"}
    assert faults(written, value) == (
        "`title` is missing; expected string",
        "`files[1].path` is 3; expected string",
        '`files[1].level` is "hgh"; expected "low" or "high"',
        "`files[2]` is 7; expected {path, level?}",
        '`["odd key"]` is "1"; expected integer',
        "`titl` is not a known field; did you mean `title`? there is: title, files, odd key",
    )


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string", "minLength": 3}, "ab", 'the value is "ab"; expected string, at least 3 characters'),
        ({"type": "string", "pattern": "^a"}, "ba", 'the value is "ba"; expected string, matching ^a'),
        ({"type": "integer", "minimum": 1, "maximum": 5}, 7, "the value is 7; expected integer, at least 1, at most 5"),
        ({"type": "number", "multipleOf": 2}, 7, "the value is 7; expected number, a multiple of 2"),
        ({"type": "array", "minItems": 1}, [], "the value is []; expected list of any value, at least 1 items"),
        ({"type": "array", "uniqueItems": True}, [1, 1.0], "the value is [1, 1.0]; expected list of any value, each different"),
        ({"const": "a"}, "b", 'the value is "b"; expected "a"'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, "the value is 3; expected string or null"),
        (
            {"oneOf": [{"type": "string"}, {"minLength": 1}]},
            "a",
            'the value is "a", which fits 2 of the forms string or string, at least 1 characters; expected exactly one',
        ),
        ({"type": "string"}, ["x" * 100], f'the value is ["{"x" * 57}…; expected string'),
    ],
)
def test_what_is_told(schema: Any, value: Any, expected: str) -> None:
    with pytest.raises(AnswerInvalid) as caught:
        one(schema, value)
    assert caught.value.faults == (expected,)


def test_a_union_tells_of_the_branch_that_was_meant() -> None:
    forms = {
        "anyOf": [
            {"properties": {"kind": {"const": "dog"}, "legs": {"type": "integer"}}, "required": ["kind", "legs"]},
            {"properties": {"kind": {"const": "bird"}, "wings": {"type": "integer"}}, "required": ["kind", "wings"]},
            {"type": "null"},
        ]
    }
    assert faults({"pets": [forms]}, {"pets": [{"kind": "bird", "wings": "2"}]}) == ('`pets[0].wings` is "2"; expected integer',)
    assert faults({"pets": [forms]}, {"pets": [3]}) == ("`pets[0]` is 3; expected {kind, legs, …} or {kind, wings, …} or null",)


def test_a_field_of_a_union_in_a_repeated_schema() -> None:
    node = {
        "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
        "required": ["v"],
    }
    written = {"$ref": "#/$defs/n", "$defs": {"n": node}}
    assert check(written, {"v": 1, "next": {"v": 2, "next": None}}) == {"v": 1, "next": {"v": 2, "next": None}}
    assert faults(written, {"v": 1, "next": {"v": 2, "next": {"v": "3"}}}) == ('`next.next.v` is "3"; expected integer',)


def test_depth_is_bounded_and_a_value_that_holds_itself_is_refused() -> None:
    node = {"items": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}
    written = {"$ref": "#/$defs/n", "$defs": {"n": node}}
    value: list[Any] = [None]
    for _ in range(95):
        value = [value]
    assert check(written, value) == value
    looped: list[Any] = []
    looped.extend([looped, looped])
    for wrong in (looped, [[[value]]], {"a": looped}):
        deep: Any = wrong
        for _ in range(5):
            deep = [deep]
        assert faults(written, deep) == ("the value is nested deeper than 100 levels",)
        assert faults("any", deep) == ("the value is nested deeper than 100 levels",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,\n "b" 2}', "line 2, column 6"),
        ("", "line 1, column 1"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": 1, "a": 2}', 'the key "a" is duplicated'),
        ("[" * 100_000, "nested deeper than 100 levels"),
        ("1" * 10_000, "not JSON"),
    ],
)
def test_bad_json_is_told_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(AnswerInvalid) as caught:
        validator(to_json_schema("any"), "it").validate_json(text)
    assert len(caught.value.faults) == 1
    assert expected in caught.value.faults[0]


def test_json_text_is_checked_as_a_value_is() -> None:
    assert validator(to_json_schema({"a": "integer"}), "it").validate_json('{"a": 1.0}') == {"a": 1}
    with pytest.raises(AnswerInvalid, match="`a` is missing"):
        validator(to_json_schema({"a": "integer"}), "it").validate_json("{}")


def test_equal_schemas_share_one_validator_and_keep_the_order_of_their_fields() -> None:
    first, second = to_json_schema({"a": "string", "b": "string"}), to_json_schema({"b": "string", "a": "string"})
    assert validator(first, "it") is validator(json.loads(json.dumps(first)), "it")
    assert list(validator(second, "it").json_schema["properties"]) == ["b", "a"]
    assert validator(first, "it").json_schema == first


class Pet(BaseModel):
    name: str
    legs: int = 4


def test_a_python_model_is_loaded_only_by_the_given_function() -> None:
    asked: list[str] = []

    def load(reference: str) -> Any:
        asked.append(reference)
        return list[Pet]

    schema = to_json_schema({"python": "zoo.pets:Pets"})
    with pytest.raises(TypeError, match=r"zoo\.pets:Pets"):
        validator(schema, "pets")
    pets = validator(schema, "pets", load)
    assert asked == ["zoo.pets:Pets"]
    assert pets.validate([{"name": "Rex"}, Pet(name="Tweety", legs=2)]) == [
        {"name": "Rex", "legs": 4},
        {"name": "Tweety", "legs": 2},
    ]
    assert pets.json_schema["type"] == "array"
    with pytest.raises(AnswerInvalid) as caught:
        pets.validate([{"name": 3}, {}])
    assert [fault.split(" is ")[0] for fault in caught.value.faults] == ["`[0].name`", "`[1].name`"]


@pytest.mark.parametrize("schema", [{"type": "number"}, {"type": "integer"}, {}, {"type": "number", "multipleOf": 0.5},
                                    {"type": "integer", "minimum": 0, "maximum": 10**9}], ids=json.dumps)
@pytest.mark.parametrize("value", [10**400, -10**400, 10**5000], ids=["large", "low", "5000 digits"])
def test_numbers_beyond_doubles_are_refused(schema: dict[str, Any], value: int) -> None:
    """What calculates with them later, or compares them with a float, can't."""
    for given_, wanted in ((value, schema), ([value], {"type": "array", "items": schema})):
        with pytest.raises(AnswerInvalid):
            validator(wanted, "x").validate(given_)
