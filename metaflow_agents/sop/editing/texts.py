"""The expressions and templates of a SOP as it is written, each with its path: the table by which names in them are found.

It speaks of the written form, so that it holds for a text that `sop check` still refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from metaflow_agents.schema.scalars import NAME_PATTERN
from metaflow_agents.schema.strategies import STRATEGIES, references
from metaflow_agents.sop.places import Path

Kind = Literal["expression", "template"]
_MODEL = re.compile(r"[A-Za-z_]\w*|[A-Za-z_][\w-]*[:/].*", re.DOTALL)      # a model by its name or form, as in `schema/step.py`
_STEP: Mapping[str, Kind] = {
    "when": "expression", "value": "expression", "priority": "expression", "inputs": "expression", "task": "template",
    "self": "template", "memory_of": "template", "run": "template", "args": "template", "with": "template", "show": "template"}
"""Keys of a step whose texts, at any depth, are expressions or templates."""
_INSIDE: Mapping[tuple[str, str], Kind] = {
    ("foreach", "in"): "expression", ("foreach", "key"): "expression", ("foreach", "after"): "expression",
    ("foreach", "where"): "expression", ("review", "accept"): "expression", ("tools", "only"): "expression",
    ("check", "run"): "template"}


class WrittenText(NamedTuple):
    """A text that names things: where it stands, what it is."""

    path: Path
    kind: Kind
    text: str


def texts_of(data: Mapping[str, Any]) -> Iterator[WrittenText]:
    """All of a SOP, those of `defaults.steps` too."""
    for name, artifact in _mapping(data.get("artifacts")).items():
        where: Path = ("artifacts", name)
        yield from _texts(_mapping(artifact).get("files"), (*where, "files"), "template")
        for index, rule in enumerate(_list(_mapping(artifact).get("rules"))):
            yield from _texts(_mapping(rule).get("assert"), (*where, "rules", index, "assert"), "expression")
    for where, step in steps_of(data):
        yield from _of_step(where, step)
    yield from _texts(data.get("success"), ("success",), "expression")
    for name, case in _mapping(data.get("tests")).items():
        yield from _texts(_mapping(case).get("expect"), ("tests", name, "expect"), "expression")


def steps_of(data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Each step that is a mapping, and what `defaults` say of all."""
    for name, step in _mapping(data.get("steps")).items():
        yield ("steps", name), _mapping(step)
    yield ("defaults", "steps"), _mapping(_mapping(data.get("defaults")).get("steps"))


def _of_step(where: Path, step: Mapping[str, Any]) -> Iterator[WrittenText]:
    for key, kind in _STEP.items():
        yield from _texts(step.get(key), (*where, key), kind)
    for (key, inner), kind in _INSIDE.items():
        yield from _texts(_mapping(step.get(key)).get(inner), (*where, key, inner), kind)
    makes = step.get("makes")
    for name, patterns in _mapping(makes).items():
        yield from _texts(patterns, (*where, "makes", name), "template")
    for key, plain in (("role", re.compile(NAME_PATTERN)), ("model", _MODEL)):
        if isinstance(step.get(key), str) and not plain.fullmatch(step[key]):
            yield WrittenText((*where, key), "expression", step[key])
    for name, parameters in _mapping(step.get("strategy")).items():
        for one in references({name: parameters}, STRATEGIES):
            if one.refers.to in ("expression", "command"):
                found: Kind = "template" if one.refers.to == "command" else "expression"
                yield WrittenText((*where, "strategy", name, *one.place), found, one.text)


def _texts(value: Any, where: Path, kind: Kind) -> Iterator[WrittenText]:
    if isinstance(value, str):
        yield WrittenText(where, kind, value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*where, key), kind)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*where, index), kind)


def _mapping(written: Any) -> Mapping[str, Any]:
    return written if isinstance(written, dict) else {}


def _list(written: Any) -> list[Any]:
    return written if isinstance(written, list) else []
