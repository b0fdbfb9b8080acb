"""`use: draw`: a picture of a word, in letters. It notes each call in a file, and waits where it is asked to."""

import asyncio
from pathlib import Path
from typing import Any

from pydantic import Field

from metaflow_agents.schema.model import Value
from metaflow_agents.steps.executor import Executor, Job


class Canvas(Value):
    """What `with` holds."""

    word: str
    width: int = Field(3, ge=1, le=80)
    log: str = Field("", description="a file to which a line is added for each call")
    hold: str = Field("", description="a file: nothing is drawn while it is there")


class Draw(Executor[Canvas]):
    """Fits the port: one method."""

    SPEC = Canvas

    async def make(self, job: Job) -> Any:
        if self.given.log:
            with Path(self.given.log).open("a", encoding="utf-8") as log:
                log.write(f"{job.key}\n")
        while self.given.hold and Path(self.given.hold).exists():
            await asyncio.sleep(0.01)
        return "\n".join([self.given.word.upper() * self.given.width, *(f"{name}: {value}" for name, value in job.reads.items())])
