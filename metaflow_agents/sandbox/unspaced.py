"""A second filter of system calls, for commands without namespaces: what a namespace would have kept apart.

Landlock decides who opens, makes and removes files, and whom a signal reaches. It does not look at sockets on the disk, at
changes of a file's mode, owner or times, at memory and queues that have keys instead of paths, nor at the limits and the
priority of other processes. Those calls are refused here, or put to the keeper (`notified.py`), which carries them out on the
command's own files.

Source: seccomp(2), `struct seccomp_data` of linux/seccomp.h; the numbers are those of `syscalls`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox.syscalls import numbers

_Instruction = tuple[int, int, int, int]
_LOAD, _AND, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_FASTOPEN = 0x20000000                      # a flag of send calls that connects on the way
_FILE_FLAGS = (0x40086602, 0x401C5820)      # ioctl: FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR

ASKED = """
chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
connect 42 203
"""
"""What the keeper is asked: name, number on x86-64, number on arm64, as in `syscalls`."""

_NOT_ALLOWED = """
chown 92 -, lchown 94 -, fchown 93 55, fchownat 260 54, file_setattr 469 469
"""
_NO_ATTRIBUTES = """
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, removexattr 197 14, lremovexattr 198 15,
fremovexattr 199 16, removexattrat 466 466
"""
_NOT_THERE = """
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semctl 66 191, semop 65 193, semtimedop 220 192, msgget 68 186,
msgctl 71 187, msgsnd 69 189, msgrcv 70 188, mq_open 240 180, mq_unlink 241 181, inotify_add_watch 254 27
"""
_BY_ARGUMENT = """
prlimit64 302 261, sched_setaffinity 203 122, sched_setparam 142 118, sched_setscheduler 144 119, sched_setattr 314 274,
setpriority 141 140, ioprio_set 251 30, socket 41 198, socketpair 53 199, sendto 44 206, sendmsg 46 211, sendmmsg 307 269,
bind 49 200, listen 50 201, ioctl 16 29
"""


def column(machine: str | None = None) -> tuple[int, int]:
    """Which column of the tables is this machine's, and its mark (`AUDIT_ARCH_…`). Raises RunError where it has none."""
    name = os.uname().machine if machine is None else machine
    if name not in _ARCHES:
        raise RunError(f"system calls can't be filtered on this machine ({name}), only on {' and '.join(_ARCHES)}; run it there")
    return _ARCHES[name]


def program(*, proxied: bool, machine: str | None = None) -> bytes:
    """The filter, as `struct sock_filter`s. `proxied`: the command may make TCP sockets, to be connected by the keeper.

    Raises RunError for a machine that has no table here.
    """
    which, arch = column(machine)
    return b"".join(struct.pack("=HBBI", *one) for one in _instructions(which, arch, proxied))


def _instructions(which: int, arch: int, proxied: bool) -> Iterator[_Instruction]:
    yield from ((_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), _refuse(errno.ENOSYS), (_LOAD, 0, 0, 0))
    for table, answer in ((ASKED, (_RETURN, 0, 0, _ASK)), (_NOT_ALLOWED, _refuse(errno.EPERM)),
                          (_NO_ATTRIBUTES, _refuse(errno.EOPNOTSUPP)), (_NOT_THERE, _refuse(errno.ENOSYS))):
        for number in numbers(table, which).values():
            yield from ((_EQUAL, 0, 1, number), answer)
    looked_at = numbers(_BY_ARGUMENT, which)
    for name, then in _by_argument(proxied).items():
        yield from ((_EQUAL, 0, len(then), looked_at[name]), *then)
    yield _pass()


def _by_argument(proxied: bool) -> Mapping[str, list[_Instruction]]:
    """What is done for the calls that are looked at more closely; each ends in a verdict."""
    myself = _only((0, 0))                          # and no other process of this user
    found = dict.fromkeys(("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"), myself)
    found |= {
        "setpriority": _only((0, 0), (1, 0)), "ioprio_set": _only((0, 1), (1, 0)),
        "socket": _sockets(proxied), "socketpair": _unix_sockets(),
        # An address in a datagram's header lies in memory, where no filter looks: so there are no datagram sockets. What stays is
        # `sendto` with an address, and a connection that is made on the way.
        "sendto": [*_zero(4, errno.ENETUNREACH), *_without_bit(3, _FASTOPEN)],
        "sendmsg": _without_bit(2, _FASTOPEN), "sendmmsg": _without_bit(3, _FASTOPEN),
        "ioctl": [(_LOAD, 0, 0, _low(1)), (_EQUAL, 1, 0, _FILE_FLAGS[0]), (_EQUAL, 0, 1, _FILE_FLAGS[1]), _refuse(errno.EPERM),
                  _pass()],
    }
    if proxied:                             # its TCP sockets are this machine's: none of them may be reached from outside
        found |= {"bind": [_refuse(errno.EACCES)], "listen": [_refuse(errno.EACCES)]}
    return found


def _only(*wanted: tuple[int, int]) -> list[_Instruction]:
    """Arguments that have to have these values: (argument, value)…"""
    found: list[_Instruction] = []
    for argument, value in wanted:
        found += [(_LOAD, 0, 0, _low(argument)), (_EQUAL, 1, 0, value), _refuse(errno.EPERM)]
    return [*found, _pass()]


def _zero(argument: int, error: int) -> list[_Instruction]:
    """An argument of 64 bits that has to be 0; no verdict where it is."""
    return [(_LOAD, 0, 0, _low(argument)), (_EQUAL, 1, 0, 0), _refuse(error),
            (_LOAD, 0, 0, _low(argument) + 4), (_EQUAL, 1, 0, 0), _refuse(error)]


def _without_bit(argument: int, bit: int) -> list[_Instruction]:
    return [(_LOAD, 0, 0, _low(argument)), (_ANY_BIT, 0, 1, bit), _refuse(errno.ENETUNREACH), _pass()]


def _sockets(proxied: bool) -> list[_Instruction]:
    """Unix sockets; where there is a proxy, TCP by IPv4 too."""
    internet = _refuse(errno.ENETUNREACH)
    tcp = [(_LOAD, 0, 0, _low(1)), (_AND, 0, 0, 0xF), (_EQUAL, 1, 0, socket.SOCK_STREAM), internet, (_LOAD, 0, 0, _low(2)),
           (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, socket.IPPROTO_TCP), _pass(), internet] if proxied else [internet]
    return [(_LOAD, 0, 0, _low(0)), (_EQUAL, 0, len(tcp), socket.AF_INET), *tcp, (_EQUAL, 0, 1, socket.AF_INET6), internet,
            *_unix_sockets()]


def _unix_sockets() -> list[_Instruction]:
    """Those that are connected before anything is sent."""
    return [(_LOAD, 0, 0, _low(0)), (_EQUAL, 1, 0, socket.AF_UNIX), _refuse(errno.EAFNOSUPPORT), (_LOAD, 0, 0, _low(1)),
            (_AND, 0, 0, 0xF), (_EQUAL, 1, 0, socket.SOCK_STREAM), (_EQUAL, 0, 1, socket.SOCK_SEQPACKET), _pass(),
            _refuse(errno.EACCES)]


def _low(argument: int) -> int:
    """Where the lower half of an argument lies."""
    return 16 + 8 * argument


def _refuse(error: int) -> _Instruction:
    return _RETURN, 0, 0, _ERRNO | error


def _pass() -> _Instruction:
    return _RETURN, 0, 0, _ALLOW
