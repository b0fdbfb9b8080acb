"""What a SOP needs of whoever runs it: models for its roles, their tools, commands. Worked out once for all that ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from metaflow_agents.agent import strategies
from metaflow_agents.schema.keys import LOOK
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.strategies import Specs
from metaflow_agents.schema.strategies.workers import tools_in, workers
from metaflow_agents.sop.naming import runs_commands


class ModelUse(NamedTuple):
    """That a role may ask a model in a step, for an answer or (`embeds`) to embed memories. `model`: its name, None for the
    default. Looks at the run are made in the step that they are in the journal.
    """

    step: str
    role: str
    model: str | None
    embeds: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """What one SOP needs, without those that its steps are. `commands`: its steps that run commands; `tools`: those that its
    roles have, as they are written, in the order of the file.
    """

    sop: SOP
    models: tuple[ModelUse, ...]
    commands: tuple[str, ...]
    tools: tuple[str, ...]

    @classmethod
    def of(cls, sop: SOP) -> Self:
        """What it needs with the strategies of this process."""
        known = strategies.known()
        commands = tuple(name for name, step in sop.steps.items() if runs_commands(step, known))
        return cls(sop, tuple(_models(sop, known)), commands, tools_of(sop))

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        """Who asks for answers: a role, and the name of the model."""
        return [(use.role, use.model) for use in self.models if not use.embeds]

    @property
    def embedders(self) -> list[str]:
        """The names of the models that embed memories."""
        return list(dict.fromkeys(use.model for use in self.models if use.embeds and use.model is not None))


def _models(sop: SOP, known: Specs) -> Iterator[ModelUse]:
    at_work = [(name, role) for name, step in sop.steps.items() if step.doer == "role" for role in workers(sop, step, known)]
    for name, role in at_work:
        step, own = sop.steps[name], sop.roles[role].model
        for model in (*sop.models, own) if step.model_expression else (step.model if step.model is not None else own,):
            yield ModelUse(name, role, model)
    if sop.progress is not None and sop.progress.role in sop.roles:
        yield ModelUse(LOOK, sop.progress.role, sop.roles[sop.progress.role].model)
    for name, role in at_work:
        recall = sop.roles[role].memory.recall
        if recall is not None and recall.embedder is not None:
            yield ModelUse(name, role, recall.embedder, embeds=True)


def tools_of(sop: SOP) -> tuple[str, ...]:
    """The tools that its roles have, as they are written, in the order of the file."""
    found = dict.fromkeys(name for step in sop.steps.values() for name in tools_in(sop, step, strategies.known()))
    if "start_role" in found:           # who is started has its own
        found.update(dict.fromkeys(name for role in sop.roles.values() for name in role.tools))
    return tuple(found)
