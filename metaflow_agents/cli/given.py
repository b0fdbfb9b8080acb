"""The inputs of a SOP as options of `sop run`: `--idea x`, `--idea=x`, `--time-limit 3` for `time_limit`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.cli.output import prompt
from metaflow_agents.errors import AnswerInvalid, UsageError, did_you_mean
from metaflow_agents.runtime.input_options import is_file, is_texts, parse_option
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS, Input
from metaflow_agents.schema.validation import validator
from metaflow_agents.texts.strict_json import read
from metaflow_agents.views.page import Page, safe, table


@dataclass(slots=True)
class Words:
    """What a command line holds besides the options of `sop run` itself: the SOP, and options to be understood with it."""

    file: str | None = None
    options: list[tuple[str, str | None]] = field(default_factory=list)


def split(words: Sequence[str]) -> Words:
    """Sorts words into the SOP's file and options with their values. Raises UsageError for a second file."""
    found = Words()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, sign, value = word.partition("=")
            if sign:
                found.options.append((name, value))
            else:
                found.options.append((name, rest.pop(0) if rest and not rest[0].startswith("--") else None))
        elif word.startswith("-") and len(word) > 1:
            raise UsageError(f"no option `{word}`: an input is written `--NAME VALUE`, "
                             "and a value that begins with a dash `--NAME=VALUE`")
        elif found.file is None:
            found.file = word
        else:
            raise UsageError(f"`{word}` is one word too many, after {found.file}: an input is written `--NAME VALUE`, "
                             "and a value of several words stands in quotes")
    return found


def read_options(program: Program, options: Iterable[tuple[str, str | None]], own: Sequence[str]) -> dict[str, Any]:
    """Input → value. `own` are the options of the command itself, for the nearest name. Raises UsageError."""
    declared = {option_of(name): name for name in program.sop.inputs}
    found: dict[str, Any] = {}
    for option, text in options:
        name = declared.get(option.replace("_", "-"))
        if name is None:
            raise UsageError(f"no option `{option}` for {program.sop.sop}: {did_you_mean(option, [*declared, *own], limit=24)}")
        if name in found and not is_texts(program.schemas.get(f"input:{name}", {})):
            raise UsageError(f"`{option}` is given twice")
        if text is None and _is_switch(program, name):
            text = "true"
        if text is None:
            raise UsageError(f"`{option}` wants a value{_described(program.sop.inputs[name])}")
        value = parse_option(program, name, text)
        found[name] = [*found[name], *value] if name in found else value
    return found


def named_files(program: Program, options: Iterable[tuple[str, str | None]]) -> list[str]:
    """A line for each text that is the name of a file that is there: who wrote it may have meant what the file holds."""
    declared = {option_of(name): name for name in program.sop.inputs}
    told = []
    for option, text in options:
        name = declared[option.replace("_", "-")]
        if text is not None and program.sop.inputs[name].type not in PATHS and is_file(text):
            told.append(f"`{option} {text}` is taken as text, and a file of that name is there: write `{option} @{text}` for "
                        "what it holds")
    return told


def read_pairs(program: Program, pairs: Sequence[str]) -> dict[str, Any]:
    """`--input NAME=VALUE`, for inputs that are called like an option of the command. Raises UsageError."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise UsageError(f"`--input {pair}`: write `--input NAME=VALUE`")
        if name not in program.sop.inputs:
            raise UsageError(f"`{name}` is no input of {program.sop.sop}: {did_you_mean(name, program.sop.inputs)}")
        if name in found:
            raise UsageError(f"`--input {name}=…` is given twice")
        found[name] = parse_option(program, name, text)
    return found


def read_values(program: Program, pairs: Sequence[str]) -> dict[str, Any]:
    """`--stub ARTIFACT=JSON`, `STEP/ARTIFACT=JSON` in a sub-SOP. Raises UsageError."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise UsageError(f"`--stub {pair}`: write `--stub ARTIFACT=JSON`")
        *steps, artifact = name.split("/")
        sop = program.inside(steps).sop
        if artifact not in sop.artifacts:
            raise UsageError(f"`{artifact}` is no artifact of {sop.sop}: {did_you_mean(artifact, sop.artifacts)}")
        try:
            found[name] = read(text)
        except ValueError as error:
            raise UsageError(f"`--stub {name}=…` is no JSON ({error}); a text stands in quotes: "
                             f"--stub '{name}=\"…\"'") from error
    return found


def ask(program: Program, given: Mapping[str, Any]) -> dict[str, Any]:
    """Asks a person at the terminal for every input that is required and missing, until it fits."""
    found: dict[str, Any] = {}
    for name, spec in program.sop.inputs.items():
        if name in given or not spec.required:
            continue
        while name not in found:
            prompt(f"{name}{_described(spec)}: ")
            line = sys.stdin.readline()
            if not line:
                raise KeyboardInterrupt
            try:
                found[name] = _fitting(program, name, line.rstrip("\n"))
            except (UsageError, AnswerInvalid) as error:
                prompt(f"  {error}\n")
    return found


def refuse_missing(program: Program, given: Mapping[str, Any], own: Sequence[str]) -> None:
    """Raises UsageError, naming every input that is required and missing. `own` are the options of the command itself."""
    missing = {name: spec for name, spec in program.sop.inputs.items() if spec.required and name not in given}
    if not missing:
        return
    told = [f"`{_spelt(name, own)}{'…' if option_of(name) in own else ''}`{_described(spec)}" for name, spec in missing.items()]
    taken = [f"`{option_of(name)}`" for name in missing if option_of(name) in own]
    why = f" (the command has {' and '.join(taken)} itself)" if taken else ""
    raise UsageError(f"missing required option{'s' if len(told) > 1 else ''} of {program.sop.sop}: {', '.join(told)}{why}")


def help_lines(program: Program, own: Sequence[str], page: Page) -> list[str]:
    """What the SOP is for and its own inputs, as `sop run FILE --help` lists them."""
    about = [*page.wrapped(safe(f"{program.sop.sop}: {program.sop.description}")), ""] if program.sop.description else []
    if not program.sop.inputs:
        return [*about, f"{program.sop.sop} has no inputs"]
    rows = []
    for name, spec in program.sop.inputs.items():
        default = "required" if spec.required else "optional" if spec.default is None else f"default: {spec.default!r}"
        rows.append([_spelt(name, own), _kind(program, name), f"{spec.description}{' ' if spec.description else ''}({default})"])
    return [*about, f"Inputs of {program.sop.sop}: text (TEXT… again and again), @FILE, JSON for lists and mappings, a path for "
            "a file or folder",
            *table(rows, page, indent="  ")]


def option_of(name: str) -> str:
    """The option that an input is: `time_limit` → `--time-limit`."""
    return "--" + name.replace("_", "-")


def _spelt(name: str, own: Sequence[str]) -> str:
    """How an input is given: by its option, or by `--input` where the command has an option of that name itself."""
    return option_of(name) if option_of(name) not in own else f"--input {name}="


def _fitting(program: Program, name: str, text: str) -> Any:
    if not text.strip():
        raise UsageError("it is required: write something")
    value = parse_option(program, name, text)
    schema = program.schemas.get(f"input:{name}", {"type": "string"})
    if program.sop.inputs[name].type not in PATHS and "$python" not in schema:      # such a model the run imports
        validator(schema, name).validate(value)
    return value


def _described(spec: Input) -> str:
    return f" ({spec.description})" if spec.description else ""


def _is_switch(program: Program, name: str) -> bool:
    return program.schemas.get(f"input:{name}", {}).get("type") == "boolean"


def _kind(program: Program, name: str) -> str:
    spec = program.sop.inputs[name]
    if spec.type in PATHS:
        return str(spec.type).upper()
    schema = program.schemas.get(f"input:{name}", {"type": "string"})
    if "enum" in schema:
        return "|".join(str(choice) for choice in schema["enum"])
    kind = schema.get("type")
    if is_texts(schema):
        return "TEXT…"
    return {"string": "TEXT", "integer": "NUMBER", "number": "NUMBER", "boolean": "true|false"}.get(str(kind), "JSON")
