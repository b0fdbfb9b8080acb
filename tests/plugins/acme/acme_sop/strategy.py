"""`strategy: twice`: the answer is asked for in free words, and asked for again with these in sight."""

from metaflow_agents.agent.strategies import Said, Strategy, Thinking
from metaflow_agents.schema.strategies import StrategySpec


class TwiceSpec(StrategySpec):
    """An answer, and a second look at it."""

    def calls(self, answer: int) -> int:
        return 1 + answer


class Twice(Strategy[TwiceSpec]):
    """Fits the port: one method."""

    SPEC = TwiceSpec

    async def answer(self, thinking: Thinking) -> Said:
        messages = thinking.compose("Write what comes to mind.")
        _, draft = await thinking.ask("turn.0/draft", messages, structured=False, tools=False)
        return await thinking.ask("turn.0", (*messages, draft.message, {"role": "user", "content": "Look again, and answer."}))
