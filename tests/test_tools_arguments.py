"""What a tool's arguments are checked for, and how each fault is told. BFCL's many are in `test_models_bfcl.py`."""

from __future__ import annotations

from typing import Any

import pytest

from metaflow_agents.tools.arguments import faults_of
from metaflow_agents.tools.mcp_schema import bounded

NAMED = {"type": "object", "required": ["city"], "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"},
    "near": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
    "stops": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "more": {"type": "object"}, "any": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize(("arguments", "told"), [
    ({"city": "Rome", "dayz": 2}, ["`dayz` is no argument of this tool: did you mean `days`? "
                                   "there is: `city`, `days`, `near`, `stops`, `more`, `any`"]),
    ({"city": "Rome", "near": {"lat": 1, "long": 2}},
     ["`near.long` is no argument of this tool: did you mean `lon`? there is: `lat`, `lon`"]),
    ({"city": "Rome", "stops": [{"name": "a"}, {"nam": "b"}]},
     ["`stops[1].nam` is no argument of this tool: did you mean `name`? there is: `name`"]),
    ({"city": "Rome", "more": {"x": 1}, "any": {"x": 1}}, []),
    ({"cty": "Rome"}, ["`cty` is no argument of this tool: did you mean `city`? "
                       "there is: `city`, `days`, `near`, `stops`, `more`, `any`", "`city` is missing; expected a text"]),
])
def test_arguments_that_are_named_are_all_that_there_are(arguments: Any, told: list[str]) -> None:
    assert sorted(faults_of(NAMED, arguments)) == sorted(told)
    assert sorted(faults_of(bounded(NAMED), arguments)) == sorted(told), "so does a server's tool"


@pytest.mark.parametrize("further", [
    {"additionalProperties": True}, {"additionalProperties": {"type": "integer"}}, {"patternProperties": {"^d": {}}},
    {"dependencies": {"city": ["days"]}, "additionalProperties": True}, {"allOf": [{"properties": {"dayz": {}}}]},
    {"$ref": "#/$defs/more", "$defs": {"more": {"properties": {"dayz": {}}}}},
    {"anyOf": [{"properties": {"dayz": {}}}, {"required": ["days"]}]},
])
def test_a_schema_that_says_something_of_others_is_taken_at_its_word(further: Any) -> None:
    schema = {**NAMED, **further}
    assert faults_of(schema, {"city": "Rome", "dayz": 2}) == []
    assert faults_of(bounded(schema), {"city": "Rome", "dayz": 2}) == [], "also where words are left out of it"


def test_a_tool_without_arguments_takes_none() -> None:
    schema = {"type": "object", "properties": {}}
    assert faults_of(schema, {}) == []
    assert faults_of(schema, {"x": 1}) == ["`x` is no argument of this tool: there is: none"]
    assert faults_of({"type": "object"}, {"x": 1}) == [], "nothing is said of them"
