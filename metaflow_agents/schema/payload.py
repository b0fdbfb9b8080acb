"""What a version of an artifact holds, as the journal stores it: data, a file that is no text, files, or a collection; large
parts by digest.

A payload's own digest is that of its bytes. Data is stored with its keys in the order that its schema gives them, and others
sorted (`schema/validation.py`): equal contents have equal digests, and two versions with the same content are stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from metaflow_agents.schema.binary import BinaryFile, packed
from metaflow_agents.schema.model import Value, as_ordered, canonical, digest


class Data(Value):
    """Text or a value with a schema. `value` is any JSON value. `assumed` says what was taken for granted in it, since nobody
    answered. `documents`: path → digest of the bytes of what was made of it in another format; `made_of`: digest of what they
    were made of.
    """

    kind: Literal["data"] = "data"
    value: Any = None
    assumed: tuple[str, ...] = ()
    documents: dict[str, str] = Field(default_factory=dict)
    made_of: str = ""

    @property
    def alone(self) -> Data:
        """It without its documents."""
        return self.model_copy(update={"documents": {}, "made_of": ""})


class Binary(Value):
    """A file that is no text, where its content alone is the value: the digest of its bytes, and what is told of it."""

    kind: Literal["binary"] = "binary"
    sha256: str
    size: int
    media_type: str
    name: str = ""
    assumed: tuple[str, ...] = ()

    def value(self, load: Callable[[str], bytes]) -> BinaryFile:
        """The file as expressions see it; `load` gives the bytes of a digest."""
        return BinaryFile(self.name, self.media_type, self.size, self.sha256, lambda: load(self.sha256), stored=True)


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


Held = Data | Binary | Files | Patch | Collection
Payload = Annotated[Held, Field(discriminator="kind")]
_PAYLOAD: TypeAdapter[Held] = TypeAdapter(Payload, config=ConfigDict(defer_build=True))


def pack(payload: Held) -> bytes:
    """The bytes that are stored and digested."""
    plain = payload.model_dump(mode="json")
    for name in ("assumed", "documents", "made_of"):
        if not plain.get(name):
            plain.pop(name, None)       # most have none, and are what they were before there was such a thing
    if isinstance(payload, Data):
        return as_ordered({name: plain[name] for name in sorted(plain)})
    return canonical(plain)


def stored(payload: Held, blobs: dict[str, bytes]) -> str:
    """A payload's digest; its bytes are put to `blobs` under it."""
    packed = pack(payload)
    name = digest(packed)
    blobs[name] = packed
    return name


def unpack(data: bytes) -> Held:
    """The payload of its stored bytes. Raises pydantic's ValidationError on what is none."""
    return _PAYLOAD.validate_json(data)


def blobs_of(payload: Held) -> tuple[str, ...]:
    """The digests that a payload names: of bytes, or of a collection of its items' payloads."""
    match payload:
        case Binary():
            return (payload.sha256,)
        case Files():
            return tuple(payload.files.values())
        case Patch():
            return tuple(payload.written.values())
        case Collection():
            return tuple(name for _, name in payload.items)
        case Data():
            return tuple(payload.documents.values())


def held(value: Any) -> tuple[Data | Binary | Files, dict[str, bytes]]:
    """What stores a value, with the blobs that it names and that are not stored yet: a file that is no text, a mapping of path to
    what files hold (where one of them is no text), or JSON data.

    Raises TypeError, when it is packed, for data that holds such a file elsewhere.
    """
    if isinstance(value, BinaryFile):
        return (Binary(sha256=value.sha256, size=value.size, media_type=value.media_type, name=value.name),
                {} if value.stored else {value.sha256: value.load()})
    if isinstance(value, Mapping) and any(isinstance(one, BinaryFile) for one in value.values()) \
            and all(isinstance(one, str | BinaryFile) for one in value.values()):
        names, blobs = packed(dict(value))
        return Files(files=names), blobs
    return Data(value=value), {}
