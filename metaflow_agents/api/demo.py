"""`--demo`: a SOP run from the recording that travels with it, so that somebody without a model sees the same engine at work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.models.recording import read_recording
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
