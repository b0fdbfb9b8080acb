"""A schema in any of its three spellings → the normal form (see `json_schema`).

The shorthand::

    string number integer boolean null any      a type by its name
    low | medium | high                         words: an enumeration
    number | null                               one of several types
    [T]                                         a list
    {title: T, 'note?': T}                      a closed object; `?` makes a field optional
    {type: string, minLength: 3}                JSON Schema: its values are no types, so they can't be fields
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.schema import keywords, references
from metaflow_agents.schema.faults import Faults, Path, SchemaFault, SchemaWritten
from metaflow_agents.schema.json_schema import DEEPEST_SCHEMA, any_of, enumeration, read_document
from metaflow_agents.schema.references import Node
from metaflow_agents.schema.wording import shown

NAMES = ("string", "number", "integer", "boolean", "null", "any")
HABITS = {
    "str": "string", "text": "string", "varchar": "string", "char": "string", "int": "integer", "long": "integer",
    "float": "number", "double": "number", "decimal": "number", "bool": "boolean", "true": "boolean", "false": "boolean",
    "none": "null", "nil": "null",
    "list": "[string]", "array": "[string]", "tuple": "[string]", "set": "[string]",
    "dict": "{name: string}", "object": "{name: string}", "map": "{name: string}",
    "date": "string", "datetime": "string", "optional": "string | null",
}
_WORD = re.compile(r"[\w.+/:@%&#-]+")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_MODEL = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def to_json_schema(written: Any) -> dict[str, Any]:
    """The normal form of a schema in any of the three spellings; `{"$python": "package.module:Model"}` for a python model.

    Raises SchemaWritten with all faults, each with its path inside `written`.
    """
    faults = Faults()
    if isinstance(written, Mapping) and set(written) == {"python"} and ":" in str(written["python"]):
        model = written["python"]
        if not isinstance(model, str) or not _MODEL.fullmatch(model):
            faults.add("python", ("python",), f"{shown(model)} names no model", "write `python: package.module:Model`")
        schema: Node = {"$python": model}
    else:
        schema = _Reader(faults).whole(written)
    if faults.found:
        raise SchemaWritten(faults.found)
    return schema


class _Reader:
    """Reads shorthand, and the JSON Schemas that stand inside it."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.definitions: dict[str, Node] = {}

    def whole(self, written: Any) -> Node:
        node = self.node(written, (), 0)
        return {**node, "$defs": self.definitions} if self.definitions else node

    def node(self, written: Any, path: Path, depth: int) -> Node:
        if depth > DEEPEST_SCHEMA:
            return self.faults.add("depth", path, f"nested deeper than {DEEPEST_SCHEMA} levels", "name parts of it under `$defs`")
        if written is None:
            return {"type": "null"}
        if isinstance(written, str):
            return self._text(written, path)
        if isinstance(written, list):
            return self._list(written, path, depth)
        if isinstance(written, Mapping):
            return self._mapping(written, path, depth)
        mend = "write `boolean`" if isinstance(written, bool) else f"one fixed value is written `{{enum: [{shown(written)}]}}`"
        return self.faults.add("type", path, f"{shown(written)} is no type", mend)

    def _list(self, written: list[Any], path: Path, depth: int) -> Node:
        if len(written) != 1:
            mend = "write `[any]`" if not written else "write one type for all items, like `[string]`; choices are `low | high`"
            return self.faults.add("list", path, f"a list names the type of its items, and {len(written)} are given", mend)
        return {"type": "array", "items": self.node(written[0], (*path, 0), depth + 1)}

    # -- mappings

    def _mapping(self, written: Mapping[Any, Any], path: Path, depth: int) -> Node:
        if any(mark in written for mark in keywords.MARKS) or isinstance(written.get("items"), Mapping):
            return self._embedded(written, path, depth)
        if set(written) == {"python"} and _MODEL.fullmatch(str(written["python"])):
            return self.faults.add("python", path, f"the python model {written['python']} stands inside a schema",
                                   "a python model is a whole schema: write its fields here, or make a model of the whole")
        if not written:
            return self.faults.add("type", path, "the schema is empty", "write `any`, or name the fields")
        before, defined = len(self.faults.found), dict(self.definitions)
        node = self._object(written, path, depth)
        spoiled = self.faults.found[before:]
        if set(written) <= keywords.KNOWN and (spoiled or (set(written) == {"type"} and written["type"] in keywords.TYPES)):
            del self.faults.found[before:]
            self.definitions = defined
            if not set(written) <= {*keywords.ANNOTATIONS, *keywords.DROPPED} and any(
                    _no_type(key, part) for key, part in written.items() if _at_fault(spoiled, (*path, key))):
                node = self._embedded(written, path, depth)         # no value of a field: it can be JSON Schema alone
                if len(self.faults.found) == before or _is_json_type(written.get("type")):
                    return node
                del self.faults.found[before:]
            return self.faults.add("unmarked", path, f"{shown(dict(written))} looks like JSON Schema, and is read as fields",
                                   self._unmarked_mend(written))
        return node

    @staticmethod
    def _unmarked_mend(written: Mapping[Any, Any]) -> str:
        kind = written.get("type")
        plain = f"write `{kind}` for a plain {kind}; " if isinstance(kind, str) and kind in NAMES else ""
        return (f"{plain}add `$schema: 'https://json-schema.org/draft/2020-12/schema'` to have it read as JSON Schema; "
                "fields that are called so are declared under `properties`")

    def _embedded(self, written: Mapping[Any, Any], path: Path, depth: int) -> Node:
        node, needed = read_document(written, path, self.faults, depth)
        names = {name: self._free(name, part) for name, part in needed.items()}
        for name, part in needed.items():
            self.definitions[names[name]] = references.renamed(part, names)
        return references.renamed(node, names)

    def _free(self, name: str, part: Node) -> str:
        free, number = name, 2
        while free in self.definitions and self.definitions[free] != part:
            free, number = f"{name}_{number}", number + 1
        return free

    def _object(self, written: Mapping[Any, Any], path: Path, depth: int) -> Node:
        properties: dict[str, Node] = {}
        required: list[str] = []
        for key, part in written.items():
            name = key.removesuffix("?").strip() if isinstance(key, str) else ""
            if not name:
                said = "write it in quotes" if not isinstance(key, str) else "give the field a name"
                self.faults.add("key", (*path, key), f"{shown(key)} is no field name", said)
                continue
            if name in properties:
                self.faults.add("key", (*path, key), f"the field `{name}` is declared with and without `?`", "keep one of them")
            properties[name] = self.node(part, (*path, key), depth + 1)
            # A field with a default need not be given: in the shorthand there is no other way to mean it.
            if not key.endswith("?") and "default" not in properties[name]:
                required.append(name)
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    # -- texts

    def _text(self, written: str, path: Path) -> Node:
        parts = [part.strip() for part in _split(written)]
        if "" in parts:
            return self.faults.add("type", path, f"{shown(written)} has an empty part", did_you_mean("", NAMES))
        read = [self._part(part, path) for part in parts]
        refused = _refused(read)
        if refused is not None:
            word, mend = refused
            return self.faults.add("type", path, f"`{word}` is no type", mend)
        choices = [part.text for part in read if isinstance(part, _Word)]
        if len(set(choices)) < len(choices):
            return self.faults.add("enum", path, f"{shown(written)} names a choice twice", "keep one")
        # The choices together are one branch, where the first of them stands.
        return any_of([enumeration(list(choices)) if isinstance(part, _Word) else part for part in read])

    def _part(self, part: str, path: Path) -> Node | _Word:
        quoted = _QUOTED.fullmatch(part)
        if quoted:
            return _Word(quoted[1] if quoted[1] is not None else quoted[2], quoted=True)
        if part.startswith("[") and part.endswith("]"):
            return {"type": "array", "items": self._text(part[1:-1], path)}
        if part in NAMES:
            return {} if part == "any" else {"type": part}
        return _Word(part, quoted=False)


class _Word(NamedTuple):
    """A part of a text that names no type."""

    text: str
    quoted: bool


def _refused(read: list[Node | _Word]) -> tuple[str, str] | None:
    """The word that can't stand in an enumeration, with the mend; None where all is well."""
    strays = [part.text for part in read if isinstance(part, _Word) and not part.quoted]
    types = [part for part in read if not isinstance(part, _Word) and part != {"type": "null"}]
    for stray in strays:
        if not _WORD.fullmatch(stray):
            return stray, _mend(stray)
    if strays and types:                                    # `string | low`: is `low` a type mistyped, or a word?
        return strays[0], _mend(strays[0])
    if len(read) == 1 and strays:
        return strays[0], _mend(strays[0], alone=True)
    if strays and all(_like_type(part.text) for part in read if isinstance(part, _Word)):
        return strays[0], _mend(strays[0])
    return None


def _at_fault(found: Sequence[SchemaFault], path: Path) -> bool:
    return any(fault.path[:len(path)] == path for fault in found)


def _no_type(key: str, part: Any) -> bool:
    """Whether what stands at a keyword, and can't be read as a type, is no type mistyped either: a number, words, a pattern."""
    return not isinstance(part, str) or key == "format" or not any(_like_type(word.strip()) for word in _split(part))


def _is_json_type(written: Any) -> bool:
    return isinstance(written, list) or written in keywords.TYPES


def _split(text: str) -> Iterator[str]:
    """The parts between `|`, not counting those in quotes and brackets."""
    start = depth = 0
    quote = ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
        elif letter == "|" and depth <= 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _like_type(word: str) -> bool:
    """Whether a word is a type name mistyped, or one from elsewhere."""
    return word.lower() in HABITS or word.lower() in NAMES or nearest(word, NAMES, like=0.75) is not None


def _mend(word: str, *, alone: bool = False) -> str:
    meant = HABITS.get(word.lower()) or (word.lower() if word.lower() in NAMES else None)
    optional = re.fullmatch(r"(?:Optional\[)?(\w+)[\]?]", word)
    listed = re.fullmatch(r"(?:[Ll]ist|[Aa]rray|Sequence)[\[<](\w+)[\]>]|(\w+)\[\]", word)
    if listed:
        inner = listed[1] or listed[2]
        return f"a list is written `[{HABITS.get(inner.lower(), inner)}]`"
    if optional:
        inner = HABITS.get(optional[1].lower(), optional[1])
        return f"write `{inner} | null` for a value that may be null, and `'name?': {inner}` for a field that may be missing"
    if re.match(r"(?:[Dd]ict|[Mm]ap|object|Record)\b", word):
        return "name its fields like `{name: string}`; where keys vary, write `{properties: {}, additionalProperties: SCHEMA}`"
    tail = f"; an enumeration of one is `{{enum: [{word}]}}`" if alone else "; quote it where it is a word of an enumeration"
    if meant:
        return f"write `{meant}`{tail}"
    if " " in word:
        return f"choices are separated by `|`, and one of several words stands in quotes: `\"{word}\" | other`"
    return did_you_mean(word, NAMES) + tail
