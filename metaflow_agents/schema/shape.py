"""The static view of a schema: what `sop check` knows of a value before there is one.

A shape answers "may this path exist?" and never guesses: where anything is open (an open object, `any`, a python
model), every field exists and has the shape `any`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from metaflow_agents.schema.binary import FIELDS
from metaflow_agents.schema.wording import describe, resolved

Kind = Literal["any", "object", "list", "string", "number", "integer", "boolean", "null", "union", "files", "collection"]
_OPEN: dict[str, Any] = {}


@dataclass(frozen=True)
class Shape:
    """What is known of a value. Made by `Shape.of` and the other class methods, not by hand.

    `optional`: the value may be missing (an optional field, or a field of only some branches of a union). `file`: a text may be
    a file that is none, and have its fields (`schema/binary.py`).
    """

    kind: Kind
    optional: bool = False
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)
    root: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    element: Shape | None = None
    branches: tuple[Shape, ...] = ()
    file: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Shape:
        """The shape of a normal-form schema. `root` holds the `$defs`; by default the schema itself."""
        root = schema if root is None else root
        node = resolved(schema, root)
        for word in ("anyOf", "oneOf"):
            if word in node:
                return cls.union(*(cls.of(branch, root) for branch in node[word]))
        if "$python" in node:
            return cls("any")
        if "enum" in node and "type" not in node:
            return cls.union(*(cls(_kind_of(value), schema={"enum": [value]}, root=root) for value in node["enum"]))
        return cls(_KINDS.get(node.get("type"), "any"), schema=node, root=root)

    @classmethod
    def any(cls) -> Shape:
        """Nothing is known."""
        return cls("any")

    @classmethod
    def text(cls) -> Shape:
        """A string."""
        return cls("string", schema={"type": "string"})

    @classmethod
    def content(cls) -> Shape:
        """What a file holds: a string, or what is known of a file that is no text."""
        return cls("string", schema={"type": "string"}, file=True)

    @classmethod
    def files(cls) -> Shape:
        """A set of files: path → what they hold, with `missing`."""
        return cls("files", element=cls.content())

    @classmethod
    def collection(cls, item: Shape) -> Shape:
        """What an `each:` artifact is: key → item, with `missing`."""
        return cls("collection", element=item)

    @classmethod
    def list_of(cls, item: Shape) -> Shape:
        """A list of such items."""
        return cls("list", element=item)

    @classmethod
    def object_of(cls, fields: Mapping[str, Shape]) -> Shape:
        """An object with these fields and no others."""
        return cls.of({"type": "object", "properties": {name: shape.as_schema() for name, shape in fields.items()},
                       "required": list(fields), "additionalProperties": False})

    @classmethod
    def union(cls, *shapes: Shape) -> Shape:
        """One of these. Unions inside are flattened and equal branches merged; one `any` makes all of it `any`."""
        flat: list[Shape] = []
        for shape in shapes:
            for branch in shape.branches or (shape,):
                bare = replace(branch, optional=False)
                if bare not in flat:
                    flat.append(bare)
        optional = True in {shape.optional for shape in shapes}
        if not flat or "any" in {branch.kind for branch in flat}:
            return cls("any", optional=optional)
        return replace(flat[0], optional=optional) if len(flat) == 1 else cls("union", optional=optional, branches=tuple(flat))

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that the value may have: one, or those of a union's branches."""
        return frozenset(branch.kind for branch in self.branches) or frozenset({self.kind})

    def as_optional(self) -> Shape:
        """The same, but it may be missing."""
        return replace(self, optional=True)

    def field(self, name: str) -> Shape | None:
        """The shape of a field; None where there is certainly none (a closed object, a list, a text, a number)."""
        if self.kind == "union":
            found = [branch.field(name) for branch in self.branches]
            there = [shape for shape in found if shape is not None]
            if not there:
                return None
            joined = Shape.union(*there)
            return joined if len(there) == len(found) else joined.as_optional()
        if self.kind == "any":
            return Shape.any()
        if self.kind in ("files", "collection"):
            return _MISSING_KEYS if name == "missing" else (self.element or Shape.any()).as_optional()
        if self.file and name in FIELDS:
            return Shape.of({"type": "integer" if name == "size" else "string"})
        return self._property(name) if self.kind == "object" else None

    def _property(self, name: str) -> Shape | None:
        if "enum" in self.schema:
            return Shape.any()
        properties, others = self.schema.get("properties", {}), self.schema.get("additionalProperties", True)
        if name in properties:
            shape = Shape.of(properties[name], self.root)
            sure = name in self.schema.get("required", ()) or "default" in properties[name]
            return shape if sure else shape.as_optional()
        if others is False:
            return None
        return Shape.any() if others is True else Shape.of(others, self.root).as_optional()

    def fields(self) -> tuple[str, ...]:
        """The names of the fields that are known, in the order in which they were written."""
        if self.kind == "union":
            return tuple(dict.fromkeys(name for branch in self.branches for name in branch.fields()))
        if self.kind in ("files", "collection"):
            return ("missing",)
        if self.file:
            return FIELDS
        return tuple(self.schema.get("properties", ())) if self.kind == "object" else ()

    def item(self) -> Shape:
        """What walking over the value gives: an item of a list, a key of an object, of files or of a collection.

        `any` where nothing is known, and where the value can't be walked over: ask `kinds` first.
        """
        if self.kind == "union":
            walked = [branch.item() for branch in self.branches if branch.kind in _WALKED]
            return Shape.union(*walked)
        if self.kind == "list":
            return self.element or ("enum" in self.schema and Shape.any()) or Shape.of(self.schema.get("items", _OPEN), self.root)
        return Shape.text() if self.kind in _WALKED else Shape.any()

    def enum(self) -> tuple[Any, ...] | None:
        """All values that it may have, where they are counted out (`null` included); None where they are not."""
        if self.kind == "union":
            choices = [(None,) if branch.kind == "null" else branch.enum() for branch in self.branches]
            if all(choice is not None for choice in choices) and self.kinds != {"null"}:
                return tuple(value for choice in choices if choice is not None for value in choice)
            return None
        return tuple(self.schema["enum"]) if "enum" in self.schema else None

    def as_schema(self) -> dict[str, Any]:
        """A schema that stands on its own, for a field of an object that an expression writes; `{}` where that can't be said."""
        if self.branches:
            return {"anyOf": [branch.as_schema() for branch in self.branches]}
        if self.kind == "list" and self.element is not None:
            return {"type": "array", "items": self.element.as_schema()}
        if self.kind in ("any", "files", "collection") or self.file or "$defs" in self.root:
            return {}
        return dict(self.schema) or {"type": self.kind}

    def describe(self) -> str:
        """In a few words: `list of {path, purpose, uses}`, `"low" or "high"`."""
        if self.kind == "union":
            return " or ".join(dict.fromkeys(branch.describe() for branch in self.branches))
        if self.kind == "files":
            return "files (path to text)"
        if self.kind == "collection":
            return f"collection of {(self.element or Shape.any()).describe()}"
        if self.kind == "list" and self.element is not None:
            return f"list of {self.element.describe()}"
        return describe(self.schema, self.root) if self.schema else ("any value" if self.kind == "any" else self.kind)


_KINDS: dict[Any, Kind] = {
    "object": "object", "array": "list", "string": "string", "number": "number", "integer": "integer",
    "boolean": "boolean", "null": "null",
}
_WALKED = ("list", "object", "files", "collection")
_MISSING_KEYS = Shape.list_of(Shape.text())


def _kind_of(value: object) -> Kind:
    if value is None:
        return "null"
    for python, kind in _PYTHON_KINDS:
        if isinstance(value, python):
            return kind
    return "any"


_PYTHON_KINDS: tuple[tuple[type, Kind], ...] = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "list"), (dict, "object"))
