"""Packages that only some SOPs need, and that the extras of this package install."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version


def missing(extra: str, wanted: Mapping[str, tuple[int, int]]) -> str:
    """What of an extra is not installed, with the fix; empty where all of it is. Nothing is imported.

    `wanted`: package → its first version that will do.
    """
    lacking = []
    for name, first in wanted.items():
        try:
            there = version(name)
        except PackageNotFoundError:
            lacking.append(f"{name} is not installed")
            continue
        if tuple(int(part) if part.isdigit() else 0 for part in there.split(".")[:2]) < first:
            lacking.append(f"{name} is {there}, and {'.'.join(map(str, first))} is needed")
    return f"{' and '.join(lacking)}: `pip install 'metaflow-agents[{extra}]'`" if lacking else ""
