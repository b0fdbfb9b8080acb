"""The tool port: what a role is told of a tool, what a call of it would do, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from metaflow_agents.policy.action import Action
from metaflow_agents.schema.tools import Effect

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave. `text` is what the role is told; `error`: it went wrong, and `text` says how to do better.

    `untrusted`: where the text came from, if from outside the user (`fetched from https://…`); empty: it did not.
    `written` (path → bytes) and `deleted`: what it did to the files of its activation.

    For steps that call it without a role: `content` is what it gave without the words that frame it for a role (None: `text`),
    `lacks` why that is not the whole (it was cut, is no text, breaks the tool's own description), empty where it is. `unknown`:
    of an error, whether it had its effect is not known.
    """

    text: str
    error: bool = False
    untrusted: str = ""
    written: Mapping[str, bytes] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    content: str | None = field(default=None, compare=False)       # two results are equal where a role sees no difference
    lacks: str = field(default="", compare=False)
    unknown: bool = field(default=False, compare=False)


class Situation(Protocol):
    """What a tool is given of the activation in which it is called."""

    @property
    def key(self) -> str:
        """The call's key in the journal."""
        ...

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files that the activation sees, with what it has written so far: path → bytes."""
        ...

    @property
    def patterns(self) -> tuple[str, ...]:
        """The path patterns to which what it writes is confined; empty: it makes no files."""
        ...

    @property
    def untrusted(self) -> str:
        """What the activation has read from outside the user so far; empty: nothing."""
        ...

    @property
    def denied(self) -> tuple[str, ...]:
        """Programs that the policy denies whatever their arguments are, as `Sandbox.run` takes them."""
        ...

    async def packages(self) -> Path | None:
        """The environment of packages that its step names; None: it names none. Raises AttemptFailed where it can't be made."""
        ...

    async def kept(self, name: str, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """What the activation keeps under a name until it ends: opened at the first asking, left with the activation."""
        ...

    def earlier(self, tool: str) -> tuple[Mapping[str, Any], ...]:
        """The arguments of the calls of a tool in this activation that ended before the run was gone on with, in order: of those
        that were carried out.
        """
        ...

    def files_first(self, tool: str) -> Mapping[str, bytes]:
        """`files` as the first of these calls saw them; as they are, where there was none."""
        ...

    async def granted(self, action: Action) -> None:
        """Asks the policy about a further action that the call turns out to take. Raises AnswerInvalid: refused."""
        ...


class Tool(Protocol):
    """Something that a role may call."""

    @property
    def name(self) -> str:
        """As SOPs and policies spell it: `read`, `convert`, `github.search_issues`."""
        ...

    @property
    def description(self) -> str:
        """What roles are told it is for."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments, an object."""
        ...

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """What a second call with these arguments would do."""
        ...

    def action(self, arguments: Mapping[str, Any]) -> Action:
        """What a call would do, as the policy judges it. Raises AnswerInvalid where the arguments make no sense."""
        ...

    async def call(self, arguments: Mapping[str, Any], situation: Situation) -> ToolResult:
        """Do it. The arguments fit the schema. What goes wrong is a `ToolResult` with `error`, told to the role.

        Raises RunError only where the machine is at fault, and no other call would go better.
        """
        ...


class ToolSource(Protocol):
    """Where tools come from: a server, a service, a set of functions. Opened once for a run, and closed with it."""

    @property
    def name(self) -> str:
        """The server's or service's name in the SOP; its tools are called `NAME.TOOL`."""
        ...

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Starts what it needs, at the first use at the earliest; leaving it ends all that it started."""
        ...

    async def tools(self) -> list[Tool]:
        """Its tools as they are now. Raises RunError, naming the server, where it can't be asked."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What sources are made with. `secret(NAME)` gives a declared secret's value; raises UsageError where it is not set.

    `folder`: the SOP's. `environment`: what programs may get of the user's environment: PATH and the like, no secrets.
    `masked`: blots the secrets out of a text that is told to a role or a person.
    """

    folder: Path
    secret: Callable[[str], str]
    environment: Mapping[str, str]
    masked: Callable[[str], str] = str
