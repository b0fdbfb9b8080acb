"""The job of a worker: a file's definitions, the names that it uses and the words that stand in it.

A grammar's parser is C that reads what a stranger wrote, so it runs in a worker (decision 49), bounded in time and memory.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from metaflow_agents.code.map.languages import LANGUAGES
from metaflow_agents.texts.search_words import words

_MOST_DEFINITIONS = 2_000           # of one file
_MOST_NAMES = 20_000                # different names, and different words, of one file
_LONGEST_NAME = 80                  # bytes; no name that people use is longer
_HEAD = 240                         # bytes of a definition's first lines
_TOKEN = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_SPACE = re.compile(r"\s+")
_NESTED = frozenset({"function"})   # what is defined inside of these is nobody else's


@cache
def _tools(name: str) -> tuple[Parser, QueryCursor]:
    spec = LANGUAGES[name]
    language = Language(getattr(import_module(spec.package), spec.function)())
    return Parser(language), QueryCursor(Query(language, spec.query))


def parse_job(data: bytes, language: str) -> dict[str, Any]:
    """`definitions`: [name, kind, line, depth, head] in the order of the file; `uses`: name → how often, without what defines
    it; `words`: each word of the file, without its ending → how often. `language` is a key of `LANGUAGES`, or empty for a file
    that is not parsed.
    """
    said = _words(data)
    if not language:
        return {"definitions": [], "uses": {}, "words": said}
    parser, cursor = _tools(language)
    captured = cursor.captures(parser.parse(data).root_node)
    uses = Counter(data[node.start_byte:node.end_byte] for node in captured.get("use", ()))
    definitions = _definitions(data, captured)
    for name, *_ in definitions:
        uses[name.encode()] -= 1
    return {"definitions": definitions, "uses": _most(+uses), "words": said}


def _words(data: bytes) -> dict[str, int]:
    found: Counter[str] = Counter()
    for token, count in _most(Counter(_TOKEN.findall(data))).items():
        for word in _in_token(token):
            found[word] += count
    return dict(found)


@lru_cache(100_000)
def _in_token(token: str) -> tuple[str, ...]:
    return tuple(words(token))


def _definitions(data: bytes, captured: dict[str, list[Node]]) -> list[tuple[str, str, int, int, str]]:
    found = sorted(((node.start_byte, -node.end_byte, key.partition(".")[2], node) for key, nodes in captured.items()
                    if key.startswith("definition.") for node in nodes), key=lambda one: one[:3])
    names = {node.start_byte: node for node in captured.get("name", ())}
    starts = sorted(names)
    listed: list[tuple[str, str, int, int, str]] = []
    around: list[tuple[int, str]] = []              # (end, kind) of the definitions that this one stands in
    for start, minus_end, kind, node in found:
        while around and around[-1][0] <= start:
            around.pop()
        inside = bool(around) and around[-1][1] in _NESTED
        around.append((-minus_end, kind))
        name = _name(names, starts, start, -minus_end)
        if inside or name is None or name.end_byte - name.start_byte > _LONGEST_NAME or len(listed) >= _MOST_DEFINITIONS:
            continue
        listed.append((_text(data, name.start_byte, name.end_byte), kind, node.start_point[0] + 1, len(around) - 1,
                       _head(data, node)))
    return listed


def _name(names: dict[int, Node], starts: list[int], start: int, end: int) -> Node | None:
    """The first name that stands inside of a definition: its own, since names of parts come behind it."""
    place = bisect_left(starts, start)
    return names[starts[place]] if place < len(starts) and starts[place] < end else None


def _head(data: bytes, node: Node) -> str:
    """What stands before the body, in one line: a function's signature, a class and its bases, a value's beginning."""
    body = node.child_by_field_name("body")
    end = min(node.start_byte + _HEAD, node.end_byte if body is None else body.start_byte)
    text = _SPACE.sub(" ", _text(data, node.start_byte, end)).strip()
    return text.removesuffix("{").rstrip() if body is not None else text


def _text(data: bytes, start: int, end: int) -> str:
    return data[start:end].decode("utf-8", "ignore")


def _most(counted: Counter[bytes]) -> dict[str, int]:
    return {name.decode("utf-8", "ignore"): count for name, count in counted.most_common(_MOST_NAMES)
            if len(name) <= _LONGEST_NAME}
