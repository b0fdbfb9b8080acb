"""The filter of system calls as programs for containers read it: the same tables as bubblewrap's, in the form of the OCI runtime
specification (https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp).

One thing is looser than there, as that form can't say it: characters put into a terminal, of which a container has none of this
machine's.
"""

from __future__ import annotations

import errno
import json
from typing import Any

from metaflow_agents.sandbox import seccomp
from metaflow_agents.sandbox.syscalls import ALLOWED, BY_ARGUMENT, REFUSED, UNSUPPORTED, numbers

_ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")


def profile() -> str:
    """The profile as JSON, for both machines."""
    rules = [_rule(_names(ALLOWED)), _rule(_names(REFUSED), errno.EPERM), _rule(_names(UNSUPPORTED), errno.EOPNOTSUPP),
             *_by_argument()]
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": errno.ENOSYS, "architectures": _ARCHITECTURES,
                       "syscalls": rules})


def _by_argument() -> list[dict[str, Any]]:
    """What is looked at more closely; a call that no rule lets through is refused as one that is not there."""
    spaces = seccomp.NAMESPACES
    rules = [_rule(["ioctl"]), _rule(["clone"], args=[_no_bit(0, spaces)]),
             _rule(["unshare"], args=[_no_bit(0, spaces | seccomp.NEW_TIME)]),
             _rule(["shmget"], args=[_at_most(1, seccomp.SHARED_BYTES)]),
             _rule(["semget"], args=[_at_most(1, seccomp.SEMAPHORES)]),
             _rule(["socket"], args=[_is(0, seccomp.UNIX)]), _rule(["socketpair"], args=[_is(0, seccomp.UNIX)]),
             _rule(["socket"], args=[_is(0, seccomp.NETLINK), _is(2, seccomp.ROUTE)])]
    rules += [_rule(["socket"], args=[_is(0, family), _is(2, protocol)]) for family in (seccomp.INET, seccomp.INET6)
              for protocol in (seccomp.IP, seccomp.TCP, seccomp.UDP)]
    for name, values in (("prctl", seccomp.PROCESS_OPTIONS), ("personality", seccomp.PERSONALITIES)):
        rules += [_rule([name], args=[_is(0, value)]) for value in values]
    known = {name for rule in rules for name in rule["names"]}
    if known != set(_names(BY_ARGUMENT)):
        raise ValueError(f"calls without a rule: {sorted(known ^ set(_names(BY_ARGUMENT)))}")
    return rules


def _names(table: str) -> list[str]:
    """Of either machine."""
    return sorted({*numbers(table, 0), *numbers(table, 1)})


def _rule(names: list[str], error: int | None = None, args: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    answer = {"action": "SCMP_ACT_ALLOW"} if error is None else {"action": "SCMP_ACT_ERRNO", "errnoRet": error}
    return {"names": names, **answer, **({"args": args} if args else {})}


def _is(argument: int, value: int) -> dict[str, Any]:
    return {"index": argument, "value": value, "op": "SCMP_CMP_EQ"}


def _at_most(argument: int, most: int) -> dict[str, Any]:
    return {"index": argument, "value": most, "op": "SCMP_CMP_LE"}


def _no_bit(argument: int, bits: int) -> dict[str, Any]:
    return {"index": argument, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
