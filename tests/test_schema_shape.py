"""The static view: a field is denied only where there certainly is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from schema_strategies import RECURSIVE, SCHEMAS, cases
from test_schema_validation import normalise
from tiers import examples

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.results import JUNIT_RESULT
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.validation import validator


def shape(written: Any) -> Shape:
    return Shape.of(to_json_schema(written))


DESIGN = {
    "package": "string",
    "files": [{"path": "string", "purpose?": "string", "uses": ["string"]}],
    "level": "low | high | null",
}
KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "list", dict: "object", type(None): "null"}


def fits(found: Shape, value: Any, depth: int = 0) -> None:
    """Whatever is in a valid value, its shape must allow."""
    if found.kind == "any" or depth > 6:
        return
    kind = KINDS[type(value)]
    assert kind in found.kinds or (kind == "integer" and "number" in found.kinds)
    choices = found.enum()
    assert choices is None or value in choices
    if isinstance(value, dict):
        for name, part in value.items():
            inner = found.field(name)
            assert inner is not None
            fits(inner, part, depth + 1)
    if isinstance(value, list) and found.kinds & {"object"} == set():
        for part in value:
            fits(found.item(), part, depth + 1)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(SCHEMAS | RECURSIVE, normalise))
def test_a_shape_never_denies_what_a_valid_value_has(case: tuple[Any, Any, Any]) -> None:
    _, normal, value = case
    try:
        found = validator(normal, "it").validate(value)
    except AnswerInvalid:
        return
    fits(Shape.of(normal), found)


def test_paths_through_objects_and_lists() -> None:
    design = shape(DESIGN)
    assert design.kind == "object"
    assert design.fields() == ("package", "files", "level")
    assert design.field("fils") is None
    files = design.field("files")
    assert files is not None
    assert files.kind == "list"
    assert files.field("path") is None  # a list has no fields
    assert files.describe() == "list of {path, purpose?, uses}"
    item = files.item()
    path, purpose = item.field("path"), item.field("purpose")
    assert path is not None and purpose is not None
    assert (path.kind, path.optional, purpose.optional) == ("string", False, True)
    assert path.field("length") is None


def test_choices() -> None:
    level = shape(DESIGN).field("level")
    assert level is not None
    assert level.enum() == ("low", "high", None)
    assert level.describe() == '"low" or "high" or null'
    assert shape("string | null").enum() is None
    assert shape("null").enum() is None
    assert shape("boolean").enum() is None
    assert shape({"enum": [1, 2]}).enum() == (1, 2)


def test_what_is_open_denies_nothing() -> None:
    for written in ("any", {"properties": {"a": {"type": "string"}}}, {"python": "a.b:C"}, "any | null"):
        found = shape(written).field("whatever")
        assert found is not None and found.kind == "any"
    others = shape({"properties": {}, "additionalProperties": {"type": "integer"}}).field("x")
    assert others is not None and (others.kind, others.optional) == ("integer", True)


@pytest.mark.parametrize(
    "written", ["string", "number", "integer", "boolean", "null", "low | high", "string | null", ["string"], "[string] | null"]
)
def test_what_has_no_fields(written: Any) -> None:
    assert shape(written).field("x") is None
    assert shape(written).fields() == ()


def test_unions_have_the_fields_of_any_branch() -> None:
    closed = {"additionalProperties": False}
    union = shape(
        {
            "anyOf": [
                {"properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a", "c"], **closed},
                {"properties": {"b": {"type": "string"}, "c": {"type": "integer"}}, "required": ["b", "c"], **closed},
            ]
        }
    )
    a, c = union.field("a"), union.field("c")
    assert a is not None and a.optional
    assert c is not None and not c.optional and c.kinds == {"string", "integer"}
    assert union.field("d") is None
    assert union.fields() == ("a", "c", "b")


def test_files_and_collections() -> None:
    for found, kind in ((Shape.files(), "string"), (Shape.collection(shape(DESIGN)), "object")):
        entry, missing = found.field("src/a.py"), found.field("missing")
        assert entry is not None and (entry.kind, entry.optional) == (kind, True)
        assert missing is not None and missing.kind == "list" and missing.item().kind == "string"
        assert found.item().kind == "string"  # walking over them gives keys
        assert found.enum() is None
    assert Shape.collection(shape(DESIGN)).describe() == "collection of {package, files, level}"


def test_recursive_schemas_have_shapes_to_any_depth() -> None:
    node = {"properties": {"kids": {"items": {"$ref": "#/$defs/n"}}}, "required": ["kids"], "additionalProperties": False}
    found = shape({"$ref": "#/$defs/n", "$defs": {"n": node}})
    for _ in range(20):
        kids = found.field("kids")
        assert kids is not None
        assert kids.describe() == "list of {kids}"
        found = kids.item()
    assert found.field("kid") is None


def test_shapes_can_be_put_together() -> None:
    assert Shape.union(Shape.text(), Shape.text()) == Shape.text()
    assert Shape.union(Shape.text(), Shape.any()).kind == "any"
    assert Shape.union(Shape.text().as_optional(), shape("null")).optional
    assert Shape.list_of(Shape.text()).item() == Shape.text()
    assert Shape.union(Shape.list_of(Shape.text()), shape("null")).item() == Shape.text()
    assert Shape.of(JUNIT_RESULT).describe() == "{ok, exit_code, total, passed, failed, errors, skipped, failures}"
