"""The filter of system calls that bubblewrap lays on a command: a program for the kernel's classic BPF machine.

Written here and not with libseccomp, which no wheel brings along. It is an allow list: `syscalls` names what commands need, and
what a kernel has besides, or will have, is not there. Nine calls depend on their arguments. Sockets are those of the loopback, of
files and of questions about the network (`AF_UNIX`, `AF_INET`, `AF_INET6`, `NETLINK_ROUTE`): other families know no namespace,
reach the machine around (`AF_VSOCK`), or are large and seldom used parts of the kernel.

A call's number is looked up by halving: some seven comparisons, and for a call that is allowed whatever its arguments none at
all, since Linux 5.11 keeps the answers of such programs in a map of bits.

Source: seccomp(2), `struct seccomp_data` and `struct sock_filter` of linux/seccomp.h and linux/filter.h.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox.syscalls import ALLOWED, BY_ARGUMENT, REFUSED, UNSUPPORTED, numbers

SHARED_BYTES = 1 << 16
"""The largest segment of System V that a command may make; a namespace has 4,096 of them at most."""
SEMAPHORES = 32
"""The largest set of System V that a command may make; a namespace has 32,000 of them at most, and each takes 64 bytes."""

Step = tuple[int, int, int, int]            # operation, instructions to jump where it holds, where it does not, operand
Block = tuple[Step, ...]                    # it ends with an answer wherever it is left

_LOAD, _AND, _JUMP, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NR, _ARCH = 0, 4                           # where the data begin: the call's number, the calling convention
_FAR = 255                                  # instructions that a comparison can jump over
NAMESPACES = 0x10000000 | 0x00020000 | 0x40000000 | 0x20000000 | 0x08000000 | 0x04000000 | 0x02000000
NEW_TIME = 0x80                            # of unshare(2) alone: in clone(2) these bits are the signal of the end
_TERMINAL = (0x5412, 0x541C, 0x5423)        # TIOCSTI, TIOCLINUX: put characters into it; TIOCSETD: loads a module of the kernel
UNIX, INET, INET6, NETLINK, ROUTE = 1, 2, 10, 16, 0
_STREAM, _DATAGRAM, _TYPE = 1, 2, 0xF       # above its four bits a type carries flags
IP, TCP, UDP = 0, 6, 17
PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)       # Linux, its 32-bit twin, each as 2.6; the question which one it is
PROCESS_OPTIONS = (                        # of prctl(2), linux/prctl.h: of the process itself, none that takes memory or rights
    *range(1, 5), 7, 8, 13, 14, 15, 16, *range(21, 28), 29, 30, 33, 34, *range(36, 43), *range(45, 48), *range(50, 57),
    59, 60, 61, 63, 64, 65, 66, 0x41555856, 0x53564D41, 0x59616D61)


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    arch: int                               # AUDIT_ARCH_…


_MACHINES = {"x86_64": _Machine(0, 0xC000003E), "aarch64": _Machine(1, 0xC00000B7)}


def program(machine: str | None = None) -> bytes:
    """The filter for a machine as `uname -m` names it (None: this one), as `bwrap --seccomp` reads it.

    Raises RunError for a machine that has no table here.
    """
    name = os.uname().machine if machine is None else machine
    table = _MACHINES.get(name)
    if table is None or (machine is None and (sys.byteorder != "little" or sys.maxsize < 1 << 32)):
        raise RunError(f"system calls can't be filtered on this machine ({name}), only on {' and '.join(_MACHINES)}, "
                       "by a 64-bit Python; mend it: run it there")
    return b"".join(struct.pack("=HBBI", *step) for step in _steps(table))


def _steps(of: _Machine) -> Block:
    """The whole program. The x32 convention has x86-64's mark and numbers that no table knows."""
    blocks: dict[int, Block] = {}
    for table, answer in ((ALLOWED, _pass()), (REFUSED, _refuse(errno.EPERM)), (UNSUPPORTED, _refuse(errno.EOPNOTSUPP))):
        blocks |= dict.fromkeys(numbers(table, of.column).values(), (answer,))
    by_argument = numbers(BY_ARGUMENT, of.column)
    blocks |= {by_argument[name]: block for name, block in _by_argument().items()}
    starts: list[tuple[int, Block]] = [(0, _missing())]
    for number in sorted({one for known in blocks for one in (known, known + 1)}):
        if (block := blocks.get(number, _missing())) != starts[-1][1]:
            starts.append((number, block))
    return ((_LOAD, 0, 0, _ARCH), *_when(of.arch, ((_LOAD, 0, 0, _NR), *_found(starts)), _missing()))


def _found(starts: list[tuple[int, Block]]) -> Block:
    """The block of the last of these numbers that is not above the one at hand."""
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _found(starts[:middle]), _found(starts[middle:])
    if len(low) <= _FAR:
        return ((_AT_LEAST, len(low), 0, starts[middle][0]), *low, *high)
    return ((_AT_LEAST, 0, 1, starts[middle][0]), (_JUMP, 0, 0, len(low)), *low, *high)


def _by_argument() -> Mapping[str, Block]:
    """What becomes of the calls that are looked at more closely. The kernel reads 32 bits of most of these arguments, so what
    stands above them must not matter here either.
    """
    no_protocol = (_refuse(errno.EPROTONOSUPPORT),)
    protocol = ((_LOAD, 0, 0, _low(2)), *_one_of((IP, TCP, UDP), (_pass(),), no_protocol))
    internet = ((_LOAD, 0, 0, _low(1)), (_AND, 0, 0, _TYPE), *_one_of((_STREAM, _DATAGRAM), protocol, (_refuse(errno.EPERM),)))
    netlink = ((_LOAD, 0, 0, _low(2)), *_one_of((ROUTE,), (_pass(),), no_protocol))
    no_family = (_refuse(errno.EAFNOSUPPORT),)
    family = (_LOAD, 0, 0, _low(0))
    return {
        "clone": _unless(NAMESPACES),
        "unshare": _unless(NAMESPACES | NEW_TIME),
        "ioctl": ((_LOAD, 0, 0, _low(1)), *_one_of(_TERMINAL, (_refuse(errno.EPERM),), (_pass(),))),
        "prctl": ((_LOAD, 0, 0, _low(0)), *_one_of(PROCESS_OPTIONS, (_pass(),), (_refuse(errno.EINVAL),))),
        "personality": ((_LOAD, 0, 0, _low(0)), *_one_of(PERSONALITIES, (_pass(),), (_refuse(errno.EPERM),))),
        "socket": (family, *_when(UNIX, (_pass(),), _one_of((INET, INET6), internet, _when(NETLINK, netlink, no_family)))),
        "socketpair": (family, *_one_of((UNIX, INET, INET6), (_pass(),), no_family)),
        "shmget": ((_LOAD, 0, 0, _low(1) + 4), *_when(0, _at_most(1, SHARED_BYTES), (_refuse(errno.EINVAL),))),
        "semget": _at_most(1, SEMAPHORES),
    }


def _when(value: int, then: Block, otherwise: Block) -> Block:
    """What is done where the number at hand is this one, and where it is not."""
    return (((_EQUAL, 0, len(then), value), *then, *otherwise) if len(then) <= _FAR
            else ((_EQUAL, 1, 0, value), (_JUMP, 0, 0, len(then)), *then, *otherwise))


def _one_of(values: Iterable[int], then: Block, otherwise: Block) -> Block:
    """The same for several; of their comparisons each jumps to the same place."""
    known = tuple(values)
    comparisons = tuple((_EQUAL, len(known) - 1 - at, 0, value) for at, value in enumerate(known[:-1]))
    return (*comparisons, *_when(known[-1], then, otherwise))


def _unless(flags: int) -> Block:
    """A call that is refused where its first argument has one of these bits."""
    return ((_LOAD, 0, 0, _low(0)), (_ANY_BIT, 0, 1, flags), _refuse(errno.EPERM), _pass())


def _at_most(argument: int, most: int) -> Block:
    return ((_LOAD, 0, 0, _low(argument)), (_GREATER, 0, 1, most), _refuse(errno.EINVAL), _pass())


def _low(argument: int) -> int:
    """Where the lower half of an argument lies."""
    return 16 + 8 * argument


def _missing() -> Block:
    return (_refuse(errno.ENOSYS),)


def _refuse(error: int) -> Step:
    return _RETURN, 0, 0, _ERRNO | error


def _pass() -> Step:
    return _RETURN, 0, 0, _ALLOW
