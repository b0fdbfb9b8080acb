"""MCP over the pipes of a process: one message a line (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports).

Own code in place of the `mcp` package's transport, which reads lines of any length, hands on variables of the user's environment,
and leaves running what a server that ended by itself has started.

Loaded by the first server of a run that needs it, never earlier: it imports `mcp`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from metaflow_agents.texts.strict_json import read
from metaflow_agents.tools.mcp_connection import MESSAGE_BYTES, TOO_LONG
from metaflow_agents.tools.mcp_process import Heard, ServerProcess

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_PIECE = 1 << 16
_DRAIN_SECONDS = 1.0                # for what is left in the pipes of a process that is gone
_DEEPEST = 200                      # levels of a message: one tool that is too deep is refused by itself, with its reason
_CHATTER = 200                      # bytes of a line that is no message


@dataclass(slots=True)
class StdioTransport:
    """How to reach a server over the pipes of a process. `heard` is what it says beside its messages; `why` how it ended."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    heard: Heard = field(default_factory=Heard)
    why: str = ""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """The messages of the server and to it; leaving it ends the process. Raises RunError where it can't be started."""
        process = await ServerProcess.started(self.argv, folder=self.folder, environment=self.environment)
        to_us, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        listening = [asyncio.create_task(self._read(process, to_us), name=f"output of {self.argv[0]}"),
                     asyncio.create_task(self._hear(process), name=f"errors of {self.argv[0]}")]
        writing = asyncio.create_task(self._write(process, from_us, to_us), name=f"input of {self.argv[0]}")
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            try:
                await process.end()
            finally:
                writing.cancel()
                await asyncio.wait(listening, timeout=_DRAIN_SECONDS)
                for task in listening:
                    task.cancel()
                await asyncio.wait([writing, *listening])
                process.release()
                self.why = self.why or _ended(process.exit_code)

    async def _read(self, process: ServerProcess, to_us: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hands on its messages; once nobody wants them, or they can't be read, the rest is dropped, so that it can end."""
        buffer = bytearray()
        with to_us:
            while data := await process.stdout.read(_PIECE):
                start = len(buffer)
                buffer += data
                while (end := buffer.find(b"\n", start)) >= 0:
                    line, start = bytes(buffer[:end]), 0
                    del buffer[:end + 1]
                    if not await self._handed_on(line, to_us):
                        break
                else:
                    if len(buffer) <= MESSAGE_BYTES:
                        continue
                    self.why = TOO_LONG
                break
        while await process.stdout.read(_PIECE):
            pass

    async def _handed_on(self, line: bytes, to_us: MemoryObjectSendStream[SessionMessage | Exception]) -> bool:
        if not line.strip():
            return True
        try:
            message = jsonrpc_message_adapter.validate_python(read(line, most=MESSAGE_BYTES, deepest=_DEEPEST), by_name=False)
        except ValueError:
            self.heard.add(b"(no message:) " + line[:_CHATTER] + b"\n")
            return True
        try:
            await to_us.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    @staticmethod
    async def _write(process: ServerProcess, from_us: MemoryObjectReceiveStream[SessionMessage],
                     to_us: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        with from_us:
            async for sent in from_us:
                written = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    process.stdin.write(written.encode() + b"\n")
                    await process.stdin.drain()
                except (OSError, RuntimeError):         # its input is closed: nothing more can be asked
                    to_us.close()
                    return

    async def _hear(self, process: ServerProcess) -> None:
        while data := await process.stderr.read(_PIECE):
            self.heard.add(data)


def _ended(exit_code: int | None) -> str:
    if exit_code is None:
        return "it could not be killed"
    return f"it was ended by signal {-exit_code}" if exit_code < 0 else f"it ended with exit code {exit_code}"
