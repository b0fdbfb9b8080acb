"""Imports in a circle that fail: the imports of a package are followed in the order in which Python would execute them.

An import inside of a function, or for type checkers, is not executed on import and makes no circle. A circle of modules is no
fault either, as long as nobody asks a half-executed module for a name that it binds only later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from metaflow_agents.kits.python_package.declared import headline
from metaflow_agents.kits.python_package.fault import PackageFault
from metaflow_agents.kits.python_package.module import PythonModule
from metaflow_agents.kits.python_package.names import bindings, catches_import, is_typing_test
from metaflow_agents.kits.python_package.repository import PackageRepository


@dataclass(frozen=True, slots=True)
class _Event:
    """What one statement does on import: binds names, loads modules, asks a module for names."""

    line: int
    binds: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    asks: tuple[tuple[str, str], ...] = ()
    """(module, name) that must be there by now."""
    guarded: bool = False
    node: ast.stmt | None = None

    @property
    def text(self) -> str:
        """The statement in a line."""
        return "" if self.node is None else " ".join(headline(self.node).split())[:80]


@dataclass
class _Walk:
    """One import of one module from a fresh start."""

    done: set[str]
    under_way: list[tuple[str, int]] = field(default_factory=list)
    """The chain of modules that import each other right now, each with the line that it is at."""
    bound: dict[str, set[str]] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    met: bool = False
    """Whether it came upon a module that was still under way."""
    caught: int = 0
    """How many statements on the way are in a `try` that outlives a failed import."""


class Circles:
    """Follows the imports of a repository. `uses` is what each file may import, by the design: it tells who broke the order."""

    def __init__(self, repository: PackageRepository, uses: Mapping[str, Iterable[str]]) -> None:
        self._repository = repository
        self._uses = {path: set(used) for path, used in uses.items()}
        self._events: dict[str, list[_Event]] = {}
        self._found: dict[frozenset[str], PackageFault] = {}

    def faults(self) -> list[PackageFault]:
        """One for each circle that fails, whichever module is imported first."""
        safe: set[str] = set()
        roots = sorted(name for name in self._repository.modules if "." not in name)
        for name in [*roots, *sorted(self._repository.modules)]:
            if name in safe:
                continue
            walk = _Walk(set(safe))
            self._load(walk, name, 0)
            if not walk.met or name in roots:
                safe |= walk.loaded              # never part of a circle, or always imported before all else
        return sorted(self._found.values())

    def _load(self, walk: _Walk, dotted: str, line: int) -> None:
        """Import a module after its parents, as Python does."""
        if walk.under_way:
            walk.under_way[-1] = (walk.under_way[-1][0], line)
        parts = dotted.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            module = self._repository.modules.get(name)
            if name in walk.bound and name not in walk.loaded:
                walk.met = True
            elif module is not None and name not in walk.done and name not in walk.loaded:
                self._execute(walk, module)
            if end > 1:
                walk.bound.setdefault(".".join(parts[:end - 1]), set()).add(parts[end - 1])

    def _execute(self, walk: _Walk, module: PythonModule) -> None:
        walk.under_way.append((module.name, 0))
        walk.bound.setdefault(module.name, set())
        for event in self._events_of(module):
            walk.caught += event.guarded
            for dotted in event.loads:
                self._load(walk, dotted, event.line)
            for target, name in event.asks:
                self._ask(walk, module, event, target, name)
            walk.caught -= event.guarded
            walk.bound[module.name].update(event.binds)
        walk.under_way.pop()
        walk.loaded.add(module.name)

    def _ask(self, walk: _Walk, module: PythonModule, event: _Event, dotted: str, name: str) -> None:
        target, inner = self._repository.modules.get(dotted), f"{dotted}.{name}"
        complete = dotted in walk.done or dotted in walk.loaded or dotted not in walk.bound
        if target is None or complete or name in walk.bound[dotted]:
            if self._repository.holds(inner) and (target is None or name not in target.names):
                self._load(walk, inner, event.line)
        elif self._repository.holds(inner):
            self._load(walk, inner, event.line)
        elif not walk.caught and target is not module and name in target.names and not self._repository.is_open(target):
            self._tell(walk, module, event, dotted, name)

    def _tell(self, walk: _Walk, module: PythonModule, event: _Event, dotted: str, name: str) -> None:
        chain = [(one, line) for one, line in walk.under_way]
        chain[-1] = (module.name, event.line)
        start = next(index for index, (one, _) in enumerate(chain) if one == dotted)
        circle = chain[start:]
        key = frozenset(one for one, _ in circle)
        if key in self._found:
            return
        paths = [self._repository.modules[one].path for one, _ in circle]
        steps = [
            (path, line, paths[(index + 1) % len(paths)])
            for index, (path, (_, line)) in enumerate(zip(paths, circle, strict=True))
        ]
        path, line, used = next(((path, line, used) for path, line, used in steps
                                 if path in self._uses and used not in self._uses[path]), steps[-1])
        told = ", ".join(f"{one} (line {at}) imports {other}" for one, at, other in steps)
        extra = f"; the design does not let {path} use {used}" if path in self._uses and used not in self._uses[path] else ""
        self._found[key] = PackageFault(path, line, (
            f"circular import: {told}; when {module.path} asks for `{name}` (`{event.text}`, line {event.line}), "
            f"{self._repository.modules[dotted].path} has not defined it yet{extra}; "
            f"fix: import {used} inside the function that needs it, or not at all"))

    # --- what a module does on import

    def _events_of(self, module: PythonModule) -> list[_Event]:
        if module.name not in self._events:
            self._events[module.name] = list(self._of_body(module, module.tree.body, False))
        return self._events[module.name]

    def _of_body(self, module: PythonModule, body: Sequence[ast.stmt], guarded: bool) -> Iterator[_Event]:
        for node in body:
            yield from self._of_statement(module, node, guarded)

    def _of_statement(self, module: PythonModule, node: ast.stmt, guarded: bool) -> Iterator[_Event]:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from self._of_import(module, node, guarded)
            case ast.If():
                yield from self._of_if(module, node, guarded)
            case ast.Try() | ast.TryStar():
                yield from self._of_body(module, node.body, guarded or catches_import(node))
                for handler in node.handlers:
                    yield self._binding(handler.body)
                yield from self._of_body(module, node.orelse, guarded)
                yield from self._of_body(module, node.finalbody, guarded)
            case ast.With() | ast.AsyncWith() | ast.For() | ast.While():
                yield self._binding([node])
                yield from self._of_body(module, node.body, guarded)
            case ast.ClassDef():
                yield _Event(node.lineno, asks=tuple(self._asked(module, [*node.decorator_list, *node.bases])), guarded=guarded,
                             node=node)
                yield from (_Event(one.line, (), one.loads, one.asks, one.guarded, one.node)
                            for one in self._of_body(module, node.body, guarded))
                yield _Event(node.lineno, binds=(node.name,))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                parts = [*node.decorator_list, *node.args.defaults, *(one for one in node.args.kw_defaults if one)]
                yield _Event(node.lineno, (node.name,), asks=tuple(self._asked(module, parts)), guarded=guarded, node=node)
            case ast.AnnAssign():
                parts = [part for part in (node.value, None if module.lazy_annotations else node.annotation) if part is not None]
                yield _Event(node.lineno, tuple(one.name for one in bindings([node]) if one.kind == "value"),
                             asks=tuple(self._asked(module, parts)), guarded=guarded, node=node)
            case _:
                yield _Event(node.lineno, tuple(one.name for one in bindings([node])), asks=tuple(self._asked(module, [node])),
                             guarded=guarded, node=node)

    @staticmethod
    def _binding(body: Sequence[ast.stmt]) -> _Event:
        return _Event(0, tuple(one.name for one in bindings(body)))

    def _of_if(self, module: PythonModule, node: ast.If, guarded: bool) -> Iterator[_Event]:
        """Only branches that are sure to be taken are followed; what the others bind is taken to be there."""
        inverted = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not) and is_typing_test(node.test.operand)
        if is_typing_test(node.test):
            yield from self._of_body(module, node.orelse, guarded)
        elif inverted:
            yield from self._of_body(module, node.body, guarded)
        else:
            yield self._binding([*node.body, *node.orelse])

    def _of_import(self, module: PythonModule, node: ast.Import | ast.ImportFrom, guarded: bool) -> Iterator[_Event]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in self._repository.roots:
                    yield _Event(node.lineno, (), (alias.name,), guarded=guarded, node=node)
                yield _Event(node.lineno, (alias.asname or alias.name.partition(".")[0],))
            return
        source = self._repository.absolute(module, "." * node.level + (node.module or ""))
        if source is None or source.partition(".")[0] not in self._repository.roots:
            yield _Event(node.lineno, tuple(alias.asname or alias.name for alias in node.names))
            return
        for alias in node.names:
            if alias.name == "*":
                target = self._repository.modules.get(source)
                names = self._repository.exports(target) if target else set()
                used = names & {one.id for one in module.nodes if isinstance(one, ast.Name)} - set(module.names)
                yield _Event(node.lineno, tuple(names), (source,), tuple((source, name) for name in sorted(used)), guarded, node)
            else:
                yield _Event(node.lineno, (alias.asname or alias.name,), (source,), ((source, alias.name),), guarded, node)

    def _asked(self, module: PythonModule, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
        """`store.Base` in what is executed on import, where `store` is a module of the repository."""
        ends: list[ast.AST] = list(nodes)
        while ends:
            node = ends.pop()
            if isinstance(node, ast.Lambda | ast.GeneratorExp):
                continue
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                for found in self._repository.expression(module, node.value):
                    if found.means == "module" and found.module is not None:
                        yield found.module.name, node.attr
            ends.extend(ast.iter_child_nodes(node))
