"""What is made of a SOP alone: once for all its runs, and for all activations of a SOP that is a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from metaflow_agents.agent import strategies
from metaflow_agents.agent.conversation import Wordings
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.validation import Validator
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.steps.meanings import Meanings


@dataclass(frozen=True, slots=True)
class Compiled:
    """The order of its steps, what they mean, texts of their prompts, and artifact → the check of its data."""

    graph: SOPGraph
    meanings: Meanings
    wordings: Wordings = field(default_factory=Wordings)
    validators: dict[str, Validator] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Self:
        """Nothing is made of the SOP yet; each part is when it is first asked for."""
        return cls(SOPGraph(program.sop), Meanings(program, strategies.known()))


class Shared:
    """The compiled forms of a SOP and of those in it."""

    def __init__(self) -> None:
        self._made: dict[int, Compiled] = {}            # by identity: equal SOPs may order their steps otherwise

    def of(self, program: Program) -> Compiled:
        """That of one SOP."""
        found = self._made.get(id(program))
        if found is None:
            found = self._made[id(program)] = Compiled.of(program)      # which holds the program: no other gets its identity
        return found
