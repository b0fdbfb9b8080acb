"""What a run is given: values of the SOP's inputs, checked against their types, and read from files and folders."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from metaflow_agents.errors import AnswerInvalid, UsageError, did_you_mean
from metaflow_agents.schema import paths
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Collection, Data, Files, pack
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import Input
from metaflow_agents.schema.trust import of_input
from metaflow_agents.schema.validation import validator

MAX_BYTES = 64 * 1024 * 1024


def read_inputs(program: Program, given: Mapping[str, Any],
                load: Callable[[str], Any] | None = None) -> tuple[dict[str, str], dict[str, bytes]]:
    """Input → digest of its payload, and the blobs. A missing optional input is left out.

    `given` holds values as a program has them: JSON values, and for `file` and `folder` a path. `load` imports the models
    of `python:` schemas. Raises UsageError, saying every input that is missing, unknown or wrong.
    """
    declared = program.sop.inputs
    faults = [f"`{name}` is no input of this SOP: {did_you_mean(name, declared)}" for name in given if name not in declared]
    found: dict[str, str] = {}
    blobs: dict[str, bytes] = {}
    for name, spec in declared.items():
        if name not in given and spec.required:
            described = f" ({spec.description})" if spec.description else ""
            faults.append(f"input `{name}` is missing{described}; give it with `--{name.replace('_', '-')} …`")
            continue
        value = given.get(name, spec.default)
        try:
            packed = pack(_payload(program, name, value, blobs, load))
        except (AnswerInvalid, UsageError) as error:
            faults.append(f"input `{name}`: {error}")
            continue
        found[name] = digest(packed)
        blobs[found[name]] = packed
    if faults:
        raise UsageError("\n".join(faults))
    return found, blobs


def labels(program: Program, given: Mapping[str, str]) -> dict[str, str]:
    """Input → what of it came from outside the user (`schema/trust.py`), for those of `given` that the user does not vouch for.

    Files and folders are untrusted unless the SOP says `trusted: true`, all else is trusted unless it says `trusted: false`.
    """
    return {name: of_input(name) for name in given if not vouched_for(program.sop.inputs[name])}


def vouched_for(spec: Input) -> bool:
    """Whether an input's words may decide about actions."""
    return spec.type not in ("file", "folder") if spec.trusted is None else spec.trusted


def parse_option(program: Program, name: str, text: str) -> Any:
    """The value that a command-line option holds: text, `@FILE`, or JSON for what is no text. Raises UsageError."""
    spec = program.sop.inputs[name]
    if spec.type in ("file", "folder"):
        return text
    if text.startswith("@"):
        text = _read(Path(text[1:])).decode("utf-8", "replace")
    schema = program.schemas.get(f"input:{name}", {"type": "string"})
    if schema.get("type") == "string" or ("enum" in schema and text in schema["enum"]):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        if {"type": "string"} in schema.get("anyOf", ()):
            return text                         # `string | null`: what is no JSON is the text that it says
        raise _no_value(name, text, schema, error) from None


def _no_value(name: str, text: str, schema: Mapping[str, Any], error: ValueError) -> UsageError:
    """What an option's text should have been."""
    if "enum" in schema:
        return UsageError(f"input `{name}`: `{text}` is no choice; {did_you_mean(text, map(str, schema['enum']))}")
    plain = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(str(schema.get("type")))
    if plain is not None:
        return UsageError(f"input `{name}` wants {plain}, not `{text}`")
    return UsageError(f"input `{name}` wants JSON ({error}); in a shell: --{name} '[\"a\", \"b\"]'")


def _payload(program: Program, name: str, value: Any, blobs: dict[str, bytes],
             load: Callable[[str], Any] | None) -> Data | Files:
    kind = program.sop.inputs[name].type
    if value is None and not program.sop.inputs[name].required:
        return Data(value=None)
    if kind == "file":
        return Data(value=_read(_path(value)).decode("utf-8", "replace"))
    if kind == "folder":
        return _folder(_path(value), blobs)
    return Data(value=validator(program.schemas.get(f"input:{name}", {"type": "string"}), name, load).validate(value))


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise UsageError(f"a path was expected, not {value!r}")
    return Path(str(value).removeprefix("@"))


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; a file was expected")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)         # what a device says has no size
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MiB")
        return data
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None


def _folder(folder: Path, blobs: dict[str, bytes]) -> Files:
    if not folder.is_dir():
        raise UsageError(f"{folder} is {'a file' if folder.exists() else 'not there'}; a folder was expected")
    found: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        for where, _, names, here in os.fwalk(folder):
            below = Path(where).relative_to(folder)
            for name in names:
                inner = (below / name).as_posix()
                data = None if paths.refusal(inner) else _regular(name, here, left)
                if data is not None:
                    left -= len(data)
                    found[inner] = data
                if left < 0:
                    raise UsageError(f"{folder} holds more than {MAX_BYTES // 1024 // 1024} MiB")
    except OSError as error:
        raise UsageError(f"can't read {folder}: {error.strerror}") from None
    files = {inner: digest(found[inner]) for inner in sorted(found)}
    blobs.update((files[inner], found[inner]) for inner in files)
    return Files(patterns=("**",), files=files)


def _regular(name: str, folder: int, most: int) -> bytes | None:
    """A file of an open folder, up to one byte more than `most`; None for links, pipes and devices, which are no files of it."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):       # a link; a socket
            return None
        raise
    with open(file, "rb") as opened:
        return opened.read(most + 1) if stat.S_ISREG(os.fstat(file).st_mode) else None


def initial_versions(program: Program, blobs: dict[str, bytes], load: Callable[[str], Any] | None = None) -> dict[str, str]:
    """Version 1 of every artifact with `initial`. `load` imports the models of `python:` schemas, of which a check knows
    nothing. Raises UsageError where a value does not fit such a model.
    """
    found = {}
    for name, spec in program.sop.artifacts.items():
        if spec.has_initial:
            try:
                packed = pack(initial_payload(program, name, blobs, load))
            except AnswerInvalid as error:
                raise UsageError(f"the initial value of `{name}` does not fit: {error}") from None
            found[name] = digest(packed)
            blobs[found[name]] = packed
    return found


def initial_payload(program: Program, name: str, blobs: dict[str, bytes],
                    load: Callable[[str], Any] | None = None) -> Data | Files | Collection:
    """The payload of an artifact's `initial`: data, path → text, or key → value."""
    spec = program.sop.artifacts[name]
    if spec.files:
        for text in spec.initial.values():
            blobs[digest(text.encode())] = text.encode()
        return Files(patterns=spec.files, files={path: digest(text.encode()) for path, text in sorted(spec.initial.items())})
    check_value = validator(program.schemas.get(name, {"type": "string"}), name, load).validate
    if spec.each is None:
        return Data(value=check_value(spec.initial))
    items = []
    for key, value in spec.initial.items():
        packed = pack(Data(value=check_value(value)))
        blobs[digest(packed)] = packed
        items.append((key, digest(packed)))
    return Collection(items=tuple(items))
