"""What a tool gave, for a step that calls it itself: without the words that frame it for a role, whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from metaflow_agents.errors import AttemptFailed
from metaflow_agents.schema.tools import Effect
from metaflow_agents.tools.port import ToolResult


def unframed(tool: str, result: ToolResult, effect: Effect, masked: Callable[[str], str]) -> ToolResult:
    """The result with its content as its text. One that is not whole is an error. `masked`: blots secrets out.

    Raises AttemptFailed where an effect that happens once may have happened, and what it gave is not there: the call is not
    recorded as done then, so that a person is asked before it is made again.
    """
    lost = result.unknown if result.error else bool(result.lacks)
    told = result.text if result.error else f"what `{tool}` gave can't be taken: {result.lacks}"
    if lost and effect == "once":
        failed = AttemptFailed(masked(told))
        failed.untrusted = result.untrusted
        raise failed
    if lost or result.error or result.content is None:
        return replace(result, text=told if lost else result.text, error=result.error or lost)
    return replace(result, text=result.content)


def told_by_a_person(said: str, tool: str, *, framed: bool) -> ToolResult:
    """What a call gave that a crash cut off, as a person tells it who says that it happened. `framed`: for a role, in a sentence.

    Raises AttemptFailed where a step would go on with it, and the person does not say it.
    """
    if framed:
        told = "the run was cut off while this was done; a person says that it happened. What it gave back is lost"
        return ToolResult(f"{told}. They say: {said}" if said else told)
    if not said:
        raise AttemptFailed(f"`{tool}` was called, and what it gave is lost: answer with it, or let another step go on from here "
                            "with `on_fail`")
    return ToolResult(said)
