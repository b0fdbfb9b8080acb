"""What a run is given: values of the SOP's inputs, checked against their types, and read from files and folders."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from metaflow_agents.errors import AnswerInvalid, UsageError, did_you_mean
from metaflow_agents.schema import paths
from metaflow_agents.schema.binary import content, described, unloaded
from metaflow_agents.schema.ignored import Ignored, TooMany, holds_secrets
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Binary, Data, Files, held, pack
from metaflow_agents.schema.payload import Collection as Items
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS, Input
from metaflow_agents.schema.trust import joined, of_input
from metaflow_agents.schema.validation import validator
from metaflow_agents.texts.strict_json import read

if TYPE_CHECKING:                       # loads SQLite and asyncio, and `sop run --help` reads the inputs of a SOP
    from metaflow_agents.journal.keeping import Kept

MAX_BYTES = 64 * 1024 * 1024
_IGNORE_BYTES = 1 << 18
_ONLY_BITS = "only its executable bit"
_PART = re.compile(r"its part `.*?` (?=ends |is )", re.DOTALL)
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Remote:
    """The client of a server, who hands in inputs and is not the user whose files and rights the run has.

    `root`: the folder below which the files and folders lie that the client may name, None where it may name none. `trusted`:
    whether the user vouches for what the client hands in, as for their own command line.
    """

    root: Path | None = None
    trusted: bool = False

    def find(self, written: Any) -> Path:
        """The path that the client names, below the root. Raises UsageError; the file itself is not looked at."""
        if self.root is None:
            raise UsageError("this server reads no files for its clients: start it with `--root FOLDER` for those in a folder")
        path = Path(str(written) if isinstance(written, str | Path) and str(written).isprintable() else "..")
        inside = path.relative_to(self.root) if path.is_absolute() and path.is_relative_to(self.root) else path
        if inside.is_absolute() or ".." in inside.parts:
            raise UsageError(f"{str(written)[:200]!r} is not below the folder of this server, {self.root}: name a path in it")
        return self.root / inside

    def open(self, path: Path, flags: int) -> int:
        """A descriptor of what lies there, opened part by part so that no link leads out of the root. Raises OSError."""
        assert self.root is not None
        here = os.open(self.root, _WALK & ~os.O_NOFOLLOW)
        *above, name = path.relative_to(self.root).parts or (".",)
        try:
            for part in above:
                below = os.open(part, _WALK, dir_fd=here)
                os.close(here)
                here = below
            return os.open(name, flags, dir_fd=here)
        finally:
            os.close(here)


class Given(NamedTuple):
    """What a run is given. `payloads`: input → digest.

    `left_out`: input that is a folder → paths in it that are not read, and are with `everything`;
    `untaken`: input that is a folder → why paths in it are not read, whatever is asked for → these paths.
    """

    payloads: dict[str, str]
    blobs: dict[str, bytes]
    left_out: dict[str, tuple[str, ...]]
    untaken: dict[str, dict[str, tuple[str, ...]]]


def read_inputs(program: Program, given: Mapping[str, Any], load: Callable[[str], Any] | None = None,
                remote: Remote | None = None, *, everything: bool = False,
                kept: Mapping[str, Kept] | None = None) -> Given:
    """The inputs of a run. A missing optional input is left out.

    `given` holds values as a program has them: JSON values, and for `file` and `folder` a path; `remote` is who gave them, None
    for the user. Of folders, what their `.gitignore` files name, keys and journals are left out, unless `everything` is asked
    for. `load` imports the models of `python:` schemas.
    `kept`: values for inputs that are not given. Raises UsageError, saying every input that is missing, unknown or wrong.
    """
    declared = program.sop.inputs
    faults = [f"`{name}` is no input of this SOP: {did_you_mean(name, declared)}" for name in given if name not in declared]
    found: dict[str, str] = {}
    reading = _Reading(everything)
    blobs = reading.blobs
    for name, spec in declared.items():
        if name not in given and spec.required and name not in (kept or {}):
            described = f" ({spec.description})" if spec.description else ""
            faults.append(f"input `{name}` is missing{described}; give it with `--{name.replace('_', '-')} …`")
            continue
        value = given.get(name, spec.default)
        if name not in given and kept is not None and name in kept:
            try:
                found[name] = _take_over(program, name, kept[name], blobs, load)
            except AnswerInvalid as error:
                faults.append(f"input `{name}`: what {kept[name].source} left does not fit its type: {error}; "
                              f"give it with `--{name.replace('_', '-')} …`, as the SOP wants it now")
            continue
        try:
            packed = pack(_payload(program, name, value, reading, load, remote if name in given else None))
        except (AnswerInvalid, UsageError) as error:
            faults.append(f"input `{name}`: {error}")
            continue
        found[name] = digest(packed)
        blobs[found[name]] = packed
    if faults:
        raise UsageError("\n".join(faults))
    return Given(found, blobs, reading.left_out, reading.untaken)


def _take_over(program: Program, name: str, kept: Kept, blobs: dict[str, bytes], load: Callable[[str], Any] | None) -> str:
    """The digest of a kept value as the input's payload, checked as one that is given. Raises AnswerInvalid."""
    kind, value = program.sop.inputs[name].type, kept.value
    payload: Data | Binary | Files
    if value is None and not program.sop.inputs[name].required:
        payload = Data(value=None)              # what a run read where nothing had been kept yet
    elif kind == "folder":
        if not isinstance(value, Mapping) or not all(isinstance(one, str | bytes) for one in value.values()):
            raise AnswerInvalid([f"`{name}` has to be a set of files"])
        files = {path: one.encode() if isinstance(one, str) else one for path, one in sorted(value.items())}
        payload = Files(patterns=("**",), files={path: digest(data) for path, data in files.items()})
        blobs.update((digest(data), data) for data in files.values())
    elif kind == "file":
        if not isinstance(value, str | bytes):
            raise AnswerInvalid([f"`{name}` has to be the content of a file"])
        payload, new = held(unloaded(value))
        blobs.update(new)
    else:
        payload = Data(value=validator(program.schemas.get(f"input:{name}", {"type": "string"}), name, load).validate(value))
    packed = pack(payload)
    blobs[digest(packed)] = packed
    return digest(packed)


def labels(program: Program, given: Collection[str], remote: Remote | None = None,
           kept: Mapping[str, Kept] | None = None) -> dict[str, str]:
    """Input → what of it came from outside the user (`schema/trust.py`), for those that the user does not vouch for.

    Files and folders are untrusted unless the SOP says `trusted: true`, all else is trusted unless it says `trusted: false`.
    What a client hands in (`given`) is untrusted whatever the SOP says, unless the user trusts it. What was kept has the label
    that it had in its run, unless the SOP says `trusted`.
    """
    foreign = given if remote is not None and not remote.trusted else ()
    found = {}
    for name, spec in program.sop.inputs.items():
        label = of_input(name) if name in foreign or not vouched_for(spec) else ""
        if kept is not None and name in kept and not spec.trusted:
            label = joined(kept[name].untrusted, of_input(name) if spec.trusted is False else "")
        if label:
            found[name] = label
    return found


def vouched_for(spec: Input) -> bool:
    """Whether an input's words may decide about actions."""
    return spec.type not in PATHS if spec.trusted is None else spec.trusted


def parse_option(program: Program, name: str, text: str) -> Any:
    """The value that a command-line option holds: text, `@FILE`, or JSON for what is no text; for a list of texts one text is a
    list of it. Raises UsageError.
    """
    spec = program.sop.inputs[name]
    if spec.type in PATHS:
        return text
    file = text[1:] if text.startswith("@") else None
    if file is not None:
        text = _text(name, file)
    schema = program.schemas.get(f"input:{name}", {"type": "string"})
    if schema.get("type") == "string" or ("enum" in schema and text in schema["enum"]):
        return text
    if is_texts(schema) and not text.lstrip().startswith("["):
        return [text]
    try:
        return read(text)
    except ValueError as error:
        if {"type": "string"} in schema.get("anyOf", ()):
            return text                         # `string | null`: what is no JSON is the text that it says
        raise _no_value(name, text, schema, error, file) from None


def is_texts(schema: Mapping[str, Any]) -> bool:
    """Whether a value is a list of texts."""
    return schema.get("type") == "array" and schema.get("items", {}).get("type") == "string"


def _text(name: str, file: str) -> str:
    if not file:
        raise UsageError(f"input `{name}`: `@` names no file; write `@FILE`, or the value itself")
    path = Path(file)
    data = _read(path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"input `{name}`: {described(str(path), data)}, is no text (UTF-8); declare it `type: file` to hand in "
                         "any file") from None


def _no_value(name: str, text: str, schema: Mapping[str, Any], error: ValueError, file: str | None) -> UsageError:
    """What an option's text should have been. `file`: where it was read from."""
    if file is None and _is_file(text):
        return UsageError(f"input `{name}` is given `{text}`, the name of a file: write `@{text}` for what the file holds")
    whose = "" if file is None else f"{file}: "
    if "enum" in schema:
        return UsageError(f"{whose}input `{name}`: `{_cut(text)}` is no choice; {did_you_mean(text, map(str, schema['enum']))}")
    plain = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(str(schema.get("type")))
    if plain is not None:
        return UsageError(f"{whose}input `{name}` wants {plain}, not `{_cut(text)}`")
    if file is not None:
        return UsageError(f"{whose}input `{name}` wants JSON ({error})")
    return UsageError(f"input `{name}` wants JSON ({error}); in a shell: --input {name}='[\"a\", \"b\"]', or `@FILE` for what a "
                      "file holds")


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _is_file(text: str) -> bool:
    """Whether a text is the name of a file that is there."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):           # no name of a file: too long, or with a NUL
        return False


class _Reading:
    """One reading of all inputs."""

    def __init__(self, everything: bool) -> None:
        self.everything = everything
        self.blobs: dict[str, bytes] = {}
        self.left_out: dict[str, tuple[str, ...]] = {}
        self.untaken: dict[str, dict[str, tuple[str, ...]]] = {}


def _payload(program: Program, name: str, value: Any, reading: _Reading, load: Callable[[str], Any] | None,
             remote: Remote | None) -> Data | Binary | Files:
    kind = program.sop.inputs[name].type
    if value is None and not program.sop.inputs[name].required:
        return Data(value=None)
    if kind == "file":
        path = _path(value, remote)
        payload, blobs = held(content(_read(path, remote), path.name))
        reading.blobs.update(blobs)
        return payload
    if kind == "folder":
        folder = _Folder(_path(value, remote), reading.everything, remote, program.sop.inputs[name].exclude)
        files = folder.read()
        if folder.left_out:
            reading.left_out[name] = tuple(sorted(folder.left_out))
        if folder.untaken:
            reading.untaken[name] = {why: tuple(sorted(folder.untaken[why])) for why in sorted(folder.untaken)}
        reading.blobs.update((digest(data), data) for data in files.values())
        return Files(patterns=("**",), files={inner: digest(files[inner]) for inner in sorted(files)})
    return Data(value=validator(program.schemas.get(f"input:{name}", {"type": "string"}), name, load).validate(value))


def _path(value: Any, remote: Remote | None) -> Path:
    if remote is not None:
        return remote.find(value)
    if not isinstance(value, str | Path):
        raise UsageError(f"a path was expected, not {value!r}")
    return Path(str(value).removeprefix("@"))


def _read(path: Path, remote: Remote | None = None) -> bytes:
    """The bytes of a file. What the user names may be a pipe or a device; what a client names is a regular file."""
    if remote is None and path.is_dir():
        raise UsageError(f"{path} is a folder; a file was expected")
    try:
        with path.open("rb") if remote is None else open(remote.open(path, _READ), "rb") as file:
            if remote is not None and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is no regular file")
            data = file.read(MAX_BYTES + 1)         # what a device says has no size
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MiB")
        return data
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None


class _Folder:
    """One reading of a folder: its regular files, links not followed."""

    def __init__(self, folder: Path, everything: bool, remote: Remote | None, exclude: Sequence[str]) -> None:
        self._folder, self._everything, self._remote = folder, everything, remote
        self._ignored, self._excluded = Ignored(), Ignored()
        self._exclude = "\n".join(exclude)
        self._above = ""                        # of the folder, from the top of the repository that it lies in
        self._left = MAX_BYTES
        self._found: dict[str, bytes] = {}
        self.left_out: list[str] = []
        self.untaken: dict[str, list[str]] = {}

    def read(self) -> dict[str, bytes]:
        """Path → bytes. Raises UsageError."""
        folder = self._folder
        if self._remote is None and not folder.is_dir():
            raise UsageError(f"{folder} is {'a file' if folder.exists() else 'not there'}; a folder was expected")
        opened = None
        try:
            self._excluded.add(self._exclude)
            if not self._everything:
                self._look_above()
            top, opened = (folder, None) if self._remote is None else (Path("."), self._remote.open(folder, _WALK))
            for where, folders, names, here in os.fwalk(top, onerror=_refuse, dir_fd=opened):
                below = Path(where).relative_to(top).as_posix()
                prefix = "" if below == "." else f"{below}/"
                if not self._everything:
                    self._gitignore(here, prefix.removesuffix("/"))
                folders[:] = [name for name in folders if self._takes(prefix + name, folder=True) and
                              not self._is_link(prefix + name, name, here)]
                for name in names:
                    self._take(prefix + name, name, here)
        except OSError as error:
            raise UsageError(f"can't read {folder}: {error.strerror}") from None
        except TooMany as error:
            raise UsageError(f"{folder}: {error}; `--everything` takes all files of folders") from None
        finally:
            if opened is not None:
                os.close(opened)
        return self._found

    def _take(self, path: str, name: str, here: int) -> None:
        if not self._takes(path, folder=False):
            return
        data = _regular(name, here, self._left)
        if data is not None:
            self._left -= len(data)
            self._found[path] = data
            if os.stat(name, dir_fd=here, follow_symlinks=False).st_mode & 0o111:
                self.untaken.setdefault(_ONLY_BITS, []).append(path)
        elif not self._is_link(path, name, here):
            self.untaken.setdefault("no regular file", []).append(path)
        if self._left < 0:
            raise UsageError(f"{self._folder} holds more than {MAX_BYTES // 1024 // 1024} MiB")

    def _takes(self, path: str, *, folder: bool) -> bool:
        name = path.rpartition("/")[2]
        if name.casefold() == ".git":
            return False                        # never part of it, and nobody asks for it
        excluded = self._excluded.leaves_out(path, folder=folder)
        why = "`exclude` names it" if excluded else _refusal(path)
        if why is not None:
            self.untaken.setdefault(why, []).append(_written(path) + "/" * folder)
            return False
        if not self._everything and (holds_secrets(name, folder=folder)
                                     or self._ignored.leaves_out(self._above + path, folder=folder)):
            self.left_out.append(f"{path}/" if folder else path)
            return False
        return True

    def _is_link(self, path: str, name: str, here: int) -> bool:
        """Whether it is a link, which is told then: links are not followed, to files or to folders."""
        link = stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
        if link:
            self.untaken.setdefault("a link", []).append(path)
        return link

    def _look_above(self) -> None:
        """The `.gitignore` files of the folders around it, up to the top of its repository."""
        if self._remote is not None and self._remote.root is not None:
            here, top = self._folder, self._remote.root
        else:
            here = self._folder.resolve()
            top = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
        around = here.relative_to(top).parts
        self._above = "".join(f"{part}/" for part in around)
        for depth in range(len(around)):
            above = top.joinpath(*around[:depth])
            opened = os.open(above, _WALK) if self._remote is None else self._remote.open(above, _WALK)
            try:
                self._add(opened, "/".join(around[:depth]))
            finally:
                os.close(opened)

    def _gitignore(self, here: int, below: str) -> None:
        self._add(here, (self._above + below).removesuffix("/"))

    def _add(self, here: int, below: str) -> None:
        try:
            data = _regular(".gitignore", here, _IGNORE_BYTES)
        except FileNotFoundError:
            return
        if data is not None and len(data) > _IGNORE_BYTES:
            raise TooMany(f"a .gitignore has more than {_IGNORE_BYTES:,} bytes")
        self._ignored.add((data or b"").decode("utf-8", "replace"), below)


def _refusal(path: str) -> str | None:
    """Why a path can't be one of a set of files, in words that name no part: paths are told by their reason."""
    if any("\udc80" <= char <= "\udcff" for char in path):
        return "its name is not UTF-8"
    why = paths.refusal(path)
    return None if why is None else _PART.sub("a part of its path ", why)


def _written(path: str) -> str:
    """A path as text, also where its bytes are none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _refuse(error: OSError) -> None:
    raise error                                 # or a folder that can't be opened would be taken for an empty one


def _regular(name: str, folder: int, most: int) -> bytes | None:
    """A file of an open folder, up to one byte more than `most`; None for links, pipes and devices, which are no files of it."""
    try:
        file = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):       # a link; a socket
            return None
        raise
    with open(file, "rb") as opened:
        return opened.read(most + 1) if stat.S_ISREG(os.fstat(file).st_mode) else None


def added(program: Program, there: Collection[str],
          load: Callable[[str], Any] | None = None) -> tuple[dict[str, str], dict[str, bytes]]:
    """What a run lacks whose SOP changed since: the defaults of inputs and the initial values of artifacts that have no version,
    by their digests, and the blobs. Raises UsageError for an input that has to be given.
    """
    blobs: dict[str, bytes] = {}
    found = initial_versions(program, blobs, load)
    for name, spec in program.sop.inputs.items():
        if name in there:
            continue
        if spec.required:
            raise UsageError(f"the SOP has an input `{name}` now that the run was not given and that has no default: give it a "
                             "default, or start a new run that takes over what did not change (`sop run … --from RUN`)")
        packed = pack(_payload(program, name, spec.default, _Reading(False), load, None))
        found[name] = digest(packed)
        blobs[found[name]] = packed
    return {name: payload for name, payload in found.items() if name not in there}, blobs


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
                    load: Callable[[str], Any] | None = None) -> Data | Files | Items:
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
    return Items(items=tuple(items))
