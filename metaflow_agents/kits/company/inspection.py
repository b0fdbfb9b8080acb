"""What a linter, a type checker and a security linter say of a program that they read and do not run.

ruff (its rules `S` are those of bandit) and ty, as wheels in an environment of their own: what they need is none of the program's
dependencies. Who revises the program is told, and decides: on 14 packages that are well kept most of their remarks are none
that a user would ever meet, so none of them counts as a fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LINTED = ("E9", "F", "B", "PLE", "S")
NOT_LINTED = ("B008", "B905", "S101", "S311", "S404", "S603", "S607")
"""What small programs do on purpose: asserts, dice, programs that are started without a shell, `zip` of what is equally long."""
TYPED = ("index-out-of-bounds", "missing-argument", "missing-attribute", "missing-module-member", "not-callable", "not-iterable",
         "parameter-already-assigned", "too-many-positional-arguments", "unknown-argument", "unresolved-reference",
         "unused-awaitable")
"""Rules of ty for what ends in an exception once it is reached. Others, as of unions with None, depend on what is annotated."""
INSPECTORS = ("ruff>=0.15,<1", "ty>=0.0.100,<0.1")
TOLD = 12
"""Remarks that are told at most: a reader works on the first, and the rest is seen in the next round."""
_REMARK = re.compile(r"(?P<place>[^\s:][^:\n]{0,200}:\d{1,7}:\d{1,7}): (?:error\[)?(?P<rule>[A-Za-z0-9-]{2,60})(?:\]|:)? "
                     r"(?P<why>[^\n]{1,2000})")
_COSTLIEST = ("S", "E9", "invalid-syntax", "F82", *TYPED, "PLE", "B")


def remarks(inspected: Mapping[str, Any] | None) -> list[str]:
    """What was said of a program, each with its place, what may cost most first; nothing where nothing was read."""
    found = []
    for line in inspected["stdout"].splitlines() if inspected else ():
        told = _REMARK.fullmatch(line.strip())
        if told and ((": error[" not in line and ": warning[" not in line) or told["rule"] in TYPED):
            why = " ".join(told["why"].replace("[*] ", "").split())
            found.append((_rank(told["rule"]), f"{told['place']}: {told['rule']}: {why[:200]}"))
    return [line for _, line in sorted(found, key=lambda one: one[0])]


def _rank(rule: str) -> int:
    return next((place for place, begins in enumerate(_COSTLIEST) if rule.startswith(begins)), len(_COSTLIEST))
