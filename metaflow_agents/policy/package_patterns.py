"""Rules about `install`: which packages may be put into the environment of a run's commands. Pure.

Names are compared as package indexes do (https://packaging.python.org/en/latest/specifications/name-normalization/). A rule
without brackets means a package without extras; an extra brings further packages, so it is named too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from metaflow_agents.policy.action import Action
from metaflow_agents.policy.patterns import Everything, Pattern, RuleWritten, glob_within
from metaflow_agents.policy.subjects import PackageSubject, Subject, canonical

_FORM = re.compile(r"([A-Za-z0-9._*?-]+)(?:\[([A-Za-z0-9._*?,\s-]*)\])?")
_WILD = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class PackagePattern:
    """Globs (`*`, `?`) of a package's name and of its extras."""

    name: str
    extras: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: str) -> PackagePattern:
        """`NAME` or `NAME[EXTRA, EXTRA]`. Raises RuleWritten."""
        found = _FORM.fullmatch(written.strip())
        if found is None:
            raise RuleWritten(f"`{written}` is no name of a package", "write a name without a version, `install(flask)`, or with "
                              "the extras that come along, `install(flask[async])`")
        return cls(canonical(found[1]), tuple(canonical(one) for one in (found[2] or "").split(",") if one.strip()))

    def touches(self, subject: Subject) -> bool:
        """The package, whatever its extras; where the rule names extras, the package with one of them."""
        return isinstance(subject, PackageSubject) and fnmatchcase(subject.name, self.name) and (
            not self.extras or any(self._has(extra) for extra in subject.extras))

    def covers(self, subject: Subject) -> bool:
        """The package, with no extras but those that the rule names."""
        return isinstance(subject, PackageSubject) and fnmatchcase(subject.name, self.name) and all(
            self._has(extra) for extra in subject.extras)

    def _has(self, extra: str) -> bool:
        return any(fnmatchcase(extra, one) for one in self.extras)

    @property
    def literal(self) -> str | None:
        """The one package that it means, as actions name it; None where it holds a wildcard."""
        if any(_WILD.search(one) for one in (self.name, *self.extras)):
            return None
        return str(PackageSubject(self.name, frozenset(self.extras)))

    def within(self, other: Pattern) -> bool:
        """Name in name, and each extra in one of the other's."""
        return isinstance(other, Everything) or (
            isinstance(other, PackagePattern) and glob_within(self.name, other.name)
            and (not other.extras or bool(self.extras)) and all(any(glob_within(one, wide) for wide in other.extras)
                                                               for one in self.extras))


def each(action: Action) -> Iterator[Action]:
    """An `install` of several packages as one of each; any other action as it is."""
    names = action.target.split(", ") if action.verb == "install" else [action.target]
    for name in names:
        yield Action(action.verb, name, action.argv)
