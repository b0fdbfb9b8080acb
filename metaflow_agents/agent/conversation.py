"""The messages of an activation: who the role is, what it remembers, what it reads, its task, the form of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.agent.strategies.port import Messages
from metaflow_agents.doers.acceptance import Acceptance
from metaflow_agents.engine.work import Activation
from metaflow_agents.memory.window import Turn
from metaflow_agents.prompts import MISSING, package_template, render
from metaflow_agents.prompts.names import free_names
from metaflow_agents.schema import paths
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import Role, Step
from metaflow_agents.sop.graph import reads


class Conversations:
    """Builds prompts. The stable part comes first and in stable order, so that providers' caches hit."""

    def __init__(self, program: Program, acceptance: Acceptance) -> None:
        self._program, self._sop, self._acceptance = program, program.sop, acceptance

    def system(self, name: str, role: Role, activation: Activation) -> str:
        """The role's own prompt: its template, or the package's."""
        told = {"name": name, "profile": role.profile, "goal": role.goal, "constraints": list(role.constraints)}
        scope = {**activation.scope, "role": told, "step": activation.key.step}
        if role.prompt is None:
            return render(package_template("role"), scope)
        return render(self._program.templates[role.prompt], scope, self._program.templates, name=role.prompt)

    def remembered(self, step: Step, activation: Activation) -> str:
        """What the role remembers that it was asked: its item and its task, without what it read."""
        asked = self.user(step, activation, "", whole=False)
        return asked if asked.strip() else f"Step `{activation.key.step}`: make `{step.makes.artifact}`.\n"

    def user(self, step: Step, activation: Activation, output_format: str, *, whole: bool = True) -> str:
        """What the role is to do; `whole`: with the artifacts that it reads."""
        task = "" if step.task is None else render(step.task, activation.scope)
        named = free_names(step.task, template=True) if step.task else frozenset()
        shown = [self._read(name, activation) for name in reads(step) if name not in named] if whole else []
        item = activation.item
        as_ = step.foreach.as_ if step.foreach is not None else "item"
        return render(package_template("activation"), {
            "reads": shown,
            "item": None if item is None else {"name": as_, "key": item.key, "value": item.value},
            "prior": dict(activation.scope["prior"]) if whole else None,
            "task": task,
            "output_format": output_format,
        })

    def output_format(self, step: Step, activation: Activation) -> str:
        """What the role is told about the form of its answer, made from the artifact."""
        name = step.makes.artifact
        spec = self._sop.artifacts[name]
        schema = self._acceptance.schema(name)
        kind = "files" if spec.files else "text" if schema is None or schema == {"type": "string"} else "data"
        return render(package_template("output_format"), {
            "name": name, "kind": kind, "description": spec.description, "schema": schema,
            "rules": [rule.message or rule.assert_ for rule in spec.rules], "patterns": paths.told(activation.patterns),
            "revises": activation.base is not None, "key": activation.item.key if activation.item and not spec.files else None,
        })

    def opening(self, system: str, remembered: list[Turn], user: str) -> Messages:
        """System prompt, memory, and the activation's own message."""
        messages: list[Mapping[str, str]] = [{"role": "system", "content": system}]
        for turn in remembered:
            messages.append({"role": "user", "content": turn.asked})
            if turn.answered is not None:
                messages.append({"role": "assistant", "content": turn.answered})
        return (*messages, {"role": "user", "content": user})

    def _read(self, name: str, activation: Activation) -> dict[str, Any]:
        value = activation.scope[name]
        return {"name": name, "kind": self._kind(name, value), "description": self._described(name),
                "value": None if value is MISSING else value}

    def _kind(self, name: str, value: Any) -> str:
        spec = self._sop.artifacts.get(name)
        if spec is None:
            return "files" if self._sop.inputs[name].type == "folder" else "text" if isinstance(value, str) else "data"
        if spec.files:
            return "files"
        return "collection" if spec.each is not None else "text" if isinstance(value, str) else "data"

    def _described(self, name: str) -> str:
        spec = self._sop.artifacts.get(name)
        return spec.description if spec is not None else self._sop.inputs[name].description
