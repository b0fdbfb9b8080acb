"""Zero-shot chain of thought: reasoning is asked for first, then the answer that follows from it.

Source: Kojima et al., "Large Language Models are Zero-Shot Reasoners" (NeurIPS 2022): two prompts, one that elicits the
reasoning and one that extracts the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from metaflow_agents.agent.strategies.port import Ask, Messages
from metaflow_agents.models.port import Reply
from metaflow_agents.prompts import package_template, render


class ChainOfThought:
    """Two calls: free reasoning, then the answer in the form of the artifact."""

    calls: ClassVar[int] = 2

    async def answer(self, ask: Ask, compose: Callable[[str], Messages], output_format: str) -> tuple[Messages, Reply]:
        """See `Strategy.answer`."""
        template = package_template("chain_of_thought")
        messages = compose(render(template, {"part": "reason", "output_format": output_format}))
        _, reasoning = await ask("turn.0/reason", messages, structured=False)
        asked = render(template, {"part": "answer", "output_format": output_format})
        messages = (*messages, {"role": "assistant", "content": reasoning.said}, {"role": "user", "content": asked})
        return await ask("turn.0", messages)
