"""Values that stand in for what steps would make: of an artifact or of a step, in every round or in one, item by item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from metaflow_agents.engine.work import Activation
from metaflow_agents.schema import paths
from metaflow_agents.schema.address import Address, parse_address
from metaflow_agents.schema.sop import SOP

NOT_GIVEN: Final = object()
"""No value stands in for the work of an activation: its step does it."""


class StandIns:
    """What is given, by name: `verdict` and `judge_it` for every round, `verdict@2` and `judge_it@2` for the second one.

    The value of a collection is a mapping of item key to value, that of files one of path to text: an item takes its own part,
    and works where there is none. A round of its own goes before all rounds, a step before its artifact. `write/text` is for the
    SOP that the step `write` is.
    """

    def __init__(self, sop: SOP, given: Mapping[str, Any]) -> None:
        self._sop = sop
        self._inside = {step: given_inside(given, step) for step, spec in sop.steps.items() if spec.sop is not None}
        named = ((given_name(written), value) for written, value in given.items())
        self._values = {name: value for (*steps, name), value in named if not steps}

    def find(self, activation: Activation) -> Any:
        """The value that an activation takes in place of its work; NOT_GIVEN where there is none."""
        if not self._values:
            return NOT_GIVEN
        key, step = activation.key, self._sop.steps[activation.key.step]
        for round_ in (key.round, None):
            for name in (key.step, step.makes.artifact):
                value = self._values.get(Address(name, round_), NOT_GIVEN)
                if value is not NOT_GIVEN and (own := self._part(value, activation)) is not NOT_GIVEN:
                    return own
        return NOT_GIVEN

    def inside(self, step: str) -> Mapping[str, Any]:
        """What stands in for the work of steps of the SOP that a step is, by the names that it has in there."""
        return self._inside.get(step, {})

    def _part(self, value: Any, activation: Activation) -> Any:
        """What of a value is the activation's own."""
        if activation.item is None or not isinstance(value, Mapping):
            return value
        if not self._sop.artifacts[self._sop.steps[activation.key.step].makes.artifact].files:
            return value.get(activation.item.key, NOT_GIVEN)
        return {path: text for path, text in value.items() if paths.matches(activation.patterns, path)} or NOT_GIVEN


def given_inside(given: Mapping[str, Any], step: str) -> dict[str, Any]:
    """What of all that is given is for the SOP that a step is: `text` for `write/text`."""
    return {written.removeprefix(f"{step}/"): value for written, value in given.items() if written.startswith(f"{step}/")}


def given_name(written: str) -> tuple[Address, ...]:
    """An artifact or a step, and a round of it, behind the steps that are SOPs around it. Raises ValueError, saying the form."""
    *steps, name = parse_address(written)
    if name.item is not None or any(step != Address(step.step) for step in steps):
        raise ValueError(f"`{written}` is no name of a value that stands in: write `ARTIFACT`, `STEP` or `NAME@2`, "
                         "`STEP/ARTIFACT` in a sub-SOP; a collection is `{KEY: VALUE}`, files are `{PATH: TEXT}`")
    return (*steps, name)
