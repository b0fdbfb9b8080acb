"""The files of an activation, as a Python function that is a tool sees and changes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping


class RunFiles(MutableMapping[str, bytes]):
    """Path → bytes: what the step reads, and over it what the activation has written. A function that has a parameter of this
    type is given them; the parameter is no part of what roles see. What it sets and deletes counts when it returns, all of it or,
    where it raises or a path is refused, nothing; it is journalled with the call. So what a tool has to remember is an artifact.
    """

    def __init__(self, seen: Mapping[str, bytes]) -> None:
        self._seen = seen
        self._changed: dict[str, bytes | None] = {}

    def __getitem__(self, path: str) -> bytes:
        found = self._changed[path] if path in self._changed else self._seen.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def __setitem__(self, path: str, data: bytes) -> None:
        if not isinstance(path, str) or not isinstance(data, bytes):
            raise TypeError(f"a file is a path and bytes, not {type(path).__name__} and {type(data).__name__}: `text.encode()`")
        self._changed[path] = data

    def __delitem__(self, path: str) -> None:
        if path not in self:
            raise KeyError(path)
        self._changed[path] = None

    def __iter__(self) -> Iterator[str]:
        yield from sorted(path for path in {**self._seen, **self._changed} if self._changed.get(path, b"") is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def written(self) -> dict[str, bytes]:
        """What it holds now that it did not hold before."""
        return {path: data for path, data in self._changed.items() if data is not None and data != self._seen.get(path)}

    @property
    def deleted(self) -> tuple[str, ...]:
        """Paths that were there and are gone."""
        return tuple(path for path, data in self._changed.items() if data is None and path in self._seen)
