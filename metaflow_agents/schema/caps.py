"""Caps: those that a person writes, and those that hold for every role."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Count, Dollars, Seconds

TOOL_TURNS = 30
"""How often a role may call tools, one turn after the other, on its way to one answer; then it has to answer."""
ROLE_QUESTIONS = 8
"""How many questions a role may put to others on one branch of an activation."""
REFLECTION_QUESTIONS = 3
"""How many questions a role asks itself as it reflects."""
ANSWER_REPAIRS = 2
"""How often a role is asked to mend an answer that does not fit its artifact, before the attempt has failed."""


class Budget(Value):
    """Caps that are never overrun; a call's worst case is reserved before it is sent."""

    usd: Dollars | None = Field(None, description="US dollars; every model under the cap has to have a price")
    tokens: Count | None = Field(None, description="tokens in and out, all calls together")
    calls: Count | None = Field(None, description="model calls")
    time: Seconds | None = Field(None, description="seconds of wall time, or like `30m`")

    def over(self, given: Mapping[str, float]) -> Budget:
        """With the caps that are given, by measure, in place of its own. Other names in `given` say nothing here."""
        return self.model_copy(update={measure: value if measure in ("usd", "time") else int(value)
                                       for measure, value in given.items() if measure in Budget.model_fields})

    def at_least(self, given: Mapping[str, float]) -> Budget:
        """With caps of its own that are lower than those given raised to them."""
        return self.over({measure: max(own, value) for measure, value in given.items()
                          if (own := getattr(self, measure, None)) is not None})
