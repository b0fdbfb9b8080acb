"""Work that blocks, done in a thread of its own pool, and never left behind: a cancelled await ends when the thread has."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from metaflow_agents.errors import AttemptFailed, raised

T = TypeVar("T")


async def to_the_end(future: asyncio.Future[T], stop: Callable[[], None] | None = None) -> T:
    """Await `future`; when cancelled, call `stop`, wait until it is done all the same, and only then be cancelled.

    Further cancellations while it waits change nothing: what runs in a thread can't be dropped, only outlived.
    """
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            if cancelled is None and stop is not None:
                stop()
            cancelled = cancelled or error
    if cancelled is None:
        return future.result()
    if not future.cancelled():
        future.exception()              # seen: the cancellation is what goes on
    try:
        raise cancelled
    finally:
        del cancelled                   # it holds this frame by its traceback


def carried(work: Callable[[], T]) -> Callable[[], T]:
    """`work` for a thread that a future waits for.

    A StopIteration comes as RuntimeError, as out of a generator (PEP 479): no future can carry one, and who awaits it would wait
    for ever.
    """
    def works() -> T:
        try:
            return work()
        except StopIteration as error:
            raise RuntimeError(f"StopIteration: {error}") from error
    return works


class Threads:
    """A pool of up to `size` threads that start when they are first needed and end with this object."""

    def __init__(self, size: int, name: str) -> None:
        self._size, self._name = size, name
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    async def run(self, work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
        """The result of `work()`; a StopIteration is `carried`. `stop`, called from the event loop, asks the running work to end
        soon.
        """
        queued = self._executor().submit(copy_context().run, carried(work))

        def give_up() -> None:
            if not queued.cancel() and stop is not None:
                stop()

        return await to_the_end(asyncio.wrap_future(queued), give_up)

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():      # the threads of a pool do not survive a fork
            self._pool, self._process = ThreadPoolExecutor(self._size, thread_name_prefix=self._name), os.getpid()
        return self._pool


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: an async function, or an object whose `__call__` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def called(what: str, threads: Threads, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """What somebody else's function gives, async or not; one that is not runs in a thread.

    What it raises goes on, but for what would end more than this one call: `sys.exit()`, a StopIteration (which no future
    can carry), a cancellation that nobody asked for, any other BaseException. These come as AttemptFailed, told with `what`. A
    KeyboardInterrupt in a thread is the function's own: a person's Ctrl-C comes to the main thread.
    """
    def contained() -> Any:
        try:
            return function(*arguments, **named)
        except Exception as error:
            if isinstance(error, StopIteration):
                raise AttemptFailed(f"{what} raised {raised(error)}") from error
            raise
        except BaseException as error:
            raise AttemptFailed(f"{what} raised {raised(error)}") from error

    task = asyncio.current_task()
    try:
        given = await (function(*arguments, **named) if is_async(function) else threads.run(contained))
        return await given if inspect.isawaitable(given) else given         # a plain function that hands out a coroutine
    except Exception:
        raise
    except BaseException as error:
        if ends_task(error, task) and not isinstance(error, SystemExit):
            raise
        unasked = ", though nobody cancelled it" if isinstance(error, asyncio.CancelledError) else ""
        raise AttemptFailed(f"{what} raised {raised(error)}{unasked}") from error


def ends_task(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an exception that a task has caught has to go on, since somebody stops the task from outside: its cancellation, the
    closing of a coroutine, and what is on its way out of the process. A CancelledError that nobody asked for is none of these.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    return isinstance(error, GeneratorExit | KeyboardInterrupt | SystemExit)
