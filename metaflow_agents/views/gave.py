"""What commands, tests and checks gave, in a few words: `160 passed, 1 failed`, `exit status 1: no such file`, `it passes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from metaflow_agents.schema.keys import CHECKED
from metaflow_agents.schema.payload import Data, Held
from metaflow_agents.views.page import cut

_COUNTS = ("passed", "failed", "errors", "skipped")
_LONGEST = 120                      # columns of what a command, a test or a check said
RUN = "/run"
"""What the key of an observation ends with where a `run:` step ran its command."""


def is_check(key: str) -> bool:
    """Whether an observation is that of a `check`."""
    return f"/{key.rpartition('/')[2]}".startswith(CHECKED)


def observed_told(key: str, stored: Mapping[str, Any]) -> str:
    """What an observation says; empty where it is none of a command or a check. `stored`: its payload as JSON."""
    value = stored.get("value")
    if is_check(key):
        if value in (None, "", []) or value is True:        # what `Functions.check` takes for content
            return "it passes"
        return f"it fails: {_line('; '.join(map(str, value)) if isinstance(value, list) else str(value))}"
    return result_told(value) if key.endswith(RUN) else ""


def payload_told(stored: Mapping[str, Any]) -> str:
    """What the payload of a `run:` step says, as JSON; empty where it is no result of a command."""
    return result_told(stored.get("value")) if stored.get("kind") == "data" else ""


def done_told(event: Mapping[str, Any], blob: Callable[[str], Any]) -> str:
    """What a command gave, to stand behind the event (as JSON) that tells that it is done; `blob` gives payloads as JSON."""
    digests = [event["payload"]] if event["kind"] == "finished" else [one["payload"] for one in event.get("versions", ())]
    told = ", ".join(filter(None, (payload_told(blob(digest)) for digest in digests)))
    return f": {told}" if told else ""


def held_told(held: Held) -> str:
    """The same of a payload that is read."""
    return result_told(held.value) if isinstance(held, Data) else ""


def result_told(value: Any) -> str:
    """The result of a `run:` step, of a command or read from a test report; empty where a value is none."""
    if not isinstance(value, Mapping) or not isinstance(value.get("ok"), bool) or type(value.get("exit_code")) is not int:
        return ""
    if all(type(value.get(name)) is int for name in _COUNTS):
        counts = [f"{value[name]:,} {_noun(name, value[name])}" for name in _COUNTS if value[name]]
        wrong = next(_wrong(value), "") if not value["ok"] else ""
        return (", ".join(counts) or "no test ran") + (f" ({wrong})" if wrong else "")
    if not {"stdout", "stderr"} <= set(value):
        return ""
    said = "" if value["ok"] else _last(str(value["stderr"])) or _last(str(value["stdout"]))
    return f"exit status {value['exit_code']}" + (f": {said}" if said else "")


def commands_of(program: Mapping[str, Any]) -> frozenset[str]:
    """The `run:` steps of a stored program (its plain JSON), those of its sub-SOPs as `write/test`."""
    def found(program: Mapping[str, Any]) -> Iterator[str]:
        for name, step in program.get("sop", {}).get("steps", {}).items():
            if step.get("run"):
                yield name
            yield from (f"{name}/{one}" for one in found(program.get("sops", {}).get(step.get("sop"), {})))

    return frozenset(found(program))


def _noun(name: str, number: int) -> str:
    return "error" if name == "errors" and number == 1 else name


def _wrong(value: Mapping[str, Any]) -> Iterator[str]:
    """The first failure by its test, or by what it says; else the exit status."""
    for one in value.get("failures") or ():
        if isinstance(one, Mapping):
            yield _line(str(one.get("id") or one.get("message") or ""))
    yield f"exit status {value['exit_code']}"


def _line(text: str) -> str:
    return cut(" ".join(text.split()), _LONGEST)


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return _line(lines[-1]) if lines else ""
