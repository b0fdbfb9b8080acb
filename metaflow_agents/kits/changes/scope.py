"""What a change may touch: places that are there, tests that stay as they are, and nothing beside the plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from metaflow_agents.schema import paths

_TESTS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing"})
_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.(py|go|c|rs)|conftest\.py|.*[._-](test|spec)\.[cm]?[jt]sx?|.*Tests?\.java",
                        re.DOTALL)
_GUIDES = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")
_MOST_GUIDE = 12_000                # characters of all guides together

_Files = Mapping[str, str | bytes]


def is_test(path: str) -> bool:
    """Whether a file holds tests, or what tests share, by its name and its folders."""
    place = PurePosixPath(path)
    return bool(_TEST_FILE.fullmatch(place.name)) or bool(_TESTS & set(place.parts[:-1]))


def guide(repo: dict[str, str | bytes]) -> str:
    """What the repository says to those who change it: each AGENTS.md, the outermost first, or CLAUDE.md, or CONTRIBUTING.md."""
    for name in _GUIDES:
        found = sorted((path for path in repo if PurePosixPath(path).name == name), key=lambda path: (path.count("/"), path))
        texts = [f"{path}:\n\n{held.strip()}\n" for path in found if isinstance(held := repo[path], str) and held.strip()]
        if texts:
            text = "\n".join(texts)
            return text if len(text) <= _MOST_GUIDE else f"{text[:_MOST_GUIDE]}\n[cut: {len(text):,} characters in all]\n"
    return "The repository has no AGENTS.md: follow the style of the files around the change."


def diagnosis_faults(diagnosis: Mapping[str, Any], repo: _Files) -> list[str]:
    """A fault for each file that can't be changed, and for a test that could not be found by its name or is there already."""
    faults = [fault for one in diagnosis["files"] for fault in _editable(one["path"], repo)]
    faults += [f"`{one['path']}` holds tests: the defect is in what they test" for one in diagnosis["files"]
               if is_test(one["path"])]
    test = diagnosis["test_file"]
    why = paths.refusal(test)
    if why:
        faults.append(f"`test_file` {test!r} is refused: {why}")
    elif test in repo:
        faults.append(f"`test_file` `{test}` is there already: name a new file beside it")
    elif not is_test(test):
        faults.append(f"`test_file` `{test}` is not named like a test: `test_….py`, or as the tests beside it are named")
    if not diagnosis["files"]:
        faults.append("`files` names no file that has to change")
    return faults


def fix_faults(tree: _Files, repo: _Files) -> list[str]:
    """A fault for each file of tests that a fix changes: what the tests ask for decides, and they stay."""
    return [f"`{path}` holds tests, and a fix changes none: take it out of your answer" for path in sorted(tree)
            if is_test(path) and path in repo and tree[path] != repo[path]]


def plan_faults(plan: Mapping[str, Any], repo: _Files) -> list[str]:
    """A fault for each change that can't be made."""
    faults: list[str] = []
    seen: set[str] = set()
    for one in plan["changes"]:
        path, kind = one["path"], one["kind"]
        if path in seen:
            faults.append(f"`{path}` is planned twice")
        seen.add(path)
        why = paths.refusal(path)
        if why:
            faults.append(f"the path {path!r} is refused: {why}")
        elif kind == "new" and path in repo:
            faults.append(f"`{path}` is there already: its change is an `edit`")
        elif kind != "new":
            faults += _editable(path, repo) if kind == "edit" else [] if path in repo else [f"there is no file `{path}`"]
    if not plan["changes"] and not plan["refused"]:
        faults.append("the plan neither changes nor refuses anything")
    return faults


def scope_faults(tree: _Files, repo: _Files, plan: Mapping[str, Any]) -> list[str]:
    """A fault for each file that is changed and not planned."""
    planned = {one["path"] for one in plan["changes"]}
    return [f"`{path}` is not in the plan: take back what you did to it" for path in sorted(tree)
            if path not in planned and tree[path] != repo.get(path)]


def _editable(path: str, repo: _Files) -> list[str]:
    if path not in repo:
        return [f"there is no file `{path}`"]
    return [] if isinstance(repo[path], str) else [f"`{path}` is no text and can't be edited"]
