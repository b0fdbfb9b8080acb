"""A name becomes addresses once, they are all looked at, and they stay: what was checked is what gets connected to.

So a name that is public when it is checked and private when it is used (DNS rebinding) gains nothing, and neither does one that
hides a private address among public ones: a single one refuses the name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from metaflow_agents.errors import FetchFailed, FetchRefused, UsageError
from metaflow_agents.network import addresses
from metaflow_agents.network.addresses import Address
from metaflow_agents.network.hosts import NetworkPlace, parse_authority

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""A host name → its addresses as text. Raises OSError."""
AddressInfo = tuple[int, int, int, str, tuple[object, ...]]
Sockets = Callable[[AddressInfo], socket.socket]
"""Family, type, protocol, canonical name and address, as `getaddrinfo` gives them → a socket that is not connected yet."""

LOCALHOST = ("127.0.0.1", "::1")
RESOLVES_WITHIN = 10.0              # seconds


@dataclass(frozen=True, slots=True)
class Pinned:
    """A host and the addresses that it stands for from now on, none of them refused. `private`: granted by writing it down."""

    host: str
    addresses: tuple[str, ...]
    private: bool = False


class Guard:
    """Resolves each name once in its life, and refuses what is not an address of global unicast.

    `private`: places `host:port` that a person granted literally, as a loopback or private IP address or as `localhost`; they
    hold for that port alone. Raises UsageError for one that can't be granted so, as a name, a link-local or a multicast address.
    `resolve` and `sockets` are asyncio's and the system's own unless a test has others.
    """

    def __init__(self, private: Iterable[str] = (), *, resolve: Resolve | None = None, sockets: Sockets | None = None) -> None:
        self._private = frozenset(_literal(each) for each in private)
        self._resolve = resolve or _resolved
        self._sockets = sockets or _socket
        self._pins: dict[str, Pinned] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def pin(self, place: NetworkPlace) -> Pinned:
        """The addresses of a place. Raises FetchRefused for one that may not be connected to, FetchFailed where none is found."""
        literal = place.address
        private = (place.host, place.port) in self._private
        if literal is not None:
            return Pinned(place.host, (_checked(place, literal, private),), private)
        if place.host == "localhost":       # this machine, whatever a resolver says (RFC 6761 6.3)
            found = tuple(_checked(place, address, private) for address in map(addresses.read, LOCALHOST) if address)
            return Pinned(place.host, found, private)
        async with self._turns.setdefault(place.host, asyncio.Lock()):
            if place.host not in self._pins:
                self._pins[place.host] = Pinned(place.host, await self._looked_up(place))
        return self._pins[place.host]

    async def _looked_up(self, place: NetworkPlace) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(RESOLVES_WITHIN):
                told = await self._resolve(place.host)
        except TimeoutError:
            raise FetchFailed(f"the name `{place.host}` was not resolved within {RESOLVES_WITHIN:g} seconds") from None
        except (OSError, UnicodeError) as error:
            raise FetchFailed(f"the name `{place.host}` can't be resolved: {error}") from error
        found: dict[str, None] = {}
        for text in told:
            address = addresses.read(text)
            if address is None:
                raise FetchRefused(f"`{place.host}` is refused: its resolver gave `{ascii(text)[1:-1]}`, which is no address")
            found[_checked(place, address, private=False)] = None
        if not found:
            raise FetchRefused(f"the name `{place.host}` has no address")
        return tuple(found)

    async def connected(self, place: NetworkPlace) -> socket.socket:
        """A connection to the first address of a place that takes one. Raises FetchRefused, or FetchFailed where none does."""
        pinned = await self.pin(place)
        failed: OSError | None = None
        for address in pinned.addresses:
            made = self.made_socket((*_family(address), "", (address, place.port)))
            try:
                await asyncio.get_running_loop().sock_connect(made, (address, place.port))
            except OSError as error:
                made.close()
                failed = error
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise FetchFailed(f"`{place.authority}` can't be reached: {failed}") from failed

    def made_socket(self, info: AddressInfo) -> socket.socket:
        """A socket that does not block."""
        made = self._sockets(info)
        made.setblocking(False)
        return made


def _checked(place: NetworkPlace, address: Address, private: bool) -> str:
    why = addresses.refused(address)
    if why is None or (private and addresses.grantable(address)):
        return str(address)
    leads = "" if str(address) == place.host else f" leads to {address}, which"
    mend = ""
    if addresses.grantable(address) and place.host in (str(address), "localhost"):
        mend = f": grant `{place.authority}` literally if that is what is meant"
    raise FetchRefused(f"`{place.host}`{leads} is {why}, and only public addresses are connected to{mend}")


def _literal(text: str) -> tuple[str, int]:
    """A private place as a person granted it. Raises UsageError."""
    try:
        place = parse_authority(text)
    except FetchRefused as error:
        raise UsageError(f"a private place is granted literally, as `127.0.0.1:8080` or `localhost:8080`: {error}") from error
    address = place.address
    if address is None and place.host != "localhost":
        raise UsageError(f"`{text}` can't be granted as a private place: write its address literally, "
                         f"as `10.0.0.5:{place.port}`, or `localhost:{place.port}`; a name may lead anywhere tomorrow")
    if address is not None and not addresses.grantable(address):
        raise UsageError(f"`{text}` can't be granted: its address is {addresses.refused(address)}")
    return place.host, place.port


async def _resolved(host: str) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(each[4][0]) for each in found]


def _family(address: str) -> tuple[int, int, int]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP


def _socket(info: AddressInfo) -> socket.socket:
    return socket.socket(*info[:3])
