"""What a page asks of a run, as the words of a command line. Nothing of it is an option that the page does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from metaflow_agents.errors import SOPInvalid, UsageError, did_you_mean
from metaflow_agents.journal.places import fine_name, free_name, journal_path
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS
from metaflow_agents.sop.load import read_sop
from metaflow_agents.web.places import input_path, sop_file
from metaflow_agents.web.uploads import Uploads

_LONGEST = 2000                     # characters of a value that goes on the command line; what is longer goes by a file
_KEYS = {"run": ("file", "inputs", "model", "models", "budget", "name", "dry_tools", "demo", "sandbox", "from"),
         "resume": ("run", "model", "models", "budget", "until", "accept_changes", "retry_changed_prompts", "sandbox"),
         "fork": ("run", "at", "name")}
_FLAGS = {"dry_tools": "--dry-tools", "demo": "--demo", "accept_changes": "--accept-changes",
          "retry_changed_prompts": "--retry-changed-prompts"}


class Names:
    """Names of runs that are about to begin, so that two which are begun at once get two."""

    def __init__(self, workspace: Path) -> None:
        self._workspace, self._lock = workspace, Lock()
        self._taken: set[str] = set()

    def take(self, base: str) -> str:
        """A free name, which is taken until the server ends."""
        with self._lock:
            number = 1
            while (name := free_name(self._workspace, base, number)) in self._taken:
                number = int(name.rpartition("-")[2]) + 1
            self._taken.add(name)
        return name


def run_words(body: Mapping[str, Any], folder: Path, workspace: Path, uploads: Uploads, names: Names) -> tuple[str, list[str]]:
    """The new run's name, and the words of `sop run`. Raises UsageError, SOPNotFound, SOPInvalid."""
    _refuse_unknown(body, "run")
    file = sop_file(folder, _text(body, "file"))
    reading = read_sop(file)
    if reading.loaded is None:
        raise SOPInvalid(reading.problems)
    program = reading.loaded.program
    words = ["run", str(file), *_inputs(program, body.get("inputs", {}), folder, workspace, uploads), *_options(body)]
    if body.get("from"):
        words.append(f"--from={fine_name(_text(body, 'from'))}")
    wanted = _text(body, "name") if body.get("name") else ""
    if wanted and journal_path(workspace, wanted).exists():
        raise UsageError(f"there is a run `{wanted}` already: give another name")
    name = wanted or names.take(program.sop.sop)
    return name, [*words, f"--name={name}", *_common(workspace)]


def resume_words(body: Mapping[str, Any], workspace: Path) -> tuple[str, list[str]]:
    """The run's name, and the words of `sop resume`. Raises UsageError."""
    _refuse_unknown(body, "resume")
    name = fine_name(_text(body, "run"))
    until = [f"--until={_text(body, 'until')}"] if body.get("until") else []
    return name, ["resume", name, *_options(body), *until, *_common(workspace)]


def fork_words(body: Mapping[str, Any]) -> list[str]:
    """What follows `sop fork`. Raises UsageError."""
    _refuse_unknown(body, "fork")
    at = [f"--at={_text(body, 'at')}"] if body.get("at") else []
    name = [f"--name={fine_name(_text(body, 'name'))}"] if body.get("name") else []
    return [fine_name(_text(body, "run")), *at, *name]


def _common(workspace: Path) -> list[str]:
    return [f"--workspace={workspace}", "--progress=plain"]


def _options(body: Mapping[str, Any]) -> Iterator[str]:
    if body.get("model"):
        yield f"--model={_text(body, 'model')}"
    for name, model in _mapping(body, "models").items():
        yield f"--model={name}={model}"
    for cap, most in _mapping(body, "budget").items():
        yield f"--budget={cap}={most}"
    if body.get("sandbox"):
        if body["sandbox"] == "none":
            raise UsageError("`none` runs commands unconfined, and no page may ask for that: a terminal may, `--sandbox none`")
        yield f"--sandbox={_text(body, 'sandbox')}"
    for key, option in _FLAGS.items():
        if not isinstance(body.get(key, False), bool):
            raise UsageError(f"`{key}` is true or false")
        if body.get(key):
            yield option


def _inputs(program: Program, given: Any, folder: Path, workspace: Path, uploads: Uploads) -> Iterator[str]:
    if not isinstance(given, dict):
        raise UsageError("`inputs` is an object: input → value")
    for name, value in given.items():
        if name not in program.sop.inputs:
            raise UsageError(f"`{name}` is no input of {program.sop.sop}: {did_you_mean(name, program.sop.inputs)}")
        if program.sop.inputs[name].type in PATHS:
            if not isinstance(value, str) or not value:
                raise UsageError(f"input `{name}`: the path of a {program.sop.inputs[name].type} was expected")
            yield f"--input={name}={input_path(folder, workspace, value)}"
            continue
        yield f"--input={name}={_written(program, name, value, uploads)}"


def _written(program: Program, name: str, value: Any, uploads: Uploads) -> str:
    """A value as an option has it. A text that begins with `@` would be the name of a file there, so it goes by one."""
    schema = program.schemas.get(f"input:{name}", {"type": "string"})
    as_it_is = isinstance(value, str) and (schema.get("type") == "string" or value in schema.get("enum", ()))
    text = value if as_it_is else json.dumps(value, ensure_ascii=False)
    if len(text) <= _LONGEST and not text.startswith("@") and "\0" not in text:
        return text
    return f"@{uploads.put(f'{name}.txt', text.encode())[0].resolve()}"


def _mapping(body: Mapping[str, Any], key: str) -> dict[str, str]:
    found = body.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(value, str | int | float) for value in found.values()):
        raise UsageError(f"`{key}` is an object of texts")
    return {name: str(value) for name, value in found.items()}


def _text(body: Mapping[str, Any], key: str) -> str:
    found = body.get(key)
    if not isinstance(found, str) or not found:
        raise UsageError(f"`{key}` is {found!r:.80}: a text was expected")
    if "\0" in found:
        raise UsageError(f"`{key}` holds a NUL")
    return found


def _refuse_unknown(body: Mapping[str, Any], what: str) -> None:
    for key in body:
        if key not in _KEYS[what]:
            raise UsageError(f"`{key}` is nothing that can be said of it: {did_you_mean(key, _KEYS[what])}")
