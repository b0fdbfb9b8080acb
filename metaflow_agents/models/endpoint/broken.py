"""Faults of the wire itself, translated once: what the transport raises → what follows from it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from metaflow_agents.models.endpoint.wording import line
from metaflow_agents.models.faults import CallFailed

if TYPE_CHECKING:
    from metaflow_agents.models.endpoint.learned import Learned

PATIENT = 3                         # times in a row that nobody is there, before it is taken for a wrong address


def wire_faults() -> tuple[type[Exception], ...]:
    """What the transport raises."""
    import aiohttp
    import httpx2

    return (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, aiohttp.ClientError, OSError)


def broken(error: BaseException, url: str, learned: Learned, silence: float) -> CallFailed:
    """What a fault of the wire means. `silence` is how long the endpoint may say nothing, in seconds."""
    import aiohttp
    import httpx2

    causes = _causes(error)
    at = f"the endpoint {url}"
    said = line(next((str(cause) for cause in reversed(causes) if str(cause)), type(error).__name__))
    if any(isinstance(cause, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError) for cause in causes):
        return CallFailed(f"the certificate of {at} is not trusted: {said}", then="stop", charged=0, refused=True)
    if any(isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | httpx2.UnsupportedProtocol
                      | httpx2.InvalidURL) for cause in causes):
        return _unreached(at, said, learned)
    if any(isinstance(cause, aiohttp.SocketTimeoutError | httpx2.ReadTimeout) for cause in causes):
        return CallFailed(f"{at} said nothing for {silence:g} s", then="again", charged=None, silent=True)
    if isinstance(error, httpx2.DecodingError):
        return CallFailed(f"{at} sent what can't be unpacked: {said}", then="again", charged=None)
    if any(isinstance(cause, aiohttp.ServerDisconnectedError) for cause in causes):
        return CallFailed(f"{at} closed the connection before it answered", then="again", charged=None)
    if any(isinstance(cause, aiohttp.ClientPayloadError) for cause in causes):
        return CallFailed(f"{at} closed the connection in the middle of its answer", then="again", charged=None)
    return CallFailed(f"the connection to {at} broke: {said}", then="again", charged=None)


def _unreached(at: str, said: str, learned: Learned) -> CallFailed:
    """Nobody is there. One that never was is soon taken for a mistake, one that answered before is waited for."""
    learned.unreached += 1
    if not learned.answered and learned.unreached >= PATIENT:
        return CallFailed(f"nobody answers at {at[len('the endpoint '):]}: {said}; start it, or correct its address", then="stop",
                          charged=0, refused=True)
    return CallFailed(f"{at} can't be reached: {said}", then="again", charged=0, refused=True)


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found
