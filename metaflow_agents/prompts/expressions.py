"""`evaluate`: a Jinja2 expression over a scope gives a plain value."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from metaflow_agents.prompts.operations import plain
from metaflow_agents.prompts.running import RESULT, compiled_expression, told
from metaflow_agents.prompts.values import MISSING, CollectionView, FilesView
from metaflow_agents.schema.binary import BinaryFile

_DONE = (bool, str, type(None), type(MISSING), BinaryFile, FilesView, CollectionView)


def evaluate(expression: str, scope: Mapping[str, Any]) -> Any:
    """The value of an expression: plain JSON data, a view, or MISSING (at the top level only).

    Raises ExpressionError, with line and expression, where it can't be read or fails on the values that it meets.
    """
    with told(expression, scope, ""):
        template = compiled_expression(expression)
        context = template.new_context(dict(scope))
        deque(template.root_render_func(context), maxlen=0)
        value = context.vars[RESULT]
        return value if isinstance(value, _DONE) else plain(value)
