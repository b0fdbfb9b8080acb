"""Where a user of the product sits: a folder with the samples, a home, and one command at a time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PATIENCE, ENDS = 20.0, 6.0
"""Seconds that a command has, or a server until it listens; and that it has to end when it is told to."""
LARGEST = 64 << 20
"""Bytes of a file that a command may write, and may print: nothing here needs a hundredth of it."""
QUIET = 64 << 10
"""Bytes that a program prints while it waits."""


@dataclass(frozen=True, slots=True)
class ProbeRan:
    """What came of a command. `code` is None where it did not end by itself; `where`: the folder that it ended in; `ports`:
    (address, port) that it listens on, where it was left running; `waited`: it printed little, and ended at Ctrl-C.
    """

    code: int | None
    out: str
    err: str
    where: Path
    ports: frozenset[tuple[str, int]] = frozenset()
    waited: bool = False


class ProbeDesk:
    """In `place`, with the programs in `prefix` and their modules in `site`."""

    def __init__(self, place: Path, prefix: Path, site: Path) -> None:
        self.place, self.folder, self._home = place, place / "desk", place / "home"
        for made in (self.folder, self._home, place / "tmp"):
            made.mkdir(parents=True)
        self.tools, self._from = (prefix, site), self.folder
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, text: str, where: Path, **changed: str) -> ProbeRan:
        """A command in a folder. It is left running if it listens, else killed at its time."""
        self.kill()
        ended = self.place / "ended"
        ended.unlink(missing_ok=True)
        with (self.place / "out").open("wb") as out, (self.place / "err").open("wb") as err:
            process = self._process = subprocess.Popen(
                ["bash", "-c", f"trap 'pwd >{ended}' EXIT\n{text}"], cwd=where, env=self._env() | changed,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, preexec_fn=_limited)
        ports = self._awaited(process)
        endless = any((self.place / name).stat().st_size >= LARGEST for name in ("out", "err"))
        code, waited = None if endless else process.poll(), False
        if process.poll() is None and not ports:
            waited = sum(self.printed()) < QUIET and self.end(signal.SIGINT, 2.0)
            self.kill()
        with contextlib.suppress(OSError):
            found = Path(ended.read_text("utf-8").strip() or ".").resolve()
            where = found if found.is_dir() and found.is_relative_to(self.place) else where
        return ProbeRan(code, *self.said(), where, ports, waited)

    def _awaited(self, process: subprocess.Popen[bytes]) -> frozenset[tuple[str, int]]:
        """What it listens on, as soon as it does; nothing where it ends, or its time does."""
        begun = time.monotonic()
        while process.poll() is None and time.monotonic() - begun < PATIENCE:
            time.sleep(0.05)
            if time.monotonic() - begun > 0.4 and (ports := listening(process.pid)):
                time.sleep(0.3)                                 # what it prints when it has begun to listen
                return ports if process.poll() is None else frozenset()
        return frozenset()

    def _env(self) -> dict[str, str]:
        prefix, site = self.tools
        return {"PATH": f"{prefix / 'bin'}:{os.environ.get('PATH', '')}", "PYTHONPATH": str(site), "HOME": str(self._home),
                "TMPDIR": str(self.place / "tmp"), "LANG": "C.UTF-8", "COLUMNS": "100", "TERM": "xterm", "PYTHONUNBUFFERED": "1",
                "PYTHONDONTWRITEBYTECODE": "1", "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}

    def end(self, number: signal.Signals, seconds: float = ENDS) -> bool:
        """Tells all that still runs to end; whether it does, in its time."""
        process = self._process
        if process is None:
            return True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        over = time.monotonic() + seconds
        while (members := _members(process.pid)) and time.monotonic() < over:
            process.poll()                                      # the shell is waited for, else it stays as a zombie
            time.sleep(0.05)
        return not members

    def kill(self) -> None:
        """Ends all that the last command started."""
        if self._process is None:
            return
        for one in [self._process.pid, *(int(path.name) for path in _members(self._process.pid))]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()

    def said(self, since: tuple[int, int] = (0, 0)) -> tuple[str, str]:
        """What the last command has printed, at most a megabyte of each; `since`: the bytes from which on."""
        out, err = ((self.place / name).read_bytes()[begin:begin + (1 << 20)].decode("utf-8", "replace")
                    for name, begin in zip(("out", "err"), since, strict=True))
        return out, err

    def printed(self) -> tuple[int, int]:
        """How many bytes the last command has printed, of each."""
        return (self.place / "out").stat().st_size, (self.place / "err").stat().st_size

    def sizes(self) -> dict[Path, int]:
        """The files of the user, where commands run and at home, each with its bytes."""
        found = {}
        for path in self._files():
            with contextlib.suppress(OSError):                  # a server may just have replaced it
                found[path] = path.stat().st_size
        return found

    def contents(self) -> dict[str, bytes]:
        """The same files by their path at this desk, each with a digest."""
        found = {}
        for path in self._files():
            with contextlib.suppress(OSError):
                found[str(path.relative_to(self.place))] = hashlib.blake2b(path.read_bytes()).digest()
        return found

    def _files(self) -> Iterator[Path]:
        for folder in (self.folder, self._home, self.place / "tmp"):
            for at, _, names in os.walk(folder):
                yield from (path for name in names if (path := Path(at, name)).is_file() and not path.is_symlink())

    @contextlib.contextmanager
    def copied(self) -> Iterator[ProbeDesk]:
        """A desk with the same files and the same home, on which what is tried changes nothing here."""
        self.kill()
        place = Path(tempfile.mkdtemp(dir=self.place.parent))
        desk = ProbeDesk(place / "again", *self.tools)
        try:
            _copy(self.folder, desk.folder)
            _copy(self._home, desk._home)
            desk._from = self.folder
            yield desk
        finally:
            desk.kill()
            shutil.rmtree(place, ignore_errors=True)

    def take(self, samples: Path) -> None:
        """Lays out the samples, `examples/` of this folder."""
        _copy(samples, self.folder)

    def there(self, path: Path) -> Path:
        """Where this desk has what lies at `path` on the one that it is copied from."""
        return self.folder / path.relative_to(self._from) if path.is_relative_to(self._from) else self.folder


def _copy(mine: Path, its: Path) -> None:
    """Plain files and folders alone: sockets, pipes and what vanishes meanwhile are left out."""
    for at, folders, names in os.walk(mine):
        for name in folders:
            (its / Path(at).relative_to(mine) / name).mkdir(exist_ok=True)
        for name in names:
            path = Path(at, name)
            with contextlib.suppress(OSError):
                if path.is_file():
                    shutil.copy2(path, its / path.relative_to(mine), follow_symlinks=False)


def can_listen() -> bool:
    """Whether a program may listen here at all: some sandboxes refuse it."""
    try:
        with socket.socket() as line:
            line.bind(("127.0.0.1", 0))
            line.listen()
    except OSError:
        return False
    return True


def listening(session: int) -> frozenset[tuple[str, int]]:
    """(address, port) that the processes of a session listen on, by the kernel's tables; `everywhere` is all addresses."""
    owned: set[str] = set()
    for one in _members(session):
        with contextlib.suppress(OSError):
            owned |= {link[8:-1] for fd in (one / "fd").iterdir() if (link := os.readlink(fd)).startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                parts = line.split()
                where, _, port = parts[1].partition(":")
                if parts[3] == "0A" and parts[9] in owned:
                    address = "everywhere" if not where.strip("0") else "::1" if table == "tcp6" else "127.0.0.1"
                    found.add((address, int(port, 16)))
    return frozenset(found)


def _members(session: int) -> list[Path]:
    """The processes of a session that are not over, as their folders in `/proc`."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(one.name)) == session and (one / "stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z":
                found.append(one)
    return found


def _limited() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)                # a shell's background job has Ctrl-C ignored, and hands that down
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = LARGEST if hard == resource.RLIM_INFINITY else min(LARGEST, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
