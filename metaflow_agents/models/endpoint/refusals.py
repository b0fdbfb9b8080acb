"""What an endpoint says instead of an answer, translated once: status, headers and body → what follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.models.endpoint.body import PreparedRequest
from metaflow_agents.models.endpoint.learned import FORMS, Learned, named, weaker
from metaflow_agents.models.endpoint.waits import asked_wait
from metaflow_agents.models.endpoint.wording import (
    BAD_CALL,
    FILTER,
    FORMAT,
    FORMAT_WITH_TOOLS,
    LENGTH,
    NO_MONEY,
    NO_STREAM,
    NO_TOOLS,
    NOT_TAKEN,
    STRICT,
    THIS_SCHEMA,
    TOO_LONG,
    TOOLS,
    UNKNOWN_MODEL,
    told_in,
)
from metaflow_agents.models.faults import CallFailed, Then

_NOT_BEGUN = (409, 425, 503, 529)
_UNBILLED = (*_NOT_BEGUN, 500, 501, 505)    # answered by the endpoint itself; 502 and 504 come from somebody in between
_MISSING_HERE = "its address may be wrong: most end in `/v1`"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response that is no answer. `headers` have their names in lower case; `body` is its beginning."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asked: the model's name, its base URL, the variable of its key, the key itself (None: there is none)."""

    model: str
    url: str
    variable: str
    key: str | None


class UnknownModel(CallFailed):
    """The endpoint does not know the model; which it knows may be asked for the mend."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A refusal, with all that judging it takes."""

    refusal: Refusal
    asker: Asker
    prepared: PreparedRequest
    learned: Learned
    longest: int
    said: str

    @property
    def status(self) -> int:
        return self.refusal.status

    @property
    def text(self) -> str:
        return self.refusal.text

    @property
    def at(self) -> str:
        return f"the endpoint {self.asker.url}"

    @property
    def wait(self) -> float | None:
        return asked_wait(self.refusal.headers, self.text)


def refused(refusal: Refusal, asker: Asker, prepared: PreparedRequest, learned: Learned, longest: int) -> CallFailed:
    """What a refusal means. `longest` is the bound of the answer that was asked for, in tokens."""
    case = _Case(refusal, asker, prepared, learned, longest, told_in(refusal.body, asker.key))
    for judge in (_of_access, _of_rate, _of_tools, _of_form, _of_parameters, _of_request, _of_server):
        found = judge(case)
        if found is not None:
            return found
    return _fault(f"{case.at} refused the request ({case.status}): {case.said}", "fail")


def told_error(error: Any, begun: bool, asker: Asker, prepared: PreparedRequest, learned: Learned, longest: int) -> CallFailed:
    """What an error means that stands where an answer should: by its own code, where it has one."""
    spoken = str(error).lower()
    status = _status(error) or (429 if "rate" in spoken and "limit" in spoken else 500)
    found = refused(Refusal(status, {}, json.dumps({"error": error}).encode()), asker, prepared, learned, longest)
    # With status 200 it was taken up, and what was begun is billed: unless the request itself was refused, nobody knows.
    free = found.refused and not begun
    return CallFailed(found.told, then=found.then, charged=0 if free else None, after=found.after, refused=free, busy=found.busy)


def _status(error: Any) -> int | None:
    """The HTTP status that an error's object names."""
    for name in ("code", "status"):
        code = error.get(name) if isinstance(error, dict) else None
        if isinstance(code, str) and code.isdigit():
            code = int(code)
        if isinstance(code, int) and 400 <= code < 600:
            return code
    return None


def _fault(told: str, then: Then, *, after: float | None = None, busy: bool = False) -> CallFailed:
    """A request that was not taken up."""
    return CallFailed(told, then=then, charged=0, refused=True, after=after, busy=busy)


def _of_access(case: _Case) -> CallFailed | None:
    """Keys, money, and addresses where nobody answers such requests."""
    status, variable = case.status, case.asker.variable
    if status == 402 or _has_no_money(case):
        return _fault(f"{case.at} says that the account of {variable} has no money or quota left ({status}): {case.said}", "stop")
    if status == 403 and FILTER.search(case.text):
        return _fault(f"{case.at} keeps to its content filter (403): {case.said}", "fail")
    if status in (401, 403):
        mend = f"put another one into {variable}" if case.asker.key else f"no key was sent: put one into {variable}"
        return _fault(f"{case.at} does not accept the key ({status}): {case.said}; {mend}", "stop")
    if 300 <= status < 400:
        place = case.refusal.headers.get("location", "")
        mend = f"it points to {place}: write that address as the endpoint" if place else _MISSING_HERE
        return _fault(f"{case.at} redirects ({status}), and a request with a key is not sent on; {mend}", "stop")
    if status == 405:
        return _fault(f"{case.at} takes no {case.prepared.asks} (405): {case.said}; {_MISSING_HERE}", "stop")
    return None


def _has_no_money(case: _Case) -> bool:
    if case.status not in (400, 403, 429) or not NO_MONEY.search(case.said if case.status == 400 else case.text):
        return False
    # A quota for a minute, which some servers tell in the words of one that is used up.
    return case.status != 429 or "insufficient_quota" in case.text or case.wait is None


def _of_rate(case: _Case) -> CallFailed | None:
    if case.status != 429:
        return None
    return _fault(f"{case.at} refused it for its rate (429): {case.said}", "again", after=case.wait, busy=True)


def _of_tools(case: _Case) -> CallFailed | None:
    """Tools that it does not take, alone or together with a form of the answer; or a call of the model's that it can't read."""
    prepared, learned, model = case.prepared, case.learned, case.asker.model
    if not prepared.offered or case.status not in (400, 404, 415, 422, 500, 501):
        return None
    if BAD_CALL.search(case.text):
        return CallFailed(f"{case.at} could not read the tool call that {model} wrote ({case.status}): {case.said}", then="again",
                          charged=None)
    if prepared.parallel and "parallel_tool_calls" in case.text:
        learned.parallel_calls = False
        return _fault(f"{case.at} does not know `parallel_tool_calls` ({case.status}); asked without from now on", "again",
                      after=0.0)
    if prepared.form not in (None, "none") and TOOLS.search(case.text) and FORMAT_WITH_TOOLS.search(case.text):
        learned.tools_with_form = False
        return _fault(f"{case.at} does not take tools together with {named(prepared.form)} for {model} ({case.status}): "
                      f"{case.said}; with tools asked by {named('none')} from now on", "again", after=0.0)
    if prepared.streamed and NO_STREAM.search(case.text):
        learned.stream_with_tools = False
        return _fault(f"{case.at} does not stream answers of {model} where it is told of tools ({case.status}): {case.said}; "
                      "with tools asked for them in one piece from now on", "again", after=0.0)
    if NO_TOOLS.search(case.text):
        learned.tools = "text"
        return _fault(f"{case.at} takes no tools for {model} ({case.status}): {case.said}; told of them in the prompt from now "
                      "on (`tools: text` of the model says so at once)", "again", after=0.0)
    return None


def _of_form(case: _Case) -> CallFailed | None:
    """A way to ask for structured answers that it does not take: the next one is asked from now on."""
    form, learned, schema = case.prepared.form, case.learned, case.prepared.schema
    if form is None or form == "none" or case.status not in (400, 404, 415, 422, 500, 501) or not FORMAT.search(case.text):
        return None
    worse = weaker(form)
    if form in ("strict", "schema") and THIS_SCHEMA.search(case.text):
        learned.schemas[schema] = max(worse, learned.schemas.get(schema, worse), key=FORMS.index)
        return _fault(f"{case.at} does not take this schema as {named(form)} ({case.status}): {case.said}; "
                      f"asked by {named(worse)}", "again", after=0.0)
    if form == "strict" and not STRICT.search(case.text):
        worse = "json"
    if FORMS.index(learned.form) < FORMS.index(worse):
        learned.form = worse
        learned.refused.append(case.said)
    return _fault(f"{case.at} does not take {named(form)} for {case.asker.model} ({case.status}): {case.said}; asked by "
                  f"{named(worse)} from now on", "again", after=0.0)


def _of_parameters(case: _Case) -> CallFailed | None:
    """Names of parameters that it does not know, and has another for."""
    prepared, learned = case.prepared, case.learned
    if prepared.streamed and case.status in (400, 403, 404, 422, 500, 501) and NO_STREAM.search(case.text):
        learned.stream = False
        return _fault(f"{case.at} does not stream answers of {case.asker.model} ({case.status}): {case.said}; asked for them in "
                      "one piece from now on", "again", after=0.0)
    if case.status not in (400, 404, 422) or not NOT_TAKEN.search(case.text):
        return None
    if "max_completion_tokens" in case.text:
        old = prepared.length == "max_tokens"
        learned.length = "max_completion_tokens" if old else "max_tokens"
        return _fault(f"{case.at} does not take `{prepared.length}` ({case.status}); asked with `{learned.length}` from now on",
                      "again", after=0.0)
    if prepared.streamed and prepared.usage and "stream_options" in case.text:
        learned.usage = False
        return _fault(f"{case.at} does not know `stream_options` ({case.status}); asked without from now on", "again", after=0.0)
    return None


def _of_request(case: _Case) -> CallFailed | None:
    """What is wrong with what was asked."""
    status, model, prepared = case.status, case.asker.model, case.prepared
    if status == 413 or (status in (400, 422, 500) and TOO_LONG.search(case.text)):
        room = f", and {case.longest:,} tokens for the answer" if case.longest else ""
        return _fault(f"the request is too long for {model}: {len(prepared.body):,} bytes{room} ({status}): {case.said}", "fail")
    if status in (400, 404, 422) and UNKNOWN_MODEL.search(case.text):
        return UnknownModel(f"{case.at} knows no model `{model}` ({status}): {case.said}", then="stop", charged=0, refused=True)
    if status == 404:
        return _fault(f"{case.at} has no {prepared.asks} (404): {case.said}; {_MISSING_HERE}", "stop")
    if status in (400, 422) and FILTER.search(case.text):
        return _fault(f"{case.at} keeps to its content filter ({status}): {case.said}", "fail")
    if status in (400, 422) and LENGTH.search(case.text):
        return _fault(f"{case.at} does not take an answer of {case.longest:,} tokens ({status}): {case.said}; "
                      "set `max_tokens` of the model", "stop")
    return None


def _of_server(case: _Case) -> CallFailed | None:
    """What another try may mend."""
    status = case.status
    if status in (408, 409, 425) or status >= 500:
        return CallFailed(f"{case.at} failed ({status}): {case.said}", then="again", after=case.wait,
                          charged=0 if status in _UNBILLED else None, refused=status in _NOT_BEGUN)
    if status < 300:
        return CallFailed(f"{case.at} sent no answer (status {status})", then="again", charged=None)
    return None
