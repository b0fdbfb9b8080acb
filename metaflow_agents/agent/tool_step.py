"""`tool:` steps: a tool is called without a model, under the policy, in the journal and with the labels of a role's own calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from metaflow_agents.agent.checking import checked
from metaflow_agents.agent.tool_executor import Acting
from metaflow_agents.agent.toolset import Equipment
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.journal.state import RunState
from metaflow_agents.models.port import ToolCall
from metaflow_agents.prompts import MISSING, evaluate
from metaflow_agents.schema.binary import content
from metaflow_agents.schema.keys import CHECKED
from metaflow_agents.schema.payload import Data
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.trust import joined
from metaflow_agents.steps.command import Commands
from metaflow_agents.steps.function import Functions, plain
from metaflow_agents.steps.labelled import labelled
from metaflow_agents.steps.validation import Acceptance
from metaflow_agents.texts.strict_json import NotJSON, read
from metaflow_agents.tools.port import ToolResult

StandIn = Callable[[Step, Activation], Work]


class ToolSteps:
    """Does the work of `tool:` steps."""

    def __init__(self, sop: SOP, state: RunState, equipment: Equipment, acceptance: Acceptance, commands: Commands,
                 functions: Functions) -> None:
        self._sop, self._state, self._equipment, self._acceptance = sop, state, equipment, acceptance
        self._commands, self._functions = commands, functions

    async def work(self, activation: Activation, stand_in: StandIn) -> Work:
        """What the tool gave, as the artifact. `stand_in` makes it where nothing is done (`--dry-tools`).

        Raises AttemptFailed where the call went wrong, is denied or not allowed by a person; AnswerInvalid; Waiting.
        """
        step = self._sop.steps[activation.key.step]
        call = ToolCall("0", step.tool or "", self._arguments(step, activation))
        check = None if step.check is None else step.check.call
        heard = "" if check is None else self._functions.hears(check, activation)
        acting = await self._equipment.alone(activation)
        acting.gives = None if step.parse is None else self._acceptance.gives(activation)
        with labelled(lambda: joined(acting.untrusted, heard)):
            async with acting:
                key = self._key(activation, call, acting)
                result, = await acting.results(key.removesuffix("/tool.0"), [call])
                done = self._slot(activation)[key].done
                if done is not None and done.staged:
                    return stand_in(step, activation)
                work = self._taken(step, activation, result, acting)
                told = await checked(step, activation, work, f"{activation.key}{CHECKED}0", self._commands, self._functions,
                                     self._acceptance)
                if told is not None:
                    raise AttemptFailed(f"its check fails: {told}")
        return replace(work, untrusted=joined(acting.untrusted, heard), assumed=tuple(acting.assumed))

    def _arguments(self, step: Step, activation: Activation) -> dict[str, Any]:
        found = {}
        for name, text in step.inputs.items():
            value = evaluate(text, activation.scope)
            if value is MISSING:
                raise AttemptFailed(f"`inputs: {{{name}: {text}}}` gives nothing: what it reads is missing; `| default(…)` gives "
                                    "another value")
            found[name] = plain(value)
        return found

    def _slot(self, activation: Activation) -> Any:
        return self._state.active[activation.key.firing].slot(activation.key.item).acts

    def _key(self, activation: Activation, call: ToolCall, acting: Acting) -> str:
        """Of the call in the journal: of this attempt, or of an earlier one that made it and whose effect happens once only."""
        earlier = [key for key in self._slot(activation) if acting.recorded.known(key, call) is not None]
        return earlier[-1] if earlier else f"{activation.key}/tool.0"

    def _taken(self, step: Step, activation: Activation, result: ToolResult, acting: Acting) -> Work:
        if result.error:
            raise AttemptFailed(result.text)
        if step.tool == "packages":
            return Work(Data(value=read(result.text)))
        if step.parse is not None:
            try:
                return self._acceptance.accept(activation, read(result.text))
            except NotJSON as error:
                raise AttemptFailed(f"what `{step.tool}` gave is not JSON: {error}") from None
        if self._sop.artifacts[step.makes.artifact].files:
            written = {path: content(data, path) for path, data in acting.tree.written.items()}
            return self._acceptance.files(activation, written, tuple(sorted(acting.tree.deleted)), refused=_judged)
        return self._acceptance.accept(activation, result.text)


def _judged(_: str) -> str:
    """Why a path is refused that a tool wrote: for nothing, since it was judged when it was written."""
    return ""
