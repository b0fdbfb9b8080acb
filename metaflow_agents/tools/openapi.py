"""Services with an OpenAPI description, as tools: each operation that the SOP chooses is one.

Requests go to one origin, the service's own, which the SOP's author granted by naming it; a redirect elsewhere is refused. The
headers of the SOP are added on the way out, seen by no role and redacted from answers. What a service answers is not trusted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Protocol

from metaflow_agents.errors import AnswerInvalid, FetchFailed, FetchRefused, did_you_mean
from metaflow_agents.network import addresses
from metaflow_agents.network.client import Fetched, FetchLimits, FetchRequest, fetch
from metaflow_agents.network.guard import Guard
from metaflow_agents.network.hosts import NetworkPlace, parse
from metaflow_agents.network.keys import HeadersFor
from metaflow_agents.network.wire import Granted
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.external_schema import ForeignSchemas
from metaflow_agents.schema.tools import ApiSpec, Effect
from metaflow_agents.tools.openapi_answer import OpenAPIAnswers
from metaflow_agents.tools.openapi_document import Description, Operation
from metaflow_agents.tools.openapi_request import request_of
from metaflow_agents.tools.port import Setting, Situation, Tool, ToolResult
from metaflow_agents.tools.secrets import filled, named

TIMEOUT = 60.0                      # seconds of one call
LONGEST_SCHEMA = 40_000             # characters of the definitions that a tool's schema brings along
_SAFE = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})     # a second one does nothing new (RFC 9110 9.2.2)


class OpenAPIClient(Protocol):
    """What requests go through: `metaflow_agents.network.client.fetch`."""

    def __call__(self, request: FetchRequest, *, granted: Granted, guard: Guard, headers_for: HeadersFor,
                 limits: FetchLimits | None) -> Awaitable[Fetched]:
        """The answer. Raises FetchFailed."""
        ...


class OpenApiService:
    """The operations of a service that the SOP chooses. Reads the description, and asks the service nothing by itself."""

    def __init__(self, name: str, spec: ApiSpec, document: Any, setting: Setting, client: OpenAPIClient = fetch) -> None:
        """`document` is the description as plain data.

        Raises UsageError: no description of OpenAPI 3.0 or 3.1, a pattern without an operation, a server that can't be asked.
        """
        self._name, self._spec, self._setting, self._client = name, spec, setting, client
        self._description = Description(name, document)
        self._operations = self._description.chosen(spec.operations)
        self._schemas = ForeignSchemas(document, hidden="readOnly")
        self._server = self._description.server(spec.server)
        for pattern in spec.effects:
            if not any(each.matches(pattern) for each in self._operations):
                raise self._description.refusal(f"`{pattern}` under `effects` names no chosen operation",
                                                did_you_mean(pattern, [each.id for each in self._operations]))
        try:
            self._base = parse(self._server)
            literal = self._base.host == "localhost" or (
                self._base.address is not None and addresses.grantable(self._base.address))
            self._guard = Guard([self._base.authority] if literal else [])
        except FetchRefused as error:
            raise self._description.refusal(str(error), "mend `server`") from None
        if self._base.query:
            raise self._description.refusal(f"its server `{self._server}` has a query", "leave it out of `server`")

    @property
    def name(self) -> str:
        """As the SOP calls it."""
        return self._name

    @property
    def server(self) -> str:
        """The base URL of all requests."""
        return self._server

    @property
    def left_out(self) -> Mapping[str, str]:
        """Operations that a pattern may have meant and that can't be called from here: id → why."""
        return {id_: why for id_, why in self._description.left_out.items()
                if any(fnmatchcase(id_, pattern) for pattern in self._spec.operations)}

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Nothing is started. Raises UsageError where a secret of its headers is not set."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        for value in self._spec.headers.values():
            filled(value, self._setting.secret)
        yield

    async def tools(self) -> list[Tool]:
        """One for each chosen operation, in the description's order."""
        return [_ApiTool(self, each) for each in self._operations]

    def arguments(self, operation: Operation) -> dict[str, Any]:
        """The JSON Schema of an operation's arguments, small enough to be shown to a model: the service checks the rest."""
        return self._schemas.widened(operation.arguments, LONGEST_SCHEMA)

    def answers(self, operation: Operation) -> OpenAPIAnswers:
        """What reads the answers of an operation."""
        return OpenAPIAnswers(operation, self._description.document, f"from the API {self._name}")

    def effect(self, operation: Operation) -> Effect:
        """As the SOP says of its id, or of a pattern that means it; else as its method says."""
        return operation.effect_in(self._spec.effects) or ("idempotent" if operation.method in _SAFE else "once")

    def request(self, operation: Operation, arguments: Mapping[str, Any]) -> FetchRequest:
        """The request of a call, without keys. Raises AnswerInvalid for arguments that would lead elsewhere."""
        request = request_of(operation, arguments, self._server)
        own = {name: value for name, value in self._spec.headers.items() if not named(value)}
        replaced = {name.lower() for name in own}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in replaced} | own
        try:
            place = parse(request.url)
        except FetchRefused as error:
            raise AnswerInvalid([str(error)]) from None
        segments = self._base.path.rstrip("/").count("/") + operation.path.count("/")
        if place.origin != self._base.origin or place.path.count("/") != segments:
            raise AnswerInvalid([f"the arguments lead to `{place.url}`, out of `{operation.path}`"])
        return FetchRequest(request.url, request.method, headers, request.body)

    async def fetched(self, request: FetchRequest) -> Fetched:
        """The service's answer. Raises FetchFailed, and UsageError where a secret is not set."""
        keys = {name: filled(value, self._setting.secret) for name, value in self._spec.headers.items() if named(value)}

        async def granted(place: NetworkPlace) -> None:
            if place.origin != self._base.origin:
                raise FetchRefused(f"the API `{self._name}` redirects to {place.origin}, and only {self._base.origin} is granted")

        def headers_for(place: NetworkPlace) -> Mapping[str, str]:
            return keys if place.origin == self._base.origin else {}

        limits = FetchLimits(seconds=self._spec.timeout or TIMEOUT)
        return await self._client(request, granted=granted, guard=self._guard, headers_for=headers_for, limits=limits)

    def masked(self, text: str) -> str:
        """A text without secrets."""
        return self._setting.masked(text)


class _ApiTool:
    """One operation."""

    def __init__(self, service: OpenApiService, operation: Operation) -> None:
        self._service, self._operation = service, operation
        self._parameters = service.arguments(operation)
        self._answers = service.answers(operation)

    @property
    def name(self) -> str:
        """`SERVICE.OPERATION`."""
        return f"{self._service.name}.{self._operation.name}"

    @property
    def description(self) -> str:
        """Summary, description, method and path."""
        return self._operation.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters and `body` as one object."""
        return self._parameters

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """As the SOP says, else as the method says."""
        return self._service.effect(self._operation)

    def action(self, arguments: Mapping[str, Any]) -> Action:
        """`api(SERVICE.OPERATION)`. Raises AnswerInvalid for arguments that would lead elsewhere."""
        self._service.request(self._operation, arguments)
        return Action("api", self.name)

    async def call(self, arguments: Mapping[str, Any], situation: Situation) -> ToolResult:
        """The service's answer. Raises UsageError where a secret is not set."""
        try:
            fetched = await self._service.fetched(self._service.request(self._operation, arguments))
        except AnswerInvalid as error:
            return ToolResult(self._service.masked("; ".join(error.faults)), error=True)
        except FetchRefused as error:
            outside = f"from the API {self._service.name}" if error.untrusted else ""
            return ToolResult(self._service.masked(str(error)), error=True, untrusted=outside)
        except FetchFailed as error:
            unknown = self.effect(arguments) == "once"
            told = f"{error}{'; whether it took effect is not known' if unknown else ''}"
            return ToolResult(
                self._service.masked(told), error=True, untrusted=f"from the API {self._service.name}", unknown=unknown
            )
        found = self._answers.result(fetched)
        return replace(found, text=self._service.masked(found.text), content=self._service.masked(found.content or ""),
                       lacks=self._service.masked(found.lacks))
