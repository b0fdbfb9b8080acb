"""Whether anything of a SOP is about tools, permissions or people."""

from __future__ import annotations

from metaflow_agents.schema.sop import SOP

_OF_SOP = {"policy", "secrets", "tools", "mcp_servers", "openapi"}
_OF_ROLE = {"tools", "policy"}
_OF_STEP = {"human", "tool", "tools", "trusts", "effect", "on_no_answer"}


def acts(sop: SOP) -> bool:
    """Whether any key about acting or people is written, in the SOP, a role or a step."""
    return (bool(_OF_SOP & sop.model_fields_set)
            or any(_OF_ROLE & role.model_fields_set for role in sop.roles.values())
            or any(_OF_STEP & step.model_fields_set for step in sop.steps.values()))
