"""What has a fast way and a careful one, `tojson(indent=2)` and templates without marks: nobody may see which was taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts import operations, render

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=30)


@pytest.mark.one_in(4)
@given(VALUES, st.sampled_from([1, 2, 4]))
def test_as_python_writes_it(value: Any, indent: int) -> None:
    written = render(f"{{{{ value | tojson(indent={indent}) }}}}", {"value": value})
    assert written == json.dumps(value, ensure_ascii=False, indent=indent)


@pytest.mark.parametrize("value", [
    {"a": [], "b": {}, "c": [[], {}]}, "\x00\x1f\x7f\u2028\"\\/", [2**63, -2**63, 2**63 - 1], {"": ""}])
def test_edges(value: Any) -> None:
    assert render("{{ value | tojson(indent=2) }}", {"value": value}) == json.dumps(value, ensure_ascii=False, indent=2)


def test_small_plain_values_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    fast = operations._indented
    monkeypatch.setattr(operations, "_indented", lambda value, indent: taken.append(value) or fast(value, indent))
    render("{{ value | tojson(indent=2) }}", {"value": {"a": [1, True, None, "x"]}})
    assert len(taken) == 1
    for value in (1.5, ["x" * 2**21], {"a": (1,)}, list(range(30_000))):
        render("{{ value | tojson(indent=2) }}", {"value": value})
    assert len(taken) == 1


def test_half_a_surrogate_pair_is_told_either_way() -> None:
    with pytest.raises(ExpressionError, match="surrogate"):
        render("{{ value | tojson(indent=2) }}", {"value": {"a": "\ud800"}})


def test_deep_values_are_written_or_told() -> None:
    value: Any = []
    for _ in range(400):
        value = [value]
    assert render("{{ value | tojson(indent=1) }}", {"value": value}) == json.dumps(value, indent=1)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{")))
def test_a_template_without_marks_is_its_text(text: str) -> None:
    assert render(text, {}) == render("{{ '' }}" + text, {})


def test_half_a_surrogate_pair_in_a_text_is_told() -> None:
    with pytest.raises(ExpressionError, match="surrogate"):
        render("a \ud800", {})
