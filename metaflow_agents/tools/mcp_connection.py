"""One connection to an MCP server: opened, asked and closed in a task of its own, since a session ends where it began.

Loaded by the first server of a run that needs it, never earlier: it imports `mcp`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import anyio
from mcp import ClientSession, MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    JSONRPCResponse,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    Request,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from metaflow_agents.errors import RunError, raised
from metaflow_agents.threads.blocking import Threads, to_the_end
from metaflow_agents.tools.mcp_process import Heard

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams

R = TypeVar("R", bound=BaseModel)

MESSAGE_BYTES = 16 * 1024 * 1024
TOO_LONG = f"it sent a message of more than {MESSAGE_BYTES // 1024 // 1024} MiB"
_PAGES = 100
_LEAVE_SECONDS = 5.0                # for a server to be left in order, before its task is cancelled
_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


class Transport(Protocol):
    """How to reach a server. `heard` is what it says beside its messages, `why` how its end came about, once it has."""

    heard: Heard
    why: str

    def streams(self) -> AbstractAsyncContextManager[TransportStreams]:
        """The messages of the server and to it."""
        ...


class Refused(Exception):
    """The server answered, with an error or with what is no answer; the text is its own. It goes on."""


class Gone(Exception):
    """The connection is over: why, what the server said last, and whether it was in the middle of something."""

    def __init__(self, why: str, said: str, *, under_way: bool) -> None:
        self.why, self.said, self.under_way = why, said, under_way
        super().__init__(why)


class TooSlow(Exception):
    """It did not answer in time."""


class Connection:
    """A connection from its beginning to its end. `sift` is handed each tool of a list, and says what the session gets of it."""

    def __init__(self, transport: Transport, sift: Callable[[Any], dict[str, Any] | None], *, name: str, patience: float) -> None:
        self._transport, self._sift, self._patience = transport, sift, patience
        self._session: ClientSession | None = None
        self._settled, self._leave = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._serve(), name=f"MCP server {name}")

    @property
    def over(self) -> bool:
        """Whether it can't be asked any more."""
        return self._leave.is_set() or self._task.done()

    async def list_tools(self, settle: Callable[[], None]) -> None:
        """Has every page of the list of tools go through `sift`; `settle` is called after each, in a thread.

        Raises Refused, Gone, TooSlow.
        """
        threads = Threads(1, "schemas")
        cursor: str | None = None
        for _ in range(_PAGES):
            asked = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor)) if cursor else ListToolsRequest()
            cursor = (await self._asked(asked, TypeAdapter(ListToolsResult), self._patience)).next_cursor
            await threads.run(settle)
            if not cursor:
                return
        raise Refused(f"its list of tools has more than {_PAGES} pages")

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> CallToolResult:
        """What a tool gives. Where the caller is cancelled, or the time is up, the server is told so.

        Raises Refused, Gone, TooSlow.
        """
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        answer = await self._asked(request, _ANSWER, seconds)
        if isinstance(answer, InputRequiredResult):
            raise Refused("it asks for something in the middle of the call, which is not supported")
        return answer

    async def close(self) -> None:
        """Ends it, in bounded time; also where the caller is cancelled meanwhile."""
        await to_the_end(asyncio.ensure_future(self._closed()))

    async def _closed(self) -> None:
        self._leave.set()
        done, _ = await asyncio.wait([self._task], timeout=_LEAVE_SECONDS if self._session is not None else 0)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _asked(self, request: Request[Any, Any], adapter: TypeAdapter[R], seconds: float) -> R:
        """An answer of the server. The package's own checks of results by the server's output schemas are left out."""
        await self._settled.wait()
        if self._session is None or self._leave.is_set():
            raise await self._gone(under_way=False)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._session.send_request(request, adapter)
        except TimeoutError:
            if limit.expired():
                raise TooSlow(f"it did not answer within {seconds:g} s") from None
            raise
        except MCPError as error:
            if self._leave.is_set() or _ends(error):
                self._leave.set()
                raise await self._gone(under_way=True) from None
            raise Refused(error.message) from None
        except (ValidationError, RecursionError) as error:
            raise Refused(f"its answer is none that MCP knows: {_first(error)}") from None

    async def _gone(self, *, under_way: bool) -> Gone:
        await asyncio.wait([self._task])
        return Gone(self._transport.why or "it closed the connection", str(self._transport.heard), under_way=under_way)

    async def _serve(self) -> None:
        """The whole of the connection. Never raises: what ends it is told to whoever asks next."""
        for of in ("mcp", "client"):                # the package's loggers: nobody's words reach the terminal by that way
            logging.getLogger(of).addHandler(logging.NullHandler())
        try:
            async with self._transport.streams() as (read, write):
                sifted = _Sifted(read, self._sift, self._leave)
                async with ClientSession(sifted, write, client_info=_who()) as session:
                    await self._greeted(session)
                    self._session = session
                    self._settled.set()
                    await self._leave.wait()
        except Exception as error:
            self._transport.why = self._transport.why or _why(error)
        finally:
            self._leave.set()
            self._settled.set()


    async def _greeted(self, session: ClientSession) -> None:
        """The handshake that every server knows; a server that knows only the newer way is asked in that."""
        try:
            async with asyncio.timeout(self._patience):
                try:
                    await session.initialize()
                except MCPError as error:
                    if error.code not in (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND):
                        raise
                    await session.discover()
        except TimeoutError:
            self._transport.why = f"it did not answer within {self._patience:g} s of its start"
            raise


class _Sifted:
    """The messages of a server, each list of tools sifted before the package looks at it: to it, one bad tool is a bad list."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], sift: Callable[[Any], dict[str, Any] | None],
                 ended: asyncio.Event) -> None:
        self._inner, self._sift, self._ended = inner, sift, ended

    @property
    def last_context(self) -> Any:
        """That of the message just received, where the transport keeps one."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended.set()
            raise
        return self._sifted(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _sifted(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            listed = item.message.result.get("tools")
            if isinstance(listed, list):
                item.message.result["tools"] = [tool for tool in map(self._sift, listed) if tool is not None]
        return item


def _ends(error: MCPError) -> bool:
    """Whether it says that the connection is over: the package's own words, or those of a server that forgot the session."""
    return (error.code == CONNECTION_CLOSED and error.message == "Connection closed") or error.message == "Session terminated"


def _who() -> Implementation:
    from importlib.metadata import version

    return Implementation(name="metaflow-agents", version=version("metaflow-agents"))


def _why(error: BaseException) -> str:
    """What ended a connection, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, RunError):
        return str(error)
    if isinstance(error, MCPError):
        return "it closed the connection" if _ends(error) else f"it refused the connection: {error.message}"
    return _first(error) if isinstance(error, ValidationError) else raised(error)


def _first(error: BaseException) -> str:
    if not isinstance(error, ValidationError):
        return raised(error)
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(str(part) for part in fault['loc'][-3:])}: {fault['msg']}"
