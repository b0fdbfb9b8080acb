"""Files that are no text, as values: what is known of them, and their bytes where somebody asks.

A file is text where its bytes are UTF-8 and hold no NUL; its value is that text, which encodes to the same bytes again. Any
other file is a `BinaryFile`, and is never decoded: what is shown of it is its name, type and size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from metaflow_agents.schema.media import HEAD, media_type
from metaflow_agents.schema.model import digest

FIELDS = ("name", "media_type", "size", "sha256")
"""What expressions see of such a file."""


class BinaryFile:
    """A file that is no text. `size` in bytes; `sha256` in hex is the name of its bytes in the journal; `load` gives them.
    `stored`: they are in the run's journal already, and need not be written again.

    Two of them are equal where their bytes are.
    """

    __slots__ = ("load", "media_type", "name", "sha256", "size", "stored")

    def __init__(self, name: str, media_type: str, size: int, sha256: str, load: Callable[[], bytes], *,
                 stored: bool = False) -> None:
        self.name, self.media_type, self.size, self.sha256, self.load = name, media_type, size, sha256, load
        self.stored = stored

    def told(self) -> dict[str, Any]:
        """As JSON, for whoever reads and does not need the bytes."""
        return {field: getattr(self, field) for field in FIELDS}

    def __str__(self) -> str:
        return f"[{self.name or 'file'}: {self.media_type}, {self.size:,} bytes, no text]"

    def __repr__(self) -> str:
        return f"BinaryFile({self.name!r}, {self.media_type!r}, {self.size!r}, {self.sha256!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryFile) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)


Content = str | BinaryFile
"""What a file holds, as a value."""


def text_in(data: bytes) -> str | None:
    """The text that the bytes are; None where they are none."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def content(data: bytes, name: str = "", stored: Callable[[], bytes] | None = None) -> Content:
    """What a file holds. `stored` gives the bytes again where the run's journal has them."""
    text = text_in(data)
    if text is not None:
        return text
    return BinaryFile(name, media_type(data[:HEAD], name), len(data), digest(data), stored or (lambda: data),
                      stored=stored is not None)


def data_of(held: Content) -> bytes:
    """The bytes of a file."""
    return held.encode() if isinstance(held, str) else held.load()


def packed(files: Mapping[str, Content]) -> tuple[dict[str, str], dict[str, bytes]]:
    """Files as payloads hold them, path → digest in the order of the paths, and the blobs that are not stored yet."""
    names: dict[str, str] = {}
    blobs: dict[str, bytes] = {}
    for path, held in sorted(files.items()):
        if isinstance(held, BinaryFile):
            names[path] = held.sha256
            if held.stored:
                continue
        data = data_of(held)
        names[path] = digest(data)
        blobs[names[path]] = data
    return names, blobs


def files_in(value: Any) -> Iterator[BinaryFile]:
    """The files that are no text in a value."""
    if isinstance(value, BinaryFile):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from files_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from files_in(inner)


def described(name: str, data: bytes) -> str:
    """Name, type and size of a file that is no text."""
    return f"{name}: {media_type(data[:HEAD], name)}, {len(data):,} bytes"


def _replaced(value: Any, by: Callable[[BinaryFile], Any]) -> Any:
    if isinstance(value, BinaryFile):
        return by(value)
    if isinstance(value, Mapping):
        return {key: _replaced(inner, by) for key, inner in value.items()}
    return [_replaced(inner, by) for inner in value] if isinstance(value, list | tuple) else value


def jsonable(value: Any) -> Any:
    """A value as JSON data: of each file that is no text, what is known of it."""
    return _replaced(value, BinaryFile.told)


def loaded(value: Any) -> Any:
    """A value as a Python program has it: of each file that is no text, its bytes."""
    return _replaced(value, lambda file: file.load())


def announced(value: Any) -> Any:
    """What `loaded` gave, as JSON data: of bytes, what is known of the file that they are."""
    return jsonable(unloaded(value))


def unloaded(value: Any) -> Any:
    """A value that a Python program gave: bytes become what they hold, in a mapping under the name of their key."""
    if isinstance(value, bytes):
        return content(value)
    if isinstance(value, Mapping):
        return {key: content(inner, str(key)) if isinstance(inner, bytes) else unloaded(inner) for key, inner in value.items()}
    return [unloaded(inner) for inner in value] if isinstance(value, list | tuple) else value
