"""The user's own file, for all SOPs: `models` and `limits`, read and checked with places like a SOP.

A SOP goes before it, and so do SOP_MODEL and the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from metaflow_agents.errors import Problem, SOPInvalid
from metaflow_agents.models import ways
from metaflow_agents.schema.endpoint import EndpointModel, faults
from metaflow_agents.schema.sop import Configuration
from metaflow_agents.sop.names import price_names
from metaflow_agents.sop.places import Places
from metaflow_agents.sop.reading import MAX_BYTES, read_yaml
from metaflow_agents.sop.shape_errors import problems_of


@dataclass(frozen=True, slots=True)
class ConfigurationRead:
    """What the file says, and all its problems; nothing where there is no file."""

    configuration: Configuration
    problems: tuple[Problem, ...] = ()
    there: bool = False


def load_configuration(path: Path | None) -> Configuration:
    """The user's configuration; an empty one where there is no file. Raises SOPInvalid with its problems."""
    read = read_configuration(path)
    if read.problems:
        raise SOPInvalid(read.problems, "your configuration")
    return read.configuration


def read_configuration(path: Path | None) -> ConfigurationRead:
    """Like `load_configuration`, but problems are returned."""
    nothing = Configuration()
    if path is None:
        return ConfigurationRead(nothing)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return ConfigurationRead(nothing)
    except OSError as error:
        return ConfigurationRead(nothing, (Problem("file-unreadable", f"can't read it: {(error.strerror or str(error)).lower()}",
                                                   "mend its permissions, or move it away", str(path)),), there=True)
    document = read_yaml(data, str(path))
    if not isinstance(document.data, dict) or document.problems:
        empty = all(problem.code == "yaml-empty" for problem in document.problems)
        return ConfigurationRead(nothing, () if empty else document.problems, there=True)
    places = Places(document)
    try:
        found = Configuration.model_validate(document.data)
    except ValidationError as error:
        return ConfigurationRead(nothing, tuple(problems_of(error.errors(include_url=False), document.data, places,
                                                            top="configuration")), there=True)
    problems = (*price_names(document.data.get("models"), places), *_faults(found, places))
    return ConfigurationRead(nothing if problems else found, problems, there=True)


def _faults(configuration: Configuration, places: Places) -> list[Problem]:
    found = []
    for name, model in configuration.models.items():
        if isinstance(model, EndpointModel):
            found += [Problem(fault.code, fault.message, fault.mend, *places.at(("models", name, *fault.at)))
                      for fault in faults(model)]
        elif not ways.is_form(model):
            found.append(Problem("unknown-model", f"`{model}` is no model", ways.mend(model, ()), *places.at(("models", name))))
    return found
