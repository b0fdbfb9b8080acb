"""How an expression was written, told from its tree."""

from __future__ import annotations

from jinja2 import nodes


def written(node: nodes.Node | None) -> str:
    """A chain of names, fields and places as it was written, for messages; empty where it is something longer."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getattr):
        owner = written(node.node)
        return f"{owner}.{node.attr}" if owner else ""
    if isinstance(node, nodes.Getitem):
        owner = written(node.node)
        place = repr(node.arg.value) if isinstance(node.arg, nodes.Const) else written(node.arg)
        return f"{owner}[{place}]" if owner and place else ""
    return ""
