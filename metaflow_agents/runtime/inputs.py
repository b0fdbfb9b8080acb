"""What a run is given: values of the SOP's inputs, checked against their types, and what stands in for the work of its steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from metaflow_agents.errors import AnswerInvalid, UsageError, did_you_mean
from metaflow_agents.journal.keeping import Kept
from metaflow_agents.runtime.input_files import InputFolder, Remote, read_file
from metaflow_agents.schema.binary import content, unloaded
from metaflow_agents.schema.event import Version
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Collection as Items
from metaflow_agents.schema.payload import Data, Files, Held, held, stored
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS, Input
from metaflow_agents.schema.trust import joined, of_input
from metaflow_agents.schema.validation import validator
from metaflow_agents.steps.given import given_name

NOTHING: Mapping[str, Kept] = MappingProxyType({})
SHOWN = 20                          # paths of a folder that were not read


class Given(NamedTuple):
    """What a run is given. `payloads`: input → digest; `untrusted`: see `labels`.

    `left_out`: input that is a folder → paths in it that are not read, and are with `everything`;
    `untaken`: input that is a folder → why paths in it are not read, whatever is asked for → these paths.
    """

    payloads: dict[str, str]
    blobs: dict[str, bytes]
    left_out: dict[str, tuple[str, ...]]
    untaken: dict[str, dict[str, tuple[str, ...]]]
    untrusted: dict[str, str]

    def told(self) -> dict[str, Any]:
        """What a journal says of paths that were not read, the first of many: fields of `RunOpened`."""
        return {"left_out": {name: _some(paths) for name, paths in self.left_out.items()},
                "untaken": {name: {why: _some(paths) for why, paths in whys.items()} for name, whys in self.untaken.items()}}


def _some(paths: Sequence[str]) -> tuple[str, ...]:
    return (*paths[:SHOWN], f"… and {len(paths) - SHOWN:,} more") if len(paths) > SHOWN else tuple(paths)


def read_inputs(program: Program, given: Mapping[str, Any], load: Callable[[str], Any] | None = None,
                remote: Remote | None = None, *, everything: bool = False, kept: Mapping[str, Kept] = NOTHING) -> Given:
    """The inputs of a run. A missing optional input is left out.

    `given` holds values as a program has them: JSON values, and for `file` and `folder` a path; `remote` is who gave them, None
    for the user. Of folders, what their `.gitignore` files name, keys and journals are left out, unless `everything` is asked
    for. `load` imports the models of `python:` schemas.
    `kept`: values for inputs that are not given. Raises UsageError, saying every input that is missing, unknown or wrong.
    """
    declared = program.sop.inputs
    faults = [f"`{name}` is no input of this SOP: {did_you_mean(name, declared)}" for name in given if name not in declared]
    reading = _Reading(program, load, everything=everything)
    found: dict[str, str] = {}
    for name, spec in declared.items():
        old, mend = None if name in given else kept.get(name), f"give it with `--{name.replace('_', '-')} …`"
        if name not in given and old is None and spec.required:
            faults += [f"input `{name}` is missing{f' ({spec.description})' if spec.description else ''}; {mend}"]
            continue
        try:
            value = reading.value(name, given[name], remote) if name in given else \
                reading.value(name, spec.default) if old is None else reading.kept(name, old.value)
            found[name] = reading.digest_of(name, value)
        except (AnswerInvalid, UsageError) as error:
            faults += [f"input `{name}`: {error}" if old is None else f"input `{name}`: what {old.source} left does not fit its "
                       f"type: {error}; {mend}, as the SOP wants it now"]
    if faults:
        raise UsageError("\n".join(faults))
    return Given(found, reading.blobs, reading.left_out, reading.untaken, labels(program, given, remote, kept))


class _Reading:
    """One reading of all inputs; see `read_inputs`."""

    def __init__(self, program: Program, load: Callable[[str], Any] | None, *, everything: bool = False) -> None:
        self._program, self._load, self._everything = program, load, everything
        self.blobs: dict[str, bytes] = {}
        self.left_out: dict[str, tuple[str, ...]] = {}
        self.untaken: dict[str, dict[str, tuple[str, ...]]] = {}

    def value(self, name: str, given: Any, remote: Remote | None = None) -> Any:
        """What an input holds: of a file its content, of a folder path → bytes. Raises UsageError."""
        spec = self._program.sop.inputs[name]
        if spec.type not in PATHS or (given is None and not spec.required):
            return given
        path = remote.find(given) if remote is not None else _path(given)
        if spec.type == "file":
            return content(read_file(path, remote), path.name)
        folder = InputFolder(path, self._everything, remote, spec.exclude)
        files = folder.read()
        if folder.left_out:
            self.left_out[name] = tuple(sorted(folder.left_out))
        if folder.untaken:
            self.untaken[name] = {why: tuple(sorted(folder.untaken[why])) for why in sorted(folder.untaken)}
        return files

    def kept(self, name: str, value: Any) -> Any:
        """The same of a value that was kept. Raises AnswerInvalid where it is no file or no files."""
        kind = self._program.sop.inputs[name].type
        if kind not in PATHS or (value is None and not self._program.sop.inputs[name].required):
            return value
        if kind == "file":
            if not isinstance(value, str | bytes):
                raise AnswerInvalid([f"`{name}` has to be the content of a file"])
            return unloaded(value)
        if not isinstance(value, Mapping) or not all(isinstance(one, str | bytes) for one in value.values()):
            raise AnswerInvalid([f"`{name}` has to be a set of files"])
        return {path: one.encode() if isinstance(one, str) else one for path, one in value.items()}

    def digest_of(self, name: str, value: Any) -> str:
        """The digest of an input's payload, which is among the blobs then. Raises AnswerInvalid for what is not of its type."""
        spec, new = self._program.sop.inputs[name], dict[str, bytes]()
        payload: Held
        if value is None and not spec.required:
            payload = Data(value=None)          # also what a run read where nothing had been kept yet
        elif spec.type == "folder":
            payload = Files(patterns=("**",), files={path: digest(value[path]) for path in sorted(value)})
            new = {digest(data): data for data in value.values()}
        elif spec.type == "file":
            payload, new = held(value)
        else:
            schema = self._program.schemas.get(f"input:{name}", {"type": "string"})
            payload = Data(value=validator(schema, name, self._load).validate(value))
        self.blobs.update(new)
        return stored(payload, self.blobs)


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise UsageError(f"a path was expected, not {value!r}")
    return Path(str(value).removeprefix("@"))


def versions(payloads: Mapping[str, str], untrusted: Mapping[str, str]) -> tuple[Version, ...]:
    """What a run begins with: input or artifact → digest, and their labels."""
    return tuple(Version(artifact=name, number=1, payload=payload, untrusted=untrusted.get(name, ""))
                 for name, payload in payloads.items())


def labels(program: Program, given: Collection[str], remote: Remote | None = None,
           kept: Mapping[str, Kept] = NOTHING) -> dict[str, str]:
    """Input → what of it came from outside the user (`schema/trust.py`), for those that the user does not vouch for.

    Files and folders are untrusted unless the SOP says `trusted: true`, all else is trusted unless it says `trusted: false`.
    What a client hands in (`given`) is untrusted whatever the SOP says, unless the user trusts it. What was kept has the label
    that it had in its run, unless the SOP says `trusted`.
    """
    foreign = given if remote is not None and not remote.trusted else ()
    found = {}
    for name, spec in program.sop.inputs.items():
        label = of_input(name) if name in foreign or not vouched_for(spec) else ""
        if name in kept and not spec.trusted:
            label = joined(kept[name].untrusted, of_input(name) if spec.trusted is False else "")
        if label:
            found[name] = label
    return found


def vouched_for(spec: Input) -> bool:
    """Whether an input's words may decide about actions."""
    return spec.type not in PATHS if spec.trusted is None else spec.trusted


def added(program: Program, there: Collection[str],
          load: Callable[[str], Any] | None = None) -> tuple[dict[str, str], dict[str, bytes]]:
    """What a run lacks whose SOP changed since: the defaults of inputs and the initial values of artifacts that have no version,
    by their digests, and the blobs. Raises UsageError for an input that has to be given.
    """
    reading = _Reading(program, load)
    found = initial_versions(program, reading.blobs, load)
    for name, spec in program.sop.inputs.items():
        if name in there:
            continue
        if spec.required:
            raise UsageError(f"the SOP has an input `{name}` now that the run was not given and that has no default: give it a "
                             "default, or start a new run that takes over what did not change (`sop run … --from RUN`)")
        found[name] = reading.digest_of(name, reading.value(name, spec.default))
    return {name: payload for name, payload in found.items() if name not in there}, reading.blobs


def initial_versions(program: Program, blobs: dict[str, bytes], load: Callable[[str], Any] | None = None) -> dict[str, str]:
    """Version 1 of every artifact with `initial`. `load` imports the models of `python:` schemas, of which a check knows
    nothing. Raises UsageError where a value does not fit such a model.
    """
    found = {}
    for name, spec in program.sop.artifacts.items():
        if spec.has_initial:
            try:
                found[name] = stored(_initial(program, name, blobs, load), blobs)
            except AnswerInvalid as error:
                raise UsageError(f"the initial value of `{name}` does not fit: {error}") from None
    return found


def _initial(program: Program, name: str, blobs: dict[str, bytes], load: Callable[[str], Any] | None) -> Data | Files | Items:
    """The payload of an artifact's `initial`: data, path → text, or key → value."""
    spec = program.sop.artifacts[name]
    if spec.files:
        for text in spec.initial.values():
            blobs[digest(text.encode())] = text.encode()
        return Files(patterns=spec.files, files={path: digest(text.encode()) for path, text in sorted(spec.initial.items())})
    check_value = validator(program.schemas.get(name, {"type": "string"}), name, load).validate
    if spec.each is None:
        return Data(value=check_value(spec.initial))
    return Items(items=tuple((key, stored(Data(value=check_value(value)), blobs)) for key, value in spec.initial.items()))


def stand_ins(program: Program, given: Mapping[str, Any], blobs: dict[str, bytes]) -> dict[str, str]:
    """Artifact or step (`NAME@2` in one round, `STEP/NAME` in a sub-SOP) → digest of the value that stands in for the work; the
    payloads go to `blobs`. Raises UsageError.
    """
    found = {}
    for artifact, value in given.items():
        try:
            *steps, (name, _, _) = given_name(artifact)
        except ValueError as error:
            raise UsageError(str(error)) from None
        sop = program.inside([step.step for step in steps]).sop
        made = dict.fromkeys(name for step, written in sop.steps.items() for name in (written.makes.artifact, step))
        if name not in made:
            raise UsageError(f"a value is given for `{name}`, which no step makes: {did_you_mean(name, made)}")
        try:
            payload, loaded = held(unloaded(value))
            found[artifact] = stored(payload, blobs)
        except (TypeError, ValueError) as error:
            raise UsageError(f"what is given for `{artifact}` is not JSON: {error}") from None
        blobs.update(loaded)
    return found
