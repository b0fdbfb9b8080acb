"""Narrow schemas: what they admit holds no white space and no text beyond the author's own words and patterns."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.checks import text
from metaflow_agents.schema.narrow import narrow, narrow_pattern
from metaflow_agents.schema.validation import validator

NARROW = [r"^[a-z]+$", r"^(a|b)$", r"^\w{1,3}$", r"\A\d+\Z", r"^[!-~]+$", r"^[\w-]+\.py$", r"^(?:v\d+)?$", "^a+?$", "^$"]
WIDE = [r"^[a-z ]+$", "abc", "^abc", "abc$", "^a|b$", "^a$|^b c$", r"^(?:a|b )$", "^[^ ]+$", r"^\S+$", "^.+$", "(?s)^a$",
        r"^a\s$", "^(?i:abc)$", "^(?=a)a$", "^[ -~]+$", "^a\n$", r"^(a)\1$", "$^", "^[\u00a0]$", "^\u3000$", "^[a-\u2fff]+$",
        "^\u200b$", "^a$b", "(?x)^ a $", "(?m)^a$", "^(a$|b c)$", "(", "^[一-鿿]+$", r"^\W$", r"^\D$", r"^a\b b$"]


@pytest.mark.parametrize("pattern", NARROW)
def test_patterns_that_are_narrow(pattern: str) -> None:
    assert narrow_pattern(pattern)


@pytest.mark.parametrize("pattern", WIDE)
def test_patterns_that_are_wide(pattern: str) -> None:
    assert not narrow_pattern(pattern)


OPEN = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
CLOSED = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(("schema", "expected"), [
    ({"type": "boolean"}, True), ({"type": "null"}, True), ({"type": "integer"}, True), ({"type": "number", "minimum": 0}, True),
    ({"enum": ["send it all", 1, None]}, True), (CLOSED, True), ({"type": "array", "items": {"enum": ["a", "b"]}}, True),
    ({"type": "string", "pattern": "^[A-Z]+$"}, True), ({"anyOf": [{"type": "null"}, {"enum": ["x"]}]}, True),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}}, True),
    (None, False), ({}, False), ({"type": "string"}, False), ({"type": "string", "maxLength": 3}, False), (OPEN, False),
    ({"type": "string", "format": "date"}, False), ({"type": "array"}, False),
    ({"type": "array", "items": {"type": "string"}}, False),
    ({"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}}, False),                     # words make a sentence
    ({"type": "array", "items": {**CLOSED, "properties": {"w": {"type": "string", "pattern": "^[a-z]+$"}}}}, False),
    ({**CLOSED, "properties": {"why": {"type": "string"}}}, False), ({"anyOf": [{"type": "null"}, {"type": "string"}]}, False),
    ({"$python": "a:B"}, False), ({"$ref": "#/$defs/missing"}, False),
    ({"$ref": "#/$defs/a", "$defs": {"a": {**CLOSED, "properties": {"a": {"$ref": "#/$defs/a"}}}}}, False),
    ({"type": "object", "properties": {}, "additionalProperties": {"type": "boolean"}}, False),
])
def test_schemas(schema: dict[str, Any] | None, expected: bool) -> None:
    assert narrow(schema) is expected


def test_an_anchored_pattern_admits_no_line_break_at_its_end() -> None:
    check = validator({"type": "string", "pattern": r"^[a-z$]+$"}, "x")
    assert check.validate("ab$") == "ab$"
    with pytest.raises(AnswerInvalid):
        check.validate("ab\n")
    assert validator({"type": "string", "pattern": r"a\$|[$]b"}, "x").validate("$b\n") == "$b\n"


_LITERALS = st.sampled_from([
    "a", "Z", "9", "_", "-", " ", "\n", "\u00a0", r"\s", r"\d", r"\w", r"\S", ".", r"\.", "^", "$", r"\b", "é"])
_MEMBERS = st.sampled_from(["a-z", "0-9", "_", " ", r"\s", r"\w", "!-~", " -~", r"\t", r"\d"])
_CLASSES = st.lists(_MEMBERS, min_size=1, max_size=3).flatmap(
    lambda members: st.sampled_from([f"[{''.join(members)}]", f"[^{''.join(members)}]"]))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda branches: f"({'|'.join(branches)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "+?"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"))


PATTERNS = st.tuples(
    st.sampled_from(["^", "^", "^", r"\A", "", "(?m)^"]), st.recursive(_LITERALS | _CLASSES, _larger, max_leaves=4),
    st.sampled_from(["$", "$", "$", r"\Z", ""])).map("".join)
SPACED = [text for size in (1, 2, 3) for text in map("".join, product("aZ9_. \n\u00a0é", repeat=size))
          if any(character.isspace() for character in text)]
MANY = settings(max_examples=700, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@MANY
@given(PATTERNS)
def test_a_narrow_pattern_admits_no_white_space(pattern: str) -> None:
    if not narrow_pattern(pattern):
        return
    admits = text(pattern)
    for candidate in SPACED:
        with pytest.raises(PydanticCustomError):
            admits(candidate)


_LEAVES = st.sampled_from([
    {"type": "boolean"}, {"type": "integer"}, {"type": "null"}, {"enum": ["low", "high"]},
    {"type": "string", "pattern": r"^[a-z]{1,4}$"}, {"type": "string"}, {"type": "string", "pattern": "a"}, {}])
SCHEMAS = st.recursive(_LEAVES, lambda inner: st.one_of(
    inner.map(lambda item: {"type": "array", "items": item, "maxItems": 3}),
    st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    st.tuples(st.dictionaries(st.sampled_from(["ok", "kind"]), inner, min_size=1), st.booleans()).map(
        lambda pair: {"type": "object", "properties": pair[0], "required": list(pair[0]), "additionalProperties": pair[1]})),
    max_leaves=6)
WORDS = st.sampled_from(["low", "high", "abc", "now", "send it all", "a b", "", "line\nbreak", True, 7, None])
VALUES = st.recursive(WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["ok", "kind", "free text"]), inner, max_size=3), max_leaves=6)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in (key, *_texts(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


@MANY
@given(SCHEMAS, VALUES)
def test_no_value_of_a_narrow_schema_holds_free_text(schema: dict[str, Any], value: Any) -> None:
    if not narrow(schema):
        return
    try:
        admitted = validator(schema, "x").validate(value)
    except AnswerInvalid:
        return
    assert all(text in ("low", "high", "ok", "kind") or re.fullmatch("[a-z]{1,4}", text) for text in _texts(admitted))
