"""What a person is asked, and what they said."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from metaflow_agents.schema.model import Value, canonical, digest
from metaflow_agents.schema.tools import Effect


class Question(Value):
    """One question. `key` is that of what waits for the answer."""

    key: str
    kind: Literal["text", "approve", "choice", "action", "effect"] = Field(
        description="a `human:` step or a role's question (text, approve, choice); whether an action may be done; whether an "
                    "effect that a crash cut off has happened")
    text: str = Field(description="the question itself, as it is shown")
    role: str = Field("", description="the role that asks or acts; empty for a step's own question")
    step: str = ""
    choices: tuple[str, ...] = ()
    answer_schema: dict[str, Any] | None = Field(
        None, description="of text: what the answer has to fit; of a step's effect: what it gave; None: any text will do")
    tool: str = Field("", description="of an action: the tool")
    action: str = Field("", description="of an action: as rules spell it")
    arguments: dict[str, Any] = Field(default_factory=dict, description="of an action: what the tool would be called with")
    rule: str = Field("", description="of an action: why it is asked about")
    effect: Effect | None = None
    untrusted: str = Field("", description="what whoever asks has read from outside the user; empty: nothing")
    assumption: str = Field("", description="what the role will go on with where nobody answers (`on_no_answer: assume`)")
    on_no_answer: Literal["wait", "assume", "fail"] = "wait"
    default: str = Field("", description="of a choice: the one that is offered; empty: none is")
    earlier: str = Field("", description="of what an earlier run did: `RUN:KEY` of the call there")

    @property
    def needs_result(self) -> bool:
        """Whether "it has happened" needs what it gave: a step goes on with that; a role is told that it is lost."""
        return self.kind == "effect" and not self.role

    @property
    def packed(self) -> bytes:
        """As the journal stores it."""
        return _packed(self)

    @property
    def digest(self) -> str:
        """What tells whether an answer was given to this question, or to another one under its key."""
        return digest(self.packed)


class Answer(Value):
    """What a person said. Which fields count depends on the question's kind."""

    text: str = Field("", description="of text and choice: the answer; of approve, action and effect: a reason, told to the role")
    verdict: Literal["", "yes", "no"] = Field("", description="of approve, action (may it?) and effect (has it happened?)")
    scope: Literal["once", "run", "rule"] = Field(
        "once", description="of an allowed action: this one; every equal one in this run; all that the asking rule covers")
    arguments: dict[str, Any] | None = Field(None, description="of an action: what the tool is called with instead")
    assumed: bool = Field(False, description="nobody answered: it is an assumption")

    @property
    def packed(self) -> bytes:
        """As the journal stores it."""
        return _packed(self)


def _packed(value: Value) -> bytes:
    return canonical(value.model_dump(mode="json", exclude_defaults=True))
