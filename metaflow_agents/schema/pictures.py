"""Pictures among the files that are no text: which ones a model may be sent, how large they are, and what they cost at most.

What is sent is read strictly first: format, width and height stand in the first bytes of the file (PNG: https://www.w3.org/TR/png-3;
JPEG: ITU T.81, B.2.2; GIF: GIF89a specification, 18; WebP: RFC 9649, 2.5). A file that only begins like a picture is none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from metaflow_agents.schema.binary import BinaryFile

MOST = 20
"""Pictures in one prompt; those after it are named, not sent."""
MAX_BYTES, MAX_ALL_BYTES = 5 * 1024 * 1024, 20 * 1024 * 1024
MAX_SIDE = 8000
"""Pixels of a side."""
_SCANNED = 64 * 1024                # of a JPEG, whose size stands behind its metadata
_PATCH = 14                         # pixels of a side that make a token where a model cuts pictures finest
_AROUND = 256                       # tokens that mark where a picture begins and ends, rows included
_FITS, _SHORT, _TILE = 2048, 768, 512   # pixels: what OpenAI's tiled models scale a picture to, and the side of a tile
_TILED, _PER_TILE = 2833, 5667          # tokens, as gpt-4o-mini bills them: https://platform.openai.com/docs/guides/images-vision
_PIXELS_PER_TOKEN, _TAG = 750, 85       # https://docs.anthropic.com/en/docs/build-with-claude/vision
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}      # markers of JPEG that tell a size
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})                  # those without a length


def size(data: bytes, media_type: str) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, JPEG, GIF or WebP; None for what is none, or is none of these."""
    reads = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    try:
        found = reads[media_type](data) if media_type in reads else None
    except (struct.error, IndexError):
        return None
    return found if found is not None and all(0 < side <= MAX_SIDE for side in found) else None


def _png(data: bytes) -> tuple[int, int] | None:
    if data[8:16] != b"\0\0\0\rIHDR" or data[-8:-4] != b"IEND":
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _gif(data: bytes) -> tuple[int, int] | None:
    if data[-1:] != b";":
        return None
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _webp(data: bytes) -> tuple[int, int] | None:
    kind, start = data[12:16], data[20:30]
    if kind == b"VP8X":
        return int.from_bytes(start[4:7], "little") + 1, int.from_bytes(start[7:10], "little") + 1
    if kind == b"VP8L" and start[0] == 0x2F:
        bits = int.from_bytes(start[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and start[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", start[6:10])
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at < min(len(data), _SCANNED) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _SIZES:
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height
        at += 2 if marker in _ALONE else 1 if marker == 0xFF else 2 + max(2, struct.unpack(">H", data[at + 2:at + 4])[0])
    return None


def worst_tokens(picture: Mapping[str, Any]) -> int:
    """What a picture costs at most: an endpoint cuts it into the finest patches, or bills tiles at the dearest published rate."""
    width, height = int(picture["width"]), int(picture["height"])
    patches = -(-width // _PATCH) * -(-height // _PATCH) + _AROUND
    scale = min(1.0, _FITS / max(width, height), _SHORT / min(width, height))
    tiles = -(-int(width * scale) // _TILE) * -(-int(height * scale) // _TILE)
    return max(patches, _TILED + _PER_TILE * max(1, tiles))


def usual_tokens(picture: Mapping[str, Any]) -> int:
    """About what endpoints bill for a picture."""
    return int(picture["width"]) * int(picture["height"]) // _PIXELS_PER_TOKEN + _TAG


def told(message: Mapping[str, Any]) -> list[str]:
    """The pictures of a message in words, for people: a line for each."""
    return [f"[sent as a picture: {one['name']}, {one['width']} by {one['height']} pixels]" for one in message.get("images", ())]


def sendable(files: Iterable[BinaryFile]) -> tuple[dict[str, Any], ...]:
    """The pictures among files, each once, as messages hold them: what is known of the file, `width` and `height`.

    At most `MOST` of them, none larger than `MAX_BYTES` or `MAX_SIDE`, all together no larger than `MAX_ALL_BYTES`.
    """
    found: dict[str, dict[str, Any]] = {}
    left = MAX_ALL_BYTES
    for file in files:
        if file.sha256 in found or not file.media_type.startswith("image/") or file.size > min(MAX_BYTES, left):
            continue
        sides = size(file.load(), file.media_type)
        if sides is not None and len(found) < MOST:
            found[file.sha256] = {**file.told(), "width": sides[0], "height": sides[1]}
            left -= file.size
    return tuple(found.values())
