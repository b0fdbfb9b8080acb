"""What a plan may touch, and whether what a scout says stands in the repository."""

from __future__ import annotations

from typing import Any


def places_faults(places: dict[str, Any], repo: dict[str, Any]) -> list[str]:
    """A fault for each place that is not there."""
    faults = []
    for place in places["places"]:
        text = repo.get(place["path"])
        if text is None:
            faults.append(f"there is no file `{place['path']}`")
        elif not isinstance(text, str):
            faults.append(f"`{place['path']}` is no text")
        elif place["excerpt"].strip() not in text:
            faults.append(f"the excerpt of `{place['path']}` does not stand there word for word")
    return faults


def plan_faults(plan: dict[str, Any], repo: dict[str, Any], source: str, test_folder: str, docs: str) -> list[str]:
    """A fault for each change that can't be made, or may not be made here."""
    faults, seen = [], set()
    for change in plan["changes"]:
        kind, path, new = change["kind"], change["path"], change.get("new_path")
        if (kind == "rename") != (new is not None):
            faults.append(f"`{path}`: `new_path` belongs to a rename, and only there")
        for one in (path, new):
            if one is None:
                continue
            if one in seen:
                faults.append(f"`{one}` is duplicated in the plan")
            seen.add(one)
            if not within(one, source, test_folder, docs):
                faults.append(f"`{one}` may not be changed here: put what is wanted of it under `refused`")
        if kind == "new" and path in repo:
            faults.append(f"`{path}` is there already: its change is an `edit`")
        if kind != "new" and path not in repo:
            faults.append(f"there is no file `{path}`")
        elif kind == "edit" and not isinstance(repo.get(path, ""), str):
            faults.append(f"`{path}` is no text and can't be edited")
        if new is not None and new in repo:
            faults.append(f"`{new}` is there already")
    if not plan["changes"] and not plan["refused"]:
        faults.append("the plan neither changes nor refuses anything")
    return faults


def within(path: str, *folders: str) -> bool:
    """Whether a change may touch it."""
    return path.startswith(tuple(f"{folder.strip('/')}/" for folder in folders)) or ("/" not in path and path.endswith(".md"))
