"""Random JSON Schemas of the supported subset, and values that often fit them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "class", "items", "model_x", "_lead", "two words", "schema", "ok", "as", "self"])
SHORT = st.text("abAB1 é", max_size=4)
NUMBERS = st.integers(-6, 6) | st.sampled_from([0.5, -1.5, 2.0, -3.0, 0.25, 10**30])
SCALARS = st.none() | st.booleans() | NUMBERS | SHORT | st.sampled_from(["a", "low", "high"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@st.composite
def strings(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    low = draw(st.none() | st.integers(0, 2))
    high = draw(st.none() | st.integers(low or 0, 4))
    pattern = draw(st.none() | st.sampled_from(["a", "^a", "b$", "^[abAB1 é]*$"]))
    found = {"minLength": low, "maxLength": high, "pattern": pattern}
    return {**schema, **{word: value for word, value in found.items() if value is not None}}


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": draw(st.sampled_from(["integer", "number"]))}
    low, high = sorted((draw(st.integers(-6, 2)), draw(st.integers(3, 7))))
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["minimum", "exclusiveMinimum"]))] = low
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["maximum", "exclusiveMaximum"]))] = high
    if draw(st.integers(0, 3)) == 0:
        schema["multipleOf"] = draw(st.sampled_from([1, 2, 3, 0.5, 0.25]))
    return schema


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": draw(inner)}
    low = draw(st.none() | st.integers(0, 2))
    high = draw(st.none() | st.integers(low or 0, 3))
    found = {"minItems": low, "maxItems": high, "uniqueItems": draw(st.none() | st.booleans())}
    return {**schema, **{word: value for word, value in found.items() if value is not None}}


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, inner, max_size=3))
    required = [name for name in properties if draw(st.booleans())]
    others = draw(st.booleans() | inner)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": others}


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        lists(inner), objects(inner), branches.map(lambda each: {"anyOf": each}), branches.map(lambda each: {"oneOf": each})
    )


LEAVES = st.one_of(
    strings(),
    numbers(),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
    st.just({"type": ["string", "null"], "maxLength": 3}),
    st.lists(SCALARS, min_size=1, max_size=4, unique_by=lambda value: (isinstance(value, bool), value)).map(
        lambda each: {"enum": each}
    ),
    VALUES.map(lambda value: {"const": value}),
)
SCHEMAS = st.recursive(LEAVES, _wider, max_leaves=8).map(
    lambda schema: {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"}
)
RECURSIVE = st.recursive(LEAVES | st.just({"$ref": "#/$defs/n"}), _wider, max_leaves=6).map(
    lambda schema: {
        "$defs": {"n": {"type": "object", "properties": {"a": schema, "b": {"type": "array", "items": schema}}}},
        "$ref": "#/$defs/n",
    }
)


def fitting(schema: Any, root: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that fit a schema, or nearly do: bounds are not looked at."""
    if not isinstance(schema, dict) or depth > 4:
        return VALUES
    if "$ref" in schema:
        return fitting(root["$defs"]["n"], root, depth + 1)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return st.one_of([fitting(branch, root, depth + 1) for branch in schema[word]])
    return _of_type(schema, root, depth)


def _of_type(schema: dict[str, Any], root: Any, depth: int) -> st.SearchStrategy[Any]:
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        known = st.fixed_dictionaries(
            {name: fitting(properties[name], root, depth + 1) for name in schema.get("required", [])},
            optional={
                name: fitting(part, root, depth + 1)
                for name, part in properties.items()
                if name not in schema.get("required", [])
            },
        )
        more = st.dictionaries(NAMES, fitting(schema.get("additionalProperties"), root, depth + 1), max_size=1)
        return st.builds(lambda one, other: {**other, **one}, known, st.just({}) | more)
    if kind == "array":
        return st.lists(fitting(schema.get("items"), root, depth + 1), max_size=3)
    plain = {"string": SHORT, "integer": NUMBERS, "number": NUMBERS, "boolean": st.booleans(), "null": st.none()}
    return plain[kind] if kind in plain else VALUES


@st.composite
def cases(draw: st.DrawFn, schemas: st.SearchStrategy[Any], normalise: Any) -> tuple[Any, Any, Any]:
    """(written schema, normal form, value). Schemas that say the impossible are left out."""
    written = draw(schemas)
    normal = normalise(written)
    value = draw(st.one_of(fitting(normal, normal), fitting(normal, normal), VALUES))
    return written, normal, value
