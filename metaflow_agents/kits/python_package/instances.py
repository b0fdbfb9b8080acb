"""Of which class an object is, where a file says it in so many words: made there, annotated so, or `self`."""

from __future__ import annotations

import ast
from functools import cached_property

from metaflow_agents.kits.python_package.callables import nature
from metaflow_agents.kits.python_package.module import Class
from metaflow_agents.kits.python_package.names import last_name
from metaflow_agents.kits.python_package.repository import FoundName
from metaflow_agents.kits.python_package.scopes import NameScope, ScopePlace

_NARROWS = frozenset({"isinstance", "hasattr", "getattr", "cast", "issubclass", "type", "setattr", "callable"})


class Instances:
    """Classes of the names in one file."""

    def __init__(self, place: ScopePlace) -> None:
        self._place, self._repository = place, place.repository
        self._narrowed: dict[ast.AST, frozenset[str]] = {}
        self._made_here: dict[Class, bool] = {}

    def of(self, node: ast.expr) -> Class | None:
        """The class that an expression's value is an object of (or of a class that inherits from it)."""
        if isinstance(node, ast.Call):
            return self._made(node)
        if not isinstance(node, ast.Name):
            return None
        for depth, scope in enumerate(reversed(self._place.scopes)):
            if scope.kind == "class" or node.id not in scope.names:
                continue
            found = self._named(node.id, scope, len(self._place.scopes) - depth - 1) if len(scope.names[node.id]) == 1 else None
            return None if found is None or node.id in self._narrows(scope) else found
        return None

    def _named(self, name: str, scope: NameScope, depth: int) -> Class | None:
        binding = scope.names[name][0]
        if binding.kind == "parameter":
            if binding.annotation is not None:
                return self._annotated(binding.annotation)
            return self._own(name, scope, depth)
        if binding.kind == "value" and isinstance(binding.value, ast.Call):
            return self._made(binding.value)
        return None

    def _own(self, name: str, scope: NameScope, depth: int) -> Class | None:
        """The class of `self`."""
        node, above = scope.node, self._place.scopes[depth - 1] if depth else None
        if above is None or above.kind != "class" or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        places = [*node.args.posonlyargs, *node.args.args]
        if not places or places[0].arg != name or nature(node) not in ("function", "property") or node.name in ("__new__",):
            return None
        cls = self._place.module.classes.get(above.node) if isinstance(above.node, ast.ClassDef) else None
        return cls if cls is not None and self._is_made(cls) else None

    def _is_made(self, cls: Class) -> bool:
        """Whether the repository makes objects of a class itself. One that only others inherit from has what they give it."""
        if cls not in self._made_here:
            family = (cls, *self._repository.heirs.get(cls, ()))
            self._made_here[cls] = any(one.node.name in self._repository.called for one in family) or any(
                last_name(node.func) == "cls" for node in ast.walk(cls.node) if isinstance(node, ast.Call))
        return self._made_here[cls]

    def _made(self, node: ast.Call) -> Class | None:
        found = self._place.expression(node.func)
        return found[0].cls if len(found) == 1 and found[0].means == "class" else None

    def _annotated(self, node: ast.expr) -> Class | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError):
                return None
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        found = self._repository.expression(self._place.module, node)
        return found[0].cls if len(found) == 1 and found[0].means == "class" else None

    def _narrows(self, scope: NameScope) -> frozenset[str]:
        """Names whose class the function asks for itself: of these nothing is certain."""
        if scope.node is None:
            return frozenset()
        if scope.node not in self._narrowed:
            found = set()
            for node in ast.walk(scope.node):
                if isinstance(node, ast.Call) and last_name(node.func) in _NARROWS:
                    found |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                elif isinstance(node, ast.Match):
                    found |= {one.id for one in ast.walk(node.subject) if isinstance(one, ast.Name)}
            self._narrowed[scope.node] = frozenset(found)
        return self._narrowed[scope.node]

    def lacks(self, cls: Class, name: str) -> bool:
        """Whether objects of a class surely lack an attribute: no class that inherits has it, and nobody sets it from outside."""
        family = [cls, *self._repository.heirs.get(cls, ())]
        if any(self._repository.lineage(one).has(name) for one in family):
            return False
        return name not in self._set_somewhere

    @cached_property
    def _set_somewhere(self) -> frozenset[str]:
        return self._repository.attributes_set

    def method(self, func: ast.Attribute) -> FoundName | None:
        """The method that a call on an object runs, where no heir has one of its own."""
        cls = self.of(func.value)
        if cls is None:
            return None
        member = self._repository.lineage(cls).member(func.attr)
        if member is None or len(member[1]) != 1 or member[1][0].kind != "function":
            return None
        if any(func.attr in heir.members for heir in self._repository.heirs.get(cls, ())):
            return None
        if any(func.attr in one.attributes or func.attr in one.extra for one in self._repository.lineage(cls).classes):
            return None
        owner, bound = member
        return FoundName("function", owner.module, bound[0], "object", owner)

