"""Ids of traces and spans: they follow from the run and its events, so that whoever folds the journal again finds the same."""

from __future__ import annotations

from hashlib import blake2b

from metaflow_agents.schema.event import RunOpened

FIRST = 1
"""Number of a journal's first event, with which the root of a trace begins."""


def trace_id(opened: RunOpened, name: str = "") -> bytes:
    """The 16 bytes of a run's trace. `name` is what the run is called, where it has one: a fork's journal begins as that of its
    source does, and goes by another name.
    """
    fork = (name,) if name and name != opened.run else ()
    told = "\0".join(map(repr, (opened.run, opened.at, opened.compiled, *fork)))
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16, person=b"sop trace").digest()


def span_id(trace: bytes, number: int, key: str) -> bytes:
    """The 8 bytes of a span, from the number of the event with which it begins, and its key: one event may begin several."""
    return blake2b(f"{number} {key}".encode("utf-8", "surrogatepass"), digest_size=8, key=trace).digest()
