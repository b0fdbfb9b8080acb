"""Artifact values out of the journal: as expressions and templates see them, and as plain data."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from metaflow_agents.prompts import MISSING, CollectionView, FilesView
from metaflow_agents.schema.binary import Content, content
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Binary, Collection, Data, Files, Held, Patch, pack, unpack

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
        self._recent: OrderedDict[str, Held] = OrderedDict()

    def payload(self, digest: str) -> Held:
        """The payload stored under a digest."""
        found = self._recent.get(digest)
        if found is None:
            found = self._recent[digest] = unpack(self._blob(digest))
            if len(self._recent) > _KEPT:
                self._recent.popitem(last=False)
        else:
            self._recent.move_to_end(digest)
        return found

    def versions(self, artifact: str) -> int:
        """How many versions of an artifact there are."""
        return self._state.version(artifact)

    def without_documents(self, digest_: str) -> str:
        """The digest that a payload has without its documents: by it they are no part of what a role or a function read."""
        payload = self.payload(digest_)
        return digest(pack(payload.alone)) if isinstance(payload, Data) and payload.documents else digest_

    def payload_at(self, artifact: str, version: int) -> Held | None:
        """The payload of one version of an artifact; None for version 0."""
        found = self._state.payload(artifact, version) if version else None
        return None if found is None else self.payload(found)

    def text(self, digest: str) -> str:
        """What was said to a model or by it: a request, a prompt, an answer."""
        return self._blob(digest).decode()

    def content(self, digest: str, name: str) -> Content:
        """What a file of that name holds: its text, or the file that is none."""
        return content(self._blob(digest), name, lambda: self._blob(digest))

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
            case Binary():
                return payload.value(self._blob)
            case Files():
                return FilesView(payload.files, lambda path: self.content(payload.files[path], path), payload.missing)
            case Patch():
                return FilesView(payload.written, lambda path: self.content(payload.written[path], path))
            case Collection():
                return CollectionView({key: self.view(item) for key, item in payload.items}, missing=payload.missing)

    def at(self, artifact: str, version: int) -> Any:
        """The value of one version of an artifact; MISSING for version 0."""
        return self.view(self._state.payload(artifact, version) if version else None)

    def latest(self, artifact: str) -> Any:
        """The value of an artifact's latest version; MISSING where there is none."""
        return self.view(self._state.payload(artifact))

    def plain(self, digest: str) -> Any:
        """The value, for files path → what the file holds, for a collection key → value: JSON data, but for files that are no
        text (`schema/binary.py`).
        """
        view = self.view(digest)
        return dict(view) if isinstance(view, FilesView | CollectionView) else view
