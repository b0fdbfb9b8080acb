"""The JSON Schema by which editors help to write SOP and role files: the written form, short spellings included.

It is made from the models under `schema/sop.py`, so that it knows exactly the keys that this version reads. It accepts all
that `sop check` accepts, and refuses unknown keys and wrong types; what else is wrong, `sop check` knows.
Draft 7, which every editor's YAML support reads: https://json-schema.org/draft-07/schema
"""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from metaflow_agents import plugins
from metaflow_agents.schema.artifact import Artifact
from metaflow_agents.schema.endpoint import EndpointModel, ModelSpec
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.role import Memory, MemorySpec, OwnIndex, Recall, Role
from metaflow_agents.schema.scalars import NAME_PATTERN, Calls, Count, Dollars, Expression, Seconds, Texts, Window
from metaflow_agents.schema.sop import LANGUAGE_VERSIONS, PATHS, SOP, Input
from metaflow_agents.schema.step import Review, Step, ToolChoice, ToolsSpec
from metaflow_agents.schema.tools import ToolSpec

Node = dict[str, Any]

_TEXTS: Node = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_NAME: Node = {"type": "string", "pattern": NAME_PATTERN}
_SCHEMA: Node = {"description": "a schema: shorthand, JSON Schema, or `python: package.module:Model`",
                 "type": ["string", "object", "array", "null"]}
_SPELLINGS: list[tuple[Any, Node]] = [
    (Seconds, {"type": ["number", "string"], "examples": ["90s", "30m", "1h30m"]}),
    (Count, {"type": ["integer", "string"], "examples": [300, "16k", "1.5M"]}),
    (Calls, {"type": ["integer", "string"], "examples": ["10 calls"]}),
    (Dollars, {"type": ["number", "string"], "examples": [5, 0.25, "$5"]}),
    (Window, {"type": "string", "examples": ["40 turns", "16k tokens", "0 turns"]}),
    (Expression, {"type": ["string", "boolean", "number"], "minLength": 1}),
    (Texts, _TEXTS),
]
"""How a type is spelt in YAML where that is another thing than how it is kept."""

_FIELDS: dict[tuple[type[Value], str], Node] = {
    (Step, "makes"): {"anyOf": [
        _NAME,
        {"type": "object", "propertyNames": _NAME, "minProperties": 1, "maxProperties": 1, "additionalProperties": _TEXTS}]},
    (Step, "on_fail"): {"anyOf": [
        {"enum": ["stop", "skip"]},
        {"type": "object", "properties": {"makes": _NAME}, "required": ["makes"], "additionalProperties": False}]},
    (Step, "human"): {"anyOf": [
        {"enum": ["text", "approve"]},
        {"type": "object",
         "properties": {"choice": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}},
         "required": ["choice"], "additionalProperties": False}]},
    (Step, "strategy"): {"anyOf": [
        {"type": "string"},
        {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "object"}}]},
    (Review, "verdict"): _SCHEMA,
    (Artifact, "schema_"): _SCHEMA,
    (Artifact, "each"): _SCHEMA,
}
"""Keys with a spelling of their own."""

_INSTALLED: dict[tuple[type[Value], str], tuple[str, tuple[str, ...]]] = {
    (Step, "use"): ("executors", ()), (ToolSpec, "source"): ("tools", ()),
    (Recall, "index"): ("memory_indexes", get_args(OwnIndex))}
"""Keys that name what installed packages add: the group, and what this package has itself."""

_OPTIONAL: dict[type[Value], frozenset[str]] = {Step: frozenset({"makes"})}
"""Required keys that `defaults` may give in a key's place."""


def sop_schema() -> Node:
    """The JSON Schema of a SOP file."""
    return _document(SOP, "a SOP of metaflow-agents")


def role_schema() -> Node:
    """The JSON Schema of a role file."""
    return _document(Role, "a role of metaflow-agents")


def _document(model: type[Value], title: str) -> Node:
    found: dict[str, Node] = {}
    _define(model, found)
    own = found.pop(model.__name__)
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **own,
            **({"definitions": dict(sorted(found.items()))} if found else {})}


def _define(model: type[Value], found: dict[str, Node]) -> None:
    """Adds a model and all that it names to the definitions."""
    found[model.__name__] = {}                                   # a place, so that the order is that of first use
    hints = get_type_hints(model, include_extras=True)
    properties, required = {}, []
    for name, field in model.model_fields.items():
        key = field.alias or name
        node = dict(_FIELDS.get((model, name)) or _node(hints[name], found))
        if (model, name) in _INSTALLED:
            group, own = _INSTALLED[model, name]
            if known := [*own, *(one for one in plugins.installed(group) if one not in own)]:
                node["examples"] = known
        if field.description:
            node["description"] = field.description
        if field.is_required() and name not in _OPTIONAL.get(model, ()):
            required.append(key)
        properties[key] = node
    if model is SOP:
        properties["inputs"] = {**properties["inputs"], "additionalProperties": _input(found)}
        properties["defaults"] = {**_defaults(found), "description": properties["defaults"]["description"]}
        properties["language"] = {"enum": list(LANGUAGE_VERSIONS), "description": properties["language"]["description"]}
    found[model.__name__] = {"description": " ".join((model.__doc__ or "").split()), "type": "object",
                             "properties": properties, **({"required": required} if required else {}),
                             "additionalProperties": False}


def _node(hint: Any, found: dict[str, Node]) -> Node:
    if hint == ModelSpec:
        return _node(str | EndpointModel, found)
    if hint == ToolsSpec:
        return {"anyOf": [_node(Texts, found), _node(ToolChoice, found)]}
    if hint == MemorySpec:
        return {"anyOf": [{"const": "none"}, _node(Memory, found)]}
    for spelt, node in _SPELLINGS:
        if hint == spelt:
            return node
    if isinstance(hint, type) and issubclass(hint, Value):
        if hint.__name__ not in found:
            _define(hint, found)
        return {"$ref": f"#/definitions/{hint.__name__}"}
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        nodes = [_node(arg, found) for arg in args if arg is not type(None)]
        return nodes[0] if len(nodes) == 1 else {"anyOf": nodes}
    if origin is dict:
        keys = {"propertyNames": _node(args[0], found)} if args[0] is not str else {}
        return {"type": "object", **keys, "additionalProperties": _node(args[1], found)}
    if origin is tuple:
        return {"type": "array", "items": _node(args[0], found)}
    if hint is Any:
        return {}
    return TypeAdapter(hint).json_schema()


def _input(found: dict[str, Node]) -> Node:
    """`{type, description, default}`, or a schema alone."""
    if "Input" not in found:
        _define(Input, found)
    path: Node = {"type": "object", "required": ["type"], "properties": {"type": {"enum": list(PATHS)}}}
    return {"anyOf": [{"$ref": "#/definitions/Input"}, {**_SCHEMA, "not": path}]}


def _defaults(found: dict[str, Node]) -> Node:
    """Any keys of a step, any keys of a role."""
    return {"type": "object", "additionalProperties": False,
            "properties": {"steps": {"$ref": "#/definitions/Step"}, "roles": {"$ref": "#/definitions/Role"}}}
