"""What a strategy is given and what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from metaflow_agents.models.port import Reply, ToolCall
from metaflow_agents.schema.strategies import Evaluator, StrategySpec

Messages = tuple[Mapping[str, Any], ...]
P = TypeVar("P", bound=StrategySpec)


class Said(NamedTuple):
    """An answer: the conversation that led to it (tool calls and their results included), and the reply."""

    messages: Messages
    reply: Reply


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is good, and in words why not."""

    ok: bool
    told: str = ""


class Ran(NamedTuple):
    """What came of a command: how it ended, the end of what it said, the text of the file that was asked for if there is one."""

    exit_code: int
    timed_out: bool
    stderr: str
    written: str | None


class Thinking(Protocol):
    """What a strategy thinks with: the activation's prompts, its role's model and tools.

    Every call has a branch: its path below `key`, such as `turn.0/reason`, and no two calls may have the same. What a call
    gave is in the journal under it, so that a resume comes to the same point by the same way; a strategy must decide by nothing
    else than what it is given here. Calls may be made side by side.
    """

    key: str
    """Of the activation, and of the branch that this one is."""
    role: str
    task: str
    """What the role is asked to do, in the words of its prompt; empty where its step has neither task nor item."""
    scope: Mapping[str, Any]
    """What the step's expressions and templates may name."""
    output_format: str
    """What the role is told of the form of its answer; the schema of data goes with the request (`ask`)."""
    dry: bool
    """Answers are those of the `dry` model, which stand in for real ones, and no command is carried out."""

    def described(self, role: str) -> Mapping[str, Any]:
        """What a role is: `profile`, `goal`, and the names of its `tools`."""
        ...

    @property
    def form_in_words(self) -> str:
        """`output_format` with the schema of data, for an answer that comes as a `turn`."""
        ...

    @property
    def plain(self) -> bool:
        """Whether any words whatever are an answer: of a text, and of files as soon as tools wrote some."""
        ...

    def compose(self, ending: str) -> Messages:
        """The messages of the activation, the last of them ending with the given text."""
        ...

    def alone(self, ending: str) -> Messages:
        """The role's own prompt and the text, without the task, what the step reads and what the role remembers."""
        ...

    def prompt(self, name: str, **more: Any) -> str:
        """A prompt of the strategy, rendered: the SOP's own template or the package's. It sees the step's scope and `more`."""
        ...

    def evaluate(self, expression: str, **more: Any) -> Any:
        """An expression of the strategy's parameters over the step's scope and `more`. Raises AttemptFailed."""
        ...

    async def ask(self, branch: str, messages: Messages, *, structured: bool = True, tools: bool = True,
                  temperature: float | None = None) -> Said:
        """The role's answer. `structured`: in the form of the artifact, and by way of the step's tools, if `tools`; else free
        text, without any. `temperature`: in place of the model's own.
        """
        ...

    async def typed(self, branch: str, messages: Messages, form: Mapping[str, Any],
                    faults: Callable[[Any], Sequence[str]] | None = None, *, tools: bool = False,
                    temperature: float | None = None) -> Any:
        """An answer in a form of the strategy's own, in the shorthand of schemas (`{vote: integer}`), repaired like others.

        What it has to look like is said at the end of the last message. `faults` says what else is wrong with a value. `tools`:
        by way of the role's tools, where it has any. `temperature`: in place of the model's own. Raises AnswerInvalid where
        repairs don't help.
        """
        ...

    async def turn(self, branch: str, messages: Messages, *, tools: bool = True,
                   also: Sequence[Mapping[str, Any]] = (), one: bool = False) -> Reply:
        """One reply, which may call tools, and none of them is carried out yet; for strategies that go their own way with
        tools (`act`). Its answer is free text. `also`: tools of the strategy's own, offered besides; `act` does not know them.
        `one`: it is to call one tool, and an endpoint is told so.
        """
        ...

    async def act(self, branch: str, calls: Sequence[ToolCall]) -> Messages:
        """Carries out tool calls of the turn at that branch, and gives the messages with their results."""
        ...

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """The tools at hand: `name`, `description`, `parameters`."""
        ...

    def value(self, reply: Reply) -> Any:
        """The artifact's value that an answer would become, as templates see it (of files: path → text).
        Raises AnswerInvalid with what is wrong with it.
        """
        ...

    async def judged(self, branch: str, evaluator: Evaluator, reply: Reply) -> Verdict:
        """What an evaluator says of an answer. One that is not in the artifact's form is not good."""
        ...

    async def run(self, branch: str, argv: Sequence[str], *, files: Mapping[str, bytes], timeout: float,  # noqa: ASYNC109
                  collect: str) -> Ran:
        """A command of the strategy's own, in the run's sandbox on exactly these files; `collect` names one to bring back.

        `timeout` in seconds. What came of it is in the journal: a resume does not run it again.
        """
        ...

    @property
    def watched(self) -> bool:
        """Whether the step says what is done where the same comes again and again (`stuck`)."""
        ...

    async def failed(self, branch: str, what: str, came: Sequence[Any], advice: str = "") -> str:
        """What is told where something that the strategy did, and that did not help, was the same before: as the step's `stuck`
        says, a hint, a reflection or a person's word; empty where nothing is to be told.

        `what`: in words what was tried (`a trial`). `came`: what is compared, as data: the action and what was observed, one
        for each that was tried at once. What the tools did is noticed without this. `advice`: what a
        hint says in place of "do something else". Raises Stuck, Waiting.
        """
        ...

    def learn(self, lesson: str) -> None:
        """Hands over what the role is to do differently the next time: it remembers that once the activation is done, where its
        memory keeps `lessons`. The strategy's spec says that it `LEARNS`.
        """
        ...

    async def note(self, branch: str, told: Mapping[str, Any]) -> None:
        """Puts into the journal how it was decided, for people who read the run's log."""
        ...

    def apart(self, branch: str, role: str = "") -> AbstractAsyncContextManager[Thinking]:
        """The same below a branch of its own: with tools that work on files of its own, or another role's model and tools.

        What its tools wrote counts only where it is `taken`.
        """
        ...

    def take(self, other: Thinking) -> None:
        """Goes on from where `other`, which was `apart`, stands: its files and what it read. Where that is another role's, the
        answer is its own: what is wrong with it goes back to that role. Taken before it is left.
        """
        ...

    def join(self, other: Thinking) -> tuple[str, ...]:
        """Adds to the files here what was done to them on `other`, which was `apart` from the same place as this one, or from
        this one. Gives the paths to which something else was done here: they are now as `other` has them.
        """
        ...


def above(hint: str) -> str:
    """What `Thinking.failed` gives, as it stands above a prompt."""
    return f"{hint.strip()}\n\n" if hint else ""


class Strategy(ABC, Generic[P]):
    """A way to come from a prompt to an answer.

    `SPEC` holds the parameters that a SOP may give, a subclass of `StrategySpec`; its `calls` says how many model calls an
    answer takes at most. Package prompts lie in `prompts/templates/strategies/`, named `STRATEGY.PROMPT.md.j2`.
    """

    SPEC: ClassVar[type[StrategySpec]]

    def __init__(self, given: P) -> None:
        self.given = given

    @classmethod
    def missing(cls) -> str:
        """What it needs and is not installed here, with the mend; empty where nothing is missing. A run is refused for it."""
        return ""

    @abstractmethod
    async def answer(self, thinking: Thinking) -> Said:
        """The conversation that led to the answer, and the answer. Where it is one call its branch is `turn.0`."""

    async def mended(self, thinking: Thinking, branch: str, messages: Messages, *, form: bool) -> Said:
        """The answer after one that can't be taken: `messages` end with what is wrong with it. `form`: it is not in the
        artifact's form; else its check or review refuses it. All calls lie at `branch` or below.
        """
        return await thinking.ask(branch, messages)
