"""The step runner: gives an activation to the doer that its step names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from metaflow_agents.agent.agent import RoleAgent
from metaflow_agents.agent.tool_step import ToolSteps
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.models.dry import example_path
from metaflow_agents.models.port import identity
from metaflow_agents.runtime.plugins_used import of_step
from metaflow_agents.runtime.subworkflow import SubSOPs
from metaflow_agents.schema.minimal_example import smallest
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.payload import Data
from metaflow_agents.schema.results import JUNIT_RESULT, LOCK, RUN_RESULT, human_result
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.steps.code import CodeParts
from metaflow_agents.steps.command import Commands
from metaflow_agents.steps.documents import Documents
from metaflow_agents.steps.executor import Executors
from metaflow_agents.steps.expression import Expressions
from metaflow_agents.steps.function import Functions
from metaflow_agents.steps.given import NOT_GIVEN, StandIns
from metaflow_agents.steps.human import Humans
from metaflow_agents.steps.parts import ResultParts
from metaflow_agents.steps.screening import Screening
from metaflow_agents.steps.validation import Acceptance


@dataclass(frozen=True, slots=True)
class StepTypes:
    """What carries out the steps of each type, and makes documents of what they made. `installed`: types that packages add."""

    agent: RoleAgent
    commands: Commands
    functions: Functions
    installed: Executors
    expressions: Expressions
    humans: Humans
    tools: ToolSteps
    documents: Documents
    sops: SubSOPs
    screening: Screening


class Doers:
    """Fits the engine's `StepRunner`. `dry`: nothing is executed, nobody asked. `given`: stands in for work."""

    def __init__(
        self,
        sop: SOP,
        types: StepTypes,
        acceptance: Acceptance,
        parts: ResultParts,
        code: CodeParts,
        *,
        dry: bool = False,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._sop, self._agent, self._commands, self._functions = sop, types.agent, types.commands, types.functions
        self._executors, self._expressions = types.installed, types.expressions
        self._humans, self._tools = types.humans, types.tools
        self._documents, self._acceptance, self._parts = types.documents, acceptance, parts
        self._screening = types.screening
        self._code, self._sops, self._dry, self._given = code, types.sops, dry, StandIns(sop, given or {})

    async def work(self, activation: Activation) -> Work:
        """Does the work, its documents included. Raises what its doer raises, AttemptFailed for documents, Screened."""
        await self._screening.begun(str(activation.key))
        return await self._documents.added(activation, await self._screened(activation, await self._done(activation)))

    async def taken_over(self, activation: Activation, work: Work) -> Work:
        """With the documents that this run makes of it. Raises Screened, also for what an earlier run made without screens."""
        await self._screening.begun(str(activation.key))
        return await self._documents.added(activation, await self._screened(activation, work))

    async def _screened(self, activation: Activation, work: Work) -> Work:
        return await self._screening.made(str(activation.key), self._sop.steps[activation.key.step].makes.artifact, work)

    async def _done(self, activation: Activation) -> Work:
        step = self._sop.steps[activation.key.step]
        given = self._given.find(activation)
        if given is not NOT_GIVEN:
            return replace(self._stand_in(step, activation, given), untrusted="")       # the user's own words
        match step.doer:
            case "role":
                return await self._agent.work(activation)
            case "value":
                return await self._expressions.work(activation)
            case "sop":
                return await self._sops.work(activation)
            case _ if self._dry:
                return self._walked(step, activation)
            case "run":
                return await self._commands.work(activation)
            case "call":
                return await self._functions.work(activation)
            case "use":
                return await self._executors.work(activation)
            case "tool":
                return await self._tools.work(activation, self._walked)
            case "human":
                return await self._humans.work(activation)

    def recalled(self, activation: Activation) -> str:
        """The label of what the role remembers that does the work; empty for other doers."""
        step = self._sop.steps[activation.key.step]
        if step.doer != "role" or self._given.find(activation) is not NOT_GIVEN:
            return ""
        return self._agent.recalled(activation)

    def parts(self, activation: Activation) -> dict[str, str]:
        """What the result depends on besides what the step reads."""
        step = self._sop.steps[activation.key.step]
        role = self._agent.role_of(activation) if step.doer == "role" else None
        models = {} if role is None else {name: self._agent.model_of(activation, name)
                                          for name in (role, *self._parts.beside(activation.key.step))}
        told = {name: identity(model) for name, model in models.items()}
        parts = self._parts.of(activation, role, told.get(role or ""), activation.scope["run"],
                               {name: model for name, model in told.items() if name != role})
        parts |= self._code.of(activation, role, models, (*models.values(), *self._agent.embedders(models)))
        if role is not None and (signs := self._agent.signs(activation)):
            parts["stuck"] = fingerprint(signs)
        if step.doer == "sop":
            parts |= self._sops.parts(step)
            if inside := self._given.inside(activation.key.step):
                parts["given"] = fingerprint(inside)
            if step.inherits_memory:
                parts["memory"] = self._parts.inherited(activation)
        if makers := of_step(self._sop, step):
            parts["plugins"] = fingerprint(makers)
        given = self._given.find(activation)
        if given is not NOT_GIVEN:
            parts["given"] = fingerprint(given)
        elif self._dry and step.doer in ("run", "call", "use", "tool", "human"):
            parts["dry"] = "not executed"
        return parts

    def _walked(self, step: Step, activation: Activation) -> Work:
        """What a dry run takes a command, a function, a tool or a person to have made."""
        if self._sop.artifacts[step.makes.artifact].files:
            made = {example_path(pattern): "made by the dry model\n" for pattern in activation.patterns}
            return self._acceptance.files(activation, made, (), ruled=False)
        return Work(Data(value=self._smallest(step)))

    def _stand_in(self, step: Step, activation: Activation, given: Any) -> Work:
        if self._sop.artifacts[step.makes.artifact].files:
            return self._acceptance.accept(activation, given)
        if isinstance(given, dict):
            given = merged(self._smallest(step), given)
        fixed = step.doer == "run" or step.tool == "packages" or (
            step.doer == "human" and self._acceptance.schema(step.makes.artifact) is None)
        return Work(Data(value=given)) if fixed else self._acceptance.accept(activation, given)

    def _smallest(self, step: Step) -> Any:
        schema = self._acceptance.schema(step.makes.artifact)
        if schema is None:
            schema = {"type": "string"}
            if step.doer == "run":
                schema = RUN_RESULT if step.parse is None else JUNIT_RESULT
            elif step.tool == "packages":
                schema = LOCK
            elif step.human is not None:
                schema = human_result(step.human.kind, step.human.choices)
        return smallest(schema, step.makes.artifact)


def merged(base: Any, over: Any) -> Any:
    """`over` laid over `base`, mapping by mapping."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}
    return over
