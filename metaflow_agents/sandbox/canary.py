"""What runs inside a sandbox to find out whether it holds: it tries to get out, in every way that has a name here. A script of
its own, never imported by us, of the standard library alone.

    python canary.py PLANTED PORT SECRET NAMESPACES PID

It looks for the file PLANTED (beside it PLANTED.s, a socket), a server at PORT of the loopback, the text SECRET (backwards, so
that the argument itself is not what is found), and the process PID, all of them outside. NAMESPACES is `namespaces` where the
sandbox has such; without, processes and networks are there, and out of reach. On its first line it writes what it tried as JSON,
each with whether it was refused; on the second how many processes it could start, of 16.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import platform
import select
import socket
import sys
import time
from collections.abc import Callable

PLANTED, PORT, SECRET, PID = sys.argv[1], int(sys.argv[2]), sys.argv[3][::-1].encode(), int(sys.argv[5])
SPACES = sys.argv[4] == "namespaces"
FAMILIES = {40: "AF_VSOCK", 17: "AF_PACKET", 38: "AF_ALG", 31: "AF_BLUETOOTH", 29: "AF_CAN", 30: "AF_TIPC", 44: "AF_XDP",
            15: "AF_KEY", 21: "AF_RDS", 41: "AF_KCM", 42: "AF_QIPCRTR", 43: "AF_SMC"}
CALLS: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {      # what it leads to: numbers on x86-64 and arm64; arguments
    "io_uring": ((425, 425), (0, 0)), "userfaultfd": ((323, 282), (1,)), "keyrings": ((250, 219), (0, -4, 1)),
    "BPF": ((321, 280), (0, 0, 0)), "perf events": ((298, 241), (0, 0, -1, -1, 0)), "tracing": ((101, 117), (17, 0, 0, 0)),
    "memory of others": ((310, 270), (os.getpid(), 0, 0, 0, 0, 0)), "mounts": ((165, 40), (0, 0, 0, 0, 0)),
    "new mounts": ((428, 428), (-100, 0, 0)), "file handles": ((304, 265), (-1, 0, 0)),
    "namespaces of others": ((308, 268), (-1, 0)), "clone3": ((435, 435), (0, 88)), "modules": ((313, 273), (-1, 0, 0)),
    "other kernels": ((320, 294), (-1, -1, 0, 0, 0)), "files in memory": ((319, 279), (0, 0)),
    "message queues": ((68, 186), (0, 0o1600)), "asynchronous I/O": ((206, 0), (0, 0)),
    "many semaphores": ((64, 190), (0, 32000, 0o1600)), "executable data": ((135, 92), (0x0400000,))}
REFUSED = (errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.EACCES)
tried: dict[str, bool] = {}


def _says(what: str, refused: bool) -> None:
    """One result; of several under a name all have to be refused."""
    tried[what] = tried.get(what, True) and refused


def _tries(what: str, action: Callable[[], object]) -> None:
    try:
        action()
    except OSError:
        _says(what, True)
    else:
        _says(what, False)


def _files() -> None:
    _tries("it reads files of this machine", lambda: open(PLANTED, "rb").read())
    _tries("it writes files of this machine", lambda: open(PLANTED, "ab").write(b"x"))
    _tries("it changes files of this machine", lambda: os.chmod(PLANTED, 0o600))
    _tries("it changes files of this machine", lambda: os.utime(PLANTED, (1, 1)))
    _tries("it writes outside its copy", lambda: open("/usr/.sop", "w").close())
    _tries("it writes outside its copy", lambda: open("/.sop", "w").close())
    _tries("it keeps attributes beside files", lambda: os.setxattr(".", "user.sop", b"x"))


def _sockets() -> None:
    _tries("it reaches the network of this machine", lambda: socket.create_connection(("127.0.0.1", PORT), 2).close())
    _tries("it reaches sockets of this machine", lambda: socket.socket(socket.AF_UNIX).connect(f"{PLANTED}.s"))
    _tries("it sees the network of this machine", _devices)
    for family, name in FAMILIES.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            _tries(f"it has sockets of the family {name}", lambda family=family, kind=kind: socket.socket(family, kind).close())  # type: ignore[misc]
    for protocol in (132, 262):
        _tries("it has sockets of SCTP, MPTCP", lambda protocol=protocol: socket.socket(2, 1, protocol).close())  # type: ignore[misc]
    for protocol in (4, 9, 12, 16, 21):
        _tries("it asks more of the kernel than routes", lambda protocol=protocol: socket.socket(16, 3, protocol).close())  # type: ignore[misc]


def _devices() -> None:
    with open("/proc/net/dev") as told:
        if not [line for line in told.read().splitlines()[2:] if line.split(":")[0].strip() != "lo"]:
            raise OSError


def _rights() -> None:
    with open("/proc/self/status") as status:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
    capabilities = ("CapEff", "CapPrm", "CapInh", "CapAmb", *(["CapBnd"] if SPACES else []))
    held = any(int(facts[one], 16) for one in capabilities) or os.getuid() == 0
    _says("it has or may get privileges", not held and facts["NoNewPrivs"] == "1")
    _says("its system calls are not filtered", facts["Seccomp"] == "2")


def _processes() -> None:
    _tries("it signals processes of this machine", lambda: os.kill(PID, 0))
    if SPACES:
        _says("it sees the processes of this machine", os.getpid() <= 9)
    for pid in [*filter(str.isdigit, os.listdir("/proc")), PID] if SPACES else [os.getppid(), PID]:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                _says("it reads the environment of who started it", SECRET not in file.read())
        except OSError:
            continue
    _tries("it may change the process that ends it", lambda: open("/proc/1/mem", "rb+").close())


def _calls() -> None:
    try:
        import ctypes
    except ImportError:
        _says("it has no ctypes, to try system calls with: install a Python that has it", False)
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def refused(number: int, *arguments: int) -> bool:
        ctypes.set_errno(0)
        return bool(libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) == -1 and ctypes.get_errno() in REFUSED)

    arm = platform.machine() == "aarch64"
    _says("it makes user namespaces of its own", refused(97 if arm else 272, 0x10000000))
    for what, (numbers, arguments) in CALLS.items():
        _says(f"it reaches {what}", refused(numbers[arm], *arguments))


def _forks() -> int:
    reading, writing = os.pipe()
    children = []
    for _ in range(16):
        try:
            child = os.fork()
        except OSError:
            break
        if not child:
            os.close(writing)
            select.select([reading], [], [], 3)
            os._exit(0)
        children.append(child)
    if len(children) == 16:
        time.sleep(1)                           # who looks on from outside has the time to see them
    os.close(writing)
    for child in children:
        os.waitpid(child, 0)
    return len(children)


if __name__ == "__main__":
    for attempt in (_sockets, _files, _rights, _processes, _calls):
        attempt()
    if importlib.util.find_spec("pytest") is None:
        _says("it has no pytest: install this package and pytest with the same Python", False)
    with open("mine", "w") as mine:
        mine.write("x")
    sys.stdout.write(f"{json.dumps(tried)}\n")
    sys.stdout.flush()
    sys.stdout.write(f"{_forks()}\n")
