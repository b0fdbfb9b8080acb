"""`sop mcp`: a SOP as a tool of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metaflow_agents.cli import options
from metaflow_agents.cli.options import WORKSPACE, Budget, Model, Sandbox, SOPFile, Workspace

if TYPE_CHECKING:
    from metaflow_agents.api.mcp_server import Serving

_KILLED = 130               # exit status of a process that was interrupted


def mcp(file: SOPFile,
        model: Model = None,
        workspace: Workspace = WORKSPACE,
        sandbox: Sandbox = None,
        budget: Budget = None,
        root: Annotated[Path | None, typer.Option(
            "--root", metavar="FOLDER", help="Let clients name files and folders in this directory; without it, none.")] = None,
        trust_inputs: Annotated[bool, typer.Option(
            "--trust-inputs", help="Trust the inputs of clients like those of your command line.")] = False,
        ) -> int:
    """Serve a SOP as an MCP tool over standard input and output; each call is a run."""
    import asyncio

    from metaflow_agents.api.mcp_server import Serving
    from metaflow_agents.runtime.prepared import Choices
    from metaflow_agents.settings import Settings

    everybody, named = options.models(model)
    choices = Choices(everybody, named, sandbox, workspace, Settings.read())
    asyncio.run(_served(Serving.of(file, choices, root=root, trust_inputs=trust_inputs, budget=options.budget(budget))))
    return 0


async def _served(serving: Serving) -> None:
    """Until the client has gone. Interrupted, or asked to end, the runs under way rest in order before the process does."""
    import asyncio
    import os
    import signal

    from metaflow_agents.sandbox.process import end_all
    from metaflow_agents.tools.mcp_process import end_all_servers

    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def handle(*_: object) -> None:             # of the process, not of the loop, which somebody's function may keep from turning
        if asked.is_set():
            end_all()
            end_all_servers()
            os._exit(_KILLED)
        loop.call_soon_threadsafe(asked.set)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    service, stopping = asyncio.create_task(serving.over_stdio()), asyncio.create_task(asked.wait())
    try:
        await asyncio.wait([service, stopping], return_when=asyncio.FIRST_COMPLETED)
        if asked.is_set():
            await serving.stop()
            os._exit(_KILLED)       # a thread waits for the client's next line, and nothing but that line ends it
        service.result()
    finally:
        stopping.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
