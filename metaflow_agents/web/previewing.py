"""What a step would send, for the page of a SOP: as `sop preview`, also of an unsaved text, with stand-ins for inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from metaflow_agents.api.preview import Rehearsed, rehearse
from metaflow_agents.errors import SOPInvalid, UsageError
from metaflow_agents.runtime.checking import check
from metaflow_agents.runtime.prepare import ready
from metaflow_agents.runtime.prepared import Choices, Prepared
from metaflow_agents.schema import paths
from metaflow_agents.schema.minimal_example import SmallestUnknown, smallest
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS
from metaflow_agents.settings import Settings
from metaflow_agents.sop.load import Reading
from metaflow_agents.web.places import input_path
from metaflow_agents.web.site import Site

MOST = 20                           # activations that are shown
_LONGEST = 60_000                   # characters of a message that are sent
_SECONDS = 60.0
_SAMPLE = "a sample, since no path was given\n"


def previewed(reading: Reading, step: str, values: tuple[Mapping[str, Any], Mapping[str, Any]], site: Site) -> dict[str, Any]:
    """{sent: [{key, role, tokens, parts, messages, tools}], more, stood_in}: `MOST` of a step's activations, how many more
    there are, and the inputs for which a stand-in was taken. `values`: inputs (of a file or a folder its path, or path → text),
    and artifacts that stand in for work.

    Raises SOPInvalid, UsageError.
    """
    inputs, given = values
    prepared = _prepared(reading)
    declared = prepared.program.sop.inputs
    with TemporaryDirectory(prefix="sop-preview-") as samples:
        stand_ins = _stand_ins(prepared.program, inputs, Path(samples))
        paths = {name: _path(name, str(declared[name].type), value, Path(samples), (prepared.place, site))
                 for name, value in inputs.items() if name in declared and declared[name].type in PATHS and value is not None}
        sent = asyncio.run(_in_time(prepared, step, {**inputs, **paths, **stand_ins}, given))
    return {"sent": [_told(one) for one in sent[:MOST]], "more": max(0, len(sent) - MOST), "stood_in": sorted(stand_ins)}


def _path(name: str, kind: str, value: Any, samples: Path, where: tuple[Path, Site]) -> str:
    """The path of an input, as a test of the SOP writes it: from the SOP's folder, or texts, which are laid into `samples`."""
    place, site = where
    if not isinstance(value, Mapping):
        beside = (place / str(value)).resolve()
        inside = beside.is_relative_to(site.folder.resolve()) and beside.exists()
        return str(beside if inside else input_path(site.folder, site.workspace, str(value)))
    for path, text in value.items():
        why = paths.refusal(path) or ("" if isinstance(text, str) else "what stands behind it is no text")
        if why:
            raise UsageError(f"the input `{name}`: `{path}` is refused: {why}; write {{PATH: TEXT}}")
        file = samples / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (samples / name).mkdir(exist_ok=True)
    return str(samples / name / next(iter(value), "") if kind == "file" else samples / name)


def _prepared(reading: Reading) -> Prepared:
    settings = Settings.read()
    report = check(reading, settings=settings)
    if reading.loaded is None or not report.ok:
        raise SOPInvalid(report.errors)
    return ready(reading.loaded, Choices(model="dry", home=None, settings=settings))


async def _in_time(prepared: Prepared, step: str, inputs: Mapping[str, Any], given: Mapping[str, Any]) -> list[Rehearsed]:
    try:
        async with asyncio.timeout(_SECONDS):
            return await rehearse(prepared, step, inputs=inputs, given=given)
    except TimeoutError:
        raise UsageError(f"the dry run did not reach `{step}` in {_SECONDS:.0f} seconds: give what leads to it, or look at it "
                         "with `sop preview`") from None


def _stand_ins(program: Program, inputs: Mapping[str, Any], samples: Path) -> dict[str, Any]:
    """Values for inputs that a run must be given, and the page did not give: the smallest that fit."""
    found: dict[str, Any] = {}
    for name, spec in program.sop.inputs.items():
        if name in inputs or not spec.required or spec.keep is not None:
            continue
        if spec.type in PATHS:
            place = samples / name
            place.mkdir()
            (place / "sample.txt").write_text(_SAMPLE, encoding="utf-8")
            found[name] = str(place if spec.type == "folder" else place / "sample.txt")
            continue
        try:
            found[name] = smallest(program.schemas.get(f"input:{name}", {"type": "string"}), name)
        except SmallestUnknown as error:
            raise UsageError(f"give the input `{name}`: no value is known that fits its schema: {error}") from None
    return found


def _told(one: Rehearsed) -> dict[str, Any]:
    parts = [{"name": part.name, "artifact": part.artifact, "how": part.how, "tokens": part.tokens} for part in one.parts]
    return {"key": one.request.key, "role": one.request.role, "tokens": sum(part.tokens for part in one.parts), "parts": parts,
            "messages": [_message(message) for message in one.request.messages],
            "tools": [str(tool["name"]) for tool in one.request.tools]}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    text = str(message["content"])
    return {"role": str(message["role"]), "text": text[:_LONGEST], **({"cut": len(text)} if len(text) > _LONGEST else {})}
