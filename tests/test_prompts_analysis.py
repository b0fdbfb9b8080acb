# ruff: noqa: E501
"""What the analysis of expressions and templates tells, with its place and its mend."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts import (
    CollectionView,
    FilesView,
    analyse_expression,
    analyse_template,
    evaluate,
    from_package,
    includes,
    package_template,
    render,
)
from metaflow_agents.prompts.filter_shapes import filtered
from metaflow_agents.prompts.filters import FILTERS
from metaflow_agents.schema.shape import Shape


def schema(written: Any) -> dict[str, Any]:
    """A closed JSON Schema from a small shorthand, so that these tests stand on nothing but shapes."""
    if isinstance(written, list):
        return {"type": "array", "items": schema(written[0])}
    if isinstance(written, dict):
        return {"type": "object", "properties": {name.rstrip("?"): schema(inner) for name, inner in written.items()},
                "required": [name for name in written if not name.endswith("?")], "additionalProperties": False}
    if "|" in written:
        return {"type": "string", "enum": [word.strip() for word in written.split("|")]}
    return {"type": written}


def shape(written: Any) -> Shape:
    return Shape.of(schema(written))


SCOPE = {
    "design": shape({"package": "string", "files": [{"path": "string", "uses": ["string"], "note?": "string"}]}),
    "test": shape({"ok": "boolean", "n": "integer"}),
    "priority": shape("low | medium | high"),
    "source": Shape.files(),
    "choices": Shape.collection(shape({"v": "string"})),
    "idea": Shape.text(),
    "faults": shape({"items": [{"path": "string"}]}).as_optional(),
    "any": Shape.any(),
}
TEMPLATES = {"inc": "a\n{{ design.fils }}", "lib": "{% macro m(a) %}{{ a }}{% endmacro %}", "base": "{% block b %}{% endblock %}",
             "rec": "{% include 'rec' %}", "bad": "{% if %}"}


@pytest.mark.parametrize(("expression", "code", "column", "mend"), [
    ("design.fils", "unknown-attribute", 8, "did you mean `files`?"),
    ("design['fils']", "unknown-attribute", 9, "did you mean `files`?"),
    ("design.files.path", "unknown-attribute", 14, "take an item, or `map(attribute='path')`"),
    ("design.files[0].pth", "unknown-attribute", 17, "did you mean `path`?"),
    ("idea.text", "unknown-attribute", 6, "write `idea` alone"),
    ("choices.a.w", "unknown-attribute", 11, "there is: v"),
    ("design.files | map(attribute='pth')", "unknown-attribute", 31, "did you mean `path`?"),
    ("history('design')[0].fils", "unknown-attribute", 22, "did you mean `files`?"),
    ("desing.package", "unknown-name", 1, "did you mean `design`?"),
    ("test.ok and desing", "unknown-name", 13, "did you mean `design`?"),
    ("history('desing')", "unknown-name", 9, "did you mean `design`?"),
    ("history(idea)", "unknown-name", 8, "history('name')"),
    ("loop.index", "unknown-name", 1, ""),
    ("design.files | lenght", "unknown-filter", 16, "did you mean `length`?"),
    ("design | attr('x')", "unknown-filter", 10, "fields are read with `.`"),
    ("design.files | map('path') | list", "unknown-filter", 20, "map(attribute='path')"),
    ("test.n is oddd", "unknown-test", 11, "did you mean `odd`?"),
    ("test.n is None", "unknown-test", 11, "is none"),
    ("design.files | selectattr('path', 'eqq', 'x')", "unknown-test", 35, "did you mean `eq`?"),
    ("foo(1)", "unknown-function", 1, "there is: range"),
    ("trim(idea)", "unknown-function", 1, "x | trim"),
    ("len(design.files)", "python-habit", 1, "`design.files | length`"),
    ("design.files.length", "python-habit", 14, "`design.files | length`"),
    ("test.ok && any", "python-habit", 9, "`and`"),
    ("test.ok || any", "python-habit", 9, "`or`"),
    ("!test.ok", "python-habit", 1, "`not`"),
    ("test.n === 3", "python-habit", 8, "`==`"),
    ("test.n = 3", "python-habit", 8, "`==`"),
    ("any.x == null", "python-habit", 10, "`none`"),
    ("f'{idea}'", "python-habit", 1, "`~`"),
    ("[f.path for f in design.files]", "python-habit", 9, "map"),
    ("test.ok ? 1 : 2", "python-habit", 9, "if condition else"),
    ("design.items()", "call-of-value", 8, "`design | items`"),
    ("idea.split(',')", "call-of-value", 6, "`idea | split("),
    ("any.get('x')", "call-of-value", 5, "default"),
    ("idea()", "call-of-value", 5, "parentheses"),
    ("priority == 'hihg'", "impossible-comparison", 13, "did you mean 'high'?"),
    ("priority in ['low', 'hihg']", "impossible-comparison", 21, "did you mean 'high'?"),
    ("'hihg' == priority", "impossible-comparison", 1, "did you mean 'high'?"),
    ("priority is eq('hihg')", "impossible-comparison", 16, "did you mean 'high'?"),
    ("test.n == '3'", "impossible-comparison", 11, "number"),
    ("test.ok == 1", "impossible-comparison", 12, "boolean"),
    ("faults == none", "impossible-comparison", 11, "what is missing is falsy"),
    ("test.n < idea", "impossible-comparison", 10, "one type"),
    ("3 in design.files | map(attribute='path') | list", "impossible-comparison", 1, ""),
    ("idea + 1", "impossible-operation", 1, "`~` joins"),
    ("idea | map('upper')", "not-a-list", 8, "`| lines`"),
    ("{{ test.ok }}", "braces", 1, "write: test.ok"),
    ("  ${{ test.ok }}", "braces", 3, "write: test.ok"),
    ("(idea", "expression-syntax", 2, "`)`"),
    ("idea idea", "expression-syntax", 6, ""),
    ("idea if", "expression-syntax", 6, ""),
    ("", "expression-syntax", 1, ""),
    ("self.x", "refused-feature", 1, ""),
    ("range(*any)", "refused-feature", 6, "write the arguments out"),
])
def test_findings_of_expressions(expression: str, code: str, column: int, mend: str) -> None:
    findings = analyse_expression(expression, SCOPE).findings
    assert [(f.code, f.line, f.column) for f in findings][:1] == [(code, 1, column)], findings
    assert mend in findings[0].mend


@pytest.mark.parametrize("expression", [
    "test.ok and not faults", "faults.items | length > 0", "priority == 'high'", "priority in ['low', 'high']", "any.x.y == 3",
    "design.files | map(attribute='path') | join(', ')", "design.files | selectattr('note') | list | length", "source['a.py']",
    "source.missing | length", "choices[idea].v == 'x'", "choices.missing", "history('test') | length < 3", "design.files[0].note is defined",
    "'x' in idea", "idea in source", "(test.n + 1) / 2 >= 1.5", "design.package ~ test.n", "range(test.n)", "'a' + 'b' == 'ab'",
    "test.n == 3.0", "any | first", "design.files | groupby('path')", "[1, 'a', none]", "{'a': idea}.a", "'%s' | format(idea)",
])
def test_what_is_right_has_no_findings(expression: str) -> None:
    assert analyse_expression(expression, SCOPE).findings == ()


@pytest.mark.parametrize(("template", "found"), [
    ("{% for f in design.files %}{{ f.pth }}{{ loop.idx }}{% endfor %}", [("unknown-attribute", 1, 33), ("unknown-attribute", 1, 47)]),
    ("{% for f in design.files %}{{ f.path }}{% endfor %}\n{{ f.path }}", [("unknown-name", 2, 4)]),
    ("{% for path, text in source | items %}{{ path ~ text }}{{ text.x }}{% endfor %}", [("unknown-attribute", 1, 64)]),
    ("{% for x in idea %}{% endfor %}", [("not-a-list", 1, 13)]),
    ("{% if test.ok %}{% set a = 1 %}{% endif %}{{ a }}", [("unknown-name", 1, 46)]),
    ("{% if test.ok %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", []),
    ("{% macro m(x) %}{{ x.y }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}", [("wrong-arguments", 1, 54)]),
    ("{{ idea }}\n  {% include 'inc' %}", [("unknown-attribute", 2, 6)]),
    ("{% include 'inx' %}", [("unknown-include", 1, 12)]),
    ("{% include idea %}", [("refused-feature", 1, 12)]),
    ("{% include 'rec' %}", [("unknown-include", 1, 4)]),
    ("{% include 'bad' %}", [("template-syntax", 1, 4)]),
    ("{% import 'lib' as l %}{{ l.m(1) }}{{ l.k(1) }}", [("unknown-attribute", 1, 41)]),
    ("{% from 'lib' import m, q %}{{ m(2) }}", [("unknown-name", 1, 25)]),
    ("{% extends 'base' %}{% block b %}{{ super() }}{{ nope }}{% endblock %}", [("unknown-name", 1, 50)]),
    ("text\r\n{{ idea }} {{ design.fils }} {{ design.fils }}",
     [("unknown-attribute", 2, 22), ("unknown-attribute", 2, 40)]),
    ("{% for x in design.files %}", [("template-syntax", 1, 26)]),
    ("a\n{% fro x in any %}{% endfor %}", [("template-syntax", 2, 4)]),
    ("Salt && pepper || what?\n{{ test.ok && any }}", [("python-habit", 2, 12)]),
    ("{% set loop = 1 %}", [("reserved-name", 1, 8)]),
    ("{{ caller() }}", [("refused-feature", 1, 4)]),
    ("{{ range }}", [("call-of-value", 1, 4)]),
    ("{% set ns.a = 1 %}", [("unknown-name", 1, 8)]),
    ("{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}", []),
    ("{% autoescape true %}{% endautoescape %}", [("refused-feature", 1, 1)]),
    ("{% filter uper %}x{% endfilter %}", [("unknown-filter", 1, 11)]),
])
def test_findings_of_templates(template: str, found: list[tuple[str, int, int]]) -> None:
    findings = analyse_template(template, SCOPE, TEMPLATES).findings
    assert [(f.code, f.line, f.column) for f in findings] == found, findings


def test_names_paths_and_histories() -> None:
    analysis = analyse_template(
        "{% set d = design %}{% for f in design.files if f.path in prior %}{{ f.path }}{{ faults['items'][0].path }}{% endfor %}"
        "{{ history('test')[-1].ok }}{{ d.package }}{% include 'inc' %}", {**SCOPE, "prior": Shape.any()}, {"inc": "{{ test.ok }}"})
    assert analysis.findings == ()
    assert analysis.names == {"design", "prior", "faults", "test"}
    assert analysis.paths == {("design",), ("design", "files"), ("prior",), ("faults", "items"), ("test", "ok")}
    assert analysis.histories == {"test"}


@pytest.mark.parametrize(("expression", "kind"), [
    ("design.files", "list"), ("design.files | first", "object"), ("design.files | map(attribute='path') | list", "list"),
    ("test.ok and test.n > 1", "boolean"), ("idea | length", "integer"), ("idea ~ 1", "string"), ("test.n + 1", "integer"),
    ("test.n / 2", "number"), ("design.package", "string"), ("source", "files"), ("choices", "collection"), ("any.x", "any"),
    ("history('design')", "list"), ("'a' if test.ok else 1", "union"), ("faults.items or []", "list"),
])
def test_shapes(expression: str, kind: str) -> None:
    assert analyse_expression(expression, SCOPE).shape.kind == kind


def test_a_name_that_is_gone_is_told_why() -> None:
    some = analyse_template("{% if test.ok %}{% set a = 1 %}{% endif %}{{ a }}", SCOPE).findings
    assert "in some branches only" in some[0].message
    inside = analyse_template("{% for f in design.files %}{% set a = 1 %}{% endfor %}{{ a }}", SCOPE).findings
    assert "namespace(" in inside[0].mend


def test_unknown_names_are_names_too() -> None:
    assert analyse_expression("nope.x and test", SCOPE).names == {"nope", "test"}


def test_includes() -> None:
    assert includes("{% extends 'a' %}{% include 'b' %}{% import 'c' as c %}{% from 'b' import x %}{% include d %}") == ("a", "b", "c")
    assert includes("{% if %}") == ()


def test_every_filter_has_a_shape() -> None:
    for name in FILTERS:
        for known in SCOPE.values():
            assert isinstance(filtered(name, known, []), Shape)


PIECES = ["{{", "}}", "{%", "%}", "{#", "#}", "if", "for x in", "endfor", "endif", "set", "macro m()", "endmacro", "design", ".files", ".x",
          "[0]", "['a']", "(", ")", "|", "map", "first", "is", "defined", "==", "in", "'a'", "\"", "1", "~", "+", ",", " ", "\n", "not",
          "history('idea')", "include 'inc'", "block b", "endblock", "call", "loop", "{", "}", "=", "&&", "é", "\x00", "-", "else", "ns.x"]


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=24).map(" ".join),
                 st.lists(st.sampled_from(PIECES), max_size=24).map("".join)))
def test_analysis_never_raises_and_rendering_only_expression_errors(text: str) -> None:
    for analysis in (analyse_expression(text, SCOPE), analyse_template(text, SCOPE, TEMPLATES)):
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for finding in analysis.findings:
            assert 1 <= finding.line <= len(lines) and 1 <= finding.column <= len(text) + 2
            assert finding.code and finding.message
    for run in (lambda: evaluate(text, {"design": {"files": [1]}}), lambda: render(text, {"design": {"files": [1]}}, TEMPLATES)):
        try:
            run()
        except ExpressionError:
            pass


NAMES = st.sampled_from(["a", "b", "items", "keys", "missing", "list", "c_d"])
LEAVES = st.sampled_from(["string", "integer", "boolean", "number", "x | y"])
SCHEMAS = st.recursive(LEAVES, lambda inner: st.one_of(
    inner.map(lambda one: [one]), st.dictionaries(st.builds(lambda n, o: n + o, NAMES, st.sampled_from(["", "?"])), inner, max_size=3)),
    max_leaves=8)


def valid(written: Any, draw: Any) -> Any:
    if isinstance(written, list):
        return [valid(written[0], draw) for _ in range(draw(st.integers(0, 2)))]
    if isinstance(written, dict):
        return {name.rstrip("?"): valid(inner, draw) for name, inner in written.items()
                if not name.endswith("?") or draw(st.booleans())}
    return {"string": "s", "integer": 1, "boolean": True, "number": 0.5}.get(written, "x")


@settings(max_examples=examples(400), deadline=None)
@given(SCHEMAS, st.data())
def test_a_path_that_analysis_accepts_evaluates(written: Any, data: Any) -> None:
    names = [name.rstrip("?") for name in written] if isinstance(written, dict) else []
    if len(set(names)) < len(names):
        return
    path = "v" + "".join(data.draw(st.lists(st.one_of(NAMES.map(".{}".format), NAMES.map("['{}']".format), st.just("[0]")), max_size=4)))
    if analyse_expression(path, {"v": shape(written)}).findings:
        return
    evaluate(path, {"v": valid(written, data.draw)})
    evaluate(f"not {path}", {"v": valid(written, data.draw)})


def test_views_have_the_fields_that_their_shapes_have() -> None:
    for name, view in (("source", FilesView.of({"a": "b"}, ["c"])), ("choices", CollectionView({"a": {"v": 1}}, ["c"]))):
        assert analyse_expression(f"{name}.missing", SCOPE).shape.kind == "list"
        assert evaluate(f"{name}.missing", {name: view}) == ["c"]


def test_package_templates_are_clean_and_say_what_matters() -> None:
    anything = dict.fromkeys(("name", "kind", "description", "schema", "rules", "patterns", "revises", "key", "reads", "item", "prior",
                              "prior_files", "task", "output_format", "faults", "left", "stands", "edits_told", "whole", "role", "step", "part"),
                             Shape.any())
    for name in ("material", "activation", "output_format", "repair", "role", "strategies/form"):
        template = re.sub(r"\b(enclosed|attribute)\(", "(", package_template(name))         # functions of `from_package`
        assert analyse_template(template, anything).findings == ()


def test_output_formats() -> None:
    common = {"name": "source", "description": "", "rules": [], "patterns": [], "revises": False, "key": None}
    files = from_package("output_format", {**common, "kind": "files", "patterns": ["src/[[]a]/**"], "rules": ["it compiles"]})
    assert "=== file: path/of/the/file ===\n" in files and "\n=== end ===\n" in files
    assert "- `src/[[]a]/**`\n" in files and "- it compiles\n" in files
    assert "=== edit:" not in files
    revising = from_package("output_format", {**common, "kind": "files", "patterns": ["**"], "revises": True})
    assert "<<<<<<< SEARCH\n" in revising and ">>>>>>> REPLACE\n=== end ===\n" in revising
    assert "=== rename: old/path -> new/path ===\n=== delete: path/of/the/file ===\n" in revising
    data = from_package("output_format", {**common, "kind": "data", "key": "t1"})
    assert "one JSON value" in data and "the entry `t1` of `source`" in data and "===" not in data
    assert "the text itself" in from_package("output_format", {**common, "kind": "text"})


def test_activation() -> None:
    reads = [{"name": "prd", "kind": "data", "description": "what to build", "value": {"title": "é {{ x }}"}},
             {"name": "source", "kind": "files", "description": "", "value": FilesView.of({"a.py": "x = 1\n"}, ["c.py"])},
             {"name": "notes", "kind": "text", "description": "", "value": None}]
    scope = {"reads": reads, "item": {"name": "file", "key": "b.py", "value": {"path": "b.py"}}, "prior": {"a.py": "made"},
             "prior_files": False, "task": "Write it.\n"}
    text = from_package("material", scope) + from_package("activation", scope)
    assert text == from_package("material", scope) + from_package("activation", scope)
    parts = ['<artifact name="prd" kind="data">\n(what to build)\n{\n  "title": "é {{ x }}"\n}\n</artifact>', "a.py\n```\nx = 1\n```",
             "Missing, because their work failed: c.py", "(none: no step has made it)", '<made key="a.py">\nmade\n</made>', "only: `b.py`",
             '<item name="file">', "# Your task\n\nWrite it.\n"]
    at = [text.index(part) for part in parts]
    assert at == sorted(at), "what changes least stands first"
    assert from_package("material", {"reads": [], "prior": None, "prior_files": False}).strip() == ""
    assert from_package("activation", {"item": None, "task": ""}) == ""


def test_repair_role_and_reasoning() -> None:
    repair = from_package("repair", {"faults": ["a: is\nwrong", "b is missing"], "left": 1, "stands": [], "edits_told": False, "whole": True})
    assert "- a: is\n  wrong\n- b is missing\n" in repair and "last answer" in repair and "===" not in repair
    repair = from_package("repair", {"faults": ["a is wrong"], "left": 2, "stands": ["`a`", "`b`"], "edits_told": False, "whole": True})
    assert "`a`, `b`" in repair and "=== undo: PATH ===" in repair and "<<<<<<< SEARCH" in repair and "last answer" not in repair
    role = from_package("role", {"role": {"name": "qa_engineer", "profile": "tests", "goal": "", "constraints": ["be kind"]},
                                 "step": "triage"})
    assert role.startswith("You are the qa engineer: tests.\n") and "- be kind\n" in role and "goal" not in role
    assert "not the answer yet" in render(package_template("strategies/chain_of_thought.reason"), {})
    assert render(package_template("strategies/chain_of_thought.answer"), {"output_format": "F"}).endswith("F\n")
