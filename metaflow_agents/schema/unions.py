"""`anyOf` and `oneOf` in pydantic's core, keeping why each branch was refused.

Pydantic's own unions choose by closeness and report all branches mixed into one list of errors. Here the first branch
that takes the value gives the result, as it stands in the schema, and the complaint can speak of the branch that was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError, core_schema


class _Miss:
    """A branch that refused the value, and why."""

    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines


class UnionRefusal:
    """What the error `union` carries: the value, and the errors of each branch in order.

    No dataclass: pydantic prints what an error carries, and a printed tree of refusals would grow with every level.
    """

    def __init__(self, value: Any, misses: list[list[Any]]) -> None:
        self.value, self.misses = value, misses


def union_core(branches: Sequence[core_schema.CoreSchema], *, exactly_one: bool) -> core_schema.CoreSchema:
    """Any of the branches (or exactly one of them).

    Every branch sees the value: it is handed to a tuple of all of them. A refusal is the error `union` whose context
    holds a `refusal`, or the error `several` with a `refusal` and the `count` of branches that took the value.
    """
    tried: list[core_schema.CoreSchema] = [
        core_schema.no_info_wrap_validator_function(_try, branch) for branch in branches]

    def spread(value: Any) -> tuple[Any, ...]:
        return (value,) * (len(tried) + 1)

    # The value itself is needed for the complaint: it comes first, unchecked.
    parts = core_schema.tuple_schema([core_schema.any_schema(), *tried])
    judged = core_schema.no_info_after_validator_function(_judge(exactly_one), parts)
    return core_schema.no_info_before_validator_function(spread, judged)


def _try(value: Any, handler: Callable[[Any], Any]) -> Any:
    try:
        return handler(value)
    except ValidationError as error:
        return _Miss(error.errors(include_url=False))


def _judge(exactly_one: bool) -> Callable[[tuple[Any, ...]], Any]:
    def judge(results: tuple[Any, ...]) -> Any:
        value, *found = results
        taken = [result for result in found if not isinstance(result, _Miss)]
        refusal = UnionRefusal(value, [result.lines for result in found if isinstance(result, _Miss)])
        if not taken:
            raise PydanticCustomError("union", "no branch takes it", {"refusal": refusal})
        if exactly_one and len(taken) > 1:
            raise PydanticCustomError("several", "several branches take it", {"refusal": refusal, "count": len(taken)})
        return taken[0]
    return judge
