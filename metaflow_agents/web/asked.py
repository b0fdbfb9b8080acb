"""One request, as the routes see it: its query, its JSON, and the run that it is about.

A route is a plain function that takes an `Asked` and gives a JSON value. It runs in a thread, so it may read journals; what it
raises of this package's errors is told in the words of the command line. A module of routes exports

    routes = [get("/api/run/costs", costs), post("/api/answer", answer)]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from metaflow_agents.errors import JournalError, MetaflowError, UsageError, failure_of
from metaflow_agents.journal.integrity import fault
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.terminal import printing
from metaflow_agents.texts.strict_json import read
from metaflow_agents.views.page import safe
from metaflow_agents.web.opened import OpenRun
from metaflow_agents.web.replies import refusal, refused, reply
from metaflow_agents.web.site import Site

_LARGEST = 1 << 31


@dataclass(frozen=True)
class Asked:
    """`query`: the parameters of the address; `body`: the JSON object that was sent, empty for GET."""

    site: Site
    query: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str, default: str | None = None) -> str:
        """A parameter, or a text of the body. Raises UsageError where it is missing and has no default, or is no text."""
        found = self.body.get(name, self.query.get(name, default))
        if found is None:
            raise UsageError(f"`{name}` is missing")
        if not isinstance(found, str):
            raise UsageError(f"`{name}` is {found!r:.80}: a text was expected")
        return found

    def number(self, name: str, default: int | None = None, most: int = _LARGEST) -> int:
        """A whole number from 0 on, cut to `most`. Raises UsageError."""
        found = self.body.get(name, self.query.get(name, default))
        if found is None:
            raise UsageError(f"`{name}` is missing")
        if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 12:
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise UsageError(f"`{name}` is {found!r:.80}: a whole number was expected")
        return min(found, most)

    @contextmanager
    def run(self, name: str = "run") -> Iterator[OpenRun]:
        """The run that the parameter names, open for reading while the request is answered. Raises UsageError, JournalError."""
        run, workspace = self.text(name), self.site.workspace
        program = self.site.watched.run(run).program
        with RawJournal(journal_path(workspace, run)) as journal:
            yield OpenRun(run, workspace, program, journal)


Handler = Callable[[Asked], Any]


def get(path: str, handler: Handler) -> Route:
    """A route that changes nothing."""
    async def endpoint(request: Request) -> Response:
        return await _done(handler, Asked(request.app.state.site, request.query_params))
    return Route(path, endpoint, methods=["GET"])


def post(path: str, handler: Handler) -> Route:
    """A route that changes something, or takes a text too long for an address; the guard has looked at where it comes from."""
    async def endpoint(request: Request) -> Response:
        try:
            body = read((await request.body()).decode())
        except ClientDisconnect:
            return refusal("what is sent is too long", 413)
        except ValueError as error:
            return refusal(f"what was sent is no JSON: {error}")
        if not isinstance(body, dict):
            return refusal("what was sent is no JSON object")
        site = request.app.state.site
        try:
            return await _done(handler, Asked(site, request.query_params, body))
        finally:
            site.changed()
    return Route(path, endpoint, methods=["POST"])


async def _done(handler: Handler, asked: Asked) -> Response:
    return await run_in_threadpool(answered, handler, asked)


def answered(handler: Handler, asked: Asked) -> Response:
    """What the handler gives, as JSON; a Response of its own as it is; an error in a line."""
    try:
        found = handler(asked)
        return found if isinstance(found, Response) else reply(found)
    except Exception as error:
        return told_of(error, asked)


def told_of(error: Exception, asked: Asked) -> Response:
    """An error, in the words of the command line."""
    if isinstance(error, MetaflowError):
        return refused(error)
    if isinstance(error, OSError):
        return refusal(f"{error.filename or asked.site.folder}: {error.strerror or error}", 500)
    return _unforeseen(error, asked)        # a bug, or a journal that holds what no run writes


def _unforeseen(error: Exception, asked: Asked) -> Response:
    name = asked.query.get("run")
    if name is not None:
        try:
            path = journal_path(asked.site.workspace, name)
            found = fault(path)
        except MetaflowError as other:
            return refused(other)
        if found is not None:
            return refused(JournalError(f"{path} holds what no run writes: {found}; it is damaged, or somebody else made it: "
                                        "restore the file from a copy, or remove it"))
    if sys.flags.dev_mode:
        raise error
    told = safe(str(failure_of(error)))
    printing.write(f"sop: a fault of this program: {told}\n", sys.stderr)
    return refusal(f"a fault of this program: {told}; `PYTHONDEVMODE=1 sop ui` shows the traceback", 500)
