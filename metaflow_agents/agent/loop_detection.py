"""`stuck:`: what comes again and again is noticed, and answered step by step: a hint, a reflection, a person, the end.

The signs are exact and follow from the journal alone: the same call of a tool with the same result, a strategy's own action (a
trial, a task, a plan) that failed in the same way, the same complaint of a check or a review, and over rounds (`rounds.py`) an
artifact that does not change and a test that keeps failing. Times and addresses in memory are left out of it. The ladder is
that of Reflexion (Shinn et al., NeurIPS 2023: the same action and observation again and again is the sign of a trial gone
wrong, and a reflection the answer), with a person above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metaflow_agents.agent.strategies.lasting import lasting
from metaflow_agents.agent.strategies.port import Messages, Thinking
from metaflow_agents.errors import Stuck
from metaflow_agents.models.port import ToolCall
from metaflow_agents.prompts import from_package
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Question
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.step import Step

Noted = Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Puts into the journal what is the matter, below a branch of a key, and gives it with `did`: what was done so far, in words."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that was the same `times` times, in words."""

    times: int
    told: str


class Ladder:
    """What is done about signs in one attempt. `dry`: nothing, since what stands in for answers is always the same."""

    def __init__(self, step: Step, name: str, desk: QuestionBroker, noted: Noted, *, dry: bool = False) -> None:
        self._step, self._name, self._desk, self._noted, self._dry = step, name, desk, noted, dry
        self._complaints: list[str] = []

    @property
    def watches(self) -> bool:
        """Whether anything is noticed at all."""
        return self._step.stuck is not None and not self._dry

    async def climb(self, thinking: Thinking, branch: str, signs: Sequence[Sign], untrusted: str = "",
                    advice: str = "") -> str:
        """What the role is told, empty where nothing is the matter. Raises Stuck at the last rung, Waiting for a person.

        The rung is that of the worst sign: the first one at `after` times, the next one at one time more. `advice`: what a hint
        says is to be done.
        """
        spec = self._step.stuck
        worst = max((sign.times for sign in signs), default=0)
        if spec is None or worst < spec.after or not self.watches:
            return ""
        rung = spec.then[min(worst - spec.after, len(spec.then) - 1)]
        told = "; ".join(sign.told for sign in signs if sign.times >= spec.after)
        noted = await self._noted(f"{branch}/stuck", thinking.key, {"times": worst, "rung": rung, "told": told})
        said, did = "", noted.get("did", "")
        if rung == "stop":
            raise Stuck(f"stuck: {told}")
        if rung == "reflect":
            asked = thinking.compose(from_package("stuck", {"part": "reflect", "told": told, "said": "", "did": did}))
            said = (await thinking.ask(f"{branch}/reflect", asked, structured=False)).reply.said
        elif rung == "ask":
            text = f"`{thinking.role}` is stuck in `{self._name}`: {told}. What shall it do?"
            answer = await self._desk.ask(Question(
                key=f"{thinking.key}/{branch}/ask", kind="text", role=thinking.role, step=self._name, untrusted=untrusted,
                text=f"{text}\n\n{did}" if did else text, on_no_answer=self._step.on_no_answer))
            said = answer.text
        return from_package("stuck", {"part": rung, "told": told, "said": said, "did": "", "advice": advice}).strip()

    def complained(self, told: str) -> list[Sign]:
        """The sign of what a check or a review says, where it said the same the last time."""
        self._complaints.append(told)
        times = next((back for back, one in enumerate(reversed(self._complaints)) if one != told), len(self._complaints))
        return [Sign(times, f"what was said of your answer was the same {times} times in a row")]


class Acts:
    """What was done on one branch, and what came of it: tool calls, and actions of its strategy's own that failed."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, bytes, str]] = Counter()
        self._failed: Counter[tuple[str, bytes]] = Counter()

    def done(self, calls: Sequence[ToolCall], results: Messages) -> list[Sign]:
        """The signs of one turn's calls with the messages of their results."""
        signs = []
        for call, result in zip(calls, results, strict=True):
            arguments: Any = call.arguments if isinstance(call.arguments, str) else dict(call.arguments)
            same = (call.name, canonical(arguments), lasting(str(result["content"])))
            self._seen[same] += 1
            times = self._seen[same]
            signs.append(Sign(times, f"`{call.name}` was called {times} times with the same arguments, and gave the same result"))
        return signs

    def failed(self, what: str, came: Sequence[Any]) -> list[Sign]:
        """The signs of what was tried at once and did not help. The same counts once."""
        signs = []
        for text in dict.fromkeys(canonical(lasting(one)) for one in came):
            self._failed[what, text] += 1
            times = self._failed[what, text]
            signs.append(Sign(times, f"{what} failed {times} times in the same way"))
        return signs
