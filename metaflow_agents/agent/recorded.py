"""The tool calls of an activation as the journal has them: written as they end, and known again when the run is gone on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import time
from typing import Any

from metaflow_agents.agent.offered import Offered
from metaflow_agents.agent.surroundings import Surroundings
from metaflow_agents.errors.encodable import encodable
from metaflow_agents.journal.records import Act
from metaflow_agents.journal.state import Slot
from metaflow_agents.models.port import ToolCall
from metaflow_agents.schema.checks import json_value
from metaflow_agents.schema.event import Done, EarlierEffect, Intended
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Data, Patch, pack, unpack
from metaflow_agents.schema.tools import Effect
from metaflow_agents.tools.port import Situation, ToolResult


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended: it was `refused`, or only `staged`, or it took so many `seconds`."""

    refused: bool = False
    staged: bool = False
    seconds: float = 0.0


CARRIED_OUT, REFUSED, STAGED = Ended(), Ended(refused=True), Ended(staged=True)


class Recorded:
    """Writes how calls are meant and how they end, and reads what they gave before."""

    def __init__(self, around: Surroundings, slot: Slot, offered: Offered) -> None:
        self._around, self._slot, self._offered = around, slot, offered
        self._replayed: list[tuple[str, Mapping[str, Any]]] = []
        self._seen_first: dict[str, Mapping[str, bytes]] = {}

    def known(self, key: str, call: ToolCall) -> Act | None:
        """What the journal has of a call; None where it is new, or if the model was asked anew and calls something else."""
        act = self._slot.acts.get(key)
        return act if act is not None and self._is_same(key, act, call) else None

    def _is_same(self, key: str, act: Act, call: ToolCall) -> bool:
        """Whether what the journal has under a key is this call: with its arguments, or with those that a person made of them."""
        intended = act.intended
        if intended.tool != call.name:
            return False
        if intended.arguments == digest(packed(call.arguments)):
            return True
        answer = self._around.desk.known(f"{key}/may")
        if answer is None or answer.arguments is None or not isinstance(call.arguments, Mapping):
            return False
        return intended.arguments == digest(packed(answer.arguments)) and \
            self._around.desk.question(f"{key}/may").arguments == self.masked(call.arguments)

    def masked(self, arguments: Any) -> Any:
        """Arguments as people see them: secrets redacted."""
        return json.loads(self._around.secrets.masked(json.dumps(arguments)))

    def again(self, name: str, act: Act, done: Done, situation: Situation) -> ToolResult:
        """What a call of the tool `name` gave before the run was gone on with."""
        values = self._around.values
        written: dict[str, bytes] = {}
        deleted: tuple[str, ...] = ()
        patch = None if done.patch is None else values.payload(done.patch)
        if isinstance(patch, Patch):
            written, deleted = {path: values.data(blob) for path, blob in patch.written.items()}, patch.deleted
        arguments = values.plain(act.intended.arguments)        # a person may have changed what the model wrote
        result = ToolResult(values.plain(done.payload), done.error, done.untrusted, written, deleted)
        if isinstance(arguments, Mapping) and not (done.refused or done.staged):
            self._replayed.append((name, arguments))
            self._seen_first.setdefault(name, situation.files)
            self._offered.replayed(done.key, name, arguments, result)
        self._offered.said(short(done.key), result.text)
        return result

    def replays(self, tool: str) -> tuple[Mapping[str, Any], ...]:
        """See `Situation.earlier`."""
        return tuple(arguments for name, arguments in self._replayed if name == tool)

    def seen_first(self, tool: str) -> Mapping[str, bytes] | None:
        """What the first of these calls saw of the files; None where there was none."""
        return self._seen_first.get(tool)

    async def intended(self, key: str, tool: str, arguments: Any, effect: Effect) -> Act:
        """A call that is about to be made, durable before it may have any effect."""
        blobs, intended = self._intention(key, tool, arguments, effect)
        await self._around.bus.publish(intended, blobs=blobs)
        return Act(intended)

    def _intention(self, key: str, tool: str, arguments: Any, effect: Effect) -> tuple[dict[str, bytes], Intended]:
        data = packed(arguments)
        name = digest(data)
        return {name: data}, Intended(at=time(), key=key, tool=tool, arguments=name, effect=effect)

    async def done(self, key: str, tool: str, arguments: Any, effect: Effect, result: ToolResult, act: Act | None,
                   ended: Ended = CARRIED_OUT) -> ToolResult:
        """Journals how a call ended, and gives the result as everybody sees it: secrets redacted."""
        masks = self._around.secrets
        source = masks.masked(result.untrusted)
        result = replace(result, text=encodable(masks.masked(result.text)), untrusted=source,
                         written={path: masks.masked_bytes(data) for path, data in result.written.items()})
        told = pack(Data(value=result.text))
        blobs = {digest(told): told}
        patch = None
        if result.written or result.deleted:
            names = {path: digest(data) for path, data in result.written.items()}
            whole = pack(Patch(written=names, deleted=result.deleted))
            patch = digest(whole)
            blobs |= {patch: whole, **{names[path]: data for path, data in result.written.items()}}
        events: list[Any] = []
        if act is None:
            more, intended = self._intention(key, tool, arguments, effect)
            blobs |= more
            events.append(intended)
        events.append(Done(at=time(), key=key, payload=digest(told), patch=patch, error=result.error, refused=ended.refused,
                           untrusted=source, staged=ended.staged, seconds=ended.seconds))
        if effect == "none":
            self._around.bus.post(*events, blobs=blobs)
        else:
            await self._around.bus.publish(*events, blobs=blobs)
        self._offered.said(short(key), result.text)
        return result

    async def taken(self, key: str, tool: str, arguments: Any, effect: EarlierEffect, situation: Situation, *,
                    told: bool) -> ToolResult:
        """What a call of an earlier run gave, in place of this one. `told`: a role is told so, where it called with others."""
        intended, blobs = self._intention(key, tool, arguments, "once")[::-1]
        blobs |= self._around.repeats.blobs(effect)
        payload = effect.payload
        if told and effect.arguments != intended.arguments:
            text = pack(Data(value=f"`{tool}` was not called: a person lets what it gave in an earlier run stand, where it was "
                                   f"called with other arguments: {unpacked(blobs[effect.arguments])}\n\n"
                                   f"{unpacked(blobs[payload])}"))
            payload = digest(text)
            blobs[payload] = text
        done = Done(at=time(), key=key, payload=payload, patch=effect.patch, untrusted=effect.untrusted)
        intended = intended.model_copy(update={"taken": effect})
        await self._around.bus.publish(intended, done, blobs=blobs)
        return self.again(tool, Act(intended, done), done, situation)


def short(key: str) -> str:
    """A call's key inside of its activation: `turn.0/tool.1`."""
    return key.partition("~")[2].partition("/")[2]


def packed(arguments: Any) -> bytes:
    """The arguments of a call as the journal stores them."""
    return pack(Data(value=json_value(dict(arguments) if isinstance(arguments, Mapping) else arguments)))


def unpacked(data: bytes) -> str:
    """What `packed` or a result's text was, as text."""
    held = unpack(data)
    value = held.value if isinstance(held, Data) else ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
