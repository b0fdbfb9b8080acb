"""The program of a worker process. It runs as a script, isolated, on a socket that is its standard input.

    python -I -S serve.py MODULE FUNCTION MEMORY FOLDER…

It imports one module, gives up what it does not need, says `ready` (one byte), and answers requests one by one until the other
end closes. A request is `>IQd` (bytes of the arguments, bytes of the data, seconds of processor time), the arguments as JSON, the
data. An answer is one letter and `>Q`, then so many bytes of UTF-8: `R` a result as JSON, `F` what the parser raised, `M` out of
memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

REQUEST, ANSWER = struct.Struct(">IQd"), struct.Struct(">cQ")
READY = b"!"
_NICE = 5                           # the run's own process comes first
_RETIRE_KIB = 256 << 10             # a worker that has held more than that ends after its answer, and gives the memory back
_TOLD = 300                         # characters of what a parser raised


def main(module: str, function: str, memory: str, *folders: str) -> None:
    """Serve until the other end of standard input closes."""
    sys.path.extend(folders)        # behind the standard library: nothing in them takes the place of a part of it
    line = socket.socket(fileno=0)
    work = getattr(import_module(module), function)
    _give_up(int(memory))
    line.sendall(READY)
    while (head := _received(line, REQUEST.size)) is not None:
        arguments, data, seconds = REQUEST.unpack(head)
        named, given = _received(line, arguments), _received(line, data)
        if named is None or given is None:
            return
        kind, told = _answer(line, work, given, json.loads(named), seconds)
        ends = kind == b"M" or _held_kib() > _RETIRE_KIB
        line.sendall(ANSWER.pack(kind.lower() if ends else kind, len(told)))        # a small letter: nobody may ask it again
        line.sendall(told)
        if ends:
            return


def _answer(line: socket.socket, work: Callable[..., Any], data: bytes, arguments: dict[str, Any],
            seconds: float) -> tuple[bytes, bytes]:
    """What the parser gives. Meanwhile the kernel ends this process at its time, or when the other end closes: Python is not
    asked, for a parser may hold the interpreter's lock.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)               # SIGPROF, whose default is the end
    flags = fcntl.fcntl(line, fcntl.F_GETFL)
    fcntl.fcntl(line, fcntl.F_SETFL, flags | os.O_ASYNC)        # SIGIO at the closing, whose default is the end
    try:
        if _closed(line):
            os._exit(0)
        try:
            return b"R", json.dumps(work(data, **arguments), ensure_ascii=False).encode("utf-8", "replace")
        except MemoryError:
            return b"M", b""
        except Exception as error:
            said = " ".join(str(error).split())[:_TOLD]
            return b"F", f"{type(error).__name__}{': ' if said else ''}{said}".encode("utf-8", "replace")
    finally:
        fcntl.fcntl(line, fcntl.F_SETFL, flags)
        signal.setitimer(signal.ITIMER_PROF, 0)


def _held_kib() -> int:
    """The most memory that this program has held. The kernel's `ru_maxrss` counts what the process was before, too: a fork of a
    large one.
    """
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return int(next(line for line in status if line.startswith("VmHWM:")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _closed(line: socket.socket) -> bool:
    try:
        return not line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _received(line: socket.socket, size: int) -> bytes | None:
    """So many bytes; None where the other end closed."""
    found = bytearray(size)
    at, view = 0, memoryview(found)
    while at < size:
        got = line.recv_into(view[at:])
        if not got:
            return None
        at += got
    view.release()
    return bytes(found)


def _give_up(memory: int) -> None:
    """Limits, and no way to start or write anything. What a system does not know, it does without."""
    for number in (signal.SIGPROF, signal.SIGIO, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    with suppress(OSError):
        os.nice(_NICE)
    for name, most in (("AS", memory), ("DATA", memory), ("FSIZE", 0), ("CORE", 0), ("NPROC", 0), ("NOFILE", 16), ("MEMLOCK", 0)):
        if hasattr(resource, f"RLIMIT_{name}"):
            with suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)             # PR_SET_NO_NEW_PRIVS: prctl(2)


if __name__ == "__main__":
    main(*sys.argv[1:])
