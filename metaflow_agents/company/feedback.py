"""What a person says of a product, worked on one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metaflow_agents.company.probing import script_of_tests

_SECONDS = 240


def next_wish(feedback: Sequence[str], heard: int, program: Mapping[str, str | bytes],
              tests: Mapping[str, str | bytes] | None, changed: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is worked on next: its `text`, the `tree` of program and tests as the change before left it, and the
    `test_command` that runs its tests. `heard`: how many were worked on before. Files that are no text are left out.
    """
    tree = changed["tree"] if changed else {**program, **(tests or {})}
    return {"text": feedback[heard], "tree": {path: text for path, text in tree.items() if isinstance(text, str)},
            "test_command": f"set -- {_SECONDS} .junit.xml\n{script_of_tests()}"}
