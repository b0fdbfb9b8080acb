"""What `$ref` leads to: pure walks over normal-form schemas and their `$defs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Node = dict[str, Any]
PREFIX = "#/$defs/"


def target(node: Mapping[str, Any]) -> str:
    """The name of the definition that a `$ref` node stands for."""
    return str(node["$ref"]).removeprefix(PREFIX)


def children(node: Mapping[str, Any]) -> Iterator[Node]:
    """The schemas directly inside a schema, references not followed."""
    yield from node.get("properties", {}).values()
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            yield node[word]
    for word in ("anyOf", "oneOf"):
        yield from node.get(word, ())


def names(node: Mapping[str, Any]) -> Iterator[str]:
    """The definitions that a schema names, in the order in which they are met."""
    if "$ref" in node:
        yield target(node)
    for child in children(node):
        yield from names(child)


def reachable(node: Mapping[str, Any], definitions: Mapping[str, Node]) -> dict[str, Node]:
    """The definitions that a schema needs, in the order in which they are met."""
    found: dict[str, Node] = {}
    open_ = list(names(node))
    while open_:
        name = open_.pop(0)
        if name not in found:
            found[name] = definitions[name]
            open_.extend(names(definitions[name]))
    return found


def circular(definitions: Mapping[str, Node]) -> list[str]:
    """Definitions that are themselves, with no field or item between: no value can be checked against such a one."""
    def direct(node: Mapping[str, Any]) -> Iterator[str]:
        if "$ref" in node:
            yield target(node)
        for word in ("anyOf", "oneOf"):
            for branch in node.get(word, ()):
                yield from direct(branch)

    def leads_back(name: str) -> bool:
        seen: set[str] = set()
        open_ = list(direct(definitions[name]))
        while open_:
            each = open_.pop()
            if each == name:
                return True
            if each not in seen:
                seen.add(each)
                open_.extend(direct(definitions[each]))
        return False

    return [name for name in definitions if leads_back(name)]


def endless(definitions: Mapping[str, Node]) -> list[str]:
    """Definitions that no finite value fits: each one needs another one of its kind."""
    finite: set[str] = set()

    def ends(node: Mapping[str, Any]) -> bool:
        if "$ref" in node:
            return target(node) in finite
        for word in ("anyOf", "oneOf"):
            if word in node:
                return any(ends(branch) for branch in node[word])
        if node.get("minItems", 0) > 0 and "items" in node:
            return ends(node["items"])
        return all(ends(node["properties"][name]) for name in node.get("required", ()))

    grown = True
    while grown:
        more = {name for name, node in definitions.items() if name not in finite and ends(node)}
        grown = bool(more)
        finite |= more
    return [name for name in definitions if name not in finite]


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """A copy whose references to renamed definitions follow them."""
    copy: Node = dict(node)
    if "$ref" in copy:
        copy["$ref"] = PREFIX + names.get(target(copy), target(copy))
    if "properties" in copy:
        copy["properties"] = {name: renamed(child, names) for name, child in copy["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(copy.get(word), dict):
            copy[word] = renamed(copy[word], names)
    for word in ("anyOf", "oneOf"):
        if word in copy:
            copy[word] = [renamed(child, names) for child in copy[word]]
    return copy
