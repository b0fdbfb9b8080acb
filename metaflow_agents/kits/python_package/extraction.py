"""From files to interfaces: what a package offers, in the form in which a design declares it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from metaflow_agents.kits.python_package.callables import prevailing
from metaflow_agents.kits.python_package.declared import headline
from metaflow_agents.kits.python_package.module import Class, PythonModule, literal
from metaflow_agents.kits.python_package.names import Binding, last_name
from metaflow_agents.kits.python_package.repository import PackageRepository, module_of

_LONGEST = 60


def extract(files: Mapping[str, str], package: str) -> dict[str, Any]:
    """The design that a package's files keep: path → text in, a value as `design.schema.yaml` has it out.

    Public names of modules, public and special members of classes, and what methods set on their objects. Names that stand there
    for type checkers alone are left out. Raises SyntaxError where a file is no Python.
    """
    modules = [module_of(path, ast.parse(text)) for path, text in sorted(files.items()) if path.endswith(".py")]
    repository = PackageRepository(modules)
    return {
        "package": package, "approach": f"What the files of `{package}` offer.", "data": [], "dependencies": [], "scripts": [],
        "flows": [],
        "files": [{"path": module.path, "purpose": _told(module.tree), "uses": sorted(_uses(repository, module)), "covers": [],
                   "interface": list(_interface(module))} for module in modules],
    }


def _told(node: ast.AST) -> str:
    """The first line of a docstring."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    return (ast.get_docstring(node) or "").strip().partition("\n")[0]


def _uses(repository: PackageRepository, module: PythonModule) -> Iterator[str]:
    found = set()
    for node in module.tree.body:
        names: list[str | None] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = repository.absolute(module, "." * node.level + (node.module or ""))
            names = [source, *(f"{source}.{alias.name}" for alias in node.names)]
        found |= {repository.modules[name].path for name in names if name in repository.modules}
    yield from found - {module.path}


def _interface(module: PythonModule) -> Iterator[dict[str, Any]]:
    for name, bound in module.names.items():
        real = [one for one in prevailing(bound) if not one.typing and one.kind != "note"]
        if name.startswith("_") or name == "*" or not real or real[0].kind == "import":
            continue
        one = real[0]
        if one.kind == "from":
            if module.name == module.package and one.source != "__future__":
                renamed = f" as {one.name}" if one.name != one.target else ""
                yield {"signature": f"from {one.source} import {one.target}{renamed}", "does": "offered from here too"}
        elif one.kind == "class" and isinstance(one.node, ast.ClassDef):
            yield {"signature": headline(one.node), "does": _told(one.node), "members": list(_members(module.classes[one.node]))}
        else:
            yield {"signature": _signature(one), "does": _told(one.node)}


def _members(cls: Class) -> Iterator[dict[str, str]]:
    fields = any(last_name(one) in ("dataclass", "NamedTuple") for one in (*cls.node.decorator_list, *cls.node.bases))
    for name, bound in cls.members.items():
        real = [one for one in prevailing(bound) if not one.typing and one.kind in ("function", "value", "note", "class")]
        is_field = fields and bool(real) and real[0].annotation is not None
        if real and (
            is_field or not name.startswith("_") or (name.startswith("__") and name.endswith("__") and real[0].kind == "function")
        ):
            yield {"signature": _signature(real[0]), "does": _told(real[0].node)}
    for name in cls.attributes:
        if not name.startswith("_") and name not in cls.members:
            yield {"signature": name, "does": ""}


def _signature(binding: Binding) -> str:
    if binding.kind in ("function", "class") and isinstance(binding.node, ast.stmt):
        return headline(binding.node)
    typed = f": {ast.unparse(binding.annotation)}" if binding.annotation is not None else ""
    value = ""
    if binding.value is not None and (literal(binding.value)[0] or typed):
        text = ast.unparse(binding.value)
        whole = len(text) <= _LONGEST or last_name(binding.value) == "field"
        value = f" = {text}" if whole and "\n" not in text else " = ..." if typed else ""
    return f"{binding.name}{typed}{value}"
