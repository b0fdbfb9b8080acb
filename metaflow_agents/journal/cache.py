"""The last blobs that were read or written, bounded by their bytes."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock


class BlobCache:
    """Least recently used goes first. `limit` is in bytes; what alone is larger is not kept. Any thread may use it."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    @property
    def held(self) -> int:
        """Bytes in the cache."""
        return self._held

    def get(self, digest: str) -> bytes | None:
        """The blob, if it is still here."""
        with self._lock:
            data = self._blobs.get(digest)
            if data is not None:
                self._blobs.move_to_end(digest)
            return data

    def put(self, digest: str, data: bytes) -> None:
        """Keeps a blob, at the cost of the oldest."""
        with self._lock:
            if digest in self._blobs:
                self._blobs.move_to_end(digest)
                return
            if len(data) > self._limit:
                return
            self._blobs[digest] = data
            self._held += len(data)
            while self._held > self._limit:
                self._held -= len(self._blobs.popitem(last=False)[1])
