"""A YAML file that was read: its data, its problems, and the place of every key and value."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from metaflow_agents.errors import Problem
from metaflow_agents.sop.position import PositionNode, offset_in_source

LINE = re.compile(r"\r\n|\n|\r")
_COMMENT = re.compile(r"[ \t]+#([^\r\n]*)")


class Document:
    """What a YAML file says: `data` (plain JSON data), `problems` (all found), and where everything stands.

    Paths are keys and list indexes; places are (line, column), counted from 1. `data` is None where nothing could
    be composed. A path that does not exist has the place of its nearest ancestor that does.
    """

    def __init__(self, file: str, text: str, root: PositionNode | None, data: Any, problems: Iterable[Problem]) -> None:
        self.file, self.text, self.data = file, text, data
        self.problems = tuple(problems)
        self._root = root

    @cached_property
    def _starts(self) -> array[int]:
        return array("q", [0, *(match.end() for match in LINE.finditer(self.text))])

    def has(self, *path: str | int) -> bool:
        """Whether something is written at the path."""
        return self._walk(path)[1] == len(path)

    def reach(self, *path: str | int) -> int:
        """How many parts of the path exist."""
        return self._walk(path)[1]

    def node(self, *path: str | int) -> PositionNode | None:
        """The value at a path, with its characters; None where nothing is written there."""
        node, reached, _ = self._walk(path)
        return node if reached == len(path) else None

    def key_node(self, *path: str | int) -> PositionNode | None:
        """The key of the value at a path; None where nothing is written there, or it is an item of a list."""
        _, reached, key = self._walk(path)
        return key if reached == len(path) else None

    def at(self, *path: str | int) -> tuple[int, int]:
        """Where the value begins."""
        node = self._walk(path)[0]
        return (node.line, node.column) if node else (1, 1)

    def key_at(self, *path: str | int) -> tuple[int, int]:
        """Where the key of the value begins; of a list's item, the item."""
        node, reached, key = self._walk(path)
        if node is None:
            return 1, 1
        return (key.line, key.column) if key is not None and reached == len(path) else (node.line, node.column)

    def inside(self, path: tuple[str | int, ...], line: int, column: int) -> tuple[int, int]:
        """The place in the file of a 1-based place inside the text of a scalar."""
        node, reached, _ = self._walk(path)
        if node is not None and node.target is not None:
            node = node.target
        if node is None or reached < len(path) or node.kind != "scalar":
            return self.at(*path)
        return self._place(offset_in_source(self.text, node, line, column))

    def comment_after(self, *path: str | int) -> str | None:
        """The text of a comment directly behind a plain scalar, `#` left out; None where there is none."""
        node = self._scalar(path)
        if node is None or not node.plain:
            return None
        match = _COMMENT.match(self.text, node.end)
        return match[1].strip() if match else None

    def flow(self, *path: str | int) -> bool:
        """Whether a plain (unquoted) scalar stands here inside `{…}` or `[…]`, where a comma or bracket would end it."""
        node = self._scalar(path)
        return node is not None and node.plain and node.flow

    def bare(self, *path: str | int) -> bool:
        """Whether a key stands here without `:` and value, as `b` in `{a: 1, b}`: what a cut at a comma leaves."""
        node, reached, key = self._walk(path)
        return (node is not None and key is not None and reached == len(path) and node.kind == "scalar" and node.flow
                and node.plain and not node.value and ":" not in self.text[key.end:node.end])

    def _scalar(self, path: tuple[str | int, ...]) -> PositionNode | None:
        node, reached, _ = self._walk(path)
        return node if node is not None and reached == len(path) and node.kind == "scalar" else None

    def _walk(self, path: tuple[str | int, ...]) -> tuple[PositionNode | None, int, PositionNode | None]:
        """The deepest node on the path, how many parts of the path exist, and that node's key."""
        node, key = self._root, None
        for reached, part in enumerate(path):
            inner = node.target or node if node else None
            if inner is None:
                return node, reached, key
            if inner.kind == "mapping" and isinstance(part, str) and part in inner.pairs:
                key, node = inner.pairs[part]
            elif inner.kind == "sequence" and isinstance(part, int) and 0 <= part < len(inner.items):
                key, node = None, inner.items[part]
            else:
                return node, reached, key
        return node, len(path), key

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
