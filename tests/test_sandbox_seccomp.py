"""The filter of system calls: what the kernel's machine makes of it, for each machine there is a table of."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import seccomp

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, ENOSYS, EPERM, EINVAL = 0x7FFF0000, 0x50000 | errno.ENOSYS, 0x50000 | errno.EPERM, 0x50000 | errno.EINVAL
CLONE_NEWUSER, SIGCHLD = 0x10000000, 17


def result(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter says of a call: classic BPF over `struct seccomp_data`, done by hand."""
    data = struct.pack("<IIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    program = seccomp.program(machine)
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, operand)[0]
            continue
        holds = {0x15: accumulator == operand, 0x25: accumulator > operand, 0x35: accumulator >= operand,
                 0x45: bool(accumulator & operand)}[code]
        at += yes if holds else no


@pytest.mark.parametrize(("machine", "clone", "unshare", "ioctl", "shmget"), [("x86_64", 56, 272, 16, 29),
                                                                              ("aarch64", 220, 97, 29, 194)])
def test_what_depends_on_arguments(machine: str, clone: int, unshare: int, ioctl: int, shmget: int) -> None:
    assert result(machine, clone, SIGCHLD) == result(machine, clone, 0x003D0F00) == ALLOW           # fork; a thread
    assert result(machine, clone, CLONE_NEWUSER | SIGCHLD) == result(machine, clone, 0x00020000) == EPERM
    assert result(machine, unshare, 0x400) == ALLOW and result(machine, unshare, CLONE_NEWUSER) == EPERM
    assert result(machine, unshare, 0x80) == EPERM                                                  # CLONE_NEWTIME
    assert result(machine, ioctl, 0, 0x5413) == ALLOW                                               # TIOCGWINSZ
    for high in (0, 1 << 32, 0xFFFFFFFF << 32):
        assert result(machine, ioctl, 0, high | 0x5412) == result(machine, ioctl, 0, high | 0x541C) == EPERM
    assert result(machine, shmget, 0, seccomp.SHARED_BYTES) == ALLOW
    for size in (seccomp.SHARED_BYTES + 1, 1 << 32, (1 << 40) + 1):
        assert result(machine, shmget, 0, size) == EINVAL


@pytest.mark.parametrize("machine", ARCH)
def test_what_is_refused_whatever_the_arguments(machine: str) -> None:
    column = list(ARCH).index(machine)
    for table, said in ((seccomp._PERMISSION, EPERM), (seccomp._MISSING, ENOSYS)):
        for name, numbers in table.items():
            if numbers[column] is not None:
                assert result(machine, numbers[column] or 0, *[0xFFFFFFFFFFFFFFFF] * 6) == said, name


@pytest.mark.parametrize("machine", ARCH)
@given(number=st.integers(0, 0x3FFFFFFF), arguments=st.lists(st.integers(0, 2 ** 64 - 1), min_size=6, max_size=6))
def test_all_else_is_let_through_and_every_call_gets_a_word(machine: str, number: int, arguments: list[int]) -> None:
    column = list(ARCH).index(machine)
    closed = {numbers[column] for table in (seccomp._PERMISSION, seccomp._MISSING) for numbers in table.values()}
    by_argument = {"x86_64": {56, 272, 16, 29}, "aarch64": {220, 97, 29, 194}}[machine]
    said = result(machine, number, *arguments)
    assert said == ALLOW or number in closed | by_argument
    assert result(machine, number, *arguments, arch=0x40000003) == ENOSYS                           # as 32-bit programs call
    if machine == "x86_64":
        assert result(machine, 0x40000000 | number, *arguments) == ENOSYS                           # x32


def test_a_machine_without_a_table_has_no_filter() -> None:
    with pytest.raises(RunError, match=r"can't be filtered on this machine \(riscv64\), only on x86_64 and aarch64"):
        seccomp.program("riscv64")
    assert len(seccomp.program("x86_64")) < 1 << 15                                                  # a pipe holds it
