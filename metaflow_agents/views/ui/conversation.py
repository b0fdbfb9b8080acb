"""What one activation was shown and said, call by call, and what it did: from the events that are its own.

A turn is one try at one call of a model. Its messages are those that it adds to an earlier turn which it goes on from (`after`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.journal.run_summary import RawJournal, unwrapped
from metaflow_agents.models.port import tokens_of
from metaflow_agents.models.schema_in_words import asks_for_text
from metaflow_agents.schema.keys import CHECKED, EMBED, REPAIRED, innermost
from metaflow_agents.schema.model import canonical
from metaflow_agents.schema.model import digest as digest_of
from metaflow_agents.texts.strict_json import read
from metaflow_agents.views.gave import observed_told
from metaflow_agents.views.graph import worker_of
from metaflow_agents.views.ui.activations import Bar, Row
from metaflow_agents.views.ui.index import RunIndex
from metaflow_agents.views.ui.prompt_parts import parts_told
from metaflow_agents.views.ui.texts import Text, clean, line, text
from metaflow_agents.views.ui.thoughts import branch_of, thoughts
from metaflow_agents.views.ui.timeline_page import state_of
from metaflow_agents.views.ui.tool_calls import ToolCalls
from metaflow_agents.views.values import text_of

TURNS = 60
"""Turns of an answer."""
_BYTES = 400_000                    # of the texts of an answer: then it ends, with at least one turn
_ACTS = 200
_MESSAGES = 80                      # of a turn
_DOERS = {"run": "command", "call": "function", "use": "function", "tool": "tool", "value": "value", "human": "question",
          "sop": "sop", "role": "role"}


@dataclass(slots=True)
class _Call:
    """One try: the event that reserved it, the one that settled it, and its bar in the time line."""

    seq: int
    asked: Mapping[str, Any]
    bar: Bar | None
    settled: Mapping[str, Any] | None = None
    repaired: str | None = None

    @property
    def key(self) -> str:
        return str(self.asked["key"])


@dataclass
class _Said:
    """The events of one activation, by what they are of."""

    calls: list[_Call] = field(default_factory=list)
    observed: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    tools: ToolCalls = field(default_factory=ToolCalls)


class Conversations:
    """The conversations of one run."""

    def __init__(self, index: RunIndex, journal: RawJournal) -> None:
        self._index, self._journal = index, journal

    def of(self, key: str, offset: int = 0, *, alive: bool = False) -> dict[str, Any]:
        """The conversation of an activation. Raises KeyError where the run has none of that key, JournalError."""
        row = self._index.timeline.rows[key]
        said = self._read(row)
        turns, more = self._turns(row, said, offset)
        calls = said.calls
        before, after = self._index.timeline.neighbours(row)
        return {
            "key": key, "step": row.path, "round": row.own.round, "item": row.own.item and line(row.own.item),
            "attempt": row.own.attempt, "role": row.role or self._index.lines.roles.get(row.path, ""),
            "model": calls[0].asked["model"] if calls else "", "does": self._does(row),
            "attempts": self._index.timeline.attempts(row),
            "read": dict(row.firing.read), "inside": row.place,
            "previous": before, "next": after,
            "began": round(row.began, 3), "ended": self._ended(row, alive=alive),
            "total": len(calls), "offset": offset, "more": more, "turns": turns, "acts": self._acts(said) if not offset else [],
            "thoughts": thoughts([call.key for call in calls], said.observed, self._value) if not offset else []}

    def _read(self, row: Row) -> _Said:
        said, calls = _Said(), dict[str, _Call]()
        bars = iter([bar for bar in row.bars if bar.kind == "call"])
        for seq, raw in self._journal.numbered(row.numbers):
            _, event = unwrapped(raw)
            match event["kind"]:
                case "reserved":
                    said.calls.append(_Call(seq, event, next(bars, None)))
                    calls[event["key"]] = said.calls[-1]
                case "settled":
                    if event["key"] in calls:
                        calls[event["key"]].settled = event
                case "observed" if event["key"].endswith(REPAIRED):
                    if event["key"].removesuffix(REPAIRED) in calls:
                        calls[event["key"].removesuffix(REPAIRED)].repaired = event["payload"]
                case "observed":
                    said.observed.append((seq, event))
                case _:
                    said.tools.take(seq, event)
        return said

    # -- turns

    def _turns(self, row: Row, said: _Said, offset: int) -> tuple[list[dict[str, Any]], int | None]:
        """The turns from the `offset`th on, as many as fit, and where the rest begins."""
        known = _Known()
        for call in _leading(said.calls, offset):                  # what the first of these goes on from
            known.after(self._request(call), self._reply(call), call.key)
        found, size = list[dict[str, Any]](), 0
        for number, call in enumerate(said.calls[offset:offset + TURNS], offset):
            turn = self._turn(row, call, said, known)
            size += _size(turn)
            if found and size > _BYTES:
                return found, number
            found.append(turn)
        after = offset + len(found)
        return found, after if after < len(said.calls) else None

    def _request(self, call: _Call) -> Mapping[str, Any]:
        found: Mapping[str, Any] = read(self._journal.blob(call.asked["request"]))
        return found

    def _reply(self, call: _Call) -> Mapping[str, Any] | None:
        digest = None if call.settled is None else call.settled.get("reply")
        if digest is None:
            return None
        found: Mapping[str, Any] = read(self._journal.blob(digest))
        return found

    def _turn(self, row: Row, call: _Call, said: _Said, known: _Known) -> dict[str, Any]:
        settled, request, reply = call.settled or {}, self._request(call), self._reply(call)
        after, same = known.after(request, reply, call.key)
        _, rest = innermost(call.key)
        embeds = EMBED in call.key
        messages = [] if embeds else [self._message(number, message, call.asked["request"], row)
                                      for number, message in list(enumerate(request["messages"]))[same:]]
        if after is None and not embeds and (beside := _beside(request, call.asked["request"])):
            messages.append({"role": "beside", "parts": beside})
        bar = call.bar
        return {
            "key": call.key, "seq": call.seq, "branch": branch_of(rest), "try": call.asked.get("try", 0),
            "role": call.asked.get("role", ""), "model": call.asked["model"], "at": None if bar is None else round(bar.began, 3),
            "seconds": None if bar is None or bar.ended is None else round(bar.ended - bar.began, 3),
            "state": "running" if bar is None else bar.state, "tokens_in": settled.get("tokens_in", 0),
            "tokens_out": settled.get("tokens_out", 0), "cached": settled.get("tokens_cached", 0),
            "usd": settled.get("cost", 0) / 10**12, "estimated": bool(settled.get("estimated")),
            "error": text(settled["error"]) if settled.get("error") else None, "after": after,
            "asked": len(request["messages"]), "embeds": len(request["messages"]) if embeds else 0,
            "messages": messages if len(messages) <= _MESSAGES else [*messages[:_MESSAGES // 2], *messages[-_MESSAGES // 2:]],
            "left_out": max(len(messages) - _MESSAGES, 0),
            "answer": None if embeds else self._answer(reply, settled.get("reply")),
            "cut": bool(reply and reply.get("cut")), "repaired": self._repaired(call),
            "tools": said.tools.told(call.key, (reply or {}).get("calls", ()), self._journal.blob)}

    def _message(self, number: int, message: Mapping[str, Any], digest: str, row: Row) -> dict[str, Any]:
        path = f"messages/{number}/content"
        written = message.get("content") or ""
        if message["role"] == "user":
            parts = parts_told(clean(written), digest, path, row.firing.read)
        else:
            kind = "result" if message["role"] == "tool" else message["role"]
            parts = [_part(kind, message.get("name", ""), text(written, digest, path), written)] if written else []
        parts += [_part("call", one.get("name", ""), text(text_of(one.get("arguments", ""))), "")
                  for one in message.get("calls", ())]
        parts += [{**_part("image", one.get("name", ""), {"text": ""}, ""), "media": one.get("media_type", ""),
                   "width": one.get("width"), "height": one.get("height"), "digest": one.get("sha256", "")}
                  for one in message.get("images", ())]
        return {"role": message["role"], "parts": parts}

    @staticmethod
    def _answer(reply: Mapping[str, Any] | None, digest: str | None) -> Text | None:
        if reply is None or digest is None or (reply.get("calls") and not reply.get("text")):
            return None
        if reply.get("text") is not None:
            return text(reply["text"], digest, "text")
        return text(text_of(reply.get("value")), digest, "value")

    def _repaired(self, call: _Call) -> list[str]:
        if call.repaired is None:
            return []
        found = self._value(call.repaired)
        if "refused" in found:
            return [f"not repaired: {line(found['refused'])}"]
        return [line(one) for one in found.get("changes", ())]

    # -- what else it did

    def _value(self, digest: str) -> Any:
        return read(self._journal.blob(digest)).get("value")

    def _acts(self, said: _Said) -> list[dict[str, Any]]:
        """What was observed, decided and asked beside the calls of tools of its turns."""
        told = [self._observed(seq, event) for seq, event in said.observed[:_ACTS]]
        turns = {call.key for call in said.calls}
        told += said.tools.beside(turns, self._journal.blob)[:_ACTS]
        return sorted(told, key=lambda act: act["seq"])

    def _observed(self, seq: int, event: Mapping[str, Any]) -> dict[str, Any]:
        _, rest = innermost(event["key"])
        name = rest.rpartition("/")[2]
        kind = "check" if f"/{name}".startswith(CHECKED) else {
            "run": "command", "call": "function", "use": "function", "tools": "tools", "recalled": "recalled",
            "lessons": "recalled", "inbox": "letters"}.get(name, "note")
        held = read(self._journal.blob(event["payload"]))
        value = held.get("value", {name: one for name, one in held.items() if name != "kind"})
        if kind == "tools":
            shown = "\n".join(f"{one['name']}: {line(one.get('description', ''))}" for one in value)
        elif kind == "recalled" and isinstance(value, list) and all(isinstance(one, dict) and "text" in one for one in value):
            shown = "\n\n".join(_memory(one) for one in value)
        elif kind == "command" and isinstance(value, dict) and {"stdout", "stderr"} <= set(value):
            shown = "\n".join(filter(None, (value["stdout"], value["stderr"])))
        else:
            shown = "" if kind == "check" and value in (None, "", [], True) else text_of(value)
        return {"kind": kind, "key": event["key"], "seq": seq, "seconds": round(event.get("seconds", 0.0), 3),
                "told": line(observed_told(event["key"], held)), "text": text(shown, event["payload"], "value")}

    def _does(self, row: Row) -> dict[str, Any]:
        """What the step is, as its SOP has it."""
        step = self._index.steps.get(row.path)
        if step is None:
            return {"kind": "", "told": "", "text": {"text": ""}}
        words = {"run": step.run if isinstance(step.run, str) else " ".join(step.run or ()), "value": step.value,
                 "call": step.call, "tool": step.tool, "use": step.use, "sop": step.sop}.get(step.doer) or step.task or ""
        return {"kind": _DOERS[step.doer], "told": line(worker_of(step)), "text": text(words)}

    def _ended(self, row: Row, *, alive: bool) -> dict[str, Any]:
        made = row.firing.made if row.state in ("done", "reused") else ()
        return {"state": state_of(row, alive), "at": None if row.ended is None else round(row.ended, 3),
                "error": text(row.error) if row.error else None, "final": row.final, "source": line(row.source),
                "versions": [f"{row.place}/{name}" if row.place else name for name in made]}


def _memory(one: Mapping[str, Any]) -> str:
    """What came back to mind, below where it comes from."""
    weighs = f", importance {one['importance']}" if one.get("importance") is not None else ""
    place = " ".join(filter(None, (one.get("run"), one.get("activation"))))
    return f"▪ {one.get('kind', 'memory')} from {place or 'elsewhere'}{weighs}\n{one['text']}"


class _Known:
    """The conversations so far, by what they begin with."""

    def __init__(self) -> None:
        self._ends: dict[bytes, str] = {}               # digest of all messages up to one → the first turn that has them

    def after(self, request: Mapping[str, Any], reply: Mapping[str, Any] | None, key: str) -> tuple[str | None, int]:
        """The turn with the longest beginning in common, and how many messages that is; from now on this turn is known, too."""
        so_far, found, same = b"", None, 0
        messages = [canonical(message) for message in request["messages"]]
        for number, message in enumerate(messages, 1):
            so_far = digest_of(so_far + message).encode()
            if so_far in self._ends:
                found, same = self._ends[so_far], number
            else:
                self._ends[so_far] = key
        if reply is not None:
            words = reply["text"] if reply.get("text") is not None else text_of(reply.get("value"))
            said = {"role": "assistant", "content": words, **({"calls": reply["calls"]} if reply.get("calls") else {})}
            self._ends.setdefault(digest_of(so_far + canonical(said)).encode(), key)
        return found, same


def _leading(calls: Sequence[_Call], offset: int) -> Iterable[_Call]:
    """The calls before the `offset`th that it most probably goes on from: the first of all, and the last of its branch."""
    if not offset or offset >= len(calls):
        return []
    branch = branch_of(innermost(calls[offset].key)[1])
    same = [call for call in calls[:offset] if branch_of(innermost(call.key)[1]) == branch]
    return [calls[0], *same[-1:]]


def _beside(request: Mapping[str, Any], digest: str) -> list[dict[str, Any]]:
    """What is sent beside the messages: the schema of the answer, and the tools."""
    schema = None if asks_for_text(request.get("schema")) else request["schema"]
    sent = [(word, text_of(value)) for word, value in (("schema", schema), ("tools", request.get("tools"))) if value]
    return [_part(word, "", text(written, digest, word), written) for word, written in sent]


def _part(kind: str, name: str, told: Text, written: str) -> dict[str, Any]:
    return {"kind": kind, "name": line(name), "shown": "", "tokens": tokens_of(len(written.encode())), "text": told}


def _size(turn: Mapping[str, Any]) -> int:
    """About how many characters a turn has."""
    answer = turn["answer"] or {"text": ""}
    return (len(answer["text"]) + sum(len(part["text"]["text"]) for message in turn["messages"] for part in message["parts"])
            + sum(len(tool["result"]["text"]) + len(tool["arguments"]["text"]) for tool in turn["tools"]))
