"""Which Python a SOP names, and the file of each: what `sop check` prints and the journal holds. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metaflow_agents.modules import Shadowed, locate, locate_file, sources_of
from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.sop.targets import FORM


def located(loaded: LoadedSOP) -> dict[str, str]:
    """`module:function` (of a SOP that is a step: `SOP/module:function`) → its file; what is not found is left out."""
    folders = loaded.folders.python
    found = {spec: file for spec in dict.fromkeys(_named(loaded.program.sop)) if (file := _file(spec, folders)) is not None}
    for name, inner in loaded.inner.items():
        found |= {f"{name}/{spec}": file for spec, file in located(inner).items()}
    return found


def unfollowed(loaded: LoadedSOP) -> tuple[str, ...]:
    """What of the Python that a SOP names, and of what that imports, no reading of files can follow: `--from` does not see it."""
    folders = loaded.folders.python
    of_each = {spec.rpartition(":")[0]: spec for spec in _named(loaded.program.sop)}        # one function stands for its module
    found = dict.fromkeys(one for spec in of_each.values() for one in sources_of(spec, folders).unfollowed)
    for name, inner in loaded.inner.items():
        found |= dict.fromkeys(f"in {name}, {one}" for one in unfollowed(inner))
    return tuple(found)


def functions_of(sop: SOP) -> Iterator[str]:
    """What the SOP itself names but for models: functions of steps, checks and tools, and python schemas, as they are written."""
    for step in sop.steps.values():
        yield from filter(None, (step.call, step.check and step.check.call))
    yield from (tool.python for tool in sop.tools.values() if tool.python is not None)
    kinds: list[Any] = [spec.type for spec in sop.inputs.values()]
    kinds += [kind for artifact in sop.artifacts.values() for kind in (artifact.schema_, artifact.each)]
    yield from (kind["python"] for kind in kinds if isinstance(kind, dict) and set(kind) == {"python"})


def _named(sop: SOP) -> Iterator[str]:
    """All that a run of the SOP itself may import, as it is written."""
    yield from functions_of(sop)
    models: list[Any] = [*(model if isinstance(model, str) else model.name for model in sop.models.values()
                           if isinstance(model, str) or model.python), *(role.model for role in sop.roles.values())]
    models += [step.model for step in sop.steps.values()]
    models += [role.memory.recall.embeddings for role in sop.roles.values() if role.memory.recall is not None]
    yield from (model.removeprefix("python:") for model in models if isinstance(model, str) and model.startswith("python:"))


def _file(spec: str, folders: list[Path]) -> str | None:
    where = spec.rpartition(":")[0]
    if where.endswith(".py"):
        file = locate_file(where, folders)
        return None if file is None else str(file.resolve())
    if not FORM.fullmatch(spec):
        return None
    try:
        found = locate(where, folders)
    except Shadowed:
        return None
    return None if found is None else "built in" if found.file is None else str(found.file.resolve())
