"""What the screens of a policy look at in a run: what a step reads, the arguments and results of tools, and what a step makes.

A finding is a record of the audit, and ends the run, whatever `on_fail` says: an author who was told, and asked again, would look
for words that pass. A resume looks again, and finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import time
from typing import Any

from metaflow_agents.engine.work import Work
from metaflow_agents.errors import Screened, raised
from metaflow_agents.journal.audit import chained
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.policy.screens import PIECE, ScreenRule, names_in, texts_in
from metaflow_agents.schema.binary import text_in
from metaflow_agents.schema.event import Decided
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Binary, Collection, Data, Files, Held, Patch, pack
from metaflow_agents.threads.blocking import Threads, called

_THREADS = Threads(2, "screen")
_PIECES = 32                        # short arguments of earlier calls that the next ones may go on


class Screening:
    """The screens of one run, or of one sub-SOP. Without rules it looks at nothing. A version, or a file, is looked at once."""

    def __init__(self, rules: Sequence[ScreenRule], bus: Bus, state: RunState, values: Values) -> None:
        self._rules, self._bus, self._state, self._values = rules, bus, state, values
        self._seen: set[str] = set()

    async def begun(self, key: str) -> None:
        """Before an activation does anything: all versions that there are, inputs and first values too. Raises Screened."""
        if not self._rules:
            return
        found: dict[str, list[str]] = {}
        for name in self._state.versions:
            payload = self._state.payload(name) or ""
            if payload not in self._seen:
                found[name] = await self._version(key, name, payload)
        if len(found) > 1:          # a name that is cut into several inputs
            await self._look(f"{key}/screen", "inputs", [part for parts in found.values() for part in parts])
        self._seen.update(self._state.payload(name) or "" for name in found)

    async def made(self, key: str, artifact: str, work: Work) -> Work:
        """What a step made, and what is remembered of it, before it is an artifact. Raises Screened."""
        if self._rules:
            await self._held(f"{key}/screen", f"answer {artifact}", work.payload)
            for data in work.blobs.values():
                await self._data(f"{key}/screen", f"answer {artifact}", data)
        return work

    async def remembered(self, key: str, role: str, texts: Iterable[str]) -> None:
        """What comes to a role's mind, and what was sent to it, before it is asked. Raises Screened."""
        for text in texts if self._rules else ():
            await self._look(f"{key}/screen", "memory", [text], role=role)

    async def called(self, key: str, role: str, tool: str, arguments: Any, before: Sequence[str] = ()) -> tuple[str, ...]:
        """The arguments of a call, with short ones of calls `before` it. Gives what is short of both, for the calls after it.
        Raises Screened.
        """
        if not self._rules:
            return ()
        own = list(texts_in(arguments))
        for parts in (own, [*before, *own], list(names_in(arguments))):
            await self._look(key, f"arguments of {tool}", parts, role=role, tool=tool)
        return tuple(part for part in (*before, *own) if len(part) <= PIECE)[-_PIECES:]

    async def gave(self, key: str, role: str, tool: str, text: str) -> None:
        """What a tool gave, before anybody sees it. Raises Screened."""
        if self._rules:
            await self._look(key, f"result of {tool}", [text], role=role, tool=tool)

    async def _version(self, key: str, name: str, digest_: str) -> list[str]:
        what = f"input {name}" if self._state.maker.get(name) is None else f"artifact {name}"
        return await self._held(f"{key}/screen", what, self._values.payload(digest_))

    async def _held(self, key: str, what: str, payload: Held) -> list[str]:
        """The texts of a payload that were looked at together. Files and items are looked at one by one."""
        parts: list[str] = []
        match payload:
            case Data():
                parts = list(texts_in(payload.value))
                await self._look(key, what, parts)
                await self._look(key, what, list(names_in(payload.value)))
            case Binary():
                await self._look(key, what, [payload.name])
            case Files():
                for path, blob in payload.files.items():
                    await self._look(key, what, [path])
                    if blob not in self._seen:
                        await self._data(key, f"{what}: {path}", self._values.data(blob))
            case Patch():               # its bytes are among the blobs of the work
                for path in payload.written:
                    await self._look(key, what, [path])
            case Collection():
                for name, item in payload.items:
                    await self._look(key, what, [name])
                    if item not in self._seen:
                        await self._held(key, what, self._values.payload(item))
                        self._seen.add(item)
        self._seen.add(digest(pack(payload)))
        return [part for part in parts if len(part) <= PIECE]

    async def _data(self, key: str, what: str, data: bytes) -> None:
        name = digest(data)
        if name not in self._seen and (text := text_in(data)) is not None:
            await self._look(key, what, [text])
        self._seen.add(name)

    async def _look(self, key: str, what: str, parts: Sequence[str], *, role: str = "", tool: str = "screen") -> None:
        if told := await refused(self._rules, parts):
            self._bus.post(chained(self._state, Decided(at=time(), key=key, role=role, tool=tool, action=f"screen({what})",
                                                        verdict="deny", rule=told)))
            raise Screened(f"`{what}` is refused ({told}), and the run stops")


async def refused(rules: Sequence[ScreenRule], parts: Sequence[str]) -> str:
    """What the first of these rules says that refuses the texts; empty: none does."""
    for rule in rules if parts else ():
        try:
            found = await called(f"the screen `{rule.name}`", _THREADS, rule.screen.find, parts)
        except Exception as error:      # a screen is somebody else's code: what it could not look at does not pass
            found = f"it failed: {raised(error)}"
        if not isinstance(found, str):
            found = f"it failed: it gave {type(found).__name__}, and no text"
        if told := rule.says(found):
            return told
    return ""
