"""Closed schemas: what they admit is the author's own choice or a bounded number; nobody else's text fits them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.closed import closed
from metaflow_agents.schema.validation import validator

OPEN = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
CLOSED = {**OPEN, "additionalProperties": False}
SCORE = {"type": "integer", "minimum": 0, "maximum": 10}


@pytest.mark.parametrize("schema", [
    {"type": "boolean"}, {"type": "null"}, SCORE, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"enum": ["send it all", 1, None]}, {"const": "yes"}, CLOSED, {"anyOf": [{"type": "null"}, {"enum": ["x"]}]},
    {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}},
])
def test_closed(schema: dict[str, Any]) -> None:
    assert closed(schema)


@pytest.mark.parametrize("pattern", [
    "^[a-z0-9._-]+@[a-z0-9.-]+$", "^[A-Z]+$", r"^\w{1,3}$", r"\A\d+\Z", "^(a|b)$", "^$", "^[0-9]{3}$", "^yes$", "^https://[a-z./]+$",
    r"^[\w-]+\.py$"])
def test_no_pattern_closes_a_text(pattern: str) -> None:
    assert not closed({"type": "string", "pattern": pattern})
    assert not closed({**CLOSED, "properties": {"to": {"type": "string", "pattern": pattern}}})


@pytest.mark.parametrize("schema", [
    None, {}, {"type": "string"}, {"type": "string", "maxLength": 1}, {"type": "string", "format": "date"}, {"$python": "a:B"},
    {"type": "string", "format": "email"}, {"type": "string", "minLength": 2, "maxLength": 2},
    OPEN, {**OPEN, "additionalProperties": {"type": "boolean"}}, {**CLOSED, "properties": {"why": {"type": "string"}}},
    {"type": "integer"}, {"type": "number"}, {"type": "integer", "minimum": 0}, {"type": "number", "maximum": 1},
    {"type": "number", "multipleOf": 0.5}, {**CLOSED, "properties": {"n": {"type": "integer"}}},
    {"type": "array"}, {"type": "array", "maxItems": 3}, {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    {"type": "array", "items": {"enum": ["a", "b"]}}, {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
    {"anyOf": [{"type": "null"}, {"type": "string"}]}, {"oneOf": [{"type": "boolean"}, {"type": "integer"}]},
    {"$ref": "#/$defs/missing"}, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string", "pattern": "^a$"}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {**CLOSED, "properties": {"a": {"$ref": "#/$defs/a"}}}}},
])
def test_open(schema: dict[str, Any] | None) -> None:
    assert not closed(schema)


_LEAVES = st.sampled_from([
    {"type": "boolean"}, {"type": "integer"}, SCORE, {"type": "null"}, {"enum": ["low", "high"]},
    {"type": "string", "pattern": r"^[a-z]{1,4}$"}, {"type": "string"}, {"type": "number", "minimum": 0}, {}])
SCHEMAS = st.recursive(_LEAVES, lambda inner: st.one_of(
    st.tuples(inner, st.sampled_from([{}, {"maxItems": 3}])).map(lambda pair: {"type": "array", "items": pair[0], **pair[1]}),
    st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    st.tuples(st.dictionaries(st.sampled_from(["ok", "kind"]), inner, min_size=1), st.booleans()).map(
        lambda pair: {"type": "object", "properties": pair[0], "required": list(pair[0]), "additionalProperties": pair[1]})),
    max_leaves=6)
WORDS = st.sampled_from(["low", "high", "abc", "now", "send it all", "a@b", "", True, 7, 77, -1, None])
VALUES = st.recursive(WORDS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(
    st.sampled_from(["ok", "kind", "free text"]), inner, max_size=3), max_leaves=8)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in (key, *_leaves(inner))]
    if isinstance(value, list):
        assert len(value) <= 3
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [value]


@settings(max_examples=examples(400), suppress_health_check=list(HealthCheck))
@given(SCHEMAS, VALUES)
def test_no_value_of_a_closed_schema_holds_anothers_text_or_an_unbounded_number(schema: dict[str, Any], value: Any) -> None:
    if not closed(schema):
        return
    try:
        admitted = validator(schema, "x").validate(value)
    except AnswerInvalid:
        return
    assert all(leaf in ("low", "high", "ok", "kind", None, True, False) or 0 <= leaf <= 10 for leaf in _leaves(admitted))
