"""Which binding a name means at a place inside of functions, classes and comprehensions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from metaflow_agents.kits.python_package.module import PythonModule
from metaflow_agents.kits.python_package.names import Binding, Function, bindings, comprehended, declared_global, parameters
from metaflow_agents.kits.python_package.repository import MISSING, OF_MODULES, UNKNOWN, FoundName, PackageRepository

_OF_CLASSES = frozenset({"__class__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__", "__classdict__"})


@dataclass(eq=False)
class NameScope:
    """The names of one function, class or comprehension."""

    kind: Literal["class", "function"]
    names: dict[str, list[Binding]] = field(default_factory=dict)
    outer: frozenset[str] = frozenset()
    """Names that it declares `global` or `nonlocal`."""
    node: ast.AST | None = None

    @staticmethod
    def of(
        kind: Literal["class", "function"], bound: Iterable[Binding], outer: Iterable[str] = (), node: ast.AST | None = None
    ) -> NameScope:
        """A scope with these bindings."""
        made = NameScope(kind, outer=frozenset(outer), node=node)
        for one in bound:
            if one.name not in made.outer:
                made.names.setdefault(one.name, []).append(one)
        return made


def function_scope(node: Function | ast.Lambda) -> NameScope:
    """The scope of a function's body: its parameters, and what it binds."""
    if isinstance(node, ast.Lambda):
        return NameScope.of("function", [*parameters(node), *bindings([ast.copy_location(ast.Expr(node.body), node)])], node=node)
    return NameScope.of(
        "function", [*parameters(node), *_type_parameters(node), *bindings(node.body)], declared_global(node.body), node
    )


def class_scopes(node: ast.ClassDef) -> list[NameScope]:
    """The scopes of a class's body: of its type parameters, which its methods see, and its own, which they don't."""
    return [
        NameScope.of("function", _type_parameters(node)),
        NameScope.of("class", bindings(node.body), declared_global(node.body), node),
    ]


def comprehension_scope(node: ast.AST) -> NameScope:
    """The scope of a comprehension: the targets of its loops."""
    return NameScope.of("function", comprehended(node), node=node)


def _type_parameters(node: ast.AST) -> list[Binding]:
    return [Binding(one.name, "value", one.lineno, one) for one in getattr(node, "type_params", ())]


@dataclass
class ScopePlace:
    """A module, and the scopes from its outermost function or class to the place looked from."""

    repository: PackageRepository
    module: PythonModule
    scopes: list[NameScope] = field(default_factory=list)

    def bound(self, name: str) -> list[Binding] | None:
        """The bindings of a name in the function or class that it belongs to here; None where it is the module's, or nobody's."""
        for depth, scope in enumerate(reversed(self.scopes)):
            if name in scope.outer:
                continue
            if scope.kind == "class" and depth:
                continue
            if name in scope.names:
                # A class's body runs from top to bottom: before it binds a name, that name is the module's.
                return [] if scope.kind == "class" and self._elsewhere(name) else scope.names[name]
            if scope.kind == "class" and name in _OF_CLASSES:
                return []
        return None

    def _elsewhere(self, name: str) -> bool:
        return hasattr(builtins, name) or name in self.module.names or any(name in scope.names for scope in self.scopes[:-1])

    def knows(self, name: str) -> bool:
        """Whether a name means something here, as far as can be known."""
        if self.bound(name) is not None or name in OF_MODULES or name in _OF_CLASSES or hasattr(builtins, name):
            return True
        bound = self.module.names.get(name, ())
        if bound:                                            # where its import fails, that import is the fault
            return any(one.kind != "note" and not one.typing for one in bound)
        return name == "WindowsError" or self.repository.look(self.module, name) != [MISSING]

    def means(self, name: str) -> list[FoundName]:
        """What a name may mean here."""
        found = self.bound(name)
        if found is None:
            return self.repository.look(self.module, name)
        if len(found) == 1 and found[0].kind in ("import", "from", "function", "class"):
            return self.repository.meaning(self.module, found[0])
        return [UNKNOWN]

    def expression(self, node: ast.expr) -> list[FoundName]:
        """What an expression of names and dots may mean here."""
        if isinstance(node, ast.Name):
            return self.means(node.id)
        if isinstance(node, ast.Attribute):
            return [inner for base in self.expression(node.value) for inner in self.repository.attribute(base, node.attr)]
        return [UNKNOWN]
