"""What a strategy is given and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from metaflow_agents.models.port import Reply

Messages = tuple[Mapping[str, Any], ...]


class Ask(Protocol):
    """Asks the role's model. `branch` is the call's path inside the activation, such as `turn.0/reason`."""

    async def __call__(self, branch: str, messages: Messages, *, structured: bool = True) -> tuple[Messages, Reply]:
        """The reply, and the conversation that led to it: the messages, and after them the tool calls on the way and their
        results. `structured`: in the form of the artifact, and with the step's tools; else free text, without any.
        """
        ...


class Strategy(Protocol):
    """A way to come from a prompt to an answer.

    The parameters of its class are those that a SOP may give. `calls: ClassVar[int]` on the class says how many model
    calls an answer takes at most; `sop check` tells no bound on the calls of a class that does not say it.
    """

    async def answer(self, ask: Ask, compose: Callable[[str], Messages], output_format: str) -> tuple[Messages, Reply]:
        """The conversation that led to the answer, and the answer.

        `compose(ending)` gives the messages of the activation, the last of them ending with the given text.
        `output_format` says the form of the answer. The answer's own call has the branch `turn.0`.
        """
        ...
