"""An endpoint as slow as a local model: silence before the first word, then so many tokens a second. It may ignore parameters.

It is run under simulated time (`slowly`), together with whoever asks it: hours pass in moments, and no seconds are measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import pytest
from openai_faults import Bill, Out, bounded, bytes_in
from openai_server import Answer, OpenAIServer
from virtual_time import VirtualLoop

from metaflow_agents.threads.blocking import Threads

T = TypeVar("T")
_AT_ONCE = 8                        # tokens in an event
_LOOKS = 0.02                       # real seconds in which what is under way between two sockets arrives


class SlowServer(OpenAIServer):
    """`rate`: tokens a second, one of which is a byte; `first`: seconds before the first; `ignores`: parameters of requests that
    it takes and does not keep to. `breaks`: number of a request → its connection is reset in the middle of the answer.
    """

    def __init__(self, answer: Answer | None = None, *, rate: float = 8.0, first: float = 0.0, ignores: tuple[str, ...] = (),
                 breaks: tuple[int, ...] = (), **options: Any) -> None:
        super().__init__(answer, chunk=_AT_ONCE, **options)
        self.rate, self.first, self.ignores, self.breaks = rate, first, ignores, breaks

    async def _answered(self, asked: dict[str, Any], bill: Bill, out: Out) -> None:
        if bill.fault:
            await super()._answered(asked, bill, out)
            return
        kept = {name: value for name, value in asked.items() if name not in self.ignores}
        text = str(self.answer(kept))
        text, finish = (text, "stop") if not any(name.startswith("max_") for name in kept) else bounded(kept, text)
        bill.tokens_in, bill.tokens_out = bytes_in(asked), len(text.encode())
        stream = bool(kept.get("stream"))
        bill.told = self.usage != "none" and (not stream or bool(kept.get("stream_options")))
        await asyncio.sleep(self.first)
        if not stream:
            await asyncio.sleep(bill.tokens_out / self.rate)
            out.json(200, self.whole(asked, text, finish, bill))
            return
        out.start_stream()
        for number, event in enumerate(self.events(asked, text, finish, bill)):
            out.event(event)
            await asyncio.sleep(_AT_ONCE / self.rate)
            if number == 2 and bill.number in self.breaks:
                out.reset()
                return
        out.done()


class _Loop(VirtualLoop):
    """Its clock stands still while a thread works, and what is between two sockets arrives before it jumps."""

    def __init__(self) -> None:
        super().__init__()
        self.working = 0
        jump = self._clock.select

        def select(timeout: float | None = None) -> Any:
            found = type(self._clock).__mro__[1].select(self._clock, 0 if timeout == 0 else _LOOKS if self._far(timeout) else 0)
            return found if found or self.working or timeout == 0 else jump(timeout)

        self._clock.select = select      # type: ignore[method-assign]

    def _far(self, timeout: float | None) -> bool:
        return bool(self.working) or timeout is None or timeout > 2 * _AT_ONCE


def slowly(main: Coroutine[Any, Any, T], monkeypatch: pytest.MonkeyPatch) -> tuple[T, float]:
    """What it gives, and how many simulated seconds it took."""
    run = Threads.run

    async def counted(self: Threads, *work: Any) -> Any:
        loop: Any = asyncio.get_running_loop()
        loop.working += 1
        try:
            return await run(self, *work)
        finally:
            loop.working -= 1

    async def timed() -> tuple[T, float]:
        found = await main
        return found, asyncio.get_running_loop().time()

    monkeypatch.setattr(Threads, "run", counted)
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(timed())


def asked_for(bills: list[Bill]) -> list[Mapping[str, Any]]:
    """What was asked, without how: equal ones were paid twice."""
    return [bill.request["messages"] for bill in bills if bill.tokens]
