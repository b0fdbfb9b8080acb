"""The values that expressions and templates see beside plain JSON data: what is missing, files, collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jinja2.runtime import Undefined
from jinja2.utils import missing as _not_given

from metaflow_agents.errors import ExpressionError
from metaflow_agents.schema.binary import Content, data_of


class UnknownName(Exception):
    """A name that no scope holds was met while rendering; `rendering` and `expressions` turn it into ExpressionError."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


class Missing(Undefined):
    """The type of `MISSING`, its only instance.

    Jinja2 calls the class wherever it met something undefined. An unknown name raises; all else is MISSING.
    """

    __slots__ = ()

    def __new__(cls, hint: str | None = None, obj: Any = _not_given, name: str | None = None, exc: Any = None) -> Missing:
        """Called by Jinja2 in the place of what is undefined. Raises UnknownName where a name is in no scope."""
        if name is not None and obj is _not_given and not (hint or "").startswith(("parameter ", "No caller")):
            raise UnknownName(name)
        return MISSING

    def __init__(self, hint: str | None = None, obj: Any = None, name: str | None = None, exc: Any = None) -> None:
        """Nothing to keep: MISSING has no state."""

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, value: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "MISSING"

    def __str__(self) -> str:
        raise ExpressionError("what is missing can't be printed; fix: guard it with {% if … %} or `… | default('…')`")

    def __reduce__(self) -> str:
        return "MISSING"

    def __copy__(self) -> Missing:
        return self

    def __deepcopy__(self, memo: Any) -> Missing:
        return self


MISSING: Final[Missing] = object.__new__(Missing)


class FilesView(Mapping[str, Content]):
    """A set of files, path → text, or what is known of a file that is none. They are loaded when they are first read.

    `paths` fix the order. `load(path)` gives what a file holds. `missing` are the keys of items that failed.
    """

    __slots__ = ("_held", "_load", "missing")

    def __init__(self, paths: Iterable[str], load: Callable[[str], Content], missing: Iterable[str] = ()) -> None:
        self._load = load
        self._held: dict[str, Content | None] = dict.fromkeys(paths)
        self.missing: list[str] = list(missing)

    @classmethod
    def of(cls, held: Mapping[str, Content], missing: Iterable[str] = ()) -> FilesView:
        """A view of files that are at hand."""
        return cls(held, held.__getitem__, missing)

    def __getitem__(self, path: str) -> Content:
        held = self._held[path]
        if held is None:
            held = self._held[path] = self._load(path)
        return held

    def as_bytes(self) -> dict[str, bytes]:
        """Path → the file's bytes as they are: of a PDF, say, whose text means nothing."""
        return {path: data_of(self[path]) for path in self._held}

    def __contains__(self, path: object) -> bool:
        return path in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return f"FilesView({list(self._held)!r})"


class CollectionView(Mapping[str, Any]):
    """A collection, key → value, in the order of its list. `missing` are the keys of items that failed."""

    __slots__ = ("_values", "missing")

    def __init__(self, values: Mapping[str, Any], missing: Iterable[str] = ()) -> None:
        self._values = values
        self.missing: list[str] = list(missing)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"CollectionView({dict(self._values)!r})"


def truthy(value: object) -> bool:
    """Whether a condition holds: what is missing, null, false, 0, and what is empty do not."""
    return bool(value)
