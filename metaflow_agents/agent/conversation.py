"""The messages of an activation: who the role is, what it remembers, its task, the form of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.agent.strategies.port import Messages
from metaflow_agents.engine.work import Activation
from metaflow_agents.memory.window import Turn
from metaflow_agents.prompts import analyse_template, from_package, render
from metaflow_agents.schema import paths
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.role import Role
from metaflow_agents.schema.step import Step
from metaflow_agents.steps.validation import Acceptance

WRITING = ("write", "edit", "run")  # tools that write files


@dataclass(frozen=True, slots=True)
class Wordings:
    """Texts of prompts that the SOP alone decides, each made when it is first asked for: they are the same in all its runs."""

    systems: dict[tuple[str, str], str] = field(default_factory=dict)   # (role, step) → its prompt, if nothing else decides it
    formats: dict[tuple[str, bool], str] = field(default_factory=dict)  # (artifact, revised?) → what is told of data and texts
    tasks: dict[str, str] = field(default_factory=dict)                 # plain task → what is asked, where there is no item


class Conversations:
    """Builds prompts. The stable part comes first and in stable order, so that providers' caches hit."""

    def __init__(self, program: Program, acceptance: Acceptance, wordings: Wordings | None = None) -> None:
        self.program, self._sop, self.acceptance = program, program.sop, acceptance
        kept = wordings or Wordings()
        self._systems, self._formats, self._tasks = kept.systems, kept.formats, kept.tasks

    def system(self, name: str, role: Role, activation: Activation) -> str:
        """The role's own prompt: its template, or the package's. Most see only who it is, and are rendered once a step."""
        key = (name, activation.key.step)
        if key in self._systems:
            return self._systems[key]
        text = self._system(name, role, activation)
        if role.prompt is None or self._sees_only_the_role(role.prompt):
            self._systems[key] = text
        return text

    def _sees_only_the_role(self, template: str) -> bool:
        texts = self.program.templates
        return (analyse_template(texts[template], {}, texts).names <= {"role", "step"}
                and not any("history" in text for text in texts.values()))

    def _system(self, name: str, role: Role, activation: Activation) -> str:
        told = {"name": name, "profile": role.profile, "goal": role.goal, "constraints": list(role.constraints)}
        scope = {**activation.scope, "role": told, "step": activation.key.step}
        if role.prompt is None:
            return from_package("role", scope)
        return render(self.program.templates[role.prompt], scope, self.program.templates, name=role.prompt)

    def asked(self, step: Step, activation: Activation, item: Mapping[str, Any] | None) -> str:
        """What the role is to do: its item, as `Material.item` gives it, and its task. It is what the role remembers; empty where
        there is neither.
        """
        task = render(step.task or "", activation.scope, self.program.templates)
        if item is None and task == (step.task or ""):
            if task not in self._tasks:
                self._tasks[task] = from_package("activation", {"item": None, "task": task})
            return self._tasks[task]
        return from_package("activation", {"item": item, "task": task})

    def output_format(self, step: Step, activation: Activation) -> str:
        """What the role is told about the form of its answer, made from the artifact."""
        name, revises = step.makes.artifact, activation.base is not None
        spec = self._sop.artifacts[name]
        if spec.files or spec.each is not None:
            return self._format(name, activation)
        if (name, revises) not in self._formats:
            self._formats[name, revises] = self._format(name, activation)
        return self._formats[name, revises]

    def writing(self, tools: Sequence[Mapping[str, Any]]) -> str:
        """What a role is told that makes files and has tools that write them; empty where it has none."""
        names = [told["name"] for told in tools if told["name"] in WRITING]
        return from_package("files_by_tools", {"tools": names}) if names else ""

    def _format(self, name: str, activation: Activation) -> str:
        spec = self._sop.artifacts[name]
        schema = self.acceptance.schema(name)
        kind = "files" if spec.files else "text" if schema is None or schema == {"type": "string"} else "data"
        return from_package("output_format", {
            "name": name, "kind": kind, "description": spec.description,
            "rules": [rule.message or rule.assert_ for rule in spec.rules], "patterns": paths.told(activation.patterns),
            "revises": activation.base is not None, "key": activation.item.key if activation.item and not spec.files else None,
        })

    def opening(self, system: str, remembered: Sequence[Turn], user: str, images: Sequence[Mapping[str, Any]] = ()) -> Messages:
        """System prompt, memory, and the activation's own message with its pictures."""
        messages: list[Mapping[str, Any]] = [{"role": "system", "content": system}]
        for turn in remembered:
            messages.append({"role": "user", "content": turn.asked})
            if turn.answered is not None:
                messages.append({"role": "assistant", "content": turn.answered})
        return (*messages, {"role": "user", "content": user, **({"images": list(images)} if images else {})})
