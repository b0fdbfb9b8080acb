"""What a person says of a product, worked on one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from metaflow_agents.kits.company.probing import script_of_tests

_SECONDS = 240


def next_wish(idea: str, feedback: Sequence[str], heard: int, given: bool, test_command: str) -> dict[str, str]:
    """What is worked on next: its `text`, and the `test_command` that runs the tests of the program. `heard`: how many were
    worked on before. `given`: whether the program is a repository that was given, with a `test_command` of its own: there the
    idea itself is the first.
    """
    text = [*([idea] if given else []), *feedback][heard]
    return {"text": text, "test_command": test_command if given else f"set -- {_SECONDS} .junit.xml\n{script_of_tests()}"}
