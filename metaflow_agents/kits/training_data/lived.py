"""What an activation went through: its prompts, the answers that were turned down and why, the one that was taken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.journal.run_summary import RawJournal, unwrapped
from metaflow_agents.models.port import Reply
from metaflow_agents.schema.keys import ActivationKey, activations_in
from metaflow_agents.schema.model import canonical
from metaflow_agents.texts.strict_json import read

_SENT_BACK = re.compile(r"/(?:repair|check)\.\d+(?=/|\Z)")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One call that came back: its key, what was asked, what was said."""

    key: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    reply: Reply

    @property
    def sent_back(self) -> bool:
        """Whether it answers to what was wrong with an answer before it."""
        return _SENT_BACK.search(self.key) is not None


@dataclass(slots=True)
class RecordedActivation:
    """One attempt of an activation. `accepted`: its answer became an artifact; else `error` says why not.

    `path` are the activations that lead to it, itself the last; more than one inside of a sub-SOP. `succeeded`: its run did, and
    every sub-SOP that it is in. `made` is the payload that it became, `untrusted` what of its conversation came from outside the
    user. `failed` are the keys of tool calls that were refused or went wrong.
    """

    run: str
    path: tuple[ActivationKey, ...]
    role: str = ""
    calls: list[RecordedAnswer] = field(default_factory=list)
    accepted: bool = False
    error: str = ""
    made: Any = None
    untrusted: str = ""
    failed: set[str] = field(default_factory=set)
    succeeded: bool = False

    @property
    def place(self) -> tuple[tuple[str, str | None], ...]:
        """Which step and item it is, whatever round and attempt."""
        return tuple((key.step, key.item) for key in self.path)

    @property
    def last(self) -> RecordedAnswer | None:
        """The call whose answer was taken: the last one that says what was made; of files, the last one."""
        if not self.accepted or not self.calls:
            return None
        if self.made is None or self.made.get("kind") != "data":
            return self.calls[-1]
        wanted = self.made["value"]
        return next((call for call in reversed(self.calls) if _plain(call.reply) == wanted), None)

    @property
    def asked(self) -> RecordedAnswer | None:
        """The call to which the answer that was taken is the answer, before anything was sent back: its prompt is a fresh one."""
        last = self.last
        if last is None or not last.sent_back:
            return last
        before = self.calls[:self.calls.index(last)]
        return next((call for call in reversed(before) if not call.sent_back), None)

    @property
    def turned_down(self) -> list[tuple[str, str]]:
        """Answers that were sent back before the one that was taken, each with what was wrong with it."""
        last, asked = self.last, self.asked
        if last is None or asked is None or last is asked:
            return []
        rest = last.messages[len(asked.messages):]
        return [(str(answer["content"]), str(told["content"])) for answer, told in zip(rest[::2], rest[1::2], strict=False)
                if answer["role"] == "assistant" and told["role"] == "user"]


def lives(journal: RawJournal) -> Iterator[RecordedActivation]:
    """The attempts of a run's activations, in the order in which they began; what was taken over from another run has none."""
    found: dict[tuple[ActivationKey, ...], RecordedActivation] = {}
    asked: dict[tuple[str, int], Mapping[str, Any]] = {}
    for _, written in journal.events("reserved", "settled", "finished", "failed", "done", "inner"):
        inside, event = unwrapped(written)
        if event["kind"] not in ("reserved", "settled", "finished", "failed", "done"):
            continue
        path = activations_in("/".join(filter(None, (inside, event.get("activation") or event["key"]))))
        one = found.setdefault(path, RecordedActivation(journal.path.stem, path))
        match event["kind"]:
            case "reserved":
                asked[event["key"], event.get("try", 0)] = json.loads(journal.blob(event["request"]))
            case "settled" if event.get("reply"):
                request = asked[event["key"], event.get("try", 0)]
                if request.get("embeds"):
                    continue                                    # no conversation: nobody trains on vectors
                one.role = request["role"]
                reply = Reply.read(json.loads(journal.blob(event["reply"])))
                one.calls.append(
                    RecordedAnswer(event["key"], tuple(request["messages"]), tuple(request.get("tools") or ()), reply)
                )
            case "finished" if not event.get("reused_from"):
                one.accepted = True
                # A closed answer is trusted again. What it was made of is not, and that stands in the prompt: memory knows.
                one.untrusted = (event.get("memory") or {}).get("untrusted", "") or event.get("untrusted", "")
                one.made = json.loads(journal.blob(event["payload"]))
            case "failed":
                one.error, one.untrusted = event["error"], event.get("untrusted", "")
            case "done":
                one.untrusted = one.untrusted or event.get("untrusted", "")
                if event.get("error") or event.get("refused") or event.get("staged"):
                    one.failed.add(event["key"])
    state, _ = journal.standing()
    failed = {path for path, one in found.items() if one.error}
    for one in found.values():
        one.succeeded = state == "success" and not any(one.path[:depth] in failed for depth in range(1, len(one.path)))
        if one.calls:
            yield one


def _plain(reply: Reply) -> Any:
    if reply.text is None:
        return reply.value
    try:
        return read(reply.text)
    except ValueError:
        return reply.text


def chat(messages: tuple[Mapping[str, Any], ...]) -> list[dict[str, Any]]:
    """Messages as the chat-completions protocol spells them, tool calls included."""
    return [_message(message) for message in messages]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": message["id"], "content": message["content"]}
    if not message.get("calls"):
        return {"role": message["role"], "content": message["content"]}
    calls = [{"id": call["id"], "type": "function", "function": {
        "name": call["name"], "arguments": canonical(call["arguments"]).decode() if isinstance(call["arguments"], dict)
        else call["arguments"]}} for call in message["calls"]]
    return {"role": "assistant", "content": message["content"], "tool_calls": calls}
