"""A renderer of an installed package, as a face of the command line; where it fails, plain lines go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from metaflow_agents.cli.output import flush, say
from metaflow_agents.cli.renderers import Face
from metaflow_agents.errors import UsageError, raised
from metaflow_agents.plugins import offered
from metaflow_agents.schema.event import Event
from metaflow_agents.views.renderer import Renderer, Stage

OWN = ("auto", "plain")
"""What this package shows itself: a board on a terminal and else lines; lines alone."""


def renderer(name: str) -> type[Renderer]:
    """The class of a renderer. Raises UsageError for one that is not installed, can't be loaded, or is none."""
    plugin = offered("renderers", name, "renderer", OWN)
    kind = plugin.load()
    if not (isinstance(kind, type) and issubclass(kind, Renderer)):
        raise UsageError(f"`{name}` (renderers) of {plugin.maker} is no subclass of `{Renderer.__module__}.Renderer`; fix or "
                         f"uninstall {plugin.distribution}")
    return kind


class InstalledFace:
    """Fits `Face`. `instead` is made, and shown, where the renderer raises."""

    def __init__(self, name: str, kind: type[Renderer], run: str, program: Mapping[str, Any], blob: Callable[[str], Any],
                 instead: Callable[[], Face]) -> None:
        self._name, self._make_instead = name, instead
        self._held: list[str] | None = None
        self._closed = False
        self._instead: Face | None = None
        self._one: Renderer | None = None

        def begin() -> None:
            self._one = kind(Stage(run, program, blob, self._say))
        self._do(begin)

    def hear(self, event: Event) -> None:
        """See `Face`."""
        self._told(event, earlier=False)

    def recall(self, event: Event) -> None:
        """See `Face`."""
        self._told(event, earlier=True)

    def draw(self) -> None:
        """See `Face`."""
        if self._instead is not None:
            self._instead.draw()
        elif self._held is None and self._one is not None:
            self._do(self._one.tick)

    def note(self, text: str) -> None:
        """See `Face`."""
        if self._instead is not None:
            self._instead.note(text)
        elif self._one is not None:
            one = self._one
            self._do(lambda: one.note(text))

    def pause(self) -> None:
        """Lines are held back."""
        self._held = self._held or []
        if self._instead is not None:
            self._instead.pause()

    def go_on(self) -> None:
        """They are printed now."""
        held, self._held = self._held, None
        say(held or [])
        flush()
        if self._instead is not None:
            self._instead.go_on()

    def close(self) -> None:
        """See `Face`."""
        self.go_on()
        if self._instead is not None:
            self._instead.close()
        elif self._one is not None and not self._closed:
            self._closed = True
            self._do(self._one.close)

    def _told(self, event: Event, *, earlier: bool) -> None:
        if self._instead is None and self._one is not None:
            one, told = self._one, event.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            self._do(lambda: one.hear({"kind": event.kind, **told}, earlier=earlier))
        if self._instead is not None:
            (self._instead.recall if earlier else self._instead.hear)(event)

    def _say(self, line: str) -> None:
        if self._held is not None:
            self._held.append(line)
        else:
            say([line])
            flush()

    def _do(self, step: Callable[[], Any]) -> None:
        try:
            step()
        except Exception as error:          # somebody else's code: the run goes on
            self._instead = self._make_instead()
            if self._held is not None:
                self._instead.pause()
            say([f"sop: the renderer `{self._name}` failed, and plain lines go on: {raised(error)}"], sys.stderr)
