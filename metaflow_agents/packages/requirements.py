"""What packages are asked for, in texts that a model may have written. Pure.

A requirement is a name, perhaps extras and a version, as PEP 508 has them. What could name a file, a host, an option of pip or
code is no requirement here: URLs, paths, markers, anything that the standard parser refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.policy.subjects import PackageSubject, canonical

MOST = 30
LONGEST = 200


@dataclass(frozen=True, slots=True)
class WantedPackage:
    """One package that is asked for: its canonical name, its extras, and the versions that fit, in pip's spelling."""

    name: str
    extras: frozenset[str]
    versions: str

    @property
    def subject(self) -> PackageSubject:
        """As rules about `install` see it."""
        return PackageSubject(self.name, self.extras)

    def __str__(self) -> str:
        return f"{self.subject}{self.versions}"


def wanted(texts: Sequence[str]) -> list[WantedPackage]:
    """The packages that are asked for, in the order of their names. The same text twice counts once. Raises AnswerInvalid, naming
    each text that is refused.
    """
    if len(texts) > MOST:
        raise AnswerInvalid([f"{len(texts)} requirements; at most {MOST} are taken: name what the code imports, and leave out "
                             "what that brings along"])
    found: dict[str, WantedPackage] = {}
    faults = []
    for text in texts:
        try:
            one = _read(text)
        except ValueError as error:
            faults.append(f"`{text[:LONGEST]}` is refused: {error}")
            continue
        found[str(one)] = one
    if faults:
        raise AnswerInvalid(faults)
    return sorted(found.values(), key=str)


def _read(text: str) -> WantedPackage:
    """One requirement. Raises ValueError, which says what is wrong and what to write."""
    if len(text) > LONGEST:
        raise ValueError(f"it has more than {LONGEST} characters")
    if not text.isascii() or not text.isprintable():
        raise ValueError("it holds other characters than printable ASCII; write it like `flask>=3`")
    try:
        read = Requirement(text)
    except InvalidRequirement as error:
        why = str(error).splitlines()[0]
        raise ValueError(f"it is no requirement ({why}); write a name and versions, like `flask>=3`") from None
    if read.url is not None:
        raise ValueError(f"it names a URL, and packages come from the index alone; write `{canonical(read.name)}`")
    if any(one.operator == "===" for one in read.specifier):
        raise ValueError("`===` compares texts; write `==`")
    if read.marker is not None:
        raise ValueError("it has a marker, and what one machine leaves out would be missed without a word; write it without what "
                         "follows `;`, or leave it out")
    return WantedPackage(canonical(read.name), frozenset(canonical(one) for one in read.extras), str(read.specifier))
