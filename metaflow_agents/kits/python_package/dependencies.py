"""Imports from outside of the package: the standard library, what the packaging declares, and nothing else."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import packages_distributions

from metaflow_agents.kits.python_package.fault import PackageFault, listed
from metaflow_agents.kits.python_package.module import PythonModule
from metaflow_agents.kits.python_package.names import asks_machine, catches_import, is_typing_test
from metaflow_agents.kits.python_package.repository import PackageRepository

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;]*)(;.*)?")
_STANDARD = sys.stdlib_module_names | {"annotationlib", "compression", "__main__"}
"""With those that came after Python 3.11: who imports them looks at the version first."""
_IRREGULAR = {
    "pyyaml": "yaml",
    "pillow": "PIL",
    "beautifulsoup4": "bs4",
    "python-dateutil": "dateutil",
    "scikit-learn": "sklearn",
    "opencv-python": "cv2",
    "pyjwt": "jwt",
    "python-dotenv": "dotenv",
    "protobuf": "google",
    "pyserial": "serial",
    "attrs": "attr",
    "typing-extensions": "typing_extensions",
    "msgpack-python": "msgpack",
    "mysqlclient": "MySQLdb",
    "psycopg2-binary": "psycopg2",
}
"""Distributions whose modules are called otherwise, for those that are not installed here."""


def normal(name: str) -> str:
    """A distribution's name in the form in which names are compared.

    Source: the packaging specifications, "Names and normalization".
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement(text: str) -> tuple[str, bool] | None:
    """(normal name, whether it holds everywhere) of a dependency as it is written; None where it is none."""
    found = _REQUIREMENT.fullmatch(text)
    return None if found is None else (normal(found[1]), not found[3])


class Environment:
    """What the sandbox's Python holds. It is this framework's own environment; tests give their own."""

    def __init__(self, modules: Mapping[str, Iterable[str]] | None = None) -> None:
        self._given = modules
        self._modules: dict[str, list[str]] | None = None

    def modules(self, distribution: str) -> list[str] | None:
        """The top-level modules that a distribution brings; None where it is not installed."""
        if self._modules is None:
            self._modules = {}
            for module, distributions in (packages_distributions() if self._given is None else self._given).items():
                for one in distributions:
                    self._modules.setdefault(normal(one), []).append(module)
        return self._modules.get(normal(distribution))


class Imports:
    """Holds what a package may import from outside."""

    def __init__(self, declared: Iterable[str], environment: Environment) -> None:
        self._declared = sorted(set(declared))
        self._allowed: set[str] = set()
        self._vague = False
        for name in self._declared:
            known = environment.modules(name)
            self._allowed |= {*(known or ()), name.replace("-", "_"), _IRREGULAR.get(name, name.replace("-", "_"))}
            # One that is not here may bring modules of any name: what is imported then can't be judged.
            self._vague = self._vague or (known is None and name not in _IRREGULAR)

    def faults(self, repository: PackageRepository, module: PythonModule) -> Iterator[PackageFault]:
        """One for each import of a module that neither Python nor a declared dependency brings."""
        for node in _executed(module.tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                [node.module] if not node.level and node.module else []
            for dotted in names:
                root = dotted.partition(".")[0]
                if root in _STANDARD or root in repository.roots or root in self._allowed:
                    continue
                why = self._why(repository, module, root, dotted)
                if why:
                    yield PackageFault(module.path, node.lineno, why)

    def _why(self, repository: PackageRepository, module: PythonModule, root: str, dotted: str) -> str | None:
        sibling = f"{module.package}.{dotted}" if module.package else dotted
        inside = [name for name in (sibling, f"{module.name.partition('.')[0]}.{dotted}")
                  if name in repository.modules and name != module.name]
        if inside:
            best = inside[0]
            return f"`import {dotted}`: there is no top-level module `{root}`; fix: name it from the package's root, `{best}`"
        if self._vague:
            return None
        known = listed(self._declared) if self._declared else "none"
        return (f"`{root}` is imported, and is neither of the standard library nor a declared dependency (declared: {known}); "
                "fix: do it with the standard library")


def _executed(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports, those inside functions too; not those for type checkers, nor those whose failure is caught."""
    ends: list[ast.AST] = [tree]
    while ends:
        node = ends.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and is_typing_test(node.test):
            ends.extend(node.orelse)
        elif isinstance(node, ast.expr) or (isinstance(node, ast.If) and asks_machine(node.test)):
            continue
        elif isinstance(node, ast.Try | ast.TryStar) and catches_import(node):
            ends.extend([*node.orelse, *node.finalbody])  # a handler's own import is the other way to do it: it is trusted too
        else:
            ends.extend(ast.iter_child_nodes(node))
