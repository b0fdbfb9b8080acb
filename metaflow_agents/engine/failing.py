"""What goes wrong in an attempt is a failed attempt, whatever it is; what an attempt can't have caused stops the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from metaflow_agents.errors import ATTEMPT, RunError, Unexpected, failure_of
from metaflow_agents.errors.encodable import encodable
from metaflow_agents.schema.event import Failed
from metaflow_agents.schema.keys import ActivationKey
from metaflow_agents.schema.trust import joined
from metaflow_agents.threads.blocking import ends_task

T = TypeVar("T")
_LONGEST = 40_000                   # characters of what a failed attempt tells


def failed_attempt(error: BaseException, task: asyncio.Task[Any] | None) -> RunError:
    """What went wrong in an attempt that a task makes, as a failure of it. Raises what an attempt can't have caused: a
    cancellation of the run, an interrupt, questions that are waited for, and all that stops a run.
    """
    if ends_task(error, task):
        raise error
    failure = failure_of(error)
    if not isinstance(failure, ATTEMPT):
        raise failure
    return failure


async def unless_stopped(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `work()` gives. A CancelledError in it that nobody asked for is a failure: a task group would take its child for one
    that it has cancelled, and wait without end for what the child was to bring. A task that is cancelled before its first step
    never calls `work`, so no coroutine is left that nobody awaits.
    """
    task = asyncio.current_task()
    try:
        return await work()
    except asyncio.CancelledError as error:
        if ends_task(error, task):
            raise
        raise Unexpected(error) from error


def failure_event(failure: RunError, key: ActivationKey, label: str, *, stops: bool, final: bool = True,
                  seconds: float = 0.0) -> Failed:
    """What the journal holds of a failed attempt. `label`: of what the attempt had heard, besides the failure's own."""
    return Failed(activation=str(key), error=_told(failure), final=final, stops=stops, seconds=seconds,
                  untrusted=joined(label, failure.untrusted), trace=failure.trace if isinstance(failure, Unexpected) else "")


def _told(failure: RunError) -> str:
    """Its words as the journal can hold them, the middle left out where they are many."""
    said = encodable(str(failure))
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST // 2]}\n… ({len(said):,} characters) …\n{said[-_LONGEST // 2:]}"
