"""A step, an artifact or an input under another name, with all that names it in the same file; and what stays behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.prompts import analyse_template
from metaflow_agents.schema.shape import Shape
from metaflow_agents.sop.document import LINE, Document
from metaflow_agents.sop.editing.draft import Draft
from metaflow_agents.sop.editing.references import Reference, What, references
from metaflow_agents.sop.editing.splices import Splice
from metaflow_agents.sop.editing.written import is_plain
from metaflow_agents.sop.graph import reads
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.sop.names import RESERVED, is_name
from metaflow_agents.sop.places import Path

MOST_LEFT = 50
_PLACES: Mapping[What, tuple[str, ...]] = {"step": ("steps",), "data": ("artifacts", "inputs")}


@dataclass(frozen=True, slots=True)
class Left:
    """A place that an edit could not change, and that may want it: `line` counts from 1, 0 is the file as a whole."""

    file: str
    line: int
    why: str


def rename(draft: Draft, what: What, old: str, new: str) -> list[Left]:
    """Renames in the draft. Raises UsageError for names that can't be, and where something would be named that was not before.

    What is left is what stands in a form that can't be followed, and whole words in comments and prose.
    """
    _refuse(draft.data, what, old, new)
    found = references(draft.document, what, old)
    if taken := references(draft.document, what, new):
        line = line_of(draft.document, taken[0])
        raise UsageError(f"something names `{new}` already (line {line}): choose another name, or change that first")
    before = draft.document
    follows = [one for one in found if one.offset is not None]
    draft.replace([Splice(at, at + len(old), new) for at in {one.offset: None for one in follows} if at is not None],
                  renamed(draft.data, follows, old, new))
    if len(references(draft.document, what, new)) != len(follows):
        draft.document = before
        raise UsageError(f"with the name `{new}` some text would mean something else: a template sets a name of its own like "
                         "that; choose another name")
    unfollowed = [Left(draft.file, line_of(draft.document, one), f"`{old}` is named here in a form that can't be followed")
                  for one in references(draft.document, what, old)]
    return [*unfollowed, *_words(draft.document, old, {one.line for one in unfollowed})]


def renamed(data: Any, found: Iterable[Reference], old: str, new: str) -> Any:
    """The data with the name changed at each of the places, the order of keys kept."""
    keys: set[Path] = set()
    values: dict[Path, list[int]] = {}
    for one in found:
        if one.key:
            keys.add(one.path)
        else:
            values.setdefault(one.path, []).append(one.at)

    def walk(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {(str(key).replace(old, new, 1) if (*path, key) in keys else key): walk(inner, (*path, key))
                    for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, (*path, index)) for index, inner in enumerate(value)]
        for at in sorted(values.get(path, ()), reverse=True):
            value = value[:at] + new + value[at + len(old):]
        return value

    return walk(data, ())


def outside(loaded: LoadedSOP, old: str) -> list[Left]:
    """What names an artifact or an input outside of the SOP's own file: templates, role files, functions, callers."""
    return [*_in_files(loaded, old), *_in_functions(loaded, old), *_by_callers(loaded, old)][:MOST_LEFT]


def _in_files(loaded: LoadedSOP, old: str) -> Iterator[Left]:
    program = loaded.program
    for name, text in program.templates.items():
        if old not in text:
            continue
        for use in sorted(analyse_template(text, {"run": Shape.any()}).uses, key=lambda one: (one.line, one.column)):
            if use.name == old:
                spot = loaded.places.template(name, use.line, use.column)
                yield Left(spot.file, spot.line, f"the template names `{old}`: change it there")
    for role, spec in program.sop.roles.items():
        for index, watched in enumerate(spec.watches):
            spot = loaded.places.at(("roles", role, "watches", index))
            if watched == old and spot.file != loaded.entry:
                yield Left(spot.file, spot.line, f"the file of the role `{role}` watches `{old}`: change it there")


def _in_functions(loaded: LoadedSOP, old: str) -> Iterator[Left]:
    for step, written in loaded.program.sop.steps.items():
        for key, target in (("call", written.call), ("check", written.check.call if written.check else None)):
            if target is not None and old in (*reads(written), written.makes.artifact) and old not in (written.args or {}):
                spot = loaded.places.at(("steps", step, key))
                yield Left(spot.file, spot.line, f"`{target}` may take `{old}` by its name as a parameter: change it in the "
                                                 "function, or hand it over in `args`")


def _by_callers(loaded: LoadedSOP, old: str) -> Iterator[Left]:
    if old in loaded.program.sop.inputs:
        yield Left(loaded.entry, 0, f"`{old}` is an input: who runs this SOP, and SOPs that have it as a step, give it by name")
    elif old in (loaded.program.sop.outputs or ()):
        yield Left(loaded.entry, 0, f"`{old}` is an output: SOPs that have this one as a step may name it in `output`")


def _refuse(data: Mapping[str, Any], what: What, old: str, new: str) -> None:
    here = {part: data[part] for part in _PLACES[what] if isinstance(data.get(part), dict)}
    word = "step" if what == "step" else "artifact or input"
    if not any(old in known for known in here.values()):
        raise UsageError(f"there is no {word} `{old}`: {did_you_mean(old, [name for known in here.values() for name in known])}")
    refuse_name(data, new)


def refuse_name(data: Mapping[str, Any], new: str) -> None:
    """Raises UsageError for what can't be a new name in this SOP."""
    if not is_name(new):
        raise UsageError(f"`{new[:60]}` can't be a name: letters, digits and `_`, not beginning with a digit")
    if new in RESERVED or not is_plain(new):
        raise UsageError(f"`{new}` is reserved by the language and can't be a name here; call it `{new}_` or otherwise")
    for part, word in (("steps", "a step"), ("artifacts", "an artifact"), ("inputs", "an input"), ("roles", "a role")):
        if isinstance(data.get(part), dict) and new in data[part]:
            raise UsageError(f"`{new}` is {word} of this SOP already; one name means one thing: choose another")


def line_of(document: Document, one: Reference) -> int:
    """The line of a place, counted from 1; of one without characters, that of its value."""
    if one.offset is not None:
        return len(LINE.findall(document.text, 0, one.offset)) + 1
    return (document.key_at(*one.path) if one.key else document.at(*one.path))[0]


def _words(document: Document, old: str, known: set[int]) -> list[Left]:
    """Lines in which the name still stands as a word: in comments, descriptions and prose, which are left as they are."""
    word = re.compile(rf"(?<![\w.-]){re.escape(old)}(?![\w-])")
    lines = LINE.split(document.text)
    found = [number for number, line in enumerate(lines, 1) if number not in known and word.search(line)]
    return [Left(document.file, number, f"the word `{old}` stands here in a comment or in prose, and was left") for number in
            found[:MOST_LEFT]]
