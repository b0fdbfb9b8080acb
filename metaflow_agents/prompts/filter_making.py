"""What filters are made with: the table that they go into, and what they take for text and for whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.limits import MAX_TEXT, spend_text
from metaflow_agents.prompts.operations import as_text
from metaflow_agents.schema.binary import BinaryFile

Filter = Callable[..., Any]


def registering(table: dict[str, Filter]) -> Callable[..., Callable[[Filter], Filter]]:
    """The decorator that puts a filter into a table, under each name that it is given."""
    def named(*names: str) -> Callable[[Filter], Filter]:
        def register(function: Filter) -> Filter:
            table.update(dict.fromkeys(names, function))
            return function
        return register
    return named


def spent_text(value: Any) -> str:
    """The value as text, which counts as work. Raises ExpressionError for a file that is no text."""
    if isinstance(value, BinaryFile):
        raise ExpressionError(f"{value} can't be taken for text; fix: ask `is string` first, or take its `.name`, `.media_type` "
                              "or `.size`")
    text = as_text(value)
    spend_text(len(text))
    return text


def whole(value: Any, what: str, low: int = 0, high: int = MAX_TEXT) -> int:
    """A whole number within bounds. Raises ExpressionError, which calls it `what`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ExpressionError(f"{what} is a whole number from {low} to {high}")
    return value
