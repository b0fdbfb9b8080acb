"""What a run's calls were and what came back, as a file of its own: made from a journal, read by `replay:` and `--demo`.

One JSON value a line, in canonical form, so that a difference between two recordings reads well:

    {"recording":1,"sop":"company","inputs":{…},"answered_by":"…","date":"2026-01-31","models":{…},"package":"0.1.0"}
    {"key":"write_prd@1~0/turn.0","messages":[…],"model":"openai:NAME","prompt":"…","reply":{"text":"…",…}}

A call that failed for good has `failed` in place of `reply`. Schema, tools and the answer's bound stand there where they are.
Behind the calls may stand what commands, tools and functions gave, each with the fingerprint of all that it depended on, and the
contents that these name:

    {"result":"test@1~0","depends":"…","payload":{"kind":"data","value":{…}}}
    {"content":{"text":"…"}}
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.places import never_began
from metaflow_agents.journal.run_summary import RawJournal, unwrapped
from metaflow_agents.journal.whole import write_whole
from metaflow_agents.models.port import MAX_TOKENS, Reply
from metaflow_agents.schema.binary import FIELDS
from metaflow_agents.schema.keys import parse_activation, slots, steps_in
from metaflow_agents.schema.model import as_ordered, canonical, digest, fingerprint
from metaflow_agents.schema.payload import blobs_of, pack, unpack
from metaflow_agents.texts.strict_json import read

VERSION = 1
ENDING = ".jsonl"


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call. `asked` is what its prompt was made of: messages, schema, tools. Either a reply, or why there was none."""

    key: str
    prompt: str
    model: str
    asked: Mapping[str, Any]
    reply: Reply | None = None
    failed: str | None = None
    max_tokens: int = MAX_TOKENS

    def line(self) -> bytes:
        """Its line of a recording."""
        asked = {name: value for name, value in self.asked.items() if value is not None and value != []}
        ended = {"failed": self.failed} if self.reply is None else {"reply": _plain(self.reply)}
        bound = {"max_tokens": self.max_tokens} if self.max_tokens != MAX_TOKENS else {}
        told = json.loads(canonical({"key": self.key, "prompt": self.prompt, "model": self.model, **asked, **ended, **bound}))
        if self.reply is not None and self.reply.value is not None:
            told["reply"]["value"] = self.reply.value           # in its own order: later prompts say it so
        return as_ordered(told) + b"\n"


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """What a command, a tool or a function gave. `depends`: the fingerprint of its activation's parts; `payload`: its digest."""

    key: str
    depends: str
    payload: str
    untrusted: str = ""


@dataclass(slots=True)
class Recording:
    """The calls of a run, by key and prompt, and the results of its other steps with the contents (digest → bytes) that they
    name. `told` is the header, empty where a journal was read.
    """

    name: str
    told: dict[str, Any] = field(default_factory=dict)
    calls: dict[str, dict[str, RecordedCall]] = field(default_factory=dict)
    results: list[RecordedResult] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)

    def add(self, call: RecordedCall) -> None:
        """One more call; it goes before an earlier one to the same prompt."""
        self.calls.setdefault(call.key, {})[call.prompt] = call

    def lines(self) -> Iterator[bytes]:
        """The recording as a file."""
        yield canonical(self.told) + b"\n"
        for call in (call for calls in self.calls.values() for call in calls.values()):
            yield call.line()
        for one in self.results:
            heard = {"untrusted": one.untrusted} if one.untrusted else {}
            yield as_ordered({"result": one.key, "depends": one.depends, **heard,
                              "payload": json.loads(self.contents[one.payload])}) + b"\n"
        inside = {one.payload for one in self.results}
        for name in sorted(self.contents.keys() - inside):
            yield canonical({"content": _written(self.contents[name])}) + b"\n"


def read_recording(path: Path) -> Recording:
    """The recording in a `.jsonl` file or in a run's journal. Raises JournalError for one that can't be read."""
    if path.suffix == ENDING:
        return _parsed(path)
    with RawJournal(path) as journal:
        return recorded(journal)


def recorded(journal: RawJournal) -> Recording:
    """The calls of a run that ended: in the order of firings, items and turns, whatever came back first."""
    found: dict[tuple[str, int], RecordedCall] = {}
    fired: dict[str, int] = {}
    items: dict[str, dict[str, int]] = {}
    for _, event in journal.events("fired", "reserved", "settled"):
        if event["kind"] == "fired":
            firing = f"{event['step']}@{event['round']}"
            fired[firing] = len(fired)
            items[firing] = {key: place for place, key in enumerate(event.get("items") or ())}
        elif event["kind"] == "reserved":
            asked = json.loads(journal.blob(event["request"]))
            found[event["key"], event.get("try", 0)] = RecordedCall(
                event["key"], _fingerprint(asked), event["model"], _asked(asked), max_tokens=asked.get("max_tokens", MAX_TOKENS))
        else:
            _settle(journal, event, found)

    def place(call: RecordedCall) -> tuple[int, int, int, str]:
        at = parse_activation(call.key)
        return fired.get(at.firing, 0), items.get(at.firing, {}).get(at.item or "", 0), at.attempt, call.key

    recording = Recording(journal.path.stem)
    for call in sorted((call for call in found.values() if call.reply is not None or call.failed is not None), key=place):
        recording.add(call)
    return recording


def _settle(journal: RawJournal, event: Mapping[str, Any], found: dict[tuple[str, int], RecordedCall]) -> None:
    """How a try ended; one after which the call was tried again, or the run stopped, is no answer."""
    at = event["key"], event.get("try", 0)
    call = found[at]
    if event.get("reply"):
        reply = Reply.read(json.loads(journal.blob(event["reply"])))
        found[at] = RecordedCall(call.key, call.prompt, call.model, call.asked, reply, max_tokens=call.max_tokens)
    elif not event.get("again") and not event.get("stops"):
        tried = f" (after {at[1] + 1} tries)" if at[1] else ""              # as the attempt was told of it
        found[at] = RecordedCall(call.key, call.prompt, call.model, call.asked, failed=f"{event.get('error', '')}{tried}",
                             max_tokens=call.max_tokens)


def record(journal: RawJournal, answered_by: str, *others: RawJournal, results: bool = False) -> Recording:
    """A run's recording: `answered_by` tells in a person's words who answered. `results`: also what commands, tools and functions
    gave.

    `others` are further runs of the same SOP on the same inputs, whose calls and results it holds too: what a command prints may
    differ from one machine to the next, and a run go another way. Raises UsageError where they are not that, and for a run whose
    calls stand in part in the journal of a run that is none of these.
    """
    beside = {one.path.stem for one in (journal, *others)}
    first = _record(journal, answered_by, results, beside)
    for other in others:
        further = _record(other, answered_by, results, beside)
        for same in ("sop", "inputs"):
            if first.told[same] != further.told[same]:
                raise UsageError(f"runs `{first.name}` and `{further.name}` differ in their {same}: one recording holds runs of "
                                 "one SOP on the same inputs")
        for key, calls in further.calls.items():
            first.calls[key] = {**calls, **first.calls.get(key, {})}
        held = {(slots(one.key), one.depends) for one in first.results}
        first.results += [one for one in further.results if (slots(one.key), one.depends) not in held]
        first.contents |= further.contents
    if not first.calls:
        raise UsageError(f"run `{first.name}` asked no model: there is nothing to record")
    return first


def _record(journal: RawJournal, answered_by: str, results: bool, beside: Set[str]) -> Recording:
    opened = next((event for _, event in journal.events("run_opened")), None)
    if opened is None:
        raise never_began(journal.path.stem)
    program = json.loads(journal.blob(opened["compiled"]))
    for path, event in (unwrapped(outer) for _, outer in journal.events("finished", "inner")):
        other = (event.get("reused_from") or "").partition(":")[0]
        if not other or other in beside:
            continue
        key = f"{path}/{event['activation']}".lstrip("/")
        step = _step(program, steps_in(key))
        if step.get("role") or step.get("sop") or step.get("review"):           # any other asked no model
            raise UsageError(f"{key} was taken over from run `{other}`, whose calls this journal does not hold: add "
                             f"`--also {other}`, or record a run that was made without `--from`")
    recording = recorded(journal)
    recording.calls = {key: {prompt: replace(call, model=_elsewhere(call.model)) for prompt, call in calls.items()}
                       for key, calls in recording.calls.items()}
    if results:
        _add_results(recording, journal, program)
    recording.told = {
        "recording": VERSION, "sop": program["sop"]["sop"], "inputs": _inputs(journal, program["sop"].get("inputs", {})),
        "answered_by": answered_by, "package": opened.get("package", ""),
        "models": {name: _elsewhere(model) for name, model in opened.get("models", {}).items()},
        "date": datetime.fromtimestamp(opened.get("at", 0.0), UTC).date().isoformat()}
    return recording


def _add_results(recording: Recording, journal: RawJournal, program: Mapping[str, Any]) -> None:
    """What steps gave that are no role's, no person's and no sub-SOP's: what was there at their last attempt."""
    found: dict[tuple[tuple[str, ...], str], RecordedResult] = {}
    for _, outer in journal.events("finished", "inner"):
        path, event = unwrapped(outer)
        if event["kind"] != "finished":
            continue
        key = f"{path}/{event['activation']}".lstrip("/")
        step = _step(program, steps_in(key))
        if any(step.get(doer) for doer in ("run", "tool", "call", "use")):
            depends = fingerprint(event["parts"])
            found[slots(key), depends] = RecordedResult(key, depends, event["payload"], event.get("untrusted", ""))
    for one in found.values():
        recording.results.append(one)
        for name in (one.payload, *blobs_of(unpack(journal.blob(one.payload)))):
            recording.contents[name] = journal.blob(name)


def _step(program: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    """A step of a compiled SOP, or of one in it."""
    *around, name = path
    for step in around:
        program = program["sops"][program["sop"]["steps"][step]["sop"]]
    found: Mapping[str, Any] = program["sop"]["steps"][name]
    return found


def _written(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _elsewhere(model: str) -> str:
    """A model as it is called in a recording, which names no folder of the machine that made it."""
    kind, _, rest = model.partition(":")
    match kind:
        case "manual":
            return kind
        case "replay":
            name, _, second = rest.partition(",")
            return f"{kind}:{PurePath(name).name}" + (f",{_elsewhere(second)}" if second else "")
        case "python":
            return f"{kind}:{PurePath(rest).name}"
    return model


def save(journal: RawJournal, file: Path, answered_by: str, *others: RawJournal, results: bool = False) -> int:
    """Writes the recording of runs, whole or not at all, and returns how many calls it has. Raises UsageError, OSError."""
    recording = record(journal, answered_by, *others, results=results)
    write_whole(file, b"".join(recording.lines()), file.with_name(f".{file.name}.part"))
    return sum(map(len, recording.calls.values()))


def _inputs(journal: RawJournal, declared: Mapping[str, Any]) -> dict[str, Any]:
    """What the run was given: values, of folders the names of their files, of a file that is no text what is known of it."""
    found: dict[str, Any] = {}
    for _, event in journal.events("committed"):
        if event.get("firing") is None:
            for version in event.get("versions", ()):
                if version["artifact"] in declared:
                    found[version["artifact"]] = _given(json.loads(journal.blob(version["payload"])))
    return found


def _given(held: Mapping[str, Any]) -> Any:
    match held.get("kind"):
        case "data":
            return held["value"]
        case "binary":
            return {name: held[name] for name in FIELDS}
        case _:
            return list(held.get("files", ()))


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    embeds = {"embeds": True} if request.get("embeds") else {}
    return {**embeds, "messages": request["messages"], "schema": request.get("schema"), "tools": request.get("tools") or []}


def _fingerprint(request: Mapping[str, Any]) -> str:
    """As `ModelRequest.prompt` makes it."""
    return digest(canonical(_asked(request)))[:32]


def _plain(reply: Reply) -> dict[str, Any]:
    said = {"value": reply.value} if reply.text is None else {"text": reply.text}
    counts = {"tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out, "tokens_cached": reply.tokens_cached}
    marks = {"estimated": reply.estimated, "cut": reply.cut}
    calls = [call.told() for call in reply.calls]
    return {**said, **{name: told for name, told in {**counts, **marks, "calls": calls}.items() if told}}


def _parsed(path: Path) -> Recording:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise JournalError(f"can't read the recording {path}: {error.strerror}") from error
    number = 0
    try:
        told = read(lines[0]) if lines else {}
        if not isinstance(told, dict) or told.get("recording") != VERSION:
            raise UsageError(f"{path} is no recording that this version reads: its first line has to hold `\"recording\":"
                             f"{VERSION}`; `sop export RUN --recording FILE` makes one")
        recording = Recording(path.name, told)
        while (number := number + 1) < len(lines):
            line = read(lines[number])
            if "content" in line:
                data = b64decode(line["content"]["base64"]) if "base64" in line["content"] else line["content"]["text"].encode()
                recording.contents[digest(data)] = data
            elif "result" in line:
                _add_result(recording, line)
            else:
                recording.add(_call(line))
        _refuse_missing(recording)
        return recording
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"the recording {path} is damaged at line {number + 1}: {error}; take it anew from its repository, or "
                           "record it anew: `sop export RUN --recording FILE`") from error


def _add_result(recording: Recording, line: Mapping[str, Any]) -> None:
    try:
        packed = pack(unpack(as_ordered(line["payload"])))
    except ValidationError:
        raise ValueError(f"the payload of {line['result']} is none") from None
    recording.contents[digest(packed)] = packed
    recording.results.append(RecordedResult(line["result"], line["depends"], digest(packed), line.get("untrusted", "")))


def _refuse_missing(recording: Recording) -> None:
    """Raises ValueError where a result names a content that does not stand in the recording."""
    for one in recording.results:
        for name in blobs_of(unpack(recording.contents[one.payload])):
            if name not in recording.contents:
                raise ValueError(f"the result of {one.key} names a content that does not stand in it: {name}")


def _call(line: Mapping[str, Any]) -> RecordedCall:
    asked = _asked(line)
    if _fingerprint(asked) != line["prompt"]:
        raise ValueError(f"the prompt of {line['key']} is not the one that was answered")
    reply = Reply.read(line["reply"]) if "reply" in line else None
    bound = line.get("max_tokens", MAX_TOKENS)
    return RecordedCall(line["key"], line["prompt"], line["model"], asked, reply, line.get("failed"), bound)
