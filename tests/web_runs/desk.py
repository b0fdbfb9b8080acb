"""Who stands in for models in the runs that the browser tests look at: each answer waits for a gate, where there is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

GATES = Path(__file__).parent / "gates"


async def article(request: Any) -> Any:
    """A first draft that is too long, and a second that is not."""
    await pass_gate(request.step)
    said = "\n".join(str(message["content"]) for message in request.messages)
    second = "too long" in said or "Tea in short" in said
    if request.step == "write":
        first = "# Tea\n\nTea is a drink, and there is much to say about it.\n"
        return "# Tea in short\n\nTea is a drink.\n" if second else first
    return {"ok": second, "faults": [] if second else ["too long: one line will do"]}


async def letter(request: Any) -> str:
    """A letter to whoever is named."""
    await pass_gate(request.step)
    return "Dear Ada,\n\nthe bolts are forty short.\n"


async def pass_gate(step: str) -> None:
    """Waits until the gate of the step is open: it is shut while a file `STEP.shut` is there."""
    while (GATES / f"{step}.shut").exists():          # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(0.02)
