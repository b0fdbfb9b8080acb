"""What a model gives as a tool's arguments, against the tool's schema: every fault names the argument and what was expected.

The schemas of tools come from anywhere (a server, a service, a function's signature), so that it is JSON Schema as it stands
(https://json-schema.org/draft/2020-12) that decides, read by the `jsonschema` package. Nothing is fetched for a `$ref`. One
thing is read as a signature is: where arguments are named and nothing is said of others, others are refused. To JSON Schema
they would be welcome, and a misspelt argument that is optional would be lost without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from metaflow_agents.errors import nearest
from metaflow_agents.texts.strict_json import NotJSON, read

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_SHOWN = 120                        # characters of a value that a message shows
_FAULTS = 8
_PATTERN_SECONDS = 0.5
_OPENING = frozenset({"additionalProperties", "unevaluatedProperties", "patternProperties", "dependentSchemas", "dependencies",
                      "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else"})
"""Words that say something of fields which `properties` does not name, or may."""


def faults_of(schema: Mapping[str, Any], arguments: Any) -> list[str]:
    """What is wrong with the arguments of a call, each fault with its mend; nothing where they fit."""
    if isinstance(arguments, str):
        return [f"the arguments are no JSON object: {_why(arguments)}; give one that fits the tool's schema"]
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable
    try:
        found: list[ValidationError] = sorted(_validator()(_signature(schema)).iter_errors(arguments),
                                              key=lambda error: [str(part) for part in error.path])
    except (SchemaError, Unresolvable, RecursionError, ValueError, TypeError) as error:
        return [f"the tool's own schema can't be used ({' '.join(str(error).split())[:_SHOWN]}): use another tool"]
    told = list(dict.fromkeys(fault for error in found for fault in _told(error)))
    more = [f"… and {len(told) - _FAULTS} more"] if len(told) > _FAULTS else []
    return [*told[:_FAULTS], *more]


def _signature(schema: Any, *, whole: bool = True) -> Any:
    """The schema with what names its fields, and says nothing of others, closed. An inner object without names stays open."""
    if not isinstance(schema, Mapping):
        return schema
    found = dict(schema)
    if isinstance(found.get("items"), Mapping):
        found["items"] = _signature(found["items"], whole=False)
    fields = found.get("properties")
    if isinstance(fields, Mapping):
        found["properties"] = {name: _signature(field, whole=False) for name, field in fields.items()}
        if (fields or whole) and _OPENING.isdisjoint(found):
            found["additionalProperties"] = False
    return found


@cache
def _validator() -> Any:
    """That of `jsonschema`, but for regular expressions: somebody else's may backtrack for ever, and are given up."""
    import regex
    from jsonschema import Draft202012Validator, SchemaError, ValidationError
    from jsonschema.validators import extend

    def pattern(_: Any, wanted: str, given: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(given, str):
            try:
                if not regex.search(wanted, given, timeout=_PATTERN_SECONDS):
                    yield ValidationError(f"{given!r} does not match {wanted!r}")
            except TimeoutError:
                yield ValidationError(f"whether it matches {wanted!r} was not found out in time: give a shorter text")
            except regex.error as error:
                raise SchemaError(f"{wanted!r} is no regular expression: {error}") from None

    return extend(Draft202012Validator, {"pattern": pattern})  # type: ignore[no-untyped-call]


def _told(error: ValidationError) -> Iterator[str]:
    instance: Any = error.instance
    where = _place(error)
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    match error.validator:
        case "required":
            wanted: Any = error.validator_value
            for name in [name for name in wanted if name not in instance]:
                yield f"`{_under(where, name)}` is missing; expected {_expected(schema.get('properties', {}).get(name, {}))}"
        case "additionalProperties" | "unevaluatedProperties":
            known = list(schema.get("properties", {}))
            for name in [name for name in instance if name not in known]:
                close = nearest(name, known)
                there = ", ".join(f"`{one}`" for one in known) or "none"
                hint = f"did you mean `{close}`? " if close else ""
                yield f"`{_under(where, name)}` is no argument of this tool: {hint}there is: {there}"
        case "anyOf" | "oneOf" | "type" | "enum" | "const":
            yield f"`{where}` is {_shown(instance)}; expected {_expected(schema)}"
        case _:
            yield f"`{where}`: {' '.join(error.message.split())[:2 * _SHOWN]}"


def _place(error: ValidationError) -> str:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "arguments"


def _under(where: str, name: str) -> str:
    return name if where == "arguments" else f"{where}.{name}"


def _expected(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "a value"
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"][:20])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_expected(one) for one in schema[word]))
    kind = schema.get("type")
    names = {"object": "an object", "array": "a list", "string": "a text", "integer": "a whole number", "number": "a number",
             "boolean": "true or false", "null": "null"}
    if isinstance(kind, list):
        return " or ".join(names.get(one, str(one)) for one in kind)
    return names.get(str(kind), "a value")


def _shown(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}… ({len(written):,} characters)"


def _why(written: str) -> str:
    try:
        value = read(written, lines=True)
    except NotJSON as error:
        return str(error)
    return f"they are {_shown(value)}"
