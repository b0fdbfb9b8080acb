"""One question, one answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from metaflow_agents.agent.strategies.port import Ask, Messages
from metaflow_agents.models.port import Reply


class Single:
    """The default strategy: the prompt goes out, the answer comes back."""

    calls: ClassVar[int] = 1

    async def answer(self, ask: Ask, compose: Callable[[str], Messages], output_format: str) -> tuple[Messages, Reply]:
        """See `Strategy.answer`."""
        return await ask("turn.0", compose(output_format))
