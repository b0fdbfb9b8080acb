"""What opens every prompt of one activation: who a role is, what it remembers, what it works from and what it is to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from metaflow_agents.agent.conversation import Conversations
from metaflow_agents.agent.material import Material
from metaflow_agents.agent.strategies.port import Messages
from metaflow_agents.agent.tool_executor import Acting
from metaflow_agents.engine.work import Activation
from metaflow_agents.memory.window import RoleMemory, Turn


class Mind(NamedTuple):
    """Whose mind it is that works: the role, the name under which it remembers (an item may have its own), what came to mind,
    and what it was told since.
    """

    role: str
    name: str
    recalled: Sequence[Turn] = ()
    letters: Sequence[Turn] = ()


class Briefing:
    """The openings of an activation's prompts: those of the role that does it, and those of roles that think beside it.

    `asked`: what is to be done. `remembered`: what its role has in mind, `recalled` first, `letters` last. `hint`: what it is
    told before the ending of each prompt where it is stuck; other roles are not.
    """

    def __init__(self, conversations: Conversations, material: Material, memory: RoleMemory, activation: Activation, mind: Mind,
                 asked: str) -> None:
        sop = conversations.program.sop
        self._conversations, self._memory, self._sop, self._activation = conversations, memory, sop, activation
        self._name, self._asked = mind.role, asked
        role, step = sop.roles[mind.role], sop.steps[activation.key.step]
        self.system = conversations.system(mind.role, role, activation)
        self._at = len(mind.recalled)
        self.remembered = [*mind.recalled, *memory.turns(mind.name, role, activation.key.firing), *mind.letters]
        self._output_format = conversations.output_format(step, activation)
        self._works_from, self._material = material, material.text(step, activation)
        self._step = step
        self.hint = ""
        self._pictures: Sequence[Mapping[str, Any]] | None = None

    def sum_up(self, summaries: Sequence[Turn]) -> None:
        """What fell out of the window stands in its stead, after what was recalled."""
        self.remembered[self._at:self._at] = summaries

    def of(self, role: str) -> Callable[[str], Messages]:
        """What makes a role's messages: the last one ends with the text that it is given."""
        if role == self._name:
            return self._own
        other = self._sop.roles[role]
        system = self._conversations.system(role, other, self._activation)
        remembered = self._memory.turns(role, other, self._activation.key.firing)
        return lambda ending: self._conversations.opening(
            system, remembered, f"{self._material}{self._asked}{ending.strip()}\n", self._images(role))

    def _own(self, ending: str) -> Messages:
        return self._conversations.opening(
            self.system, self.remembered, f"{self._material}{self._asked}{self.hint}{ending.strip()}\n", self._images(self._name))

    def _images(self, role: str) -> Sequence[Mapping[str, Any]]:
        """The pictures that a role's prompts carry."""
        if "image" not in self._sop.roles[role].accepts:
            return ()
        if self._pictures is None:
            self._pictures = self._works_from.images(self._step, self._activation)
        return self._pictures

    def alone(self, told: str) -> Messages:
        """The messages of a question beside the task: the role, and nothing that it remembers or works from."""
        return self._conversations.opening(self.system, [], told)

    def alone_of(self, role: str, told: str) -> Messages:
        """The same of a role that may be another one."""
        if role == self._name:
            return self.alone(told)
        return self._conversations.opening(self._conversations.system(role, self._sop.roles[role], self._activation), [], told)

    def form(self, acting: Acting) -> str:
        """The form of the answer, with how files are written where the role has them."""
        writing = self._conversations.writing(acting.offered.told()) if acting.tree.patterns else ""
        return self._output_format + writing
