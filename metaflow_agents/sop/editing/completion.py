"""What may stand at the cursor: keys and words of the language from its schema, names from the file, fields from its schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from metaflow_agents.models import ways
from metaflow_agents.policy.judged import BUILT_IN
from metaflow_agents.prompts.filters import FILTERS
from metaflow_agents.prompts.predicates import TESTS
from metaflow_agents.schema.keywords import TYPES
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import READS
from metaflow_agents.schema.strategies import STRATEGIES
from metaflow_agents.sop.checks.context import Context
from metaflow_agents.sop.editing.cursor import MARK, Cursor, cursor_at
from metaflow_agents.sop.editing.texts import texts_of
from metaflow_agents.sop.editor_schema import sop_schema
from metaflow_agents.sop.load import LoadedSOP

Loader = Callable[[str], LoadedSOP | None]
"""Reads the SOP from a text."""
MOST = 80
_WHAT = {"artifacts": "an artifact", "inputs": "an input", "steps": "a step", "roles": "a role"}
_FIRST = ("role", "needs", "wants", "sees", "makes", "task", "when", "foreach", "rounds", "steps", "artifacts", "schema",
          "profile", "goal")
"""Keys that are written most: they come before others of the same beginning."""
_PATH = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)\.$")
_FILTER, _TEST, _HISTORY = re.compile(r"\|\s*$"), re.compile(r"\bis\s+(?:not\s+)?$"), re.compile(r"history\(\s*['\"]$")
_OF_RUN = ("run", "round", "history")
_NAMES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("steps", "*", "role"): ("roles", "role files"), ("steps", "*", "review", "role"): ("roles",),
    ("steps", "*", "talks_to"): ("roles",), ("progress", "role"): ("roles",), ("roles",): ("role files",),
    **{("steps", "*", key): ("artifacts", "inputs") for key in READS}, ("steps", "*", "show"): ("read",),
    ("steps", "*", "makes"): ("artifacts",), ("steps", "*", "on_fail", "makes"): ("artifacts",),
    ("steps", "*", "packages"): ("artifacts",), ("progress", "makes"): ("artifacts",), ("outputs",): ("artifacts",),
    ("roles", "*", "watches"): ("artifacts", "inputs"), ("inputs", "*", "keep"): ("artifacts",),
    ("steps", "*", "trusts"): ("artifacts", "inputs"), ("steps", "*", "tools"): ("tools",), ("roles", "*", "tools"): ("tools",),
    ("steps", "*", "tool"): ("tools",), ("steps", "*", "model"): ("models",), ("roles", "*", "model"): ("models",),
    ("tests", "*", "model"): ("models",), ("steps", "*", "sop"): ("sops",), ("steps", "*", "strategy"): ("strategies",),
    ("tests", "*", "until"): ("steps",), ("tests", "*", "order"): ("steps",), ("tests", "*", "prompts"): ("steps",),
    ("tests", "*", "given"): ("artifacts", "steps"), ("tests", "*", "inputs"): ("inputs",),
    ("artifacts", "*", "schema"): ("types",), ("artifacts", "*", "each"): ("types",), ("inputs", "*"): ("types", "paths"),
    ("inputs", "*", "type"): ("types", "paths")}
"""Path below the SOP, `*` for any name → what is named there; items of lists stand where their list does."""


@dataclass(frozen=True, slots=True)
class Option:
    """`text`: what takes the place of the word; `detail`: what it is."""

    text: str
    detail: str


@dataclass(frozen=True, slots=True)
class Known:
    """What the file does not say itself: roles with a file, SOPs beside it, models of the configuration."""

    role_files: tuple[str, ...] = ()
    sops: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


def complete(text: str, line: int, column: int, known: Known, load: Loader) -> tuple[int, list[Option]]:
    """The column at which the word begins, and what may stand in its place, the likeliest first.

    `load` reads the SOP from a text, for the fields of its artifacts; it is asked only behind a `.`.
    """
    cursor = cursor_at(text, line, column)
    if cursor is None:
        return column, []
    options = dict.fromkeys(_options(cursor, known, load))
    word = cursor.word.casefold()
    found = [one for one in options if one.text.casefold().startswith(word)]
    found += [one for one in options if word and one not in found and word in one.text.casefold()]
    if len(found) == 1 and found[0].text == cursor.word:
        found = []
    return column - len(cursor.word), found[:MOST]


def _options(cursor: Cursor, known: Known, load: Loader) -> Iterator[Option]:
    path = tuple(part for part in cursor.path if isinstance(part, str))
    shared = ("steps", "*", *path[2:]) if path[:2] == ("defaults", "steps") else (
        "roles", "*", *path[2:]) if path[:2] == ("defaults", "roles") else None
    place = shared or (*path[:1], *("*" for _ in path[1:2]), *path[2:])
    if not cursor.key:
        kind = next((one.kind for one in texts_of(cursor.document.data) if one.path == cursor.path), None)
        if kind == "expression" or (kind == "template" and _in_braces(cursor.before)):
            yield from _in_expression(cursor, path, load)
            return
        if kind == "template" or not cursor.whole:
            return
    if path[:1] == ("steps",) and path[2:3] == ("strategy",) and cursor.key and len(path) == 4:
        yield from _parameters(path[3])
        return
    alone = not cursor.key and not cursor.text[cursor.text.rfind("\n", 0, cursor.start) + 1:cursor.start].strip()
    there = _there(cursor, path)
    yield from (one for one in _names(place, cursor.document.data, path, known) if one.text not in there)
    for node in _nodes(path):
        if cursor.key or alone:                             # `a:` and a word below it: a value so far, and a key with its `:`
            properties = node.get("properties", {})
            ranked = sorted(properties, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
            yield from (Option(f"{key}: ", str(properties[key].get("description", ""))) for key in ranked if key not in there)
        if not cursor.key:
            yield from _values(node)


def _there(cursor: Cursor, path: tuple[str, ...]) -> set[str]:
    """What stands there already: the keys of the mapping, the items of the list; for a step all that it reads."""
    data = cursor.document.data
    if not cursor.key and path[:1] == ("steps",) and path[2:] and path[2] in READS:
        return set(_reads(data, path))
    written = _at(data, *path)
    if isinstance(written, dict):
        return set(written)
    return {one for one in written if isinstance(one, str)} if isinstance(written, list) else set()


def _names(place: tuple[str, ...], data: Mapping[str, Any], path: tuple[str, ...], known: Known) -> Iterator[Option]:
    for what in _NAMES.get(place, ()):
        match what:
            case "role files":
                yield from _listed(known.role_files, "a role with a file")
            case "read":
                yield from _listed(_reads(data, path), "what the step reads")
            case "tools":
                yield from _listed(BUILT_IN, "a built-in tool")
                yield from _listed(_keys(data, "tools"), "a tool of this SOP")
                yield from (Option(f"{name}.", "a server or service") for part in ("mcpServers", "openapi")
                            for name in _keys(data, part))
            case "models":
                yield from _listed(_keys(data, "models"), "a model of this SOP")
                yield from _listed(known.models, "a model of your configuration")
                yield from (Option(form.partition("NAME")[0].partition("FILE")[0].partition("RECORDING")[0], form)
                            for form in ways.FORMS)
            case "sops":
                yield from _listed(known.sops, "a SOP beside this one")
            case "strategies":
                yield from (Option(name, _about(spec)) for name, spec in STRATEGIES.items())
            case "types":
                yield from _listed(TYPES, "a type")
            case "paths":
                yield from _listed(("file", "folder"), "a path that a person gives")
            case _:
                yield from (Option(name, _described(data, what, name)) for name in _keys(data, what) if MARK not in name)


def _in_expression(cursor: Cursor, path: tuple[str, ...], load: Loader) -> Iterator[Option]:
    before, data = cursor.before, cursor.document.data
    if _FILTER.search(before):
        yield from _listed(sorted(FILTERS), "a filter")
    elif _TEST.search(before):
        yield from _listed(sorted(TESTS), "a test")
    elif _HISTORY.search(before):
        yield from _listed(_keys(data, "artifacts"), "all its versions")
    elif (chain := _PATH.search(before)) is not None:
        yield from _fields(chain[1].split("."), data, load, cursor.text)
    else:
        step = path[0] in ("steps", "defaults")
        names = _reads(data, path) if step else [*_keys(data, "artifacts"), *_keys(data, "inputs")]
        yield from (Option(name, _described(data, "artifacts", name) or _described(data, "inputs", name) or "what the step reads")
                    for name in names)
        foreach = _at(data, *path[:2], "foreach")
        if isinstance(foreach, dict):
            yield from _listed(dict.fromkeys((str(foreach.get("as", "item")), "item", "key", "prior")), "of the `foreach`")
        yield from _listed(_OF_RUN if step else ("run", "history", "success"), "of the language")


def _fields(chain: list[str], data: Mapping[str, Any], load: Loader, text: str) -> Iterator[Option]:
    if chain == ["run"]:
        yield from _listed(("inputs", "name"), "of the run")
        return
    if chain == ["run", "inputs"]:
        yield from (Option(name, _described(data, "inputs", name)) for name in _keys(data, "inputs"))
        return
    loaded = load(text)
    if loaded is None:
        return
    shape: Shape | None = Context(loaded, STRATEGIES, ()).shape(chain[0])
    for part in chain[1:]:
        shape = shape.field(part) if shape is not None else None
    if shape is not None:
        for name in shape.fields():
            found = shape.field(name)
            yield Option(name, found.describe() if found is not None else "")


def _in_braces(before: str) -> bool:
    """Whether an expression of a template is open."""
    opened = max(before.rfind("{{"), before.rfind("{%"))
    return opened > max(before.rfind("}}"), before.rfind("%}"))


def _reads(data: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """The artifacts that the step of a path reads, by itself or by `defaults`."""
    found: list[str] = []
    for kind in READS:
        written = _at(data, *path[:2], kind)
        written = written if written is not None else _at(data, "defaults", "steps", kind)
        found += [one.partition(".")[0] for one in ([written] if isinstance(written, str) else written or [])
                  if isinstance(one, str) and MARK not in one]
    return list(dict.fromkeys(found))


def _nodes(path: tuple[str, ...]) -> list[dict[str, Any]]:
    """The schemas that a value at a path may have."""
    found = [_schema()]
    for part in path:
        found = [inner for node in found for inner in _below(node, part)]
    return found


def _below(node: Mapping[str, Any], part: str) -> Iterator[dict[str, Any]]:
    inner = node.get("properties", {}).get(part, node.get("additionalProperties"))
    if isinstance(inner, dict):
        yield from _resolved(inner)


def _resolved(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in node:
        yield from _resolved(_schema()["definitions"][str(node["$ref"]).rpartition("/")[2]])
    elif "anyOf" in node:
        for one in node["anyOf"]:
            yield from _resolved(one)
    else:
        yield dict(node)


def _values(node: Mapping[str, Any]) -> Iterator[Option]:
    for source in (node, node.get("items", {})):
        yield from _listed([str(one) for one in source.get("enum", ()) if one is not None], "")
        yield from _listed([str(source["const"])] if "const" in source else (), "")
        yield from _listed([str(one) for one in source.get("examples", ())], "for example")
    if node.get("type") == "boolean":
        yield from _listed(("true", "false"), "")


def _parameters(strategy: str) -> Iterator[Option]:
    if strategy in STRATEGIES:
        for name, field in STRATEGIES[strategy].model_fields.items():
            yield Option(f"{field.alias or name}: ", field.description or "")


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    return sop_schema()


def _at(data: Any, *path: str) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _keys(data: Mapping[str, Any], part: str) -> list[str]:
    written = data.get(part)
    return list(written) if isinstance(written, dict) else []


def _described(data: Mapping[str, Any], part: str, name: str) -> str:
    about = _at(data, part, name, "description")
    if isinstance(about, str):
        return about
    return _WHAT.get(part, "") if name in _keys(data, part) else ""


def _about(spec: type[Any]) -> str:
    return " ".join((spec.__doc__ or "").split("\n\n")[0].split())


def _listed(names: Iterable[str], detail: str) -> Iterator[Option]:
    yield from (Option(name, detail) for name in names)
