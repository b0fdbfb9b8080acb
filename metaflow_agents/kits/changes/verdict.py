"""Test results before a change against those after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def compared(before: Mapping[str, Any], tests: Mapping[str, Any]) -> dict[str, Any]:
    """`{green, new, known}`: the ids of failures that were not there before, and of those that were.

    `green` where some pass, none fails that did not fail before, and at least as many pass as before: a test that is gone passes
    no more.
    """
    earlier = {one["id"] for one in before["failures"]}
    failing = [one["id"] for one in tests["failures"]]
    new = [name for name in failing if name not in earlier]
    ran = tests["passed"] > 0 and (tests["exit_code"] == 0 or bool(failing))
    return {"green": ran and not new and tests["passed"] >= before["passed"], "new": new,
            "known": [name for name in failing if name in earlier]}
