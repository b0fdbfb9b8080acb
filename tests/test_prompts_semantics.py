"""What expressions and templates mean, one row a rule."""

from __future__ import annotations

from typing import Any

import pytest

from metaflow_agents.errors import ExpressionError, SOPNotFound
from metaflow_agents.prompts import (
    MISSING,
    CollectionView,
    FilesView,
    analyse_template,
    evaluate,
    package_template,
    render,
    render_args,
    render_pattern,
    truthy,
)
from metaflow_agents.schema.shape import Shape

SCOPE: dict[str, Any] = {
    "a": {"ok": True, "n": 3, "l": [{"p": "x", "s": 2}, {"p": "y", "s": 1}], "items": "a field called items", "nul": None},
    "files": FilesView.of({"b.py": "b = 1\n", "a.py": "a = 1\n"}, ["c.py"]),
    "chosen": CollectionView({"k": {"v": 1}, "missing": {"v": 2}}, ["z"]),
    "gone": MISSING,
    "text": "a text",
    "history": lambda name: [1, name],
}


@pytest.mark.parametrize(("expression", "value"), [
    ("a.ok and a.n > 2", True),
    ("a.items", "a field called items"),
    ("a['items']", "a field called items"),
    ("a.none_such", MISSING),
    ("a.nul.x.y", MISSING),
    ("gone.x['y'].z[0]", MISSING),
    ("not gone.x", True),
    ("gone == none", False),
    ("gone.x == 'a'", False),
    ("gone.x != 'a'", True),
    ("gone == gone.x", True),
    ("gone is defined", False),
    ("gone or 'else'", "else"),
    ("gone | default('d')", "d"),
    ("a.nul | default('d')", None),
    ("a.nul | default('d', true)", "d"),
    ("gone | list", []),
    ("gone | length", 0),
    ("'x' in gone", False),
    ("a.l[5]", MISSING),
    ("a.l[-1].p", "y"),
    ("a.l[1:]", [{"p": "y", "s": 1}]),
    ("a.l | map(attribute='p')", ["x", "y"]),
    ("a.l | selectattr('p', 'eq', 'y') | map(attribute='s') | first", 1),
    ("a.l | sort(attribute='s') | map(attribute='p') | join(',')", "y,x"),
    ("a.l | groupby('p') | map(attribute='grouper')", ["x", "y"]),
    ("a.l | first | items", [["p", "x"], ["s", 2]]),
    ("[] | first", MISSING),
    ("true == 1", False),
    ("1 == 1.0", True),
    ("1 in [true]", False),
    ("(1, 2)", [1, 2]),
    ("[1, 2] == (1, 2)", True),
    ("{'x': a.ok, 'y': [a.n]}", {"x": True, "y": [3]}),
    ("'n' ~ a.n ~ a.ok ~ a.nul", "n3truenull"),
    ("1 < a.n <= 3", True),
    ("a.n if false", MISSING),
    ("[1, 2] + [3]", [1, 2, 3]),
    ("'%s-%03d' | format(text, 7)", "a text-007"),
    ("'%.2f' % 1", "1.00"),
    ("text | split(' ')", ["a", "text"]),
    ("text is startingwith('a')", True),
    ("range(3)", [0, 1, 2]),
    ("files['a.py']", "a = 1\n"),
    ("files | list", ["b.py", "a.py"]),
    ("files.missing", ["c.py"]),
    ("chosen.k.v", 1),
    ("chosen.missing", ["z"]),
    ("chosen['missing'].v", 2),
    ("'k' in chosen", True),
    ("history('q')[-1]", "q"),
    ("{'b': 1, 'a': [true, none]} | tojson", '{"b": 1, "a": [true, null]}'),
    ("'<é>' | tojson", '"<é>"'),
    (r"'a\d' ", r"a\d"),
    ("a.l | map(attribute='p') | map('upper') | list", ["X", "Y"]),
    ("'a,b'\n  | split(',')", ["a", "b"]),
])
def test_expressions(expression: str, value: Any) -> None:
    found = evaluate(expression, SCOPE)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("expression", "said"), [
    ("zz", "there is no `zz` here"),
    ("txet", "did you mean `text`?"),
    ("gone < 1", "no order"),
    ("[1, 'a'] | sort", "no order"),
    ("[gone] | sort", "missing"),
    ("gone + 1", "default"),
    ("'a' + 1", "`~` joins"),
    ("true + 1", "true or false"),
    ("a.l.p", "map(attribute="),
    ("text.upper", "only mappings have fields"),
    ("gone ~ 'x'", "can't be printed"),
    ("gone | upper", "can't be printed"),
    ("[gone]", "missing"),
    ("[history]", "a function is no value"),
    ("{1: 2}", "keys of a mapping are texts"),
    ("a[1]", "keys of a mapping are texts"),
    ("1 / 0", "division by zero"),
    ("text | first | nope", "No filter named 'nope'"),
    ("a.items()", "can't be called"),
    ("text()", "text can't be called"),
    ("history(*a.l)", "write the arguments out"),
    ("1e999", "finite"),
    ("'x' * a.ok", "can't take"),
    ("a.n | items", "takes a mapping"),
    ("(a", "unexpected end"),
    ("a b", "ends before `b`"),
])
def test_expressions_that_fail(expression: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, SCOPE)
    assert said in str(caught.value)
    assert expression.splitlines()[0] in str(caught.value), "the expression is named"


@pytest.mark.parametrize(("template", "text"), [
    ("{{ a.ok }} {{ a.nul }} {{ 1.0 }} {{ a.l[0] }}", 'true null 1.0 {"p": "x", "s": 2}'),
    ("{% for x in a.l %}\n{{ loop.index }}{{ x.p }}{{ ',' if not loop.last }}\n{% endfor %}\n", "1x,\n2y\n"),
    ("{% for x in a.l %}\n  {% if x.p %}\n{{ x.p }}\n  {% endif %}\n{% endfor %}\n", "x\ny\n"),
    ("{{ text }}\n", "a text\n"),
    ("{{ '{{ a.ok }}' }}", "{{ a.ok }}"),
    ("{% set ns = namespace(n=0) %}{% for x in a.l %}{% set ns.n = ns.n + x.s %}{% endfor %}{{ ns.n }}", "3"),
    ("{% macro m(x, y='d') %}{{ x }}{{ y }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}"
     "{{ m(1) }}{% call m(2) %}!{% endcall %}",
     "1d2d!"),
    ("{% set x %}{{ a.n }}!{% endset %}{{ x * 2 }}", "3!3!"),
    ("{% include 'inc' %}{% import 'lib' as lib %}{{ lib.twice('z') }}", "[3]zz"),
    ("{% extends 'base' %}{% block b %}{{ super() }}{{ text }}{% endblock %}", "<base a text>"),
    ("{{ files }}", "b.py\n```\nb = 1\n```\n\na.py\n```\na = 1\n```\n"),
    ("{{ chosen }}", '{"k": {"v": 1}, "missing": {"v": 2}}'),
    ("{% for k, v in a.l[0] | items %}{{ k }}={{ v }};{% endfor %}", "p=x;s=2;"),
    ("{% for x in gone.list %}{{ x }}{% else %}none{% endfor %}", "none"),
    ("{% for x in a.l recursive %}{{ x.p }}{% if loop.depth < 2 %}{{ loop(a.l) }}{% endif %}{% endfor %}", "xxyyxy"),
    ("{% filter upper %}{{ text }}{% endfilter %}", "A TEXT"),
])
def test_templates(template: str, text: str) -> None:
    templates = {"inc": "[{{ a.n }}]", "lib": "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}",
                 "base": "<{% block b %}base {% endblock %}>"}
    assert render(template, SCOPE, templates) == text


@pytest.mark.parametrize(("template", "text"), [
    ("<{{ 'x' if a.ok }}{{ 'y' if not a.ok }}>", "<x>"),
    ("<{{ 'x' if gone else 'y' if gone }}>", "<>"),
    ("<{{ ('x' if gone) if a.ok }}>", "<>"),
    ("<{{ 'a' ~ (', b' if gone) ~ '.' }}>", "<a.>"),
    ("<{{ ('x' if gone) | upper | indent }}>", "<>"),
    ("<{{ ('x' if gone) | default('none') }}>", "<none>"),
])
def test_an_if_without_else_prints_nothing(template: str, text: str) -> None:
    assert analyse_template(template, {"a": Shape.any(), "gone": Shape.any()}).findings == ()
    assert render(template, SCOPE) == text


def test_an_if_without_else_is_missing_in_an_expression() -> None:
    assert evaluate("'x' if gone", SCOPE) is MISSING
    assert evaluate("('x' if gone) is defined", SCOPE) is False
    assert evaluate("'a' ~ ('x' if gone)", SCOPE) == "a"


@pytest.mark.parametrize(("template", "which"), [
    ("{{ a.none_such.p }}", "a.none_such.p"),
    ("{{ a.none_such if a.ok }}", "a.none_such"),
    ("{{ text if gone else a.l[7] }}", "a.l[7]"),
    ("{{ chosen['no'].v ~ '!' }}", "chosen['no'].v"),
    ("{% for x in a.l %}{{ x.zz | trim }}{% endfor %}", "x.zz"),
    ("{{ files[text] | escape }}", "files[text]"),
])
def test_what_is_missing_is_told_by_its_name_and_its_line_whole(template: str, which: str) -> None:
    line = f"{'word ' * 100}{template}"
    with pytest.raises(ExpressionError) as caught:
        render(f"first\n{line}", SCOPE, name="report.md.j2")
    assert str(caught.value) == (f"line 2 of report.md.j2: `{line}`: `{which}` is missing, and what is missing can't be printed; "
                                 "fix: guard it with `{% if … %}`, or give it `| default(…)`")


def test_a_value_is_rendered_once() -> None:
    written = "{{ 7 * 7 }}{% include 'secret' %}"
    assert render("{{ t }}", {"t": written}, {"secret": "no"}) == written
    assert render_args({"x": "{{ t }}", "y": "-{{ t }}"}, {"t": written}) == {"x": written, "y": "-" + written}
    assert evaluate("t", {"t": written}) == written


def test_failures_name_the_line_and_the_template() -> None:
    with pytest.raises(ExpressionError, match=r"line 3 of prd\.j2: `x \{\{ nope \}\}`: there is no `nope` here"):
        render("a\nb\nx {{ nope }}\n", {"a": 1}, name="prd.j2")


def test_files_are_loaded_when_they_are_read() -> None:
    read: list[str] = []

    def load(path: str) -> str:
        read.append(path)
        return f"text of {path}"

    view = FilesView(["a", "b"], load)
    assert evaluate("files | length == 2 and 'b' in files", {"files": view}) is True
    assert read == []
    assert evaluate("files['b']", {"files": view}) == evaluate("files.b", {"files": view}) == "text of b"
    assert read == ["b"]
    assert view == FilesView.of({"a": "text of a", "b": "text of b"})


def test_a_fence_is_longer_than_those_inside() -> None:
    assert render("{{ f }}", {"f": FilesView.of({"r.md": "````\nx\n````"})}) == "r.md\n`````\n````\nx\n````\n`````\n"


def test_views_stay_views() -> None:
    assert evaluate("files", SCOPE) is SCOPE["files"]
    assert evaluate("chosen", SCOPE) is SCOPE["chosen"]
    assert not truthy(evaluate("gone.x", SCOPE))


def test_patterns() -> None:
    assert render_pattern("{{ f.path }}", {"f": {"path": "app/[slug]/p*.tsx"}}) == "app/[[]slug]/p[*].tsx"
    assert render_pattern("{{ d.package }}/**", {"d": {"package": "calc"}}) == "calc/**"
    assert render_pattern("more_{{ n }}.py", {"n": 3}) == "more_3.py"
    for pattern, value in [("{{ x }}/a", 3.5), ("{{ x }}/a", True), ("{{ x }}/a", ["a"]), ("{{ x.y }}", {}), ("{{ x }}", ""),
                           ("{% if x %}a{% endif %}", 1), ("{{ x", 1)]:
        with pytest.raises(ExpressionError):
            render_pattern(pattern, {"x": value})


def test_arguments_keep_their_type() -> None:
    args = {"n": "{{ a.n }}", "t": "n={{ a.n }}", "l": [1, "{{ a.l }}", None], "m": "{{ gone }}", "two": "{{ a.n }}{{ a.n }}",
            "plain": "x", "tricky": "{{ '}}' }}"}
    assert render_args(args, SCOPE) == {
        "n": 3, "t": "n=3", "l": [1, SCOPE["a"]["l"], None], "m": None, "two": "33", "plain": "x", "tricky": "}}"}


def test_package_templates_are_known_by_name() -> None:
    with pytest.raises(SOPNotFound, match="did you mean `repair`"):
        package_template("repiar")
    for name in ("material", "activation", "output_format", "repair", "role", "strategies/form"):
        assert package_template(name).startswith(f"{{# {name.rpartition('/')[2]}, version ")
