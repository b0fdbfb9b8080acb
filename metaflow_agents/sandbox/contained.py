"""What runs first inside a container, by the image's own Python: a script of its own, never imported by us.

    python3 -I -S -c SCRIPT JOB COMMAND …

It talks in frames (a letter, four bytes of length, so many bytes) over standard input and output, as that is all that reaches a
container on another machine. To it: `g` lets the command go, `c` is for the command's channel. From it: `r` it is there, `o` and
`e` what the command wrote, `c` what came over its channel, `x` how it ended, as JSON. When its input ends, it ends, and with it
the container. As number 1 of its process namespace it can't be killed from inside; it lets nobody look into it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

HEAD = struct.Struct(">cI")
PIECE = 1 << 16
DUMPABLE = 4


def main(job: Any, command: list[str]) -> None:
    """Carry out one command."""
    ctypes.CDLL(None).prctl(DUMPABLE, 0, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say(b"r", b"")
    if frame() != (b"g", b""):
        return
    if job["proxy"]:
        bridge(job["proxy"])
    if job["packages"]:
        lay_out(*job["packages"])
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    out, err = os.pipe(), os.pipe()
    ours, theirs = socket.socketpair() if job["channel"] is not None else (None, None)
    first = os.fork()
    if not first:
        begin(job, command, out[1], err[1], theirs)
    for descriptor in (out[1], err[1]):
        os.close(descriptor)
    if theirs is not None:
        theirs.close()
    code = carried(first, {out[0]: b"o", err[0]: b"e"}, ours, waking)
    say(b"x", json.dumps({"code": code, "memory": out_of_memory()}).encode())


def carried(first: int, outputs: dict[int, bytes], channel: Any, waking: int) -> int:
    """Pass on what comes, until the command has ended and nothing is left of what it started."""
    code = None
    while code is None or outputs:
        wanted = [0, waking, *outputs] + ([channel.fileno()] if channel else [])
        readable = select.select(wanted, [], [])[0]
        data = channel.recv(PIECE) if channel and channel.fileno() in readable else None
        drain(outputs)                          # what was written before an answer comes before it
        if data:
            say(b"c", data)
        elif data is not None:
            channel = None
        if waking in readable:
            os.read(waking, PIECE)
            found = reaped(first)
            if found is not None:
                code, channel = found, None
                end_all()
        if 0 in readable:
            kind, data = frame()
            if kind != b"c":
                os._exit(0)
            if channel:
                channel.sendall(data)
    return code


def begin(job: Any, command: list[str], out: int, err: int, channel: Any) -> None:
    """In the process that becomes the command."""
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    if channel is not None:
        os.dup2(channel.fileno(), job["channel"])
    os.closerange(3, job["channel"] if channel is not None else 1 << 16)
    if channel is not None:
        os.closerange(job["channel"] + 1, 1 << 16)
    for name, most in job["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    program = command[0]
    try:
        if "/" in program and os.path.isdir(program):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        os.execvp(program, command)
    except (FileNotFoundError, NotADirectoryError):
        code, why = 127, "command not found"
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            os.execv("/bin/sh", ["/bin/sh", *command])
        code, why = 126, str(error.strerror)
    os.write(2, (program + ": " + why + "\n").encode(errors="surrogateescape"))
    os._exit(code)


def reaped(first: int) -> int | None:
    """The command's exit code, as shells tell it, where it has ended."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        if pid == first:
            found = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end_all() -> None:
    """Everything in this process namespace but ourselves; never anything where it is not ours alone."""
    if os.getpid() != 1:
        return
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


def drain(outputs: dict[int, bytes]) -> None:
    """All that stands in the pipes now."""
    while True:
        readable = select.select(list(outputs), [], [], 0)[0] if outputs else []
        more = False
        for descriptor in readable:
            data = os.read(descriptor, PIECE)
            if data:
                say(outputs[descriptor], data)
                more = True
            else:
                del outputs[descriptor]
        if not more:
            return


def bridge(proxy: list[Any]) -> None:
    """What joins the loopback in here with the proxy's socket; it listens when this returns."""
    script, path, port = proxy
    subprocess.Popen([sys.executable, "-I", script, path, str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL, start_new_session=True)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    os._exit(125)


def lay_out(packages: str, place: str, version: str) -> None:
    """A virtual environment of the image's own Python, with the packages that lie at `packages`."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if own != version:
        told = f"the packages are for Python {version}, and this image has {own}: name another by SOP_CONTAINER_IMAGE\n"
        say(b"e", told.encode())
        say(b"x", json.dumps({"code": 126, "memory": False}).encode())
        os._exit(0)
    os.makedirs(f"{place}/bin")
    for name in os.listdir(f"{packages}/bin"):
        python = name in ("python", "python3", f"python{version}")
        os.symlink(sys.executable if python else f"{packages}/bin/{name}", f"{place}/bin/{name}")
    for name in set(os.listdir(packages)) - {"bin", "pyvenv.cfg"}:
        os.symlink(f"{packages}/{name}", f"{place}/{name}")
    with open(f"{place}/pyvenv.cfg", "w", encoding="utf-8") as file:
        file.write(f"home = {os.path.dirname(sys.executable)}\ninclude-system-site-packages = false\n")
    os.environ["PATH"] = f"{place}/bin:{os.environ.get('PATH', os.defpath)}"


def out_of_memory() -> bool:
    """Whether the kernel ended something in here for its memory."""
    for file in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(file) as lines:
                return any(line.split()[0] == "oom_kill" and line.split()[1] != "0" for line in lines if line.strip())
        except OSError:
            continue
    return False


def say(kind: bytes, data: bytes) -> None:
    """One frame to us."""
    left = memoryview(HEAD.pack(kind, len(data)) + data)
    while left:
        left = left[os.write(1, left):]


def frame() -> tuple[bytes, bytes]:
    """One frame from us; the letter is empty where there are no more."""
    head = exactly(HEAD.size)
    if head is None:
        return b"", b""
    kind, length = HEAD.unpack(head)
    return kind, exactly(length) or b""


def exactly(size: int) -> bytes | None:
    """So many bytes of standard input; None where it ends before."""
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            return None
        data += piece
    return data


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
