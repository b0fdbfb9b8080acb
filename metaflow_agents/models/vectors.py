"""Embeddings as replies hold them: of each text the base64 of its little-endian 32-bit floats.

So the OpenAI protocol tells them with `encoding_format: base64`: exactly, and in a third of what the numbers would take as text.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from metaflow_agents.texts.strict_json import finite

_SIZE = 4                           # bytes of a number


def embedded(vectors: Any) -> list[str]:
    """Vectors, each a list of numbers, as a reply's value. Raises ValueError for what is none, or not all of one length."""
    if isinstance(vectors, str | bytes) or not isinstance(vectors, Iterable):
        raise ValueError(f"{type(vectors).__name__} came instead of lists of numbers")
    found = [base64.b64encode(_packed(vector)).decode() for vector in vectors]
    if len({len(one) for one in found}) > 1:
        raise ValueError("they are not all of one length")
    return found


def bytes_of(value: Sequence[str]) -> list[bytes]:
    """The vectors of a reply's value, each the bytes of its numbers."""
    return [base64.b64decode(one) for one in value]


def fault_of(value: Any, count: int) -> str:
    """What is wrong with the value of a reply that has to hold the embeddings of `count` texts; "" where nothing is."""
    if not isinstance(value, list) or len(value) != count:
        told = f"{len(value)}" if isinstance(value, list) else type(value).__name__
        return f"gave {told} where the embeddings of {count} texts were asked for"
    try:
        sizes = {len(base64.b64decode(one, validate=True)) for one in value}
    except (binascii.Error, TypeError, ValueError):
        return "gave embeddings that are no base64 of numbers"
    if len(sizes) > 1 or not all(size and size % _SIZE == 0 for size in sizes):
        return "gave embeddings that are empty, cut, or not all of one length"
    return ""


def _packed(vector: Any) -> bytes:
    if isinstance(vector, str | bytes) or not isinstance(vector, Iterable):
        raise ValueError(f"{type(vector).__name__} came where a list of numbers has to be")
    numbers = [number for number in vector]
    try:
        if numbers and all(not isinstance(number, bool | str) and finite(number) for number in numbers):
            return struct.pack(f"<{len(numbers)}f", *numbers)
    except (TypeError, OverflowError, struct.error):
        pass
    raise ValueError("one of them is empty, or holds what is no finite number")
