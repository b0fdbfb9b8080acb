"""A YAML text that is changed step by step: each change is a few splices, and the text must be read as what was meant.

A change says what the data is to become, and which characters make it so; then the whole text is read again. Where that gives
anything else (an alias shares the value, a comment is in the way), the change is refused, and nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.sop.document import Document
from metaflow_agents.sop.editing import splices as place
from metaflow_agents.sop.editing.splices import NoPlace, Splice
from metaflow_agents.sop.editing.written import in_block, in_flow, scalar
from metaflow_agents.sop.places import Path
from metaflow_agents.sop.position import PositionNode
from metaflow_agents.sop.reading import read_yaml

BY_HAND = "change it in the text"


class Draft:
    """The text as it stands now; `document` is what it says."""

    def __init__(self, text: str, file: str) -> None:
        """Raises UsageError for a text that can't be read without problems: where things stand in it is not sure then."""
        self.file = file
        self.document = _read(text, file)
        if self.document.problems or not isinstance(self.document.data, dict):
            first = next(iter(self.document.problems), None)
            raise UsageError("the text can't be edited by the graph while it is no valid YAML"
                             + (f": line {first.line}: {first.message}; fix: {first.mend}" if first else ""))

    @property
    def text(self) -> str:
        """The text as it stands now."""
        return self.document.text

    @property
    def data(self) -> dict[str, Any]:
        """What the text says."""
        found: dict[str, Any] = self.document.data
        return found

    def value(self, *path: str | int) -> Any:
        """What stands at a path; None where there is nothing."""
        found: Any = self.data
        for part in path:
            inside = (isinstance(found, dict) and part in found) or (
                isinstance(found, list) and isinstance(part, int) and part < len(found))
            if not inside:
                return None
            found = found[part]
        return found

    # --- changes

    def replace(self, changes: Iterable[Splice], meant: Any) -> None:
        """Carries splices out, where the text is read as `meant` with them. Raises UsageError, and nothing is changed then."""
        try:
            after = _read(place.spliced(self.text, changes), self.file)
        except NoPlace as error:
            raise UsageError(f"this can't be changed without touching other lines: {error}; {BY_HAND}") from None
        if after.problems or repr(after.data) != repr(meant):
            shared = "another place shares the value by an alias, or the layout is odd"
            why = after.problems[0].message if after.problems else shared
            raise UsageError(f"this can't be changed without changing more than was meant: {why}; {BY_HAND}")
        self.document = after

    def set(self, path: Path, value: str) -> None:
        """A text in place of the scalar at a path."""
        node = self._node(path)
        if node.kind != "scalar":
            raise UsageError(f"`{_dotted(path)}` is {'an alias' if node.kind == 'alias' else 'no text'}; {BY_HAND}")
        start = place.content_start(self.text, node)
        end = place.content_end(self.text, node)
        lead = " " if start == end and self.text[start - 1:start] == ":" else ""
        self.replace([Splice(start, end, lead + scalar(value, flow=node.flow))], _changed(self.data, path, lambda _: value))

    def put(self, path: Path, key: str, value: Any, *, after: Sequence[str] = (), blank: bool = False) -> None:
        """A new key of the mapping at a path: behind the last of `after` that it has, by default as its last. `blank`: with an
        empty line above it, where it stands in lines of its own.
        """
        node = self._node(path)
        behind = next((one for one in reversed(list(node.pairs)) if one in after), None) if after else None
        behind = behind or next(reversed(node.pairs), None)
        meant = _changed(self.data, path, lambda old: _with_key(old, behind, key, value))
        try:
            found = self._put(path, node, behind, key, value)
            lead = place.line_break(self.text) if blank and not node.flow else ""
            self.replace([found._replace(text=lead + found.text)], meant)
        except NoPlace as error:
            raise UsageError(f"`{key}` can't be added to `{_dotted(path)}`: {error}; {BY_HAND}") from None

    def drop(self, path: Path) -> None:
        """The key at a path and its value taken out; comments between its lines stay."""
        *outer, key = path
        mapping = self._node(tuple(outer))
        key_node, value = mapping.pairs[str(key)]
        end = place.pair_end(self.text, mapping, str(key))
        meant = _changed(self.data, tuple(outer), lambda old: {name: one for name, one in old.items() if name != key})
        try:
            if mapping.flow:
                members = [(mapping.pairs[name][0].start, place.pair_end(self.text, mapping, name)) for name in mapping.pairs]
                found = [self._without(mapping, members, list(mapping.pairs).index(str(key)))]
            else:
                found = list(place.removal(self.text, key_node.start, end, comments=value.kind == "sequence"))
            self.replace(found, meant)
        except NoPlace as error:
            raise UsageError(f"`{_dotted(path)}` can't be taken out: {error}; {BY_HAND}") from None

    def append(self, path: Path, value: str) -> None:
        """One more item of the list at a path; of one text that stands for a list, a list of both."""
        node = self._node(path)
        meant = _changed(self.data, path, lambda old: [*(old if isinstance(old, list) else [] if old is None else [old]), value])
        try:
            self.replace(self._append(path, node, value), meant)
        except NoPlace as error:
            raise UsageError(f"nothing can be added to `{_dotted(path)}`: {error}; {BY_HAND}") from None

    def drop_item(self, path: Path) -> None:
        """An item of a list taken out. Of a list of one item an empty list stays."""
        *outer, index = path
        where: Path = tuple(outer)
        node = self._node(where)
        number = int(index)
        meant = _changed(self.data, where, lambda old: [*old[:number], *old[number + 1:]])
        item = node.items[number]
        end = place.content_end(self.text, item)
        try:
            if node.flow:
                members = [(one.start, place.content_end(self.text, one)) for one in node.items]
                found = [self._without(node, members, number)]
            elif len(node.items) == 1:
                raise NoPlace("it is the only item of a list in lines")
            else:
                dash = self.text.rfind("-", 0, item.start)
                found = list(place.removal(self.text, dash, end, comments=False))
            self.replace(found, meant)
        except NoPlace as error:
            raise UsageError(f"`{_dotted(path)}` can't be taken out: {error}; {BY_HAND}") from None

    def empty(self, path: Path) -> None:
        """An empty list in place of the one text that stands for a list."""
        node = self._node(path)
        if node.kind != "scalar":
            raise UsageError(f"`{_dotted(path)}` is no text; {BY_HAND}")
        start, end = place.content_start(self.text, node), place.content_end(self.text, node)
        self.replace([Splice(start, end, "[]")], _changed(self.data, path, lambda _: []))

    # --- places

    def _node(self, path: Path) -> PositionNode:
        """The node at a path that leads through no alias: what an alias shares is changed in two places at once."""
        node = self.document.node()
        for length in range(len(path) + 1):
            node = self.document.node(*path[:length])
            if node is None:
                raise UsageError(f"there is no `{_dotted(path[:length])}`")
            if node.kind == "alias":
                raise UsageError(f"`{_dotted(path[:length])}` is an alias (line {node.line}), and shares its value with another "
                                 f"place; {BY_HAND}")
        assert node is not None
        return node

    def _put(self, path: Path, node: PositionNode, behind: str | None, key: str, value: Any) -> Splice:
        if node.kind == "scalar" and node.data is None:
            return Splice(node.start, node.end, f" {in_flow({key: value})}")
        if node.kind != "mapping":
            raise NoPlace("it is no mapping")
        if node.flow:
            start = self._opened(node)
            pair = f"{scalar(key, flow=True)}: {in_flow(value)}"
            return Splice(start, start, pair) if behind is None else Splice(
                end := place.pair_end(self.text, node, behind), end, f", {pair}")
        if behind is None:
            raise NoPlace("it is empty")
        indent = next(iter(node.pairs.values()))[0].column - 1
        written = in_block(key, value, indent, place.line_break(self.text))
        return place.insertion(self.text, place.pair_end(self.text, node, behind), written)

    def _append(self, path: Path, node: PositionNode, value: str) -> list[Splice]:
        if node.kind == "scalar":
            start, end = place.content_start(self.text, node), place.content_end(self.text, node)
            if node.data is None:
                return [Splice(start, end, f" {in_flow([value])}")]
            return [Splice(start, start, "["), Splice(end, end, f", {scalar(value, flow=True)}]")]
        if node.kind != "sequence":
            raise NoPlace("it is no list")
        if node.flow:
            if not node.items:
                start = self._opened(node)
                return [Splice(start, start, scalar(value, flow=True))]
            end = place.content_end(self.text, node.items[-1])
            return [Splice(end, end, f", {scalar(value, flow=True)}")]
        written = f"{' ' * (node.column - 1)}- {scalar(value, flow=False)}{place.line_break(self.text)}"
        return [place.insertion(self.text, place.content_end(self.text, node), written)]

    def _without(self, node: PositionNode, members: list[tuple[int, int]], number: int) -> Splice:
        return place.without_member(self.text, members, number, self._opened(node))

    def _opened(self, node: PositionNode) -> int:
        """Behind the bracket that opens a flow collection."""
        start = place.content_start(self.text, node)
        if self.text[start:start + 1] not in ("[", "{"):
            raise NoPlace("it has no brackets of its own")
        return start + 1


def _read(text: str, file: str) -> Document:
    return read_yaml(text.encode("utf-8", "surrogatepass"), file)


def _dotted(path: Path) -> str:
    return ".".join(map(str, path)) or "the file"


def _changed(data: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """The data with what stands at a path changed; all else is the same, and shared."""
    if not path:
        return change(data)
    first, *rest = path
    if isinstance(data, list):
        return [_changed(one, tuple(rest), change) if number == first else one for number, one in enumerate(data)]
    return {key: _changed(one, tuple(rest), change) if key == first else one for key, one in data.items()}


def _with_key(old: Any, behind: str | None, key: str, value: Any) -> dict[str, Any]:
    if not old or behind is None:
        return {key: value}
    found: dict[str, Any] = {}
    for name, one in old.items():
        found[name] = one
        if name == behind:
            found[key] = value
    return found
