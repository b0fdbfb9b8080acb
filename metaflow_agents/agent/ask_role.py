"""`ask_role`: a role puts a question to another one, which answers from what it knows and remembers (`talks_to:`).

Question and answer go over the bus. Whoever is asked has no tools and asks nobody, so that no question leads to another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from metaflow_agents.errors import did_you_mean
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.caps import ROLE_QUESTIONS
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, ToolResult

Exchange = tuple[str, str]
"""What was asked, and what was answered."""


@dataclass(frozen=True, slots=True)
class RoleQuestion:
    """One question. `key`: of the tool call; `before`: what the same role was asked earlier in the activation; `untrusted`: what
    whoever asks has read from outside so far.
    """

    by: str
    to: str
    text: str
    key: str
    before: Sequence[Exchange] = ()
    untrusted: str = ""


Consult = Callable[[RoleQuestion], Awaitable[ToolResult]]
"""Has a role answer a question."""


@dataclass(frozen=True, slots=True)
class _Said:
    """One question that was answered: in which turn, at which place in it."""

    turn: str
    place: int
    role: str
    exchange: Exchange


class _Asking(Arguments):
    role: str = Field(description="who is asked")
    question: str = Field(min_length=1, description="what you want to know, with all that has to be known to answer it")


class AskRole(BuiltIn[_Asking]):
    """Ask another role. It answers from what it knows and remembers; it sees neither your task nor your files."""

    name: ClassVar[str] = "ask_role"
    free = True                     # that the step names whom it talks to is the permission
    takes = _Asking

    def __init__(self, by: str, roles: Mapping[str, str], consult: Consult) -> None:
        self._by, self._roles, self._consult = by, dict(roles), consult
        self._said: list[_Said] = []
        self._begun = 0
        listed = "; ".join(f"`{name}`: {profile}" if profile else f"`{name}`" for name, profile in roles.items())
        self.__dict__["description"] = f"{' '.join((AskRole.__doc__ or '').split())} There is: {listed}."

    def would(self, given: _Asking) -> Action:
        """It reads what a role knows."""
        return Action("read", "")

    async def do(self, given: _Asking, situation: Situation) -> ToolResult:
        """What the role says."""
        if given.role not in self._roles:
            return ToolResult(f"there is no role `{given.role}` to be asked: {did_you_mean(given.role, self._roles)}", error=True)
        if self._begun >= ROLE_QUESTIONS:
            told = f"you have asked {ROLE_QUESTIONS} questions, and there are no more: go on with what you know"
            return ToolResult(told, error=True)
        self._begun += 1
        result = await self._consult(RoleQuestion(
            self._by, given.role, given.question, situation.key, self._before(situation.key, given.role), situation.untrusted))
        self._keep(situation.key, given.role, given.question, result.text)
        return result

    def replayed(self, key: str, arguments: Mapping[str, object], text: str) -> None:
        """A question that was answered before the run was gone on with."""
        self._begun += 1
        self._keep(key, str(arguments.get("role")), str(arguments.get("question")), text)

    def _keep(self, key: str, role: str, question: str, answer: str) -> None:
        turn, _, place = key.rpartition("/tool.")
        self._said.append(_Said(turn, int(place), role, (question, answer)))

    def _before(self, key: str, role: str) -> list[Exchange]:
        """What this role was asked in earlier turns, in their order; those of one turn are put side by side, and know nothing of
        each other.
        """
        turns = list(dict.fromkeys(said.turn for said in self._said))
        found = sorted(self._said, key=lambda said: (turns.index(said.turn), said.place))
        return [said.exchange for said in found if said.role == role and said.turn != key.rpartition("/tool.")[0]]
