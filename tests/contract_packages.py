"""Packages from the package index as they are installed here, and what they offer by Python's own word."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import inspect
import re
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

CANDIDATES = {  # distribution → its package
    "iniconfig": "iniconfig",
    "pluggy": "pluggy",
    "click": "click",
    "Jinja2": "jinja2",
    "h11": "h11",
    "sortedcontainers": "sortedcontainers",
    "mdurl": "mdurl",
    "markdown-it-py": "markdown_it",
    "attrs": "attr",
    "idna": "idna",
    "packaging": "packaging",
    "rich": "rich",
    "typer": "typer",
    "anyio": "anyio",
    "pathspec": "pathspec",
    "referencing": "referencing",
    "build": "build",
}


class Installed:
    """One installed package: its files as text."""

    def __init__(self, distribution: str, package: str) -> None:
        self.distribution, self.package = importlib.metadata.distribution(distribution), package
        self.root = Path(str(self.distribution.locate_file("")))

    @cached_property
    def files(self) -> dict[str, str]:
        """Path → text of its Python files, its own tests left out."""
        found = sorted((self.root / self.package).rglob("*.py"))
        return {
            path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8")
            for path in found
            if "tests" not in path.parts
        }

    @property
    def pure(self) -> bool:
        """Whether nothing of it is compiled."""
        return not any(str(file).endswith((".so", ".pyd")) for file in self.distribution.files or ())

    @property
    def dependencies(self) -> list[dict[str, str]]:
        """What its metadata declares, optional ones included, in the form of a design."""
        names = {re.match(r"[A-Za-z0-9._-]+", written)[0] for written in self.distribution.requires or ()}  # type: ignore[index]
        return [{"name": name, "why": "declared"} for name in sorted(names)]


def installed() -> list[str]:
    """The candidates that are here and pure."""
    found = []
    for distribution, package in CANDIDATES.items():
        try:
            one = Installed(distribution, package)
        except importlib.metadata.PackageNotFoundError:
            continue
        if one.pure and one.files:
            found.append(distribution)
    return found


def asked(package: Installed) -> dict[str, Any]:
    """A design of what a package offers by Python's own word: its modules are imported, and their objects looked at."""
    files = []
    for path in package.files:
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name.endswith("__main__"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = importlib.import_module(name)
            except (ImportError, AttributeError, OSError, AssertionError):
                continue  # for another system, or without what it needs
        files.append({"path": path, "purpose": "", "uses": [], "covers": [], "interface": list(_interface(module))})
    return {
        "package": package.package,
        "approach": "",
        "dependencies": package.dependencies,
        "scripts": [],
        "flows": [],
        "files": files,
    }


def _interface(module: ModuleType) -> Iterator[dict[str, Any]]:
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or not name.isidentifier():
            continue
        if inspect.isfunction(value) and value.__module__ == module.__name__ and value.__name__ == name:
            yield _entry(_head("def", name, value))
        elif inspect.isclass(value) and value.__module__ == module.__name__ and value.__name__ == name:
            yield {**_entry(f"class {name}"), "members": list(_members(value))}


def _entry(signature: str) -> dict[str, Any]:
    return {"signature": signature, "does": ""}


def _members(cls: type) -> Iterator[dict[str, Any]]:
    if dataclasses.is_dataclass(cls) and "__init__" in vars(cls):
        yield _entry(_head("def", "__init__", cls.__init__))  # type: ignore[misc]
    for name, value in vars(cls).items():
        if name.startswith("_") or not name.isidentifier():
            continue
        if isinstance(value, staticmethod):
            if inspect.isfunction(value.__func__):
                yield _entry("@staticmethod " + _head("def", name, value.__func__))
        elif isinstance(value, classmethod):
            if inspect.isfunction(value.__func__):
                yield _entry("@classmethod " + _head("def", name, value.__func__))
        elif isinstance(value, property):
            yield _entry(f"@property def {name}(self)")
        elif inspect.isfunction(value) and value.__name__ == name:
            if inspect.isfunction(inspect.unwrap(value)):
                yield _entry(_head("def", name, value))
        elif not inspect.isroutine(value):
            yield _entry(name)


def _head(word: str, name: str, function: Any) -> str:
    """`def name(a, b=..., *args)`, by Python's own word, types left out."""
    inner = inspect.unwrap(function)
    kinds = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
    # Inside of a class Python writes `_Class__name` for `__name`.
    parameters = [
        one.replace(
            name=re.sub(r"^_[A-Za-z]\w*?__(?=\w)", "__", one.name),
            annotation=inspect.Parameter.empty,
            default=one.default if one.default is one.empty else _DOTS,
        )
        for one in inspect.signature(function).parameters.values()
    ]
    return f"{'async ' if kinds else ''}{word} {name}{inspect.Signature(parameters)}"


class _Dots:
    def __repr__(self) -> str:
        return "..."


_DOTS = _Dots()
