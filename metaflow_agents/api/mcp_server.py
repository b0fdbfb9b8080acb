"""A SOP served as a tool by the Model Context Protocol (https://modelcontextprotocol.io), over standard input and output.

The tool is called like the SOP and takes its inputs; each call is a run of its own, in the workspace, which can be looked at,
resumed and diffed like any other. Where the client calls it off, or goes, the run is stopped and can be gone on with.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metaflow_agents.api.run import start
from metaflow_agents.errors import MetaflowError, UsageError
from metaflow_agents.journal.places import WORKSPACE
from metaflow_agents.runtime.caps import caps
from metaflow_agents.runtime.checking import checked
from metaflow_agents.runtime.handle import Run, RunResult
from metaflow_agents.runtime.input_files import Remote
from metaflow_agents.runtime.prepare import ready
from metaflow_agents.runtime.prepared import Choices, Prepared
from metaflow_agents.schema import references
from metaflow_agents.schema.binary import announced
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.threads.blocking import to_the_end
from metaflow_agents.views.event_log import minute, readers
from metaflow_agents.views.page import safe

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult

_PATHS = {"file": "the path of a file", "folder": "the path of a folder; all files in it are read"}
_TOLD = ("fired", "finished", "failed", "committed")
"""Events that are told as progress."""


@dataclass(frozen=True)
class Serving:
    """What is served, as its file was at the start, and how its runs are made. `options` are those of `start`, besides inputs and
    what `choices` say.
    """

    loaded: LoadedSOP
    choices: Choices
    remote: Remote = field(default_factory=Remote)
    options: Mapping[str, Any] = field(default_factory=dict)
    under_way: set[asyncio.Task[Any]] = field(default_factory=set)

    @classmethod
    def of(cls, file: str, choices: Choices, *, root: Path | None = None, trust_inputs: bool = False, **options: Any) -> Serving:
        """For a SOP's file or name. `root`: the folder below which clients may name files; `trust_inputs`: the user vouches for
        what clients hand in. Raises SOPInvalid, SOPNotFound; UsageError where `root` is no folder or the
        `budget` caps what is not there.
        """
        if root is not None and not root.is_dir():
            raise UsageError(f"`--root {root}`: it is {'a file' if root.exists() else 'not there'}; a folder was expected")
        remote = Remote(None if root is None else root.resolve(), trust_inputs)
        loaded = checked(file, choices.settings)
        caps(options.get("budget"), loaded.program)         # told to who starts the server, and not to each of its clients
        return cls(loaded, choices, remote, options)

    @property
    def program(self) -> Program:
        """The SOP that is served."""
        return self.loaded.program

    @property
    def workspace(self) -> Path:
        """Where its runs lie."""
        return self.choices.home or WORKSPACE

    @cached_property
    def prepared(self) -> Prepared:
        """What all runs share, from the first call for which there are models on. Raises UsageError, ModelMissing."""
        return ready(self.loaded, self.choices)

    async def over_stdio(self) -> None:
        """Serves until the client has gone. Nothing but the protocol is written to standard output."""
        from mcp.server.stdio import stdio_server

        server = self.server()
        async with stdio_server() as (read, write):
            with redirect_stdout(sys.stderr):       # what functions print: the descriptor is turned already, its buffer is not
                await server.run(read, write, server.create_initialization_options())

    async def stop(self) -> None:
        """Stops the runs under way; returns when they rest."""
        works = set(self.under_way)
        for work in works:
            work.cancel()
        if works:
            await asyncio.wait(works)

    def server(self) -> Server[Any]:
        """The server with its one tool."""
        from importlib.metadata import version

        from mcp import MCPError
        from mcp.server.lowlevel import Server
        from mcp_types import INVALID_PARAMS, ListToolsResult, Tool

        sop = self.program.sop
        tool = Tool(name=sop.sop, description=sop.description, input_schema=parameters(self.program, self.remote.root))

        async def listed(_: ServerRequestContext[Any], __: Any) -> ListToolsResult:
            return ListToolsResult(tools=[tool])

        async def called(context: ServerRequestContext[Any], asked: CallToolRequestParams) -> CallToolResult:
            if asked.name != sop.sop:
                raise MCPError(INVALID_PARAMS, f"there is no tool `{asked.name[:80]}`; there is: {sop.sop}")

            async def progress(count: int, message: str) -> None:
                await context.session.report_progress(count, message=message)

            work = asyncio.create_task(self._result(asked.arguments or {}, progress), name=f"a run of {sop.sop}")

            self.under_way.add(work)
            work.add_done_callback(self.under_way.discard)

            def call_off() -> None:
                work.cancel()

            return await to_the_end(work, call_off)             # called off, it still rests in order, and only then it is over

        return Server(sop.sop, version=version("metaflow-agents"), on_list_tools=listed, on_call_tool=called)

    async def _result(self, inputs: Mapping[str, Any], progress: Callable[[int, str], Any]) -> CallToolResult:
        try:
            run = start(self.prepared, inputs=inputs, remote=self.remote, **self.options)
            if run.at_terminal:
                raise UsageError("a model is asked at the terminal, and here MCP is spoken there: `manual:FOLDER` asks by files")
            async with run as going:
                hearing = asyncio.create_task(_tell(going, progress), name=f"progress of {going.name}")
                try:
                    result = await going.result()
                    await hearing
                finally:
                    hearing.cancel()
                    await asyncio.wait([hearing])
        except MetaflowError as error:
            return _failed(str(error))
        return _made(result) if result.ok else _failed(self._why(result), run=result.name, outcome=result.outcome)

    def _why(self, result: RunResult) -> str:
        """What a run without success came to, and what can be done."""
        where = "" if self.workspace == WORKSPACE else f" --workspace {self.workspace}"
        told = f"the run {result.name} of {self.program.sop.sop} "
        if result.outcome == "waiting":
            asked = result.reason.rpartition(" (`sop inbox ")[0] or result.reason     # the commands follow, with the workspace
            return (f"{told}waits for a person: {asked}\n`sop inbox{where}` shows what is asked, "
                    f"`sop answer {result.name}{where}` answers it, and `sop resume {result.name}{where}` goes on")
        ended = f"{told}finished without success ({result.outcome})"
        return f"{ended}{f': {result.reason}' if result.reason else ''}\n`sop show {result.name}{where}` tells what it made"


def parameters(program: Program, root: Path | None = None) -> dict[str, Any]:
    """The inputs of a SOP as a JSON Schema; files and folders are paths below `root`."""
    fields: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name, spec in program.sop.inputs.items():
        schema = dict(program.schemas.get(f"input:{name}", {"type": "string"}))
        told = [spec.description]
        if spec.type in PATHS:
            where = "this server hands out none: it was started without --root" if root is None else f"below {root}"
            told.append(f"{_PATHS[spec.type]}, on the machine where the SOP runs ({where})")
        if "$python" in schema:                                 # nothing is imported before a run
            told.append(f"checked by {schema.pop('$python')}")
        own = schema.pop("$defs", {})
        names = {inner: f"{name}.{inner}" for inner in own}
        definitions.update({names[inner]: references.renamed(node, names) for inner, node in own.items()})
        fields[name] = references.renamed(schema, names)
        if any(told):
            fields[name]["description"] = "; ".join(part for part in told if part)
        if not spec.required and spec.default is not None:
            fields[name]["default"] = spec.default
    required = [name for name, spec in program.sop.inputs.items() if spec.required]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False,
            **({"$defs": definitions} if definitions else {})}


async def _tell(going: Run, progress: Callable[[int, str], Any]) -> None:
    """The minutes of a run as progress, for clients that asked for it."""
    read_by = readers(going.program.plain())
    count = 0
    async for event in going.events():
        if event.kind in _TOLD:
            count += 1
            told = minute(event.model_dump(mode="json", by_alias=True, exclude_none=True), read_by)
            await progress(count, safe(f"{told.who}: {told.what}"))


def _made(result: RunResult) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    outputs = announced(dict(result.outputs))
    one = next(iter(outputs.values())) if len(outputs) == 1 else None
    text = one if isinstance(one, str) else json.dumps(outputs, ensure_ascii=False, indent=2)
    return CallToolResult(content=[TextContent(text=text)], structured_content={"run": result.name, "outputs": outputs})


def _failed(why: str, **more: str) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(text=why)], is_error=True, structured_content=more or None)
