"""Server-sent events: what changed since the last time, a few times a second at most, as long as somebody listens.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from metaflow_agents.web.asked import Asked, answered, told_of
from metaflow_agents.web.replies import as_json

_BEAT = 15.0                        # seconds without an event after which a comment goes out: whether somebody still listens


@dataclass(frozen=True, slots=True)
class Told:
    """One event. `number`: where a page that comes back goes on; None: it begins anew."""

    event: str
    data: Any
    number: int | None = None

    def written(self) -> bytes:
        """As the stream has it."""
        number = "" if self.number is None else f"id: {self.number}\n"
        return f"{number}event: {self.event}\ndata: ".encode() + as_json(self.data) + b"\n\n"


News = Callable[[], list[Told]]
"""What is new since it was called last. It is called in a thread; what it raises ends the stream."""


def stream(path: str, begin: Callable[[Asked], News], every: float) -> Route:
    """A route that streams. `begin` makes what is asked every so many seconds; what it raises is told as any error."""
    async def endpoint(request: Request) -> Response:
        known = request.headers.get("last-event-id")            # a browser that comes back by itself
        asked = Asked(request.app.state.site, {**request.query_params, **({} if known is None else {"after": known})})
        made: list[News] = []

        def began(asked: Asked) -> None:
            made.append(begin(asked))

        refused = await run_in_threadpool(answered, began, asked)
        if not made:
            return refused
        return StreamingResponse(_events(made[0], every, asked), media_type="text/event-stream")
    return Route(path, endpoint, methods=["GET"])


async def _events(news: News, every: float, asked: Asked) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    last = time.monotonic()
    while not asked.site.closing:
        try:
            found = await run_in_threadpool(news)
        except Exception as error:
            yield b"event: problem\ndata: " + bytes((await run_in_threadpool(told_of, error, asked)).body) + b"\n\n"
            return
        for told in found:
            yield told.written()
        if found:
            last = time.monotonic()
        elif time.monotonic() - last > _BEAT:
            last = time.monotonic()
            yield b": still here\n\n"
        await asyncio.sleep(every)
