"""Mutants of a repository: one thing broken in each, and the name by which the contract check has to tell it.

Works on any `{source, packaging, design}`: a recorded company run, a hand-written repository, a package with what it offers.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.kits.python_package.declared import Declared, interfaces

Function = ast.FunctionDef | ast.AsyncFunctionDef
FOREIGN = ("requests_of_nobody", "yaml_of_nobody", "numpy_of_nobody")  # modules that no index and no machine has
ASKED = ("version_info", "hexversion", "platform", "TYPE_CHECKING")
ANY = frozenset({"Exception", "BaseException", ""})
TRANSPARENT = ("staticmethod", "classmethod", "contextmanager", "abstractmethod", "cache", "lru_cache")


@dataclass(frozen=True, eq=False)
class Mutant:
    """A repository with one fault. `thing` has to stand in a fault's words, and `path` is the file that was broken."""

    kind: str
    path: str
    thing: str
    source: Mapping[str, str]
    packaging: Mapping[str, str] | None

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.thing} ({self.path})"


@dataclass(frozen=True)
class Plan:
    """A mutant that is not made yet: making one takes a copy of a file's tree."""

    kind: str
    path: str
    thing: str
    build: Callable[[], Mutant | None]
    """None where the change would break the file in another way than was meant."""


def mutants(source: Mapping[str, str], packaging: Mapping[str, str] | None, design: Mapping[str, Any]) -> Iterator[Mutant]:
    """All mutants, in a fixed order."""
    yield from (made for plan in plans(source, packaging, design) if (made := plan.build()) is not None)


def plans(source: Mapping[str, str], packaging: Mapping[str, str] | None, design: Mapping[str, Any],
          unchecked: Collection[str] = ()) -> list[Plan]:
    """All mutants, none of them made yet; none in `unchecked` files, which the check says that it can't follow."""
    maker = _Maker(source, packaging, design, unchecked)
    found = [*maker.of_definitions(), *maker.of_files(), *maker.of_imports(), *maker.of_calls(), *maker.of_uses()]
    return [*found, *maker.of_packaging()] if packaging is not None else found


def told(mutant: Mutant, faults: list[dict[str, str]]) -> bool:
    """Whether a fault names what was broken."""
    return any(f"`{mutant.thing}" in fault["why"] or mutant.thing in fault["why"] for fault in faults)


class _Maker:
    def __init__(self, source: Mapping[str, str], packaging: Mapping[str, str] | None, design: Mapping[str, Any],
                 unchecked: Collection[str]) -> None:
        self.source, self.packaging, self.design = source, packaging, design
        self.trees = {path: ast.parse(text) for path, text in source.items() if path.endswith(".py") and path not in unchecked}
        self.open = {path: _open(tree, ANY | {"NameError"}, keeping=True) for path, tree in self.trees.items()}
        # What another file assigns to an attribute of a module may be anything.
        self.given = {
            node.attr
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "self") != "self"
        }
        self.entries = {path: entries for path, entries in interfaces(design).items() if path in self.trees}

    def _whole(self, kind: str, path: str, thing: str, source: Mapping[str, str], packaging: Mapping[str, str] | None) -> Plan:
        return Plan(kind, path, thing, lambda: Mutant(kind, path, thing, source, packaging))

    def _changed(self, kind: str, path: str, thing: str, change: Callable[[ast.Module], None]) -> Iterator[Plan]:
        def build() -> Mutant | None:
            tree = ast.parse(self.source[path])         # a tenth of the time that a copy takes
            change(tree)
            text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            try:
                compile(text, path, "exec", dont_inherit=True)
            except SyntaxError:
                return None
            return Mutant(kind, path, thing, {**self.source, path: text}, self.packaging)

        yield Plan(kind, path, thing, build)

    # --- definitions

    def of_definitions(self) -> Iterator[Plan]:
        for path, entries in self.entries.items():
            for entry in entries:
                if len(entry.names) == 1 and entry.binding.kind != "from":
                    yield from self._of_entry(path, entry)

    def _of_entry(self, path: str, entry: Declared) -> Iterator[Plan]:
        name = entry.binding.name
        at = _only(self.trees[path].body, name)
        if at is None or name in self.given or _makes_names(self.trees[path]) or not _has_value(self.trees[path].body[at]):
            return
        yield from self._gone(path, name, (), at)
        node = self.trees[path].body[at]
        if isinstance(node, Function):
            yield from self._signatures(path, name, (), at, node)
        elif isinstance(node, ast.ClassDef) and _judged(node, self.trees):
            for member in entry.members:
                inner = _only(node.body, member.binding.name)
                if inner is None or not _has_value(node.body[inner]):
                    continue
                if member.binding.name.startswith("__") and member.binding.name != "__init__":
                    continue
                whole = f"{name}.{member.binding.name}"
                if member.binding.name != "__init__" and member.binding.name not in _set_by_methods(node):
                    yield from self._gone(path, whole, (at,), inner)
                if isinstance(node.body[inner], Function):
                    yield from self._signatures(path, whole, (at,), inner, node.body[inner])

    def _gone(self, path: str, name: str, outer: tuple[int, ...], at: int) -> Iterator[Plan]:
        def rename(tree: ast.Module) -> None:
            node = _body(tree, outer)[at]
            if isinstance(node, Function | ast.ClassDef):
                node.name += "_renamed"
            else:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                target.id += "_renamed"

        def remove(tree: ast.Module) -> None:
            _body(tree, outer)[at] = ast.Pass()

        thing = name.rpartition(".")[2]
        yield from self._changed("renamed", path, thing, rename)
        yield from self._changed("removed", path, thing, remove)

    def _signatures(self, path: str, name: str, outer: tuple[int, ...], at: int, node: Function) -> Iterator[Plan]:
        if any(_name(one) not in TRANSPARENT for one in node.decorator_list):
            return
        bound = bool(outer) and not any(_name(one) == "staticmethod" for one in node.decorator_list)
        first = 1 if bound else 0

        def changed(kind: str, thing: str, change: Callable[[ast.arguments], None]) -> Iterator[Plan]:
            yield from self._changed(f"changed signature, {kind}", path, thing, lambda tree: change(_body(tree, outer)[at].args))  # type: ignore[attr-defined]

        for index in range(first, len(node.args.args)):
            arg = node.args.args[index].arg
            yield from changed("parameter dropped", arg, lambda args, i=index: _drop(args, i))  # type: ignore[misc]
            yield from changed("parameter renamed", arg, lambda args, i=index: _rename(args.args[i]))  # type: ignore[misc]
        for index, one in enumerate(node.args.kwonlyargs):
            yield from changed("parameter dropped", one.arg, lambda args, i=index: _drop_named(args, i))  # type: ignore[misc]
        if node.args.vararg and not node.args.posonlyargs:
            yield from changed("*args dropped", node.args.vararg.arg, lambda args: setattr(args, "vararg", None))
        yield from changed(
            "parameter added",
            "added_here",
            lambda args: args.kwonlyargs.append(ast.arg("added_here")) or args.kw_defaults.append(None),
        )
        if len(node.args.args) - first >= 2 and len(node.args.defaults) < len(node.args.args) - first - 1:
            arg = node.args.args[first].arg
            yield from changed("parameters reordered", arg, lambda args: _swap(args.args, first))
        if node.args.defaults:
            arg = node.args.args[len(node.args.args) - len(node.args.defaults)].arg if node.args.args else ""
            if arg:
                yield from changed("default removed", arg, lambda args: args.defaults.pop(0))
        elif len(node.args.args) > first and not node.args.vararg:
            yield from changed("by name only", node.args.args[-1].arg, _by_name)
        yield from self._changed("changed signature, async", path, node.name, lambda tree: _swap_async(_body(tree, outer), at))

    # --- files

    def of_files(self) -> Iterator[Plan]:
        for path in self.source:
            if any(file["path"] == path for file in self.design["files"]):
                rest = {other: text for other, text in self.source.items() if other != path}
                yield self._whole("missing file", path, path, rest, self.packaging)
        for path in self.trees:
            broken = {**self.source, path: "def (:\n"}
            yield self._whole("broken file", path, path, broken, self.packaging)

    # --- imports

    def of_imports(self) -> Iterator[Plan]:
        for path in self.trees:
            for number, foreign in enumerate(FOREIGN):
                statement = ast.parse(f"import {foreign}" if number == 0 else f"from {foreign}.inner import something")
                yield from self._changed(
                    "undeclared dependency", path, foreign, lambda tree, s=statement: _put_first(tree, s.body)
                )  # type: ignore[misc]
            functions = [node for node in ast.walk(self.trees[path]) if isinstance(node, Function)]
            examined = _open(self.trees[path], ANY | {"ImportError"})
            for number, function in enumerate(functions):
                for foreign in FOREIGN if function in examined else ():

                    def inside(tree: ast.Module, number: int = number, foreign: str = foreign) -> None:
                        function = [node for node in ast.walk(tree) if isinstance(node, Function)][number]
                        function.body.insert(1 if ast.get_docstring(function) else 0, ast.Import([ast.alias(foreign, "other")]))

                    yield from self._changed("undeclared dependency, inside of a function", path, foreign, inside)
        yield from self._circles()
        for path, tree in self.trees.items():
            for index, node in enumerate(tree.body):
                if isinstance(node, ast.ImportFrom) and self._is_inner(node) and not self._may_have_more(path, node):
                    yield from self._wrong_names(path, index, node)
                    yield from self._left_out(path, index, node)

    def _circles(self) -> Iterator[Plan]:
        uses = {file["path"]: file["uses"] for file in self.design["files"]}
        for path, used in uses.items():
            names = [
                name
                for entry in self.entries.get(path, ())
                if entry.binding.kind in ("function", "class")
                for name in entry.names
            ]
            for other in used:
                if not names or other not in self.trees or path.endswith("__init__.py") or (
                        _makes_names(self.trees[path]) or _makes_names(self.trees[other])):
                    continue
                dotted = path.removesuffix(".py").replace("/", ".")
                statement = ast.parse(f"from {dotted} import {names[0]}").body
                yield from self._changed("circular import", other, path, lambda tree, s=statement: _put_first(tree, s))  # type: ignore[misc]

    def _is_inner(self, node: ast.ImportFrom) -> bool:
        return bool(node.level) or (node.module or "").partition(".")[0] == self.design["package"]

    def _may_have_more(self, path: str, node: ast.ImportFrom) -> bool:
        """Whether the module that it takes from makes names when it runs."""
        folder = path.split("/")[: -node.level] if node.level else []
        parts = "/".join([*folder, *(node.module or "").split(".")]).strip("/")
        found = self.trees.get(f"{parts}.py") or self.trees.get(f"{parts}/__init__.py")
        return found is None or _makes_names(found)

    def _wrong_names(self, path: str, index: int, node: ast.ImportFrom) -> Iterator[Plan]:
        for at, alias in enumerate(node.names):
            if alias.name != "*":
                wrong = f"{alias.name}_wrong"

                def change(tree: ast.Module, at: int = at, wrong: str = wrong) -> None:
                    found = tree.body[index]
                    assert isinstance(found, ast.ImportFrom)
                    found.names[at] = ast.alias(wrong, found.names[at].asname or found.names[at].name)

                yield from self._changed("import of a name that is not there", path, wrong, change)

    def _left_out(self, path: str, index: int, node: ast.ImportFrom) -> Iterator[Plan]:
        """A name that is used, and no longer imported."""
        tree = self.trees[path]
        types = {one for annotation in _annotations(tree) for one in ast.walk(annotation)}
        names = [one for one in self.open[path] if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        loaded = set() if _makes_names(tree) else {one.id for one in names if one not in types}
        bound = Counter(name for one in ast.walk(tree) for name in _bound_by(one))
        for at, alias in enumerate(node.names):
            name = alias.asname or alias.name
            module = f"{path.removesuffix('__init__.py')}{name}.py"       # `from .module import …` binds it, too
            if name in loaded and bound[name] == 1 and module not in self.trees:

                def change(tree: ast.Module, at: int = at) -> None:
                    found = tree.body[index]
                    assert isinstance(found, ast.ImportFrom)
                    del found.names[at]
                    if not found.names:
                        tree.body[index] = ast.Pass()

                yield from self._changed("import left out", path, name, change)

    # --- calls

    def of_calls(self) -> Iterator[Plan]:
        """Calls of functions that another file declares, with an argument more or with one missing."""
        declared = {
            name: entry
            for entries in self.entries.values()
            for entry in entries
            for name in entry.names
            if entry.binding.kind == "function"
        }
        for path, tree in self.trees.items():
            own = {name for entry in self.entries.get(path, ()) for name in entry.names}
            taken = {
                alias.asname or alias.name
                for node in tree.body
                if isinstance(node, ast.ImportFrom) and self._is_inner(node)
                for alias in node.names
            }
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            for number, node in enumerate(calls):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                entry = declared.get(name) if node in self.open[path] and name in taken - own else None
                if entry is None or not _plain(entry.binding.node):
                    continue

                def more(copied: ast.Module, number: int = number) -> None:
                    call = [one for one in ast.walk(copied) if isinstance(one, ast.Call)][number]
                    call.keywords.append(ast.keyword("no_such_parameter", ast.Constant(1)))

                def many(copied: ast.Module, number: int = number) -> None:
                    call = [one for one in ast.walk(copied) if isinstance(one, ast.Call)][number]
                    call.args += [ast.Constant(1)] * 20

                yield from self._changed("call with an argument too many", path, name, more)
                if not entry.binding.node.args.vararg and not any(isinstance(one, ast.Starred) for one in node.args):
                    yield from self._changed("call with arguments too many", path, name, many)

    def of_uses(self) -> Iterator[Plan]:
        """Uses of what the files of the package promise each other, misspelt."""
        promised = {name for entries in self.entries.values() for entry in entries for name in entry.names}
        for path, tree in self.trees.items():
            if _makes_names(tree):
                continue
            types = {one for annotation in _annotations(tree) for one in ast.walk(annotation)}      # which nobody need evaluate
            for number, node in enumerate(one for one in ast.walk(tree) if isinstance(one, ast.Name)):
                if node.id in promised and isinstance(node.ctx, ast.Load) and node in self.open[path] - types:
                    wrong = f"{node.id}_wrong"

                    def change(tree: ast.Module, number: int = number, wrong: str = wrong) -> None:
                        [one for one in ast.walk(tree) if isinstance(one, ast.Name)][number].id = wrong

                    yield from self._changed("use of a name that is not there", path, wrong, change)

    # --- packaging

    def of_packaging(self) -> Iterator[Plan]:
        assert self.packaging is not None
        text = self.packaging["pyproject.toml"]
        without = {name: kept for name, kept in self.packaging.items() if name != "pyproject.toml"}
        yield self._whole("missing file", "pyproject.toml", "pyproject.toml", self.source, without)
        changes = [
            ("undeclared dependency", "dependency_of_nobody", "dependencies = []", 'dependencies = ["dependency_of_nobody>=1"]'),
            ("no such backend", "setuptools.build_metta", "setuptools.build_meta", "setuptools.build_metta"),
        ]
        for script in self.design.get("scripts", ()):
            changes.append(
                ("script of nothing", "nothing_here", script["target"], script["target"].partition(":")[0] + ":nothing_here")
            )
        for kind, thing, before, after in changes:
            if before in text:
                changed = {**self.packaging, "pyproject.toml": text.replace(before, after)}
                yield self._whole(kind, "pyproject.toml", thing.replace("_of_nobody", ""), self.source, changed)


def _open(tree: ast.AST, outlived: frozenset[str], *, keeping: bool = False) -> set[ast.AST]:
    """The nodes of which a fault shows on each machine, and is not expected on the spot.

    Left out: what an `if` on Python's version, on the system or for type checkers decides, what stands in a `try` with a handler
    of one of the kinds `outlived` (`keeping`: that does not keep the fault), and the handlers of a failed import.
    """
    found: set[ast.AST] = set()
    ends: list[ast.AST] = [tree]
    while ends:
        node = ends.pop()
        found.add(node)
        if isinstance(node, ast.If) and any(getattr(one, "attr", getattr(one, "id", "")) in ASKED for one in ast.walk(node.test)):
            continue
        if isinstance(node, ast.Try):
            ends += [*node.orelse, *node.finalbody, *(one for one in node.handlers if "ImportError" not in _kinds(one))]
            ends += [] if any(outlived & _kinds(one) and not (keeping and one.name) for one in node.handlers) else node.body
        else:
            ends += ast.iter_child_nodes(node)
    return found


def _kinds(handler: ast.ExceptHandler) -> set[str]:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {"" if one is None else _name(one) for one in types}


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        found = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(found, ast.expr):
            yield found


def _bound_by(node: ast.AST) -> list[str]:
    """The names that a node binds, wherever it stands."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        return [node.id]
    if isinstance(node, Function | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.alias):
        return [node.asname or node.name]
    return [node.arg] if isinstance(node, ast.arg) else []


def _only(body: list[ast.stmt], name: str) -> int | None:
    """Where a name is bound, if exactly one statement of the body does it, and nothing inside of others."""
    found = [index for index, node in enumerate(body) if _binds(node) == name]
    others = [node for node in body if isinstance(node, ast.If | ast.Try | ast.With | ast.For)]
    hidden = any(
        isinstance(one, ast.Name | Function | ast.ClassDef | ast.alias)
        and name
        in (
            getattr(one, "id", None) if isinstance(getattr(one, "ctx", None), ast.Store) else None,
            getattr(one, "name", None),
            getattr(one, "asname", None),
        )
        for node in others
        for one in ast.walk(node)
    )
    return found[0] if len(found) == 1 and not hidden else None


def _has_value(node: ast.stmt) -> bool:
    return not isinstance(node, ast.AnnAssign) or node.value is not None


def _makes_names(tree: ast.AST) -> bool:
    """Whether its text does not show all names that it will have: `__getattr__`, `globals()`, `sys.modules`, `import *`."""
    for node in ast.walk(tree):
        name = getattr(node, "id", None) or getattr(node, "name", None) or getattr(node, "attr", None)
        if name in ("__getattr__", "globals", "exec", "modules", "__dict__", "vars", "*"):
            return True
    return False


def _set_by_methods(node: ast.ClassDef) -> set[str]:
    """`self.x = …`, and `object.__setattr__(self, "x", …)` of what is frozen."""
    found = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call) and _name(one.func) in ("setattr", "__setattr__")]
    return found | {str(one.value) for call in calls for one in call.args[:2] if isinstance(one, ast.Constant)}


def _binds(node: ast.stmt) -> str:
    if isinstance(node, Function | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""


def _judged(node: ast.ClassDef, trees: Mapping[str, ast.Module]) -> bool:
    """Whether all that a class inherits can be seen: nothing, or `ABC`, `NamedTuple`, `Enum`, `Generic`, `Exception`."""
    known = {"ABC", "NamedTuple", "Enum", "StrEnum", "IntEnum", "Generic", "Protocol", "Exception", "ValueError", "object"}
    return (
        all(_name(base) in known for base in node.bases)
        and not node.keywords
        and not _makes_names(node)
        and all(_name(one) in ("dataclass", "total_ordering", "runtime_checkable", "final") for one in node.decorator_list)
    )


def _plain(node: ast.AST) -> bool:
    return (
        isinstance(node, Function) and node.args.kwarg is None and all(_name(one) in TRANSPARENT for one in node.decorator_list)
    )


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _body(tree: ast.Module, outer: tuple[int, ...]) -> list[ast.stmt]:
    body = tree.body
    for index in outer:
        body = body[index].body  # type: ignore[attr-defined]
    return body


def _put_first(tree: ast.Module, statements: list[ast.stmt]) -> None:
    """Behind the docstring and `from __future__`, as an import at the top stands."""
    at = 0
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            at = index + 1
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            at = index + 1
        else:
            break
    tree.body[at:at] = copy.deepcopy(statements)


def _drop(args: ast.arguments, index: int) -> None:
    from_end = len(args.args) - index
    if from_end <= len(args.defaults):
        del args.defaults[len(args.defaults) - from_end]
    del args.args[index]


def _drop_named(args: ast.arguments, index: int) -> None:
    del args.kwonlyargs[index]
    del args.kw_defaults[index]


def _rename(arg: ast.arg) -> None:
    arg.arg += "_renamed"


def _swap(places: list[ast.arg], at: int) -> None:
    places[at], places[at + 1] = places[at + 1], places[at]


def _by_name(args: ast.arguments) -> None:
    args.kwonlyargs.insert(0, args.args.pop())
    args.kw_defaults.insert(0, None)


def _swap_async(body: list[ast.stmt], at: int) -> None:
    node = body[at]
    if isinstance(node, ast.FunctionDef):
        body[at] = ast.AsyncFunctionDef(**{name: getattr(node, name) for name in node._fields})
    elif isinstance(node, ast.AsyncFunctionDef):
        body[at] = ast.FunctionDef(**{name: getattr(node, name) for name in node._fields})
