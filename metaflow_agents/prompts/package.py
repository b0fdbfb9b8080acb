"""The prompt templates that the package owns, versioned by the comment that each begins with, and the texts made of them.

Texts that come from data stand in them between tags (`<artifact …>` … `</artifact>`) or bare, below a heading. No text closes or
opens what the package writes around it: where one holds such a tag, the tags around it get another name (`<artifact-2 …>` …
`</artifact-2>`), and a bare text that holds a tag or a heading stands between `<text>` and `</text>`. The text stays as it is.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from metaflow_agents.errors import SOPNotFound, did_you_mean
from metaflow_agents.prompts.operations import as_text
from metaflow_agents.prompts.rendering import render

_BARE = "text"                      # the tag around a bare text that holds what the package writes
_TAG = re.compile(r"(</?)([a-z_]+)(?=[ >])")
_HEADING = re.compile(r"^(# [^{\n]+|Asked:|Answered:)$", re.MULTILINE)
_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_UNSEEN = re.compile(r"[\x00-\x20\x7f\x85\u2028\u2029]+")


@cache
def package_template(name: str) -> str:
    """The text of a template of the package: `material`, `activation`, `output_format`, `repair`, `more`, `role`, `tools`,
    `files_by_tools`, `check`, `last_turn`, `subtask`, `review`, `question`, `stuck`, `progress`, `doings`, `recalled`,
    `importance`, `lessons`; those of strategies are `strategies/STRATEGY.PROMPT`.

    Raises SOPNotFound, naming those that exist.
    """
    folder, _, name = name.removesuffix(".md.j2").rpartition("/")
    found = {entry.name.removesuffix(".md.j2"): entry for entry in _folder(folder).iterdir() if entry.name.endswith(".md.j2")}
    if name not in found:
        raise SOPNotFound(f"the package has no prompt template `{name}`; {did_you_mean(name, sorted(found))}")
    return found[name].read_text(encoding="utf-8")


def from_package(name: str, scope: Mapping[str, Any]) -> str:
    """What a template of the package makes of its scope. Nothing in the scope closes or opens what the template writes around it.

    Raises ExpressionError as `render` does.
    """
    return _made(package_template(name), scope, enclosed)


def from_text(written: str, scope: Mapping[str, Any]) -> str:
    """The same for a template that an installed package owns."""
    return _made(written, scope, partial(enclosed, written=written))


def _made(written: str, scope: Mapping[str, Any], enclose: Callable[[Any], str]) -> str:
    template, tags = _marked(written)
    text = render(template, {**scope, "enclosed": enclose, "attribute": attribute})
    return text if tags is None else text.replace(_ours(), _mark(tags, text))


@cache
def tags() -> frozenset[str]:
    """The names of all tags that the package's templates write around texts: what reads a prompt knows its parts by them."""
    return frozenset({_BARE, *(found[2] for template in _all() for found in _TAG.finditer(template))})


@cache
def headings() -> frozenset[str]:
    """The headings of the package's templates, those with nothing filled in: `# Your task`."""
    return frozenset(found[1] for template in _all() for found in _HEADING.finditer(template) if found[1].startswith("# "))


def enclosed(value: Any, written: str = "") -> str:
    """A bare text as it is; one that holds a tag or a heading of the package, or of the template `written`, stands between tags
    that it does not hold.
    """
    text = as_text(value)
    if _structure(written).search(text) is None:
        return text
    mark = _mark(_tags(frozenset({_BARE})), text)
    return f"<{_BARE}{mark}>\n{text}\n</{_BARE}{mark}>"


def attribute(value: Any) -> str:
    """A text as it stands between the quotes of an attribute: on one line, without quotes of that kind."""
    return _UNSEEN.sub(" ", as_text(value)).replace('"', "'")


@cache
def _ours() -> str:
    """What stands behind each tag that a template writes, until it gets its mark: nobody can guess it, and no text holds it."""
    return secrets.token_hex(16)


@cache
def _marked(template: str) -> tuple[str, re.Pattern[str] | None]:
    """A template with `_ours` behind the names of its tags, and how these look in a text; None where it has none."""
    names = frozenset(found[2] for found in _TAG.finditer(template))
    return _TAG.sub(lambda found: found[0] + _ours(), template), _tags(names) if names else None


@cache
def _tags(names: frozenset[str]) -> re.Pattern[str]:
    """The tags of these names in a text, with what stands behind the name, as somebody reads them who is not strict."""
    return re.compile(rf"<\s*(?:/\s*)?(?:{'|'.join(sorted(names))})(-\d+)?(?![\w-])", re.IGNORECASE)


def _mark(tags: re.Pattern[str], text: str) -> str:
    """What makes a tag's name another one than all in the text; empty where it holds none."""
    held = {found[1] or "" for found in tags.finditer(text)}
    return next(mark for number in range(1, len(held) + 2) if (mark := f"-{number}" if number > 1 else "") not in held)


@cache
def _structure(written: str) -> re.Pattern[str]:
    """The tags of all templates, and the lines that are a heading of one; and an end that what follows would make a tag of."""
    names, headings = {_BARE}, set[str]()
    for template in (*_all(), written):
        names |= {found[2] for found in _TAG.finditer(template)}
        headings |= {found[1] for found in _HEADING.finditer(template)}
    lines = "|".join(re.escape(heading).replace(r"\#\ ", r"#+[ \t]*") for heading in sorted(headings))
    return re.compile(rf"{_tags(frozenset(names)).pattern}|(?:\A|[{_BREAKS}])[ \t]*(?:{lines})[ \t]*(?:[{_BREAKS}]|\Z)"
                      r"|<\s*(?:/\s*)?\Z",
                      re.IGNORECASE)


def _all() -> list[str]:
    return [entry.read_text(encoding="utf-8") for folder in ("", "strategies") for entry in _folder(folder).iterdir()
            if entry.name.endswith(".md.j2")]


def _folder(name: str) -> Traversable:
    return (files("metaflow_agents.prompts") / "templates").joinpath(*name.split("/"))
