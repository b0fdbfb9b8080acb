"""Artifact values out of the journal: as expressions and templates see them, and as plain data."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from metaflow_agents.prompts import MISSING, CollectionView, FilesView
from metaflow_agents.schema.payload import Collection, Data, Files, Patch, unpack

_KEPT = 64


class Versions(Protocol):
    """Who knows the versions of artifacts: `RunState`, and a run in outline."""

    def version(self, artifact: str) -> int:
        """Number of the latest version; 0 where there is none."""
        ...

    def payload(self, artifact: str, version: int | None = None) -> str | None:
        """Digest of a version's payload (by default the latest); None where there is none."""
        ...


class Values:
    """Reads payloads by digest; the last few stay at hand, so that a long run holds no more than a short one."""

    def __init__(self, blob: Callable[[str], bytes], state: Versions) -> None:
        self._blob, self._state = blob, state
        self._recent: OrderedDict[str, Data | Files | Patch | Collection] = OrderedDict()

    def payload(self, digest: str) -> Data | Files | Patch | Collection:
        """The payload stored under a digest."""
        found = self._recent.get(digest)
        if found is None:
            found = self._recent[digest] = unpack(self._blob(digest))
            if len(self._recent) > _KEPT:
                self._recent.popitem(last=False)
        else:
            self._recent.move_to_end(digest)
        return found

    def payload_at(self, artifact: str, version: int) -> Data | Files | Patch | Collection | None:
        """The payload of one version of an artifact; None for version 0."""
        found = self._state.payload(artifact, version) if version else None
        return None if found is None else self.payload(found)

    def text(self, digest: str) -> str:
        """A file's text; bytes that are no UTF-8 show as replacement characters."""
        return self._blob(digest).decode("utf-8", "replace")

    def data(self, digest: str) -> bytes:
        """A file's bytes."""
        return self._blob(digest)

    def view(self, digest: str | None) -> Any:
        """The value as expressions see it: data, `FilesView`, `CollectionView`; MISSING for None."""
        if digest is None:
            return MISSING
        payload = self.payload(digest)
        match payload:
            case Data():
                return payload.value
            case Files():
                return FilesView(payload.files, load=lambda path: self.text(payload.files[path]), missing=payload.missing,
                                 data=lambda path: self.data(payload.files[path]))
            case Patch():
                return FilesView(payload.written, load=lambda path: self.text(payload.written[path]), missing=())
            case Collection():
                return CollectionView({key: self.view(item) for key, item in payload.items}, missing=payload.missing)

    def at(self, artifact: str, version: int) -> Any:
        """The value of one version of an artifact; MISSING for version 0."""
        return self.view(self._state.payload(artifact, version) if version else None)

    def latest(self, artifact: str) -> Any:
        """The value of an artifact's latest version; MISSING where there is none."""
        return self.view(self._state.payload(artifact))

    def plain(self, digest: str) -> Any:
        """JSON data: the value, for files path → text, for a collection key → value."""
        view = self.view(digest)
        return dict(view) if isinstance(view, FilesView | CollectionView) else view
