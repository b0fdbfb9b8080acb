"""How an installed package shows a run while it goes on (entry points `metaflow_agents.renderers`): the port."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Stage:
    """What a renderer is given of a run.

    `run`: its name. `program`: the compiled SOP as JSON, as `sop check --json` has it under `program`. `blob(digest)`: the
    payload that an event names, as JSON; raises JournalError. `say(line)` prints a line, without secrets; what a person is asked
    is never written over. Nothing else may write to stdout.
    """

    run: str
    program: Mapping[str, Any]
    blob: Callable[[str], Any]
    say: Callable[[str], None]


class Renderer(ABC):
    """Shows one sitting of a run. All methods are called from the event loop, and must return at once.

    What one raises is told, and the run goes on with plain lines.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @abstractmethod
    def hear(self, event: Mapping[str, Any], *, earlier: bool) -> None:
        """One more event of the journal, as JSON without defaults (`docs/reference/journal.md`); `earlier`: of an earlier
        sitting, all of which come first.
        """

    def tick(self) -> None:  # noqa: B027
        """Called a few times a second, but not while a person is asked something. By default nothing."""

    def note(self, text: str) -> None:
        """A word to the person, such as that the run is being stopped."""
        self.stage.say(text)

    def close(self) -> None:  # noqa: B027
        """The run rests. Called once. By default nothing."""
