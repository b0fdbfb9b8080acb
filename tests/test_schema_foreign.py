"""Schemas from elsewhere: the normal form is a normal form, and takes whatever the written schema takes."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_strategies import SCHEMAS, VALUES
from tiers import examples

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.external_schema import MOST_NODES, ForeignSchemas, pointed, widened
from metaflow_agents.schema.faults import Faults
from metaflow_agents.schema.json_schema import read_document
from metaflow_agents.schema.validation import validator


def normal(schema: dict[str, Any]) -> bool:
    faults = Faults()
    node, definitions = read_document(schema, (), faults)
    assert faults.found == []
    return {**node, **({"$defs": definitions} if definitions else {})} == schema


def takes(schema: dict[str, Any], value: Any) -> bool:
    try:
        validator(schema, "it").validate(value)
    except AnswerInvalid:
        return False
    return True


def odd(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What the normal form has no word for, around schemas that it has words for."""
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda each: {"allOf": each}),
        st.tuples(inner, several).map(lambda pair: {**pair[0], "anyOf": pair[1]}),
        st.tuples(inner, several).map(lambda pair: {**pair[0], "oneOf": pair[1]}),
        inner.map(lambda each: {"not": each}),
        st.tuples(inner, inner).map(lambda pair: {**pair[0], "if": pair[1], "then": False}),
        several.map(lambda each: {"type": "array", "prefixItems": each, "maxItems": 2}),
        inner.map(lambda each: {"type": "object", "patternProperties": {"^a": each}, "additionalProperties": False}),
        inner.map(lambda each: {"type": "object", "properties": {"a": each}, "required": ["a", "b"]}),
        inner.map(lambda each: {"$ref": "#/$defs/n", "$defs": {"n": each}}),
    )


def bare(schema: Any) -> Any:
    """Without what only the root may hold."""
    if isinstance(schema, dict):
        return {key: bare(part) for key, part in schema.items() if key not in ("$schema", "$defs")}
    return [bare(part) for part in schema] if isinstance(schema, list) else schema


ODD = st.recursive(SCHEMAS.map(bare), odd, max_leaves=5)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ODD, VALUES)
def test_what_the_written_schema_takes_the_normal_form_takes(schema: dict[str, Any], value: Any) -> None:
    """The law. Judged by an independent reader of JSON Schema; `items` without `type` and the like say less to it."""
    root = {**bare(schema), "$defs": {"n": {"type": ["integer", "null"]}}}
    found = widened(root)
    assert normal(found)
    if jsonschema.Draft202012Validator(root).is_valid(value):
        assert takes(found, value)


@given(SCHEMAS, VALUES)
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_it_can_say_it_says(schema: dict[str, Any], value: Any) -> None:
    """Nothing that both forms know is lost, but that `oneOf` takes one branch only."""
    if "oneOf" not in str(schema):
        assert takes(widened(schema), value) == jsonschema.Draft202012Validator(schema).is_valid(value)


def test_parts_are_merged() -> None:
    root = {"components": {"schemas": {
        "Named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "Pet": {"allOf": [{"$ref": "#/components/schemas/Named"},
                          {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]}]},
    }}}
    found = widened({"$ref": "#/components/schemas/Pet"}, root)
    assert found["$ref"] == "#/$defs/Pet"
    assert found["$defs"]["Pet"]["required"] == ["name", "age"]
    assert takes(found, {"name": "Rex", "age": 3}) and not takes(found, {"name": "Rex"}) and not takes(found, {"age": 3})


def test_the_dialect_of_openapi_3_0() -> None:
    found = widened({"type": "object", "properties": {
        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}, "nick": {"type": "string", "nullable": True},
        "kind": {"type": "string", "enum": ["a", "b"], "nullable": True}, "id": {"type": "integer", "readOnly": True}},
        "required": ["id"]}, hidden="readOnly")
    assert takes(found, {"age": 1, "nick": None, "kind": None}) and not takes(found, {"age": 0})
    assert "id" not in found["properties"] and found["required"] == []


def test_what_it_can_not_say_is_wider() -> None:
    named = widened({"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False})
    assert takes(named, {"ab": 1})
    assert takes(widened({"oneOf": [{"type": "integer"}, {"type": "number", "not": {"multipleOf": 1}}]}), 1)
    assert takes(widened({"allOf": [{"type": "string"}, {"type": "integer"}]}), "x")
    pair = widened({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]})
    assert takes(pair, ["a", 1, None])
    assert not takes(widened({"type": "array", "prefixItems": [{"type": "string"}], "items": False}), [1])


def test_circles_of_references() -> None:
    root = {"a": {"type": "object", "properties": {"next": {"$ref": "#/a"}}}, "b": {"$ref": "#/c"}, "c": {"$ref": "#/b"},
            "d": {"allOf": [{"$ref": "#/d"}, {"type": "object", "properties": {"x": {"type": "string"}}}]},
            "e": {"type": "object", "properties": {"e": {"$ref": "#/e"}}, "required": ["e"]}}
    assert takes(widened(root["a"], root), {"next": {"next": {}}}) and not takes(widened(root["a"], root), {"next": 1})
    for name in ("b", "c", "d", "e"):
        assert takes(widened({"$ref": f"#/{name}"}, root), {"x": "y"})
    assert not takes(widened({"$ref": "#/d"}, root), {"x": 1})
    assert widened({"$ref": "#"}, {"type": "object", "properties": {"more": {"$ref": "#"}}})["$defs"]


@pytest.mark.one_in(4)
def test_what_is_huge_or_leads_out_takes_anything() -> None:
    wide = widened({"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(MOST_NODES + 10)}})
    assert takes(wide, {f"p{MOST_NODES + 5}": 1})
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(3_000):
        deep = {"type": "array", "items": deep, "nullable": True}
    assert normal(widened(deep))
    chain = {f"n{number}": {"type": "array", "items": {"$ref": f"#/n{number + 1}"}} for number in range(3_000)}
    assert len(widened({"$ref": "#/n0"}, chain)["$defs"]) == 3_000
    for leads in ("https://example.com/schema.json", "other.yaml#/Pet", "#/nowhere", "#anchor", 7):
        assert takes(widened({"$ref": leads}, {}), [1])
    for nonsense in (None, True, False, [], "string", {"type": "file"}, {"type": 7}, {"enum": 3}, {"properties": []},
                     {"allOf": 1}):
        assert normal(widened(nonsense))


def test_the_schemas_of_one_document_are_kept_small_and_the_nearest_whole() -> None:
    root = {f"n{number}": {"type": "object", "properties": {"next": {"$ref": f"#/n{number + 1}"}, "x": {"type": "integer"}}}
            for number in range(400)} | {"n400": {"type": "string"}}
    schemas = ForeignSchemas(root)
    small = schemas.widened({"$ref": "#/n0"}, 2_000)
    assert 10 < len(small["$defs"]) < 20 and normal(small)
    assert not takes(small, {"next": {"next": {"x": "no"}}})
    last = list(small["$defs"])[-1]
    assert small["$defs"][last] == {"description": f"`{last}`, left out here for its size"}
    assert len(schemas.widened({"$ref": "#/n0"})["$defs"]) == 401         # what was cut is known all the same
    assert schemas.widened({"$ref": "#/n399"}) == widened({"$ref": "#/n399"}, root)


def test_a_default_that_does_not_fit_is_not_filled_in() -> None:
    found = widened({"type": "object", "properties": {"n": {"type": "integer", "default": "many"},
                                                      "m": {"type": "integer", "default": 3, "example": "no"}}})
    assert validator(found, "it").validate({}) == {"m": 3}
    assert "examples" not in found["properties"]["m"]


def test_a_strangers_patterns_are_not_run() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    assert "pattern" in widened(schema) and "pattern" not in widened(schema, patterns=False)
    assert "pattern" not in widened({"type": "string", "pattern": r"\p{L}+"})       # not Python's


@pytest.mark.parametrize(("reference", "found"), [
    ("#/a~1b/0", "x"), ("#/c%20d", 1), ("#", {"a/b": ["x"], "c d": 1}), ("#/a~1b/1", None), ("#/a~1b/-1", None), ("a", None)])
def test_pointers(reference: str, found: Any) -> None:
    assert pointed({"a/b": ["x"], "c d": 1}, reference) == found
