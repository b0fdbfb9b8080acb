"""Commands of `sop` in processes that die by SIGKILL at a chosen system call that changes a file, and what is left of them.

The process is traced (ptrace(2)): a filter of system calls (seccomp(2)) stops it before each call that may change a file, and
nothing else slows it down. Between two such calls a kill finds the same files, so the calls are all the moments that there are.
It is a fork of a process that has imported everything, or a new one that begins with `python`. Linux alone, x86-64 and ARM.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import platform
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_LIBC.ptrace.restype = ctypes.c_long
_LIBC.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_TRACEME, _CONT, _OPTIONS, _SYSCALL_INFO = 0, 7, 0x4200, 0x420E
_FOLLOW = 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000      # fork, vfork, clone, exec, seccomp; it dies with the tracer
_SECCOMP_STOP, _ALL_CHILDREN = 7, 0x40000000
# name → number, by machine: the calls of a file that is open, of paths, and `openat`, which counts where it may change something
_CALLS = {
    "x86_64": {"on": [1, 18, 20, 74, 75, 77, 91, 296], "open": [2, 257],
               "at": [76, 82, 83, 84, 85, 86, 87, 88, 90, 258, 263, 264, 265, 266, 268, 316]},
    "aarch64": {"on": [64, 68, 66, 82, 83, 46, 52, 70], "at": [45, 34, 35, 36, 37, 38, 276, 53], "open": [56]},
}.get(platform.machine(), {})
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
WORKS = sys.platform == "linux" and bool(_CALLS)


@dataclass(frozen=True)
class Died:
    """How a traced process ended: its exit status (negative: the signal), and how many changes of files it came to."""

    status: int
    changes: int


def traced(work: Callable[[], int] | Sequence[str], at: int, below: Path, out: Path,
           reached: Callable[[int], bool] | None = None) -> Died:
    """Runs a function in a fork, or a program, and kills it before its change number `at` of a file (from 1; 0: never).

    Writes count below the folder `below` alone. `out` gets what it prints. `reached` is told each number, and ends it by True.
    """
    pid = os.fork()
    if pid == 0:
        _become(work, out)
    _, status = os.waitpid(pid, _ALL_CHILDREN)
    assert os.WIFSTOPPED(status), f"it did not stop to be traced: {status}"
    _ptrace(_OPTIONS, pid, _FOLLOW)
    _ptrace(_CONT, pid, 0)
    return _followed(pid, at, below, reached)


def _followed(pid: int, at: int, below: Path, reached: Callable[[int], bool] | None) -> Died:
    changes, known, result = 0, {pid}, None
    while known:
        try:
            who, status = os.waitpid(-1, _ALL_CHILDREN)
        except ChildProcessError:
            break
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            known.discard(who)
            if who == pid:
                result = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
                for other in known:
                    with suppress(ProcessLookupError):
                        os.kill(other, signal.SIGKILL)
            continue
        number, event = os.WSTOPSIG(status), status >> 16
        if event == _SECCOMP_STOP and _counts(who, below):
            changes += 1
            if changes == at or (reached is not None and reached(changes)):
                os.kill(pid, signal.SIGKILL)
                continue
        new = who not in known
        known.add(who)
        quiet = event or number == signal.SIGTRAP or (new and number == signal.SIGSTOP)
        with suppress(ProcessLookupError):
            _ptrace(_CONT, who, 0 if quiet else number)
    assert result is not None
    return Died(result, changes)


def _counts(who: int, below: Path) -> bool:
    """Whether the call that a stopped thread is about to make changes a file that is looked at."""
    told = ctypes.create_string_buffer(128)
    if _LIBC.ptrace(_SYSCALL_INFO, who, len(told), ctypes.addressof(told)) <= 0:
        return False
    number, first, second, third = struct.unpack_from("<4Q", told.raw, 24)
    if number in _CALLS["open"]:
        return bool((second if number == 2 else third) & _CHANGING)
    if number in _CALLS["on"]:
        with suppress(OSError):
            return os.readlink(f"/proc/{who}/fd/{first}").startswith(f"{below}/")
        return False
    return True


def _ptrace(request: int, pid: int, data: int) -> None:
    if _LIBC.ptrace(request, pid, None, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number)) if number != 3 else ProcessLookupError(number, os.strerror(number))


def _become(work: Callable[[], int] | Sequence[str], out: Path) -> None:
    """The rest of the traced child."""
    status = 70
    try:
        file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        _ptrace(_TRACEME, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        _filter([number for numbers in _CALLS.values() for number in numbers])
        if callable(work):
            status = work()
        else:
            os.execv(work[0], list(work))
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _filter(numbers: Sequence[int]) -> None:
    """From here on the calls of these numbers stop at the tracer."""
    steps = [(0x20, 0, 0, 0)]                                                       # the call's number
    steps += [(0x15, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    steps += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x7FF00000)]                   # let it pass; stop at the tracer
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    held = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(held)))
    if _LIBC.prctl(38, 1, 0, 0, 0) or _LIBC.prctl(22, 2, ctypes.addressof(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def said(*commands: Sequence[str]) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of command lines, carried out one after the other in one fork, which may import and start
    what it likes.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        found: list[Any] = []
        try:
            os.close(reading)
            from metaflow_agents.cli import command

            for words in commands:
                out, err = io.StringIO(), io.StringIO()
                with redirect_stdout(out), redirect_stderr(err):
                    try:
                        status = command(list(words))
                    except BaseException:
                        status = 70
                        traceback.print_exc()
                found.append((status, out.getvalue(), err.getvalue()))
            with open(writing, "w", encoding="utf-8") as file:
                json.dump(found, file)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(pid, 0)
    return [(status, out, err) for status, out, err in json.loads(text)]
