"""Which actions change nothing, as the SOP says it (`effect: none`). Nothing is imported, started or asked."""

from __future__ import annotations

from metaflow_agents.errors import UsageError
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.program import Program
from metaflow_agents.tools.openapi_document import Description


def is_lookup(program: Program, action: Action) -> bool:
    """Whether the SOP gives the tool that does this action the effect `none`. A fetch is never one: URLs carry data out."""
    sop = program.sop
    source, _, tool = action.target.partition(".")
    if action.verb == "call":
        if source in sop.tool_sources:
            return sop.tools[source].effects.get(tool) == "none"
        return action.target in sop.tools and sop.tools[action.target].effect == "none"
    if action.verb == "mcp":
        return source in sop.mcp_servers and sop.mcp_servers[source].effect_of(tool) == "none"
    if action.verb != "api" or source not in sop.openapi:
        return False
    try:
        operations = Description(source, program.documents[source]).operations
    except UsageError:
        return False                                # a run refuses it, and says why
    return any(each.name == tool and each.effect_in(sop.openapi[source].effects) == "none" for each in operations)
