"""`sop test`: the `tests:` of a SOP, each run in memory, with a model that needs no endpoint."""

from __future__ import annotations

from metaflow_agents.api.sop_test.expecting import Unmet
from metaflow_agents.api.sop_test.trying import CaseVerdict, try_out

__all__ = ["CaseVerdict", "Unmet", "try_out"]
