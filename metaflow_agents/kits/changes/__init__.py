"""A change of a repository: its patch, what it may touch, whether its tests hold, and remarks on its lines. Pure."""

from metaflow_agents.kits.changes.diffs import numbered, remark_faults
from metaflow_agents.kits.changes.patch import change_of, difference, make_patch
from metaflow_agents.kits.changes.scope import diagnosis_faults, fix_faults, guide, plan_faults, scope_faults
from metaflow_agents.kits.changes.verdict import compared

__all__ = ["change_of", "compared", "diagnosis_faults", "difference", "fix_faults", "guide", "make_patch", "numbered",
           "plan_faults", "remark_faults", "scope_faults"]
