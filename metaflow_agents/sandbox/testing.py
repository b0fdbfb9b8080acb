"""A pytest command as it is carried out, and whether its report agrees with the tests that there are.

Tested code runs in pytest's own process and can write its report. So a green report is not taken at its word: the tests are
collected once more, apart from it, and each has to have a result. One way is left, as `docs/security.md` says: code that writes a
whole report with the names of all tests.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from metaflow_agents.sandbox.command import pytest_at
from metaflow_agents.texts.strict_json import read

COLLECTED = ".sop-collected.json"
_CASE = re.compile(r"<testcase\b([^<>]*)>")
_NAMED = re.compile(r'\b(classname|name)="([^"]*)"')
_SHOWN = 5


def guarded(argv: Sequence[str], collected: str = "-") -> tuple[str, ...] | None:
    """A pytest command carried out by `tester.py`; with a file's name, one that only collects the ids of its tests into it.

    None for a command that is carried out as it stands: not pytest, or a Python of another version.
    """
    at = pytest_at(argv)
    if at is None or argv[0] not in ("python", "python3", "pytest", "py.test"):
        return None
    by_name = at == 0
    options = () if by_name else tuple(argv[1:at] if argv[at].startswith("-m") else argv[1:at - 1])
    rest = [word for word in argv[at + 1:] if collected == "-" or not word.startswith(("--junitxml=", "--junit-xml="))]
    only = [] if collected == "-" else ["--collect-only", "-p", "no:cacheprovider"]
    return ("python" if by_name else argv[0], *options, "-P", "-c", _script(), "program" if by_name else "module", collected,
            *only, *rest)


def disagreement(report: bytes, collected: bytes | None) -> str:
    """What is wrong with a green report, by the ids that were collected apart; empty where nothing is."""
    try:
        ids = read(collected or b"")
    except ValueError:
        ids = None
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        return "the report is green, and the tests could not be collected apart from it"
    reported = _reported(report.decode("utf-8", "replace"))
    missing = sorted({one for one in ids if _address(one) not in set(reported)})
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        return f"the report is green, and says nothing of tests that there are: {', '.join(missing[:_SHOWN])}{more}"
    if len(reported) < len(ids):
        return f"the report is green, and has {len(reported)} results for {len(ids)} tests"
    return ""


def not_believed(result: dict[str, Any], why: str) -> dict[str, Any]:
    """The result of a green report that does not agree with the tests: an error, never a success."""
    failure = {"id": "", "kind": "error", "exception": "UnconfirmedReport", "message": why, "place": ""}
    return {**result, "ok": False, "errors": result["errors"] + 1, "failures": [*result["failures"], failure]}


def _reported(text: str) -> list[str]:
    """The names of the cases of a report, without what stands in brackets."""
    found = []
    for case in _CASE.finditer(text):
        named = {key: html.unescape(value) for key, value in _NAMED.findall(case[1])}
        found.append(f"{named.get('classname', '')}.{named.get('name', '')}".partition("[")[0])
    return found


def _address(name: str) -> str:
    """A test's id as JUnit writes it: `tests/test_a.py::TestX::test_y[1]` is `tests.test_a.TestX.test_y`."""
    path, *inside = name.partition("[")[0].split("::")
    return ".".join([re.sub(r"\.py$", "", path.replace("/", ".")), *inside])


@cache
def _script() -> str:
    return Path(__file__).with_name("tester.py").read_text(encoding="utf-8")
