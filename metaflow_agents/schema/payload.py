"""What a version of an artifact holds, as the journal stores it: data, files, or a collection; large parts by digest.

A payload's own digest is the digest of its canonical JSON, so equal contents have equal digests, and two versions
with the same content are stored once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from metaflow_agents.schema.model import Value, canonical


class Data(Value):
    """Text or a value with a schema. `value` is any JSON value. `assumed` says what was taken for granted in it, since nobody
    answered.
    """

    kind: Literal["data"] = "data"
    value: Any = None
    assumed: tuple[str, ...] = ()


class Files(Value):
    """A set of files: path → digest of its bytes. `patterns` are the rendered path patterns it is confined to."""

    kind: Literal["files"] = "files"
    patterns: tuple[str, ...] = ()
    files: dict[str, str] = Field(default_factory=dict)
    missing: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


class Patch(Value):
    """What one activation did to files: path → digest of what was written, and the paths that it deleted."""

    kind: Literal["patch"] = "patch"
    written: dict[str, str] = Field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


class Collection(Value):
    """Key → digest of an item's `Data` payload, in the order of the list that was walked; `missing` items failed."""

    kind: Literal["collection"] = "collection"
    items: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()


Payload = Annotated[Data | Files | Patch | Collection, Field(discriminator="kind")]
_PAYLOAD: TypeAdapter[Data | Files | Patch | Collection] = TypeAdapter(Payload, config=ConfigDict(defer_build=True))


def pack(payload: Data | Files | Patch | Collection) -> bytes:
    """The canonical bytes that are stored and digested."""
    plain = payload.model_dump(mode="json")
    if not plain.get("assumed"):
        plain.pop("assumed", None)      # most have none, and are what they were before there was such a thing
    return canonical(plain)


def unpack(data: bytes) -> Data | Files | Patch | Collection:
    """The payload of its stored bytes. Raises pydantic's ValidationError on what is none."""
    return _PAYLOAD.validate_json(data)
