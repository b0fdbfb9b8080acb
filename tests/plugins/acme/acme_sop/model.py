"""Models `parrot:NAME`: they say what they were asked last, as NAME. `parrot:mute` can't be had without a key."""

from __future__ import annotations

import asyncio
from pathlib import Path

from metaflow_agents.errors import ModelMissing
from metaflow_agents.models.port import Model, ModelRequest, ModelSetting, Reply


class Parrot:
    """Fits `Model`."""

    def __init__(self, name: str, hold: str) -> None:
        self.name, self._hold = f"parrot:{name}", hold

    async def ask(self, request: ModelRequest) -> Reply:
        while self._hold and Path(self._hold).exists():
            await asyncio.sleep(0.01)
        said = f"{self.name} says {str(request.messages[-1]['content']).split()[-1]}"
        return Reply(said, tokens_in=len(request.messages), tokens_out=1)


def make(name: str, setting: ModelSetting) -> Model:
    """What the entry point names."""
    if name == "mute" and setting.variable("PARROT_KEY") is None:
        raise ModelMissing("the model `parrot:mute` takes its key from PARROT_KEY, which is not set: `export PARROT_KEY=…`")
    return Parrot(name, setting.variable("PARROT_HOLD") or "")
