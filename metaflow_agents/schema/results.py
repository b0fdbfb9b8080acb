"""The fixed schemas of what this package itself makes: results of commands and notices of failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_TEXT: dict[str, Any] = {"type": "string"}
_WHOLE: dict[str, Any] = {"type": "integer"}

RUN_RESULT: dict[str, Any] = _closed({"ok": {"type": "boolean"}, "exit_code": _WHOLE, "stdout": _TEXT, "stderr": _TEXT})
"""What a `run:` step without `parse` makes."""

JUNIT_RESULT: dict[str, Any] = _closed({
    "ok": {"type": "boolean"},
    "exit_code": _WHOLE,
    "total": _WHOLE,
    "passed": _WHOLE,
    "failed": _WHOLE,
    "errors": _WHOLE,
    "skipped": _WHOLE,
    "failures": {"type": "array", "items": _closed({
        "id": _TEXT,
        "kind": {"type": "string", "enum": ["failure", "error"]},
        "exception": _TEXT,
        "message": _TEXT,
        "place": _TEXT,
    })},
})
"""What a `run:` step with `parse: junit` makes. Raw output is no part of it: it differs from machine to machine."""

LOCK: dict[str, Any] = _closed({
    "python": _TEXT,
    "packages": {"type": "array", "items": _closed({"name": _TEXT, "version": _TEXT, "file": _TEXT, "sha256": _TEXT})},
    "left_out": {"type": "array", "items": _TEXT},
})
"""What a `tool: packages` step makes: Python's version, packages by name, and files of theirs that environments do not get."""

FAILURE: dict[str, Any] = _closed({
    "step": _TEXT,
    "key": _TEXT,
    "error": _TEXT,
    "items": {"type": "array", "items": _closed({"key": _TEXT, "error": _TEXT})},
})
"""What `on_fail: {makes: ARTIFACT}` gives: the first failed item in list order, and all of them."""

VERDICT: dict[str, Any] = _closed({"good": {"type": "boolean"}, "why": _TEXT})
"""What the judge of a `review:` answers with, where the step says no other form."""

HUMAN_TEXT: dict[str, Any] = _closed({"text": _TEXT, "assumed": {"type": "boolean"}})
"""What `human: text` makes. `assumed`: nobody answered."""

HUMAN_APPROVE: dict[str, Any] = _closed({"approved": {"type": "boolean"}, "reason": _TEXT, "assumed": {"type": "boolean"}})
"""What `human: approve` makes."""


def human_choice(choices: Sequence[str]) -> dict[str, Any]:
    """What `human: {choice: …}` makes."""
    return _closed({"choice": {"type": "string", "enum": list(choices)}, "assumed": {"type": "boolean"}})


def human_result(kind: str, choices: Sequence[str]) -> dict[str, Any]:
    """What a `human:` step of this kind makes, where its artifact has no schema of its own."""
    return {"text": HUMAN_TEXT, "approve": HUMAN_APPROVE}.get(kind) or human_choice(choices)
