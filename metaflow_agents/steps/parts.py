"""What a result depends on besides what its step reads: for `--from`, which reuses a result if nothing of it changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from metaflow_agents.engine.work import Activation
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.window import RoleMemory
from metaflow_agents.prompts.names import free_names, histories, names_the_run
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import STRATEGIES, Specs, references
from metaflow_agents.schema.strategies.workers import partners
from metaflow_agents.schema.tools import PolicySpec
from metaflow_agents.sop.graph import reads
from metaflow_agents.sop.naming import included, runs_commands, texts_of, with_includes
from metaflow_agents.steps.assignment import mind_for, tools_for

PACKAGE_PROMPTS = 2
"""Counted up when a template that the package owns changes what a model is told."""
# Keys that say when and how often, not what: changing them changes no result.
_NOT_MEANING = {"when", "rounds", "priority", "timeout", "retries", "on_fail", "budget", "foreach", "role", "model",
                "on_no_answer"}

_Same = tuple[str, str | None, str | None, str | None, tuple[str, ...]]
"""For what the parts are made once: firing, role, whose memory works, model, tools."""
_RUN = "run.name"
_KEPT = 64                          # firings whose parts are at hand: about as many as run side by side


class Parts:
    """Fingerprints by name: `step`, `role`, `model`, `memory`, `tools` where there are some, and `round` and `run` where a text
    of the step names them. Of each other role that takes part these are `role:NAME`, `model:NAME` and so on.
    """

    def __init__(self, program: Program, state: RunState, values: Values, memory: RoleMemory,
                 strategies: Specs = STRATEGIES, above: Sequence[PolicySpec | None] = ()) -> None:
        self._program, self._sop, self._state, self._values, self._memory = program, program.sop, state, values, memory
        self._strategies = strategies
        self._above = [one.model_dump(mode="json") for one in above if one is not None]
        self._beside: dict[str, tuple[str, ...]] = {}
        self._steps: dict[str, tuple[str, frozenset[str], frozenset[str]]] = {}
        self._prompts: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        self._firings: OrderedDict[_Same, dict[str, str]] = OrderedDict()

    def beside(self, name: str) -> tuple[str, ...]:
        """The roles that take part in a step besides the one that does it."""
        if name not in self._beside:
            named = partners(self._sop.steps[name], self._strategies)
            self._beside[name] = tuple(role for role in named if role in self._sop.roles)
        return self._beside[name]

    def of(self, activation: Activation, role: str | None, model: str | None, facts: Any,
           beside: Mapping[str, str]) -> dict[str, str]:
        """The parts of one activation; `role` and `model` are those that do it, `beside` others that take part, each
        with its model, `facts` is `run` as templates see it.

        They are the same for all items of a firing that have the same role, memory, model and tools, and made once for them.
        """
        step = self._sop.steps[activation.key.step]
        tools = self._sop.tools_of(step) if role is None else tools_for(self._sop, step, role, activation.scope)
        mind = None if role is None else mind_for(step, role, activation.scope)
        key = (activation.key.firing, role, mind, model, tools)
        if key not in self._firings:
            self._firings[key] = self._of(activation, {} if role is None else {role: model or "", **beside}, mind, tools, facts)
            if len(self._firings) > _KEPT:
                self._firings.popitem(last=False)
        return dict(self._firings[key])

    def inherited(self, activation: Activation) -> str:
        """The fingerprint of what a SOP inherits of the run that it is a step of."""
        return self._memory.all_of(activation.key.firing)

    def _of(self, activation: Activation, roles: Mapping[str, str], mind: str | None, own_tools: tuple[str, ...],
            facts: Any) -> dict[str, str]:
        name = activation.key.step
        own, names, past = self._of_step(name)
        parts = {"step": own}
        for place, (role, model) in enumerate(roles.items()):
            told, recalled = self._named_by_prompt(role)
            names, past = names | told, past | recalled
            whose = f":{role}" if place else ""
            parts[f"role{whose}"] = self._roles[role]
            parts[f"model{whose}"] = _of_name(model)
            tools = self._tools(role, self._sop.roles[role].tools if place else own_tools)
            if tools:
                parts[f"tools{whose}"] = tools
            remembers = role if place or mind is None else mind
            parts[f"memory{whose}"] = self._memory.fingerprint(remembers, self._sop.roles[role], activation.key.firing)
        writes = roles and self._sop.artifacts[self._sop.steps[name].makes.artifact].files
        if self._sop.policy is not None and (writes or self._sop.steps[name].sop is not None):
            parts["policy"] = fingerprint(self._sop.policy.model_dump(mode="json"))     # a role's own stands in the role
        if self._above:
            parts["policies"] = fingerprint(self._above)        # of the SOPs around: nothing inside may do what they do not allow
        if not roles and own_tools:
            parts["tools"] = self._tools("", own_tools)
        if "round" in names:
            parts["round"] = str(activation.key.round)
        if "run" in names:
            own_name = facts["name"] if _RUN in names else ""
            parts["run"] = fingerprint([own_name, *(self._state.payload(name) for name in self._sop.inputs)])
        for artifact in past:
            made = self._state.versions.get(artifact, [])[:activation.read.get(artifact, 0)]
            parts[f"history:{artifact}"] = fingerprint([self._values.without_documents(version.payload) for version in made])
        return parts

    def _tools(self, role: str, names: tuple[str, ...]) -> str:
        """What a role, or a step without one (""), may use and do by tools of these names; empty where it has none."""
        if not names:
            return ""
        started = self._roles if "start_role" in names else {}         # what they are counts as well, and what tools they have
        theirs = (name for role in started for name in self._sop.roles[role].tools)
        declared = {name.partition(".")[0] for name in (*names, *theirs)}
        specs = [{name: spec.model_dump(mode="json") for name, spec in kind.items() if name in declared}
                 for kind in (self._sop.tools, self._sop.mcp_servers, self._sop.openapi)]
        policies = [None if one is None else one.model_dump(mode="json")
                    for one in (self._sop.policy, self._sop.roles[role].policy if role else None)]
        return fingerprint([list(names), specs, policies, *([started] if started else []),
                            {name: self._program.documents[name] for name in sorted(declared & set(self._program.documents))}])

    def _of_step(self, name: str) -> tuple[str, frozenset[str], frozenset[str]]:
        if name not in self._steps:
            step = self._sop.steps[name]
            texts = list(texts_of(self._program, step, self._strategies))
            used = _names(texts)
            past = frozenset().union(*(histories(text, template=template) for text, template in texts))
            self._steps[name] = fingerprint(self._meaning(step)), used, past
        return self._steps[name]

    def _named_by_prompt(self, role: str) -> tuple[frozenset[str], frozenset[str]]:
        """The names and the histories that a role's own template uses."""
        if role not in self._prompts:
            prompt = self._sop.roles[role].prompt
            texts = [] if prompt is None else list(with_includes(self._program, prompt).values())
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
                self._program.schemas.get(step.makes.artifact), self._lying_as(step), *self._prompts_of(step),
                *self._shown_by(step), *self._included_by(step)]

    def _prompts_of(self, step: Step) -> list[Any]:
        """The templates that stand in the place of a strategy's prompts, includes included."""
        return [with_includes(self._program, one.text) for one in references(step.strategy, self._strategies)
                if one.refers.to == "template"]

    def _included_by(self, step: Step) -> list[Any]:
        """The templates that its task includes; nothing where it includes none, so that earlier results are taken over."""
        found = included(self._program, step.task or "")
        return [found] if found else []

    def _shown_by(self, step: Step) -> list[Any]:
        """The templates by which its prompts show what it reads, or may show it, includes included."""
        if step.role is None:
            return []
        specs = {name: self._sop.artifacts.get(name) for name in reads(step)}
        return [with_includes(self._program, spec.render) for name, spec in specs.items()
                if spec is not None and spec.render is not None and step.show.get(name, "rendered") == "rendered"]

    def _lying_as(self, step: Step) -> dict[str, Any]:
        """Artifact → where and in what form it lies in the tree of the step's command: that decides what the command says."""
        if not runs_commands(step, self._strategies):
            return {}
        specs = {name: self._sop.artifacts.get(name) for name in (*reads(step), step.makes.artifact)}
        return {name: [spec.file, {} if spec.render is None else with_includes(self._program, spec.render)]
                for name, spec in specs.items() if spec is not None and spec.file is not None}

    @cached_property
    def _roles(self) -> dict[str, str]:
        """Role → fingerprint of what it is and of its templates, includes included."""
        found = {}
        for name, role in self._sop.roles.items():
            texts = {} if role.prompt is None else with_includes(self._program, role.prompt)
            told = role.model_dump(mode="json", exclude={"budget", "model"})
            if told["accepts"] == ["text"]:
                del told["accepts"]             # as roles were told before there was such a thing: their results are taken over
            found[name] = fingerprint([told, texts, PACKAGE_PROMPTS])
        return found


def _names(texts: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """The names that texts, templates or expressions, use; `_RUN` where one names more of the run than its inputs."""
    found = set[str]()
    for text, template in texts:
        found |= free_names(text, template=template)
        found |= {_RUN} if names_the_run(text, template=template) else set()
    return frozenset(found)


@lru_cache(maxsize=256)
def _of_name(name: str) -> str:
    return fingerprint(name)
