"""What a template puts out of the values that it names: which fields reach its reader, and which it only walks over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from jinja2 import nodes

from metaflow_agents.prompts.positions import read_expression, read_template
from metaflow_agents.prompts.running import UNREADABLE

Path = tuple[str, ...]
"""A value by its name and fields, `("plan", "changes", "path")`; items of a list, and values by key, are no part of it."""

_COUNTING = ("length", "count")
_BEYOND = (nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)


class Printed(NamedTuple):
    """The values that a template prints, or hands to an operation whose result it prints; those that its conditions ask about."""

    whole: frozenset[Path]
    asked: frozenset[Path]


@lru_cache(maxsize=1024)
def printed_paths(template: str, included: tuple[tuple[str, str], ...] = ()) -> Printed | None:
    """What a template prints of the names in its scope. A loop over a list prints nothing of it, nor does a count.

    `included`: name and text of each template that it includes, and that those include. None where what is printed can't be told:
    a template can't be read, is not there, or has parts that are rendered elsewhere.
    """
    walk = _Walk(dict(included))
    try:
        walk.template(template, {})
    except UNREADABLE:
        return None
    return Printed(frozenset(walk.whole), frozenset(walk.asked)) if walk.followed else None


@lru_cache(maxsize=1024)
def listed_paths(expression: str) -> frozenset[Path]:
    """The values whose items an expression gives: `("plan", "files")` for `plan.files | selectattr('new')`.

    Empty for a list that is written out, for the first item alone (`queue[:1]`), and for what can't be read.
    """
    try:
        return frozenset(_lists(read_expression(expression)))
    except UNREADABLE:
        return frozenset()


def _lists(node: nodes.Node | None) -> Iterator[Path]:
    if isinstance(node, nodes.Name):
        yield (node.name,)
    elif isinstance(node, nodes.Getattr):
        yield from ((*path, node.attr) for path in _lists(node.node))
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
        yield from ((*path, node.arg.value) for path in _lists(node.node))
    elif isinstance(node, nodes.Getitem | nodes.Filter):
        stop = node.arg.stop if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice) else None
        if not (isinstance(stop, nodes.Const) and stop.value in (0, 1)):
            yield from _lists(node.node)
    elif isinstance(node, nodes.Add | nodes.Or | nodes.And):
        yield from (*_lists(node.left), *_lists(node.right))
    elif isinstance(node, nodes.CondExpr):
        yield from (*_lists(node.expr1), *_lists(node.expr2))


class _Walk:
    """One walk over a template. `at` maps the names of loops and of `set` to the value that they stand for."""

    def __init__(self, templates: dict[str, str]) -> None:
        self.whole: set[Path] = set()
        self.asked: set[Path] = set()
        self.followed = True
        self._templates = templates

    def template(self, text: str, at: dict[str, Path | None]) -> None:
        """Raises what `UNREADABLE` names."""
        tree = read_template(text)
        self.followed = self.followed and next(tree.find_all(_BEYOND), None) is None
        if self.followed:
            self.body(tree.body, at)

    def _include(self, node: nodes.Include, at: dict[str, Path | None]) -> None:
        """What is included sees the names of its place. A template that includes itself is gone through once."""
        name = node.template.value if isinstance(node.template, nodes.Const) else None
        text = self._templates.pop(name, None) if isinstance(name, str) else None
        self.followed = self.followed and text is not None
        if isinstance(name, str) and text is not None:
            self.template(text, dict(at))
            self._templates[name] = text

    def body(self, statements: list[nodes.Node], at: dict[str, Path | None]) -> None:
        for node in statements:
            if isinstance(node, nodes.Output):
                for one in node.nodes:
                    self.prints(one, at)
            elif isinstance(node, nodes.For):
                inner = at | dict.fromkeys(_names(node.target), self.value(node.iter, at))
                if node.test is not None:
                    self.asks(node.test, inner)
                self.body(node.body, inner)
                self.body(node.else_, at)
            elif isinstance(node, nodes.If):
                self.asks(node.test, at)
                self.body([*node.body, *node.elif_, *node.else_], at)
            elif isinstance(node, nodes.Include):
                self._include(node, at)
            elif isinstance(node, nodes.Assign):
                at |= dict.fromkeys(_names(node.target), self.value(node.node, at))
            else:
                for child in node.iter_child_nodes():
                    self.body([child], at) if isinstance(child, nodes.Stmt) else self.prints(child, at)

    def prints(self, node: nodes.Node, at: dict[str, Path | None]) -> None:
        """An expression that is printed: what it names is, whole."""
        if isinstance(node, nodes.CondExpr):
            self.asks(node.test, at)
            for one in (node.expr1, node.expr2):
                if one is not None:
                    self.prints(one, at)
        elif (path := self.value(node, at)) is not None:
            self.whole.add(path)

    def asks(self, node: nodes.Node, at: dict[str, Path | None]) -> None:
        """A condition: what it names is asked about."""
        if not isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem | nodes.Filter):
            for one in node.iter_child_nodes():
                self.asks(one, at)
        elif (path := self.value(node, at)) is not None:
            self.asked.add(path)

    def value(self, node: nodes.Node, at: dict[str, Path | None]) -> Path | None:
        """The value that an expression gives, if it is one of the scope or a part of it. All else that it names is printed."""
        if isinstance(node, nodes.Name):
            return at[node.name] if node.name in at else (node.name,)
        if isinstance(node, nodes.Getattr):
            return _part(self.value(node.node, at), node.attr)
        if isinstance(node, nodes.Getitem):
            if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
                return _part(self.value(node.node, at), node.arg.value)
            self.prints(node.arg, at)
            return self.value(node.node, at)
        if isinstance(node, nodes.Filter) and node.node is not None:
            for argument in (*node.args, *(pair.value for pair in node.kwargs)):
                self.prints(argument, at)
            path = self.value(node.node, at)
            by = next((pair.value for pair in node.kwargs if pair.key == "attribute"), None)
            if node.name in ("map", "join") and isinstance(by, nodes.Const):
                return _part(path, str(by.value))
            return None if node.name in _COUNTING else path
        for one in node.iter_child_nodes():
            self.asks(one, at) if isinstance(node, nodes.Test | nodes.Compare | nodes.Not) else self.prints(one, at)
        return None


def _part(path: Path | None, fields: str) -> Path | None:
    return None if path is None else (*path, *fields.split("."))


def _names(target: nodes.Node) -> Iterator[str]:
    return (name.name for name in ((target,) if isinstance(target, nodes.Name) else target.find_all(nodes.Name)))
