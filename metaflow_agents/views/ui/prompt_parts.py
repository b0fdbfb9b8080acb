"""The parts of a prompt, recognised by what the package's own templates write around texts: tags, and a few headings.

No text inside can open or close a part: a template gives its tags another name where a text holds one (`prompts/package.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from metaflow_agents.models.port import tokens_of
from metaflow_agents.prompts import headings, tags
from metaflow_agents.views.ui.texts import cut

_HEADINGS = {"# What you work from": "material", "# What was made before, for the items that yours builds on": "material",
             "# Your item": "item", "# Your task": "task", "# Your answer": "form", "# Your tools": "tools",
             "# How the run stands": "standing", "# A question to you": "question", "# What was answered": "answer",
             "# It does not get on": "hint"}
"""Headings of the templates → what stands below them; below any other heading of a template it is what a strategy says."""
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_LIKE = {"made": "artifact", "entry": "artifact", "text": "text"}
_MOST = 400                         # parts of one message


class PromptPart(NamedTuple):
    """A stretch of a clean text: `kind` is a tag's name or what stands below a heading, `name` what it says it is."""

    kind: str
    name: str
    shown: str
    start: int
    end: int


@cache
def _opening() -> re.Pattern[str]:
    return re.compile(rf"<({'|'.join(sorted(tags()))})(-\d+)?((?: \w+=\"[^\"\n]*\")*)>")


def prompt_parts(text: str) -> list[PromptPart]:
    """All of a clean text, in parts, in order."""
    found: list[PromptPart] = []
    for part in _parts(text):
        if not text[part.start:part.end].strip():
            continue
        last = found[-1] if found else None
        if last is not None and len(found) >= _MOST:
            found[-1] = last._replace(kind="text", name="", shown="", end=part.end)
        elif last is not None and (last.kind, last.name) == (part.kind, part.name) and part.kind not in tags():
            found[-1] = last._replace(end=part.end)
        else:
            found.append(part)
    return found


def _parts(text: str) -> Iterator[PromptPart]:
    kind, start, at = "text", 0, 0
    while at < len(text):
        end = text.find("\n", at)
        line, after = (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)
        opened = _opening().fullmatch(line)
        close = -1 if opened is None else _closing(text, f"</{opened[1]}{opened[2] or ''}>", after)
        if opened is not None and close >= 0:
            inside_text = opened[1] == "text"                       # a bare text that holds what looks like a part
            if not inside_text:
                yield PromptPart(kind, "", "", start, at)
                given = dict(_ATTRIBUTE.findall(opened[3]))
                name = given.get("name") or given.get("key") or given.get("at") or given.get("number") or ""
                yield PromptPart(_LIKE.get(opened[1], opened[1]), name, given.get("shown", ""), after, close)
            at = text.find("\n", close + 1)
            at = len(text) if at < 0 else at + 1
            if not inside_text:
                start = at
            continue
        if line in headings():
            yield PromptPart(kind, "", "", start, at)
            kind, start = _HEADINGS.get(line, "strategy"), after
        at = after
    yield PromptPart(kind, "", "", start, len(text))


def _closing(text: str, tag: str, after: int) -> int:
    """Where the line with a closing tag begins; -1 where there is none."""
    if text.startswith(tag, after):
        return after
    found = text.find(f"\n{tag}", after)
    while found >= 0 and text[found + 1 + len(tag):found + 2 + len(tag)] not in ("", "\n"):
        found = text.find(f"\n{tag}", found + 1)
    return -1 if found < 0 else found + 1


def parts_told(text: str, digest: str, path: str, read: Mapping[str, int]) -> list[dict[str, Any]]:
    """The parts of a clean text as pages show them. `read`: artifact → version that the activation works from."""
    return [_told(part, text[part.start:part.end].removesuffix("\n"), digest, path, read) for part in prompt_parts(text)]


def _told(part: PromptPart, text: str, digest: str, path: str, read: Mapping[str, int]) -> dict[str, Any]:
    start = part.start + len(text) - len(text.lstrip("\n"))         # the empty lines around what stands below a heading
    text = text.strip("\n")
    version = read.get(part.name) if part.kind == "artifact" else None
    return {"kind": part.kind, "name": part.name, "shown": part.shown, "tokens": tokens_of(len(text.encode())),
            **({"version": version} if version else {}),
            "text": cut(text, digest, f"{path}@{start}-{start + len(text)}")}
