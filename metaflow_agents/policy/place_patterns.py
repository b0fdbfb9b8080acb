"""Rules about URLs and hosts, both read by the one parser that reads what is asked for. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from metaflow_agents.errors import FetchRefused
from metaflow_agents.network import hosts
from metaflow_agents.network.hosts import NetworkPlace
from metaflow_agents.policy.patterns import Everything, Pattern, RuleWritten
from metaflow_agents.policy.subjects import PlaceSubject, Subject


@dataclass(frozen=True, slots=True)
class PlacePattern:
    """A URL: scheme, host (`below`: all hosts below it; none: any host), port (none: any), path glob (none: all paths)."""

    scheme: str
    host: str | None
    below: bool
    port: int | None
    path: str | None

    @classmethod
    def read(cls, written: str) -> PlacePattern:
        """The URL. Raises RuleWritten."""
        found = re.fullmatch(r"(https?)://(\*\.|\*(?=[:/]|$))?([^/?#]*)(/[^?#]*)?(.*)", written, re.DOTALL | re.IGNORECASE)
        if found is None:
            raise RuleWritten(f"`{written}` is no URL", f"write it like `https://{written.partition('://')[2] or written}`")
        scheme, wild, authority, path, more = found[1].lower(), found[2], found[3], found[4], found[5]
        if more:
            raise RuleWritten(f"in `{written}` stands a query: it decides nothing", "leave out what stands behind the path")
        if path == "/":
            raise RuleWritten(f"`{written}` is one page to some and the whole host to others",
                              f"write `{written[:-1]}` for all paths of the host")
        place = _parsed(f"{scheme}://{'any.invalid' if wild == '*' else ''}{authority}", written)
        return cls(scheme, None if wild == "*" else place.host, wild == "*.", place.port, path and _path_glob(path, written))

    def touches(self, subject: Subject) -> bool:
        """By any reading of the path."""
        return self._at(subject) and (self.path is None or any(
            _globbed(self.path.casefold(), reading.casefold()) for reading in _of(subject)))

    def covers(self, subject: Subject) -> bool:
        """By every reading of the path."""
        return self._at(subject) and (self.path is None or all(_globbed(self.path, reading) for reading in _of(subject)))

    def _at(self, subject: Subject) -> bool:
        return (isinstance(subject, PlaceSubject) and subject.place.scheme == self.scheme
                and _host(self, subject.place) and subject.place.port == self.port)

    def within(self, other: Pattern) -> bool:
        """In the same one, or in one of the same host without a path."""
        return isinstance(other, Everything) or self == other or (
            isinstance(other, PlacePattern) and other.path is None
            and (self.scheme, self.host, self.below, self.port) == (other.scheme, other.host, other.below, other.port))


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`HOST:PORT`, `HOST` (any port), `*.HOST`."""

    host: str | None
    below: bool
    port: int | None

    @classmethod
    def read(cls, written: str) -> HostPattern:
        """The host. Raises RuleWritten."""
        if "/" in written:
            raise RuleWritten(f"`{written}` is more than a host", "write it like `pypi.org:443`")
        wild = written.startswith("*.")
        bare = written.removeprefix("*.")
        ported = re.search(r"(?<!:):[0-9]+$|\]:[0-9]+$", bare) is not None
        place = _parsed(f"https://{bare}", written)
        return cls(place.host, wild, place.port if ported else None)

    def touches(self, subject: Subject) -> bool:
        """The host, and the port where one is written."""
        return isinstance(subject, PlaceSubject) and _host(self, subject.place) and self.port in (None, subject.place.port)

    covers = touches

    def within(self, other: Pattern) -> bool:
        """In the same one, or in that of any port."""
        return isinstance(other, Everything) or self == other or (
            isinstance(other, HostPattern) and other.port is None and (self.host, self.below) == (other.host, other.below))


def literal(pattern: Pattern) -> NetworkPlace | None:
    """The place that a pattern names by an address or as `localhost`, and with a port: it may be private. None of any other."""
    if not isinstance(pattern, PlacePattern | HostPattern) or pattern.host is None or pattern.below or pattern.port is None:
        return None
    place = NetworkPlace("https", pattern.host, pattern.port, path="")
    return place if place.address is not None or place.host == "localhost" else None


def _parsed(url: str, written: str) -> NetworkPlace:
    try:
        return hosts.parse(url)
    except FetchRefused as error:
        why = str(error).partition(" is refused: ")[2] or str(error)
        mend = "write the host as `api.example.com`, with `*.` in front for all below"
        raise RuleWritten(f"`{written}` is refused: {why}", mend) from None


def _path_glob(path: str, written: str) -> str:
    return _parsed(f"https://any.invalid{path}", written).path


def _host(pattern: PlacePattern | HostPattern, place: NetworkPlace) -> bool:
    if pattern.host is None:
        return True
    return place.host.endswith(f".{pattern.host}") if pattern.below else place.host == pattern.host


def _of(subject: Subject) -> tuple[str, ...]:
    return subject.readings if isinstance(subject, PlaceSubject) else ()


def _globbed(glob: str, text: str) -> bool:
    """`*` stands for any letters, slashes too; nothing else is a wildcard."""
    first, *middle = glob.split("*")
    if not middle:
        return glob == text
    *middle, last = middle
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
