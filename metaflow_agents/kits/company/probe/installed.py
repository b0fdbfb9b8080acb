"""The product installed as a user installs it: what it brings, what it leaves behind, and what it imports."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from metaflow_agents.kits.company.probe.findings import Findings, end_of

_CODE = {".py", ".pyc", ".pyi", ".pyx", ".pxd", ".c", ".h"}
_LEFT = {".git", "build", "dist", ".venv"}
_SCRIPTS = ("console_scripts", "gui_scripts")


class NotInstalled(Exception):
    """What pip said."""


class Installed:
    """The repository in `root`, installed into `prefix`. Raises NotInstalled."""

    def __init__(self, root: Path, source: Path, prefix: Path) -> None:
        self.root = root
        shutil.copytree(root, source, ignore=lambda folder, names: _LEFT & set(names) if Path(folder) == root else ())
        ran = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation",
                              "--no-deps", "--prefix", str(prefix), str(source)], capture_output=True, text=True,
                             errors="replace", timeout=300, check=False)
        self.site = next(prefix.glob("lib/python*/site-packages"), prefix)
        package = next(iter(importlib.metadata.distributions(path=[str(self.site)])), None)
        if ran.returncode or package is None:
            raise NotInstalled(end_of(ran.stderr) or "nothing is installed by it")
        self._package = package
        self._files = [Path(str(file)) for file in package.files or () if ".." not in Path(str(file)).parts]
        self.roots = {file.parts[0].removesuffix(".py") for file in self._files if file.suffix == ".py"}
        self.names = frozenset({one.name for one in package.entry_points if one.group in _SCRIPTS} | self.roots)

    def missing_data(self, findings: Findings) -> None:
        """Files beside the modules that the program names and that are not installed; what its own tests need is none."""
        base = self.root / "src" if (self.root / "src").is_dir() else self.root
        for folder in (base / root for root in sorted(self.roots) if (base / root).is_dir()):
            held = [path for path in sorted(folder.rglob("*")) if not _TESTS & set(path.relative_to(folder).parts)]
            code = "\n".join(path.read_text("utf-8", "replace") for path in held if path.suffix == ".py")
            for path in held:
                inner = path.relative_to(base)
                if path.is_file() and path.suffix not in _CODE and not (self.site / inner).exists() and _named(inner, code):
                    findings.fault("data_files", path.relative_to(self.root).as_posix(),
                                   "the program names it, and it is not installed: declare it as package data")

    def undeclared_imports(self, findings: Findings) -> None:
        """What is imported and is no dependency by the packaging's word, optional ones too, nor what one of these needs.

        Nobody knows here what a dependency brings along that is not installed, as an optional one: files that import it are left
        out. A plugin of pytest may import it.
        """
        declared = _needed({_normal(one) for one in _names(self._package.requires)})
        absent = {one for one in declared if not _is_there(one)}
        hosts = {"pytest", "_pytest"} if any(one.group == "pytest11" for one in self._package.entry_points) else set[str]()
        owners = importlib.metadata.packages_distributions()
        plugins = {one.module.replace(".", "/") + ".py" for one in self._package.entry_points if one.group not in _SCRIPTS}
        for file in self._files:
            if file.suffix != ".py" or "tests" in file.parts or file.as_posix() in plugins:
                continue
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, OSError):
                names = list(imported(ast.parse((self.site / file).read_text("utf-8", "replace"))))
                for line, name in () if {_normal(name) for _, name in names} & absent else names:
                    bring = {_normal(one) for one in owners.get(name, ())}
                    if name in sys.stdlib_module_names or name in self.roots or name in hosts or (
                            (bring or {_normal(name)}) & declared):
                        continue
                    findings.fault("imports", f"{file}:{line}", f"`{name}` is imported, and " + (
                        f"comes from `{min(bring)}`, which no dependency names" if bring else
                        "neither Python nor a declared dependency brings it"))


def _needed(names: set[str]) -> set[str]:
    """These distributions and all that they need: what a web framework brings along may be imported beside it."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                waiting += [_normal(one) for one in _names(importlib.metadata.requires(name))]
    return found


def _is_there(name: str) -> bool:
    try:
        return bool(importlib.metadata.distribution(name))
    except importlib.metadata.PackageNotFoundError:
        return False


def _names(requirements: list[str] | None) -> list[str]:
    return [found[1] for one in requirements or () if (found := re.match(r"\s*([\w.-]+)", one))]


def _named(inner: Path, code: str) -> bool:
    """Whether a file, or the folder within its package that holds it, is named in a program's code."""
    folder = inner.parent.name if len(inner.parts) > 2 else ""
    return inner.name in code or folder in ("templates", "static") or bool(
        folder and re.search(rf"[\"'/]{re.escape(folder)}[\"'/]", code))


_TESTS = frozenset({"test", "tests"})
_SOME_ALONE = re.compile(r"TYPE_CHECKING|platform|version|find_spec|os\.name|\bPY(PY|THON)?_?\d")
"""What a condition asks for type checkers alone, or for some machines and Pythons alone: `PY_3_14_PLUS` too."""


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, top-level module) of what is imported from outside, but for what is caught, of some machines alone, or for type
    checkers.
    """
    ends: list[ast.AST] = [tree]
    while ends:
        node = ends.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if not node.level and node.module:
                yield node.lineno, node.module.partition(".")[0]
        elif isinstance(node, ast.If) and _SOME_ALONE.search(ast.unparse(node.test)):
            ends += node.orelse if "TYPE_CHECKING" in ast.unparse(node.test) else []
        elif isinstance(node, ast.Try) and node.handlers:
            ends += node.finalbody
        else:
            ends += ast.iter_child_nodes(node)


def _normal(name: str) -> str:
    """A distribution's name as names are compared (the packaging specifications)."""
    return re.sub(r"[-_.]+", "-", name).lower()
