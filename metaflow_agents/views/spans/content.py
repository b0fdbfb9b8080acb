"""The content of calls as attributes: what models were asked and said, what tools were given and gave. Only where asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from metaflow_agents.schema import pictures
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.span import Attributes

LONGEST = 20_000
"""Characters of one text that is exported, by default."""
Masked = Callable[[str], str]


class Content:
    """Reads the journal's blobs of a call. `masked` redacts secrets; a text is cut after `longest` characters, which is said.

    Messages have the shape of the conventions: `[{"role", "parts": [{"type": "text", "content"}]}]`.
    """

    def __init__(self, blob: Callable[[str], bytes], masked: Masked = str, longest: int = LONGEST) -> None:
        self._blob, self._masked, self._longest = blob, masked, longest

    def text(self, text: str) -> str:
        """A text with its secrets redacted, not longer than is allowed."""
        told = self._masked(text)
        left = len(told) - self._longest
        return told if left <= 0 else f"{told[:self._longest]}… ({left:,} more characters)"

    def request(self, digest: str) -> Attributes:
        """What a call sends."""
        sent = self._read(digest)
        messages = sent["messages"]
        system = [self._part(message["content"]) for message in messages if message["role"] == "system"]
        others = [{"role": message["role"], "parts": list(self._parts(message))} for message in messages
                  if message["role"] != "system"]
        found: Attributes = {names.INPUT_MESSAGES: _json(others), names.MAX_TOKENS: sent["max_tokens"],
                             names.OUTPUT_TYPE: "text" if sent["schema"] is None else "json"}
        if system:
            found[names.SYSTEM] = _json(system)
        return found

    def reply(self, digest: str) -> Attributes:
        """What it was answered."""
        said = self._read(digest)
        text = said["text"] if said["text"] is not None else _json(said["value"])
        parts = [*([self._part(text)] if text else []), *map(self._call, said.get("calls", ()))]
        reason = "tool_call" if said.get("calls") else "length" if said.get("cut") else "stop"
        return {names.OUTPUT_MESSAGES: _json([{"role": "assistant", "parts": parts, "finish_reason": reason}])}

    def held(self, attribute: str, digest: str) -> Attributes:
        """Arguments or a result of a tool call, under an attribute."""
        value = self._read(digest).get("value")
        return {attribute: self.text(value if isinstance(value, str) else _json(value))}

    def value(self, digest: str) -> str:
        """Any other blob that is JSON: a question, an answer, a message between roles."""
        return self.text(_json(self._read(digest)))

    def _parts(self, message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        if message["role"] == "tool":
            yield {"type": "tool_call_response", "id": message["id"], "response": self.text(message["content"])}
            return
        if message["content"]:
            yield self._part(message["content"])
        yield from map(self._call, message.get("calls", ()))
        yield from map(self._part, pictures.told(message))          # their bytes stay in the journal

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "text", "content": self.text(text)}

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        given = call["arguments"]
        told = self.text(given if isinstance(given, str) else _json(given))
        return {"type": "tool_call", "id": call["id"], "name": self.text(call["name"]), "arguments": told}

    def _read(self, digest: str) -> Any:
        return json.loads(self._blob(digest))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
