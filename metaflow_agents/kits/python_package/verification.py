"""The contract check: what was written, against what the design promised. Nothing of it is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from metaflow_agents.kits.python_package.circles import Circles
from metaflow_agents.kits.python_package.declared import interfaces
from metaflow_agents.kits.python_package.dependencies import Environment, Imports, normal
from metaflow_agents.kits.python_package.fault import PackageFault
from metaflow_agents.kits.python_package.module import PythonModule
from metaflow_agents.kits.python_package.packaging import Packaging
from metaflow_agents.kits.python_package.promised import Promised
from metaflow_agents.kits.python_package.repository import PackageRepository, module_of
from metaflow_agents.kits.python_package.uses import Uses

_OLDEST = 7                                       # the oldest minor version that `ast` can still be asked for
_LONGEST = 100_000                                # characters of a file: Python's parser holds all threads up
_DEEPEST = 120                                    # levels of a tree; no program that a person wrote has half of them


def verify(source: dict[str, str | bytes], packaging: dict[str, str | bytes] | None, design: dict[str, Any]) -> dict[str, Any]:
    """Whether the files keep what their design promises: `{ok, faults: [{path, why}], unchecked: [path]}`.

    `source` and `packaging` are path → text (or bytes where that is none), `design` is as `design.schema.yaml` has it. Each fault
    names the file that has to change: one of `source`, `pyproject.toml`, or `design` where no file can mend it and the architect
    has to. `why` says the
    line, the name, what the design says, what stands there, and the mend. `unchecked` are files that are not Python, and those
    nested too deep or too long to be followed: they are there, and that is all that is known of them. Without `packaging` (None)
    nothing is said
    of it. Faults come in the order of paths and lines.
    """
    return verified(_texts(source), None if packaging is None else _texts(packaging), design, Environment())


def _texts(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """What is no text stands for a file that is there; Python in it is told as what can't be parsed."""
    return {path: held if isinstance(held, str) else held.decode("utf-8", "replace") for path, held in files.items()}


def verified(source: Mapping[str, str], packaging: Mapping[str, str] | None, design: Mapping[str, Any],
             environment: Environment) -> dict[str, Any]:
    """As `verify`, with the environment in which the code is to run."""
    found = _Verification(source, packaging, design, environment)
    faults = sorted(set(found.faults()))
    return {"ok": not faults, "faults": [fault.as_json() for fault in faults], "unchecked": sorted(found.unchecked)}


class _Verification:
    """One check. `unchecked` grows while the faults are told."""

    def __init__(self, source: Mapping[str, str], packaging: Mapping[str, str] | None, design: Mapping[str, Any],
                 environment: Environment) -> None:
        self._source, self._design, self._environment = source, design, environment
        self._packaging = None if packaging is None else Packaging(packaging)
        self._every = {*source, *(file["path"] for file in design["files"])}
        self._told: set[tuple[str, str]] = set()
        self.unchecked = {path for path in self._every if not path.endswith(".py")}

    def faults(self) -> Iterator[PackageFault]:
        """All of them, in no order."""
        yield from self._missing()
        modules: list[PythonModule] = []
        yield from self._read(modules)
        repository = PackageRepository(modules, [path for path in self._every if path.endswith(".py")])
        yield from self._of_code(repository)
        if self._packaging is not None:
            yield from self._packaging.faults(self._design, repository, self._environment, self._blamed)

    def _blamed(self, path: str, name: str) -> bool:
        return (path, name) in self._told

    def _missing(self) -> Iterator[PackageFault]:
        for file in self._design["files"]:
            path = file["path"]
            if path not in self._source:
                names = [entry["signature"] for entry in file["interface"]]
                promised = f"; it is to define {'; '.join(f'`{name}`' for name in names)}" if names else ""
                yield PackageFault(
                    path, 0, f"`{path}` is missing; the design has it for: {file['purpose']}{promised}; fix: write it"
                )
        for path in self._source:
            twin = path.removesuffix(".py") + "/__init__.py"
            if path.endswith(".py") and twin in self._source:
                yield PackageFault(path, 0, f"`{path}` and `{twin}` are one module to Python, and only the folder is found; "
                                     "fix: keep one of them")

    def _read(self, modules: list[PythonModule]) -> Iterator[PackageFault]:
        lowest = self._packaging.lowest_python if self._packaging else None
        for path, text in self._source.items():
            if not path.endswith(".py"):
                continue
            if len(text) > _LONGEST:
                self.unchecked.add(path)
                continue
            tree = _parsed(path, text, lowest)
            if isinstance(tree, PackageFault):
                yield tree
            elif _is_deep(tree):
                self.unchecked.add(path)
            else:
                modules.append(module_of(path, tree))

    def _of_code(self, repository: PackageRepository) -> Iterator[PackageFault]:
        for path, entries in interfaces(self._design).items():
            module = repository.by_path.get(path)
            if module is None:
                continue                             # missing or broken, which is told already
            promised = Promised(repository, module, entries)
            yield from promised.faults()
            self._told |= {(path, name) for name in promised.told}
        names = {normal(one["name"]) for one in self._design.get("dependencies", ())}
        imports = Imports({*names, *(self._packaging.all_dependencies if self._packaging else ())}, self._environment)
        for module in repository.modules.values():
            yield from Uses(repository, module, self._blamed).faults()
            yield from imports.faults(repository, module)
        uses = {file["path"]: file["uses"] for file in self._design["files"]}
        yield from Circles(repository, uses).faults()


def _parsed(path: str, text: str, lowest: int | None) -> ast.Module | PackageFault:
    """The tree of a file, by the grammar of the oldest Python that the packaging admits."""
    version = None if lowest is None or lowest < _OLDEST else (3, lowest)
    try:
        return ast.parse(text, feature_version=version)
    except SyntaxError as error:
        shown = (error.text or "").strip()[:80]
        by = f" of Python 3.{lowest}" if lowest else ""
        return PackageFault(path, error.lineno or 0, f"`{path}` is no Python{by}: {error.msg}" + (f": `{shown}`" if shown else "")
                     + "; fix: write the file as valid Python")
    except (ValueError, RecursionError, MemoryError) as error:
        return PackageFault(
            path, 0, f"`{path}` can't be read as Python: {error or type(error).__name__}; fix: write the file anew"
        )


def _is_deep(tree: ast.Module) -> bool:
    """Whether it is nested deeper than this check can follow it."""
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True
