"""JSON Schema as people write it: the subset, its normal form, and everything that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from metaflow_agents.schema.faults import SchemaFault, SchemaWritten
from metaflow_agents.schema.shorthand import to_json_schema

TEXT = {"type": "string"}


def faults(written: Any) -> tuple[SchemaFault, ...]:
    with pytest.raises(SchemaWritten) as caught:
        to_json_schema(written)
    return caught.value.faults


def field(schema: Any, **more: Any) -> dict[str, Any]:
    return {"properties": {"x": schema}, **more}


def normal(schema: Any, **more: Any) -> Any:
    return to_json_schema(field(schema, **more))["properties"]["x"]


def test_objects_keep_the_openness_of_json_schema() -> None:
    assert to_json_schema({"properties": {"a": TEXT}}) == {
        "type": "object",
        "properties": {"a": TEXT},
        "required": [],
        "additionalProperties": True,
    }
    assert to_json_schema({"properties": {}, "additionalProperties": {"type": "integer"}})["additionalProperties"] == {
        "type": "integer"
    }
    assert to_json_schema({"properties": {}, "additionalProperties": {}})["additionalProperties"] is True


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (True, {}),
        ({}, {}),
        ({"minLength": 2}, {"type": "string", "minLength": 2}),
        ({"minimum": 2}, {"type": "number", "minimum": 2}),
        ({"type": ["number", "integer"]}, {"type": "number"}),
        ({"type": ["string", "null"], "minLength": 1}, {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
        ({"enum": [1, 2.5]}, {"type": "number", "enum": [1, 2.5]}),
        (
            {"enum": [True, "a", None]},
            {"anyOf": [{"type": "boolean", "enum": [True]}, {"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"allOf": [TEXT], "title": "T"}, {"type": "string", "title": "T"}),
        ({"anyOf": [{"anyOf": [TEXT, {"type": "null"}]}, TEXT]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"oneOf": [TEXT]}, TEXT),
        (
            {"type": "string", "format": "date", "$comment": "c", "description": "d"},
            {"type": "string", "format": "date", "description": "d"},
        ),
        ({"type": "array", "minItems": 1.0, "uniqueItems": False}, {"type": "array", "items": {}, "minItems": 1}),
    ],
)
def test_normal_forms(written: Any, expected: Any) -> None:
    assert normal(written) == expected


def test_normal_forms_are_their_own_normal_form() -> None:
    written = {
        "$defs": {"n": {"properties": {"k": {"type": "array", "items": {"$ref": "#/$defs/n"}, "default": []}}}, "idle": TEXT},
        "properties": {"a": {"$ref": "#/$defs/n", "description": "d"}, "b": {"enum": ["x", None, 2]}, "c": {"minLength": 1}},
        "required": ["b"],
    }
    schema = to_json_schema(written)
    assert to_json_schema(schema) == schema
    assert set(schema["$defs"]) == {"n"}  # what nothing needs is left out


def test_definitions_of_older_drafts_are_taken() -> None:
    schema = to_json_schema({"properties": {"a": {"$ref": "#/definitions/a~1b"}}, "definitions": {"a/b": TEXT}})
    assert schema["$defs"] == {"a/b": TEXT}


@pytest.mark.parametrize(
    ("written", "code", "path", "mend"),
    [
        ({"type": "strng"}, "schema-type", ("type",), "did you mean `string`?"),
        ({"type": []}, "schema-type", ("type",), "string"),
        ({"type": ["string", None]}, "schema-type", ("type",), "'null'"),
        (False, "schema-type", (), "mapping"),
        ("string", "schema-mixed", (), "{type: string}"),
        (["string"], "schema-mixed", (), "shorthand"),
        ({"type": "string", "patern": "x"}, "schema-keyword", ("patern",), "did you mean `pattern`?"),
        ({"type": "string", "nullable": True}, "schema-keyword", ("nullable",), "type: [string, 'null']"),
        ({"not": TEXT}, "schema-keyword", ("not",), "enum"),
        ({"allOf": [TEXT, TEXT]}, "schema-keyword", ("allOf",), "one schema"),
        ({"type": "array", "prefixItems": [TEXT]}, "schema-keyword", ("prefixItems",), "named fields"),
        ({"type": "object", "patternProperties": {}}, "schema-keyword", ("patternProperties",), "additionalProperties"),
        ({"$ref": "#/$defs/nod"}, "schema-ref", ("$ref",), "did you mean `node`?"),
        ({"$ref": "other.json#/x"}, "schema-ref", ("$ref",), "$defs"),
        ({"$ref": "#"}, "schema-ref", ("$ref",), "$defs"),
        ({"$ref": 3}, "schema-ref", ("$ref",), "$defs"),
        ({"type": "object", "$defs": {}}, "schema-ref", ("$defs",), "top"),
        ({"$ref": "#/$defs/node", "minLength": 1}, "schema-combination", ("minLength",), "leave it out"),
        ({"anyOf": [TEXT], "type": "string"}, "schema-combination", ("type",), "leave it out"),
        ({"anyOf": [TEXT], "enum": ["a"]}, "schema-combination", ("enum",), "keep one"),
        ({"anyOf": []}, "schema-value", ("anyOf",), "list of schemas"),
        ({"enum": []}, "schema-enum", ("enum",), "list of values"),
        ({"enum": ["a", "a"]}, "schema-enum", ("enum", 1), "keep one"),
        ({"type": "integer", "enum": [1, "a"]}, "schema-enum", ("enum", 1), "change the value"),
        ({"type": "string", "const": 3}, "schema-enum", ("const",), "change the value"),
        ({"type": "string", "minimum": 1}, "schema-misplaced", ("minimum",), "type: number"),
        ({"minLength": 1, "minimum": 1}, "schema-type", (), "`type`"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "schema-range", ("minLength",), "exchange"),
        ({"type": "string", "minLength": -1}, "schema-range", ("minLength",), "0 or more"),
        ({"type": "array", "maxItems": "3"}, "schema-range", ("maxItems",), "whole number"),
        ({"type": "number", "minimum": 3, "maximum": 2}, "schema-range", ("minimum",), "exchange"),
        ({"type": "number", "minimum": True}, "schema-range", ("minimum",), "number"),
        ({"type": "number", "exclusiveMinimum": 3, "maximum": 3}, "schema-range", (), "widen"),
        ({"type": "number", "multipleOf": 0}, "schema-range", ("multipleOf",), "above 0"),
        ({"type": "array", "uniqueItems": "yes"}, "schema-value", ("uniqueItems",), "true or false"),
        ({"type": "array", "items": [TEXT]}, "schema-value", ("items",), "one schema"),
        ({"type": "string", "pattern": "("}, "schema-pattern", ("pattern",), "regular expression"),
        ({"type": "string", "pattern": 3}, "schema-pattern", ("pattern",), "regular expression"),
        ({"type": "object", "properties": []}, "schema-value", ("properties",), "NAME"),
        ({"type": "object", "properties": {1: TEXT}}, "schema-key", ("properties", 1), "quotes"),
        ({"type": "object", "properties": {"path": TEXT}, "required": ["pth"]}, "schema-required", ("required", 0), "`path`"),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a", "a"]}, "schema-required", ("required", 1), "keep one"),
        ({"type": "string", "required": True}, "schema-misplaced", ("required",), "object"),
        ({"type": "object", "required": True}, "schema-value", ("required",), "list the names"),
        ({"type": "string", "default": 3}, "schema-default", ("default",), "change the value"),
        ({"type": "string", "examples": ["a", 3]}, "schema-example", ("examples", 1), "change the value"),
        ({"type": "string", "examples": "a"}, "schema-value", ("examples",), "list"),
        ({"type": "string", "description": 3}, "schema-value", ("description",), "text"),
        ({"default": {3}}, "schema-value", ("default",), "lists"),
        ({"$ref": "#/$defs/node", "default": {"next": 3}}, "schema-default", ("default",), "change the value"),
    ],
)
def test_what_is_refused(written: Any, code: str, path: tuple[str | int, ...], mend: str) -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node"}}}
    found = faults(field(written, **{"$defs": {"node": node}}))
    assert (code, ("properties", "x", *path)) in [(fault.code, fault.path) for fault in found]
    assert any(mend in fault.mend for fault in found)
    # A second, misplaced keyword is the only fault that may come with the first.
    assert {fault.code for fault in found} <= {code, "schema-misplaced"}


@pytest.mark.parametrize(
    "definitions",
    [
        {"a": {"$ref": "#/$defs/a"}},
        {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [TEXT, {"$ref": "#/$defs/a"}]}},
        {"a": {"properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}},
        {"a": {"items": {"$ref": "#/$defs/a"}, "minItems": 1}},
    ],
)
def test_definitions_that_never_end(definitions: Any) -> None:
    assert {fault.code for fault in faults({"$ref": "#/$defs/a", "$defs": definitions})} == {"schema-endless"}


@pytest.mark.parametrize(
    "node",
    [
        {"properties": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "required": ["a"]},
        {"items": {"$ref": "#/$defs/a"}},
    ],
)
def test_recursion_that_ends_is_taken(node: Any) -> None:
    assert set(to_json_schema({"$ref": "#/$defs/a", "$defs": {"a": node}})["$defs"]) == {"a"}


def test_a_default_that_holds_itself_for_ever_is_refused() -> None:
    node = {"properties": {"a": {"$ref": "#/$defs/a", "default": {}}}}
    assert {fault.code for fault in faults({"$ref": "#/$defs/a", "$defs": {"a": node}})} == {"schema-default"}


def test_all_faults_of_a_schema_come_at_once() -> None:
    found = faults(
        {
            "properties": {"a": {"type": "int"}, "b": {"type": "string", "default": 1}, "c": {"$ref": "#/$defs/c"}},
            "required": ["d"],
            "wrong": 1,
        }
    )
    assert {fault.code for fault in found} == {"schema-type", "schema-default", "schema-ref", "schema-required", "schema-keyword"}


def test_a_fault_in_a_definition_that_nothing_needs_is_told() -> None:
    assert faults({"properties": {}, "$defs": {"idle": {"type": "int"}}})[0].path == ("$defs", "idle", "type")


def test_depth_is_bounded() -> None:
    written: Any = TEXT
    for _ in range(3000):
        written = {"type": "array", "items": written}
    assert {fault.code for fault in faults(written)} == {"schema-depth"}
