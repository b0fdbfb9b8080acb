"""An edit put into its place: lines that stay are the file's own, new ones are indented as it has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from metaflow_agents.code.edits.lines import TYPOGRAPHIC, File, differences, indent_of, squeezed
from metaflow_agents.code.edits.model import Edit, Fit


@dataclass(frozen=True, slots=True)
class EditPlace:
    """Where an edit belongs: for each line of its SEARCH the line of the file, None where the file has none there."""

    fit: Fit
    at: tuple[int | None, ...]
    edit: Edit                       # with whole lines, where the one that was written has a part of them

    @property
    def start(self) -> int:
        """The first line of the file that it is about."""
        return next(at for at in self.at if at is not None)

    def spliced(self, file: File) -> File:
        """The file with the edit in this place."""
        lines: list[str] = []
        ends: list[str] = []
        done = 0
        for first, after, new in self._changes(file):
            lines += [*file.lines[done:first], *new]
            end = file.ends[first] if first < after and file.ends[first] else file.end
            ends += [*file.ends[done:first], *([end] * len(new))]
            done = after
        lines += file.lines[done:]
        ends += file.ends[done:]
        ends = [end or file.end for end in ends[:-1]] + [""] if ends else []
        return File(tuple(lines), tuple(ends)) if lines else File(("",), ("",))

    def _changes(self, file: File) -> Iterator[tuple[int, int, list[str]]]:
        """First line of the file, the line after the last, and what stands there instead."""
        search, replace, at = self.edit.search, self.edit.replace, self.at
        written = Indentation(search, file, at, exact=self.fit in ("exact", "part"))
        for old, until, new, last in differences(search, replace):
            here = [one for one in at[old:until] if one is not None]
            if here:
                first, after = here[0], here[-1] + 1
            else:
                before = [one for one in at[:old] if one is not None]
                first = after = before[-1] + 1 if before else self.start
            yield first, after, [written.line(number, replace[number]) for number in range(new, last)]

    def holds(self, file: File) -> bool:
        """Whether all that the edit takes out of the file is in its SEARCH, and how its lines are indented is clear."""
        at, search = self.at, self.edit.search
        for old, until, _, _ in differences(search, self.edit.replace):
            here = [one for one in at[old:until] if one is not None]
            if not here and any(line.strip() for line in search[old:until]):
                return False
            known = set(here)
            if here and any(file.lines[one].strip() for one in range(here[0], here[-1] + 1) if one not in known):
                return False
        return Indentation(search, file, at, exact=False).clear


class Indentation:
    """How the lines that an edit brings are indented in the file: as those of its SEARCH are there."""

    def __init__(self, search: Sequence[str], file: File, at: Sequence[int | None], *, exact: bool) -> None:
        self._exact, self.clear = exact, True
        self._known: dict[str, str] = {}
        self._first: tuple[str, str] | None = None
        pairs = [(indent_of(line), indent_of(file.lines[there])) for line, there in zip(search, at, strict=True)
                 if there is not None and line.strip() and squeezed(line) == squeezed(file.lines[there])]
        if len(pairs) > 1 and not pairs[0][0] and pairs[0][1] and any(here == there for here, there in pairs[1:]):
            self._first = pairs.pop(0)               # the first line lost its indentation when the block was cut out
        for here, there in pairs:
            if self._known.setdefault(here, there) != there:
                self.clear = False
        typographic = {sign for line in search for sign in line if ord(sign) in TYPOGRAPHIC}
        used = {sign for sign in typographic if any(sign in line for line in file.lines)} if typographic else set()
        self._signs = {ord(sign): TYPOGRAPHIC[ord(sign)] for sign in typographic - used}

    def line(self, number: int, line: str) -> str:
        """A line of REPLACE as it stands in the file."""
        if self._exact:
            return line
        line = line.translate(self._signs)
        if not line.strip():
            return line
        indent = indent_of(line)
        if number == 0 and self._first is not None and indent == self._first[0]:
            return self._first[1] + line
        return self._moved(indent) + line[len(indent):]

    def _moved(self, indent: str) -> str:
        if not self._known or indent in self._known:
            return self._known.get(indent, indent)
        below = [known for known in self._known if indent.startswith(known)]
        if below:
            base = max(below, key=len)
            more = indent[len(base):]
            return self._known[base] + self._scaled(more)
        base = min(self._known, key=len)
        there, less = self._known[base], self._scaled(base[len(indent):])
        return there[:max(0, len(there) - len(less))]

    def _scaled(self, more: str) -> str:
        """A further indentation in the file's own steps, where SEARCH tells both."""
        for (here, there), (deeper, its) in pairwise(sorted(self._known.items(), key=lambda pair: len(pair[0]))):
            step, own = deeper[len(here):], its[len(there):]
            if step and own and deeper.startswith(here) and its.startswith(there):
                count, left = divmod(len(more), len(step))
                return own * count + more[len(step) * count:] if not left or more.startswith(step) else more
        if any("\t" in there for there in self._known.values()) and "\t" not in more:
            return "\t" * (len(more) // 4) + " " * (len(more) % 4)
        return more
