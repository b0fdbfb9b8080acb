"""What a role fetches: one request, its redirects each checked again, an answer with a bounded body.

Every place on the way is granted first, then resolved and pinned, then given the keys that are for it; a key never goes along to
another origin. Time counts on the wire alone, not while a person is asked.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from metaflow_agents.errors import FetchFailed, FetchRefused
from metaflow_agents.network.guard import Guard
from metaflow_agents.network.hosts import NetworkPlace, joined, parse
from metaflow_agents.network.keys import HeadersFor, Mask, keys_for, no_keys
from metaflow_agents.network.wire import Granted, exchanged, method_of, refuse_headers
from metaflow_agents.schema import trust

if TYPE_CHECKING:
    import aiohttp

_REDIRECTS = (301, 302, 303, 307, 308)
_ANYWHERE = frozenset({"accept", "accept-language", "content-language", "content-type", "user-agent"})
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What is asked for. `headers` and `body` are the caller's own; keys come from `headers_for`."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came back from `url`, the last of the redirects. `headers` are (lower-case name, value) in order; `body` is unpacked,
    and `cut` says that it was longer; `content_type` is without parameters, lower-case, and empty where nothing was said.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str
    content_type: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """`seconds` for all requests of a fetch together, `body` in bytes after unpacking, `redirects` at most."""

    seconds: float = 30.0
    body: int = 2_000_000
    redirects: int = 5


async def fetch(
    request: FetchRequest,
    *,
    granted: Granted,
    guard: Guard,
    headers_for: HeadersFor = no_keys,
    limits: FetchLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> Fetched:
    """Fetches a URL. `tls` trusts what this machine trusts unless given.

    Raises FetchRefused for what may not be asked (and what `granted` raises), FetchFailed for what goes wrong; once a host was
    asked, their words may be its own (where it redirects to, what it sent in place of HTTP), and `untrusted` says so.
    """
    fetching = _Fetch(granted, guard, headers_for, limits or FetchLimits(), tls)
    try:
        return await fetching.run(request)
    except FetchFailed as error:
        error.untrusted = fetching.heard
        raise


class _Fetch:
    def __init__(self, granted: Granted, guard: Guard, headers_for: HeadersFor, limits: FetchLimits,
                 tls: ssl.SSLContext | None) -> None:
        self._granted, self._guard, self._headers_for, self._limits, self._tls = granted, guard, headers_for, limits, tls
        self._left = limits.seconds
        self.heard = ""                                         # the label of those that were asked

    async def run(self, request: FetchRequest) -> Fetched:
        request = replace(request, method=method_of(request.method))
        refuse_headers(request.headers.items())
        place = parse(request.url)
        seen: set[tuple[str, str]] = set()
        for _ in range(self._limits.redirects + 1):
            if (request.method, place.url) in seen:
                raise FetchFailed(f"the redirects of {parse(request.url)} go in a loop: {place} again")
            seen.add((request.method, place.url))
            answer, location = await self._hop(request, place)
            if location is None:
                return answer
            request, place = _redirected(request, place, answer.status, location)
        raise FetchFailed(f"{parse(request.url)} has more than {self._limits.redirects} redirects")

    async def _hop(self, request: FetchRequest, place: NetworkPlace) -> tuple[Fetched, str | None]:
        """One request: its answer, and where it redirects to, if it does."""
        await self._granted(place)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._left):
                return await self._asked(request, place)
        except TimeoutError:
            raise FetchFailed(f"{place.origin} took longer than the {self._limits.seconds:g} seconds that a fetch has") from None
        finally:
            self._left = max(0.0, self._left - (clock() - began))

    async def _asked(self, request: FetchRequest, place: NetworkPlace) -> tuple[Fetched, str | None]:
        pinned = await self._guard.pin(place)
        keys = keys_for(place, pinned, self._headers_for)
        self.heard = trust.joined(self.heard, f"fetched from {place.origin}")
        mask = Mask(keys)
        # A key that comes back in pieces would not be found: with one, there are no ranges.
        left_out = {"accept-encoding", *(("range", "if-range") if keys else ())}
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in left_out]
        async with exchanged(place, request.method, [*headers, ("Accept-Encoding", "gzip")], request.body, pinned=pinned,
                             guard=self._guard, keys=keys, tls=self._tls) as response:
            told = tuple((name.lower(), mask.over_text(value)) for name, value in response.headers.items())
            location = response.headers.get("Location") if response.status in _REDIRECTS else None
            if location is not None:
                return Fetched(response.status, told, b"", place.url, ""), mask.over_text(location)
            body, cut = await self._body(response, place, mask)
        kind = mask.over_text(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()
        return Fetched(response.status, told, body, place.url, kind, cut), None

    async def _body(self, response: aiohttp.ClientResponse, place: NetworkPlace, mask: Mask) -> tuple[bytes, bool]:
        """The body up to its cap; a key that the cap would cut in two is read to its end first."""
        cap = self._limits.body
        unpack = _unpacking(response, place)
        whole = bytearray()
        most = cap + mask.longest + 1
        async for chunk in response.content.iter_chunked(65536):
            try:
                whole += unpack.fed(chunk, most - len(whole))
            except zlib.error as error:
                raise FetchFailed(f"{place.origin} sent what can't be unpacked: {error}") from None
            if len(whole) >= most:
                break
        else:
            if not unpack.complete:
                raise FetchFailed(f"{place.origin} sent a compressed answer that has no end")
        return mask.over(bytes(whole))[:cap], len(whole) > cap


class _Plain:
    """A body as it is."""

    complete = True

    def fed(self, data: bytes, most: int) -> bytes:
        return data[:most]


class _Gzip:
    """A body in one or more members of gzip (RFC 1952), never unpacked further than asked for."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False

    @property
    def complete(self) -> bool:
        """Whether nothing is missing: no body at all is none."""
        return self._member.eof or not self._begun

    def fed(self, data: bytes, most: int) -> bytes:
        """Up to `most` bytes of what these bring."""
        self._begun = True
        out = bytearray()
        while data and len(out) < most:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP)
            out += self._member.decompress(data, most - len(out))
            data = self._member.unconsumed_tail or self._member.unused_data
        return bytes(out)


def _unpacking(response: aiohttp.ClientResponse, place: NetworkPlace) -> _Plain | _Gzip:
    encoding = ", ".join(response.headers.getall("Content-Encoding", [])).strip().lower()
    if encoding in ("", "identity"):
        return _Plain()
    if encoding in ("gzip", "x-gzip"):
        return _Gzip()
    raise FetchFailed(f"{place.origin} answered in the encoding `{ascii(encoding)[1:-1][:80]}`, and was asked for gzip or none")


def _redirected(request: FetchRequest, place: NetworkPlace, status: int, location: str) -> tuple[FetchRequest, NetworkPlace]:
    """The next request of a redirect (RFC 9110 15.4, and what clients make of a POST). Raises FetchRefused."""
    to = joined(place, location)
    if place.scheme == "https" and to.scheme == "http":
        raise FetchRefused(f"{place.origin} redirects to {to}, which gives up encryption")
    headers = dict(request.headers)
    if to.origin != place.origin:
        headers = {name: value for name, value in headers.items() if name.lower() in _ANYWHERE}
    method, body = request.method, request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    return replace(request, method=method, body=body, headers=headers), to
