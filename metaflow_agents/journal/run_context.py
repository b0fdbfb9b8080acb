"""What every part of a run works on, in one value: handed to whoever needs two of them or more."""

from __future__ import annotations

from dataclasses import dataclass

from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP


@dataclass(frozen=True, slots=True)
class RunContext:
    """The SOP that runs, its bus, how the run stands, and the values that it made. A SOP that is a step has its own."""

    program: Program
    bus: Bus
    state: RunState
    values: Values

    @property
    def sop(self) -> SOP:
        """The SOP as it is written."""
        return self.program.sop
