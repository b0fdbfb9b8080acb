"""The first message of TLS, read as far as the name of the server that it asks for. Pure.

RFC 8446 4.1.2 (ClientHello) and 5.1 (records), RFC 6066 3 (server name). What is odd is refused rather than guessed at: the
server behind the tunnel could read it in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

_HANDSHAKE, _TLS, _CLIENT_HELLO = b"\x16", b"\x03", 1
_SERVER_NAME, _HOST_NAME = 0, 0
_ENCRYPTED = (0xFE0D, 0xFFCE)       # Encrypted Client Hello (RFC 9849), and the draft before it
LONGEST = 65536                     # bytes of records in which a hello has to end


class OddHello(ValueError):
    """What came is no hello of TLS, or one that can't be judged."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What a client asks for: `name` in lower case, None where it names no server."""

    name: str | None


def read(data: bytes) -> Hello | None:
    """The hello at the beginning of a stream; None while its end has not come. Raises OddHello."""
    message = bytearray()
    at = 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        header = data[at:at + 5]
        if header[:1] not in (b"", _HANDSHAKE) or header[1:2] not in (b"", _TLS):
            raise OddHello("it does not begin as TLS does")
        length = int.from_bytes(header[3:5], "big")
        if len(header) == 5 and not 0 < length <= 16384:
            raise OddHello(f"its hello has a record of {length} bytes")
        if len(header) < 5 or len(data) < at + 5 + length:
            if len(data) >= LONGEST:
                raise OddHello(f"its hello is longer than {LONGEST} bytes")
            return None
        message += data[at + 5:at + 5 + length]
        at += 5 + length
        if message[0] != _CLIENT_HELLO:
            raise OddHello("its first message is no hello of a client")
    return _hello(bytes(message[4:4 + int.from_bytes(message[1:4], "big")]))


class _Bytes:
    """Reads from the front; what is not there is odd."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        found = self._data[self._at:self._at + count]
        if len(found) < count:
            raise OddHello("its hello ends too early")
        self._at += count
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Bytes:
        """A part that begins with its own length, a number of `size` bytes."""
        return _Bytes(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)


def _hello(message: bytes) -> Hello:
    body = _Bytes(message)
    body.take(2 + 32)                                           # version, random
    for size in (1, 2, 1):                                      # session, cipher suites, compression methods
        body.vector(size)
    name: str | None = None
    seen: set[int] = set()
    extensions = body.vector(2) if body else _Bytes(b"")
    while extensions:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in seen:
            raise OddHello("its hello says something twice")
        seen.add(kind)
        if kind in _ENCRYPTED:
            raise OddHello("its hello has another one inside, encrypted")
        if kind == _SERVER_NAME:
            name = _server_name(content)
    if body:
        raise OddHello("its hello goes on behind its end")
    return Hello(name)


def _server_name(content: _Bytes) -> str:
    names = content.vector(2)
    kind, name = names.number(1), names.vector(2).rest()
    if kind != _HOST_NAME or names or content:
        raise OddHello("its hello does not name one host")
    try:
        return name.decode("ascii").lower()
    except UnicodeDecodeError:
        raise OddHello("its hello names a host that is not ASCII") from None
