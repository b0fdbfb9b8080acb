# ruff: noqa: E501
"""Templates that attack: each ends soon, in ExpressionError, and reaches nothing of Python."""

from __future__ import annotations

import time

import pytest
from patience import PATIENCE

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts import MISSING, analyse_expression, analyse_template, evaluate, render
from metaflow_agents.prompts.running import compiled_expression

SCOPE = {"x": {"y": [1, 2, 3]}, "t": "text", "f": lambda name: [name]}

HOSTILE = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ x.__init__.__globals__ }}",
    "{{ x.y.__class__.__mro__ }}",
    "{{ f.__globals__ }}",
    "{{ f.__globals__['os'] }}",
    "{{ '{0.__class__}'.format(x) }}",
    "{{ '{0.__class__}' | format(x) | int + gone }}",
    "{{ 'a'.join(['b']) }}",
    "{{ t | attr('upper') }}",
    "{{ [x] | map(attribute='__class__') | first }}",
    "{{ [t] | map(attribute='__class__') | first }}",
    "{{ [t] | map('attr', '__class__') | list }}",
    "{{ [t] | map('$spend', 1) | list }}",
    "{{ t | selectattr('__class__') | list }}",
    "{{ range.__self__ }}", "{{ namespace.__init__ }}",
    "{{ self._TemplateReference__context }}", "{{ self }}",
    "{% for i in [1] %}{{ loop._iterable }}{% endfor %}", "{% for i in [1] %}{{ loop.__class__ }}{% endfor %}",
    "{% for i in [1] %}{{ loop }}{% endfor %}",
    "{% set ns = namespace() %}{{ ns.__class__ }}", "{% set ns = namespace() %}{{ ns }}", "{{ namespace }}",
    "{% macro m() %}{% endmacro %}{{ m }}", "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
    "{% macro m() %}{% endmacro %}{{ m.arguments }}",
    "{{ x.update({'a': 1}) }}", "{{ x.y.append(4) }}", "{{ x.y.pop() }}",
    "{{ dict }}", "{{ lipsum.__globals__ }}", "{{ cycler }}", "{{ joiner() }}",
    "{{ ('a' * 10 ** 8) | length }}", "{{ 'a' * 10 ** 9 }}", "{{ 10 ** 9 * 'a' }}", "{{ [0] * 10 ** 9 }}", "{{ 9 ** 9 ** 9 ** 9 ** 9 }}", "{{ 2 ** 999999999 }}",
    "{{ 2.0 ** 99999 }}", "{{ '%999999999d' % 1 }}", "{{ '%.999999999f' | format(1) }}", "{{ '%*d' % (99999999, 1) }}",
    "{{ 'a' | center(10 ** 9) }}", "{{ ('a\n' * 100000) | indent(10 ** 9) }}", "{{ 'a' | indent('b' * 4000000) | length + gone }}",
    "{{ ('a' * 100000) | replace('', 'b' * 100000) }}", "{{ ('a ' * 100000) | wordwrap(1, wrapstring='b' * 100000) }}",
    "{{ range(100000) | join('b' * 100000) }}", "{{ [1] | batch(10 ** 9, 0) }}", "{{ [1] | slice(10 ** 9, 0) }}",
    "{{ [[[[1]]]] | tojson(indent=10 ** 8) }}", "{{ range(10 ** 8) }}", "{{ range(0 - 10 ** 30, 10 ** 30) }}",
    "{{ range(100000) | map('center', 100000) | list }}",
    "{{ range(100000) | map('tojson') | map('center', 4000000) | list }}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% for i in range(100000) %}{% for j in range(100000) if j > i %}{% endfor %}{% endfor %}",
    "{% for i in range(100000) %}{{ 'a' * 1000 }}{% endfor %}",
    "{% for i in range(100000) %}{% if range(1000) | sum %}{% endif %}{% endfor %}",
    "{% for i in range(100000) %}" + "b" * 10_000 + "{% endfor %}",
    "{% for i in range(100000) %}" + "{% if i %}{% endif %}" * 2_000 + "{% endfor %}",
    "{% for i in range(300) recursive %}{{ loop(range(300)) }}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "{% macro m() %}" + "b" * 100_000 + "{% endmacro %}{% for i in range(1000) %}{{ m() }}{% endfor %}",
    "{% macro m() %}" + "{% if t %}{% endif %}" * 2_000 + "{% endmacro %}{% for i in range(10000) %}{{ m() }}{% endfor %}",
    "{% set ns = namespace(v='aaaaaaaa') %}{% for i in range(64) %}{% set ns.v = ns.v ~ ns.v %}{% endfor %}",
    "{% set ns = namespace(v='aaaaaaaa') %}{% for i in range(64) %}{% set ns.v = ns.v + ns.v %}{% endfor %}",
    "{% set ns = namespace(v='aaaaaaaa') %}{% for i in range(64) %}{% set ns.v %}{{ ns.v }}{{ ns.v }}{% endset %}{% endfor %}",
    "{% set ns = namespace(v=[1]) %}{% for i in range(64) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}{{ ns.v }}",
    "{% set ns = namespace(v=[1]) %}{% for i in range(64) %}{% set ns.v = {'a': ns.v, 'b': ns.v} %}{% endfor %}{{ ns.v == ns.v }}",
    "{% set ns = namespace(v=[1]) %}{% for i in range(64) %}{% set ns.v = ns.v + ns.v %}{% endfor %}",
    "{% set ns = namespace(v=[1]) %}{% for i in range(64) %}{% set ns.v = (ns.v | batch(1) | list, ns.v) %}{% endfor %}",
    "{% set ns = namespace(v=[]) %}{% for i in range(500) %}{% set ns.v = [ns.v] %}{% endfor %}{{ ns.v }}",
    "{% include 'me' %}", "{% include 'double5' %}", "{% include t %}", "{% import 'nope' as n %}", "{% extends 'me' %}",
    "{% autoescape true %}{{ t }}{% endautoescape %}",
    "{{ " + "(" * 5_000 + " }}", "{{ " + "[" * 500 + "]" * 500 + " }}", "{{ " + "not " * 5_000 + "t }}", "{{ t" + ".a" * 5_000 + " }}",
    "{{ 1" + " + 1" * 5_000 + " }}", "{% if t %}" * 1_000 + "{% endif %}" * 1_000, "{% for i in [1] %}" * 25 + "{% endfor %}" * 25,
    "{{ " + "9" * 5_000 + " }}", "{{ 0x" + "f" * 5_000 + " * 1 }}", r"{{ '\ud800' }}", r"{{ '\N{nope}' }}", "{{ '" + "a" * 300_000 + "' }}",
    "{{ t | truncate(-5) }}", "{{ t | round }}", "{{ t | abs }}", "{{ f() }}", "{{ f(nope=1) }}", "{{ f(*x.y) }}", "{{ f(**x) }}",
    "{% set loop = 1 %}{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", "{% endfor %}", "{{", "{% if %}", "\x00{{ \x00 }}",
    "{{ [1, 2] | map('map', 'list') | list }}", "{{ x | dictsort(by='hash') }}", "{{ t is filter('x') }}", "{{ t is callable }}",
    "{{ [gone] }}", "{{ {'a': f} }}", "{{ {[1]: 2} }}", "{{ 5 | split }}{{ x.y | split('') }}",
]

DOUBLING = {"me": "{% include 'me' %}", "double0": "b" * 1000,
            **{f"double{n}": ("{% include 'double" + str(n - 1) + "' %}") * 20 for n in range(1, 6)}}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("template", HOSTILE, ids=lambda template: template[:60])
def test_hostile_templates_end_soon(template: str) -> None:
    begun = time.process_time()
    with pytest.raises(ExpressionError) as caught:
        render(template, SCOPE, DOUBLING)
    assert time.process_time() - begun < PATIENCE
    said = str(caught.value)
    assert len(said) < 1200
    assert not any(word in said for word in ("Traceback", "<class", "0x7f", "jinja2", "object at"))
    assert SCOPE["x"] == {"y": [1, 2, 3]}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("template", HOSTILE, ids=lambda template: template[:60])
def test_analysis_of_hostile_templates_ends_soon(template: str) -> None:
    begun = time.process_time()
    analyse_template(template, {}, DOUBLING)
    analyse_expression(template, {})
    analyse_expression(template.removeprefix("{{ ").removesuffix(" }}"), {})
    assert time.process_time() - begun < PATIENCE


def test_fields_of_python_do_not_exist_in_mappings() -> None:
    assert evaluate("x.__class__", SCOPE) is MISSING
    assert evaluate("x.keys", SCOPE) is MISSING
    assert evaluate("x['__init__'].__globals__", SCOPE) is MISSING


def test_what_is_large_but_sane_passes() -> None:
    rows = [{"name": f"n{i}", "size": i} for i in range(5_000)]
    text = render("{% for r in rows %}{{ r.name }}: {{ r.size }}{% if not loop.last %}, {% endif %}{% endfor %}", {"rows": rows})
    assert text.startswith("n0: 0, n1: 1") and text.endswith("n4999: 4999")
    assert len(render("{{ t }}", {"t": "a" * 3_000_000})) == 3_000_000
    assert evaluate("rows | sort(attribute='size', reverse=true) | map(attribute='name') | first", {"rows": rows}) == "n4999"


@pytest.mark.parametrize("part", ["{{ 1 + 2 }} and {{ x.y }} ", "{% macro m(a, b=2) %}{{ a }}{% endmacro %}", "{% set z = [1, 2, 3] %}"])
def test_code_without_end_is_refused_before_it_is_compiled(part: str) -> None:
    """For the compiler's time, which nothing else of the process can use; text costs nothing."""
    scope = {"x": {"y": 1}}
    assert render("some text " * 20_000 + part * 200, scope)
    with pytest.raises(ExpressionError, match="more than 8,000") as told:
        render(part * 3_000, scope)
    assert "more than 8,000 names, signs and texts; prepare data in a step" in str(told.value)
    (finding,) = analyse_template(part * 3_000, {}).findings
    assert "more than 8,000" in finding.message and finding.line == 1 and finding.column > 1
    with pytest.raises(ExpressionError, match="more than 8,000"):
        evaluate("1" + " + 1" * 5_000, {})


def test_bounds_start_anew_each_time() -> None:
    assert render("{% for i in range(100000) %}{% endfor %}", {}) == ""
    for _ in range(3):
        assert evaluate("range(90000) | length", {}) == 90_000


def test_an_expression_is_compiled_once() -> None:
    compiled_expression.cache_clear()
    for number in range(200):
        assert evaluate("x.y and t == 'text'", {**SCOPE, "t": "text" if number % 2 else "other"}) is bool(number % 2)
    assert compiled_expression.cache_info().misses == 1
