"""What `--from RUN` would do a second time: a person is asked before an effect that happens once is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from metaflow_agents.engine.earlier_effects import EarlierEffects
from metaflow_agents.errors import AttemptFailed, Halted
from metaflow_agents.journal.journal import Journal
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.binary import announced
from metaflow_agents.schema.event import Asked, EarlierEffect
from metaflow_agents.schema.model import canonical, digest

EARLIER = "/again"
"""What the key of such a question has behind that of the call: `pay@1~0/call/again`."""
TAKE, AGAIN, STOP = "take", "again", "stop"
_MOST = 400                         # characters of arguments, and of what a call gave, that a question tells


class Repeats:
    """Asks about calls that an earlier run made. `prefix`: of a sub-SOP, what its keys begin with in the run's journal."""

    def __init__(
        self, desk: QuestionBroker, effects: EarlierEffects | None, masked: Callable[[str], str], prefix: str = ""
    ) -> None:
        self._desk, self._effects, self._masked, self._prefix = desk, effects, masked, prefix

    async def settled(self, key: str, tool: str, what: str, arguments: bytes, *, role: str, step: str,
                      gives: dict[str, Any] | None) -> EarlierEffect | Answer | None:
        """Whether a call that may happen once only is made: None where it is. Else what of the earlier run stands in its place,
        or, where nobody knew whether it had happened there, the answer of the person who says that it has.

        `arguments` are packed; `what` names the call for people. Raises Waiting, Halted where the person stops the run, and
        AttemptFailed where an answer can't be followed since the earlier run is gone.
        """
        found = None if self._effects is None else self._effects.find(self._prefix + key, tool, digest(arguments))
        asked = f"{key}{EARLIER}"
        if self._effects is None or found is None:
            said = self._desk.known(asked)
            if said is not None and said.text != AGAIN and said.verdict != "no":
                earlier = self._desk.question(asked).earlier
                raise AttemptFailed(f"`{what}` was to stand as {earlier} made it, and that run is gone")
            return None
        self._effects.use(found, self._prefix + key)
        same = found.arguments == digest(arguments)
        question = self._question(asked, found, what, same=same, role=role, step=step, gives=gives).model_copy(
            update={"tool": tool, "effect": "once", "earlier": found.source})
        if self._repeated(key, question):
            return None
        answer = await self._desk.ask(question)
        if question.kind == "effect":
            return answer if answer.verdict == "yes" else None
        if answer.text == STOP:
            raise Halted(f"a person stopped the run before `{what}` was done again, which {found.source} had done")
        return found if answer.text == TAKE else None

    def blobs(self, effect: EarlierEffect) -> dict[str, bytes]:
        """See `EarlierEffects`."""
        return {} if self._effects is None else self._effects.blobs(effect)

    def _repeated(self, key: str, question: Question) -> bool:
        """Whether a person said in an earlier attempt that just this is done again."""
        for other in self._desk.answered(f"{key.partition('~')[0]}~"):
            answer = self._desk.known(other) if other.endswith(EARLIER) else None
            if answer is not None and answer.text == AGAIN and self._desk.question(other).text == question.text:
                return True
        return False

    def _question(self, key: str, effect: EarlierEffect, what: str, *, same: bool, role: str, step: str,
                  gives: dict[str, Any] | None) -> Question:
        run, _, call = effect.source.partition(":")
        with_ = "the same arguments" if same else f"other arguments: {self._told(effect.arguments)}"
        if not effect.payload:
            means = "yes: it is not done, and the role is told so" if role else \
                "yes, and what it gave: it is not done, and the step goes on with that"
            return Question(key=key, kind="effect", role=role, step=step, action=what,
                            answer_schema=None if role else gives,
                            text=f"In run `{run}` this was under way ({call}), with {with_}, and nobody knows what became of it. "
                                 f"Has it happened? ({means}; no: it is done now)")
        who = "the role is told" if role else "the step goes on with"
        return Question(
            key=key, kind="choice", role=role, step=step, action=what, choices=(TAKE, AGAIN, STOP), default=TAKE if same else "",
            text=f"Run `{run}` has done this already ({call}), with {with_}. It gave: {self._told(effect.payload)}\n"
                 f"{TAKE}: it is not done again, and {who} what it gave then\n{AGAIN}: it is done now, a second time\n"
                 f"{STOP}: the run stops here; a resume asks again\n"
                 "(Nothing is asked where its `effect` is `none` or `idempotent`.)")

    def _told(self, name: str) -> str:
        """A value of the earlier run, masked, in a line."""
        value = {} if self._effects is None else self._effects.value(name)
        text = self._masked(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        line = " ".join(text.split())
        return (line if len(line) <= _MOST else f"{line[:_MOST]}…") or "nothing"


def asked_in(journal: Journal) -> Iterator[tuple[str, str]]:
    """The questions of this kind that a run has asked: the key, and the call of the earlier run."""
    for _, event in journal.events(Asked):
        if event.key.endswith(EARLIER):
            yield event.key, Question.model_validate_json(journal.blob(event.question)).earlier


def arguments_told(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function as the journal keeps them: of what is long its digest, of files what they are. The name of the
    run is no part of them: it is another one in each.
    """
    found: dict[str, Any] = {}
    for name, value in sorted(arguments.items()):
        plain = announced(value)
        if name == "run" and isinstance(plain, dict):
            plain.pop("name", None)
        packed = canonical(plain)
        found[name] = plain if len(packed) <= _MOST else {"sha256": digest(packed), "bytes": len(packed)}
    return found
