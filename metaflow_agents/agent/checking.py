"""`check:` of a step: executable feedback on what its role, or its tool, made."""

from __future__ import annotations

from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.schema.step import Step
from metaflow_agents.steps.command import Commands
from metaflow_agents.steps.function import Functions
from metaflow_agents.steps.validation import Acceptance


async def checked(step: Step, activation: Activation, work: Work, key: str, commands: Commands, functions: Functions,
                  acceptance: Acceptance) -> str | None:
    """What the step's check says against an answer, asked once under this key; None where it is content, or there is none."""
    check = step.check
    if check is None:
        return None
    if check.run is not None:
        return await commands.check(check.run, activation, work, key)
    return await functions.check(check.call or "", activation, acceptance.checked(activation, work), key)
