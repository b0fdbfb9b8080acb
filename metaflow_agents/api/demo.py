"""`--demo`: a SOP run from the recording that travels with it, so that somebody without a model sees the same engine at work."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.engine.work import Taken
from metaflow_agents.errors import UsageError
from metaflow_agents.models.recording import RecordedResult, Recording, read_recording
from metaflow_agents.schema.keys import ActivationKey, activations_in, slots
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.schema.payload import blobs_of, unpack
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.library import shipped_demonstrations, shipped_recording


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What a demonstration runs with: the recording, the inputs that were recorded, and in words who answered and when."""

    recording: Path
    inputs: dict[str, Any]
    told: str


def demonstration(program: Program) -> Demonstration:
    """The recorded run of a SOP. Folders that it was given lie beside the recording, under the name of the input.

    Raises UsageError where none travels with the SOP.
    """
    name = program.sop.sop
    path = shipped_recording(name)
    if path is None:
        has = ", ".join(f"{each}.yaml" for each in shipped_demonstrations())
        raise UsageError(f"no recording of `{name}` travels with the package; `--demo` runs {has}" if has else
                         f"no recording of `{name}` travels with the package; `--model dry` walks it free of charge")
    recording = read_recording(path)
    header, inputs = recording.told, dict(recording.told["inputs"])
    shown = ", ".join(f"{given} \"{value}\"" for given, value in inputs.items()
                      if isinstance(value, str) and value != program.sop.inputs[given].default)
    for given, spec in program.sop.inputs.items():
        if spec.type == "folder" and inputs.get(given) is not None:
            inputs[given] = str(path.with_suffix("") / given)
    what, real = (("answers and results of commands", "the engine runs for real") if recording.results else
                  ("answers", "the engine, the commands and the tests are run for real"))
    return Demonstration(path, inputs, f"{shown}; {what} recorded on {header['date']}, by {header['answered_by']}; {real}")


class RecordedResults:
    """What commands, tools and functions gave in a recording: it stands for them where all that they depend on is equal."""

    effects = None

    def __init__(self, recording: Recording) -> None:
        self._name, self._contents = recording.name, recording.contents
        self._place: tuple[str, ...] = ()
        self._found: dict[tuple[tuple[str, ...], str, str], RecordedResult] = {}
        for one in recording.results:
            self._found[slots(one.key)[:-1], activations_in(one.key)[-1].step, one.depends] = one

    def find(self, key: ActivationKey, parts: Mapping[str, str]) -> Taken | tuple[str, ...]:
        """See `Earlier`."""
        one = self._found.get((self._place, key.step, fingerprint(dict(parts))))
        if one is None:
            return ()
        blobs = {name: self._contents[name] for name in (one.payload, *blobs_of(unpack(self._contents[one.payload])))}
        return Taken(one.payload, f"{self._name}:{one.key}", blobs, None, one.untrusted)

    def use(self, taken: Taken, key: ActivationKey) -> None:
        """Nothing of it is done once only."""

    def inside(self, key: ActivationKey) -> RecordedResults:
        """See `Earlier`."""
        found = copy(self)
        found._place = (*self._place, key.slot)
        return found

    def close(self) -> None:
        """Nothing is held."""
