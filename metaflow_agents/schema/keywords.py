"""The supported subset of JSON Schema (draft 2020-12), as tables."""

from __future__ import annotations

from types import MappingProxyType

TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")

OF_STRINGS = ("minLength", "maxLength", "pattern", "format")
OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
OF_LISTS = ("items", "minItems", "maxItems", "uniqueItems")
OF_OBJECTS = ("properties", "required", "additionalProperties")

OWNERS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType({
    **dict.fromkeys(OF_STRINGS, ("string",)),
    **dict.fromkeys(OF_NUMBERS, ("number", "integer")),
    **dict.fromkeys(OF_LISTS, ("array",)),
    **dict.fromkeys(OF_OBJECTS, ("object",)),
})
"""Keyword → the types that it speaks of."""

FORMS = ("$ref", "anyOf", "oneOf", "allOf", "enum", "const")
"""Keywords that say by themselves what a value is."""

ANNOTATIONS = ("title", "description", "default", "examples", "format")
"""Keywords that tell and do not check."""

ROOT_ONLY = ("$defs", "definitions")
DROPPED = ("$schema", "$id", "$comment")

KNOWN = frozenset({"type", *OWNERS, *FORMS, *ANNOTATIONS, *ROOT_ONLY, *DROPPED})

MARKS = ("$schema", "$ref", "properties", "anyOf", "enum")
"""A mapping with one of these (or with `items` that is a mapping) is JSON Schema; all else is shorthand."""

REFUSED: MappingProxyType[str, str] = MappingProxyType({
    "nullable": "write `type: [string, 'null']`, or `anyOf` with `{type: 'null'}`",
    "not": "say what is allowed, with `enum`, `pattern` or a range; or write a rule of the artifact (`rules:`)",
    "if": "write `anyOf` with one branch for each case; or a rule of the artifact (`rules:`)",
    "then": "write `anyOf` with one branch for each case",
    "else": "write `anyOf` with one branch for each case",
    "prefixItems": "write an object with named fields, or `items` with `anyOf`",
    "additionalItems": "write `items`, the schema of every item",
    "contains": "write a rule of the artifact (`rules:`)",
    "patternProperties": "write `additionalProperties: SCHEMA`",
    "propertyNames": "write a rule of the artifact (`rules:`)",
    "minProperties": "write a rule of the artifact (`rules:`)",
    "maxProperties": "write a rule of the artifact (`rules:`)",
    "dependentRequired": "write `anyOf` with one branch for each case",
    "dependentSchemas": "write `anyOf` with one branch for each case",
    "dependencies": "write `anyOf` with one branch for each case",
    "unevaluatedProperties": "write `additionalProperties: false`",
    "unevaluatedItems": "write `items`, the schema of every item",
    "optional": "leave the field out of `required`",
    "id": "leave it out",
    "$anchor": "write `$ref: '#/$defs/NAME'`",
    "$dynamicRef": "write `$ref: '#/$defs/NAME'`",
    "readOnly": "leave it out", "writeOnly": "leave it out", "deprecated": "say so in `description`",
    "example": "write `examples: [VALUE]`",
    "contentMediaType": "say so in `description`", "contentEncoding": "say so in `description`",
    "discriminator": "leave it out: a field with a `const` in each branch of `anyOf` tells them apart",
})
"""Keywords of JSON Schema and its relatives that are not supported → the mend."""
