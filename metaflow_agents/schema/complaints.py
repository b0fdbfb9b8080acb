"""Pydantic's errors in the words of the schema: the path, what stood there, what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema.unions import UnionRefusal
from metaflow_agents.schema.wording import describe, place, resolved, shown

Path = tuple[str | int, ...]


def told(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The errors of a model that a person wrote: its own words."""
    return [f"{place(line['loc'])} is {shown(line['input'])}: {line['msg']}" if line["type"] != "missing"
            else f"{place(line['loc'])} is missing" for line in lines]


def complaints(lines: Sequence[Mapping[str, Any]], root: Mapping[str, Any]) -> list[str]:
    """One sentence for each error, in the order of the value. `root` is the normal-form schema."""
    return _of(lines, root, root, ())


def _of(lines: Sequence[Mapping[str, Any]], node: Mapping[str, Any], root: Mapping[str, Any], path: Path) -> list[str]:
    return [text for line in lines for text in _one(line, node, root, path)]


def _one(line: Mapping[str, Any], node: Mapping[str, Any], root: Mapping[str, Any], path: Path) -> list[str]:
    where, here = (*path, *line["loc"]), _at(node, root, line["loc"])
    match line["type"]:
        case "missing":
            return [f"{place(where)} is missing; expected {describe(here, root, bounds=True)}"]
        case "extra_forbidden":
            names = _at(node, root, line["loc"][:-1]).get("properties", {})
            return [f"{place(where)} is not a known field; {did_you_mean(str(where[-1]), names)}"]
        case "union":
            return _union(line["ctx"]["refusal"], here, root, where)
        case "several":
            context = line["ctx"]
            return [f"{place(where)} is {shown(context['refusal'].value)}, which fits {context['count']} of the forms "
                    f"{describe(here, root, bounds=True)}; expected exactly one"]
        case "not_json":
            return [f"{place(where)} is {shown(line['input'])}; expected a JSON value"]
    return [_expected(where, line["input"], here, root)]


def _expected(where: Path, value: object, node: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    return f"{place(where)} is {shown(value)}; expected {describe(node, root, bounds=True)}"


def _at(node: Mapping[str, Any], root: Mapping[str, Any], loc: Sequence[str | int]) -> Mapping[str, Any]:
    """The schema at a place below a node. Errors inside unions have places of their own, so none is met on the way."""
    for part in loc:
        node = resolved(node, root)
        if isinstance(part, int):
            node = node.get("items", {})
        else:
            others = node.get("additionalProperties", True)
            node = node.get("properties", {}).get(part, others if isinstance(others, Mapping) else {})
    return resolved(node, root)


def _union(refusal: UnionRefusal, node: Mapping[str, Any], root: Mapping[str, Any], where: Path) -> list[str]:
    """The complaints of the branch that was meant, where the value's kind shows which; else all that is possible."""
    value = refusal.value
    branches = node.get("anyOf") or node.get("oneOf") or ()
    meant = [(lines, branch) for lines, branch in zip(refusal.misses, branches, strict=True)
             if _may_be(value, resolved(branch, root))]
    if not meant or (len(meant) > 1 and not isinstance(value, dict | list)):
        return [_expected(where, value, node, root)]
    lines, branch = min(meant, key=lambda pair: (_wrong_tags(pair[0], pair[1], root), len(pair[0])))
    return _of(lines, branch, root, where)


def _may_be(value: object, branch: Mapping[str, Any]) -> bool:
    kind = branch.get("type")
    if kind is None:
        return True
    known: dict[str, tuple[type, ...]] = {
        "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),),
        "integer": (int, float), "number": (int, float)}
    return isinstance(value, known[kind]) and (not isinstance(value, bool) or kind == "boolean")


def _wrong_tags(lines: Sequence[Mapping[str, Any]], branch: Mapping[str, Any], root: Mapping[str, Any]) -> int:
    """How many fields with counted-out values (the tags that tell forms apart) do not fit."""
    return sum("enum" in _at(branch, root, line["loc"]) for line in lines)
