"""Runs a large SOP in a process of its own and tells how much memory that took.

usage: large_run.py SHAPE SIZE WORKSPACE INPUTS  (inputs as JSON; one line of JSON on standard output)
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from benchmarks.large_journal import SOPS, answering
from metaflow_agents.api.run import start
from metaflow_agents.schema.event import Event, Finished

FROM, TO = 1000, 5000


def resident() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def main() -> None:
    shape, size, workspace, inputs = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4])
    finished, at = 0, {}

    def hear(_: int, event: Event) -> None:
        nonlocal finished
        finished += isinstance(event, Finished)
        if finished in (FROM, TO):
            at.setdefault(finished, resident())

    async with start(SOPS / f"{shape}.yaml", model=answering(size), workspace=workspace, name="large", inputs=inputs) as going:
        going.journal.listeners.append(hear)
        result = await going.result()
    told = {"outcome": result.outcome, "activations": result.activations, "growth": at[TO] - at[FROM],
            "written": (workspace / ".journals" / "large.db").stat().st_size}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
