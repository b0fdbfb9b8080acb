"""What every strategy's parameters have in common, and what their texts refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema.caps import ANSWER_REPAIRS
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Expression, Name

Kind = Literal["role", "expression", "template", "command"]


@dataclass(frozen=True, slots=True)
class Refers:
    """Marks what a parameter's text is. `also`: names that an expression or a template sees besides what its step reads;
    `gives`: what an expression has to give, empty: anything.
    """

    to: Kind
    also: tuple[str, ...] = ()
    gives: Literal["", "list", "numbers"] = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A text among the parameters that refers to something: where it stands below them, what it is, and the text.

    Of a command that is written as a list each argument is one.
    """

    place: tuple[str | int, ...]
    refers: Refers
    text: str


RoleName = Annotated[Name, Refers("role")]
AnswerExpression = Annotated[Expression, Refers("expression", ("answer",))]
"""An expression over what the step reads and `answer`, which is the artifact that an answer would become."""


class StrategySpec(Value):
    """The parameters of a strategy, as a SOP writes them.

    `PROMPTS` maps each prompt of it that a SOP may replace by a template of its own to the names that this template sees
    besides what the step reads.
    """

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {}
    TEXTS: ClassVar[dict[str, str]] = {}
    """The templates of `PROMPTS`, where they do not lie in `prompts/templates/strategies/`: those of installed packages."""
    COMMANDS: ClassVar[bool] = False
    """Whether it runs commands that no SOP wrote, for which the run needs a sandbox."""
    LEARNS: ClassVar[bool] = False
    """Whether it draws lessons, which the role's memory may keep (`lessons`)."""

    prompts: dict[str, str] = Field(default_factory=dict, description="prompt → file name of the template in its place")

    @field_validator("prompts")
    @classmethod
    def _known(cls, prompts: dict[str, str]) -> dict[str, str]:
        for name in prompts:
            if name not in cls.PROMPTS:
                mend = did_you_mean(name, cls.PROMPTS) if cls.PROMPTS else "it has none that can be replaced"
                raise PydanticCustomError("strategy", "{told}", {"told": f"there is no prompt `{name}`: {mend}"})
        return prompts

    def calls(self, answer: int) -> int | None:
        """The most model calls that one answer takes; None, which is the default: nobody says.

        `answer`: those of one answer in the form of the artifact, all its turns with tools together.
        """
        return None

    def mending(self, answer: int, *, form: bool) -> int:
        """The most model calls of a mended answer: where it lacks the artifact's form, or where a check or a review refuses it.

        `answer`: as for `calls`.
        """
        return answer

    def failures(self) -> int:
        """How often something that it did itself may fail: each is thought about where the step's `stuck` says so."""
        return 0

    def wrong_tools(self, tools: Sequence[str]) -> Iterator[tuple[str, str]]:
        """What is wrong with the tools of a step for this strategy, each with the mend."""
        return iter(())

    def writes(self) -> Iterator[tuple[str, str]]:
        """Parameters that name a file of what the step makes, each with its path."""
        return iter(())

    def references(self) -> Iterator[Reference]:
        """All texts that refer to roles, expressions, templates and commands."""
        for prompt, file in self.prompts.items():
            yield Reference(("prompts", prompt), Refers("template", self.PROMPTS[prompt]), file)
        yield from _references(self, ())


class Evaluator(Value):
    """Who says whether an answer is good: exactly one of a command, an expression, a role."""

    run: Annotated[str | Annotated[tuple[str, ...], Field(min_length=1)] | None, Refers("command")] = Field(
        None, description="a command on the answer's files: good where its exit code is 0")
    assert_: Annotated[Expression | None, Refers("expression", ("answer",))] = Field(
        None, alias="assert", description="an expression over what the step reads and `answer`")
    role: Annotated[Name | None, Refers("role")] = Field(None, description="a role that judges it")

    @model_validator(mode="after")
    def _one(self) -> Evaluator:
        if [self.run, self.assert_, self.role].count(None) != 2:
            raise PydanticCustomError("strategy", "an evaluator is exactly one of `run`, `assert` and `role`")
        return self

    @property
    def calls(self) -> int:
        """Model calls of one evaluation."""
        return TYPED_CALLS if self.role is not None else 0


TYPED_CALLS = 1 + ANSWER_REPAIRS
"""The most calls of one answer in a form of a strategy's own: it is repaired as others are."""


def _references(value: BaseModel, place: tuple[str | int, ...]) -> Iterator[Reference]:
    for name, field in type(value).model_fields.items():
        marks = [mark for mark in (*field.metadata, *_inner(field.annotation)) if isinstance(mark, Refers)]
        yield from _of(getattr(value, name), (*place, field.alias or name), marks[0] if marks else None)


def model_at(model: type[BaseModel], place: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model of the mapping that stands at a place below a model's own; None where there is none."""
    here: Any = model
    for part in place:
        if isinstance(here, type) and issubclass(here, BaseModel):
            found = [field.annotation for name, field in here.model_fields.items() if part in (name, field.alias)]
            here = found[0] if found else None
    return _model_in(here)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)


def _of(found: Any, place: tuple[str | int, ...], mark: Refers | None) -> Iterator[Reference]:
    if isinstance(found, BaseModel):
        yield from _references(found, place)
    elif isinstance(found, tuple | list):
        for index, one in enumerate(found):
            yield from _of(one, (*place, index), mark)
    elif isinstance(found, dict):
        for key, one in found.items():
            if mark is not None:                                    # the keys are what refers
                yield Reference((*place, key), mark, key)
            yield from _of(one, (*place, key), None)
    elif mark is not None and found is not None:
        yield Reference(place, mark, found)


def _inner(annotation: Any) -> Iterator[Any]:
    """The marks inside of an annotation such as `tuple[RoleName, ...] | None`."""
    for argument in get_args(annotation):
        if isinstance(argument, Refers):
            yield argument
        else:
            yield from _inner(argument)
