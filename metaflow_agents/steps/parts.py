"""What a result depends on besides what its step reads: for `--from`, which reuses a result if nothing of it changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from metaflow_agents.engine.work import Activation
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.window import RoleMemory
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.tools import PolicySpec
from metaflow_agents.steps.assignment import mind_for, tools_for
from metaflow_agents.steps.meanings import RUN, Meanings

_Same = tuple[str, str | None, str | None, str | None, tuple[str, ...]]
"""For what the parts are made once: firing, role, whose memory works, model, tools."""
_KEPT = 64                          # firings whose parts are at hand: about as many as run side by side


class ResultParts:
    """Fingerprints by name: `step`, `role`, `model`, `memory`, `tools` where there are some, and `round` and `run` where a text
    of the step names them. Of each other role that takes part these are `role:NAME`, `model:NAME` and so on.
    """

    def __init__(self, meanings: Meanings, state: RunState, values: Values, memory: RoleMemory,
                 above: Sequence[PolicySpec | None] = ()) -> None:
        self._meanings, self._program, self._sop = meanings, meanings.program, meanings.program.sop
        self._state, self._values, self._memory = state, values, memory
        self._above = [one.model_dump(mode="json") for one in above if one is not None]
        self._firings: OrderedDict[_Same, dict[str, str]] = OrderedDict()

    def beside(self, name: str) -> tuple[str, ...]:
        """The roles that take part in a step besides the one that does it."""
        return self._meanings.beside(name)

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
        own, names, past = self._meanings.of_step(name)
        parts = {"step": own}
        for place, (role, model) in enumerate(roles.items()):
            told, recalled = self._meanings.named_by_prompt(role)
            names, past = names | told, past | recalled
            whose = f":{role}" if place else ""
            parts[f"role{whose}"] = self._meanings.roles[role]
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
            own_name = facts["name"] if RUN in names else ""
            parts["run"] = fingerprint([own_name, *(self._state.payload(name) for name in self._sop.inputs)])
        for artifact in past:
            made = self._state.versions.get(artifact, [])[:activation.read.get(artifact, 0)]
            parts[f"history:{artifact}"] = fingerprint([self._values.without_documents(version.payload) for version in made])
        return parts

    def _tools(self, role: str, names: tuple[str, ...]) -> str:
        """What a role, or a step without one (""), may use and do by tools of these names; empty where it has none."""
        if not names:
            return ""
        started = self._meanings.roles if "start_role" in names else {}     # what they are counts as well, and their tools
        theirs = (name for role in started for name in self._sop.roles[role].tools)
        declared = {name.partition(".")[0] for name in (*names, *theirs)}
        specs = [{name: spec.model_dump(mode="json") for name, spec in kind.items() if name in declared}
                 for kind in (self._sop.tools, self._sop.mcp_servers, self._sop.openapi)]
        policies = [None if one is None else one.model_dump(mode="json")
                    for one in (self._sop.policy, self._sop.roles[role].policy if role else None)]
        return fingerprint([list(names), specs, policies, *([started] if started else []),
                            {name: self._program.documents[name] for name in sorted(declared & set(self._program.documents))}])


@lru_cache(maxsize=256)
def _of_name(name: str) -> str:
    return fingerprint(name)
