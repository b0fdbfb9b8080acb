"""All versions of all artifacts of a run, those inside of sub-SOPs too: a fold of a journal's rows, and the list that pages show.

An artifact's name is that of its SOP; inside of a sub-SOP it stands behind the activation that this is: `write@1[ch2]~0/draft`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from metaflow_agents.schema.keys import parse_firing, steps_in
from metaflow_agents.schema.program import Program
from metaflow_agents.views.event_log import spoken
from metaflow_agents.views.ui.clock import RunClock
from metaflow_agents.views.ui.texts import line
from metaflow_agents.views.wording import listed

MOST = 300
"""Artifacts of one answer."""
_EACH = 50                          # versions of each, the latest


class OneVersion(NamedTuple):
    """A version: its payload's digest, the firing that made it (None: given), what it was made from, by which event, after how
    many seconds of the run, what is untrusted.
    """

    payload: str
    firing: str | None
    read: Mapping[str, int]
    seq: int
    at: float
    untrusted: str = ""


class VersionsMade:
    """`of`: whole name of an artifact → its versions, in the order in which it first came up. Fits `Versions`, by whole names."""

    def __init__(self) -> None:
        self.of: dict[str, list[OneVersion]] = {}
        self._clock = RunClock()
        self._read: dict[str, Mapping[str, int]] = {}               # firings under way → what they read

    def take(self, seq: int, event: Mapping[str, Any]) -> None:
        """One more event, with its number."""
        now, place = self._clock.take(event), ""
        while event["kind"] == "inner":
            place += f"{event['activation']}/"
            event = event["event"]
        if event["kind"] == "fired":
            self._read[f"{place}{event['step']}@{event['round']}"] = event.get("read", {})
        elif event["kind"] == "committed":
            firing = None if event.get("firing") is None else f"{place}{event['firing']}"
            read = {} if firing is None else self._read.pop(firing, {})
            for version in event.get("versions", ()):
                self.of.setdefault(f"{place}{version['artifact']}", []).append(
                    OneVersion(version["payload"], firing, read, seq, now, version.get("untrusted", "")))
        elif event["kind"] == "documented":
            made = self.of[event["artifact"]]
            made[event["number"] - 1] = made[event["number"] - 1]._replace(payload=event["payload"])

    def version(self, artifact: str) -> int:
        """Number of its latest version; 0 where there is none."""
        return len(self.of.get(artifact, ()))

    def payload(self, artifact: str, version: int | None = None) -> str | None:
        """Digest of a version's payload (by default the latest); None where there is none."""
        made = self.of.get(artifact, [])
        number = len(made) if version is None else version
        return made[number - 1].payload if 0 < number <= len(made) else None


class InsideVersions:
    """The versions of the artifacts of one sub-SOP, by their own names. Fits `Versions`."""

    def __init__(self, made: VersionsMade, place: str) -> None:
        self._made, self._prefix = made, f"{place}/" if place else ""

    def version(self, artifact: str) -> int:
        """See `Versions`."""
        return self._made.version(self._prefix + artifact)

    def payload(self, artifact: str, version: int | None = None) -> str | None:
        """See `Versions`."""
        return self._made.payload(self._prefix + artifact, version)


def parted(whole: str) -> tuple[str, str]:
    """The place of an artifact, and its own name."""
    place, _, name = whole.rpartition("/")
    return place, name


def program_at(program: Program, place: str) -> Program | None:
    """The program whose artifacts lie at a place; None where the program in force has none there."""
    for step in steps_in(place):
        own = program.sop.steps.get(step)
        inner = None if own is None or own.sop is None else program.sops.get(own.sop)
        if inner is None:
            return None
        program = inner
    return program


def artifacts_told(made: VersionsMade, program: Program, who: Callable[[str], str], *, name: str = "", text: str = "",
                   offset: int = 0) -> dict[str, Any]:
    """The artifacts whose names hold `text`, the run's own ones first; of the one called `name` the versions from the `offset`th
    on, the latest first. `who`: a firing → who did it.
    """
    if name:
        return {"artifacts": [_told(name, made.of[name], program, who, offset)] if name in made.of else [], "total": 1}
    found = [whole for whole in made.of if text.lower() in whole.lower() or text.lower() in spoken_name(whole).lower()]
    found.sort(key=lambda whole: whole.count("~"))
    return {"total": len(found), "artifacts": [_told(whole, made.of[whole], program, who) for whole in found[:MOST]]}


def spoken_name(whole: str) -> str:
    """An artifact's name as people read it: `write@1[ch2]/draft`."""
    place, name = parted(whole)
    return f"{spoken(place)}/{name}" if place else name


def _told(whole: str, versions: list[OneVersion], program: Program, who: Callable[[str], str], offset: int = 0) -> dict[str, Any]:
    place, name = parted(whole)
    own = program_at(program, place)
    spec = None if own is None else own.sop.artifacts.get(name)
    numbers = range(len(versions) - offset, max(len(versions) - offset - _EACH, 0), -1)
    return {
        "name": whole, "told": spoken_name(whole), "inside": place, "input": own is not None and name in own.sop.inputs,
        "file": None if spec is None else spec.file, "describes": "" if spec is None else line(spec.description),
        "kind": "" if spec is None else "files" if spec.files else "collection" if spec.each is not None else
                "text" if spec.schema_ is None else "data",
        "versions_total": len(versions),
        "versions": [_version(number, versions[number - 1], who) for number in numbers]}


def _version(number: int, one: OneVersion, who: Callable[[str], str]) -> dict[str, Any]:
    return {"number": number, "firing": one.firing, "by": "" if one.firing is None else who(one.firing), "at": round(one.at, 3),
            "untrusted": line(one.untrusted), "why": ", ".join(_why(one)), "made_from": dict(one.read)}


def _why(one: OneVersion) -> Iterator[str]:
    """Why there is this version: which round of its step, and what that read."""
    if one.firing is None:
        yield "given"
        return
    _, round_ = parse_firing(one.firing.rpartition("/")[2])
    if round_ > 1:
        yield f"round {round_}"
    read = [f"{name}@{number}" for name, number in one.read.items() if number]
    if read:
        yield f"from {listed(read, 6)}"
