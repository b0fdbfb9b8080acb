"""Types of `value:` steps and of what goes into and out of SOPs as steps: the check tells what a run would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.prompts import analyse_expression, evaluate
from metaflow_agents.schema.fitting import misfit
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.validation import validator

PLAN: dict[str, Any] = {"title": "Tea", "pages": 3, "parts": [{"name": "one"}], "state": "good", "done": False}
PLAN_SCHEMA = to_json_schema({"title": "string", "pages": "integer", "parts": [{"name": "string"}],
                           "state": {"enum": ["good", "bad"]}, "done": "boolean"})
CASES = [
    # expression, schema, whether nothing that it gives fits
    ("plan.parts", "string", True),
    ("plan.title", ["string"], True),
    ("plan.pages", "string", True),
    ("plan.title", "integer", True),
    ("plan.title", "boolean", True),
    ("plan.done", "integer", True),
    ("none", "string", True),
    ("plan", "string", True),
    ("plan.parts | map(attribute='name') | list", ["integer"], True),
    ("plan.parts", [{"name": "integer"}], True),
    ("plan.parts", [{"name": "string", "about": "string"}], True),
    ("{'titel': plan.title}", {"title": "string"}, True),
    ("{'title': plan.title, 'more': 1}", {"title": "string"}, True),
    ("{'title': plan.pages}", {"title": "string"}, True),
    ("{'parts': [{'name': 1}]}", {"parts": [{"name": "string"}]}, True),
    ("'fine'", {"enum": ["good", "bad"]}, True),
    ("plan.state", {"enum": ["well", "ill"]}, True),
    ("'a' if plan.done else 1", "boolean", True),
    ("plan.pages / 2", "string", True),
    ("plan.title", "string", False),
    ("plan.pages", "number", False),
    ("plan.pages / 3 * 3", "integer", False),                # a whole number written as a float
    ("plan.parts | first", {"name": "string"}, False),
    ("{'title': plan.title}", {"title": "string", "about?": "string"}, False),
    ("[]", ["integer"], False),
    ("plan.parts if plan.done else 'none'", "string", False),
    ("plan.title", {"anyOf": [{"type": "string"}, {"type": "null"}]}, False),
    ("plan.state", {"enum": ["good", "ill"]}, False),
    ("plan.state", "string", False),
    ("plan", {"type": "object", "properties": {}}, False),
    ("true", {"enum": [1, True]}, False),
    ("plan.parts | map(attribute='name') | list + []", ["string"], False),
]


@pytest.mark.parametrize(("expression", "schema", "told"), CASES)
def test_what_is_told_is_what_a_run_refuses(expression: str, schema: Any, told: bool) -> None:
    normal = to_json_schema(schema)
    analysis = analyse_expression(expression, {"plan": Shape.of(PLAN_SCHEMA)})
    assert not analysis.findings
    assert (misfit(analysis.shape, Shape.of(normal)) is not None) is told
    value = evaluate(expression, {"plan": PLAN})
    if told:
        with pytest.raises(AnswerInvalid):
            validator(normal, "it").validate(value)
    else:
        validator(normal, "it").validate(value)


def test_schemas_that_refer_to_themselves_end() -> None:
    tree = {"$defs": {"node": {"type": "object", "properties": {"to": {"$ref": "#/$defs/node"}, "name": {"type": "string"}},
                               "required": ["to", "name"]}}, "$ref": "#/$defs/node"}
    other = {"$defs": {"node": {"type": "object", "properties": {"to": {"$ref": "#/$defs/node"}, "name": {"type": "integer"}},
                                "required": ["to", "name"]}}, "$ref": "#/$defs/node"}
    assert misfit(Shape.of(tree), Shape.of(tree)) is None
    assert misfit(Shape.of(tree), Shape.of(other)) is not None
