"""What stands in the brackets of a rule, one class for each kind. Pure.

Two questions, answered apart. `touches` is for rules that deny or ask: the pattern might mean this, in any spelling that
some program, server or file system takes for the same. `covers` is for rules that allow: the pattern means this, as it is
written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from metaflow_agents.policy.subjects import NameSubject, PathSubject, Subject
from metaflow_agents.schema import paths
from metaflow_agents.schema.unicode_form import normalized

_WILD = re.compile(r"[*?\[]")


class RuleWritten(ValueError):
    """A rule that can't be read. `message` says what is wrong, `mend` what to write."""

    def __init__(self, message: str, mend: str) -> None:
        self.message, self.mend = message, mend
        super().__init__(f"{message}; {mend}")


class VerbUnknown(RuleWritten):
    """A rule whose verb does not exist."""


class Pattern(Protocol):
    """What a rule is matched by."""

    def touches(self, subject: Subject) -> bool:
        """Whether it might mean this."""
        ...

    def covers(self, subject: Subject) -> bool:
        """Whether it means this, and nothing else could be meant."""
        ...

    def within(self, other: Pattern) -> bool:
        """Whether `other` surely covers all that this covers."""
        ...


@dataclass(frozen=True, slots=True)
class Everything:
    """No brackets, or `**` in them."""

    def touches(self, subject: Subject) -> bool:
        """Always."""
        return True

    covers = touches

    def within(self, other: Pattern) -> bool:
        """Only in itself."""
        return isinstance(other, Everything)


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern of paths, as `schema.paths` has them."""

    pattern: str

    @classmethod
    def read(cls, written: str) -> PathPattern:
        """The pattern, `./` in front dropped. Raises RuleWritten."""
        pattern = written.removeprefix("./")
        # A rule about `.git` may be written, although nothing is ever allowed there: it says what its author wants to be sure of.
        checked = "/".join("x" if paths.is_git(part) else part for part in pattern.split("/"))
        if why := paths.pattern_refusal(checked):
            raise RuleWritten(f"the path pattern `{written}` is refused: {why}", "write it like `src/**`, `docs/*.md`")
        return cls(pattern)

    def touches(self, subject: Subject) -> bool:
        """In any case, and with accents composed or not."""
        if not isinstance(subject, PathSubject):
            return False
        folded = _folded(subject.path)
        odd = bool(subject.path) and paths.refusal(folded) is not None
        return self.covers(subject) or odd or paths.matches((_folded(self.pattern),), folded)

    def covers(self, subject: Subject) -> bool:
        """As it is written."""
        return isinstance(subject, PathSubject) and paths.matches((self.pattern,), subject.path)

    def within(self, other: Pattern) -> bool:
        """Of a path without wildcards, and of a folder in a folder."""
        if isinstance(other, Everything) or self == other:
            return True
        if not isinstance(other, PathPattern):
            return False
        fixed = paths.literal(self.pattern)
        if fixed is not None:
            return paths.matches((other.pattern,), fixed)
        folder = other.pattern.removesuffix("**")
        return folder != other.pattern and paths.literal(folder) is not None and self.pattern.startswith(folder)


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Globs of a name; `dotted`: of `SERVER.TOOL`, whose two parts are matched apart. One that is not means, of a name with a
    dot, all that the name before it has as well: `call(shop)` is about `shop.search`.
    """

    parts: tuple[str, ...]
    dotted: bool

    @classmethod
    def read(cls, written: str, *, dotted: bool) -> NamePattern:
        """The name. A server alone means all that it has."""
        if not dotted:
            return cls((written,), False)
        server, _, tool = written.partition(".")
        return cls((server, tool or "*"), True)

    def touches(self, subject: Subject) -> bool:
        """In any case."""
        return isinstance(subject, NameSubject) and self._match(
            [part.casefold() for part in self.parts], self._split(subject.name.casefold().strip()))

    def covers(self, subject: Subject) -> bool:
        """As it is written."""
        return isinstance(subject, NameSubject) and self._match(self.parts, self._split(subject.name))

    @property
    def literal(self) -> str | None:
        """The one name that it means; None where it holds a wildcard."""
        return None if any(_WILD.search(part) for part in self.parts) else ".".join(self.parts)

    def _split(self, name: str) -> list[str]:
        return name.split(".", 1) if self.dotted else [name]

    @staticmethod
    def _match(globs: Sequence[str], names: Sequence[str]) -> bool:
        if len(globs) == 1:
            return any(fnmatchcase(name, globs[0]) for name in (names[0], names[0].partition(".")[0]))
        return len(globs) == len(names) and all(fnmatchcase(name, glob) for name, glob in zip(names, globs, strict=True))

    def within(self, other: Pattern) -> bool:
        """Part by part: in the same one, in `*`, or without wildcards."""
        return isinstance(other, Everything) or (isinstance(other, NamePattern) and all(
            glob_within(mine, wide) for mine, wide in zip(self.parts, other.parts, strict=True)))


def glob_within(mine: str, wide: str) -> bool:
    """Whether one glob of a word surely lies in another."""
    return mine == wide or wide == "*" or (not _WILD.search(mine) and fnmatchcase(mine, wide))


def _folded(path: str) -> str:
    return normalized("NFC", normalized("NFC", path).casefold())
