"""What a file takes from others and how it uses it: imports, names, attributes of modules and classes, calls.

Only what is certain is told: a name that nothing binds, a call that can't bind to any definition its name may mean.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from metaflow_agents.kits.python_package.callables import constructor, nature, prevailing, signature_of
from metaflow_agents.kits.python_package.fault import Blamed, PackageFault, there_is
from metaflow_agents.kits.python_package.instances import Instances
from metaflow_agents.kits.python_package.module import PythonModule
from metaflow_agents.kits.python_package.names import asks_machine, catches_import, catches_names, is_typing_test
from metaflow_agents.kits.python_package.repository import MISSING, FoundName, PackageRepository
from metaflow_agents.kits.python_package.scopes import NameScope, ScopePlace, class_scopes, comprehension_scope, function_scope
from metaflow_agents.kits.python_package.signature import FunctionSignature, unbindable


@dataclass
class _Trust:
    """What the statements around a place take care of."""

    imports: bool = False
    names: bool = False
    typing: bool = False


class Uses:
    """Walks one file."""

    def __init__(self, repository: PackageRepository, module: PythonModule, blamed: Blamed) -> None:
        self._repository, self._module, self._blamed = repository, module, blamed
        self._place = ScopePlace(repository, module)
        self._instances = Instances(self._place)
        self._trust = _Trust()
        self._faults: list[PackageFault] = []
        self._asked_for = frozenset(_asked_for(module))

    def faults(self) -> list[PackageFault]:
        """All that can't work, in the order of the file."""
        self._statements(self._module.tree.body)
        return self._faults

    def _say(self, node: ast.AST, why: str) -> None:
        self._faults.append(PackageFault(self._module.path, getattr(node, "lineno", 0), why))

    # --- statements

    def _statements(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.ClassDef():
                self._class(node)
            case ast.If():
                self._if(node)
            case ast.Try() | ast.TryStar():
                self._try(node)
            case ast.Import():
                self._import(node)
            case ast.ImportFrom():
                self._import_from(node)
            case ast.AnnAssign():
                self._visit(node.target)
                self._visit(node.value)
                if not self._place.scopes or self._place.scopes[-1].kind == "class":
                    self._annotation(node.annotation)
            case ast.Delete():
                return
            case _ if type(node).__name__ == "TypeAlias":
                return                                   # evaluated when somebody asks, if ever
            case _:
                self._children(node)

    def _children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _visit(self, node: ast.AST | None) -> None:
        match node:
            case None:
                return
            case ast.stmt():
                self._statement(node)
            case ast.Lambda():
                self._children_of_arguments(node.args)
                self._within([function_scope(node)], lambda: self._visit(node.body))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node)
            case ast.Name(ctx=ast.Load()):
                self._name(node)
            case ast.Attribute():
                self._attribute(node)
            case ast.Call():
                self._call(node)
            case _:
                self._children(node)

    def _within(self, scopes: list[NameScope], work: Callable[[], None]) -> None:
        before = len(self._place.scopes)
        self._place.scopes += scopes
        try:
            work()
        finally:
            del self._place.scopes[before:]

    def _trusting(self, work: Callable[[], None], **more: bool) -> None:
        before = self._trust
        self._trust = _Trust(**{name: getattr(before, name) or more.get(name, False) for name in ("imports", "names", "typing")})
        try:
            work()
        finally:
            self._trust = before

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for one in node.decorator_list:
            self._visit(one)
        self._children_of_arguments(node.args)
        scope = function_scope(node)
        for argument in _arguments(node.args):
            self._annotation(argument.annotation, bool(getattr(node, "type_params", ())))
        self._annotation(node.returns, bool(getattr(node, "type_params", ())))
        self._within([scope], lambda: self._statements(node.body))

    def _children_of_arguments(self, args: ast.arguments) -> None:
        for default in (*args.defaults, *args.kw_defaults):
            self._visit(default)

    def _annotation(self, node: ast.expr | None, generic: bool = False) -> None:
        """An annotation is evaluated where its function or field is defined, unless the module keeps all of them as text."""
        if node is not None and not self._module.lazy_annotations and not generic:
            self._visit(node)

    def _class(self, node: ast.ClassDef) -> None:
        for one in node.decorator_list:
            self._visit(one)
        outer, inner = class_scopes(node)

        def heads() -> None:
            for one in (*node.bases, *(keyword.value for keyword in node.keywords)):
                self._visit(one)

        self._within([outer] if outer.names else [], heads)
        self._within([outer, inner], lambda: self._statements(node.body))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self._visit(node.generators[0].iter)

        def inside() -> None:
            for index, clause in enumerate(node.generators):
                self._visit(clause.target)
                if index:
                    self._visit(clause.iter)
                for test in clause.ifs:
                    self._visit(test)
            for part in ("key", "value", "elt"):
                self._visit(getattr(node, part, None))

        self._within([comprehension_scope(node)], inside)

    def _if(self, node: ast.If) -> None:
        self._visit(node.test)
        machine = asks_machine(node.test)
        self._trusting(lambda: self._statements(node.body), typing=is_typing_test(node.test), names=machine, imports=machine)
        self._trusting(lambda: self._statements(node.orelse), names=machine, imports=machine)

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        caught_names = catches_names(node)
        self._trusting(lambda: self._statements(node.body), imports=catches_import(node), names=caught_names)
        for handler in node.handlers:
            self._visit(handler.type)
            self._statements(handler.body)
        self._statements(node.orelse)
        self._statements(node.finalbody)

    # --- imports

    def _import(self, node: ast.Import) -> None:
        if self._trust.imports or self._trust.typing:
            return
        for alias in node.names:
            inside = alias.name.partition(".")[0] in self._repository.roots
            if inside and not self._repository.holds(alias.name) and not self._may_appear(alias.name):
                self._say(node, f"`import {alias.name}`: there is no such module in the package; "
                                f"{there_is(alias.name, self._repository.modules)}; fix: import one that is there")

    def _import_from(self, node: ast.ImportFrom) -> None:
        if self._trust.imports or self._trust.typing:
            return
        written = "." * node.level + (node.module or "")
        source = self._repository.absolute(self._module, written)
        if source is None:
            self._say(
                node,
                f"`from {written} import …` leads out of the package: this file lies in `{self._module.package or '.'}`; "
                "fix: write the module's whole name",
            )
            return
        if source.partition(".")[0] not in self._repository.roots:
            return
        target = self._repository.modules.get(source)
        if source in self._repository.unread or self._may_appear(source):
            return
        if target is None and source not in self._repository.folders:
            self._say(
                node,
                f"`from {written} import {', '.join(alias.name for alias in node.names)}`: there is no module `{source}`; "
                f"{there_is(source, self._repository.modules)}; fix: import from one that is there",
            )
            return
        for alias in node.names:
            if alias.name != "*":
                self._taken(node, written, source, alias.name)

    def _may_appear(self, dotted: str) -> bool:
        """Whether a module that no file stands for may be put there at run time, by a package that does such things."""
        if self._repository.holds(dotted):
            return False
        parts = dotted.split(".")
        above = [self._repository.modules.get(".".join(parts[:end])) for end in range(2, len(parts))]
        return any(module is not None and self._repository.is_open(module) for module in above)

    def _taken(self, node: ast.ImportFrom, written: str, source: str, name: str) -> None:
        target = self._repository.modules.get(source)
        if self._repository.holds(f"{source}.{name}") and (target is None or target.name == target.package):
            return
        if target is None:
            choices, place = (
                {one.rpartition(".")[2] for one in self._repository.modules if one.rpartition(".")[0] == source},
                source,
            )
        elif self._repository.look(target, name) != [MISSING] or self._blamed(target.path, name):
            return
        else:
            choices, place = self._repository.exports(target), target.path
        self._say(node, f"`from {written} import {name}`: `{place}` has no `{name}`; {there_is(name, choices)}; "
                        "fix: take a name that is there")

    # --- names, attributes, calls

    def _name(self, node: ast.Name) -> None:
        if self._trust.names or self._trust.typing or self._place.knows(node.id) or node.id in self._asked_for:
            return
        if self._blamed(self._module.path, node.id):
            return
        self._say(node, f"`{node.id}` is used and nowhere defined or imported in this file; "
                        f"{there_is(node.id, self._module.names)}; fix: import or define it")

    def _attribute(self, node: ast.Attribute) -> None:
        self._visit(node.value)
        if not isinstance(node.ctx, ast.Load) or self._trust.typing or self._trust.names or self._trust.imports:
            return
        bases = self._place.expression(node.value)
        missing = [self._repository.attribute(base, node.attr) == [MISSING] for base in bases]
        if bases and all(missing):
            self._absent(node, bases[-1])
            return
        cls = self._instances.of(node.value)
        if (
            cls is not None
            and self._instances.lacks(cls, node.attr)
            and not self._blamed(cls.module.path, f"{cls.node.name}.{node.attr}")
        ):
            names = self._repository.lineage(cls).names
            self._say(node, f"`{ast.unparse(node)}`: objects of `{cls.node.name}` ({cls.module.path}) have no `{node.attr}`; "
                            f"{there_is(node.attr, names)}; fix: use what the class has")

    def _absent(self, node: ast.Attribute, base: FoundName) -> None:
        if base.means == "module":
            path = base.module.path if base.module else base.dotted
            choices: Iterable[str] = self._repository.exports(base.module) if base.module else ()
            name = node.attr
        elif base.cls is not None:
            path, name = base.cls.module.path, f"{base.cls.node.name}.{node.attr}"
            choices = self._repository.lineage(base.cls).names
        else:
            return
        if not self._blamed(path, name):
            self._say(
                node,
                f"`{ast.unparse(node)}`: `{path}` has no `{name}`; {there_is(node.attr, choices)}; "
                "fix: use a name that is there",
            )

    def _call(self, node: ast.Call) -> None:
        self._visit(node.func)
        for one in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._visit(one)
        if self._trust.typing:
            return
        told = [self._refusal(node, found) for found in self._callees(node.func)]
        if told and all(told):
            signature, why, path, name = told[-1]  # type: ignore[misc]
            self._say(node, f"`{_short(node)}`: {why}; `{path}` defines `{name}{signature}`; fix: call it as it is defined")

    def _callees(self, func: ast.expr) -> list[FoundName]:
        found = self._place.expression(func)
        bound = [one.binding for one in found if one.binding is not None]
        kept = prevailing(bound)
        chosen = [one for one in found if one.binding is None or any(one.binding is other for other in kept)]
        if len(chosen) == 1 and chosen[0].means == "unknown" and isinstance(func, ast.Attribute):
            method = self._instances.method(func)
            return chosen if method is None else [method]
        return chosen

    def _refusal(self, node: ast.Call, found: FoundName) -> tuple[FunctionSignature, str, str, str] | None:
        """Why a call can't bind to one definition: its signature, the reason, its file and its name."""
        if found.module is None or found.binding is None:
            return None
        if found.means == "class" and found.cls is not None:
            lineage = self._repository.lineage(found.cls)
            signature, name = constructor(lineage), found.cls.node.name
            if any(self._blamed(one.module.path, f"{one.node.name}.__init__") for one in lineage.classes):
                return None
        elif found.means == "function":
            signature, name = self._of_function(node, found)
            if self._blamed(found.module.path, name):
                return None
        else:
            return None
        why = None if signature is None else unbindable(signature, node)
        if why is None or signature is None:
            return None
        return signature, why, found.module.path, name

    def _of_function(self, node: ast.Call, found: FoundName) -> tuple[FunctionSignature | None, str]:
        binding = found.binding
        if binding is None:
            return None, ""
        if found.cls is None:
            return signature_of(binding.node), binding.name
        name = f"{found.cls.node.name}.{binding.name}"
        through_object = found.dotted == "object"
        signature = signature_of(binding.node, member=True)
        if not through_object and signature is not None and not _is_bound_on_class(binding.node):
            signature = signature_of(binding.node)            # `Class.method(object, …)`
        return signature, name


def _asked_for(module: PythonModule) -> Iterator[str]:
    """Names of which the file asks whether they are there (`try: name` … `except NameError`): it knows they may be missing."""
    for node in module.nodes:
        if isinstance(node, ast.Try | ast.TryStar) and catches_names(node):
            yield from (one.id for statement in node.body for one in ast.walk(statement) if isinstance(one, ast.Name))


def _is_bound_on_class(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and nature(node) == "class"


def _arguments(args: ast.arguments) -> Iterator[ast.arg]:
    yield from (*args.posonlyargs, *args.args, *args.kwonlyargs)
    yield from (one for one in (args.vararg, args.kwarg) if one)


def _short(node: ast.Call) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else f"{text[:79]}…"
