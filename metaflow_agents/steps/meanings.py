"""What the steps and roles of a SOP mean, as fingerprints: the parts of what a result depends on that no run changes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from metaflow_agents.prompts.names import free_names, histories, names_the_run
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import STRATEGIES, Specs, references
from metaflow_agents.schema.strategies.workers import partners
from metaflow_agents.sop.graph import reads
from metaflow_agents.sop.naming import included, runs_commands, texts_of, with_includes

PACKAGE_PROMPTS = 2
"""Counted up when a template that the package owns changes what a model is told."""
# Keys that say when and how often, not what: changing them changes no result.
_NOT_MEANING = {"when", "rounds", "priority", "timeout", "retries", "on_fail", "budget", "foreach", "role", "model",
                "on_no_answer"}

RUN = "run.name"
"""Among the names that a text uses: it names more of the run than its inputs."""


class Meanings:
    """Those of one SOP, each made when it is first asked for, and once for all its runs."""

    def __init__(self, program: Program, strategies: Specs = STRATEGIES) -> None:
        self.program, self._sop, self._strategies = program, program.sop, strategies
        self._beside: dict[str, tuple[str, ...]] = {}
        self._steps: dict[str, tuple[str, frozenset[str], frozenset[str]]] = {}
        self._prompts: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def beside(self, name: str) -> tuple[str, ...]:
        """The roles that take part in a step besides the one that does it."""
        if name not in self._beside:
            named = partners(self._sop.steps[name], self._strategies)
            self._beside[name] = tuple(role for role in named if role in self._sop.roles)
        return self._beside[name]

    def of_step(self, name: str) -> tuple[str, frozenset[str], frozenset[str]]:
        """The fingerprint of what a step means, and the names and the histories that its texts use."""
        if name not in self._steps:
            step = self._sop.steps[name]
            texts = list(texts_of(self.program, step, self._strategies))
            used = _names(texts)
            past = frozenset().union(*(histories(text, template=template) for text, template in texts))
            self._steps[name] = fingerprint(self._meaning(step)), used, past
        return self._steps[name]

    def named_by_prompt(self, role: str) -> tuple[frozenset[str], frozenset[str]]:
        """The names and the histories that a role's own template uses."""
        if role not in self._prompts:
            prompt = self._sop.roles[role].prompt
            texts = [] if prompt is None else list(with_includes(self.program, prompt).values())
            self._prompts[role] = (_names((text, True) for text in texts),
                                   frozenset().union(*(histories(text, template=True) for text in texts)))
        return self._prompts[role]

    def _meaning(self, step: Step) -> Any:
        made = self._sop.artifacts[step.makes.artifact]
        foreach = None if step.foreach is None else [step.foreach.as_]
        told = {name: spec.description for name in reads(step)
                if (spec := self._sop.artifacts.get(name) or self._sop.inputs.get(name)) is not None}
        return [step.model_dump(mode="json", exclude=_NOT_MEANING, exclude_unset=True), foreach, told,
                made.model_dump(mode="json", exclude={"initial", "render", "file_"}, exclude_unset=True),
                self.program.schemas.get(step.makes.artifact), self._lying_as(step), *self._prompts_of(step),
                *self._shown_by(step), *self._included_by(step)]

    def _prompts_of(self, step: Step) -> list[Any]:
        """The templates that stand in the place of a strategy's prompts, includes included."""
        return [with_includes(self.program, one.text) for one in references(step.strategy, self._strategies)
                if one.refers.to == "template"]

    def _included_by(self, step: Step) -> list[Any]:
        """The templates that its task includes; nothing where it includes none, so that earlier results are taken over."""
        found = included(self.program, step.task or "")
        return [found] if found else []

    def _shown_by(self, step: Step) -> list[Any]:
        """The templates by which its prompts show what it reads, or may show it, includes included."""
        if step.role is None:
            return []
        specs = {name: self._sop.artifacts.get(name) for name in reads(step)}
        return [with_includes(self.program, spec.render) for name, spec in specs.items()
                if spec is not None and spec.render is not None and step.show.get(name, "rendered") == "rendered"]

    def _lying_as(self, step: Step) -> dict[str, Any]:
        """Artifact → where and in what form it lies in the tree of the step's command: that decides what the command says."""
        if not runs_commands(step, self._strategies):
            return {}
        specs = {name: self._sop.artifacts.get(name) for name in (*reads(step), step.makes.artifact)}
        return {name: [spec.file, {} if spec.render is None else with_includes(self.program, spec.render)]
                for name, spec in specs.items() if spec is not None and spec.file is not None}

    @cached_property
    def roles(self) -> dict[str, str]:
        """Role → fingerprint of what it is and of its templates, includes included."""
        found = {}
        for name, role in self._sop.roles.items():
            texts = {} if role.prompt is None else with_includes(self.program, role.prompt)
            told = role.model_dump(mode="json", exclude={"budget", "model"})
            if told["accepts"] == ["text"]:
                del told["accepts"]             # as roles were told before there was such a thing: their results are taken over
            found[name] = fingerprint([told, texts, PACKAGE_PROMPTS])
        return found


def _names(texts: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """The names that texts, templates or expressions, use; `RUN` where one names more of the run than its inputs."""
    found = set[str]()
    for text, template in texts:
        found |= free_names(text, template=template)
        found |= {RUN} if names_the_run(text, template=template) else set()
    return frozenset(found)
