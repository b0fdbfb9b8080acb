"""The time line of a run: a row for each activation, with bars for what it did. A fold of a journal's rows, one at a time.

Times are seconds of the run's own time (`RunClock`). The fold holds no payload, and reads none.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from metaflow_agents.schema.keys import (
    CHECKED,
    EMBED,
    LOOK,
    REPAIRED,
    ActivationKey,
    firing_key,
    innermost,
    parse_activation,
    steps_in,
)
from metaflow_agents.views.ui.clock import RunClock

Raw = Mapping[str, Any]
"""An event as it stands in the journal: JSON, without the fields that are at their defaults."""

OVER = frozenset({"done", "failed", "reused"})


@dataclass(slots=True)
class Bar:
    """Something that an activation did. `ended`: None while it goes on; `state`: running, done, failed or lost (nobody knows)."""

    kind: str
    key: str
    began: float
    ended: float | None = None
    state: str = "running"
    told: str = ""


@dataclass(slots=True)
class Row:
    """One activation. `path` is its step, `write/draft` in a sub-SOP; `place` the activation that the sub-SOP is, or empty.

    `numbers` are those of the events that belong to it and to nothing inside of it. `cost` in picodollars.
    """

    key: str
    place: str
    path: str
    own: ActivationKey
    began: float
    firing: Firing
    ended: float | None = None
    state: str = "running"
    error: str = ""
    final: bool = False
    role: str = ""
    source: str = ""
    calls: int = 0
    tokens: int = 0
    cost: int = 0
    estimated: bool = False
    asked: int = 0
    seconds: float = 0.0
    changed: int = 0
    bars: list[Bar] = field(default_factory=list)
    numbers: array[int] = field(default_factory=lambda: array("Q"))

    def until(self, now: float) -> float:
        """When it ended, or how late it is."""
        return now if self.ended is None else self.ended


@dataclass(slots=True)
class Firing:
    """A firing: `key` is the whole of it, behind the activation of its sub-SOP. `read`: artifact → version;
    `after`: the firings that made these, and its step's one before; `made`: what it made, `draft@2`.
    """

    key: str
    path: str
    place: str
    fired: float
    items: int | None = None
    committed: float | None = None
    read: Mapping[str, int] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    reused: int = 0


class Timeline:
    """All rows, in the order in which they came up. `now` is the run's own time at the last event."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.firings: dict[str, Firing] = {}
        self.clock = RunClock()
        self.now, self.seq = 0.0, 0
        self.rests: list[dict[str, Any]] = []                       # pauses between sittings: when, and for how many seconds
        self._makers: dict[tuple[str, str], list[str]] = {}         # (place, artifact) → firing of each version
        self._open: dict[str, Bar] = {}                             # calls, tools and questions under way, by key
        self._sorted: list[Row] | None = None
        self._lanes: dict[tuple[str, str], dict[str, int]] | None = None

    def take(self, seq: int, event: Raw) -> None:
        """One more event."""
        self.seq, kind = seq, event["kind"]
        if kind == "resumed":
            self.rests.append({"at": round(self.now, 3), "seconds": round(max(event.get("at", 0.0) - self.clock.latest, 0.0), 3)})
        self.now = self.clock.take(event)
        place = ""
        while kind == "inner":
            place = f"{place}/{event['activation']}" if place else event["activation"]
            self._known(place).changed = seq
            event = event["event"]
            kind = event["kind"]
        take = _TAKES.get(kind)
        if take is not None:
            take(self, event, place)

    def ordered(self) -> list[Row]:
        """The rows by when they began."""
        if self._sorted is None:
            self._sorted = sorted(self.rows.values(), key=lambda row: row.began)
        return self._sorted

    def changed_since(self, seq: int) -> list[Row]:
        """The rows that an event behind number `seq` changed, and that are the last."""
        return [row for row in self.rows.values() if row.changed > seq]

    def neighbours(self, row: Row) -> tuple[str | None, str | None]:
        """What began before a row and after it: of a role's work that of all roles, of anything else that of the same step."""
        if self._lanes is None:
            self._lanes = {}
            for one in self.ordered():
                lane = self._lanes.setdefault(_lane(one), {})
                lane[one.key] = len(lane)
        lane = self._lanes[_lane(row)]
        keys, at = [*lane], lane[row.key]
        return keys[at - 1] if at else None, keys[at + 1] if at + 1 < len(keys) else None

    def attempts(self, row: Row) -> list[str]:
        """The attempts at a row's item, as far as they have begun."""
        slot = row.key.rpartition("~")[0]
        keys = (f"{slot}~{number}" for number in range(len(row.firing.rows)))
        return list(takewhile(self.rows.__contains__, keys))

    # -- rows

    def _row(self, key: str) -> tuple[Row, str]:
        """The row that a key belongs to, and what stands behind its activation; made where it was not there."""
        head, _, tail = key.partition("~")
        attempt, _, rest = tail.partition("/")
        row = self.rows.get(f"{head}~{attempt}")
        if row is None or "~" in rest:                      # the first of it, an item with a `~`, or what is in a sub-SOP
            way, rest = innermost(key)
            whole = "/".join(way)
            row = self.rows.get(whole) or self._begun(whole, way, self.now)
        row.changed = self.seq
        row.numbers.append(self.seq)
        return row, rest

    def _known(self, whole: str) -> Row:
        """The row of an activation."""
        return self.rows.get(whole) or self._begun(whole, innermost(whole)[0], self.now)

    def _begun(self, whole: str, way: tuple[str, ...], at: float) -> Row:
        key, place = parse_activation(way[-1]), "/".join(way[:-1])
        if place:
            self._known(place)
        firing = self._firing(place, key.step, key.round)
        if key.attempt:
            before = self.rows.get(f"{whole.rpartition('~')[0]}~{key.attempt - 1}")
            at = at if before is None or before.ended is None else before.ended
        row = self.rows[whole] = Row(whole, place, firing.path, key, at, firing)
        row.changed = self.seq
        firing.rows.append(row)
        self._sorted = self._lanes = None
        return row

    def _firing(self, place: str, step: str, round_: int) -> Firing:
        key = _inside(place, firing_key(step, round_))
        found = self.firings.get(key)
        if found is None:                                   # a look at the run (`progress:`) fires nothing
            path = "/".join((*steps_in(place), step))
            found = self.firings[key] = Firing(key, path, place, self.now)
        return found

    def _over(self, row: Row, state: str, seconds: float) -> None:
        row.ended, row.state, row.asked, row.seconds = self.now, state, 0, seconds
        if row.own.item is not None and seconds and row.own.attempt == 0:
            row.began = max(row.firing.fired, min(row.began, self.now - seconds))
            self._sorted = self._lanes = None
        for bar in row.bars:
            if bar.ended is None:
                bar.ended, bar.state = self.now, "lost" if bar.kind != "question" else "done"

    # -- events

    def _fired(self, event: Raw, place: str) -> None:
        firing = self._firing(place, event["step"], event["round"])
        firing.read = event.get("read", {})
        after = [makers[number - 1] for name, number in firing.read.items()
                 if 0 < number <= len(makers := self._makers.get((place, name), []))]
        if event["round"] > 1:
            after.append(_inside(place, firing_key(event["step"], event["round"] - 1)))
        firing.after = tuple(dict.fromkeys(one for one in after if one))
        items = event.get("items")
        firing.items = None if items is None else len(items)
        if items is None:
            self._known(_inside(place, str(ActivationKey(event["step"], event["round"], None, 0))))

    def _committed(self, event: Raw, place: str) -> None:
        firing = "" if event.get("firing") is None else _inside(place, event["firing"])
        for version in event.get("versions", ()):
            self._makers.setdefault((place, version["artifact"]), []).append(firing)
        found = self.firings.get(firing)
        if found is not None:
            found.committed, found.reused = self.now, len(event.get("reused", ()))
            found.made = tuple(f"{version['artifact']}@{version['number']}" for version in event.get("versions", ()))

    def _finished(self, event: Raw, place: str) -> None:
        row, _ = self._row(_inside(place, event["activation"]))
        self._over(row, "reused" if event.get("reused_from") else "done", event.get("seconds", 0.0))
        row.source = event.get("reused_from") or ""
        row.role = row.role or (event.get("memory") or {}).get("role", "")

    def _failed(self, event: Raw, place: str) -> None:
        row, _ = self._row(_inside(place, event["activation"]))
        self._over(row, "failed", event.get("seconds", 0.0))
        row.error, row.final = event["error"], bool(event.get("final"))
        for bar in reversed(row.bars):
            if bar.kind == "check":
                bar.state = "failed"                        # its words are those of the error
                break

    def _reserved(self, event: Raw, _: str) -> None:
        row, rest = self._row(event["key"])
        row.role = row.role or event.get("role", "")
        if rest.startswith("check."):
            for bar in reversed(row.bars):
                if bar.kind == "check":
                    bar.state = "failed"                    # what it said goes back to the author
                    break
        self._lose(event["key"])
        what = "embeds" if EMBED in event["key"] else event["model"]
        self._open[event["key"]] = bar = Bar("call", rest, self.now, told=what + (f", try {event['try'] + 1}"
                                                                                  if event.get("try") else ""))
        row.bars.append(bar)

    def _settled(self, event: Raw, _: str) -> None:
        row, rest = self._row(event["key"])
        bar = self._open.pop(event["key"], None)
        error = event.get("error")
        if bar is not None:
            bar.ended, bar.state = self.now, "failed" if error else "done"
            bar.told = f"{bar.told}: {error[:200]}" if error else bar.told
        if error and event.get("again") and event.get("wait"):
            why = event.get("trouble") or "failed"
            row.bars.append(Bar("wait", rest, self.now, self.now + event["wait"], "done", f"before the next try: {why}"))
        tokens = event.get("tokens_in", 0) + event.get("tokens_out", 0)
        while True:                                         # a sub-SOP's cost is that of the step that it is, too
            row.calls += event.get("calls", 1)
            row.tokens += tokens
            row.cost += event.get("cost", 0)
            row.estimated = row.estimated or bool(event.get("cost") and event.get("estimated"))
            outer = self.rows.get(row.place)
            if outer is None:
                return
            row = outer
            row.changed = self.seq

    def _observed(self, event: Raw, _: str) -> None:
        row, rest = self._row(event["key"])
        name = rest.rpartition("/")[2]
        seconds = event.get("seconds", 0.0)
        if f"/{rest}".endswith(REPAIRED):
            for bar in reversed(row.bars):
                if bar.kind == "call" and bar.key == rest.removesuffix(REPAIRED):
                    bar.told += ", answer repaired"
                    break
            return
        kind = "check" if f"/{name}".startswith(CHECKED) else {"run": "command", "call": "function", "use": "function"}.get(name)
        if kind is None and seconds < 0.001:
            return                                          # something that was noted
        row.bars.append(Bar(kind or "function", rest, max(self.now - seconds, 0.0), self.now, "done",
                            "lists its tools" if name == "tools" else ""))

    def _intended(self, event: Raw, _: str) -> None:
        row, rest = self._row(event["key"])
        self._lose(event["key"])
        self._open[event["key"]] = bar = Bar("tool", rest, self.now, told=event["tool"])
        row.bars.append(bar)

    def _decided(self, event: Raw, _: str) -> None:
        self._row(event["key"])

    def _done(self, event: Raw, _: str) -> None:
        row, rest = self._row(event["key"])
        bar = self._open.pop(event["key"], None)
        if bar is None:
            bar = Bar("tool", rest, self.now)
            row.bars.append(bar)
        took = event.get("seconds", 0.0)                    # a call without an effect is told at its end
        bar.began = max(min(bar.began, self.now - took), row.began)
        bar.ended, bar.state = self.now, "failed" if event.get("error") else "done"
        how = "refused" if event.get("refused") else "staged" if event.get("staged") else ""
        bar.told = ", ".join(filter(None, (bar.told, how)))

    def _asked(self, event: Raw, _: str) -> None:
        row, rest = self._row(event["key"])
        self._lose(f"?{event['key']}")
        self._open[f"?{event['key']}"] = bar = Bar("question", rest, self.now)
        row.bars.append(bar)
        row.asked += 1

    def _answered(self, event: Raw, _: str) -> None:
        row, _rest = self._row(event["key"])
        bar = self._open.pop(f"?{event['key']}", None)
        if bar is not None and bar.ended is None:
            bar.ended, bar.state, bar.told = self.now, "done", f"answered by {event.get('by') or 'somebody'}"
            row.asked = max(row.asked - 1, 0)

    def _lose(self, key: str) -> None:
        """What was under way under this key was cut off: it is done anew."""
        bar = self._open.pop(key, None)
        if bar is not None and bar.ended is None:
            bar.ended, bar.state = self.now, "lost"


_TAKES: dict[str, Callable[[Timeline, Raw, str], None]] = {
    "fired": Timeline._fired, "committed": Timeline._committed, "finished": Timeline._finished, "failed": Timeline._failed,
    "reserved": Timeline._reserved, "settled": Timeline._settled, "observed": Timeline._observed, "intended": Timeline._intended,
    "decided": Timeline._decided, "done": Timeline._done, "asked": Timeline._asked, "answered": Timeline._answered}


def _lane(row: Row) -> tuple[str, str]:
    """What is walked through together."""
    return ("", "") if row.role else (row.place, row.path)


def is_look(row: Row) -> bool:
    """Whether a row is a look at the run (`progress:`), which is no step's."""
    return row.path == LOOK


def _inside(place: str, key: str) -> str:
    return f"{place}/{key}" if place else key
