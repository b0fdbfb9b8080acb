"""What a product declares that it needs (`pyproject.toml`, PEP 621), against the lock that its commands run with. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from metaflow_agents.packages.lock import Lock
from metaflow_agents.packages.pyproject import PYPROJECT, read_toml
from metaflow_agents.policy.subjects import canonical

_MOST = 10


def outside(tree: Mapping[str, bytes], lock: Lock) -> str:
    """Which of `[project] dependencies` the lock lacks or has in another version, each by name; empty where there is none.

    A `pyproject.toml` that can't be read declares nothing: pytest, which reads it too, tells what is wrong with it.
    """
    if PYPROJECT not in tree:
        return ""
    try:
        project = read_toml(tree[PYPROJECT].decode("utf-8", "replace")).get("project")
    except ValueError:
        return ""
    listed = project.get("dependencies") if isinstance(project, dict) else None
    has = {one.name: one.version for one in lock.packages}
    texts = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    problems = [f"`{text[:100]}` {why}" for text in texts if (why := _why(text, has))]
    if not problems:
        return ""
    return (f"{PYPROJECT}: [project] dependencies: {'; '.join(problems[:_MOST])}; the lock has {', '.join(has) or 'no package'}: "
            "depend on these alone, or let the step that makes the lock ask for what is missing")


def _why(text: str, has: Mapping[str, str]) -> str:
    try:
        needed = Requirement(text)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            return ""
    except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
        return "is no requirement"
    version = has.get(canonical(needed.name))
    if version is None:
        return "is not in the lock"
    return "" if needed.specifier.contains(version, prereleases=True) else f"does not fit {version} of the lock"
