"""Ids of traces and spans: they follow from the run and its events, so that whoever folds the journal again finds the same."""

from __future__ import annotations

from hashlib import blake2b


def trace_id(*parts: object) -> bytes:
    """The 16 bytes of a trace, from all that tells a run from others."""
    return blake2b("\0".join(map(repr, parts)).encode("utf-8", "surrogatepass"), digest_size=16, person=b"sop trace").digest()


def span_id(trace: bytes, number: int, key: str) -> bytes:
    """The 8 bytes of a span, from the number of the event with which it begins, and its key: one event may begin several."""
    return blake2b(f"{number} {key}".encode("utf-8", "surrogatepass"), digest_size=8, key=trace).digest()
