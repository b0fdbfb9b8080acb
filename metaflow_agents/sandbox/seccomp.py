"""The filter of system calls that bubblewrap lays on a command: a program for the kernel's classic BPF machine.

Written here and not with libseccomp, which no wheel brings along: a table and a jump for each call. What a command needs is
let through; closed is what leads past the walls (namespaces, mounts, the memory of other processes), what is a large and
seldom used part of the kernel (io_uring, keyrings, BPF, perf), and what keeps memory that no process has mapped.

Source: seccomp(2), `struct seccomp_data` and `struct sock_filter` of linux/seccomp.h and linux/filter.h; the numbers are those of
the kernel's own tables for x86-64 (arch/x86/entry/syscalls) and of the generic one for arm64 (asm-generic/unistd.h).
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from metaflow_agents.errors import RunError

SHARED_BYTES = 1 << 16
"""The largest segment of System V that a command may make; a namespace has 4,096 of them at most."""

_LOAD, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NR, _ARCH = 0, 4                           # where the data begin: the call's number, the calling convention
_X32 = 0x40000000                           # the bit of the x32 convention, which has x86-64's mark and other numbers
_NAMESPACES = 0x10000000 | 0x00020000 | 0x40000000 | 0x20000000 | 0x08000000 | 0x04000000 | 0x02000000
_NEW_TIME = 0x80                            # of unshare(2) alone: in clone(2) these bits are the signal of the end
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

# name: (x86-64, arm64); None: there is no such call there
_PERMISSION: Mapping[str, tuple[int | None, int | None]] = {
    "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "syslog": (103, 116), "acct": (163, 89), "swapon": (167, 224),
    "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "open_by_handle_at": (304, 265),
    "lookup_dcookie": (212, 18), "vhangup": (153, 58), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
}
_MISSING: Mapping[str, tuple[int | None, int | None]] = {           # so that programs do without, as on an older kernel
    "clone3": (435, 435),                   # its flags lie in memory, where no filter looks: libc falls back to clone(2)
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
}


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    arch: int                               # AUDIT_ARCH_…
    clone: int
    unshare: int
    ioctl: int
    shmget: int
    x32: bool = False


_MACHINES = {
    "x86_64": _Machine(0, 0xC000003E, clone=56, unshare=272, ioctl=16, shmget=29, x32=True),
    "aarch64": _Machine(1, 0xC00000B7, clone=220, unshare=97, ioctl=29, shmget=194),
}


def program(machine: str | None = None) -> bytes:
    """The filter for a machine as `uname -m` names it (None: this one), as `bwrap --seccomp` reads it.

    Raises RunError for a machine that has no table here.
    """
    name = os.uname().machine if machine is None else machine
    table = _MACHINES.get(name)
    if table is None or (machine is None and (sys.byteorder != "little" or sys.maxsize < 1 << 32)):
        raise RunError(f"system calls can't be filtered on this machine ({name}), only on {' and '.join(_MACHINES)}, "
                       "by a 64-bit Python; mend it: run it there")
    return b"".join(struct.pack("=HBBI", *one) for one in _instructions(table))


def _instructions(of: _Machine) -> Iterator[tuple[int, int, int, int]]:
    """(operation, instructions to jump where it holds, where it does not, operand). Each check is complete in itself, so that no
    jump is longer than a few.
    """
    yield _LOAD, 0, 0, _ARCH
    yield _EQUAL, 1, 0, of.arch
    yield _refuse(errno.ENOSYS)
    yield _LOAD, 0, 0, _NR
    if of.x32:
        yield _AT_LEAST, 0, 1, _X32
        yield _refuse(errno.ENOSYS)
    for calls, error in ((_PERMISSION, errno.EPERM), (_MISSING, errno.ENOSYS)):
        for numbers in calls.values():
            number = numbers[of.column]
            if number is not None:
                yield _EQUAL, 0, 1, number
                yield _refuse(error)
    yield from _by_flags(of.clone, _NAMESPACES)
    yield from _by_flags(of.unshare, _NAMESPACES | _NEW_TIME)
    # The kernel reads 32 bits of this number, so what stands above them must not matter here either.
    yield from ((_EQUAL, 0, 5, of.ioctl), (_LOAD, 0, 0, _low(1)), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX),
                _refuse(errno.EPERM), _pass())
    yield from ((_EQUAL, 0, 6, of.shmget), (_LOAD, 0, 0, _low(1) + 4), (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, _low(1)),
                (_GREATER, 0, 1, SHARED_BYTES), _refuse(errno.EINVAL), _pass())
    yield _pass()


def _by_flags(number: int, flags: int) -> Iterator[tuple[int, int, int, int]]:
    """A call that is refused where its first argument has one of these bits."""
    yield from ((_EQUAL, 0, 4, number), (_LOAD, 0, 0, _low(0)), (_ANY_BIT, 0, 1, flags), _refuse(errno.EPERM), _pass())


def _low(argument: int) -> int:
    """Where the lower half of an argument lies."""
    return 16 + 8 * argument


def _refuse(error: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ERRNO | error


def _pass() -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ALLOW
