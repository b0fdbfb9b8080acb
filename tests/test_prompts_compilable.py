"""What is said to compile surely does, and what might not is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.prompts import analyse_template
from metaflow_agents.prompts.compilable import surely_compiles
from metaflow_agents.prompts.positions import read_template
from metaflow_agents.prompts.running import UNREADABLE, compiled_template
from metaflow_agents.schema.shape import Shape

TOP = Path(__file__).resolve().parent.parent
SHIPPED = sorted(path for folder in ("roles", "sops", "metaflow_agents/prompts/templates") for path in TOP.glob(f"{folder}/*.j2"))
PIECES = [
    "text", "{{ a }}", "{{ a.b[0] | upper }}", "{{ 'x' if a > 1 and not b else a ~ 2 }}", "{% if a is defined %}", "{% elif b %}",
    "{% else %}", "{% endif %}", "{% for x in a %}", "{% for x, loop in a if x %}", "{% for x in a recursive %}", "{% endfor %}",
    "{{ loop.index }}", "{% set x = 1 %}", "{% block c %}", "{% endblock %}", "{% macro m(x) %}", "{% endmacro %}", "{{ m(*a) }}",
    "{% macro m(x, x) %}", "{% macro n(x, y='1') %}", "{{ n(1, y=2) }}", "{{ n(y=1, y=2) }}", "{% set x, y = a %}",
    "{% set loop = a %}",
    "{{ a | join(*b) }}", "{{ a | join(', ') }}", "{% include 'x' %}", "{{ a[1:2] }}", "{{ [1, {'k': 2}] }}", "{{ a == b < 3 }}"]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_what_surely_compiles_compiles(text: str) -> None:
    try:
        tree = read_template(text)
    except UNREADABLE:
        return
    if surely_compiles(tree) and not analyse_template(text, {"a": Shape.any(), "b": Shape.any()}).findings:
        compiled_template(text)


@pytest.mark.parametrize("text", [
    "{% for x, loop in a %}{% endfor %}", "{% for x in a recursive %}{% endfor %}", "{{ a | join(*b) }}", "{% set loop = 1 %}",
    "{% macro m(x, x) %}{% endmacro %}", "{% macro m(caller) %}{% endmacro %}", "{{ a | join(d='', d='') }}", "{{ m(*a) }}",
    "{% for x in a %}" * 9 + "{% endfor %}" * 9, "{% if a %}" * 40 + "{% endif %}" * 40, "{{ " + "-" * 40 + "1 }}",
    "{% block c %}{% endblock %}"])
def test_what_might_not_is_compiled(text: str) -> None:
    assert not surely_compiles(read_template(text))


@pytest.mark.parametrize("text", [
    "{% for x in a %}" * 25 + "{% endfor %}" * 25, "{{ " + "(" * 300 + "1" + ")" * 300 + " | upper" * 300 + " }}"])
def test_too_deep_is_still_found(text: str) -> None:
    assert analyse_template(text, {"a": Shape.any()}).findings


def test_most_shipped_templates_need_no_compiler() -> None:
    plain = [path for path in SHIPPED if surely_compiles(read_template(path.read_text(encoding="utf-8")))]
    assert len(plain) >= len(SHIPPED) // 2
