"""JSON Schema as people write it → the normal form, or all that is wrong with it.

The normal form, which everything else reads:

- any value: no `type`; otherwise exactly one of `$ref`, `anyOf`, `oneOf`, or one `type` (with `enum` or with bounds);
- an object has `properties`, `required` and `additionalProperties`; an array has `items`;
- `type` lists and choices of several types are `anyOf`; `const` is an `enum` of one; `definitions` are `$defs` at the root,
  only those that are needed.

Stricter than JSON Schema, since what it ignores in silence is a mistake of the person: a keyword beside a type that it does
not speak of, keywords beside `$ref` or `anyOf`, a required field that is not declared. A schema without `type` whose keywords
all speak of one type has that type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from metaflow_agents.errors import AnswerInvalid, did_you_mean
from metaflow_agents.schema import keywords, references
from metaflow_agents.schema.bounds import list_bounds, number_bounds, string_bounds
from metaflow_agents.schema.checks import identity, is_json
from metaflow_agents.schema.faults import Faults, Path
from metaflow_agents.schema.references import Node
from metaflow_agents.schema.validation import validator
from metaflow_agents.schema.wording import shown

DEEPEST_SCHEMA = 40


def read_document(written: Mapping[str, Any], path: Path, faults: Faults, depth: int = 0) -> tuple[Node, dict[str, Node]]:
    """A JSON Schema with its own `$defs` → its normal form and the definitions that it needs."""
    return _Document(written, path, faults).read(depth)


class _Document:
    """One JSON Schema: where its `$ref`s lead and which defaults are to be checked at the end."""

    def __init__(self, written: Mapping[str, Any], path: Path, faults: Faults) -> None:
        self.written, self.path, self.faults = written, path, faults
        self.promised: list[tuple[Path, Node, Any, str]] = []      # (path, schema, value that must fit it, code)
        self.places: dict[str, Path] = {}

    def read(self, depth: int) -> tuple[Node, dict[str, Node]]:
        for word in keywords.ROOT_ONLY:
            defined = self.written.get(word, {})
            if not isinstance(defined, Mapping):
                self.faults.add("value", (*self.path, word), f"`{word}` is {shown(defined)}", "write `{NAME: SCHEMA}`")
                continue
            for name in defined:
                if name in self.places:
                    self.faults.add("value", (*self.path, word, name), f"`{name}` is defined twice", "keep one of them")
                self.places[str(name)] = (*self.path, word, name)
        definitions = {name: self.node(self._written_at(place), place, depth + 1) for name, place in self.places.items()}
        node = self.node(self.written, self.path, depth)
        for name in references.circular(definitions):
            definitions[name] = self.faults.add(
                "endless", self.places[name], f"`{name}` is defined as itself", "put a field or a list between")
        for name in references.endless(definitions):
            self.faults.add("endless", self.places[name], f"no finite value fits `{name}`: each one must hold another",
                            "make the field that repeats it optional, a list, or `anyOf` with `{type: 'null'}`")
        self._keep_promises(definitions)
        return node, references.reachable(node, definitions)

    def _written_at(self, place: Path) -> Any:
        word, name = place[-2:]
        return self.written[cast(str, word)][name]

    def _keep_promises(self, definitions: Mapping[str, Node]) -> None:
        for path, node, value, code in self.promised:
            try:
                validator({**node, "$defs": references.reachable(node, definitions)}, "it").validate(value)
            except AnswerInvalid as refused:
                self.faults.add(code, path, f"{shown(value)} does not fit its own schema: {refused}",
                                "change the value, or the schema beside it")

    def node(self, written: Any, path: Path, depth: int) -> Node:
        """One schema, whatever its form."""
        if written is True:
            return {}
        if not isinstance(written, Mapping):
            return self._no_mapping(written, path)
        if depth > DEEPEST_SCHEMA:
            return self.faults.add("depth", path, f"nested deeper than {DEEPEST_SCHEMA} levels", "name parts of it under `$defs`")
        self._known(written, path)
        forms = [word for word in keywords.FORMS if word in written]
        if len(forms) > 1:
            return self.faults.add("combination", (*path, forms[1]), f"`{forms[0]}` and `{forms[1]}` can't be combined",
                                   "keep one, and write the other inside it or inside each branch")
        read = {"$ref": self._ref, "anyOf": self._branches, "oneOf": self._branches, "allOf": self._all_of,
                "enum": self._choices, "const": self._choices}
        node = read[forms[0]](written, path, depth) if forms else self._typed(written, path, depth)
        return self._annotated(node, written, path)

    def _no_mapping(self, written: Any, path: Path) -> Node:
        if isinstance(written, str | list):
            return self.faults.add(
                "mixed", path, f"{shown(written)} is shorthand inside a JSON Schema",
                f"write like `{{type: {written if written in keywords.TYPES else 'string'}}}`, or all of it in the shorthand")
        return self.faults.add("type", path, f"{shown(written)} is no schema", "write a mapping like `{type: string}`")

    def _known(self, written: Mapping[str, Any], path: Path) -> None:
        for word in written:
            if word in keywords.ROOT_ONLY and path != self.path:
                self.faults.add("ref", (*path, word), f"`{word}` stands inside the schema", "move it to the schema's top")
            elif word in keywords.REFUSED:
                self.faults.add("keyword", (*path, word), f"the JSON Schema keyword `{word}` is not supported",
                                keywords.REFUSED[word])
            elif word not in keywords.KNOWN:
                self.faults.add("keyword", (*path, word), f"`{word}` is no JSON Schema keyword that is supported",
                                did_you_mean(str(word), sorted(keywords.KNOWN), limit=len(keywords.KNOWN)))

    # -- annotations

    def _annotated(self, node: Node, written: Mapping[str, Any], path: Path) -> Node:
        told: Node = {}
        for word in keywords.ANNOTATIONS:
            if word in written and self._sound(word, written[word], (*path, word)):
                told[word] = written[word]
        if "default" in told:
            self.promised.append(((*path, "default"), node, told["default"], "default"))
        for place, value in enumerate(told.get("examples", ())):
            self.promised.append(((*path, "examples", place), node, value, "example"))
        return {**node, **told}

    def _sound(self, word: str, value: Any, path: Path) -> bool:
        if word in ("title", "description", "format") and not isinstance(value, str):
            self.faults.add("value", path, f"`{word}` is {shown(value)}", "write text")
        elif word == "examples" and not (isinstance(value, list) and value):
            self.faults.add("value", path, f"`examples` is {shown(value)}", "write a list of values")
        elif not is_json(value):
            self.faults.add("value", path, f"`{word}` is no JSON value", "write text, numbers, booleans, lists, mappings")
        else:
            return True
        return False

    def _alone(self, written: Mapping[str, Any], word: str, path: Path) -> None:
        """What stands beside a form that says it all."""
        for other in written:
            if other == "type" or (other in keywords.OWNERS and other != "format"):
                self.faults.add("combination", (*path, other), f"`{other}` stands beside `{word}`",
                                f"write it inside `{word}`, or leave it out")

    # -- forms

    def _ref(self, written: Mapping[str, Any], path: Path, depth: int) -> Node:
        self._alone(written, "$ref", path)
        where, place = written["$ref"], (*path, "$ref")
        match = re.fullmatch(r"#/(?:\$defs|definitions)/([^/]+)", where) if isinstance(where, str) else None
        if not match:
            return self.faults.add("ref", place, f"`$ref` is {shown(where)}, which leads out of `$defs`",
                                   "move what it means into `$defs`, and write `$ref: '#/$defs/NAME'`")
        name = unquote(match[1]).replace("~1", "/").replace("~0", "~")
        if name not in self.places:
            return self.faults.add("ref", place, f"there is no `{name}` in `$defs`", did_you_mean(name, self.places))
        return {"$ref": references.PREFIX + name}

    def _branches(self, written: Mapping[str, Any], path: Path, depth: int) -> Node:
        word = "anyOf" if "anyOf" in written else "oneOf"
        self._alone(written, word, path)
        listed = written[word]
        if not isinstance(listed, list) or not listed:
            return self.faults.add("value", (*path, word), f"`{word}` is {shown(listed)}", "write a list of schemas")
        branches = [self.node(branch, (*path, word, place), depth + 1) for place, branch in enumerate(listed)]
        return any_of(branches) if word == "anyOf" else (branches[0] if len(branches) == 1 else {"oneOf": branches})

    def _all_of(self, written: Mapping[str, Any], path: Path, depth: int) -> Node:
        self._alone(written, "allOf", path)
        listed = written["allOf"]
        if not isinstance(listed, list) or len(listed) != 1:
            return self.faults.add("keyword", (*path, "allOf"), "`allOf` of several schemas is not supported",
                                   "write one schema that says it all")
        return self.node(listed[0], (*path, "allOf", 0), depth + 1)

    def _choices(self, written: Mapping[str, Any], path: Path, depth: int) -> Node:
        word = "enum" if "enum" in written else "const"
        values = written["enum"] if word == "enum" else [written["const"]]
        if not isinstance(values, list) or not values:
            return self.faults.add("enum", (*path, word), f"`enum` is {shown(values)}", "write a list of values")
        if not all(is_json(value) for value in values):
            return self.faults.add("enum", (*path, word), "a choice is no JSON value", "write text, numbers, booleans or null")
        for place, value in enumerate(values):
            if identity(value) in map(identity, values[:place]):
                self.faults.add("enum", (*path, word, place), f"{shown(value)} is duplicated", "keep one")
        rest = {key: part for key, part in written.items() if key == "type" or (key in keywords.OWNERS and key != "format")}
        if rest:
            bound = self._typed(rest, path, depth)
            for place, value in enumerate(values):
                self.promised.append(((*path, word, place) if word == "enum" else (*path, word), bound, value, "enum"))
        return enumeration(values, number=rest.get("type") == "number")

    # -- types

    def _typed(self, written: Mapping[str, Any], path: Path, depth: int) -> Node:
        used = [word for word in written if word in keywords.OWNERS]
        kinds = self._kinds(written, used, path)
        for word in used:
            if kinds and not set(kinds) & set(keywords.OWNERS[word]):
                owners = " or ".join(keywords.OWNERS[word])
                self.faults.add("misplaced", (*path, word), f"`{word}` speaks of {owners}, and this is {' or '.join(kinds)}",
                                f"leave it out, or write `type: {keywords.OWNERS[word][0]}`")
        read = {"object": self._object, "array": self._array, "string": self._string, "number": self._number,
                "integer": self._number}
        return any_of([read[kind](written, kind, path, depth) if kind in read else {"type": kind} for kind in kinds] or [{}])

    def _kinds(self, written: Mapping[str, Any], used: list[str], path: Path) -> list[str]:
        if "type" not in written:
            owners = {keywords.OWNERS[word] for word in used}
            if len(owners) > 1:
                self.faults.add("type", path, f"{', '.join(f'`{word}`' for word in used)} speak of different types",
                                "say which it is with `type`")
            return [next(iter(owners))[0]] if len(owners) == 1 else []
        listed = written["type"] if isinstance(written["type"], list) else [written["type"]]
        for kind in listed:
            if kind not in keywords.TYPES:
                mend = "write `'null'` in quotes" if kind is None else did_you_mean(str(kind), keywords.TYPES)
                self.faults.add("type", (*path, "type"), f"`{kind}` is no type of JSON Schema", mend)
        if not listed:
            self.faults.add("type", (*path, "type"), "`type` is an empty list", did_you_mean("", keywords.TYPES))
        kinds = list(dict.fromkeys(kind for kind in listed if kind in keywords.TYPES))
        return [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]

    def _object(self, written: Mapping[str, Any], kind: str, path: Path, depth: int) -> Node:
        declared = written.get("properties", {})
        if not isinstance(declared, Mapping):
            self.faults.add("value", (*path, "properties"), f"`properties` is {shown(declared)}", "write `{NAME: SCHEMA}`")
            declared = {}
        for name in declared:
            if not isinstance(name, str):
                self.faults.add("key", (*path, "properties", name), f"the name {shown(name)} is no text", "put it in quotes")
        properties = {str(name): self.node(part, (*path, "properties", name), depth + 1) for name, part in declared.items()}
        others = written.get("additionalProperties", True)
        if not isinstance(others, bool):
            others = self.node(others, (*path, "additionalProperties"), depth + 1) or True
        required = self._required(written.get("required", []), properties, path)
        return {"type": kind, "properties": properties, "required": required, "additionalProperties": others}

    def _required(self, listed: Any, properties: Mapping[str, Node], path: Path) -> list[str]:
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            mend = "list the names in the object's own `required`" if isinstance(listed, bool) else "write a list of names"
            self.faults.add("value", (*path, "required"), f"`required` is {shown(listed)}", mend)
            return []
        for place, name in enumerate(listed):
            if name not in properties:
                self.faults.add("required", (*path, "required", place), f"`{name}` is required and no property declares it",
                                did_you_mean(name, properties))
            elif name in listed[:place]:
                self.faults.add("required", (*path, "required", place), f"`{name}` is duplicated", "keep one")
        return [name for name in properties if name in listed]

    def _array(self, written: Mapping[str, Any], kind: str, path: Path, depth: int) -> Node:
        items = written.get("items", True)
        if isinstance(items, list):
            items = self.faults.add("value", (*path, "items"), "`items` is a list", "write one schema, that of every item")
        node: Node = {"type": kind, "items": self.node(items, (*path, "items"), depth + 1)}
        return {**node, **list_bounds(written, path, self.faults)}

    def _string(self, written: Mapping[str, Any], kind: str, path: Path, depth: int) -> Node:
        return {"type": kind, **string_bounds(written, path, self.faults)}

    def _number(self, written: Mapping[str, Any], kind: str, path: Path, depth: int) -> Node:
        return {"type": kind, **number_bounds(written, path, self.faults)}


def any_of(branches: list[Node]) -> Node:
    """One of the branches: unions inside are flattened, equal branches merged, and any value swallows all."""
    flat: list[Node] = []
    for branch in branches:
        for part in branch["anyOf"] if set(branch) == {"anyOf"} else [branch]:
            if part not in flat:
                flat.append(part)
    if {} in flat:
        return {}
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def enumeration(values: list[Any], *, number: bool = False) -> Node:
    """These values: one typed choice for each type among them. `number`: whole numbers are numbers too."""
    groups: dict[str, list[Any]] = {}
    real = number or any(isinstance(value, float) for value in values)
    for value in values:
        kind = _kind(value)
        groups.setdefault("number" if kind == "integer" and real else kind, []).append(value)
    return any_of([{"type": kind} if kind == "null" else {"type": kind, "enum": group} for kind, group in groups.items()])


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    known = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"))
    return next((kind for python, kind in known if isinstance(value, python)), "object")
