"""What an endpoint answered, whether in one piece or in a stream of chunks; read leniently, and by hand.

Sources: the OpenAI reference of chat completions, the HTML standard's section on server-sent events, and what servers
do instead: `tests/wire/` holds what they send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.models.endpoint.calling import Called, Pieces, called_in
from metaflow_agents.models.endpoint.usage import Usage, usage_in
from metaflow_agents.texts.strict_json import NotJSON, read

_CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_FILTERED = frozenset({"content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii", "sensitive"})
_BROKEN = frozenset({"error", "abort", "aborted", "insufficient_system_resource", "network_error", "malformed_response",
                     "malformed_function_call"})
_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LINES = 64                         # of one event, at most
_DECIDED = 6                        # bytes, after which it is clear whether a body is a stream of events


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """What came, whole. `reasoned`: characters of reasoning, which are no part of the text. `calls`: of tools, as they came."""

    text: str
    finish: str | None
    usage: Usage | None
    refusal: str = ""
    reasoned: int = 0
    calls: tuple[Called, ...] = ()

    @property
    def cut(self) -> bool:
        """Whether it ended at its longest length."""
        return self.finish is not None and self.finish.lower() in _CUT

    @property
    def filtered(self) -> bool:
        """Whether the endpoint's filter kept it back."""
        return self.finish is not None and self.finish.lower() in _FILTERED

    @property
    def broken(self) -> bool:
        """Whether the endpoint itself says that it broke off."""
        return self.finish is not None and self.finish.lower() in _BROKEN


class Malformed(Exception):
    """What came is no answer. `usage`: what it cost, where even so it was told."""

    def __init__(self, told: str, usage: Usage | None = None) -> None:
        self.usage = usage
        super().__init__(told)


class ToldError(Exception):
    """An error in the place of an answer, with status 200. `error` tells it; `begun`: it came after some of an answer."""

    def __init__(self, error: Any, *, begun: bool, usage: Usage | None = None) -> None:
        self.error, self.begun, self.usage = error, begun, usage
        super().__init__(str(error))


def is_stream(start: bytes) -> bool | None:
    """Whether a body that starts so is a stream of events; None where more of it is needed."""
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(_EVENTS):
        return True
    return None if len(start) < _DECIDED and not start.startswith(b"{") else False


def whole_answer(body: bytes) -> EndpointAnswer:
    """The answer in a complete body. Raises Malformed, ToldError."""
    try:
        message = read(body, lenient=True)
    except NotJSON as error:
        raise Malformed(_no_json(body, error)) from None
    if isinstance(message, list) and len(message) == 1:
        message = message[0]
    if not isinstance(message, dict):
        raise Malformed(f"its answer is JSON, but no object: {_shown(body)}")
    usage = usage_in(message)
    choice = _choice(message, usage)
    if choice is None:
        raise Malformed("its answer holds no choices", usage)
    said = choice.get("message", {} if _finish(choice) else None)      # a filter may keep all of it back
    if not isinstance(said, dict):
        raise Malformed("its answer holds no message", usage)
    text, thought = _text(said.get("content"))
    thinking = said.get("reasoning_content") or said.get("reasoning")
    return _finished(text, _finish(choice), usage, _refusal(said), thought + (len(thinking) if isinstance(thinking, str) else 0),
                     called_in(said))


def _finished(text: str, finish: str | None, usage: Usage | None, refusal: str, reasoned: int,
              calls: tuple[Called, ...]) -> EndpointAnswer:
    bare = text.lstrip()
    if bare.startswith("<think>"):                  # a server that does not take the reasoning out of the text
        thought, closed, rest = bare.partition("</think>")
        text, reasoned = rest.lstrip() if closed else "", reasoned + len(thought)
    if not text.isascii():
        text = _paired(text)
    return EndpointAnswer(text, finish, usage, refusal, reasoned, calls)


def _paired(text: str) -> str:
    """Halves of a character that came in two chunks put together; a half without the other replaced, for no file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _choice(message: Mapping[str, Any], usage: Usage | None, *, begun: bool = False) -> dict[str, Any] | None:
    """The first choice. Raises ToldError where an error stands in the answer's place."""
    error = message.get("error")
    choices = message.get("choices")
    found = next((choice for choice in choices if isinstance(choice, dict) and not choice.get("index")), None) \
        if isinstance(choices, list) else None
    if not error and found is not None:
        error = found.get("error")
    if not error and message.get("object") == "error":
        error = dict(message)
    if error:
        raise ToldError(error, begun=begun, usage=usage)
    return found


def _finish(choice: Mapping[str, Any]) -> str | None:
    finish = choice.get("finish_reason")
    return finish if isinstance(finish, str) and finish else None


def _refusal(said: Mapping[str, Any]) -> str:
    refusal = said.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _text(content: Any) -> tuple[str, int]:
    """The text of a content, and the length of the reasoning in it: text itself, or a list of parts."""
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        return "", 0
    texts, thought = [], 0
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str) and part.get("type", "text") in ("text", "output_text"):
            texts.append(part["text"])
        elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thought += len(str(part.get("thinking") or part.get("text") or ""))
    return "".join(texts), thought


def _no_json(body: bytes, error: ValueError) -> str:
    start = body[:400].lstrip().lower()
    if not start:
        return "its answer is empty"
    if start.startswith((b"<!doctype", b"<html", b"<")):
        return f"it answered with a page of HTML, as a proxy or a login page does: {_shown(body)}"
    return f"its answer is no JSON ({error}): {_shown(body)}"


def _shown(body: bytes) -> str:
    said = " ".join(body[:400].decode("utf-8", "replace").split())
    return f"`{said[:160]}…`" if len(said) > 160 else f"`{said}`"


class Transcript:
    """An answer that comes as events. `watch` is given each piece of text; `said` counts the text's characters."""

    def __init__(self, watch: Callable[[str], None] | None = None) -> None:
        self._watch = watch
        self._line = bytearray()
        self._event: list[bytes] = []
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._calls = Pieces()
        self._reasoned, self._begun, self._failed = 0, False, False
        self.done = False                   # `[DONE]` came: nothing after it counts

    @property
    def complete(self) -> bool:
        """Whether the answer is whole, whatever becomes of the connection."""
        return self.done or self._finish is not None

    def feed(self, chunk: bytes) -> bool:
        """The next bytes; whether they held an event (a comment that keeps the connection open is none)."""
        self._line += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            return False
        held = b"\r" if self._line.endswith(b"\r") else b""         # the other half of this line's end may follow
        whole = bytes(self._line).removesuffix(held)
        lines = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._line = bytearray(lines.pop() + held)
        told = False
        for line in lines:
            told = self._read(line) or told
        return told

    def _read(self, line: bytes) -> bool:
        line = line.removeprefix(b"\xef\xbb\xbf")
        if line.startswith(b"event:"):
            self._failed = line[6:].strip() == b"error"
        if (not line and self._event) or len(self._event) > _LINES:
            raise Malformed(f"an event of its stream is no JSON: {_shown(b' '.join(self._event))}")
        if not line.startswith(b"data:"):
            return False
        self._event.append(line[5:].strip())
        data = b"\n".join(self._event)
        if data == b"[DONE]" or self.done:
            self.done = True
            self._event.clear()
            return True
        try:
            chunk = read(data.decode(), lenient=True)
        except UnicodeDecodeError:
            raise Malformed("its stream is no UTF-8") from None
        except NotJSON:
            return False                    # an event may have several lines: the empty one after them decides
        self._event.clear()
        if self._failed:
            raise ToldError(chunk.get("error", chunk) if isinstance(chunk, dict) else chunk, begun=self._begun)
        self._take(chunk)
        return True

    def _take(self, chunk: Any) -> None:
        if not isinstance(chunk, dict):
            return
        usage = usage_in(chunk)
        if self._finish is not None and chunk.get("error"):
            choice = None                   # it was whole before, and the counts are here
        else:
            choice = _choice(chunk, usage, begun=self._begun)
        if choice is not None:
            said = choice.get("delta") or choice.get("message")
            if isinstance(said, dict):
                self._say(said)
            self._finish = _finish(choice) or self._finish
        if self._finish is not None and usage is not None:
            self._usage = usage             # counts that come before the end are not yet all
        self._begun = True

    def _say(self, said: Mapping[str, Any]) -> None:
        text, thought = _text(said.get("content"))
        thinking = said.get("reasoning_content") or said.get("reasoning")
        self._reasoned += thought + (len(thinking) if isinstance(thinking, str) else 0)
        self._calls.add(said)
        if refusal := _refusal(said):
            self._refusals.append(refusal)
        if text:
            self._texts.append(text)
            if self._watch is not None:
                self._watch(text)

    def answer(self) -> EndpointAnswer:
        """What came, once the stream has ended. Raises Malformed where it ended before the answer did."""
        if not self.complete:
            if self._line and not self._line.strip().startswith(_EVENTS):
                raise Malformed("its stream ends in the middle of a line")
            so_far = sum(map(len, self._texts))
            raise Malformed(f"its stream ended before the answer did (after {so_far:,} characters of text)")
        return _finished("".join(self._texts), self._finish, self._usage, "".join(self._refusals), self._reasoned,
                         self._calls.whole())
