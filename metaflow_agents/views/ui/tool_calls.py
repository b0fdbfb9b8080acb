"""The calls of tools of one activation: what was decided, who was asked, what came of it. A fold of its events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.texts.strict_json import read
from metaflow_agents.views.ui.texts import line, text
from metaflow_agents.views.values import text_of

_ASKS = ("may", "happened")         # what the key of a question about a call ends with
_PATHS = 200

Blob = Callable[[str], bytes]


@dataclass(slots=True)
class _OneCall:
    """A call of a tool, or an action of the answer itself."""

    key: str
    seq: int
    decided: list[Mapping[str, Any]] = field(default_factory=list)
    intended: Mapping[str, Any] | None = None
    done: Mapping[str, Any] | None = None
    asked: Mapping[str, Any] | None = None
    answered: Mapping[str, Any] | None = None


class ToolCalls:
    """Take the events of an activation that are not of its model calls, in order."""

    def __init__(self) -> None:
        self._calls: dict[str, _OneCall] = {}

    def take(self, seq: int, event: Mapping[str, Any]) -> None:
        """One more."""
        if event["kind"] not in ("decided", "intended", "done", "asked", "answered"):
            return
        key = _call_of(event["key"])
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _OneCall(key, seq)
        if event["kind"] == "decided":
            call.decided.append(event)
        else:
            setattr(call, event["kind"], event)

    def told(self, turn: str, calls: Sequence[Mapping[str, Any]], blob: Blob) -> list[dict[str, Any]]:
        """The calls of one turn, those that the model asked for (`calls`, as its reply has them) and whatever came of them."""
        found = []
        for number, given in enumerate(calls):
            key = f"{turn}/tool.{number}"
            found.append(_told(self._calls.get(key) or _OneCall(key, 0), blob, given))
        return found

    def beside(self, turns: set[str], blob: Blob) -> list[dict[str, Any]]:
        """What belongs to no turn: the call of a `tool:` step, a question of a `human:` step, a decision about an answer."""
        found = []
        for call in self._calls.values():
            if call.key.rpartition("/")[0] in turns and "/tool." in call.key:
                continue
            told = _told(call, blob, {})
            kind = "tool" if "/tool." in call.key else "decision" if call.decided else "question"
            found.append({**told, "kind": kind, "seq": call.seq, "told": told["action"], "text": told["result"]})
        return found


def _call_of(key: str) -> str:
    """The key of the call that an event is about: less what the key of a question about it has behind it, or that of a part."""
    head, slash, last = key.rpartition("/")
    word = last.partition(".")[0]
    if slash and (word in _ASKS or (word in ("write", "read", "run", "fetch", "delete") and "/tool." in head)):
        return head
    return key


def _told(call: _OneCall, blob: Blob, given: Mapping[str, Any]) -> dict[str, Any]:
    done, intended = call.done or {}, call.intended or {}
    arguments = given.get("arguments") if given else _value(blob, intended.get("arguments"))
    patch = _payload(blob, done.get("patch"))
    result, decided = _value(blob, done.get("payload")), next(iter(call.decided), {})
    return {
        "key": call.key, "tool": line(str(given.get("name") or intended.get("tool") or decided.get("tool", ""))),
        "action": line(decided.get("action", "")),
        "arguments": text(arguments if isinstance(arguments, str) else "" if arguments is None else _json(arguments),
                          intended.get("arguments", ""), "value"),
        "decisions": [{"verdict": one["verdict"], "action": line(one["action"]), "rule": line(one["rule"]),
                       "untrusted": line(one.get("untrusted", ""))} for one in call.decided[:_PATHS]],
        "question": _question(call, blob),
        "result": text(text_of("" if result is None else result), done.get("payload", ""), "value"),
        "error": bool(done.get("error")), "refused": bool(done.get("refused")), "staged": bool(done.get("staged")),
        "untrusted": line(done.get("untrusted", "")), "seconds": round(done.get("seconds", 0.0), 3),
        "state": "done" if call.done else "asked" if call.asked and not call.answered else "running" if call.intended else "",
        "taken": line((intended.get("taken") or {}).get("source", "")),
        "wrote": [line(path) for path in [*patch.get("written", {}), *patch.get("deleted", ())][:_PATHS]]}


def _question(call: _OneCall, blob: Blob) -> dict[str, Any] | None:
    """What a person was asked about it, and what they said."""
    if call.asked is None:
        return None
    question = read(blob(call.asked["question"]))
    found = {"text": text(question.get("text", "")), "rule": line(question.get("rule", "")), "kind": question.get("kind", ""),
             "untrusted": line(question.get("untrusted", "")), "answer": None}
    if call.answered is not None:
        answer = read(blob(call.answered["answer"]))
        changed = answer.get("arguments")
        found["answer"] = {"verdict": answer.get("verdict", ""), "text": text(answer.get("text", "")),
                           "scope": answer.get("scope", "once"), "by": line(call.answered.get("by", "")),
                           "assumed": bool(answer.get("assumed")),
                           "arguments": None if changed is None else text(_json(changed))}
    return found


def _payload(blob: Blob, digest: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if not digest else read(blob(digest))
    return found


def _value(blob: Blob, digest: str | None) -> Any:
    return _payload(blob, digest).get("value")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
