"""`sop run --progress dots`: a line with a dot for each step that is done."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from metaflow_agents.views.renderer import Renderer, Stage


class Dots(Renderer):
    """Fits the port: one method, and here the end."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._done = 0

    def hear(self, event: Mapping[str, Any], *, earlier: bool) -> None:
        if event["kind"] == "committed" and event.get("firing"):
            if os.environ.get("DOTS_BREAK"):
                raise ValueError("no ink")
            self._done += 1
            if not earlier:
                self.stage.say("." * self._done)

    def close(self) -> None:
        self.stage.say(f"{self.stage.run}: {self._done} of {len(self.stage.program['sop']['steps'])}")
