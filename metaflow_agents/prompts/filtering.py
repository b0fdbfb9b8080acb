"""Filters and tests in expressions: whether they exist, fit what they are given, and what they give."""

from __future__ import annotations

from typing import Any, Protocol

from jinja2 import nodes

from metaflow_agents.errors import did_you_mean
from metaflow_agents.prompts.filter_shapes import ANY, BOOLEAN, SCALARS, TEXT, TEXT_WALKERS, WALKERS, filtered, item_of
from metaflow_agents.prompts.filters import FILTERS
from metaflow_agents.prompts.predicates import TESTS
from metaflow_agents.prompts.scopes import Bound
from metaflow_agents.schema.shape import Shape


class Reader(Protocol):
    """Who walks the expression that they stand in: `Inference`."""

    def shape(self, node: nodes.Node | None) -> Shape:
        """The shape of an expression that is used as a value."""
        ...

    def field(self, base: Bound, name: str, node: nodes.Node, owner: nodes.Node | None = None) -> Bound:
        """`base.name`, reported where there is certainly no such field."""
        ...

    def literal(self, shape: Shape, value: Any, node: nodes.Node) -> None:
        """Reports where a value of this shape never equals what is written."""
        ...

    def report(self, code: str, message: str, mend: str, node: nodes.Node, word: str = "") -> None:
        """A finding at a node."""
        ...


class Filtering:
    """Reads filters and tests for one walk."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def filter(self, node: nodes.Filter) -> Shape:
        """The shape that a filter gives."""
        shape = self._reader.shape(node.node) if node.node is not None else TEXT
        args = [self._reader.shape(argument) for argument in node.args]
        named: dict[str, nodes.Expr] = {str(keyword.key): keyword.value for keyword in node.kwargs}
        for value in named.values():
            self._reader.shape(value)
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            self._reader.report("refused-feature", "`*` and `**` in a filter are not known here", "write the arguments out", node)
        if node.name not in FILTERS:
            mend = "fields are read with `.`" if node.name == "attr" else did_you_mean(node.name, FILTERS)
            self._reader.report("unknown-filter", f"there is no filter `{node.name}`", mend, node)
            return ANY
        unwalked = SCALARS - {"string"} if node.name in TEXT_WALKERS else SCALARS
        if node.name in WALKERS and shape.kinds <= unwalked:
            self._reader.report("not-a-list", f"`{node.name}` takes a list, the value is {shape.describe()}",
                        "use the value itself" if shape.kind != "string" else "`| lines` or `| list` make a list of a text", node)
            return ANY
        return self._through(node, shape, args, named)

    def _through(self, node: nodes.Filter, shape: Shape, args: list[Shape], named: dict[str, nodes.Expr]) -> Shape:
        item = item_of(shape)
        if node.name == "map":
            attribute = named.get("attribute")
            if attribute is not None:
                return Shape.list_of(self._attribute(item, attribute))
            inner = constant(node.args[0]) if node.args else None
            if isinstance(inner, str) and inner not in FILTERS:
                self._reader.report("unknown-filter", f"there is no filter `{inner}`",
                            f"for a field: `map(attribute='{inner}')`; " + did_you_mean(inner, FILTERS), node.args[0])
                return Shape.list_of(ANY)
            return Shape.list_of(filtered(inner, item, args[1:]) if isinstance(inner, str) else ANY)
        if node.name in ("selectattr", "rejectattr") and node.args:
            found = self._attribute(item, node.args[0])
            self._named_test(node.args[1:], found)
        elif node.name in ("select", "reject"):
            self._named_test(node.args, item)
        elif node.name == "groupby":
            if node.args:
                self._attribute(item, node.args[0])
            return Shape.list_of(ANY)
        elif node.name in ("sort", "sum", "unique", "min", "max", "join") and "attribute" in named:
            found = self._attribute(item, named["attribute"])
            return found if node.name in ("min", "max") and found is None else filtered(node.name, shape, args)
        return filtered(node.name, shape, args)

    def _named_test(self, args: list[nodes.Expr], shape: Shape) -> None:
        name = constant(args[0]) if args else None
        if isinstance(name, str) and name not in TESTS:
            self._reader.report("unknown-test", f"there is no test `{name}`", did_you_mean(name, TESTS), args[0])
        elif name in ("==", "eq", "equalto") and len(args) > 1 and isinstance(args[1], nodes.Const):
            self._reader.literal(shape, args[1].value, args[1])

    def _attribute(self, shape: Shape, written: nodes.Expr) -> Shape:
        name = constant(written)
        if not isinstance(name, str):
            return ANY
        for part in name.split(",")[0].split("."):
            if part.isdecimal():
                shape = item_of(shape)
                continue
            found = self._reader.field(shape, part, written)
            shape = found if isinstance(found, Shape) else ANY
        return shape

    def test(self, node: nodes.Test) -> Shape:
        """The shape that a test gives, true or false."""
        shape = self._reader.shape(node.node)
        for argument in node.args or ():
            self._reader.shape(argument)
        if node.name not in TESTS:
            mend = f"write `is {node.name.lower()}`" if node.name.lower() in TESTS else did_you_mean(node.name, TESTS)
            self._reader.report("unknown-test", f"there is no test `{node.name}`", mend, node, node.name)
        elif node.name in ("eq", "equalto", "sameas") and node.args and isinstance(node.args[0], nodes.Const):
            self._reader.literal(shape, node.args[0].value, node.args[0])
        return BOOLEAN


def constant(node: nodes.Node | None) -> Any:
    """The value of a literal; None where the node is none."""
    return node.value if isinstance(node, nodes.Const) else None
