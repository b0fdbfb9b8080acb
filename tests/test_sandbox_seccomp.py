"""The filter of system calls: what the kernel's machine makes of it, for each machine there is a table of."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import seccomp

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, ENOSYS, EPERM, EINVAL = 0x7FFF0000, 0x50000 | errno.ENOSYS, 0x50000 | errno.EPERM, 0x50000 | errno.EINVAL
NO_FAMILY, NO_PROTOCOL, NO_ATTRIBUTES = (
    0x50000 | error for error in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.EOPNOTSUPP))
CLONE_NEWUSER, SIGCHLD = 0x10000000, 17
CALLS: dict[str, dict[str, list[int | None]]] = yaml.safe_load(
    (Path(__file__).parent / "security/syscalls.yaml").read_text(encoding="utf-8"))
"""What the filter answers (or `arguments`: that depends) → name → numbers on both machines."""
ANSWERS = {"allowed": ALLOW, "EPERM": EPERM, "ENOTSUP": NO_ATTRIBUTES, "ENOSYS": ENOSYS}
HEADERS = {"x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), "aarch64": Path("/usr/include/asm-generic/unistd.h")}
RENAMED = {"newfstatat": "fstatat", "fadvise64": "fadvise64"}


@cache
def steps(machine: str) -> list[tuple[int, int, int, int]]:
    program = seccomp.program(machine)
    return [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]


def walk(machine: str, number: int, *arguments: int, arch: int | None = None) -> tuple[int, int]:
    """What the filter says of a call, and after how many steps: classic BPF over `struct seccomp_data`, done by hand."""
    data = struct.pack("<IIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    at = accumulator = taken = 0
    while True:
        code, yes, no, operand = steps(machine)[at]
        at, taken = at + 1, taken + 1
        if code == 0x06:
            return int(operand), taken
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, operand)[0]
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x05:
            at += operand
        else:
            holds = {0x15: accumulator == operand, 0x25: accumulator > operand, 0x35: accumulator >= operand,
                     0x45: bool(accumulator & operand)}[code]
            at += yes if holds else no


def result(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    return walk(machine, number, *arguments, arch=arch)[0]


def rows(machine: str, kind: str) -> Iterator[tuple[str, int]]:
    """Name and number of the calls under a heading."""
    column = list(ARCH).index(machine)
    return ((name, number) for name, numbers in CALLS[kind].items() if (number := numbers[column]) is not None)


def number(machine: str, name: str) -> int:
    found = CALLS["arguments"][name][list(ARCH).index(machine)]
    assert found is not None
    return found


@pytest.mark.parametrize("machine", ARCH)
@given(arguments=st.lists(st.integers(0, 2 ** 64 - 1), min_size=6, max_size=6))
def test_every_call_of_the_kernel_is_answered_as_the_table_says(machine: str, arguments: list[int]) -> None:
    for kind, answer in ANSWERS.items():
        for name, call in rows(machine, kind):
            assert result(machine, call, *arguments) == answer, name


@pytest.mark.parametrize("machine", ARCH)
def test_what_no_table_knows_is_not_there(machine: str) -> None:
    known = {call for kind in CALLS for _, call in rows(machine, kind)}
    assert len(known) == {"x86_64": 383, "aarch64": 325}[machine]
    strange = [call for call in (*range(2000), 0x3FFFFFFF, 0x40000000, 0xFFFFFFFF) if call not in known]
    assert {result(machine, call) for call in strange} == {ENOSYS}
    for call in known:
        assert result(machine, call, arch=0x40000003) == ENOSYS                 # as 32-bit programs call, `socketcall` among them
        assert result(machine, 0x40000000 | call) == ENOSYS                     # x32


@pytest.mark.parametrize("machine", ARCH)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"there is no {header} here: the package `linux-libc-dev` has it")
    written = dict(re.findall(r"^#define (?:__NR|__NR3264)_(\w+) (\d+)$", header.read_text(), re.MULTILINE))
    compared = 0
    for kind in CALLS:
        for name, call in rows(machine, kind):
            if found := written.get(name, written.get(RENAMED.get(name, ""))):
                assert int(found) == call, name
                compared += 1
    assert compared > 290


@pytest.mark.parametrize("machine", ARCH)
def test_a_call_is_found_in_few_steps(machine: str) -> None:
    """Linux keeps the answers to calls of which it does not need the arguments; the others take these steps, each time."""
    taken = {name: max(walk(machine, call, *arguments)[1] for arguments in ((1,), (16, 3, 0), (2, 1, 6), (0xFFFFFFFF, 0x5423)))
             for name, call in rows(machine, "arguments")}
    assert max(taken.values()) < 70 and max(taken[name] for name in ("ioctl", "clone", "socket", "socketpair")) < 25, taken
    assert max(walk(machine, call)[1] for _, call in rows(machine, "allowed")) <= 14
    assert len(seccomp.program(machine)) < 1 << 12


@pytest.mark.parametrize("machine", ARCH)
def test_every_family_of_sockets_but_four_is_refused(machine: str) -> None:
    socket, pair = number(machine, "socket"), number(machine, "socketpair")
    for family in (*range(100), 0x7FFFFFFF, 0xFFFFFFFF):
        for kind in (1, 2, 3, 5, 1 | 0x80000, 2 | 0x800):
            said = result(machine, socket, family, kind, 0)
            if family in (2, 10):
                assert said == (ALLOW if kind & 15 in (1, 2) else EPERM), (family, kind)
            else:
                assert said == (ALLOW if family in (1, 16) else NO_FAMILY), (family, kind)
            assert result(machine, pair, family, kind, 0) == (ALLOW if family in (1, 2, 10) else NO_FAMILY), family
            assert result(machine, socket, family | 1 << 32, kind) == said
    for protocol in (*range(1, 300), 0xFFFFFFFF):
        assert result(machine, socket, 16, 3, protocol) == NO_PROTOCOL          # of netlink: audit, netfilter, crypto, sockets …
        assert result(machine, socket, 2, 1, protocol) == (ALLOW if protocol in (6, 17) else NO_PROTOCOL)       # SCTP, MPTCP …
        assert result(machine, socket, 1, 1, protocol) == ALLOW


@pytest.mark.parametrize("machine", ARCH)
def test_what_depends_on_arguments(machine: str) -> None:
    clone, unshare, ioctl, shmget, semget, personality, prctl = (
        number(machine, name) for name in ("clone", "unshare", "ioctl", "shmget", "semget", "personality", "prctl"))
    assert result(machine, clone, SIGCHLD) == result(machine, clone, 0x003D0F00) == ALLOW           # fork; a thread
    assert result(machine, unshare, 0x400) == ALLOW and result(machine, unshare, 0x80) == EPERM     # CLONE_NEWTIME
    for flag in (CLONE_NEWUSER, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000):
        assert result(machine, clone, flag | SIGCHLD) == result(machine, unshare, flag) == EPERM
    assert result(machine, ioctl, 0, 0x5413) == ALLOW                                               # TIOCGWINSZ
    for high in (0, 1 << 32, 0xFFFFFFFF << 32):
        assert {result(machine, ioctl, 0, high | one) for one in (0x5412, 0x541C, 0x5423)} == {EPERM}
    assert result(machine, shmget, 0, seccomp.SHARED_BYTES) == ALLOW
    for size in (seccomp.SHARED_BYTES + 1, 1 << 32, (1 << 40) + 1):
        assert result(machine, shmget, 0, size) == EINVAL
    assert result(machine, semget, 0, seccomp.SEMAPHORES) == ALLOW
    assert result(machine, semget, 0, seccomp.SEMAPHORES + 1) == result(machine, semget, 0, 0xFFFFFFFF) == EINVAL
    assert {result(machine, personality, one) for one in (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)} == {ALLOW}
    for one in (0x0040000, 0x0400000, 0x0440000, 0x0400008, 0x4000000, 1, 0x0100000):       # no random places, READ_IMPLIES_EXEC
        assert result(machine, personality, one) == EPERM
    assert {result(machine, prctl, one) for one in (1, 4, 15, 22, 38, 0x59616D61, 0x53564D41)} == {ALLOW}
    for one in (35, 57, 58, 62, 67, 68, 71, 72, 78, 79, 1000, 0x7FFFFFFF):      # PR_SET_MM, SCHED_CORE, MEMORY_MERGE, FUTEX_HASH
        assert result(machine, prctl, one) == EINVAL


def test_a_machine_without_a_table_has_no_filter() -> None:
    with pytest.raises(RunError, match=r"can't be filtered on this machine \(riscv64\), only on x86_64 and aarch64"):
        seccomp.program("riscv64")
