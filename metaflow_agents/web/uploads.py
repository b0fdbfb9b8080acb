"""What is uploaded for inputs: `WORKSPACE/.uploads/FOLDER/NAME`. The server makes the folders' names; what lies there for a day
goes when the next server starts: a run keeps what it was given in its journal.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from metaflow_agents.errors import UsageError
from metaflow_agents.schema import paths
from metaflow_agents.web.places import UPLOADS

_BATCH = re.compile(r"[A-Za-z0-9]{1,64}")
_BATCHES = 64                       # folders that are being filled at once
_FILES = 10_000                     # in one folder
_BYTES = 256 << 20
_OLD = 24 * 3600.0                  # seconds
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class Uploads:
    """Any thread may call it. A batch is a folder that a page fills file by file."""

    def __init__(self, workspace: Path) -> None:
        self._folder = workspace / UPLOADS
        self._batches: OrderedDict[str, tuple[Path, int, int]] = OrderedDict()      # → folder, files, bytes
        self._lock = Lock()

    def put(self, name: str, data: bytes, batch: str = "") -> tuple[Path, Path]:
        """The file that holds what was uploaded, and its folder. `name` is a path in it, as paths in a run may be.

        Raises UsageError for such a name, and for a batch that grows too large.
        """
        if why := paths.refusal(name):
            raise UsageError(f"{name!r:.200} can't be uploaded: {why}")
        if batch and not _BATCH.fullmatch(batch):
            raise UsageError(f"the batch {batch!r:.80} is none: letters and digits name one, 64 at most")
        with self._lock:
            folder = self._room(batch, len(data))
        file = folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(file, _NEW, 0o600)
        except FileExistsError:
            raise UsageError(f"{name!r:.200} was uploaded already") from None
        with open(descriptor, "wb") as stream:
            stream.write(data)
        return file, folder

    def _room(self, batch: str, size: int) -> Path:
        folder, files, held = self._batches.get(batch, (None, 0, 0)) if batch else (None, 0, 0)
        if files >= _FILES or held + size > _BYTES:
            raise UsageError(f"a folder that is uploaded has {_FILES:,} files and {_BYTES >> 20} MB at most: start `sop ui` in a "
                             "folder above it, and name its path")
        if folder is None:
            folder = self._folder / secrets.token_hex(8)
            folder.mkdir(mode=0o700, parents=True)
        if batch:
            self._batches[batch] = folder, files + 1, held + size
            if len(self._batches) > _BATCHES:
                self._batches.popitem(last=False)
        return folder

    def sweep(self) -> None:
        """Removes what was uploaded long ago."""
        for folder in self._folder.glob("*"):
            if folder.is_dir() and not folder.is_symlink() and folder.stat().st_mtime < time.time() - _OLD:
                shutil.rmtree(folder, ignore_errors=True)
