"""Where each part of a loaded SOP was written, whichever file it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from metaflow_agents.sop.document import Document

Path = tuple[str | int, ...]


class Spot(NamedTuple):
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Overlay:
    """What lies under `prefix` in the SOP may be written under `root` of another document (or of the same one)."""

    prefix: Path
    document: Document
    root: Path = ()


class Places:
    """The way from a path in the merged SOP, such as `("roles", "engineer", "goal")`, to where it was written.

    The SOP's own file wins, then overlays in their order: a role's file, a schema file, `defaults`. A path that is
    written nowhere has the place of its nearest ancestor.
    """

    def __init__(self, entry: Document, overlays: tuple[Overlay, ...] = (), templates: dict[str, str] | None = None) -> None:
        self._entry, self._templates = entry, dict(templates or {})
        self._overlays: dict[Path, list[Overlay]] = {}
        for overlay in overlays:
            self._overlays.setdefault(overlay.prefix, []).append(overlay)

    def at(self, path: Path, *, key: bool = False) -> Spot:
        """Where a value begins, or its key."""
        document, inner = self._written(path)
        return Spot(document.file, *(document.key_at(*inner) if key else document.at(*inner)))

    def inside(self, path: Path, line: int, column: int) -> Spot:
        """The place in the file of a 1-based place inside the text of a scalar."""
        document, inner = self._written(path)
        return Spot(document.file, *document.inside(inner, line, column))

    def template(self, name: str, line: int, column: int) -> Spot:
        """A place inside a template that was read."""
        return Spot(self._templates.get(name, name), line, column)

    def comment_after(self, path: Path) -> str | None:
        """The comment directly behind a plain scalar: what ` #` cut off, if it cut."""
        document, inner = self._written(path)
        return document.comment_after(*inner)

    def flow(self, path: Path) -> bool:
        """Whether the scalar stands unquoted inside `{…}` or `[…]`, where a comma or bracket ends it."""
        document, inner = self._written(path)
        return document.flow(*inner)

    def bare(self, path: Path) -> bool:
        """Whether the key has neither `:` nor value: what a cut at a comma leaves."""
        document, inner = self._written(path)
        return document.bare(*inner)

    def _written(self, path: Path) -> tuple[Document, Path]:
        found, best = (self._entry, path), self._entry.reach(*path)
        for length in range(1, len(path) + 1):
            for overlay in self._overlays.get(path[:length], ()):
                inner = overlay.root + path[length:]
                reach = overlay.document.reach(*inner) - len(overlay.root) + length
                if reach > best:
                    found, best = (overlay.document, inner), reach
        return found
