"""Values of inputs as the command line's options write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.runtime.input_files import read_file
from metaflow_agents.schema.binary import described
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS
from metaflow_agents.texts.strict_json import read


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
    data = read_file(path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"input `{name}`: {described(str(path), data)}, is no text (UTF-8); declare it `type: file` to hand in "
                         "any file") from None


def _no_value(name: str, text: str, schema: Mapping[str, Any], error: ValueError, file: str | None) -> UsageError:
    """What an option's text should have been. `file`: where it was read from."""
    if file is None and is_file(text):
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


def is_file(text: str) -> bool:
    """Whether a text is the name of a file that is there."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):           # no name of a file: too long, or with a NUL
        return False
