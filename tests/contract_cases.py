"""Small repositories for the contract check, written as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from metaflow_agents.kits.python_package.dependencies import Environment
from metaflow_agents.kits.python_package.verification import verified

HERE = Environment({"rich": ["rich"], "yaml": ["PyYAML"], "pytest": ["pytest"]})
"""An environment that is the same on every machine."""

PYPROJECT = """
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "app"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = []
"""


def entry(signature: str, *members: str) -> dict[str, Any]:
    """An entry of an interface; its members as signatures."""
    return {"signature": signature, "does": "it", "members": [{"signature": member, "does": "it"} for member in members]}


def designed(files: Mapping[str, Sequence[str | dict[str, Any]]], **more: Any) -> dict[str, Any]:
    """A design of these files, each with the entries of its interface."""
    return {
        "package": "app",
        "approach": "",
        "data": [],
        "dependencies": [],
        "scripts": [],
        "flows": [],
        "files": [
            {
                "path": path,
                "purpose": "a purpose",
                "uses": [],
                "covers": [],
                "interface": [one if isinstance(one, dict) else entry(one) for one in entries],
            }
            for path, entries in files.items()
        ],
        **more,
    }


def told(
    files: Mapping[str, str],
    interfaces: Mapping[str, Sequence[str | dict[str, Any]]] | None = None,
    packaging: Mapping[str, str] | None = None,
    **more: Any,
) -> list[str]:
    """`path: why` of each fault of some files (their text dedented), against the interfaces of some of them."""
    source = {path: textwrap.dedent(text) for path, text in files.items()}
    design = designed(interfaces or {}, **more)
    return [f"{fault['path']}: {fault['why']}" for fault in verified(source, packaging, design, HERE)["faults"]]
