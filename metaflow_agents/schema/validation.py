"""A normal-form schema → one pydantic validator, which tells everything that is wrong with a value at once.

What it accepts is what JSON Schema (draft 2020-12) accepts, with these differences, all on the safe side:

- A whole number written as a float (`3.0`) is an integer, as in JSON Schema, and comes back as `3`.
- `multipleOf` is exact in decimals: 0.3 is a multiple of 0.1.
- NaN, infinities, numbers beyond doubles, lone surrogates and nesting deeper than 100 are no JSON values.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.schema.checks import choice, json_value, number, others_sorted, text, too_deep, unique
from metaflow_agents.schema.complaints import complaints, told
from metaflow_agents.schema.unions import union_core
from metaflow_agents.texts.strict_json import DEEPEST, NotJSON, read

Core = core_schema.CoreSchema
Tell = Callable[[Sequence[Any]], list[str]]
_CACHED = 512


class Validator:
    """Checks values against one schema. `json_schema` is what an endpoint is asked for. Made by `validator`."""

    def __init__(self, name: str, schema: Mapping[str, Any], check: Callable[[Any], Any], tell: Tell) -> None:
        self.name, self._check, self._tell = name, check, tell
        self.json_schema: dict[str, Any] = copy.deepcopy(dict(schema))

    def validate(self, value: Any) -> Any:
        """The value as fresh plain JSON data, defaults filled in, optional fields that were not given left out, its keys in the
        order of the schema and others sorted. (A python model decides itself on the order of what it gives.)

        Strict: `"1"` is no number, `true` no integer. Raises AnswerInvalid with every fault: the path, what stood there,
        and what was expected.
        """
        if too_deep(value):
            raise AnswerInvalid([f"the value is nested deeper than {DEEPEST} levels"])
        try:
            return self._check(value)
        except ValidationError as error:
            raise AnswerInvalid(self._tell(error.errors(include_url=False))) from None

    def validate_json(self, written: str) -> Any:
        """The value that a JSON text holds, checked. Raises AnswerInvalid, for bad JSON with line and column."""
        try:
            value = read(written)
        except NotJSON as error:
            raise AnswerInvalid([f"not JSON: {error}"]) from None
        return self.validate(value)


def validator(schema: Mapping[str, Any], name: str, load: Callable[[str], Any] | None = None) -> Validator:
    """The validator of a normal-form schema; equal schemas share one.

    `load` imports the model of a `$python` schema (`package.module:Model`) and is asked for nothing else; without it
    such a schema is refused with a TypeError, since this module imports nothing.
    """
    if "$python" not in schema:
        return _built(json.dumps(schema), name)            # the order of fields counts: endpoints are shown it
    if load is None:
        raise TypeError(f"the schema of {name} is the python model {schema['$python']}: give validator() a `load` to import it")
    adapter: TypeAdapter[Any] = TypeAdapter(load(schema["$python"]))

    def check(value: Any) -> Any:
        return adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)

    return Validator(name, adapter.json_schema(), check, told)


@lru_cache(maxsize=_CACHED)
def _built(written: str, name: str) -> Validator:
    schema = json.loads(written)
    definitions = [_named(key, _core(node)) for key, node in schema.get("$defs", {}).items()]
    core = _core(schema)
    whole = core_schema.definitions_schema(core, definitions) if definitions else core
    return Validator(name, schema, SchemaValidator(whole).validate_python, lambda lines: complaints(lines, schema))


def _named(key: str, core: Core) -> Core:
    # A definition may be a bare reference, which can carry no name of its own: hence the wrapping.
    return core_schema.no_info_after_validator_function(_same, core, ref=key)


def _same(value: Any) -> Any:
    return value


def _core(node: Mapping[str, Any]) -> Core:
    if "$ref" in node:
        return core_schema.definition_reference_schema(node["$ref"].removeprefix("#/$defs/"))
    for word in ("anyOf", "oneOf"):
        if word in node:
            return union_core([_core(branch) for branch in node[word]], exactly_one=word == "oneOf")
    if "enum" in node:
        return core_schema.no_info_plain_validator_function(choice(node["enum"]))
    build = _KINDS.get(node.get("type"))
    return build(node) if build else core_schema.no_info_plain_validator_function(json_value)


def _object(node: Mapping[str, Any]) -> Core:
    required, others = set(node.get("required", ())), node.get("additionalProperties", True)
    fields = {}
    for name, written in node.get("properties", {}).items():
        core = _core(written)
        if "default" in written and name not in required:
            # The default is validated too: what it leaves out has defaults of its own, and the result is a fresh copy.
            core = core_schema.with_default_schema(core, default=written["default"], validate_default=True)
        fields[name] = core_schema.typed_dict_field(core, required=name in required)
    if others is False:
        return core_schema.typed_dict_schema(fields, strict=True, extra_behavior="forbid")
    return core_schema.no_info_after_validator_function(others_sorted(fields), core_schema.typed_dict_schema(
        fields, strict=True, extra_behavior="allow", extras_schema=_core({} if others is True else others)))


def _array(node: Mapping[str, Any]) -> Core:
    core: Core = core_schema.list_schema(
        _core(node.get("items", {})), strict=True, min_length=node.get("minItems"), max_length=node.get("maxItems"))
    return core_schema.no_info_after_validator_function(unique, core) if node.get("uniqueItems") else core


def _string(node: Mapping[str, Any]) -> Core:
    core: Core = core_schema.str_schema(strict=True, min_length=node.get("minLength"), max_length=node.get("maxLength"))
    return core_schema.no_info_after_validator_function(text(node.get("pattern")), core)


def _number(node: Mapping[str, Any]) -> Core:
    return core_schema.no_info_plain_validator_function(number(node, whole=node["type"] == "integer"))


def _boolean(node: Mapping[str, Any]) -> Core:
    return core_schema.bool_schema(strict=True)


def _null(node: Mapping[str, Any]) -> Core:
    return core_schema.none_schema()


_KINDS: dict[Any, Callable[[Mapping[str, Any]], Core]] = {
    "object": _object, "array": _array, "string": _string, "number": _number, "integer": _number, "boolean": _boolean,
    "null": _null,
}

