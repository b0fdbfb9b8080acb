"""Where a SOP's text names a step, or something that steps read (an artifact, an input): each place with its characters.

Lists and keys are found by the language; names in expressions and templates by the analysis of `sop check`. What can't be
followed to the characters that a person wrote is found too, and has no place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from metaflow_agents.prompts import analyse_expression, analyse_template
from metaflow_agents.schema.address import parse_address
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import READS
from metaflow_agents.schema.trusting import ARTIFACT, INPUT, split
from metaflow_agents.sop.document import Document
from metaflow_agents.sop.editing.texts import steps_of, texts_of
from metaflow_agents.sop.places import Path
from metaflow_agents.sop.position import offset_in_source

What = Literal["step", "data"]
"""A step; or what steps read, an artifact or an input: these share one set of names."""
_RUN = {"run": Shape.any()}


class Reference(NamedTuple):
    """A place that names something. `at`: of the name's first character in the value at `path` (in the key, where `key`).
    `offset`: of that character in the file; None where it is written in a form that can't be followed.
    """

    path: Path
    key: bool
    at: int
    offset: int | None


def references(document: Document, what: What, name: str) -> list[Reference]:
    """All places of a document that can be read, in the order of the file; those without characters last. What an alias leads to
    is found by each way, and has the same characters.
    """
    data = document.data
    found = _steps(data, name) if what == "step" else _data(data, name)
    placed = dict.fromkeys(_placed(document, name, path, key, at) for path, key, at in found)
    if what == "data":
        placed |= dict.fromkeys(_in_texts(document, name))
    return sorted(placed, key=lambda one: (one.offset is None, one.offset or 0))


_Found = tuple[Path, bool, int]


def _steps(data: Mapping[str, Any], name: str) -> Iterator[_Found]:
    if name in _mapping(data.get("steps")):
        yield ("steps", name), True, 0
    for case, written in _mapping(data.get("tests")).items():
        where: Path = ("tests", case)
        test = _mapping(written)
        if test.get("until") == name:
            yield (*where, "until"), False, 0
        for key in ("given", "prompts"):
            yield from (((*where, key, one), True, 0) for one in _mapping(test.get(key)) if _addressed(one) == name)
        yield from (((*where, "order", index), False, 0) for index, one in enumerate(_listed(test.get("order")))
                    if _addressed(one) == name)


def _data(data: Mapping[str, Any], name: str) -> Iterator[_Found]:
    for part in ("artifacts", "inputs"):
        if name in _mapping(data.get(part)):
            yield (part, name), True, 0
    for given, spec in _mapping(data.get("inputs")).items():
        if _mapping(spec).get("keep") == name:
            yield ("inputs", given, "keep"), False, 0
    for role, written in (*_mapping(data.get("roles")).items(), (None, _mapping(data.get("defaults")).get("roles"))):
        where: Path = ("roles", role) if role is not None else ("defaults", "roles")
        yield from _items(_mapping(written).get("watches"), (*where, "watches"), name)
    for step_path, step in steps_of(data):
        yield from _of_step(step_path, step, name)
    yield from _items(data.get("outputs"), ("outputs",), name)
    if _mapping(data.get("progress")).get("makes") == name:
        yield ("progress", "makes"), False, 0
    for case, written in _mapping(data.get("tests")).items():
        for key in ("given", "inputs"):
            yield from ((("tests", case, key, one), True, 0) for one in _mapping(_mapping(written).get(key))
                        if (_addressed(one) if key == "given" else one) == name)


def _of_step(where: Path, step: Mapping[str, Any], name: str) -> Iterator[_Found]:
    for key in READS:
        yield from (((*where, key, *index), False, 0) for index, entry in _entries(step.get(key))
                    if entry.partition(".")[0] == name)
    makes = step.get("makes")
    if makes == name:
        yield (*where, "makes"), False, 0
    elif isinstance(makes, dict) and {"artifact"} <= set(makes) <= {"artifact", "patterns"}:
        yield from ((((*where, "makes", "artifact"), False, 0),) if makes["artifact"] == name else ())
    elif name in _mapping(makes):
        yield (*where, "makes", name), True, 0
    for key in ("makes", "artifact"):
        if _mapping(step.get("on_fail")).get(key) == name:
            yield (*where, "on_fail", key), False, 0
    if step.get("packages") == name:
        yield (*where, "packages"), False, 0
    if name in _mapping(step.get("show")) and _mapping(step.get("foreach")).get("as", "item") != name:
        yield (*where, "show", name), True, 0
    for index, entry in _entries(step.get("trusts")):
        space, trusted = split(entry)
        if trusted == name and space in ("", INPUT, ARTIFACT):
            yield (*where, "trusts", *index), False, len(entry) - len(trusted)


def _in_texts(document: Document, name: str) -> Iterator[Reference]:
    for path, kind, text in texts_of(document.data):
        if name not in text:
            continue
        analysis = analyse_template(text, _RUN) if kind == "template" else analyse_expression(text, _RUN)
        lines = text.split("\n")
        for use in analysis.uses:
            if use.name != name:
                continue
            at = sum(len(line) + 1 for line in lines[:use.line - 1]) + use.column - 1
            known = use.column > 0 and text[at:at + len(name)] == name
            yield _placed(document, name, path, False, at) if known else Reference(path, False, 0, None)


def _placed(document: Document, name: str, path: Path, key: bool, at: int) -> Reference:
    node = document.key_node(*path) if key else document.node(*path)
    if node is not None and node.target is not None:
        node = node.target
    if node is None or node.kind != "scalar":
        return Reference(path, key, at, None)
    before = node.value[:at]
    offset = offset_in_source(document.text, node, before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)
    written = document.text[offset:offset + len(name)] == name
    return Reference(path, key, at, offset if written else None)


def _addressed(written: object) -> str | None:
    """The step or artifact that the key of a test names: of `write@2[ann]/draft` it is `write`."""
    try:
        return parse_address(written)[0].step if isinstance(written, str) else None
    except ValueError:
        return None


def _items(written: Any, where: Path, name: str) -> Iterator[_Found]:
    yield from (((*where, *index), False, 0) for index, entry in _entries(written) if entry == name)


def _entries(written: Any) -> Iterator[tuple[tuple[int, ...], str]]:
    """The texts of a list, each with its index; of one text that stands for a list, that without one."""
    if isinstance(written, str):
        yield (), written
    yield from (((index,), entry) for index, entry in enumerate(_listed(written)) if isinstance(entry, str))


def _listed(written: Any) -> list[Any]:
    return written if isinstance(written, list) else []


def _mapping(written: Any) -> Mapping[str, Any]:
    return written if isinstance(written, dict) else {}
