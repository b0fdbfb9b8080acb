"""The prompt templates that the package owns, versioned by the comment that each begins with."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from metaflow_agents.errors import SOPNotFound, did_you_mean


@cache
def package_template(name: str) -> str:
    """The text of a template of the package: `material`, `activation`, `output_format`, `repair`, `more`, `role`, `tools`,
    `files_by_tools`, `last_turn`, `subtask`, `review`, `question`, `stuck`, `progress`, `recalled`, `importance`, `lessons`;
    those of strategies are `strategies/STRATEGY.PROMPT`.

    Raises SOPNotFound, naming those that exist.
    """
    folder, _, name = name.removesuffix(".md.j2").rpartition("/")
    place = (files("metaflow_agents.prompts") / "templates").joinpath(*folder.split("/"))
    found = {entry.name.removesuffix(".md.j2"): entry for entry in place.iterdir() if entry.name.endswith(".md.j2")}
    if name not in found:
        raise SOPNotFound(f"the package has no prompt template `{name}`; {did_you_mean(name, sorted(found))}")
    return found[name].read_text(encoding="utf-8")
