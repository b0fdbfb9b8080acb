"""Values that the SOP writes down: defaults of inputs, first values of artifacts; and whether a value fits its schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from metaflow_agents.errors import AnswerInvalid, did_you_mean
from metaflow_agents.schema import paths
from metaflow_agents.schema.checks import may_be_slow
from metaflow_agents.schema.minimal_example import SmallestUnknown, smallest
from metaflow_agents.schema.sop import PATHS
from metaflow_agents.schema.validation import validator
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.plans import node_faults

_TEXT: dict[str, Any] = {"type": "string"}
_FAULT_PATH = re.compile(r"`([A-Za-z_][\w.\[\]-]*)`")


def check_values(c: Context) -> None:
    """Each written value fits its schema."""
    for name, given in c.sop.inputs.items():
        if given.exclude and given.type != "folder":
            c.say("exclude-input", ("inputs", name, "exclude"), f"`{name}` is no folder: there is nothing to leave out of it",
                  "write `type: folder`, or remove `exclude`")
        if given.keep is not None:
            _keeps(c, name, given.keep)
        if "default" in given.model_fields_set:
            fits(c, "default-value", ("inputs", name, "default"), f"the default of `{name}`", input_schema(c, name),
                  given.default)
    for name, artifact in c.sop.artifacts.items():
        if artifact.has_initial:
            _artifact_fits(c, "initial-value", ("artifacts", name, "initial"), f"the initial value of `{name}`", name,
                           artifact.initial)
            for fault in node_faults(artifact, artifact.initial):
                c.say("initial-value", ("artifacts", name, "initial"), f"the initial value of `{name}` is no graph: {fault}",
                      "mend it there")


def _keeps(c: Context, name: str, artifact: str) -> None:
    """What an input is kept from is an artifact that can be read as the input's type, and the first run has a value too."""
    where = ("inputs", name, "keep")
    if artifact not in c.sop.artifacts:
        c.say("keep-input", where, f"`{artifact}` is no artifact of this SOP: no run leaves it",
              did_you_mean(artifact, c.sop.artifacts))
    elif bool(c.sop.artifacts[artifact].files) != (c.sop.inputs[name].type == "folder"):
        c.say("keep-input", where, f"`{name}` can't be read from `{artifact}`: a set of files is read as a folder, and "
              "nothing else is", "write `type: folder` for an artifact with `files`, or name another artifact")
    if c.sop.inputs[name].required:
        c.say("keep-input", where, f"`{name}` has no value in the first run: nothing is kept yet",
              "give it a `default`, or write `optional: true`")


def _schema(c: Context, name: str) -> dict[str, Any] | None:
    """The schema of an artifact's value (of one item, for a collection); None where nothing can be said."""
    schema = c.fixed(name) or c.program.schemas.get(name)
    if schema is not None:
        return None if "$python" in schema else schema
    return _TEXT if c.shape(name).kind == "string" else None


def input_schema(c: Context, name: str) -> dict[str, Any] | None:
    """The schema of an input's value, a text for a path; None where nothing can be said."""
    if c.sop.inputs[name].type in PATHS:
        return _TEXT
    schema = c.program.schemas.get(f"input:{name}")
    return None if schema is None or "$python" in schema else schema


def _artifact_fits(c: Context, code: str, where: Place, what: str, name: str, value: Any) -> None:
    artifact = c.sop.artifacts[name]
    if artifact.files:
        _files_fit(c, code, where, what, name, value)
    elif "each" in artifact.model_fields_set:
        if not isinstance(value, dict):
            c.say(code, where, f"{what} has to be a mapping, key to item, and is {called(value)}", "write `{KEY: ITEM}`")
            return
        for key, item in value.items():
            fits(c, code, (*where, key), f"the item `{key}`", _schema(c, name), item)
    else:
        fits(c, code, where, what, _schema(c, name), value)


def _files_fit(c: Context, code: str, where: Place, what: str, name: str, value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        c.say(code, where, f"{what} has to be a mapping, path to text, and is {called(value)}", "write `{PATH: TEXT}`")
        return
    patterns = c.sop.artifacts[name].files
    for path in value:
        why = paths.refusal(path)
        if why or not (any("{{" in pattern for pattern in patterns) or paths.matches(patterns, path)):
            c.say(code, (*where, path), f"`{path}` is refused: {why or f'it lies outside of `{name}`'}",
                  f"its files are: {', '.join(patterns)}", key=True)


def given_fits(c: Context, where: Place, name: str, value: Any) -> None:
    """A given value stands over the smallest valid one, so that a test says only what matters to it."""
    artifact, schema = c.sop.artifacts[name], _schema(c, name)
    if artifact.files or schema is None:
        if artifact.files:
            _files_fit(c, "test-value", where, f"what the test gives as `{name}`", name, value)
        return
    if "each" in artifact.model_fields_set:
        _artifact_fits(c, "test-value", where, f"what the test gives as `{name}`", name,
                       {key: _over(schema, item) for key, item in value.items()} if isinstance(value, dict) else value)
    else:
        fits(c, "test-value", where, f"what the test gives as `{name}`", schema, _over(schema, value))


def _over(schema: Mapping[str, Any], value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    try:
        return _merged(smallest(schema, "given"), value)
    except SmallestUnknown:
        return value


def _merged(base: Any, value: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(value, dict):
        return value
    return {**base, **{key: _merged(base.get(key), inner) for key, inner in value.items()}}


def fits(c: Context, code: str, where: Place, what: str, schema: Mapping[str, Any] | None, value: Any) -> None:
    """Tells every fault of a value against its schema; None: nothing is known of it."""
    if schema is None:
        return
    try:
        validator(_without_slow_patterns(schema), "value").validate(value)
    except AnswerInvalid as error:
        for fault in error.faults:
            c.say(code, _deep(c, where, fault), f"{what} does not fit: {fault}", "write a value of its schema")


def _without_slow_patterns(schema: Any) -> Any:
    """The schema less the regular expressions that could take for ever: a check has to end, whatever the file says."""
    if isinstance(schema, Mapping):
        slow = isinstance(schema.get("pattern"), str) and may_be_slow(schema["pattern"])
        return {key: _without_slow_patterns(inner) for key, inner in schema.items() if not (slow and key == "pattern")}
    return [_without_slow_patterns(inner) for inner in schema] if isinstance(schema, list) else schema


def _deep(c: Context, where: Place, fault: str) -> Place:
    """The place of the part that a fault names, as far as it is written."""
    match = _FAULT_PATH.search(fault)
    for key, index in re.findall(r"([\w-]+)|\[(\d+)\]", match[1]) if match else ():
        part: str | int = int(index) if index else key
        if not c.has(*where, part):
            break
        where = (*where, part)
    return where


def called(value: Any) -> str:
    """What kind of value it is, in words."""
    if value is None:
        return "empty"
    return {dict: "a mapping", list: "a list", str: "a text", bool: "true or false"}.get(type(value), "a number")
