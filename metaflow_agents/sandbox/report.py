"""A test report that a command left, read in a worker: the command may have run anybody's code."""

from __future__ import annotations

from typing import Any

from metaflow_agents.errors import AnswerInvalid, ForeignRefused
from metaflow_agents.sandbox.junit import MAX_BYTES, too_large
from metaflow_agents.workers.pool import parsed


async def read_junit(xml: bytes, exit_code: int, file: str) -> dict[str, Any]:
    """See `parse_junit`. Raises AnswerInvalid also where reading it takes too much; RunError where no worker starts."""
    if len(xml) > MAX_BYTES:
        raise AnswerInvalid([too_large(len(xml), file)])
    try:
        found = await parsed("junit", xml, exit_code=exit_code, file=file)
    except ForeignRefused as error:
        raise AnswerInvalid([f"{file} is refused: reading it {error}; print less in the tests, "
                             "or test in several steps"]) from None
    if "faults" in found:
        raise AnswerInvalid(map(str, found["faults"]))
    result: dict[str, Any] = found["result"]
    return result
