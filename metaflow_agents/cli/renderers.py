"""What is shown while a run is under way: a live board on a terminal, plain lines elsewhere, nothing with `--json`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol

from metaflow_agents.cli.output import flush, page, say
from metaflow_agents.schema.event import Decided, Event, Finished, Inner, Observed, Settled
from metaflow_agents.schema.keys import REPAIRED, parse_activation
from metaflow_agents.terminal.printing import redacted, shown
from metaflow_agents.views.calling import Calling
from metaflow_agents.views.event_log import minute
from metaflow_agents.views.gave import is_check
from metaflow_agents.views.page import Page
from metaflow_agents.views.pulse import Pulse

if TYPE_CHECKING:
    from rich.live import Live

    from metaflow_agents.views.board import Board

_SHOW_CURSOR = b"\x1b[?25h\r\n"
_QUIET = ("reserved",)                                        # each call is told by what comes of it


def matters(event: Event) -> bool:
    """Whether an event gets a plain line: calls of models don't, nor that a step without items is done, which its commit says,
    nor that a tool is allowed, which its call says. A repair of an answer does, a check, and a try that failed and is made
    again.
    """
    while isinstance(event, Inner):
        event = event.event
    if isinstance(event, Finished):
        return bool(parse_activation(event.activation).item is not None or event.reused_from or event.why)
    if isinstance(event, Decided):
        return event.verdict != "allow"
    if isinstance(event, Settled):
        return event.again
    if isinstance(event, Observed):
        return event.key.endswith(REPAIRED) or is_check(event.key)
    return event.kind not in _QUIET


class Face(Protocol):
    """Hears every event, and is asked to draw a few times a second."""

    def hear(self, event: Event) -> None:
        """One more event."""
        ...

    def recall(self, event: Event) -> None:
        """One of an earlier sitting, all of which come first."""
        ...

    def draw(self) -> None:
        """Brings what is seen up to date."""
        ...

    def note(self, text: str) -> None:
        """A word to the person, now."""
        ...

    def pause(self) -> None:
        """Nothing is shown from here on: a person is being asked something."""
        ...

    def go_on(self) -> None:
        """Shown again, with what happened since."""
        ...

    def close(self) -> None:
        """Leaves the terminal as it was. May be called again."""
        ...


class SilentFace:
    """For programs that read the result."""

    def hear(self, event: Event) -> None:
        """Nothing."""

    def recall(self, event: Event) -> None:
        """Nothing."""

    def draw(self) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """On stderr."""
        say([f"sop: {text}"], sys.stderr)

    def pause(self) -> None:
        """Nothing."""

    def go_on(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainFace(SilentFace):
    """A line for each event that matters, without colour, and one a minute where nothing happens."""

    def __init__(self, read_by: dict[str, list[str]], blob: Callable[[str], Any], pulse: Pulse,
                 calling: Calling | None = None, commands: Container[str] = ()) -> None:
        self._read_by, self._blob, self._pulse, self._calling, self._commands = read_by, blob, pulse, calling, commands
        self._held: list[str] | None = None

    def hear(self, event: Event) -> None:
        """Its line, at once; while it is paused, later."""
        if self._calling is not None:
            self._calling.apply(event)
        if matters(event):
            told = minute(event.model_dump(mode="json", by_alias=True), self._read_by, self._blob, self._commands)
            line = told.line(Page())
            self._pulse.heard()
            if self._held is not None:
                self._held.append(line)
            else:
                say([line])
                flush()

    def draw(self) -> None:
        """What is under way, where nothing was told for a minute; not while a person is asked."""
        line = None if self._held is not None else self._pulse.line()
        if line is not None:
            say([line])
            flush()

    def pause(self) -> None:
        """Lines are held back."""
        self._held = self._held or []

    def go_on(self) -> None:
        """They are told now."""
        held, self._held = self._held, None
        say(held or [])
        flush()

    def close(self) -> None:
        """What was held back."""
        self.go_on()


class LiveFace:
    """The board, drawn over itself until the run rests, then gone.

    `made` makes what draws: one for each stretch between questions, for it draws over as many lines as it drew last, and
    after a question these are what the person read and typed.
    """

    def __init__(self, board: Board, made: Callable[[], Live]) -> None:
        self._board, self._made, self._said, self._paused = board, made, "", False
        self._drawing = False
        self._live = made()
        self._live.start()

    def hear(self, event: Event) -> None:
        """The board hears it; it is drawn with the next `draw`."""
        self._board.apply(event)

    def recall(self, event: Event) -> None:
        """The board shows the whole run."""
        self.hear(event)

    def draw(self) -> None:
        """The board as it stands, as large as the terminal is now."""
        from rich.text import Text

        if self._paused:
            return
        console = self._live.console
        seen = Page(width=console.width, colour=page().colour)
        lines = [redacted(line) for line in self._board.lines(seen, time.time(), console.height - (2 if self._said else 0))]
        if self._said:
            lines += ["", seen.paint(shown(redacted(self._said)), "yellow")]
        self._drawing = True
        try:
            self._live.update(Text.from_ansi("\n".join(lines), no_wrap=True), refresh=True)
        finally:
            self._drawing = False

    def note(self, text: str) -> None:
        """Under the board."""
        self._said = text
        self.draw()

    def pause(self) -> None:
        """The board goes."""
        self._paused = True
        self._live.stop()

    def go_on(self) -> None:
        """It is drawn anew, below what stands there."""
        self._paused = False
        self._live = self._made()
        self._live.start()
        self.draw()

    def close(self) -> None:
        """The board goes, the cursor comes back. In the middle of a drawing, which is where a signal may come, what rich writes
        would wait for the drawing's end: then only the cursor comes back, and the board stays.
        """
        if self._drawing:
            os.write(sys.stdout.fileno(), _SHOW_CURSOR)
        else:
            self._live.stop()


def shows_board(*, json: bool, spoken: bool) -> bool:
    """Whether stdout is a terminal on which a board is drawn; `spoken`: a person answers there, and is not drawn over."""
    if json or spoken or not sys.stdout.isatty():
        return False
    from rich.console import Console

    return not Console().is_dumb_terminal


def live_face(board: Board) -> LiveFace:
    """The board on this terminal."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, markup=False, emoji=False)
    return LiveFace(board, lambda: Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop"))
