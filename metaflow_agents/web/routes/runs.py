"""The list of runs, and one run as a whole: as it stands, as it goes on, as it stood."""

from __future__ import annotations

from typing import Any

from metaflow_agents.web.asked import Asked, get
from metaflow_agents.web.streams import News, Told, stream


def runs(asked: Asked) -> dict[str, Any]:
    """The newest first."""
    return {"runs": asked.site.listing.rows()}


def runs_stream(asked: Asked) -> News:
    """Rows that changed; first all of them."""
    version = 0

    def news() -> list[Told]:
        nonlocal version
        found = asked.site.listing.since(version)
        version = found.pop("version")
        return [Told("runs", found)] if found["rows"] or found["gone"] else []
    return news


def run(asked: Asked) -> dict[str, Any]:
    """Overview."""
    return asked.site.watched.run(asked.text("run")).overview()


def run_stream(asked: Asked) -> News:
    """What changed behind an event; `rests` where nobody carries the run out any more. `touched`: the activations of which
    something changed; where it is missing, any may have.
    """
    name = asked.text("run")
    version, rested, state = 0, (0, ""), ""
    seq = asked.number("after", 0)          # the last event that the page knows
    asked.site.watched.run(name)

    def news() -> list[Told]:
        nonlocal version, seq, rested, state
        found = asked.site.watched.run(name).since(version, seq)
        if found["version"] == version:
            return []
        if found["state"] == state and asked.site.indexes.holds(name):      # at its end, what is not over has stopped
            with asked.run() as opened, asked.site.indexes.of(opened) as read:
                found |= {"touched": keys} if (keys := read.index.lines.touched(seq)) is not None else {}
        state = found["state"]
        version, seq = found.pop("version"), found["seq"]
        stands, told = (found.pop("sessions"), found["state"]), [Told("run", found, found["seq"])]
        if found["state"] != "running" and stands != rested:    # it may have gone on and rest again since this was asked last
            told.append(Told("rests", {"state": found["state"], "reason": found["reason"]}))
        rested = stands
        return told
    return news


def at(asked: Asked) -> dict[str, Any]:
    """How the run stood after an event."""
    seq = asked.number("seq")
    return asked.site.watched.run(asked.text("run")).stood(seq)


routes = [get("/api/runs", runs), stream("/api/runs/stream", runs_stream, 0.5), get("/api/run", run),
          stream("/api/run/stream", run_stream, 0.25), get("/api/run/at", at)]
