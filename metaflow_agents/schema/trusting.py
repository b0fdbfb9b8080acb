"""What a step trusts by name: `input.NAME`, `artifact.NAME`, `tool.NAME`, or a plain name.

A plain name that is an input or an artifact of the SOP means that, and never a tool: an input called `fetch` does not vouch for
web pages. `sop check` refuses a plain name that could be two things (`trusts-twice`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step

INPUT, ARTIFACT, TOOL = "input", "artifact", "tool"
NAMESPACES = (INPUT, ARTIFACT, TOOL)


def trusted_data(sop: SOP, step: Step) -> frozenset[str]:
    """The inputs and artifacts whose words a step trusts."""
    kinds: Mapping[str, Mapping[str, object]] = {INPUT: sop.inputs, ARTIFACT: sop.artifacts}
    found = set()
    for written in step.trusts:
        space, name = split(written)
        if any(name in known for kind, known in kinds.items() if space in ("", kind)):
            found.add(name)
    return frozenset(found)


def trusted_tools(sop: SOP, step: Step) -> tuple[str, ...]:
    """The names and patterns of tools, and the names of servers, whose words a step trusts."""
    named = [split(written) for written in step.trusts]
    return tuple(name for space, name in named if space == TOOL or (space == "" and name not in (sop.inputs | sop.artifacts)))


def covers(name: str, tool: str) -> bool:
    """Whether a trusted name is a tool's own, a pattern of it, or its server's."""
    return name == tool.partition(".")[0] or fnmatchcase(tool, name)


def split(written: str) -> tuple[str, str]:
    """Namespace and name; the namespace is empty for a plain name, such as `ledger.stock`."""
    space, dot, name = written.partition(".")
    return (space, name) if dot and space in NAMESPACES else ("", written)
