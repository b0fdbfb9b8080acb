"""Answers of a given form: the schema as endpoints take it in strict mode, and what they answer as it was asked for.

Strict mode (https://platform.openai.com/docs/guides/structured-outputs) wants every object closed and every field
required, an object at the top, and knows a part of JSON Schema. So that an optional field becomes one that may be null,
and what is no object at the top is put into one; an answer is brought back before anybody sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.references import PREFIX, Node
from metaflow_agents.schema.validation import validator
from metaflow_agents.texts.strict_json import read

WRAP = "answer"                         # the field that holds what is no object at the top
_KEPT = {
    "string": ("pattern",), "array": ("minItems", "maxItems"), "boolean": (), "null": (),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
# What strict mode does not know and our own validator holds anyway, or what says nothing about the value.
_DROPPED = frozenset({"title", "description", "default", "examples", "minLength", "maxLength", "uniqueItems", "format", "$defs",
                      "properties", "required", "additionalProperties", "items", "type", "enum", "const"})
_IN_WORDS = {"minLength": "At least {} characters.", "maxLength": "At most {} characters.", "uniqueItems": "No item twice."}
"""What strict mode does not know, as the description tells it: the model is shown the schema in this form alone."""
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")


class _NotStrict(Exception):
    """Strict mode can't say this."""


def rooted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with an object at the top: itself, or one that holds it in the field `answer`."""
    if schema.get("type") == "object":
        return dict(schema)
    inner = {word: part for word, part in schema.items() if word != "$defs"}
    whole: dict[str, Any] = {"type": "object", "properties": {WRAP: inner}, "required": [WRAP], "additionalProperties": False}
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema as strict mode takes it; None where strict mode can't say it: maps, values of any type."""
    whole = rooted(schema)
    try:
        made = _strict(whole)
        definitions = {name: _strict(node) for name, node in whole.get("$defs", {}).items()}
    except _NotStrict:
        return None
    return {**made, "$defs": definitions} if definitions else made


def _strict(node: Mapping[str, Any]) -> Node:
    said = [node["description"]] if isinstance(node.get("description"), str) else []
    said += [words.format(node[word]) for word, words in _IN_WORDS.items() if node.get(word)]
    if node.get("format") not in (None, *_FORMATS):
        said.append(f"Format: {node['format']}.")
    if isinstance(node.get("examples"), list) and node["examples"]:
        said.append(f"Example: {json.dumps(node['examples'][0], ensure_ascii=False)}")
    told = {"description": " ".join(said)} if said else {}
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    for word in ("anyOf", "oneOf"):
        if word in node:
            return {"anyOf": [_strict(branch) for branch in node[word]], **told}
    kind = node.get("type")
    if kind == "object":
        return {**_closed(node), **told}
    if not isinstance(kind, str) or kind not in _KEPT or set(node) - _DROPPED - set(_KEPT[kind]):
        raise _NotStrict
    made: Node = {"type": kind, **{word: node[word] for word in _KEPT[kind] if word in node}}
    choices = node.get("enum", [node["const"]] if "const" in node else None)
    if choices is not None:
        if kind == "array":
            raise _NotStrict
        made["enum"] = list(choices)
    if kind == "array":
        made["items"] = _strict(node.get("items") or {})
    if node.get("format") in _FORMATS:
        made["format"] = node["format"]
    return {**made, **told}


def _closed(node: Mapping[str, Any]) -> Node:
    """An object with its declared fields and no others."""
    fields = node.get("properties", {})
    if isinstance(node.get("additionalProperties"), dict) or "enum" in node or "const" in node or set(node) - _DROPPED:
        raise _NotStrict
    if not fields and node.get("additionalProperties", True):
        raise _NotStrict
    required = node.get("required", ())
    made = {name: _strict(field) if name in required else _or_null(_strict(field)) for name, field in fields.items()}
    return {"type": "object", "properties": made, "required": list(fields), "additionalProperties": False}


def _or_null(node: Node) -> Node:
    if "anyOf" in node:
        return node if {"type": "null"} in node["anyOf"] else {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    return node if node.get("type") == "null" else {"anyOf": [node, {"type": "null"}]}


def as_asked(schema: Mapping[str, Any], text: str) -> str:
    """An answer in strict form as an answer to the schema itself: unwrapped, and without the nulls of optional fields.

    What is no JSON, or needs no change, comes back as it is: its faults are told to its author elsewhere.
    """
    wrapped = schema.get("type") != "object"
    if not wrapped and "null" not in text:
        return text
    try:
        value = read(text)
        found = value[WRAP] if wrapped and isinstance(value, dict) and set(value) == {WRAP} else value
        found = _Absent(schema.get("$defs", {})).of(found, schema)
        return text if found is value or found == value else json.dumps(found, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


class _Absent:
    """Takes the nulls out that stand for optional fields."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def of(self, value: Any, node: Mapping[str, Any]) -> Any:
        node = self._meant(node)
        for word in ("anyOf", "oneOf"):
            if word in node:
                return self._taken(value, node[word])
        if isinstance(value, list):
            return [self.of(each, node.get("items") or {}) for each in value]
        if not isinstance(value, dict):
            return value
        fields, required = node.get("properties", {}), node.get("required", ())
        return {name: self.of(each, fields.get(name, {})) for name, each in value.items()
                if each is not None or name in required or name not in fields or self._takes_null(fields[name])}

    def _meant(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in node:
            node = self._definitions.get(str(node["$ref"]).removeprefix(PREFIX), {})
        return node

    def _taken(self, value: Any, branches: Any) -> Any:
        """As the first branch that then takes it."""
        for branch in branches:
            found = self.of(value, branch)
            try:
                validator({**branch, "$defs": dict(self._definitions)}, "it").validate(found)
            except AnswerInvalid:
                continue
            return found
        return value

    def _takes_null(self, node: Mapping[str, Any]) -> bool:
        node = self._meant(node)
        for word in ("anyOf", "oneOf"):
            if word in node:
                return any(self._takes_null(branch) for branch in node[word])
        return node.get("type", "null") == "null" and "enum" not in node
