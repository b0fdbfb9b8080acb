"""One Python file, read: its tree, the names that it binds, its classes, and whether running it could bind more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from metaflow_agents.kits.python_package.names import Binding, Function, bindings, last_name

_READING = frozenset({"get", "items", "keys", "values", "copy"})
_RESPECTED = frozenset({"dataclass", "total_ordering", "runtime_checkable", "final", "unique", "abstractmethod", "deprecated",
                        "verify", "global_enum", "override", "skipUnless", "skipIf"})
"""Decorators of classes that take nothing away and add nothing that a design would name."""


@dataclass(eq=False)
class PythonModule:
    """A parsed file. `name` is its dotted name, `package` the name that relative imports start from."""

    path: str
    name: str
    package: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, walked once."""
        return list(ast.walk(self.tree))

    @cached_property
    def names(self) -> dict[str, list[Binding]]:
        """Name → every statement that binds it at the level of the module, `global` statements in functions included."""
        found: dict[str, list[Binding]] = {}
        for binding in bindings(self.tree.body):
            found.setdefault(binding.name, []).append(binding)
        for node in self.nodes:
            if isinstance(node, ast.Global):
                for name in node.names:
                    found.setdefault(name, []).append(Binding(name, "value", node.lineno, node, maybe=True))
        return found

    @cached_property
    def stars(self) -> list[Binding]:
        """Its `from … import *`."""
        return self.names.get("*", [])

    @cached_property
    def dynamic(self) -> bool:
        """Whether it may come to hold names that its text does not show."""
        if "__getattr__" in self.names:
            return True
        namespaces = 0
        for node in self.nodes:
            if isinstance(node, ast.Call) and last_name(node.func) == "exec" and len(node.args) == 1 and not node.keywords:
                return True
            if isinstance(node, ast.Attribute) and node.attr == "modules" and last_name(node.value) == "sys":
                return True
            if isinstance(node, ast.ClassDef) and any(last_name(one) == "global_enum" for one in node.decorator_list):
                return True
            namespaces += _is_namespace(node) - sum(map(_is_namespace, _read_only(node)))
        return namespaces > 0                                # a `globals()` that is more than read

    @cached_property
    def listed(self) -> list[str] | None:
        """What `__all__` lists, where that is a plain list of texts; None where there is none or it is built up."""
        found = self.names.get("__all__", [])
        if len(found) != 1 or self._grows_all or found[0].value is None:
            return None
        return texts(found[0].value)

    @cached_property
    def _grows_all(self) -> bool:
        return any(isinstance(node, ast.AugAssign) and last_name(node.target) == "__all__" for node in self.tree.body) or any(
            isinstance(node, ast.Attribute) and last_name(node.value) == "__all__" for node in self.nodes)

    @cached_property
    def lazy_annotations(self) -> bool:
        """Whether annotations are text at run time (`from __future__ import annotations`)."""
        return any(
            found.source == "__future__" and found.target == "annotations" for every in self.names.values() for found in every
        )

    @cached_property
    def classes(self) -> dict[ast.ClassDef, Class]:
        """Each class of the file, those inside others too."""
        return {node: Class(self, node) for node in self.nodes if isinstance(node, ast.ClassDef)}


def _is_namespace(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "globals"


def _read_only(node: ast.AST) -> list[ast.expr]:
    """What a node only reads names from: `**globals()`, `globals()[name]`, `name in globals()`."""
    match node:
        case ast.keyword(arg=None, value=value) | ast.Subscript(value=value, ctx=ast.Load()):
            return [value]
        case ast.Attribute(value=value, attr=attr) if attr in _READING:
            return [value]
        case ast.Compare(comparators=comparators):
            return comparators
    return []


def texts(node: ast.expr) -> list[str] | None:
    """The values of a list, tuple or set of plain texts."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return None
    values = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return values if len(values) == len(node.elts) else None


def literal(node: ast.expr | None) -> tuple[bool, Any]:
    """(whether it is a plain value, that value). `...` stands for one that is not told."""
    if node is None or (isinstance(node, ast.Constant) and node.value is ...):
        return False, None
    try:
        return True, ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False, None


@dataclass(eq=False)
class Class:
    """A class as its own body writes it; what it inherits is for the repository to say."""

    module: PythonModule
    node: ast.ClassDef
    extra: set[str] = field(default_factory=set)
    """Attributes that statements outside of the class give it."""
    given_away: bool = False
    """Whether its module hands it to a function, which may give it more."""

    @cached_property
    def members(self) -> dict[str, list[Binding]]:
        """Name → what the body binds it to."""
        found: dict[str, list[Binding]] = {}
        for binding in bindings(self.node.body):
            found.setdefault(binding.name, []).append(binding)
        return found

    @cached_property
    def methods(self) -> list[Function]:
        """The functions of the body."""
        return [one.node for every in self.members.values() for one in every
                if isinstance(one.node, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def _within(self) -> dict[Function, list[ast.AST]]:
        """Method → its nodes that set attributes, read `__dict__`, or call something."""
        return {method: [node for node in ast.walk(method) if isinstance(node, ast.AnnAssign | ast.Attribute | ast.Call)]
                for method in self.methods}

    @cached_property
    def attributes(self) -> dict[str, list[ast.expr | None]]:
        """What methods set on their object (`self.x = …`), and `__slots__`: name → annotations, where there are any."""
        found: dict[str, list[ast.expr | None]] = {}
        for name, annotation in self._set():
            found.setdefault(name, []).append(annotation)
        return found

    def _set(self) -> Iterator[tuple[str, ast.expr | None]]:
        for slots in self.members.get("__slots__", []):
            yield from ((name, None) for name in (texts(slots.value) or [] if slots.value else []))
        for method in self.methods:
            own = first_parameter(method)
            for node in self._within[method]:
                if isinstance(node, ast.AnnAssign) and _is_own(node.target, own):
                    yield node.target.attr, node.annotation          # type: ignore[union-attr]
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node, own):
                    yield node.attr, None
                elif isinstance(node, ast.Call) and last_name(node.func) in ("setattr", "__setattr__"):
                    named = next((one.value for one in node.args[:2] if isinstance(one, ast.Constant)), None)
                    if isinstance(named, str):
                        yield named, None

    @cached_property
    def dynamic(self) -> bool:
        """Whether its objects may have attributes that its text does not show."""
        if any(name in self.members for name in ("__getattr__", "__getattribute__", "__init_subclass__")):
            return True
        if any(keyword.arg != "metaclass" or last_name(keyword.value) not in ("ABCMeta", "EnumMeta", "EnumType")
               for keyword in self.node.keywords if keyword.arg not in ("total", "frozen", "slots")):
            return True
        if any(last_name(one) not in _RESPECTED for one in self.node.decorator_list):
            return True
        return any(self._opens(node, first_parameter(method)) for method in self.methods for node in self._within[method])

    @cached_property
    def own(self) -> frozenset[ast.AST]:
        """The places where a method sets an attribute of its own object."""
        return frozenset(
            node for method in self.methods for node in self._within[method] if _is_own(node, first_parameter(method))
        )

    @staticmethod
    def _opens(node: ast.AST, own: str) -> bool:
        """Whether it may give the object attributes by names that are computed."""
        if isinstance(node, ast.Attribute):
            return node.attr == "__dict__" and last_name(node.value) == own
        if not isinstance(node, ast.Call) or not node.args or last_name(node.func) not in ("setattr", "__setattr__", "vars"):
            return False
        names = [one for one in node.args[:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        return not names and (last_name(node.args[0]) == own or last_name(node.func) == "__setattr__")


def first_parameter(method: Function) -> str:
    """The name by which a method calls its object or class; empty where it takes none."""
    places = [*method.args.posonlyargs, *method.args.args]
    return places[0].arg if places else ""


def _is_own(node: ast.AST, own: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own and bool(own)
