"""What differs between two compiled SOPs, in the words of their YAML paths."""

from __future__ import annotations

from typing import Any

from metaflow_agents.schema.program import Program


def changes(before: Program, after: Program) -> tuple[str, ...]:
    """`steps.write_code.task changed`, `artifacts.notes added`, …; empty where both mean the same."""
    old = before.model_dump(mode="json", by_alias=True, exclude_unset=True)
    new = after.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return tuple([*_differences(old.pop("sop"), new.pop("sop"), (), 3), *_differences(old, new, (), 2)])


def _differences(old: Any, new: Any, path: tuple[str, ...], depth: int) -> list[str]:
    if old == new:
        return []
    if not (isinstance(old, dict) and isinstance(new, dict)) or len(path) >= depth:
        return [f"{'.'.join(path)} changed"]
    found = []
    for key in [*old, *(key for key in new if key not in old)]:
        here = ".".join((*path, key))
        if key not in new:
            found.append(f"{here} removed")
        elif key not in old:
            found.append(f"{here} added")
        else:
            found += _differences(old[key], new[key], (*path, key), depth)
    return found
