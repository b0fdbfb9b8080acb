"""Ids of traces and spans: they follow from the run and its events, so that whoever folds the journal again finds the same."""

from __future__ import annotations

from hashlib import blake2b

from metaflow_agents.schema.event import Resumed, RunOpened


def trace_id(before: bytes, event: RunOpened | Resumed) -> bytes:
    """The 16 bytes of the trace from this event on; `before`: that of the events before it. A resume goes on in the same trace, a
    fork has one of its own.
    """
    if isinstance(event, RunOpened):
        return _digest(event.run, event.at, event.compiled)
    return before if event.forked_from is None else _digest(before, event.at, event.forked_from)


def _digest(*parts: object) -> bytes:
    return blake2b("\0".join(map(repr, parts)).encode("utf-8", "surrogatepass"), digest_size=16, person=b"sop trace").digest()


def span_id(trace: bytes, number: int, key: str) -> bytes:
    """The 8 bytes of a span, from the number of the event with which it begins, and its key: one event may begin several."""
    return blake2b(f"{number} {key}".encode("utf-8", "surrogatepass"), digest_size=8, key=trace).digest()
