"""The calls of a command without namespaces that the kernel puts to its keeper, to be carried out on the command's own files.

The kernel stops the caller and hands over the numbers that it called with. What they point to is read once, from the caller's
memory; what they name is opened once, without following the caller any further, and has to lie in the command's copy. All
that is done then is done to what was opened, so that nothing that changes meanwhile changes what happens.

Source: seccomp_unotify(2), pidfd_getfd(2), fchmodat2(2), utimensat(2).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from metaflow_agents.sandbox.syscalls import numbers
from metaflow_agents.sandbox.unspaced import ASKED, column

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_QUESTION, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_PIDFD_GETFD, _FCHMODAT2, _UTIMENSAT = 438, 452, (280, 88)
_HERE, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_PATH_BYTES = 4096
_SO_DOMAIN = 39
_CONNECT_SECONDS = struct.pack("=qq", 10, 0)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

Connect = Callable[[socket.socket], int]


class Notified:
    """Answers for one command. `listener`: the descriptor of the filter. `copies`: the folders in which it may change files.
    `proxied`: the address that stands for the proxy, and what connects a socket to it; None: there is no proxy.
    """

    def __init__(self, listener: int, copies: Sequence[str], proxied: tuple[tuple[str, int], Connect] | None = None) -> None:
        self.listener, self._copies, self._proxied = listener, tuple(copies), proxied
        which, _ = column()
        self._utimensat = _UTIMENSAT[which]
        self._names = {number: name for name, number in numbers(ASKED, which).items()}
        self._sending = threading.Lock()

    def answer(self) -> bool:
        """Answer one call that waits; whether there may be more. A call whose process has ended meanwhile needs no answer."""
        question = bytearray(_QUESTION.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, question)
        except OSError as error:
            return error.errno in (errno.EINTR, errno.ENOENT)
        number, pid, _, call, _, _, *arguments = _QUESTION.unpack(question)
        name = self._names.get(call, "")
        if name == "connect":               # which may have to wait for who listens
            threading.Thread(target=self._settle, args=(number, pid, name, arguments), daemon=True).start()
        else:
            self._settle(number, pid, name, arguments)
        return True

    def _settle(self, number: int, pid: int, name: str, arguments: list[int]) -> None:
        try:
            self._done(pid, name, arguments)
            error = 0
        except OSError as fault:
            error = fault.errno or errno.EPERM
        except (ValueError, struct.error):
            error = errno.EINVAL
        with self._sending, suppress(OSError):              # it ended meanwhile
            fcntl.ioctl(self.listener, _SEND, bytearray(_ANSWER.pack(number, 0, -error, 0)))

    def _done(self, pid: int, name: str, arguments: list[int]) -> None:
        first, second, third, fourth = arguments[:4]
        if name == "connect":
            self._connect(pid, first, _memory(pid, second, min(third & 0xFFFF, 256)))
        elif name == "chmod":
            self._mode(pid, _HERE, first, second, 0)
        elif name == "fchmod":
            self._mode(pid, _signed(first), 0, second, _EMPTY_PATH)
        elif name in ("fchmodat", "fchmodat2"):
            self._mode(pid, _signed(first), second, third, fourth if name == "fchmodat2" else 0)
        elif name == "utimensat":
            self._times(pid, _signed(first), second, _memory(pid, third, 32) if third else None, fourth)
        elif name == "utime":
            self._times(pid, _HERE, first, _from_seconds(_memory(pid, second, 16)) if second else None, 0)
        elif name == "utimes":
            self._times(pid, _HERE, first, _from_parts(_memory(pid, second, 32)) if second else None, 0)
        elif name == "futimesat":
            self._times(pid, _signed(first), second, _from_parts(_memory(pid, third, 32)) if third else None, 0)
        else:
            raise OSError(errno.ENOSYS, "no such call is asked about")

    def _mode(self, pid: int, folder: int, path: int, mode: int, flags: int) -> None:
        with self._opened(pid, folder, path, flags) as file:
            _called(_FCHMODAT2, file, b"", mode & 0o7777, _EMPTY_PATH)

    def _times(self, pid: int, folder: int, path: int, times: bytes | None, flags: int) -> None:
        with self._opened(pid, folder, path, flags if path else _EMPTY_PATH) as file:
            _called(self._utimensat, file, b"", None if times is None else ctypes.create_string_buffer(times, 32), _EMPTY_PATH)

    @contextmanager
    def _opened(self, pid: int, folder: int, path: int, flags: int) -> Iterator[int]:
        """What the caller names, as a descriptor that gives no access to it. Raises OSError where it lies elsewhere."""
        named = _text(pid, path) if path else b""
        if not named and not flags & _EMPTY_PATH:
            raise FileNotFoundError(errno.ENOENT, "no path")
        file = _open(pid, folder, named, follow=not flags & _NO_FOLLOW)
        try:
            place = os.readlink(f"/proc/self/fd/{file}")
            if not any(place == copy or place.startswith(f"{copy}/") for copy in self._copies):
                raise PermissionError(errno.EPERM, "it lies outside")
            yield file
        finally:
            os.close(file)

    def _connect(self, pid: int, descriptor: int, address: bytes) -> None:
        family, = struct.unpack_from("=H", address)
        with _taken(pid, descriptor & 0x7FFFFFFF) as theirs:
            if theirs.getsockopt(socket.SOL_SOCKET, _SO_DOMAIN) != family:
                raise OSError(errno.EAFNOSUPPORT, "another family")
            if family == socket.AF_UNIX:
                self._connect_unix(pid, theirs, address[2:])
            elif family == socket.AF_INET and self._proxied is not None:
                port, host = struct.unpack_from("!H4s", address, 2)
                wanted, connect = self._proxied
                if (socket.inet_ntoa(host), port) != wanted:
                    raise OSError(errno.ENETUNREACH, "there is no network but the proxy")
                error = connect(theirs)
                if error:
                    raise OSError(error, os.strerror(error))
            else:
                raise OSError(errno.ENETUNREACH, "there is no network")

    def _connect_unix(self, pid: int, theirs: socket.socket, address: bytes) -> None:
        """To a socket in the copy, which another process of the command made."""
        path = address.split(b"\0", 1)[0]
        if not path:
            raise OSError(errno.ECONNREFUSED, "names without a file are shared with this machine")
        file = _open(pid, _HERE, path, follow=True)
        try:
            place = os.readlink(f"/proc/self/fd/{file}")
            if not any(place.startswith(f"{copy}/") for copy in self._copies) or not stat.S_ISSOCK(os.fstat(file).st_mode):
                raise PermissionError(errno.EACCES, "it lies outside")
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _CONNECT_SECONDS)     # who does not accept keeps nobody
            try:
                theirs.connect(f"/proc/self/fd/{file}")
            finally:
                theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bytes(16))
        finally:
            os.close(file)


def _open(pid: int, folder: int, path: bytes, *, follow: bool) -> int:
    """Opened as the caller would, from where it stands; never for reading or writing."""
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    for alias in (b"/proc/self/", b"/proc/thread-self/"):
        if path.startswith(alias):
            path = b"/proc/%d/" % pid + path[len(alias):]
    if path.startswith(b"/"):
        return os.open(path, flags)
    start = os.open(f"/proc/{pid}/cwd" if folder == _HERE else f"/proc/{pid}/fd/{folder}", os.O_PATH | os.O_CLOEXEC)
    if not path:
        return start
    try:
        return os.open(path, flags, dir_fd=start)
    finally:
        os.close(start)


def _memory(pid: int, address: int, size: int) -> bytes:
    """So many bytes of the caller's memory. Raises OSError where it has none there."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(memory, size, address)
    except (OSError, OverflowError) as error:
        raise OSError(errno.EFAULT, "no such address") from error
    finally:
        os.close(memory)
    if len(data) != size:
        raise OSError(errno.EFAULT, "no such address")
    return data


def _text(pid: int, address: int) -> bytes:
    """The path that stands there: read page by page, as the next one may not exist."""
    found = b""
    while len(found) <= _PATH_BYTES:
        piece = _memory(pid, address + len(found), 256 - (address + len(found)) % 256)
        text, end, _ = piece.partition(b"\0")
        found += text
        if end:
            return found
    raise OSError(errno.ENAMETOOLONG, "too long")


@contextmanager
def _taken(pid: int, descriptor: int) -> Iterator[socket.socket]:
    """A socket of the caller, as one of ours too. Its family is asked from the kernel and not from the caller."""
    leader = next(line.split()[1] for line in Path(f"/proc/{pid}/status").read_bytes().splitlines() if line.startswith(b"Tgid:"))
    handle = os.pidfd_open(int(leader))
    try:
        ours = _called(_PIDFD_GETFD, handle, descriptor, 0)
    finally:
        os.close(handle)
    with socket.socket(fileno=ours) as taken:
        blocking = os.get_blocking(taken.fileno())
        taken.settimeout(None if blocking else 0.0)
        yield taken


def _from_seconds(data: bytes) -> bytes:
    """Times of utime(2) as those of utimensat(2)."""
    access, change = struct.unpack("=qq", data)
    return struct.pack("=qqqq", access, 0, change, 0)


def _from_parts(data: bytes) -> bytes:
    """Times of utimes(2): seconds and millionths."""
    access, some, change, more = struct.unpack("=qqqq", data)
    return struct.pack("=qqqq", access, some * 1000, change, more * 1000)


def _signed(argument: int) -> int:
    """A descriptor, of which the kernel reads 32 bits."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _called(number: int, *arguments: object) -> int:
    ctypes.set_errno(0)
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    found: int = _libc.syscall(ctypes.c_long(number), *given)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found
