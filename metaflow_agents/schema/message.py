"""What travels on the bus."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from metaflow_agents.schema.model import Value


class Message(Value):
    """One version of one artifact, or a word between roles.

    `made_from` are the versions that its firing read (artifact → number); `payload` is plain data: a JSON value,
    for files path → text (or bytes where they are no text), for a collection key → value. `untrusted` says what of it came from
    outside the user, in words; empty: nothing.
    """

    kind: Literal["artifact", "direct", "broadcast"]
    seq: int
    topic: str
    sender: str | None = None
    to: str | None = None
    version: int = 0
    firing: str | None = None
    made_from: dict[str, int] = Field(default_factory=dict)
    payload: Any = None
    untrusted: str = ""
