"""Which templates surely compile, told by their trees: to compile costs most of an analysis, and finds nothing in these."""

from __future__ import annotations

from jinja2 import nodes

_DEEPEST = 32                       # far below what Python's own parser, and its limit of 20 nested loops, would refuse
_LOOPS = 8
_PLAIN = frozenset({
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.If, nodes.For,
    nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Concat, nodes.CondExpr,
    nodes.Add, nodes.Sub, nodes.Keyword, nodes.Assign, nodes.List, nodes.Tuple, nodes.Call, nodes.Macro,
})
_SPECIAL = frozenset({"caller", "kwargs", "varargs", "loop"})       # names that mean something inside of a macro or a loop


def surely_compiles(tree: nodes.Node) -> bool:
    """Whether it is shallow and of plain parts only, in which no compiler finds fault once names and filters are known."""
    open_ends = [(tree, 0, 0)]
    while open_ends:
        node, depth, loops = open_ends.pop()
        if type(node) not in _PLAIN or depth > _DEEPEST or loops > _LOOPS:
            return False
        if getattr(node, "recursive", False) or getattr(node, "dyn_args", None) or getattr(node, "dyn_kwargs", None):
            return False
        if isinstance(node, nodes.Name) and node.ctx != "load" and node.name in _SPECIAL:
            return False
        named = [keyword.key for keyword in getattr(node, "kwargs", None) or ()]
        named += [parameter.name for parameter in node.args] if isinstance(node, nodes.Macro) else []
        if len(set(named)) < len(named):
            return False                                    # a name given twice is one of the few faults that a compiler finds
        inside = loops + isinstance(node, nodes.For)
        open_ends.extend((child, depth + 1, inside) for child in node.iter_child_nodes())
    return True
