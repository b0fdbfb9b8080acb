"""What the expressions and templates of a step may name, for one set of versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import MISSING
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.graph import artifact_of, reads


class Scopes:
    """Builds scopes from versions: artifacts by name (a narrowed need shows that part only), `round`, `run`, `history`."""

    def __init__(self, program: Program, values: Values, run: str) -> None:
        self._sop, self._values, self._run = program.sop, values, run

    def run_facts(self) -> dict[str, Any]:
        """`run`: its name and its inputs. The same for every step."""
        return {"name": self._run, "inputs": {name: self._values.latest(name) for name in self._sop.inputs}}

    def of(self, step: Step, versions: Mapping[str, int], round_: int) -> dict[str, Any]:
        """The scope of a firing of a step that reads these versions (0: missing)."""
        scope: dict[str, Any] = {}
        entries = (*step.needs, *step.wants, *step.sees)
        whole = {entry for entry in entries if "." not in entry}
        for artifact in reads(step):
            value = self._values.at(artifact, versions.get(artifact, 0))
            if artifact not in whole:
                value = narrowed(value, [entry.split(".")[1:] for entry in entries if artifact_of(entry) == artifact])
            scope[artifact] = value

        def history(name: str) -> list[Any]:
            return [self._values.at(name, number + 1) for number in range(versions.get(name, 0))]

        return {**scope, "round": round_, "run": self.run_facts(), "history": history}


def part(value: Any, path: list[str]) -> Any:
    """The part of a value that a path of fields leads to; MISSING where it ends early."""
    for field in path:
        value = value.get(field, MISSING) if isinstance(value, Mapping) else MISSING
    return value


def narrowed(value: Any, paths: list[list[str]]) -> Any:
    """A value of which only these paths can be seen."""
    if value is MISSING:
        return MISSING
    seen: dict[str, Any] = {}
    for path in paths:
        place = seen
        for field in path[:-1]:
            place = place.setdefault(field, {})
        place[path[-1]] = part(value, path)
    return seen
