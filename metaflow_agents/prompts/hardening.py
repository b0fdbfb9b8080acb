"""Rewrites a parsed template so that the bounded operations of this package stand where Jinja2 would use Python's own."""

from __future__ import annotations

import math
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.visitor import NodeTransformer

from metaflow_agents.prompts.text_filters import TEXT_FILTERS
from metaflow_agents.prompts.written import written

MAX_DEPTH = 60

REFUSED: dict[type[nodes.Node], str] = {
    nodes.ScopedEvalContextModifier: "`autoescape` is not known here; fix: escape where it is needed with `| escape`",
    nodes.EvalContextModifier: "`autoescape` is not known here; fix: escape where it is needed with `| escape`",
    nodes.MarkSafe: "markup is not known here",
}


def children(node: nodes.Node) -> list[nodes.Node]:
    """The direct children of a node."""
    return list(node.iter_child_nodes())


def size(root: nodes.Node) -> int:
    """How many nodes a tree has. Raises TemplateSyntaxError where it is nested too deeply for Python to walk it."""
    count, level = 0, [root]
    depth = 0
    while level:
        count += len(level)
        depth += 1
        if depth > MAX_DEPTH:
            raise TemplateSyntaxError(f"nested more than {MAX_DEPTH} levels deep", getattr(level[0], "lineno", 1) or 1)
        level = [child for node in level for child in node.iter_child_nodes()]
    return count


def _internal(name: str, node: Any, args: list[nodes.Expr], lineno: int) -> nodes.Filter:
    return nodes.Filter(node, name, args, [], None, None, lineno=lineno)


def _printed(node: nodes.Expr) -> nodes.Expr:
    """What stands in `{{ … }}`, beside `~` or before a filter of texts: an `if` without `else` is no text there, and what is
    missing is told by its name.
    """
    if isinstance(node, nodes.CondExpr):
        node.expr1 = _printed(node.expr1)
        node.expr2 = nodes.Const("", lineno=node.lineno) if node.expr2 is None else _printed(node.expr2)
        return node
    name = written(node)
    return _internal("$named", node, [nodes.Const(name, lineno=node.lineno)], node.lineno) if name else node


class _Hardener(NodeTransformer):
    """Bottom-up: children first, then the node itself is replaced."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        for kind, why in REFUSED.items():
            if isinstance(node, kind):
                raise TemplateSyntaxError(why, node.lineno)
        return super().visit(node, *args, **kwargs)

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        node.nodes = [_printed(part) for part in node.nodes]
        return self.generic_visit(node)

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return nodes.Const(node.data, lineno=node.lineno)          # printed like any value, so that it is counted

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        if isinstance(node.value, float) and not math.isfinite(node.value):
            raise TemplateSyntaxError("a number in it is too large: numbers are finite", node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        node.nodes = [_printed(part) for part in node.nodes]
        self.generic_visit(node)
        return _internal("$join", node.nodes[0], node.nodes[1:], node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        pairs: list[nodes.Expr] = []
        for operand in node.ops:
            pairs += [nodes.Const(operand.op, lineno=node.lineno), operand.expr]
        return _internal("$compare", node.expr, pairs, node.lineno)

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:
        self.generic_visit(node)
        if node.expr2 is None:
            node.expr2 = _internal("$missing", nodes.Const(None, lineno=node.lineno), [], node.lineno)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = [bound or nodes.Const(None, lineno=node.lineno) for bound in (node.arg.start, node.arg.stop, node.arg.step)]
        return _internal("$cut", node.node, bounds, node.lineno)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _internal("$made", node, [], node.lineno)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return node if node.ctx == "store" else _internal("$made", node, [], node.lineno)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _internal("$made", _internal("$pairs", node, [], node.lineno), [], node.lineno)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise TemplateSyntaxError("`*` and `**` in a call are not known here; fix: write the arguments out", node.lineno)
        self.generic_visit(node)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise TemplateSyntaxError("`*` and `**` in a filter are not known here; fix: write the arguments out", node.lineno)
        if node.name in TEXT_FILTERS and node.node is not None:
            node.node = _printed(node.node)
        self.generic_visit(node)
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        weight = sum(size(child) for child in [*node.body, *([node.test] if node.test else [])]) // 4
        self.generic_visit(node)
        node.iter = _internal("$each", node.iter, [nodes.Const(weight, lineno=node.lineno)], node.lineno)
        if node.recursive:                                          # loop(children) comes past `$each`
            node.body.insert(0, self._toll(weight, node.lineno))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._with_toll(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._with_toll(node)

    def visit_Block(self, node: nodes.Block) -> nodes.Node:
        return node if node.required else self._with_toll(node)

    def _with_toll(self, node: nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        weight = 1 + sum(size(child) for child in node.body) // 4
        self.generic_visit(node)
        node.body.insert(0, self._toll(weight, node.lineno))
        return node

    @staticmethod
    def _toll(weight: int, lineno: int) -> nodes.Stmt:
        """A statement that counts what a body costs each time it runs."""
        return nodes.ExprStmt(_internal("$spend", nodes.Const(weight, lineno=lineno), [], lineno), lineno=lineno)


def harden(template: nodes.Template) -> None:
    """Rewrite in place. Raises TemplateSyntaxError on what this package refuses."""
    size(template)
    for node in template.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)):
        name: Any = node.template  # type: ignore[attr-defined]
        if not (isinstance(name, nodes.Const) and isinstance(name.value, str)):
            raise TemplateSyntaxError("the name of an included template is a constant text", node.lineno)
    _Hardener().visit(template)
