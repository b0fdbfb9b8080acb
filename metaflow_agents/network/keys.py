"""Keys that are added to requests in the parent: where they may go, and that an answer does not bring them back.

A host that gets a key may send it back: many services show what they were asked. So an answer is searched for it, and each
letter of it becomes a `*`. A host that wants to give it away in another disguise can: a key is given to a host that is trusted
with it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import quote

from metaflow_agents.errors import FetchRefused
from metaflow_agents.network.guard import Pinned
from metaflow_agents.network.hosts import NetworkPlace

HeadersFor = Callable[[NetworkPlace], Mapping[str, str]]
"""The headers that hold keys for a place, asked anew for every request; empty for every place that a key is not for."""

SHORTEST = 8                        # letters: what is shorter is no key, and stands in many answers
_PLAIN = frozenset({"accept", "accept-language", "content-type", "user-agent"})


def no_keys(place: NetworkPlace) -> Mapping[str, str]:
    """For hosts that get none."""
    return {}


def keys_for(place: NetworkPlace, pinned: Pinned, headers_for: HeadersFor) -> Mapping[str, str]:
    """The headers with keys for this request. Raises FetchRefused where they would go out unencrypted to a public host."""
    keys = headers_for(place)
    if keys and place.scheme == "http" and not pinned.private:
        raise FetchRefused(f"{place.origin} has a key ({', '.join(keys)}) and no encryption: grant and ask for "
                           f"{place.encrypted().origin}")
    return keys


class Mask:
    """Writes `*` over the keys in a stream of bytes: same length, so that what was said about it stays true.

    `headers` hold the keys: each whole value, its words, the password of a `Basic` one; as they are, percent-encoded, and as JSON
    writes them. Words below 8 letters and headers that never hold a key are left out.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        found = {form for secret in _secrets(headers) for form in _forms(secret)}
        ordered = sorted(found, key=lambda form: (-len(form), form))
        self._pattern = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None
        self.longest = len(ordered[0]) if ordered else 0
        self._held = b""

    def __bool__(self) -> bool:
        return self._pattern is not None

    def feed(self, data: bytes) -> bytes:
        """What may be passed on now: the end of the stream, where a key could have begun, is held back."""
        self._held += data
        return self._out(len(self._held) - self.longest + 1)

    def end(self) -> bytes:
        """The rest."""
        return self._out(len(self._held))

    def over(self, data: bytes) -> bytes:
        """A whole that is at hand."""
        return data if self._pattern is None else self._pattern.sub(_stars, data)

    def over_text(self, text: str) -> str:
        """The same of a text; half characters stay what they are."""
        return self.over(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def _out(self, until: int) -> bytes:
        """What is held up to `until`, and to the end of a key that begins before."""
        parts: list[bytes] = []
        at = 0
        for found in self._pattern.finditer(self._held) if self._pattern else ():
            if found.start() >= until:
                break
            parts += [self._held[at:found.start()], _stars(found)]
            at = found.end()
        end = max(at, until)
        parts.append(self._held[at:end])
        self._held = self._held[end:]
        return b"".join(parts)


def _stars(found: re.Match[bytes]) -> bytes:
    return b"*" * len(found[0])


def _secrets(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if name.lower() not in _PLAIN:
            words = (value, *value.split(), *_basic(value))
            yield from (word for word in words if len(word) >= SHORTEST)


def _basic(value: str) -> Iterable[str]:
    """User and password of HTTP's Basic scheme (RFC 7617)."""
    scheme, _, coded = value.partition(" ")
    if scheme.lower() != "basic":
        return ()
    try:
        pair = base64.b64decode(coded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ()
    return pair, pair.partition(":")[2]


def _forms(secret: str) -> Iterator[bytes]:
    for form in (secret, quote(secret, safe=""), quote(secret), secret.replace("/", r"\/"), secret.replace('"', r"\"")):
        yield form.encode()
