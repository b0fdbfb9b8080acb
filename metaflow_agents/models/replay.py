"""`replay:RECORDING` and `replay:RECORDING,MODEL`: the answers of a recorded run, by call and exact prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from metaflow_agents.errors import AttemptFailed, UsageError, did_you_mean
from metaflow_agents.journal.places import WORKSPACE, journal_path, run_names
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import Model, ModelRequest, Reply, Traits, traits
from metaflow_agents.models.recording import ENDING, RecordedCall, Recording, read_recording
from metaflow_agents.models.text_form import forms, in_text
from metaflow_agents.modules import file_places
from metaflow_agents.schema.difference import unified

_MOST_LINES, _WIDEST = 16, 160           # of a difference that is told


def replay_model(written: str, other: Model | None, folders: Sequence[Path], home: Path | None) -> Model:
    """The model of `replay:WRITTEN`, and with `other` of `replay:WRITTEN,OTHER`. Raises UsageError, JournalError."""
    strict = ReplayModel(f"replay:{written}", read_recording(find(written, folders, home)))
    return strict if other is None else ReplayOr(strict, other)


def find(written: str, folders: Sequence[Path], home: Path | None) -> Path:
    """The file of a recording: a path that ends in `.jsonl` or `.db`, looked for as Python files are, else a run's name.

    Raises UsageError, saying where it was looked for and what there is.
    """
    if written.endswith((ENDING, ".db")) or "/" in written:
        places = file_places(written, folders)
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            looked = ", ".join(f"`{place}`" for place in dict.fromkeys(places))
            raise UsageError(f"there is no recording `{written}`: looked for {looked}")
        return found
    workspace = WORKSPACE if home is None else home
    path = journal_path(workspace, written)
    if not path.is_file():
        raise UsageError(f"there is no recording `{written}`: no run of {workspace}/ has that name, and a file's name ends in "
                         f"`{ENDING}` or `.db`; {did_you_mean(written, run_names(workspace))}")
    return path


class ReplayModel:
    """Answers only what was recorded, with the tokens that were counted then; it costs nothing.

    The worst case of a call is what it was when it was recorded, so that budgets let the same calls pass.
    """

    def __init__(self, name: str, recording: Recording) -> None:
        self._name, self._recording = name, recording

    @property
    def name(self) -> str:
        """As it was given: `replay:RECORDING`."""
        return self._name

    def knows(self, request: ModelRequest) -> bool:
        """Whether exactly this prompt was recorded for this call."""
        return self._recorded(request) is not None

    def _recorded(self, request: ModelRequest) -> RecordedCall | None:
        """The call as it was recorded; a model without tool calls of its own was asked in the text form."""
        calls = self._recording.calls.get(request.key, {})
        return next((calls[form.prompt] for form in forms(request) if form.prompt in calls), None) if calls else None

    def worst(self, request: ModelRequest) -> tuple[int, int]:
        """Tokens in and out that the call can cost at most."""
        sent, bound = request.worst_tokens - request.max_tokens, request.max_tokens
        call = self._recorded(request)
        if call is None or call.reply is None:
            return sent, bound
        return max(sent, call.reply.tokens_in), max(call.max_tokens, call.reply.tokens_out)

    async def ask(self, request: ModelRequest) -> Reply:
        """The recorded reply. Raises AttemptFailed where the recorded call failed, CallFailed where it is not recorded."""
        call = self._recorded(request)
        if call is None:
            raise CallFailed(self._unknown(request), then="stop", charged=0, refused=True)
        if call.reply is None:
            raise AttemptFailed(call.failed or "it failed when it was recorded")
        return call.reply

    def _unknown(self, request: ModelRequest) -> str:
        calls = self._recording.calls.get(request.key, {})
        mend = f"`--model {self._name},MODEL` asks MODEL for what is not recorded"
        if not calls:
            return (f"not recorded: {request.key} is no call of {self._recording.name}"
                    f"{self._nearest(request)}; {mend}")
        before = list(calls.values())[-1].asked
        changed = "\n".join(difference(before, request if before.get("tools") else in_text(request)))
        return (f"stale: this prompt changed: {request.key} was recorded in {self._recording.name} with another one; {mend}, or "
                f"record it anew (`sop export RUN --recording FILE`). What changed:\n{changed}")

    def _nearest(self, request: ModelRequest) -> str:
        """What of the same step was recorded, where something was."""
        here = [key for key in self._recording.calls if key.partition("@")[0] == request.step]
        if here:
            return f", which has of this step: {', '.join(here[:4])}{', …' if len(here) > 4 else ''}"
        steps = list(dict.fromkeys(key.partition("@")[0] for key in self._recording.calls))
        return f", which has the steps {', '.join(steps[:8])}{', …' if len(steps) > 8 else ''}"


class ReplayOr:
    """Answers what was recorded, and asks another model for the rest: a changed prompt re-asks just itself."""

    def __init__(self, recorded: ReplayModel, other: Model) -> None:
        self._recorded, self._other = recorded, other

    @property
    def name(self) -> str:
        """`replay:RECORDING,MODEL`."""
        return f"{self._recorded.name},{self._other.name}"

    @cached_property
    def traits(self) -> Traits:
        """Those of the other model: what is asked of it has its parameters."""
        return traits(self._other)

    async def __aenter__(self) -> Self:
        """The other one keeps what it owns for as long as this is entered."""
        if isinstance(self._other, AbstractAsyncContextManager):
            await self._other.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(self._other, AbstractAsyncContextManager):
            await self._other.__aexit__(kind, error, trace)

    @property
    def at_terminal(self) -> bool:
        """Whether the other one asks the person at this terminal."""
        return bool(getattr(self._other, "at_terminal", False))

    def chosen(self, request: ModelRequest) -> Model:
        """Who answers this one; its limits and prices are those of the one that does."""
        return self._recorded if self._recorded.knows(request) else self._other

    async def ask(self, request: ModelRequest) -> Reply:
        """The answer of whoever answers this one."""
        return await self.chosen(request).ask(request)


def difference(before: Mapping[str, Any], request: ModelRequest) -> Iterator[str]:
    """What changed between a recorded prompt and one that is asked, as a short unified difference."""
    now = {"messages": request.messages, "schema": request.schema, "tools": request.tools}
    lines = [line for line in unified(list(_lines(before)), list(_lines(now)), "recorded", "now", context=1)
             if line.strip() and not line.startswith("@@")]
    for line in lines[:_MOST_LINES]:
        yield line if len(line) <= _WIDEST else line[:_WIDEST - 1] + "…"
    if len(lines) > _MOST_LINES:
        yield f"… and {len(lines) - _MOST_LINES} lines more"


def _lines(asked: Mapping[str, Any]) -> Iterator[str]:
    """A prompt, line by line, each message under its role."""
    for message in asked["messages"]:
        yield f"[{message['role']}]"
        yield from message["content"].splitlines()
        for call in message.get("calls", ()):
            yield json.dumps(call, ensure_ascii=False, sort_keys=True)
    for name in ("schema", "tools"):
        if asked.get(name):
            yield f"[{name}]"
            yield from json.dumps(asked[name], ensure_ascii=False, indent=1, sort_keys=True).splitlines()

