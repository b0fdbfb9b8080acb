"""A run in outline: what `sop show` and the end of `sop run` tell, from the few events that say it.

A second fold beside `state.py`, for people only: calls and finished items are most of a journal and are counted by SQLite,
so that a run of thousands of activations is told at once. A test holds that both folds agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from metaflow_agents.journal.run_summary import Glance, RawJournal, unwrapped
from metaflow_agents.schema.keys import REPAIRED, parse_activation, steps_in


class MadeArtifact(NamedTuple):
    """A version of an artifact: its payload's digest, the firing that made it (None: given), what of it is from outside."""

    payload: str
    firing: str | None
    untrusted: str = ""


@dataclass(slots=True)
class Active:
    """A firing under way: its items (None without `foreach`), and how many of them are done."""

    step: str
    items: tuple[str, ...] | None
    done: int = 0


@dataclass(frozen=True, slots=True)
class Staged:
    """An action that was not carried out (`--dry-tools`): the call's key, the action in words, the digest of its arguments."""

    key: str
    action: str
    verdict: str
    arguments: str


_ELSEWHERE = ("mcp(", "api(", "call(")      # how an action begins that a tool of the SOP's own does


@dataclass(slots=True)
class Outline:
    """What a run is, made and cost.

    `versions`: artifact → its versions; `fired`: step → firings; `walked`: step → how many items its last firing had;
    `active`: by firing; `last`: the last firing of all; `assumed`: what nobody answered → digest of what was assumed;
    `left_out`: input → paths that were not read; `untaken`: input → why not, whatever was asked for → paths;
    `kept`: input → where its value was kept from; `kept_without`: input →
    run whose values are not in it → how it stood then;
    `by_yes`: what `--yes` answered, by key → digest of the question; `asked`: the same of all that was asked;
    `repaired`: call whose answer was not in its form → digest of what a repair made of it;
    `tries`: tries at calls that failed, by what was wrong; `waited`: seconds between them and the next;
    `staged`: what acting tools would have done, None where they did it; `looked_up`: what such a run did ask of them, since it
    changes nothing; `inside`: step of a sub-SOP (`write/draft`) → firings.
    """

    glance: Glance
    location: str = ""
    compiled: str = ""
    models: dict[str, str] = field(default_factory=dict)
    sandbox: str = ""
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    untaken: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    kept_without: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, list[MadeArtifact]] = field(default_factory=dict)
    fired: dict[str, int] = field(default_factory=dict)
    walked: dict[str, int] = field(default_factory=dict)
    active: dict[str, Active] = field(default_factory=dict)
    never: dict[str, str] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    by_yes: dict[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    repaired: dict[str, str] = field(default_factory=dict)
    staged: list[Staged] | None = None
    looked_up: list[str] = field(default_factory=list)
    inside: dict[str, int] = field(default_factory=dict)
    last: str | None = None
    tries: Mapping[str, int] = field(default_factory=dict)
    waited: float = 0.0

    def version(self, artifact: str) -> int:
        """Number of its latest version; 0 where there is none."""
        return len(self.versions.get(artifact, ()))

    def payload(self, artifact: str, version: int | None = None) -> str | None:
        """Digest of a version's payload (by default the latest); None where there is none."""
        made = self.versions.get(artifact, [])
        number = len(made) if version is None else version
        return made[number - 1].payload if 0 < number <= len(made) else None


def outline(journal: RawJournal) -> Outline:
    """The outline of a run. Raises JournalError where its journal is damaged."""
    tries, waited = journal.tries()
    found = Outline(journal.glance(), tries=tries, waited=waited)
    for _, event in journal.events(*_TAKES):
        _TAKES[event["kind"]](found, event)
    if found.active:
        for _, event in journal.events("finished"):
            firing = found.active.get(parse_activation(event["activation"]).firing)
            if firing is not None:
                firing.done += 1
    if found.staged is not None:
        found.staged += _not_done(journal, found.looked_up)
    return found


def _not_done(journal: RawJournal, looked_up: list[str]) -> Iterator[Staged]:
    """What acting tools would have done; to `looked_up` comes what they did."""
    decided: dict[str, Mapping[str, Any]] = {}
    intended: dict[str, str] = {}
    for _, event in journal.events("decided", "intended", "done"):
        if event["kind"] == "decided":
            decided[event["key"]] = event
        elif event["kind"] == "intended":
            intended[event["key"]] = event["arguments"]
        elif event.get("staged"):
            key = event["key"]
            yield Staged(key, decided[key]["action"], decided[key]["verdict"], intended[key])
        elif not event.get("refused") and decided.get(event["key"], {}).get("action", "").startswith(_ELSEWHERE):
            looked_up.append(decided[event["key"]]["action"])


def _opened(found: Outline, event: Mapping[str, Any]) -> None:
    found.location, found.compiled = event.get("location", ""), event["compiled"]
    found.models, found.sandbox = dict(event.get("models", {})), event.get("sandbox", "")
    found.left_out = {name: tuple(listed) for name, listed in event.get("left_out", {}).items()}
    found.untaken = dict(event.get("untaken", {}))
    found.kept, found.kept_without = dict(event.get("kept", {})), dict(event.get("kept_without", {}))
    found.staged = [] if event.get("staged") else None


def _resumed(found: Outline, event: Mapping[str, Any]) -> None:
    found.compiled = event["compiled"]
    found.models.update(event.get("models", {}))
    found.sandbox = event.get("sandbox") or found.sandbox
    found.never = {}


def _fired(found: Outline, event: Mapping[str, Any]) -> None:
    found.last = f"{event['step']}@{event['round']}"
    found.fired[event["step"]] = event["round"]
    items = event.get("items")
    found.active[found.last] = Active(event["step"], None if items is None else tuple(items))


def _committed(found: Outline, event: Mapping[str, Any]) -> None:
    firing = event.get("firing")
    for version in event.get("versions", ()):
        found.versions.setdefault(version["artifact"], []).append(
            MadeArtifact(version["payload"], firing, version.get("untrusted", ""))
        )
    if firing is not None:
        ended = found.active.pop(firing)
        found.walked[ended.step] = len(ended.items or ())


def _documented(found: Outline, event: Mapping[str, Any]) -> None:
    made = found.versions[event["artifact"]]
    made[event["number"] - 1] = made[event["number"] - 1]._replace(payload=event["payload"])


def _inner(found: Outline, event: Mapping[str, Any]) -> None:
    where, event = unwrapped(event)
    if event["kind"] == "fired":
        step = "/".join((*steps_in(where), event["step"]))
        found.inside[step] = found.inside.get(step, 0) + 1
    elif event["kind"] in ("asked", "answered"):
        _TAKES[event["kind"]](found, event)


def _asked(found: Outline, event: Mapping[str, Any]) -> None:
    found.asked[event["key"]] = event["question"]


def _answered(found: Outline, event: Mapping[str, Any]) -> None:
    if event.get("by") == "assumed":
        found.assumed[event["key"]] = event["answer"]
    elif event.get("by") == "--yes":
        found.by_yes[event["key"]] = found.asked[event["key"]]


def _observed(found: Outline, event: Mapping[str, Any]) -> None:
    if event["key"].endswith(REPAIRED):
        found.repaired[event["key"].removesuffix(REPAIRED)] = event["payload"]


def _ended(found: Outline, event: Mapping[str, Any]) -> None:
    found.never = dict(event.get("never", {}))


_TAKES: dict[str, Callable[[Outline, Mapping[str, Any]], None]] = {
    "run_opened": _opened, "resumed": _resumed, "fired": _fired, "committed": _committed,
    "documented": _documented, "asked": _asked,
    "observed": _observed, "answered": _answered, "inner": _inner, "run_ended": _ended}
