"""Zero-shot chain of thought: reasoning is asked for first, then the answer that follows from it.

Source: Kojima et al., "Large Language Models are Zero-Shot Reasoners" (NeurIPS 2022): two prompts, one that elicits the
reasoning and one that extracts the answer.
"""

from __future__ import annotations

from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking
from metaflow_agents.schema.strategies import chain_of_thought


class ChainOfThoughtStrategy(Strategy[chain_of_thought.ChainOfThought]):
    """Two calls: free reasoning, then the answer in the form of the artifact."""

    SPEC = chain_of_thought.ChainOfThought

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`."""
        messages = thinking.compose(thinking.prompt("reason"))
        _, reasoning = await thinking.ask("turn.0/reason", messages, structured=False)
        asked = thinking.prompt("answer", output_format=thinking.output_format)
        return await thinking.ask("turn.0", (*messages, reasoning.message, {"role": "user", "content": asked}))
