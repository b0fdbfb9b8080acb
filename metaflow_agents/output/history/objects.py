"""Blobs, trees and commits, and the one pack that takes those which a repository lacks.

Every object is worked out each time, and its id decides whether it is written: what a repository holds is verified by
that, never trusted. Only folders on the way to a changed file become new trees, and a blob is hashed once.
Source: https://git-scm.com/docs/gitformat-pack
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO

from dulwich.object_format import SHA1
from dulwich.objects import Blob, ObjectID, ShaFile, Tree, object_header
from dulwich.objects import Commit as GitCommit
from dulwich.pack import pack_header_chunks, pack_object_header, write_pack_index

from metaflow_agents.errors import RunError
from metaflow_agents.journal.tree import Leaf
from metaflow_agents.output.history.plan import Commit
from metaflow_agents.output.history.wording import FRAMEWORK

FILE, FOLDER = 0o100644, 0o040000
TEMPORARY = ("tmp_pack_sop", "tmp_idx_sop")
"""Names of a pack in the making. git leaves `tmp_` files alone while they are young and clears them away later."""
_LEVEL = 1
_SMALL = 1 << 31                    # bytes of a pack, from which on an index holds some offsets in another table


class Packer:
    """Objects on their way into one pack; those that are `known` are left out. Nothing is made where none is new.

    A context manager: what is not finished leaves nothing behind, and what a killed process left is gone at the end too.
    """

    def __init__(self, folder: Path, known: Container[bytes]) -> None:
        self._folder, self._known = folder, known
        self._pack, self._index = (folder / name for name in TEMPORARY)
        self._file: IO[bytes] | None = None
        self._entries: dict[bytes, tuple[int, int]] = {}        # id → offset in the pack, CRC-32 of its bytes there

    def __enter__(self) -> Packer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        for path in (self._pack, self._index):
            path.unlink(missing_ok=True)

    def add(self, made: ShaFile) -> ObjectID:
        """An object; its id (40 hexadecimal digits)."""
        # Serialized, hashed and compressed in one piece: `made.id` and dulwich's own writer go over it five times.
        data = made.as_raw_string()
        name = ObjectID(hashlib.sha1(object_header(made.type_num, len(data)) + data).hexdigest().encode())
        if name not in self._known and name not in self._entries:
            if self._file is None:
                self._file = open(self._pack, "wb")
                self._file.write(b"".join(pack_header_chunks(0)))           # how many there are is known at the end
            self._entries[name] = self._file.tell(), write_object(self._file.write, made.type_num, data)
        return name

    def finish(self) -> int:
        """Puts the pack in its place, whole: its objects are there once its index is. Returns how many were new."""
        if self._file is None:
            return 0
        self._file.seek(0)
        self._file.write(b"".join(pack_header_chunks(len(self._entries))))
        self._file.close()
        with open(self._pack, "r+b") as file:
            checksum = hashlib.file_digest(file, "sha1").digest()
            size = file.seek(0, os.SEEK_END)
            file.write(checksum)
        with open(self._index, "wb") as file:
            entries = sorted((bytes.fromhex(name.decode()), *place) for name, place in self._entries.items())
            if size < _SMALL:
                file.write(small_index(entries, checksum))
            else:
                write_pack_index(file, entries, checksum)
        name = f"pack-{checksum.hex()}"
        os.replace(self._pack, self._folder / f"{name}.pack")
        os.replace(self._index, self._folder / f"{name}.idx")
        return len(self._entries)


class Chain:
    """Commits as git has them, each on the one before, over one tree of files that they change."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._blobs: dict[str, ObjectID] = {}                   # the journal's digest → git's id
        self._folders: dict[str, dict[bytes, tuple[int, ObjectID]]] = {"": {}}     # folder → name → mode, id
        self._root: ObjectID | None = None
        self.ids: dict[ObjectID, int] = {}                      # of the commits, oldest first → the event it comes from

    @property
    def tip(self) -> ObjectID:
        """The last commit. Raises StopIteration where there is none yet."""
        return next(reversed(self.ids))

    def add(self, commit: Commit) -> None:
        """One more commit. Raises RunError where a path would be a file and a folder at once."""
        self._change(commit.written, commit.deleted)
        if self._root is None:                                  # nothing was made yet
            self._root = self._packer.add(Tree())
        made = GitCommit()
        made.tree, made.parents = self._root, [self.tip] if self.ids else []
        made.author, made.committer = commit.author.encode(), FRAMEWORK.encode()
        made.author_time = made.commit_time = int(commit.at)
        made.author_timezone = made.commit_timezone = 0
        made.message = commit.message.encode()
        self.ids[self._packer.add(made)] = commit.seq

    def files(self) -> Iterator[tuple[str, ObjectID]]:
        """Path and id of every file of the last commit."""
        for folder, entries in self._folders.items():
            for name, (mode, blob) in entries.items():
                if mode == FILE:
                    yield _joined(folder, name), blob

    def _change(self, written: Mapping[str, Leaf], deleted: frozenset[str]) -> None:
        changed: set[str] = set()
        for path in sorted(deleted):
            changed |= self._delete(path)
        for path, leaf in sorted(written.items()):
            changed |= self._write(path, leaf)
        while changed:                                          # deepest first: a tree names those below it
            folder = max(changed, key=_depth)
            changed.remove(folder)
            if folder not in self._folders:
                continue
            tree = Tree()
            for name, (mode, entry) in self._folders[folder].items():
                tree.add(name, mode, entry)
            made = self._packer.add(tree)
            if folder == "":
                self._root = made
                return
            above, _, last = folder.rpartition("/")
            self._folders[above][last.encode()] = FOLDER, made
            changed.add(above)

    def _delete(self, path: str) -> set[str]:
        folder, _, name = path.rpartition("/")
        del self._folders[folder][name.encode()]
        while folder and not self._folders[folder]:
            del self._folders[folder]
            folder, _, name = folder.rpartition("/")
            del self._folders[folder][name.encode()]
        return {folder}

    def _write(self, path: str, leaf: Leaf) -> set[str]:
        if path in self._folders:
            raise RunError(f"`{path}` can't be a file and a folder: files of the run lie in it")
        folder, _, name = path.rpartition("/")
        self._make(folder, path)
        if leaf.digest not in self._blobs:
            self._blobs[leaf.digest] = self._packer.add(Blob.from_string(leaf.load()))
        self._folders[folder][name.encode()] = FILE, self._blobs[leaf.digest]
        return {folder}

    def _make(self, folder: str, path: str) -> None:
        while folder not in self._folders:
            self._folders[folder] = {}
            folder, _, name = folder.rpartition("/")
            if self._folders.get(folder, {}).get(name.encode(), (FOLDER, b""))[0] == FILE:
                raise RunError(f"`{_joined(folder, name.encode())}` can't be a file and the folder of `{path}`")


def write_object(to: Callable[[bytes], int], kind: int, data: bytes) -> int:
    """Writes one object as a pack holds it. Returns the CRC-32 of that."""
    packed = bytes(pack_object_header(kind, None, len(data), SHA1)) + zlib.compress(data, _LEVEL)
    to(packed)
    return zlib.crc32(packed)


def small_index(entries: Sequence[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    """The index of a pack below 2 GB, version 2, in one piece. `entries`: id (20 bytes), offset, CRC-32, sorted by id."""
    fan, count = [0] * 256, len(entries)
    for name, _, _ in entries:
        fan[name[0]] += 1
    body = b"".join((b"\xfftOc", struct.pack(">257I", 2, *accumulate(fan)), *(name for name, _, _ in entries),
                     struct.pack(f">{count}I", *(crc for _, _, crc in entries)),
                     struct.pack(f">{count}I", *(offset for _, offset, _ in entries)), checksum))
    return body + hashlib.sha1(body).digest()


def _joined(folder: str, name: bytes) -> str:
    return f"{folder}/{name.decode()}" if folder else name.decode()


def _depth(folder: str) -> int:
    return folder.count("/") + 1 if folder else 0
