"""What of a firing came from outside the user: the labels of the versions that it reads, joined, and what lifts them.

A label is lifted by name (`trusts:`), or since the schema of what is made is closed: no text of anybody else fits it
(`schema/closed.py`). A person's own words lift it too: that is said by who does the work (`Work.untrusted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from metaflow_agents.journal.state import RunState
from metaflow_agents.prompts.names import free_names, histories
from metaflow_agents.schema.closed import closed
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import STRATEGIES, Specs
from metaflow_agents.schema.strategies.workers import tools_in
from metaflow_agents.schema.trust import joined
from metaflow_agents.schema.trusting import trusted_data
from metaflow_agents.sop.graph import reads
from metaflow_agents.sop.naming import named


@dataclass(frozen=True, slots=True)
class Label:
    """`whole`: of all that is read. `lifted`: without what the step trusts by name. `listed`: of that, the list it walks.

    `inputs`: of all the inputs that the step does not trust by name, read or not. `each`: of `lifted`, name → label.
    """

    whole: str = ""
    lifted: str = ""
    listed: str = ""
    inputs: str = ""
    each: Mapping[str, str] = field(default_factory=dict)


class Labels:
    """Reads labels out of a run's state for the steps of its program. Nothing is looked at in a run without any."""

    def __init__(self, program: Program, state: RunState, strategies: Specs = STRATEGIES) -> None:
        self._program, self._state = program, state
        self._named = cache(lambda name: named(program, program.sop.steps[name], strategies))
        self._trusted = cache(lambda name: trusted_data(program.sop, program.sop.steps[name]))
        self._closed = cache(lambda name: _is_closed(program, program.sop.steps[name], strategies))

    def of(self, name: str, versions: Mapping[str, int]) -> Label:
        """The label of a firing of a step that reads these versions (artifact → number, 0: missing)."""
        if not self._state.outside:
            return Label()
        step = self._program.sop.steps[name]
        found = self._found(name, step, versions)
        trusted = self._trusted(name)
        lifted = {source: label for source, label in found.items() if source not in trusted}
        return Label(joined(*found.values()), joined(*lifted.values()),
                     joined(*(lifted.get(source, "") for source in self._walked(name, step, found))),
                     joined(*(self._state.untrusted(given) for given in self._program.sop.inputs if given not in trusted)),
                     {source: label for source, label in lifted.items() if label})

    def lifts(self, name: str) -> bool:
        """Whether what the step makes is trusted whatever it reads: no tools, nobody to ask, and its schema is closed."""
        return self._closed(name)

    def _found(self, name: str, step: Step, versions: Mapping[str, int]) -> dict[str, str]:
        """Artifact or input → its label, for all that the step reads or names."""
        besides = self._named(name)
        found = {}
        for artifact in reads(step):
            last = versions.get(artifact, 0)
            first = 1 if artifact in besides.histories else max(last, 1)
            found[artifact] = joined(*(self._state.untrusted(artifact, number) for number in range(first, last + 1)))
        for given in besides.inputs:
            found[given] = joined(found.get(given, ""), self._state.untrusted(given))
        return found

    def _walked(self, name: str, step: Step, found: Mapping[str, str]) -> set[str]:
        """Of what is read, that from which the list of a `foreach`, its keys and its order are made."""
        if step.foreach is None:
            return set()
        walk = step.foreach
        texts = [text for text in (walk.in_, walk.key, walk.after, walk.where) if text]
        names: set[str] = set().union(*(free_names(text) for text in texts))
        return set(found) if "run" in names or any(histories(text) for text in texts) else names & set(found)


def _is_closed(program: Program, step: Step, strategies: Specs) -> bool:
    sop = program.sop
    held = step.doer in ("role", "call", "use", "value") or (step.run is not None and (step.parse or "").startswith("json"))
    if not held or sop.artifacts[step.makes.artifact].files or tools_in(sop, step, strategies) or step.talks_to:
        return False
    return closed(program.schemas.get(step.makes.artifact))
