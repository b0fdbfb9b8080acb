"""Three spellings, one meaning: the shorthand and its mistakes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tiers import some

from metaflow_agents.schema.faults import SchemaFault, SchemaWritten
from metaflow_agents.schema.results import FAILURE, JUNIT_RESULT, RUN_RESULT
from metaflow_agents.schema.shorthand import to_json_schema

TEXT = {"type": "string"}
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def faults(written: Any) -> tuple[SchemaFault, ...]:
    with pytest.raises(SchemaWritten) as caught:
        to_json_schema(written)
    return caught.value.faults


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("string", {"$schema": DRAFT, "type": "string"}),
        ("any", {"$schema": DRAFT}),
        (None, {"$schema": DRAFT, "type": "null"}),
        ("number | null", {"$schema": DRAFT, "type": ["number", "null"]}),
        ("number | null", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        ("low | medium | high", {"enum": ["low", "medium", "high"]}),
        ("low | medium | high", {"$schema": DRAFT, "type": "string", "enum": ["low", "medium", "high"]}),
        ("low | null", {"enum": ["low", None]}),
        ('"in progress" | done', {"enum": ["in progress", "done"]}),
        ("'string' | 'a|b'", {"enum": ["string", "a|b"]}),
        ("'auto' | integer", {"anyOf": [{"const": "auto"}, {"type": "integer"}]}),
        ("[string] | null", {"anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}]}),
        (["string"], {"items": TEXT}),
        ([["any"]], {"type": "array", "items": {"type": "array"}, "$schema": DRAFT}),
        (
            {"title": "string"},
            {"type": "object", "properties": {"title": TEXT}, "required": ["title"], "additionalProperties": False},
        ),
        (
            {"title": "string", "note?": "string"},
            {"properties": {"title": TEXT, "note": TEXT}, "required": ["title"], "additionalProperties": False},
        ),
        (
            {"items": ["string"]},
            {"properties": {"items": {"type": "array", "items": TEXT}}, "required": ["items"], "additionalProperties": False},
        ),
        (
            {"type": "string", "name": "string"},
            {"properties": {"type": TEXT, "name": TEXT}, "required": ["type", "name"], "additionalProperties": False},
        ),
        ({"a": {"enum": ["x", "y"]}}, {"a": "x | y"}),
        ({"type": "integer", "minimum": 1}, {"$schema": DRAFT, "type": "integer", "minimum": 1}),
        ({"type": "string", "pattern": "^[A-Z]", "minLength": 3},
         {"$schema": DRAFT, "type": "string", "pattern": "^[A-Z]", "minLength": 3}),
        ({"type": "string", "format": "date", "description": "the day"},
         {"$schema": DRAFT, "type": "string", "format": "date", "description": "the day"}),
        ({"type": ["string", "null"]}, "string | null"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"$schema": DRAFT, "oneOf": [{"type": "string"}, {"type": "null"}]}),
        ({"a?": [{"type": "number", "maximum": 1}]}, {"a?": [{"$schema": DRAFT, "type": "number", "maximum": 1}]}),
        (
            {"a": {"b": ["number"]}},
            {"a": {"properties": {"b": {"items": {"type": "number"}}}, "required": ["b"], "additionalProperties": False}},
        ),
        ("number | integer | number", "number | integer"),
        ("string | any", "any"),
    ],
)
def test_two_spellings_of_one_meaning(short: Any, long: Any) -> None:
    assert to_json_schema(short) == to_json_schema(long)


def test_the_normal_form() -> None:
    assert to_json_schema({"title": "string", "score?": "number | null", "level": "low | high"}) == {
        "type": "object",
        "properties": {
            "title": TEXT,
            "score": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "level": {"type": "string", "enum": ["low", "high"]},
        },
        "required": ["title", "level"],
        "additionalProperties": False,
    }
    assert to_json_schema("any") == {}


def test_a_python_model_is_named_and_not_imported() -> None:
    assert to_json_schema({"python": "no.such_module:Model"}) == {"$python": "no.such_module:Model"}
    assert to_json_schema({"python": "string"})["properties"] == {"python": TEXT}
    assert [fault.code for fault in faults({"python": "a-b:Model"})] == ["schema-python"]
    assert faults({"x": {"python": "a.b:Model"}})[0].path == ("x",)


def test_a_field_with_a_default_need_not_be_given() -> None:
    assert to_json_schema({"limit": {"enum": [1, 3], "default": 3}, "b": "string"})["required"] == ["b"]


@pytest.mark.parametrize(
    ("written", "code", "mend"),
    [
        ("strng", "schema-type", "did you mean `string`?"),
        ("nubmer | null", "schema-type", "did you mean `number`?"),
        ("str", "schema-type", "write `string`"),
        ("int", "schema-type", "write `integer`"),
        ("float | null", "schema-type", "write `number`"),
        ("bool", "schema-type", "write `boolean`"),
        ("true | false", "schema-type", "write `boolean`"),
        ("text", "schema-type", "write `string`"),
        ("String", "schema-type", "write `string`"),
        ("list", "schema-type", "write `[string]`"),
        ("array", "schema-type", "write `[string]`"),
        ("dict", "schema-type", "name its fields"),
        ("object", "schema-type", "name its fields"),
        ("dict[str, int]", "schema-type", "name its fields"),
        ("list[int]", "schema-type", "a list is written `[integer]`"),
        ("string[]", "schema-type", "a list is written `[string]`"),
        ("Optional[str]", "schema-type", "`string | null`"),
        ("optional", "schema-type", "string | null"),
        ("string?", "schema-type", "'name?': string"),
        ("int | str", "schema-type", "write `integer`"),
        ("string | low", "schema-type", "quote it"),
        ("low", "schema-type", "{enum: [low]}"),
        ("in progress | done", "schema-type", "quotes"),
        ("low | | high", "schema-type", "string, number"),
        ("", "schema-type", "string, number"),
        ("low | high | low", "schema-enum", "keep one"),
        (True, "schema-type", "`boolean`"),
        (3, "schema-type", "{enum: [3]}"),
        ({}, "schema-type", "`any`"),
        ([], "schema-list", "[any]"),
        (["string", "number"], "schema-list", "one type"),
        ({1: "string"}, "schema-key", "quotes"),
        ({"?": "string"}, "schema-key", "name"),
        ({"a": "string", "a?": "string"}, "schema-key", "keep one"),
        ({"type": "string"}, "schema-unmarked", "write `string`"),
        ({"type": "string", "title": "text"}, "schema-unmarked", "$schema"),
        ({"type": "strng", "minLength": 1}, "schema-unmarked", "$schema"),
        ({"type": "object"}, "schema-unmarked", "properties"),
        ({"title": "A letter", "description": "of some words"}, "schema-unmarked", "$schema"),
        ({"type": "string", "minimum": 1}, "schema-misplaced", "`type: number`"),
        ({"type": "array", "items": ["string", "number"]}, "schema-value", "one schema"),
    ],
)
def test_mistakes_get_a_mend(written: Any, code: str, mend: str) -> None:
    found = faults(written)
    assert [fault.code for fault in found] == [code]
    assert mend in found[0].mend


def test_words_that_only_look_like_types_are_choices() -> None:
    assert to_json_schema("text | image")["enum"] == ["text", "image"]
    assert to_json_schema("'int' | 'str'")["enum"] == ["int", "str"]
    assert to_json_schema("strict | loose | null")["anyOf"][0]["enum"] == ["strict", "loose"]


def test_all_faults_come_at_once_each_with_its_path() -> None:
    found = faults(
        {
            "a": "strng",
            "b": [{"c?": "int", "d": {"type": "string", "title": "int"}}],
            "e": {"properties": {"f": {"type": "txt"}}},
            "g": "string",
        }
    )
    assert [fault.path for fault in found] == [("a",), ("b", 0, "c?"), ("b", 0, "d"), ("e", "properties", "f", "type")]


def test_depth_is_bounded() -> None:
    written: Any = "string"
    for _ in range(60):
        written = [written]
    assert {fault.code for fault in faults(written)} == {"schema-depth"}
    for _ in range(5000):
        written = [written]
    assert {fault.code for fault in faults(written)} == {"schema-depth"}


def test_definitions_of_schemas_inside_the_shorthand_do_not_meet() -> None:
    text, whole = {"$ref": "#/$defs/n", "$defs": {"n": TEXT}}, {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
    schema = to_json_schema({"a": text, "b": whole, "c": text})
    assert {name: schema["$defs"][part["$ref"].removeprefix("#/$defs/")] for name, part in schema["properties"].items()} == {
        "a": TEXT,
        "b": {"type": "integer"},
        "c": TEXT,
    }


@pytest.mark.parametrize("fixed", [RUN_RESULT, JUNIT_RESULT, FAILURE])
def test_the_fixed_schemas_are_in_normal_form(fixed: dict[str, Any]) -> None:
    assert to_json_schema(fixed) == fixed


READABLE = ("string", "integer", "low | high", "[string]", ["number"], {"a": "string"}, None)
MISTYPED = ("text", "int", "strng", "dict")
NO_TYPES = (1, True, "^[A-Z]", "some words", ["a", "b"])
KEYS = ("type", "title", "description", "minimum", "minLength", "pattern", "maxItems", "default", "examples", "required")


@pytest.mark.parametrize("seed", some(range(2000)))
def test_a_mapping_of_keywords_has_one_reading(seed: int) -> None:
    """Fields where every value is a type; JSON Schema where one can't be a type, nor one mistyped; refused otherwise."""
    draw = random.Random(seed)
    pools = (READABLE, *draw.sample((READABLE, MISTYPED, NO_TYPES), 2))
    written = {key: draw.choice(draw.choice(pools)) for key in draw.sample(KEYS, draw.randint(1, 4))}
    try:
        found = to_json_schema(written)
    except SchemaWritten:
        assert set(written) == {"type"} or any(not readable(value) for value in written.values()), "fields would do"
        return
    fields = all(readable(value) for value in written.values())
    assert fields == (found.get("properties", {}).keys() == set(written))
    if not fields:
        assert found == to_json_schema({**written, "$schema": DRAFT})
        assert any(value not in MISTYPED for value in written.values() if not readable(value))


def readable(value: Any) -> bool:
    try:
        to_json_schema([value])
    except SchemaWritten:
        return False
    return True
