"""Trials, each of them anew; what went wrong with one is put into words, and these stand in the prompt of the next.

Source: Shinn et al., "Reflexion: Language Agents with Verbal Reinforcement Learning" (NeurIPS 2023): actor, evaluator and
self-reflection, over a memory of the last one to three reflections. A trial that ends as the one before it did ends it all: the
paper stops a trajectory where the same action gives the same observation. Where the step says what is done about being stuck,
that is done in place of it.
"""

from __future__ import annotations

from typing import Any

from metaflow_agents.agent.strategies.lasting import lasting
from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking, Verdict, above
from metaflow_agents.errors import AnswerInvalid, AttemptFailed
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.strategies import reflexion


class ReflexionStrategy(Strategy[reflexion.Reflexion]):
    """Trial, evaluation, lesson; until a trial is good, they are used up, or one repeats the one before it."""

    SPEC = reflexion.Reflexion

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`. Below `trial.N` lie the trial's own calls, `verdict` and `lesson`."""
        lessons: list[str] = []
        before: Any = None
        hint = ""
        for number in range(1, self.given.trials + 1):
            branch = f"trial.{number}"
            kept = lessons[-self.given.lessons:]
            async with thinking.apart(branch) as trial:
                said = await trial.ask("turn.0", trial.compose(hint + trial.prompt("trial", lessons=kept,
                                                                                   output_format=trial.output_format)))
                verdict = await trial.judged("verdict", self.given.evaluator, said.reply)
                answer = _answer(trial, said)
                outcome = [canonical(answer), lasting(verdict.told)]
                stuck = outcome == before and not thinking.watched
                if verdict.ok or number == self.given.trials or stuck:
                    thinking.take(trial)
                    return await self._ended(thinking, said, verdict, number, stuck=stuck)
            before = outcome
            hint = above(await thinking.failed(branch, "a trial", [[answer, verdict.told]]))
            asked = thinking.prompt("reflect", answer=answer, told=verdict.told, lessons=kept)
            _, reply = await thinking.ask(f"{branch}/lesson", thinking.compose(asked), structured=False)
            lessons.append(reply.said.strip())
            thinking.learn(lessons[-1])
        raise AssertionError("a trial is the last one")

    async def _ended(self, thinking: Thinking, said: Said, verdict: Verdict, trials: int, *, stuck: bool) -> Said:
        """The last trial's answer, and a note why it was the last. Raises AttemptFailed where it is not good enough."""
        why = "the trial is good" if verdict.ok else \
            "stuck: the same answer got the same verdict as in the trial before" if stuck else "all trials are used up"
        await thinking.note("trials", {"trials": trials, "good": verdict.ok, "ended": why, "told": verdict.told})
        if verdict.ok or self.given.unsolved == "last":
            return said
        raise AttemptFailed(f"no trial of {trials} was good ({why}); of the last one: {verdict.told} "
                            "(`unsolved: last` takes its answer as it is)")


def _answer(thinking: Thinking, said: Said) -> Any:
    """What a trial made, as a prompt shows it: the artifact's value, or the words of what is not in its form."""
    try:
        return thinking.value(said.reply)
    except AnswerInvalid:
        return said.reply.said
