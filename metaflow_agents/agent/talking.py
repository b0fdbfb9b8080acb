"""`ask_person` and `start_role`: what a role asks of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, Literal

from pydantic import Field

from metaflow_agents.agent.tool_executor import Acting, Scene
from metaflow_agents.errors import did_you_mean
from metaflow_agents.policy.action import Action
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Question
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.tools import Effect
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, ToolResult

DEEPEST = 3                         # roles that start one another

Delegate = Callable[[str, str, Scene], Awaitable[ToolResult]]
"""Has a role do a task inside a call: role, task, the call."""


class _Asking(Arguments):
    question: str = Field(min_length=1, description="what you want to know, to be answered without knowing your task")
    choices: list[str] = Field(default_factory=list, description="the answers to choose from; none: a free text")
    assumption: str = Field("", description="what you will take for the answer where nobody gives one")


class _Assuming(_Asking):
    assumption: str = Field(min_length=1, description="what you will take for the answer where nobody gives one")


class AskPerson(BuiltIn[_Asking]):
    """Ask a person. The answer may take long: ask only what you can't find out, and what would change your work."""

    name: ClassVar[str] = "ask_person"
    takes: type[_Asking] = _Asking

    def __init__(self, desk: QuestionBroker, role: str, on_no_answer: Literal["wait", "assume", "fail"]) -> None:
        self._desk, self._role, self._on_no_answer = desk, role, on_no_answer
        if on_no_answer == "assume":
            self.takes = _Assuming

    def would(self, given: _Asking) -> Action:
        """`ask_person`."""
        return Action("ask_person")

    async def do(self, given: _Asking, situation: Situation) -> ToolResult:
        """The answer, or what is assumed."""
        answer = await self._desk.ask(Question(
            key=situation.key, kind="choice" if given.choices else "text", text=given.question, role=self._role,
            step=parse_activation(situation.key).step, choices=tuple(given.choices), untrusted=situation.untrusted,
            assumption=given.assumption, on_no_answer=self._on_no_answer))
        if answer.assumed:
            return ToolResult(f"nobody answered: go on with what you said you would assume: {given.assumption}")
        return ToolResult(answer.text)


class _Starting(Arguments):
    role: str = Field(description="who does it")
    task: str = Field(min_length=1, description="what is to be done, and all that has to be known for it")


class StartRole(BuiltIn[_Starting]):
    """Give a part of your task to another role. It sees your files, has its own tools, and answers with a text."""

    name: ClassVar[str] = "start_role"
    takes = _Starting

    def __init__(self, roles: Mapping[str, str], delegate: Delegate) -> None:
        self._roles, self._delegate = dict(roles), delegate
        listed = "; ".join(f"`{name}`: {profile}" if profile else f"`{name}`" for name, profile in roles.items())
        self.__dict__["description"] = f"{' '.join((StartRole.__doc__ or '').split())} There is: {listed}."

    def effect(self, arguments: Mapping[str, object]) -> Effect:
        """What it does inside is journalled call by call."""
        return "idempotent"

    def would(self, given: _Starting) -> Action:
        """`start_role(ROLE)`."""
        return Action("start_role", given.role)

    async def do(self, given: _Starting, situation: Situation) -> ToolResult:
        """What the role says, and what it wrote."""
        if given.role not in self._roles:
            return ToolResult(f"there is no role `{given.role}`: {did_you_mean(given.role, self._roles)}", error=True)
        if not isinstance(situation, Scene):
            raise TypeError("a role is started from an activation")
        if _depth(situation.acting) >= DEEPEST:
            return ToolResult(f"roles start one another {DEEPEST} deep at most: do it yourself", error=True)
        return await self._delegate(given.role, given.task, situation)


def _depth(acting: Acting) -> int:
    return 1 if acting.above is None else 1 + _depth(acting.above)
