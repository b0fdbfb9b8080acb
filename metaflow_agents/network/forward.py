"""A plain request from inside, sent on by the parent: the keys are added here, and taken out of the answer again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metaflow_agents.errors import FetchFailed, FetchRefused
from metaflow_agents.network.caller import Headers, HTTPCaller, NetworkRefusal, writable
from metaflow_agents.network.hosts import NetworkPlace, parse
from metaflow_agents.network.keys import Mask, keys_for
from metaflow_agents.network.passing import Cut, Passing
from metaflow_agents.network.wire import METHODS, OURS, exchanged

if TYPE_CHECKING:
    import aiohttp


@dataclass(frozen=True, slots=True)
class Forward:
    """What a caller asks to be forwarded. `asked` is the place as it said it."""

    passing: Passing
    caller: HTTPCaller
    asked: NetworkPlace

    async def run(self) -> None:
        """Raises FetchRefused, FetchFailed, Refusal, CallerGone, Cut."""
        passing, caller = self.passing, self.caller
        place = await self._granted()
        async with passing.in_time(place):
            pinned = await passing.guard.pin(place)
            keys = keys_for(place, pinned, passing.headers_for)
            body = await caller.body(passing.limits.body)
        how = "by https, as it is granted" if place.scheme != self.asked.scheme else "as it is granted"
        await passing.decided(place, "allowed", f"{caller.method} {how}{', with a key' if keys else ''}")
        mask = Mask(keys)
        async with (
            passing.in_time(place),
            exchanged(place, caller.method, self._headers(bool(keys)), body or None, pinned=pinned, guard=passing.guard,
                      keys=keys, tls=passing.tls) as response,
        ):
            await self._answered(response, place, mask)

    async def _granted(self) -> NetworkPlace:
        """The place as it was asked for; where that is not granted, the same by https. Then a program inside that speaks plain
        HTTP reaches a host that is granted with encryption, and the parent can add a key that the program never sees.
        """
        try:
            await self.passing.granted(self.asked)
        except FetchRefused as refusal:
            place = self.asked.encrypted()
            try:
                await self.passing.granted(place)
            except FetchRefused:
                raise refusal from None
            return place
        return self.asked

    def _headers(self, with_key: bool) -> Headers:
        """Those of the caller that are not about its connection. With a key, the answer has to come whole and unpacked: a key
        in pieces, or packed, would not be found in it.
        """
        named = {name.strip().lower() for each, value in self.caller.headers if each == "connection" for name in value.split(",")}
        left_out = OURS | named | ({"accept-encoding", "range", "if-range"} if with_key else set())
        kept = [(name, value) for name, value in self.caller.headers if name not in left_out]
        return [*kept, ("accept-encoding", "identity")] if with_key else kept

    async def _answered(self, response: aiohttp.ClientResponse, place: NetworkPlace, mask: Mask) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if mask and encoding not in ("", "identity"):
            raise NetworkRefusal(
                502,
                f"{place.origin} was given a key and answers in the encoding `{ascii(encoding)[1:-1][:80]}`, "
                "in which a key that comes back would not be found",
            )
        headers = [(name.lower(), mask.over_text(value)) for name, value in response.headers.items()
                   if name.lower() not in OURS or name.lower() == "content-length"]
        if response.status < 200 or not writable(headers):
            raise FetchFailed(f"{place.origin} answered with what can't be passed on as HTTP")
        await self.caller.begin(response.status, headers)
        passed = 0
        async for chunk in response.content.iter_chunked(65536):
            passed += len(chunk)
            if passed > self.passing.limits.passed:
                raise Cut(f"the answer of {place.origin} is longer than {self.passing.limits.passed} bytes")
            if out := mask.feed(chunk):
                await self.caller.send(out)
        if out := mask.end():
            await self.caller.send(out)
        await self.caller.end()


def asked_for(caller: HTTPCaller) -> NetworkPlace:
    """The place of a request in the form that is sent to a proxy (RFC 9112 3.2.2). Raises Refusal and FetchRefused."""
    if caller.method not in METHODS:
        raise NetworkRefusal(405, f"the method `{ascii(caller.method)[1:-1]}` is refused: there is CONNECT, {', '.join(METHODS)}")
    place = parse(caller.target)
    if place.scheme != "http":
        raise NetworkRefusal(
            400, f"{place.origin} is asked for with CONNECT, or as http://{place.host}/ to have it encrypted here"
        )
    same_host(caller, place)
    return place


def same_host(caller: HTTPCaller, place: NetworkPlace) -> None:
    """Raises Refusal where the Host header names another place than the request line."""
    host = caller.header("host")
    if host is None:
        return
    try:
        named = parse(f"{place.scheme}://{host}/")
    except FetchRefused as error:
        raise NetworkRefusal(400, f"Host: {error}") from None
    if named.authority != place.authority or named.path != "/" or named.query:
        raise NetworkRefusal(400, f"Host names {named.authority}, and the request line {place.authority}")
