"""A JSON Schema that nobody wrote for this project → its normal form: of an API's description, a server's tool, a function.

Where `json_schema` refuses what it can't check, this widens: every value that the written schema takes, the normal form takes
too, and what it can't say (`not`, `if`, a reference to another file, a branch that must be the only one) it leaves out. It reads
draft 4 to 2020-12 and the dialects of OpenAPI 3.0 (`nullable`, a boolean `exclusiveMinimum`, `example`) and 3.1. Keywords that
speak of one type alone are read as that type, as people mean them.

Bounded for any input: `DEEPEST_FOREIGN` levels, `MOST_NODES` schemas in each definition; what lies beyond takes any value.
References may form circles.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import unquote

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema import keywords, references
from metaflow_agents.schema.bounds import list_bounds, number_bounds, string_bounds
from metaflow_agents.schema.checks import identity, is_json
from metaflow_agents.schema.faults import Faults
from metaflow_agents.schema.json_schema import DEEPEST_SCHEMA, any_of, enumeration
from metaflow_agents.schema.references import Node
from metaflow_agents.schema.validation import validator

MOST_NODES = 10_000
DEEPEST_FOREIGN = DEEPEST_SCHEMA // 2 - 1           # each level may become two: `nullable` is a choice around what it speaks of
Hidden = Literal["readOnly", "writeOnly", ""]
_BOUNDS = {"string": string_bounds, "array": list_bounds, "number": number_bounds, "integer": number_bounds}
_COMBINING = ("$ref", "allOf", "anyOf", "oneOf")
_CHECKING = frozenset({*keywords.OWNERS, "type", "enum", "const", "prefixItems", "patternProperties"}) - {"format"}


def widened(written: Any, root: Any = None, *, patterns: bool = True, hidden: Hidden = "") -> Node:
    """The normal form of a schema from elsewhere, its `$defs` with it. Never raises.

    `root`: the document in which its references lead (`#/components/schemas/Pet`); by default the schema itself.
    `patterns`: whether regular expressions are checked; of a stranger's schema they had better not be, since one can be written
    that takes hours. `hidden`: fields with this mark are left out: `readOnly` ones of a request, `writeOnly` ones of an answer.
    """
    return ForeignSchemas(written if root is None else root, patterns=patterns, hidden=hidden).widened(written)


def pointed(root: Any, reference: Any) -> Any:
    """What a local reference (`#/a/b`, RFC 6901) leads to; None where it leads nowhere or out of the document."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found = root
    for part in reference[2:].split("/") if len(reference) > 1 else ():
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


class ForeignSchemas:
    """The schemas of one document: what several of them refer to is brought to its normal form once. See `widened`."""

    def __init__(self, root: Any, *, patterns: bool = True, hidden: Hidden = "") -> None:
        self.root, self.patterns, self.hidden = root, patterns, hidden
        self._left = MOST_NODES
        self._names: dict[str, str] = {}            # reference → name in `$defs`
        self._taken: set[str] = set()
        self._waiting: list[str] = []
        self._definitions: dict[str, Node] = {}
        self._needs: dict[str, list[str]] = {}      # definition → those that it names
        self._sizes: dict[str, int] = {}            # definition → characters of its JSON

    def widened(self, written: Any, most: int | None = None) -> Node:
        """The normal form of one of its schemas. `most`: characters that its `$defs` have as JSON; those further from the schema
        itself, where these are used up, take any value.
        """
        node = self._whole(written)
        self._settle()
        _drop_unfit(node, self._definitions)
        needed = self._near(node, most)
        return {**node, "$defs": needed} if needed else node

    def _whole(self, written: Any) -> Node:
        self._left = MOST_NODES
        return self._node(written, 0, ())

    def _settle(self) -> None:
        """The definitions that were named since."""
        fresh: dict[str, Node] = {}
        while self._waiting:                        # not by recursion: a chain of references may be long
            reference = self._waiting.pop()
            fresh[self._names[reference]] = self._whole(pointed(self.root, reference))
        # What was settled before leads to nothing that is fresh, and ends: here it may stand for any value.
        among = {**{name: {} for name in self._definitions}, **fresh} if fresh else {}
        for name in (*references.circular(among), *references.endless(among)):
            fresh[name] = {}
        self._definitions |= fresh
        for name, node in fresh.items():
            _drop_unfit(node, self._definitions)
            self._needs[name] = list(dict.fromkeys(references.names(node)))
            self._sizes[name] = len(json.dumps(node))

    def _near(self, node: Node, most: int | None) -> dict[str, Node]:
        """The definitions that a schema needs, in the order in which they are met; the nearest ones whole."""
        found: dict[str, Node] = {}
        open_, used = deque(references.names(node)), 0
        while open_:
            name = open_.popleft()
            if name in found:
                continue
            found[name] = self._definitions[name]
            if most is not None:
                used += self._sizes[name]
                if used > most:
                    found[name] = {"description": f"`{name}`, left out here for its size"}
                    continue
            open_ += self._needs[name]
        return found

    def _node(self, written: Any, depth: int, chain: tuple[str, ...], *, inline: bool = False) -> Node:
        """One schema. `inline`: not as a reference, since it is merged with others. `chain`: references on the way here."""
        if not isinstance(written, Mapping) or depth > DEEPEST_FOREIGN or self._left <= 0:
            return {}
        self._left -= 1
        if set(_COMBINING) & set(written):
            node = self._combined(written, depth, chain, inline)
        else:
            node = self._typed(written, depth)
        if written.get("nullable") is True and node:
            node = any_of([node, {"type": "null"}])
        return {**node, **_annotations(written)}

    def _combined(self, written: Mapping[str, Any], depth: int, chain: tuple[str, ...], inline: bool) -> Node:
        every = [part for part in (written.get("allOf"),) if isinstance(part, list)]
        parts = [*([{"$ref": written["$ref"]}] if "$ref" in written else []), *(part for each in every for part in each)]
        unions = [written[word] for word in ("anyOf", "oneOf") if isinstance(written.get(word), list) and written[word]]
        own = bool(_CHECKING & set(written))
        inline = inline or len(parts) + len(unions) + own > 1
        found = [self._typed(written, depth)] if own else []
        for part in parts:
            leads = set(part) == {"$ref"} if isinstance(part, Mapping) else False
            found.append(self._reference(part["$ref"], depth, chain, inline) if leads
                         else self._node(part, depth + 1, chain, inline=inline))
        for branches in unions:
            found.append(any_of([_bare(self._node(branch, depth + 1, chain, inline=inline)) for branch in branches]))
        whole: Node = {}
        for node in found:
            whole = _both(whole, node)
        return whole

    def _reference(self, reference: Any, depth: int, chain: tuple[str, ...], inline: bool) -> Node:
        target = pointed(self.root, reference)
        if not isinstance(target, Mapping) or reference in chain:
            return {}
        if inline:
            return self._node(target, depth + 1, (*chain, reference), inline=True)
        if reference not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_]+", "_", unquote(reference.rpartition("/")[2])).strip("_") or "root"
            self._names[reference] = next(name for name in _numbered(plain) if name not in self._taken)
            self._taken.add(self._names[reference])
            self._waiting.append(reference)
        return {"$ref": references.PREFIX + self._names[reference]}

    def _typed(self, written: Mapping[str, Any], depth: int) -> Node:
        if "enum" in written or "const" in written:
            return _choices(written["enum"] if "enum" in written else [written["const"]])
        if "type" in written:
            listed = written["type"] if isinstance(written["type"], list) else [written["type"]]
            if not listed or not all(isinstance(kind, str) and kind in keywords.TYPES for kind in listed):
                return {}
        else:
            owners = {keywords.OWNERS[word][0] for word in written if word in keywords.OWNERS and word != "format"}
            owners |= {"array"} if "prefixItems" in written else set()
            listed = list(owners) if len(owners) == 1 else []
        kinds = [kind for kind in dict.fromkeys(listed) if not (kind == "integer" and "number" in listed)]
        return any_of([self._kind(kind, written, depth) for kind in kinds] or [{}])

    def _kind(self, kind: str, written: Mapping[str, Any], depth: int) -> Node:
        if kind == "object":
            return self._object(written, depth)
        if kind == "array":
            return {"type": kind, "items": self._items(written, depth), **_sound(kind, written)}
        bounds = _sound(kind, written)
        return {"type": kind, **{word: value for word, value in bounds.items() if self.patterns or word != "pattern"}}

    def _object(self, written: Mapping[str, Any], depth: int) -> Node:
        declared = written.get("properties")
        declared = declared if isinstance(declared, Mapping) else {}
        shown = {str(name): part for name, part in declared.items() if not self._is_hidden(part)}
        properties = {name: self._node(part, depth + 1, ()) for name, part in shown.items()}
        listed = written.get("required")
        required = [name for name in dict.fromkeys(listed) if isinstance(name, str) and (name in shown or name not in declared)
                    ] if isinstance(listed, list) and all(isinstance(name, str) for name in listed) else []
        properties |= {name: {} for name in required if name not in properties}
        others = written.get("additionalProperties", True)
        if written.get("patternProperties"):
            others = True                           # a name that fits a pattern is no additional one
        if not isinstance(others, bool):
            others = self._node(others, depth + 1, ()) or True
        return {"type": "object", "properties": properties, "required": [name for name in properties if name in required],
                "additionalProperties": others}

    def _is_hidden(self, part: Any) -> bool:
        if not self.hidden or not isinstance(part, Mapping):
            return False
        target = pointed(self.root, part["$ref"]) if "$ref" in part else None
        return any(isinstance(each, Mapping) and each.get(self.hidden) is True for each in (part, target))

    def _items(self, written: Mapping[str, Any], depth: int) -> Node:
        first, rest = written.get("prefixItems"), written.get("items", True)
        if isinstance(rest, list):                  # until draft 2019-09
            first, rest = rest, written.get("additionalItems", True)
        if not isinstance(first, list):
            return self._node(rest, depth + 1, ())
        most = written.get("maxItems")
        whole = rest is False or (isinstance(most, int) and most <= len(first))
        return any_of([_bare(self._node(part, depth + 1, ())) for part in (first if whole else [*first, rest])] or [{}])


def _both(one: Node, other: Node) -> Node:
    """A schema that takes all that both take, and as little else as it can say."""
    if not _bare(one) or not _bare(other):
        return {**one, **other}
    for first, second in ((one, other), (other, one)):
        if "anyOf" in first:
            if "anyOf" in second:
                return first
            met = [_both(branch, second) for branch in first["anyOf"] if _may_meet(branch, second)]
            return any_of([_bare(branch) for branch in met]) if met else first
    for first, second in ((one, other), (other, one)):
        if "enum" in first or "$ref" in first or not _may_meet(first, second):
            return first
    if one["type"] == other["type"] == "object":
        return _objects(one, other)
    kind = "integer" if "integer" in (one["type"], other["type"]) else one["type"]
    merged = {**one, **other, "type": kind}
    faults = Faults()
    if kind in _BOUNDS:
        _BOUNDS[kind](merged, (), faults)
    return one if faults.found else merged          # bounds that leave nothing between them


def _objects(one: Node, other: Node) -> Node:
    shared = {name: _both(one["properties"][name], part) for name, part in other["properties"].items()
              if name in one["properties"]}
    properties = {**one["properties"], **other["properties"], **shared}
    required = {*one["required"], *other["required"]}
    limits = [part for part in (one["additionalProperties"], other["additionalProperties"]) if part is not True]
    others: Any = False if False in limits else (limits[0] if limits else True)
    return {**one, **other, "properties": properties, "required": [name for name in properties if name in required],
            "additionalProperties": others}


def _may_meet(one: Node, other: Node) -> bool:
    kinds = {one.get("type"), other.get("type")}
    return None in kinds or len(kinds) == 1 or kinds == {"integer", "number"}


def _bare(node: Node) -> Node:
    return {word: value for word, value in node.items() if word not in keywords.ANNOTATIONS}


def _annotations(written: Mapping[str, Any]) -> Node:
    told: Node = {word: written[word] for word in ("description", "format") if isinstance(written.get(word), str)}
    if "default" in written and is_json(written["default"]):
        told["default"] = written["default"]
    examples = written.get("examples", [written["example"]] if "example" in written else None)
    if isinstance(examples, list) and examples and all(map(is_json, examples)):
        told["examples"] = examples
    return told


def _choices(values: Any) -> Node:
    if not isinstance(values, list) or not values or not all(map(is_json, values)):
        return {}
    return enumeration(list({identity(value): value for value in values}.values()))


def _newer(written: Mapping[str, Any]) -> dict[str, Any]:
    """Draft 4's and OpenAPI 3.0's `minimum: 0, exclusiveMinimum: true` in the form of today."""
    found = dict(written)
    for word, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(found.get(strict), bool):
            if found.pop(strict) and word in found:
                found[strict] = found.pop(word)
    return found


def _sound(kind: str, written: Mapping[str, Any]) -> Node:
    """The bounds that a type has, or none of them where something about them is wrong."""
    faults = Faults()
    bounds = _BOUNDS[kind](_newer(written), (), faults) if kind in _BOUNDS else {}
    return {} if faults.found else bounds


def _drop_unfit(node: Node, definitions: Mapping[str, Node]) -> None:
    """Takes away the defaults and examples that do not fit the schema that they stand in: a default is filled in unseen."""
    for each in _within(node):
        for word in ("default", "examples"):
            if word in each:
                plain = {**_bare(each), "$defs": references.reachable(each, definitions)}
                try:
                    for value in each[word] if word == "examples" else [each[word]]:
                        validator(plain, "it").validate(value)
                except (AnswerInvalid, RecursionError):
                    del each[word]


def _within(node: Node) -> Iterator[Node]:
    yield node
    for child in references.children(node):
        yield from _within(child)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1
