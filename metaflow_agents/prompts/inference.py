"""Shapes of expressions, and what is wrong in them, found on the tree alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jinja2 import nodes

from metaflow_agents.errors import did_you_mean
from metaflow_agents.prompts.comparing import literal_fault, shapes_fault
from metaflow_agents.prompts.filter_shapes import (
    ANY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    SCALARS,
    TEXT,
    item_of,
)
from metaflow_agents.prompts.filtering import Filtering, constant
from metaflow_agents.prompts.findings import Finding, NameUse
from metaflow_agents.prompts.operations import LOOP_FIELDS
from metaflow_agents.prompts.positions import place
from metaflow_agents.prompts.scopes import Bound, Function, MacroModule, TemplateScopes
from metaflow_agents.prompts.unknown import field_fault, function_fault, method_fault, name_fault
from metaflow_agents.prompts.written import written
from metaflow_agents.schema.shape import Shape

LOOP = MacroModule(
    {
        **{name: INTEGER for name in LOOP_FIELDS},
        "first": BOOLEAN,
        "last": BOOLEAN,
        "previtem": ANY,
        "nextitem": ANY,
        "cycle": Function(ANY),
        "changed": Function(BOOLEAN),
    }
)
MAX_FINDINGS = 100                  # of one text: who reads more mends the first ones and looks again
_ALWAYS: dict[str, Function] = {"range": Function(Shape.list_of(INTEGER)), "namespace": Function(ANY, (), True)}


class Inference:
    """Walks expressions. Findings, free names, attribute paths and histories gather on the way."""

    def __init__(self, text: str, scopes: TemplateScopes) -> None:
        self.lines = re.sub(r"\r\n|\r", "\n", text).split("\n")
        self.scopes = scopes
        self.findings: list[Finding] = []
        self.names: set[str] = set()
        self.paths: set[tuple[str, ...]] = set()
        self.histories: set[str] = set()
        self.uses: set[NameUse] = set()
        filters = Filtering(self)
        self.reading: dict[type[nodes.Node], Callable[[Any], Bound]] = {
            nodes.Name: self._name, nodes.Getattr: self._getattr, nodes.Getitem: self._getitem, nodes.Call: self._call,
            nodes.Filter: filters.filter, nodes.Test: filters.test, nodes.Compare: self._compare, nodes.CondExpr: self._condition,
            nodes.And: self._either, nodes.Or: self._either, nodes.Not: self._not, nodes.Concat: self._concat,
            nodes.List: self._list, nodes.Tuple: self._list, nodes.Dict: self._dict, nodes.Const: self._const}

    # --- reporting

    def report(self, code: str, message: str, mend: str, node: nodes.Node, word: str = "") -> None:
        """A finding at a node; with `word`, at its first occurrence from there on that line."""
        line, column = place(node.lineno)
        if word:
            column = self._word(word, node)[1] or column
        finding = Finding(code, message, mend, line, column)
        if len(self.findings) < MAX_FINDINGS and finding not in self.findings:
            self.findings.append(finding)

    def _word(self, word: str, node: nodes.Node) -> tuple[int, int]:
        """Where a word stands first from a node on, on the node's line; column 0 where it does not."""
        line, column = place(node.lineno)
        if not 0 < line <= len(self.lines):
            return line, 0
        found = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search(self.lines[line - 1], max(column - 1, 0))
        return line, found.start() + 1 if found else 0

    # --- reading

    def shape(self, node: nodes.Node | None) -> Shape:
        """The shape of an expression that is used as a value."""
        if node is None:
            return ANY
        bound = self.bound(node)
        return bound if isinstance(bound, Shape) else ANY

    def bound(self, node: nodes.Node) -> Bound:
        """The shape of an expression, or the function or module that it names."""
        read = self.reading.get(type(node))
        if read is not None:
            return read(node)
        if isinstance(node, nodes.BinExpr):
            return self._arithmetic(node)
        if isinstance(node, nodes.UnaryExpr):
            self.shape(node.node)
            return NUMBER
        for child in node.iter_child_nodes():
            self.shape(child)
        return ANY

    @staticmethod
    def _const(node: nodes.Const) -> Shape:
        return Shape.of({"enum": [node.value]})

    def _name(self, node: nodes.Name) -> Bound:
        local = self.scopes.local(node.name)
        if local is not None:
            return local
        given = self.scopes.given.get(node.name)
        if given is not None:
            self.names.add(node.name)
            self.paths.add((node.name,))
            self.uses.add(NameUse("name", node.name, *place(node.lineno)))
            return given
        if node.name in _ALWAYS:
            return _ALWAYS[node.name]
        if node.name == "history":
            return Function(ANY, ("name",))
        self.names.add(node.name)
        self.uses.add(NameUse("name", node.name, *place(node.lineno)))
        self.report(*name_fault(node.name, self.scopes), node)
        return ANY

    # --- fields

    def _chain(self, node: nodes.Node) -> tuple[str, ...] | None:
        """`a.b['c']` as its path from a free name."""
        parts: list[str] = []
        while not isinstance(node, nodes.Name):
            if isinstance(node, nodes.Getattr):
                parts.append(node.attr)
            elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
                parts.append(node.arg.value)
            else:
                return None
            node = node.node
        if self.scopes.local(node.name) is not None or node.name not in self.scopes.given:
            return None
        return (node.name, *reversed(parts))

    def _base(self, node: nodes.Getattr | nodes.Getitem) -> Bound:
        """What the field is read from; of a chain only the whole path is kept."""
        path = self._chain(node)
        before = set(self.paths) if path else set()
        base = self.bound(node.node)
        if path:
            if len(path) == 3 and path[:2] == ("run", "inputs"):
                self.uses.add(NameUse("input", path[2], *self._word(path[2], node)))
            inner = self._chain(node.node)
            if inner is not None and inner not in before:
                self.paths.discard(inner)
            self.paths.add(path)
        return base

    def _getattr(self, node: nodes.Getattr) -> Bound:
        return self.field(self._base(node), node.attr, node, node.node)

    def field(self, base: Bound, name: str, node: nodes.Node, owner: nodes.Node | None = None) -> Bound:
        """`base.name`, reported where there is certainly no such field."""
        if isinstance(base, MacroModule):
            if name in base.members:
                return base.members[name]
            self.report("unknown-attribute", f"there is no `.{name}`", did_you_mean(name, base.members), node, name)
            return ANY
        if isinstance(base, Function):
            self.report("call-of-value", "a function has no fields", "call it first", node, name)
            return ANY
        found = base.field(name)
        if found is not None:
            return found.as_optional() if base.optional or "null" in base.kinds else found
        self.report(*field_fault(base, name, written(owner)), node, name)
        return ANY

    def _getitem(self, node: nodes.Getitem) -> Bound:
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            base = self._base(node)
            if isinstance(base, Shape) and base.kind in ("files", "collection"):
                return (base.element or ANY).as_optional()
            return self.field(base, node.arg.value, node.arg, node.node)
        base = self.shape(node.node)
        if isinstance(node.arg, nodes.Slice):
            for bound in (node.arg.start, node.arg.stop, node.arg.step):
                self.shape(bound)
            return replace(base, optional=False) if base.kind in ("list", "string") else ANY
        self.shape(node.arg)
        if base.kind in ("object", "files", "collection") and isinstance(node.arg, nodes.Const):
            message = f"{written(node.node) or 'the value'} is {base.describe()}: its keys are texts"
            self.report("unknown-attribute", message, did_you_mean("", base.fields()), node.arg)
            return ANY
        if base.kind in ("files", "collection"):
            return (base.element or ANY).as_optional()
        if base.kinds <= SCALARS - {"string"} and base.kind != "any":
            self.report("unknown-attribute", f"{base.describe()} has no items", "use the value itself", node)
            return ANY
        return item_of(base).as_optional() if base.kind in ("list", "string") else ANY

    # --- calls

    def _call(self, node: nodes.Call) -> Bound:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            self.report("refused-feature", "`*` and `**` in a call are not known here", "write the arguments out", node)
        if isinstance(node.node, nodes.Name) and self._habit_call(node.node, node.args[0] if node.args else None):
            return self._arguments(node)
        if isinstance(node.node, nodes.Getattr):
            return self._method(node, node.node)
        callee = self.bound(node.node)
        self._arguments(node)
        if isinstance(node.node, nodes.Name) and node.node.name == "history" and self.scopes.local("history") is None:
            return self._history(node)
        return self._called(callee, node, written(node.node))

    def _arguments(self, node: nodes.Call) -> Shape:
        for argument in node.args:
            self.shape(argument)
        for keyword in node.kwargs:
            self.shape(keyword.value)
        return ANY

    def _habit_call(self, name: nodes.Name, first: nodes.Node | None) -> bool:
        known = name.name in _ALWAYS or name.name == "history" or self.scopes.local(name.name) or name.name in self.scopes.given
        if known:
            return False
        self.report(*function_fault(name.name, first, self.scopes), name)
        return True

    def _method(self, node: nodes.Call, callee: nodes.Getattr) -> Bound:
        base = self.bound(callee.node)
        self._arguments(node)
        if isinstance(base, MacroModule):
            member = self.field(base, callee.attr, callee)
            return self._called(member, node, callee.attr) if callee.attr in base.members else ANY
        self.report(*method_fault(written(callee.node) or "x", callee.attr), callee, callee.attr)
        return ANY

    def _called(self, callee: Bound, node: nodes.Call, name: str) -> Bound:
        if not isinstance(callee, Function):
            if isinstance(callee, MacroModule) and callee is LOOP:
                return TEXT
            if not any(finding.code == "unknown-name" for finding in self.findings if finding.line == place(node.lineno)[0]):
                what = f"`{name}`" if name else "the value"
                self.report("call-of-value", f"{what} is no function", "leave out the parentheses", node)
            return ANY
        if callee.parameters is not None and not callee.open_ended:
            takes = callee.parameters
            unknown = next((keyword.key for keyword in node.kwargs if keyword.key not in takes), None)
            if unknown is not None:
                self.report("wrong-arguments", f"`{name}` has no parameter `{unknown}`", did_you_mean(unknown, takes), node)
            elif len(node.args) > len(takes):
                message = f"`{name}` takes at most {len(takes)} arguments, here are {len(node.args)}"
                self.report("wrong-arguments", message, f"it takes: {', '.join(takes)}" if takes else "leave them out", node)
        return callee.gives

    def _history(self, node: nodes.Call) -> Shape:
        name = constant(node.args[0]) if len(node.args) == 1 and not node.kwargs else None
        if not isinstance(name, str):
            self.report("unknown-name", "`history` takes the name of an artifact, as a text", "write `history('name')`", node)
            return ANY
        self.histories.add(name)
        self.uses.add(NameUse("history", name, *self._word(name, node.args[0])))
        given = self.scopes.given.get(name)
        if given is None:
            self.report("unknown-name", f"there is no `{name}` here whose history could be read",
                        did_you_mean(name, self.scopes.given), node.args[0])
        return Shape.list_of(replace(given, optional=False) if isinstance(given, Shape) else ANY)

    # --- comparisons

    def _compare(self, node: nodes.Compare) -> Shape:
        left_node, left = node.expr, self.shape(node.expr)
        for operand in node.ops:
            right = self.shape(operand.expr)
            if operand.op in ("in", "notin"):
                self._membership(left_node, left, operand.expr, right)
            elif operand.op in ("eq", "ne") and isinstance(operand.expr, nodes.Const):
                self.literal(left, operand.expr.value, operand.expr)
            elif operand.op in ("eq", "ne") and isinstance(left_node, nodes.Const):
                self.literal(right, left_node.value, left_node)
            else:
                self._fault(shapes_fault(left, right, operand.op not in ("eq", "ne")), operand.expr)
            left_node, left = operand.expr, right
        return BOOLEAN

    def _fault(self, fault: tuple[str, str] | None, node: nodes.Node) -> None:
        if fault is not None:
            self.report("impossible-comparison", fault[0], fault[1], node)

    def literal(self, shape: Shape, value: Any, node: nodes.Node) -> None:
        """Reports where a value of this shape never equals what is written."""
        self._fault(literal_fault(shape, value), node)

    def _membership(self, left_node: nodes.Node, left: Shape, right_node: nodes.Node, right: Shape) -> None:
        if isinstance(right_node, nodes.List | nodes.Tuple):
            for entry in right_node.items:
                if isinstance(entry, nodes.Const):
                    self.literal(left, entry.value, entry)
        elif right.kind == "list" and isinstance(left_node, nodes.Const):
            self.literal(right.item(), left_node.value, left_node)
        elif right.kind == "object" and isinstance(left_node, nodes.Const) and isinstance(left_node.value, str):
            self.field(right, left_node.value, left_node, right_node)
        elif right.kind == "string" and left.kind != "any" and "string" not in left.kinds:
            self._fault((f"{left.describe()} is never part of a text", "compare texts with texts: `x | string`"), left_node)
        elif right.kinds <= SCALARS - {"string", "null"}:
            self._fault((f"nothing is in {right.describe()}", "`in` searches a list, a mapping or a text"), right_node)

    # --- the rest

    def _condition(self, node: nodes.CondExpr) -> Shape:
        self.shape(node.test)
        first = self.shape(node.expr1)
        return first.as_optional() if node.expr2 is None else Shape.union(first, self.shape(node.expr2))

    def _either(self, node: nodes.And | nodes.Or) -> Shape:
        left, right = self.shape(node.left), self.shape(node.right)
        if isinstance(node, nodes.Or) and isinstance(node.right, nodes.List) and not node.right.items and left.kind == "list":
            return replace(left, optional=False)                     # `x or []`
        if isinstance(node, nodes.Or):
            return Shape.union(replace(left, optional=False), right)
        return Shape.union(left, right)

    def _not(self, node: nodes.Not) -> Shape:
        self.shape(node.node)
        return BOOLEAN

    def _concat(self, node: nodes.Concat) -> Shape:
        for part in node.nodes:
            self.shape(part)
        return TEXT

    def _list(self, node: nodes.List | nodes.Tuple) -> Shape:
        found = [self.shape(entry) for entry in node.items]
        return Shape.list_of(Shape.union(*found) if found else ANY)

    def _dict(self, node: nodes.Dict) -> Shape:
        shapes = {}
        for pair in node.items:
            self.shape(pair.key)
            shapes[constant(pair.key)] = self.shape(pair.value)
        if not all(isinstance(name, str) for name in shapes):
            return Shape("object", schema={"type": "object"})
        return Shape.object_of(shapes)

    def _arithmetic(self, node: nodes.BinExpr) -> Shape:
        left, right = self.shape(node.left), self.shape(node.right)
        kinds = left.kinds | right.kinds
        if "any" in kinds:
            return ANY
        numbers = {"number", "integer"}
        if kinds <= numbers:
            return INTEGER if kinds == {"integer"} and node.operator in ("+", "-", "*", "//", "%") else NUMBER
        if node.operator == "+" and not left.kinds & right.kinds and not (left.kinds & numbers and right.kinds & numbers):
            mend = "`~` joins as text" if "string" in kinds else "calculate with numbers"
            self.report("impossible-operation", f"`+` can't take {left.describe()} and {right.describe()}", mend, node)
        if node.operator in ("+", "%") and left.kind == "string":
            return TEXT
        return Shape.union(left, right) if node.operator == "+" and left.kinds == right.kinds == {"list"} else ANY
