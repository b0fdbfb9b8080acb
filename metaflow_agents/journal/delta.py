"""Blobs as differences from earlier ones: what a text shares with them is copied when it is read, and only the rest is stored.

This is the form in which they are stored; `delta_window.py` finds what is shared. `assembled` follows the references, without
recursion and within bounds.

A difference: numbers of 7 bits a byte, low bits first, then bytes. Flags (1: it makes the text as JSON escapes it), the size that
it makes, the number of its sources, of each the first 16 bytes of its digest; the number of its operations, each `0, length` (the
next bytes of the rest) or `n, offset, length` (from source n); 1 where the rest is zlib-compressed, else 0; the rest.
Source: J. MacDonald, "File System Support for Delta Compression", 2000 (copy and insert).
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

LARGEST = 256 << 20                 # bytes of a blob: a folder given as input may have 64 MB in one file
_PACK_FROM = 512
SOURCE = 16                         # bytes of a source's digest
BEGINNING = 2 * SOURCE              # the same in hex
_PIECES = 1 << 18                   # stretches that a text may be put together from
_BITS = 7


class Copy(NamedTuple):
    """`length` bytes of a text from `start` on are those of the blob whose digest begins with `name`, from `offset` on."""

    name: bytes
    start: int
    offset: int
    length: int


def escaped(data: bytes) -> bytes | None:
    """A plain text as it stands in JSON, where that differs; None for JSON, for bytes, and where it does not differ."""
    if data[:1] in (b"{", b"["):
        return None
    try:
        found = _ESCAPE(data.decode())[1:-1].encode()
    except UnicodeDecodeError:
        return None
    return None if found == data else found


_ESCAPE = json.JSONEncoder(ensure_ascii=False).encode
_UNESCAPE = json.JSONDecoder(strict=True).decode


def difference(data: bytes, copies: list[Copy], names: list[bytes], *, as_json: bool) -> bytes:
    """The difference."""
    head, rest = bytearray(), bytearray()
    count = at = 0
    for copy in copies:
        if copy.start > at:
            head += _numbers(0, copy.start - at)
            rest += data[at:copy.start]
            count += 1
        head += _numbers(1 + names.index(copy.name), copy.offset, copy.length)
        count += 1
        at = copy.start + copy.length
    if at < len(data):
        head += _numbers(0, len(data) - at)
        rest += data[at:]
        count += 1
    packed = zlib.compress(rest, 1) if len(rest) > _PACK_FROM else rest
    pays = len(packed) < len(rest)
    return b"".join((_numbers(as_json, len(data), len(names)), *names, _numbers(count), head, _numbers(pays),
                     packed if pays else rest))


def _numbers(*numbers: int) -> bytes:
    found = bytearray()
    for number in numbers:
        while number >= 1 << _BITS:
            found.append(number & 127 | 128)
            number >>= _BITS
        found.append(number)
    return bytes(found)


class Damaged(ValueError):
    """A difference that none of ours is: what it says is in the message."""


class _Difference:
    """A difference as it was read. Raises Damaged."""

    def __init__(self, written: bytes) -> None:
        self._written, self._at = written, 0
        flags, self.size, sources = self._number(), self._number(), self._number()
        self.escaped = flags == 1
        if flags > 1 or self.size > LARGEST:
            raise Damaged(f"it is a difference with the flags {flags} that makes {self.size:,} bytes")
        self.sources = [self._bytes(SOURCE) for _ in range(min(sources, _PIECES))]
        self.starts: list[int] = []
        self.pieces: list[tuple[int, int]] = []                 # source (0: the rest), offset there
        end = rest = 0
        for _ in range(min(self._number(), _PIECES)):
            which = self._number()
            offset = self._number() if which else rest
            length = self._number()
            if which > len(self.sources) or not length:
                raise Damaged(f"it is a difference that copies {length} bytes from source {which} of {len(self.sources)}")
            self.starts.append(end)
            self.pieces.append((which, offset))
            end += length
            rest += 0 if which else length
        packed = self._number()
        self.rest = unpacked(written[self._at:]) if packed else written[self._at:]
        if end != self.size or rest != len(self.rest):
            raise Damaged(f"it is a difference that makes {end:,} bytes, not {self.size:,}, with {len(self.rest):,} of its own")

    def between(self, start: int, end: int) -> Iterator[tuple[bytes, int, int] | bytes]:
        """What makes this stretch of the text: bytes, or where to copy them from (source, offset, length)."""
        place = bisect_right(self.starts, start) - 1
        while start < end:
            which, there = self.pieces[place]
            stop = self.starts[place + 1] if place + 1 < len(self.starts) else self.size
            taken = min(stop, end) - start
            there += start - self.starts[place]
            yield (self.sources[which - 1], there, taken) if which else self.rest[there:there + taken]
            start += taken
            place += 1

    def _number(self) -> int:
        written, at = self._written, self._at
        found = shift = 0
        try:
            while (byte := written[at]) > 127:
                found |= (byte & 127) << shift
                shift += _BITS
                at += 1
                if shift > 5 * _BITS:
                    raise Damaged("it is a difference with a number beyond all bounds")
        except IndexError:
            raise Damaged("it is a difference that breaks off") from None
        self._at = at + 1
        return found | byte << shift

    def _bytes(self, count: int) -> bytes:
        found = self._written[self._at:self._at + count]
        self._at += count
        if len(found) != count:
            raise Damaged("it is a difference that breaks off")
        return found


def unpacked(data: bytes) -> bytes:
    """What was packed, within bounds: a few bytes of somebody else's may stand for gigabytes. Raises zlib.error."""
    packing = zlib.decompressobj()
    found = packing.decompress(data, LARGEST)
    if packing.unconsumed_tail:
        raise zlib.error(f"it is larger than {LARGEST >> 20} MB")
    return found + packing.flush()


def assembled(written: bytes, fetch: Callable[[str], tuple[bool, bytes]]) -> bytes:
    """The text that a difference makes. `fetch` gives for the beginning of a digest what is stored there: whether it is a
    difference, and its bytes, unpacked where it is none. Raises Damaged, zlib.error, and what `fetch` raises.
    """
    whole = _Difference(written)
    known: dict[bytes, bytes | _Difference] = {b"": whole}
    waiting: list[tuple[bytes, int, int] | bytes] = [(b"", 0, whole.size)]
    found: list[bytes] = []
    count = 0
    while waiting:
        following = waiting.pop()
        if isinstance(following, bytes):
            found.append(following)
            continue
        name, offset, length = following
        count += 1
        if count > _PIECES:
            raise Damaged(f"it is put together from more than {_PIECES:,} pieces")
        if name not in known:
            differs, stored = fetch(name.hex())
            known[name] = _Difference(stored) if differs else stored
        source = known[name]
        if isinstance(source, bytes):
            if offset + length > len(source):
                raise Damaged(f"it copies beyond the end of blob {name.hex()}")
            found.append(source[offset:offset + length])
            continue
        if offset + length > source.size or (source.escaped and name):
            raise Damaged(f"it copies from blob {name.hex()} what can't be copied from there")
        waiting += reversed(list(source.between(offset, offset + length)))
    text = b"".join(found)
    if not whole.escaped:
        return text
    try:
        return str(_UNESCAPE(f'"{text.decode()}"')).encode()
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is no text as JSON has it: {error}") from None
