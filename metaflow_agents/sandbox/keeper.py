"""The process between us and a command without namespaces: it confines the command, answers its calls, and ends all of it.

    python -I -m metaflow_agents.sandbox.keeper JOB COMMAND …

JOB is a file of JSON, as `landlock.py` writes it. Standard input is the socket to us: `ready` goes out when the command stands
confined, `go` lets it run, `started` says that it does; when the socket ends, everything does.

The keeper itself enters a Landlock domain in which signals reach nobody outside, and the command one within that. So the command
can't signal its keeper, and what the keeper signals (`kill(-1)`, which the kernel carries out without a gap) is the command with
all that it started, and nothing else, whoever their parents are now.
"""

from __future__ import annotations

import array
import ctypes
import errno
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sandlock import Sandbox, confine

from metaflow_agents.sandbox.notified import Notified
from metaflow_agents.sandbox.tunnel import SandboxTunnel

_FAILED = 125
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER = 1, 4, 38, 24, 36
_NEW_LISTENER = 8
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def main(job: Mapping[str, Any], command: Sequence[str]) -> int:
    """Confine, run and end one command; its exit code, 128 and the signal's number where one ended it."""
    us = socket.socket(fileno=os.dup(0))
    try:
        if job["owner"] is not None:
            _become(job["owner"])
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _enclose_ourselves()
        first, listener, gate = _begin(job, command)
        proxied = None if job["proxy"] is None else (tuple(job["proxied"]), SandboxTunnel(job["proxy"]).connect)
    except Exception as error:                      # told to who waits, which says it to the user
        us.sendall(f"{type(error).__name__}: {error}\n".encode(errors="replace")[:4000])
        return _FAILED
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):                    # the command's outputs end when the command's processes have
        os.dup2(null, descriptor)
    try:
        return _kept(us, first, gate, Notified(listener, job["copies"], proxied))
    finally:
        _end_all()


def _kept(us: socket.socket, first: int, gate: socket.socket, calls: Notified) -> int:
    """Answer until the command ends, or we are told to."""
    pidfd = os.pidfd_open(first)
    us.sendall(b"ready\n")
    with selectors.DefaultSelector() as selector:
        for what in (us, calls.listener, pidfd):
            selector.register(what, selectors.EVENT_READ, what)
        while True:
            for key, events in selector.select():
                if key.data == us:
                    if us.recv(16) != b"go\n":
                        return 128 + signal.SIGKILL
                    us.sendall(b"started\n")
                    gate.sendall(b"!")
                elif key.data == calls.listener:
                    if not events & selectors.EVENT_READ or not calls.answer():
                        selector.unregister(calls.listener)
                else:
                    _, status = os.waitpid(first, 0)
                    code = os.waitstatus_to_exitcode(status)
                    return code if code >= 0 else 128 - code


def _end_all() -> None:
    """When it returns, nothing of the command is left: all that lost their parents are children of ours."""
    with suppress(ProcessLookupError):              # it says that nobody is left
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _enclose_ourselves() -> None:
    """Raises RuntimeError where a signal of ours could still reach another process of this user."""
    reading, writing = os.pipe()
    witness = os.fork()
    if not witness:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        confine(Sandbox(fs_readable=["/"], fs_writable=["/"]))
        try:
            os.kill(witness, 0)
        except PermissionError:
            return
        raise RuntimeError("signals are not kept inside: this kernel has Landlock without its sixth version")
    finally:
        os.close(writing)
        os.close(reading)
        with suppress(ChildProcessError):
            os.waitpid(witness, 0)


def _begin(job: Mapping[str, Any], command: Sequence[str]) -> tuple[int, int, socket.socket]:
    """The process that becomes the command: its number, the descriptor of its filter, and what lets it go."""
    ours, theirs = socket.socketpair()
    keeper = os.getpid()
    first = os.fork()
    if not first:
        try:
            ours.close()
            _confine(job, keeper, theirs)
            _become_the_command(command)
        except BaseException as error:
            with suppress(OSError):
                theirs.sendall(f"{type(error).__name__}: {error}".encode(errors="replace")[:2000])
        os._exit(_FAILED)
    theirs.close()
    said, ancillary, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(4))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            said = said[1:] or ours.recv(4096)          # the second filter comes after the first one's descriptor
            if said == b"+":
                return first, struct.unpack("=i", data[:4])[0], ours
    raise RuntimeError(said.decode(errors="replace") or "it ended before it was confined")


def _confine(job: Mapping[str, Any], keeper: int, theirs: socket.socket) -> None:
    """In the process that becomes the command: limits, files, calls. When it returns, we have been let go."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(_FAILED)
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.chdir(job["work"])
    for name, (soft, hard) in job["limits"].items():
        what = getattr(resource, name)
        most = resource.getrlimit(what)[1]
        fitting = [one if most == resource.RLIM_INFINITY else min(one, most) for one in (soft, hard)]
        resource.setrlimit(what, (fitting[0], fitting[1]))
    confine(Sandbox(fs_readable=job["readable"], fs_writable=job["writable"]))
    listener = _load(bytes.fromhex(job["filters"][0]), listening=True)
    theirs.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)
    _load(bytes.fromhex(job["filters"][1]), listening=False)
    theirs.sendall(b"+")
    if theirs.recv(1) != b"!":
        os._exit(_FAILED)


def _become_the_command(command: Sequence[str]) -> None:
    """As a shell does it; it says itself what can't be started."""
    program, code, why = command[0], 0, ""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        if "/" in program and os.path.isdir(program):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        os.execvp(program, list(command))
    except (FileNotFoundError, NotADirectoryError):
        code, why = 127, "command not found"
    except OSError as error:
        if error.errno == errno.ENOEXEC:            # a script that names no interpreter is the shell's
            os.execv("/bin/sh", ["/bin/sh", *command])
        code, why = 126, str(error.strerror)
    os.write(2, f"{program}: {why}\n".encode(errors="surrogateescape"))
    os._exit(code)


def _become(owner: int) -> None:
    """Another user, without rights and without the way to get some. Raises OSError."""
    with suppress(OSError):                         # the last one there is
        for capability in range(64):
            _prctl(_PR_CAPBSET_DROP, capability)
    os.setgroups([])
    os.setresgid(owner, owner, owner)
    os.setresuid(owner, owner, owner)
    _prctl(_PR_SET_DUMPABLE, 1)                     # so that our own children's memory can be read by us


def _load(program: bytes, *, listening: bool) -> int:
    """Lay a filter of system calls on this process. Raises OSError."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    made = _Filter(len(program) // 8, program)
    ctypes.set_errno(0)
    found: int = _libc.syscall(ctypes.c_long(_SECCOMP[os.uname().machine]), ctypes.c_long(1),
                               ctypes.c_long(_NEW_LISTENER if listening else 0), ctypes.byref(made))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the filter of system calls can't be loaded: {os.strerror(code)}")
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.set_errno(0)
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as file:
        os._exit(main(json.load(file), sys.argv[2:]))
