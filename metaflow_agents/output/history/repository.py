"""`.git` of a run's folder: what stands in it, and how it is brought to a new last commit.

Files are renamed into their places, the branch's last of all, so that a process killed at any moment leaves the old
history or the new one. Nothing is synced, as everywhere in the folder: the journal is, and a repository that a power cut
damaged is made whole from it. No hook is run and no configuration read.
Source: https://git-scm.com/docs/gitrepository-layout
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from dulwich.index import IndexEntry, write_index_dict
from dulwich.object_format import SHA1
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, ObjectID
from dulwich.objects import Commit as GitCommit
from dulwich.pack import SHA1Writer, load_pack_index

from metaflow_agents.output.history.objects import FILE

BRANCH = "refs/heads/main"
KEPT = "refs/heads/before-"
"""What somebody committed on the run's branch stays on a branch of this name, with the beginning of its id."""
_PARTIAL = "sop-part"
_PART = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tautocrlf = false\n"
_VERSION = re.compile(rb"repositoryformatversion\s*=\s*\d")
_ID = re.compile(rb"[0-9a-f]{40}")
_BLOCK = 1 << 20
_CACHES = ("objects/pack/multi-pack-index", "objects/info/commit-graph")


class Repository:
    """The repository of one run's folder. Raises OSError where the disk refuses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.git = folder, folder / ".git"
        self.packs = self.git / "objects" / "pack"
        self._new = False                       # made by this process a moment ago: nothing of anybody's can be in it

    def lay_out(self) -> None:
        """Makes what a repository needs. A pack whose index a killed process did not come to is cleared away."""
        try:
            os.mkdir(self.git)
        except (FileNotFoundError, FileExistsError):            # nor is there a folder; or there is one, and maybe a link
            self._complete()
        else:
            self._new = True
            for part in ("objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags"):
                os.mkdir(f"{self.git}/{part}")
        if self._new or not _VERSION.search(self._read("config")):          # not there, or cut short by a power cut
            self._put("config", _CONFIG.encode())

    def _complete(self) -> None:
        """What is missing of one that is there."""
        for part in ("", "objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags", "damaged"):
            if (self.git / part).is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        for part in ("objects/pack", "objects/info", "refs/heads", "refs/tags"):
            (self.git / part).mkdir(parents=True, exist_ok=True)
        for pack in self.packs.glob("pack-*.pack"):
            if not pack.with_suffix(".idx").exists():
                pack.unlink()

    def known(self) -> set[ObjectID]:
        """The ids of all objects in packs that are sound. One that is not is laid aside, in `.git/damaged`."""
        found: set[ObjectID] = set()
        if self._new:
            return found
        for index in sorted(self.packs.glob("pack-*.idx")):
            if _is_sound(index):
                with closing(load_pack_index(str(index), SHA1)) as entries:
                    found.update(entries)
            else:
                self._lay_aside(index)
        return found

    def main(self) -> ObjectID | None:
        """The last commit of the run's branch; None where there is none, or what stands there is no commit's id."""
        return self._resolved(BRANCH)

    def head(self) -> str:
        """What `HEAD` says: `ref: refs/heads/main`, or a commit's id; nothing where it is missing."""
        return self._read("HEAD").decode("ascii", "replace").strip()

    def commit(self, name: ObjectID) -> GitCommit | None:
        """A commit, packed or not; None where it can't be read."""
        store = DiskObjectStore(str(self.git / "objects"))
        try:
            found = store[name]
        except Exception:                       # whatever is wrong with the file of somebody's commit: it can't be read
            return None
        finally:
            store.close()
        return found if isinstance(found, GitCommit) else None

    def last(self, most: int) -> Iterator[tuple[str, str]]:
        """Id and message of the last commits of the run's branch, the latest first, along their first parents, as far as they can
        be read.
        """
        name = self.main()
        for _ in range(most):
            commit = None if name is None else self.commit(name)
            if name is None or commit is None:
                return
            yield name.decode(), commit.message.decode("utf-8", "replace")
            name = commit.parents[0] if commit.parents else None

    def strangers(self, own: Collection[ObjectID]) -> list[ObjectID]:
        """Commits that are not the run's `own`, where its branch or a detached `HEAD` stands, and that can be read."""
        if self._new:
            return []
        heads = (self.main(), self._id(self.head().encode()))
        return [name for name in dict.fromkeys(heads) if name is not None and name not in own and self.commit(name) is not None]

    def keep(self, name: ObjectID) -> str:
        """A branch for somebody's commit. Returns its name."""
        kept = f"{KEPT}{name.decode()[:12]}"
        self._put(kept, name + b"\n")
        return kept.removeprefix("refs/heads/")

    def kept(self) -> list[str]:
        """The branches that `keep` made."""
        own = (path.name for path in (self.git / KEPT).parent.glob(f"{KEPT.rpartition('/')[2]}*"))
        packed = (ref.removeprefix("refs/heads/") for ref, _ in self._packed() if ref.startswith(KEPT))
        return sorted({*own, *packed})

    def point(self, tip: ObjectID, files: Iterable[tuple[str, ObjectID]], *, check_out: bool) -> None:
        """Makes `tip` the branch's last commit; with `check_out` the branch is the one in use, its index as its files."""
        if check_out:
            self._put("HEAD", f"ref: {BRANCH}\n".encode())
            self._write_index(files)
        if self._new or self.main() != tip:
            self._put(BRANCH, tip + b"\n")

    def _write_index(self, files: Iterable[tuple[str, ObjectID]]) -> None:
        entries = {path.encode(): _entry(self.folder / path, blob) for path, blob in files}

        def write(path: Path) -> None:
            with open(os.open(path, _PART, 0o644), "wb") as file:
                signed = SHA1Writer(file)
                write_index_dict(signed, entries, version=2)
                signed.write_sha()

        self._place("index", write)

    def _put(self, name: str, data: bytes) -> None:
        def write(path: Path) -> None:
            with open(os.open(path, _PART, 0o644), "wb") as file:
                file.write(data)

        self._place(name, write)

    def _place(self, name: str, write: Callable[[Path], None]) -> None:
        partial = self.git / _PARTIAL
        try:
            try:
                write(partial)
            except FileExistsError:             # of a process that was killed in between
                partial.unlink()
                write(partial)
            os.replace(partial, self.git / name)
        except OSError:
            with suppress(OSError):     # the first error is told; a leftover is cleared away next time
                partial.unlink()
            raise

    def _read(self, name: str) -> bytes:
        try:
            return (self.git / name).read_bytes()
        except FileNotFoundError:
            return b""

    def _resolved(self, ref: str) -> ObjectID | None:
        """What a branch stands at: its own file comes before the list of packed ones."""
        own = self._read(ref).strip()
        return self._id(own or dict(self._packed()).get(ref, b""))

    def _packed(self) -> Iterator[tuple[str, bytes]]:
        for line in self._read("packed-refs").splitlines():
            name, _, ref = line.partition(b" ")
            yield ref.decode("utf-8", "replace"), name

    def _id(self, written: bytes) -> ObjectID | None:
        return ObjectID(written) if _ID.fullmatch(written) else None

    def _lay_aside(self, index: Path) -> None:
        aside = self.git / "damaged"
        aside.mkdir(exist_ok=True)
        for path in self.packs.glob(f"{index.stem}.*"):
            os.replace(path, aside / path.name)
        for cache in _CACHES:                   # git makes them anew; they would name objects that are gone
            (self.git / cache).unlink(missing_ok=True)


def _is_sound(index: Path) -> bool:
    """Whether an index and its pack belong together and are whole: each ends in the SHA-1 of all that comes before."""
    pack = index.with_suffix(".pack")
    if not pack.exists():
        return False
    of_index, of_pack = _ending(index), _ending(pack)
    return of_index is not None and of_pack is not None and of_index[0] == of_pack[1]


def _ending(path: Path) -> tuple[bytes, bytes] | None:
    """The last two checksums of a file (an index ends in its pack's and its own); None where its own is not right."""
    size = path.stat().st_size
    hashed = hashlib.sha1()
    with open(path, "rb") as file:
        while part := file.read(min(_BLOCK, max(size - 20 - file.tell(), 0))):
            hashed.update(part)
        if hashed.digest() != file.read():
            return None
        file.seek(size - 40)
        return file.read(20), hashed.digest()


def _entry(path: Path, blob: ObjectID) -> IndexEntry:
    """A file's line of the index. Where the file is as it was committed git need not read it again."""
    unlike = IndexEntry(ctime=0, mtime=0, dev=0, ino=0, mode=FILE, uid=0, gid=0, size=0, sha=blob)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or Blob.from_string(file.read()).id != blob:
                return unlike
    except OSError:                             # not there, or no file: that is for `git status` to tell
        return unlike
    small = 0xFFFFFFFF                          # the index keeps the low 32 bits of these
    return IndexEntry(ctime=divmod(found.st_ctime_ns, 10**9), mtime=divmod(found.st_mtime_ns, 10**9), dev=found.st_dev & small,
                      ino=found.st_ino & small, mode=FILE, uid=found.st_uid, gid=found.st_gid, size=found.st_size & small,
                      sha=blob)
