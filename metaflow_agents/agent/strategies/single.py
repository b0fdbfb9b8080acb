"""One question, one answer."""

from __future__ import annotations

from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking
from metaflow_agents.schema.strategies import single


class SingleStrategy(Strategy[single.Single]):
    """The default strategy: the prompt goes out, the answer comes back."""

    SPEC = single.Single

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`."""
        return await thinking.ask("turn.0", thinking.compose(thinking.output_format))
