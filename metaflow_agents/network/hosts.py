"""URLs and hosts, read strictly into the one thing that they mean, or refused. Pure.

Two programs that read a URL differently are how a check is passed by: so what some parser somewhere reads in another way is
refused here, and what is left is written in one form, which is what gets checked, resolved and sent (RFC 3986, RFC 5891; the
rules that browsers follow: https://url.spec.whatwg.org).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote, unquote, urljoin

from metaflow_agents.errors import FetchRefused
from metaflow_agents.network import addresses
from metaflow_agents.network.addresses import Address

LONGEST = 8192                      # characters of a URL
DEFAULT_PORTS = {"http": 80, "https": 443}
OTHER_PROTOCOLS = frozenset({       # https://fetch.spec.whatwg.org/#port-blocking
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113,
    115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556,
    563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666,
    6667, 6668, 6669, 6679, 6697, 10080,
})
_NAMED = {"\0": "NUL", "\t": "a tab", "\n": "a line feed", "\r": "a carriage return", " ": "a space", "\\": "a backslash"}
_ODD = re.compile(r"[\x00-\x20\\\x7f-\x9f\ud800-\udfff]")
_DOTS = re.compile("[\u3002\uff0e\uff61]")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@dataclass(frozen=True, slots=True)
class NetworkPlace:
    """What a URL means: `host` in lower-case ASCII (an IPv6 address without brackets), `port` always said, `path` without dot
    segments and with the percent signs that are needed. An empty `path` is a host as a whole: a tunnel that nobody looks into.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = "/"
    query: str = ""

    @property
    def address(self) -> Address | None:
        """The host as an address, where it is one."""
        return addresses.read(self.host)

    @property
    def authority(self) -> str:
        """`host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        """`scheme://host`, and the port where it is not the scheme's own (RFC 6454)."""
        authority = self.authority
        if self.port == DEFAULT_PORTS[self.scheme]:
            authority = authority.rpartition(":")[0]
        return f"{self.scheme}://{authority}"

    @property
    def url(self) -> str:
        """The one spelling of it, as it is sent."""
        return f"{self.origin}{self.path}{'?' if self.query else ''}{self.query}"

    @property
    def whole(self) -> bool:
        """Whether it stands for all of the host, paths unseen: what a tunnel asks for."""
        return not self.path

    def encrypted(self) -> NetworkPlace:
        """The same place by https; the port of plain http becomes that of https."""
        return replace(self, scheme="https", port=443 if self.port == 80 else self.port)

    def __str__(self) -> str:
        return self.url


def parse(url: str) -> NetworkPlace:
    """The place that a URL means; a fragment is dropped. Raises FetchRefused."""
    _refuse_odd(url)
    found = _SCHEME.fullmatch(url)
    if found is None:
        raise _refusal(url, "it does not begin with `http://` or `https://`")
    scheme, rest = found[1].lower(), found[2]
    if scheme not in ("http", "https"):
        raise _refusal(url, f"`{scheme}` is neither `http` nor `https`")
    end = min(rest.find(sign) for sign in "/?#" if sign in rest) if any(sign in rest for sign in "/?#") else len(rest)
    host, port = _authority(url, rest[:end])
    location = rest[end:].partition("#")[0]
    path, _, query = location.partition("?")
    return NetworkPlace("https" if scheme == "https" else "http", host, _port(url, port, DEFAULT_PORTS[scheme]),
                 _path(url, path), _escaped(url, query, "?"))


def parse_authority(text: str) -> NetworkPlace:
    """The host that `CONNECT host:port` names, as a whole and by https; the port has to be there. Raises FetchRefused."""
    _refuse_odd(text)
    if any(sign in text for sign in "/?#"):
        raise _refusal(text, "it is not `host:port`")
    host, port = _authority(text, text)
    if port is None:
        raise _refusal(text, "the port is missing: `host:port`")
    return NetworkPlace("https", host, _port(text, port, 443), path="")


def joined(place: NetworkPlace, location: str) -> NetworkPlace:
    """Where a redirect of `place` leads: `location` is what its `Location` says, relative or not. Raises FetchRefused."""
    _refuse_odd(location)           # before anything is joined: the standard library drops tabs and line breaks
    try:
        return parse(urljoin(place.url, location))
    except ValueError as error:
        raise _refusal(location, f"{error}") from None


def _refusal(url: str, why: str) -> FetchRefused:
    shown = ascii(url if len(url) <= 200 else f"{url[:200]}…")[1:-1]
    return FetchRefused(f"`{shown}` is refused: {why}")


def _refuse_odd(url: str) -> None:
    if len(url) > LONGEST:
        raise _refusal(url, f"it is longer than {LONGEST} characters")
    found = _ODD.search(url)
    if found is not None:
        name = _NAMED.get(found[0], f"U+{ord(found[0]):04X}")
        raise _refusal(url, f"{name} stands in it, at character {found.start() + 1}")


def _authority(url: str, text: str) -> tuple[str, str | None]:
    """The host, read; and what stands behind its colon."""
    if "@" in text:
        raise _refusal(url, "`@` stands before the path: user names and passwords are not taken, give a key as a secret")
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise _refusal(url, "a bracket of the address is not closed before the port")
        return _ipv6(url, inner), rest[1:] if rest else None
    if "%" in text:
        raise _refusal(url, "`%` stands in the host: write its letters as they are")
    host, colon, port = text.partition(":")
    if not host:
        raise _refusal(url, "there is no host")
    return _name(url, host), port if colon else None


def _ipv6(url: str, text: str) -> str:
    address = addresses.read(text)
    if address is None or address.version != 6 or "%" in text:
        raise _refusal(url, f"`{ascii(text)[1:-1]}` is no IPv6 address, or one with a zone")
    around = addresses.around_ipv4(address)
    if around is not None:
        raise _refusal(url, f"its address is {around}: write the IPv4 address itself")
    return address.compressed


def _name(url: str, text: str) -> str:
    """A name in lower-case ASCII (international names as their A-labels), or an IPv4 address in its one spelling."""
    dot = _DOTS.search(text)
    if dot is not None:
        raise _refusal(url, f"U+{ord(dot[0]):04X} stands for a dot in the host")
    labels = text.split(".")
    if "" in labels:
        raise _refusal(url, "the host has a dot too many: none in front, none behind, no two together")
    if _NUMBER.fullmatch(labels[-1]):
        address = addresses.read(text) if text.isascii() else None
        if address is None:
            raise _refusal(url, f"`{text}` ends in a number and is no IPv4 address of four decimal numbers from 0 to 255")
        return str(address)
    name = ".".join(_label(url, label) for label in labels)
    if len(name) > 253:
        raise _refusal(url, "the host is longer than 253 letters")
    return name


def _label(url: str, text: str) -> str:
    if text.isascii():
        text = text.lower()
        if _LABEL.fullmatch(text) and not text.startswith("xn--"):
            return text
    import idna

    try:                            # IDNA 2008, without the mappings of UTS 46: nothing turns into another letter on the way
        return idna.encode(text, uts46=False, strict=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise _refusal(url, f"`{ascii(text)[1:-1]}` can't be a part of a host: letters, digits and hyphens inside, at most 63, "
                            "international ones as IDNA 2008 has them") from None


def _port(url: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII) or int(text) > 65535:
        raise _refusal(url, f"the port `{ascii(text)[1:-1]}` is not a number from 1 to 65535")
    port = int(text)
    if port in OTHER_PROTOCOLS:
        raise _refusal(url, f"port {port} belongs to another protocol")
    return port


def _path(url: str, text: str) -> str:
    """Percent signs only where they are needed, and no dot segments: so that a rule about a path means what it says."""
    path = _escaped(url, text, "/")
    segments: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    if path.endswith(("/.", "/..")):
        segments.append("")
    clean = "/" + "/".join(segments)
    if _climbs(unquote(clean).replace("\\", "/").split("/")):
        raise _refusal(url, "its path has `..` behind an encoded slash, which servers read in two ways")
    return clean


def _climbs(segments: Iterable[str]) -> bool:
    return any(segment in (".", "..") for segment in segments)


def _escaped(url: str, text: str, also: str) -> str:
    """Percent-encoded: what needs it is, and what does not (RFC 3986 2.3) is not."""
    if "%" in _ESCAPE.sub("", text):
        raise _refusal(url, "`%` is not followed by two hexadecimal digits: write `%25` for the sign itself")
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if chr(int(found[1], 16)) in _UNRESERVED else found[0].upper(), text)
    return quote(plain, safe=f"%/:@!$&'()*+,;=-._~{also}")
