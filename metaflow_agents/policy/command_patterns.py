"""Rules about commands: globs of their words. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from posixpath import dirname, normpath

from metaflow_agents.policy import commands
from metaflow_agents.policy.patterns import Everything, Pattern, RuleWritten, glob_within
from metaflow_agents.policy.shell import Words
from metaflow_agents.policy.subjects import CommandSubject, Subject

_SYSTEM = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"})
"""Folders whose programs are the ones that a bare name means."""


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """Globs of a command's words; `rest`: any further words may follow."""

    words: tuple[str, ...]
    rest: bool

    @classmethod
    def read(cls, written: str) -> CommandPattern:
        """The words, split by the quoting of shells. Raises RuleWritten."""
        try:
            words = shlex.split(written)
        except ValueError:
            raise RuleWritten(f"in `{written}` a quote is not closed", "close it") from None
        rest = words[-1] in ("*", "**")
        kept = tuple(words[:-1] if rest else words)
        if kept and not kept[0].strip():
            raise RuleWritten(f"`{written}` names no program", "write it like `git push *`")
        return cls(kept, rest)

    @property
    def program(self) -> str | None:
        """The glob of a program that this is about whatever its arguments are; None: the arguments matter."""
        return self.words[0] if len(self.words) == 1 else None

    def touches(self, subject: Subject) -> bool:
        """Whether any command that it may start is one of these; what can't be taken apart might be. A program that stands alone
        is meant with any arguments.
        """
        return isinstance(subject, CommandSubject) and (bool(subject.unclear) or any(self._might(one) for one in subject.seen))

    def covers(self, subject: Subject) -> bool:
        """Whether the command itself is surely one of these."""
        if not isinstance(subject, CommandSubject):
            return False
        places = {0}
        for at, word in enumerate(subject.words):
            places = {place + 1 for place in places if place < len(self.words) and word is not None
                      and (_is_program(self.words[0], word) if at == 0 else fnmatchcase(word, self.words[place]))
                      } | (places & {len(self.words)} if self.rest else set())
        return len(self.words) in places

    def _might(self, words: Words) -> bool:
        places, rest = {0}, self.rest or self.program is not None
        for at, word in enumerate(words):
            if word is None:
                places = set(range(min(places), len(self.words) + 1))
                continue
            places = {place + 1 for place in places if place < len(self.words) and self._fits(place, at, word)
                      } | (places & {len(self.words)} if rest else set())
            if not places:
                return False
        return len(self.words) in places

    def _fits(self, place: int, at: int, word: str) -> bool:
        if place == 0 and at == 0:
            return _might_be_program(self.words[0], word)
        return fnmatchcase(word, self.words[place]) or fnmatchcase(word.strip(), self.words[place])

    def within(self, other: Pattern) -> bool:
        """Word by word: a wildcard lies in the same one, or in `*`."""
        if isinstance(other, Everything) or self == other:
            return True
        if not isinstance(other, CommandPattern) or len(other.words) > len(self.words):
            return False
        if not other.rest and (self.rest or len(self.words) != len(other.words)):
            return False
        return all(glob_within(mine, wide) for mine, wide in zip(self.words, other.words, strict=False))


def _is_program(pattern: str, word: str) -> bool:
    """As it is written: a bare name means the program of the system, never a file of the repository that is called so."""
    if "/" in pattern:
        return normpath(word) == word and len(word.split("/")) == len(pattern.split("/")) and fnmatchcase(word, pattern)
    bare = "/" not in word or dirname(word) in _SYSTEM
    return bare and fnmatchcase(word.rpartition("/")[2], pattern)


def _might_be_program(pattern: str, word: str) -> bool:
    if "/" in pattern:
        return fnmatchcase(normpath(word).casefold(), normpath(pattern).casefold()) or fnmatchcase(
            commands.program(word), commands.program(pattern))
    return fnmatchcase(commands.program(word), commands.program(pattern))
