"""The sources of Python that a SOP names, for `--from`: the file, the local modules that it imports, and what these import.

Local is what lies in the SOP's folders, its own and its project's, outside of `site-packages`. Nothing is imported: files are
read, and compared by their syntax trees, so that comments and formatting change nothing. What reading can't follow is told.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from metaflow_agents.modules.finding import Located, Shadowed, as_offered, installed_spec, locate, locate_beside, locate_file
from metaflow_agents.modules.loading import loaded_text

_LARGEST = 1 << 20
_IMPORTERS = frozenset({"import_module", "__import__", "spec_from_file_location", "load_module", "exec_module",
                        "run_module", "run_path"})
_EXECUTORS = frozenset({"exec", "eval"})
_THIS_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class CodeSources:
    """Digests of files by their path from the project (or the SOP's folder), and what is not followed, each with its place."""

    files: dict[str, str] = field(default_factory=dict)
    unfollowed: tuple[str, ...] = ()


def sources_of(spec: str, folders: Sequence[Path]) -> CodeSources:
    """Of a function that a SOP names, `package.module:function` or `FILE.py:function`; nothing where it is not found."""
    where = spec.rpartition(":")[0]
    folders = [folder.resolve() for folder in folders]
    if where.endswith(".py"):
        file = locate_file(where, folders)
        if file is None:
            return CodeSources()
        file = file.resolve()
        walk = _Walk(list(dict.fromkeys([file.parent, *folders])), folders)
        walk.read(_Read("", file, own=True))
    elif all(part.isidentifier() for part in where.split(".")):
        walk = _Walk(folders, folders)
        walk.module(where, named=True)
    else:
        return CodeSources()
    walk.finish()
    return CodeSources(walk.files, tuple(walk.unfollowed))


@dataclass(frozen=True, slots=True)
class _Read:
    """A file to be read as the module `name`, "" where its path is named. `own`: its relative imports stay beside the SOP."""

    name: str
    file: Path
    own: bool

    @property
    def package(self) -> str:
        """What its relative imports begin from; empty: the folders themselves."""
        return self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]


class _Walk:
    """Files read once each. `shown_from` are the folders from which paths are told."""

    def __init__(self, folders: Sequence[Path], shown_from: Sequence[Path]) -> None:
        self._folders, self._shown_from = folders, shown_from
        self.files: dict[str, str] = {}
        self.unfollowed: dict[str, None] = {}
        self._seen: set[Path] = set()
        self._left: list[tuple[_Read, _Text]] = []

    def finish(self) -> None:
        """Follows what is left, file by file: a long chain of imports is no deep recursion."""
        while self._left:
            self._imports(*self._left.pop())

    def module(self, name: str, *, named: bool = False, beside: bool = False) -> bool:
        """Reads a module and the packages that it lies in; whether there is one. `named`: by the SOP itself, and so it counts
        where it is installed; `beside`: what is installed is not looked at.
        """
        parts = name.split(".")
        found = self._located(parts[0], beside=beside)
        if found is not None and not self._local(name, found):
            self._installed(name, named=named)
            return True
        for length in range(1, len(parts) + 1):
            found = self._located(".".join(parts[:length]), beside=beside)
            if found is not None and found.file is not None:
                self.read(_Read(".".join(parts[:length]), found.file, found.own))
        return found is not None

    def read(self, read: _Read) -> None:
        """Takes a file in, and its imports later. What is not a module of Python text counts by its bytes."""
        if read.file in self._seen:
            return
        self._seen.add(read.file)
        shown = self._shown(read.file)
        text = loaded_text(read.name, self._folders) if read.name and read.own else None
        if text is None:
            try:
                text = read.file.read_bytes()
            except OSError:
                self.unfollowed[f"{shown}: it can't be read"] = None
                return
        found = _text(text, read.file.suffix)
        self.files[shown] = found.digest
        if not found.parsed:
            self.unfollowed[f"{shown}: what it imports, since it can't be read as Python text"] = None
            return
        self._left.append((read, found))

    def _imports(self, read: _Read, text: _Text) -> None:
        shown = self._shown(read.file)
        for node, needed in text.imports:
            place = f"{shown}:{node.lineno}"
            if isinstance(node, ast.ImportFrom):
                self._imported_from(read, node, place, needed=needed)
            else:
                for alias in node.names:
                    self._imported(alias.name, place, beside=False, needed=needed)
        for line, what in text.computed:
            self.unfollowed[f"{shown}:{line}: {what}"] = None

    def _imported_from(self, read: _Read, node: ast.ImportFrom, place: str, *, needed: bool) -> None:
        name, beside = node.module or "", False
        if node.level:
            base = read.package.split(".") if read.package else []
            if node.level - 1 > len(base):
                return                          # beyond the top: the import fails when it is carried out
            base = base[:len(base) - (node.level - 1)]
            name, beside = ".".join([*base, *filter(None, [name])]), read.own
        if name:
            self._imported(name, place, beside=beside, needed=needed)
        for alias in node.names:
            if alias.name == "*":
                self._all_of(name, beside=beside)
            elif not name or self._is_local(name, beside=beside):
                self.module(".".join(filter(None, [name, alias.name])), beside=beside)      # it may be a name and no module

    def _imported(self, name: str, place: str, *, beside: bool, needed: bool) -> None:
        if self.module(name, beside=beside) or self._is_folder(name):
            return
        if not beside and installed_spec(name.partition(".")[0]) is not None:
            self._installed(name)
        elif needed:
            self.unfollowed[f"{place}: `{name}`, which is not found beside the SOP, in its project or installed"] = None

    def _all_of(self, name: str, *, beside: bool) -> None:
        """`from package import *` may import any module of the package."""
        found = self._located(name, beside=beside) if name else None
        if found is not None and found.file is not None and found.file.name == "__init__.py" and self._local(name, found):
            for inner in sorted(found.file.parent.iterdir()):
                if inner.suffix == ".py" and inner.stem != "__init__":
                    self.module(f"{name}.{inner.stem}", beside=beside)

    def _installed(self, name: str, *, named: bool = False) -> None:
        """Of what is installed counts the file that the SOP names itself, by the module's name: it lies elsewhere elsewhere.

        A module that a package offers under another name counts as it would with that name: where it lies in there is the
        package's own business, and results from before it was moved are taken over.
        """
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            return
        self.unfollowed[f"the installed package `{top}`"] = None
        found = self._located(name, beside=False) if named else None
        if found is not None and found.file is not None:
            self.files[name] = _text(as_offered(name, found.file.read_bytes()), found.file.suffix).digest

    def _located(self, name: str, *, beside: bool) -> Located | None:
        try:
            return locate_beside(name, self._folders) if beside else locate(name, self._folders)
        except Shadowed:                        # `sop check` and the run tell it
            return None

    def _is_local(self, name: str, *, beside: bool) -> bool:
        found = self._located(name, beside=beside)
        return self._local(name, found) if found is not None else self._is_folder(name)

    def _local(self, name: str, found: Located) -> bool:
        if found.own:
            return True
        if found.file is None or name.partition(".")[0] in (*sys.stdlib_module_names, _THIS_PACKAGE):
            return False
        file = found.file.resolve()             # an editable install of the project itself, say
        return not {"site-packages", "dist-packages"} & set(file.parts) and any(map(file.is_relative_to, self._folders))

    def _is_folder(self, name: str) -> bool:
        """Whether it is a folder without `__init__.py`, which has no file of its own."""
        return any((folder / Path(*name.split("."))).is_dir() for folder in self._folders)

    def _shown(self, file: Path) -> str:
        for folder in reversed(self._shown_from):
            if file.is_relative_to(folder):
                return file.relative_to(folder).as_posix()
        return str(file)


def _called(node: ast.AST) -> str:
    """`f` of `f` and of `module.f`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _shape(node: Any) -> Any:
    """A syntax tree without places, equal in all versions of Python that read it alike: what is left out is not told."""
    if isinstance(node, ast.AST):
        return type(node).__name__, [(name, _shape(value)) for name, value in ast.iter_fields(node)
                                     if value is not None and value != [] and name not in ("kind", "type_comment")]
    return [_shape(each) for each in node] if isinstance(node, list) else node


@dataclass(frozen=True, slots=True)
class _Text:
    """What one file says, wherever it lies. `imports`: each with whether it is needed: what stands in a `try` is not.
    `computed`: line, and what of it reading can't follow.
    """

    digest: str
    parsed: bool = False
    imports: tuple[tuple[ast.Import | ast.ImportFrom, bool], ...] = ()
    computed: tuple[tuple[int, str], ...] = ()


@lru_cache(maxsize=512)
def _text(text: bytes, suffix: str) -> _Text:
    """A file's digest, of its bytes where they can't be parsed, and its imports. Known once for a process with many runs."""
    try:
        tree = ast.parse(text) if suffix == ".py" and len(text) <= _LARGEST else None
        meant = text if tree is None else repr(_shape(tree)).encode()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree, meant = None, text
    digest = hashlib.sha256(meant).hexdigest()[:32]
    if tree is None:
        return _Text(digest)
    nodes = list(ast.walk(tree))
    caught = {id(inner) for node in nodes if isinstance(node, ast.Try) for one in node.body for inner in ast.walk(one)}
    imports = [(node, id(node) not in caught) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    named, computed = _dynamic(nodes)
    return _Text(digest, True, (*imports, *((node, True) for node in named)), computed)


_COMPUTED = "modules that are imported by a computed name"


def _dynamic(nodes: Sequence[ast.AST]) -> tuple[list[ast.ImportFrom], tuple[tuple[int, str], ...]]:
    """What names a module when it runs: an import where the name stands there as text, else the line and what is not followed."""
    known: set[int] = set()
    named: list[ast.ImportFrom] = []
    computed: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            if any(alias.name in _IMPORTERS and alias.asname not in (None, alias.name) for alias in node.names):
                computed.append((node.lineno, _COMPUTED))
        elif isinstance(node, ast.Call) and _called(node.func) in ("import_module", "__import__") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                known.add(id(node.func))
                level = len(first.value) - len(first.value.lstrip("."))
                named.append(ast.ImportFrom(first.value[level:] or None, [], level, lineno=node.lineno))
        elif _called(node) in _IMPORTERS and id(node) not in known and isinstance(getattr(node, "ctx", None), ast.Load):
            computed.append((getattr(node, "lineno", 0), _COMPUTED))
        elif isinstance(node, ast.Name) and node.id in _EXECUTORS and isinstance(node.ctx, ast.Load):
            computed.append((node.lineno, f"what `{node.id}` carries out"))
    return named, tuple(computed)


def merged(all_sources: Iterable[CodeSources]) -> CodeSources:
    """Several as one."""
    files: dict[str, str] = {}
    unfollowed: dict[str, None] = {}
    for one in all_sources:
        files |= one.files
        unfollowed |= dict.fromkeys(one.unfollowed)
    return CodeSources(files, tuple(unfollowed))
