"""What expressions and templates name, and what is wrong in them, found without running them.

Codes: expression-syntax, template-syntax, braces, python-habit, unknown-name, unknown-attribute, unknown-filter, unknown-test,
unknown-function, unknown-include, call-of-value, impossible-comparison, impossible-operation, not-a-list, reserved-name,
refused-feature, wrong-arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from jinja2 import nodes

from metaflow_agents.prompts import migration_hints as habits
from metaflow_agents.prompts.compilable import surely_compiles
from metaflow_agents.prompts.findings import Analysis, Finding
from metaflow_agents.prompts.positions import read_expression, read_template, syntax_fault
from metaflow_agents.prompts.running import UNREADABLE, compiled_expression, compiled_template
from metaflow_agents.prompts.scopes import TemplateScopes
from metaflow_agents.prompts.statements import Walker
from metaflow_agents.schema.shape import Shape

__all__ = ["Analysis", "Finding", "analyse_expression", "analyse_template", "includes"]


def _at(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return before.count("\n") + 1, offset - (max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1) + 1


def _unreadable(error: BaseException, text: str, code: str, habit: bool) -> Finding:
    """The finding of a text that can't be read: a foreign habit where one shows, else the syntax."""
    found = habits.written(text) if habit else None
    if found is not None:
        return Finding("python-habit", found[0], found[1], *_at(text, found[2]))
    message, mend, line, column = syntax_fault(error, text)
    return Finding(code, message, mend, line, column)


def analyse_expression(text: str, scope: Mapping[str, Shape]) -> Analysis:
    """Findings, names and shape of an expression over a scope of shapes. Never raises on what a person wrote."""
    inner = habits.braces(text)
    if inner is not None:
        rest = analyse_expression(inner, scope)
        finding = Finding("braces", "this is an expression already: braces around it make it a text", f"write: {inner}",
                          *_at(text, len(text) - len(text.lstrip())))
        return replace(rest, findings=(finding, *(fault for fault in rest.findings if fault.code != "braces")))
    if not text.strip():
        return Analysis((Finding("expression-syntax", "the expression is empty", "write one, or leave the key out"),))
    try:
        tree = read_expression(text)
    except UNREADABLE as error:
        return Analysis((_unreadable(error, text, "expression-syntax", True),))
    walker = Walker(text, TemplateScopes(scope), {})
    shape = walker.inference.shape(tree)
    if not walker.inference.findings and not surely_compiles(tree):
        try:
            compiled_expression(text)
        except UNREADABLE as error:
            return Analysis((_unreadable(error, text, "expression-syntax", False),))
    return _gathered(walker, shape)


def analyse_template(text: str, scope: Mapping[str, Shape], templates: Mapping[str, str] | None = None) -> Analysis:
    """Findings and names of a template; `templates` are those that it may include. Never raises on what a person wrote."""
    templates = templates or {}
    try:
        tree = read_template(text)
    except UNREADABLE as error:
        return Analysis((_in_template(error, text),))
    walker = Walker(text, TemplateScopes(scope), templates)
    walker.walk(tree.body)
    if not walker.inference.findings and not surely_compiles(tree):
        try:
            compiled_template(text, frozenset(templates.items()))
        except UNREADABLE as error:
            return Analysis((_in_template(error, text),))
    return _gathered(walker, Shape.text())


def _in_template(error: BaseException, text: str) -> Finding:
    """Foreign operators are looked for on the line that can't be read only: around it stands prose."""
    plain = _unreadable(error, text, "template-syntax", False)
    lines = text.splitlines() or [""]
    line = lines[min(plain.line, len(lines)) - 1]
    begin = max(line.rfind("{{", 0, max(plain.column, 1)), line.rfind("{%", 0, max(plain.column, 1)))
    if begin < 0:
        return plain
    ends = [end for end in (line.find("}}", begin), line.find("%}", begin)) if end >= 0]
    inside = line[begin + 2:min(ends) if ends else len(line)]
    found = habits.written(inside) if not inside.lstrip("-+ ").startswith(("for ", "set ", "with ", "macro ", "call ")) else None
    if found is None:
        return plain
    return Finding("python-habit", found[0], found[1], plain.line, begin + 2 + found[2] + 1)


def _gathered(walker: Walker, shape: Shape) -> Analysis:
    found = walker.inference
    findings = sorted(found.findings, key=lambda finding: (finding.line, finding.column))
    return Analysis(tuple(findings), frozenset(found.names), shape, frozenset(found.histories), frozenset(found.paths),
                    frozenset(found.uses))


@lru_cache(maxsize=512)
def includes(text: str) -> tuple[str, ...]:
    """The constant names of include, extends and import in a template, in order; empty where it can't be read."""
    try:
        tree = read_template(text)
    except UNREADABLE:
        return ()
    found: list[str] = []
    for node in tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)):
        name = getattr(node.template, "value", None)  # type: ignore[attr-defined]
        if isinstance(name, str) and name not in found:
            found.append(name)
    return tuple(found)
