"""A run at a glance, for its page: how each step stands, what was spent against the caps, who does what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metaflow_agents.journal.records import Spending
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.keys import LOOK
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.views.roles_table import cast
from metaflow_agents.views.ui.progress import FiringProgress, Progress, StepProgress, inside_told
from metaflow_agents.views.waiting import Waits
from metaflow_agents.views.wording import amount, duration, listed, money, short, whole_dollars

PICO = 10**12


@dataclass(frozen=True, slots=True)
class Stands:
    """How a run stands: `state` is an outcome, `running` or `killed`; `now`: Unix time; `run`: its name; `folder`: its files."""

    state: str
    reason: str
    now: float
    run: str = ""
    folder: str = ""

    @property
    def alive(self) -> bool:
        """Whether a process has it open."""
        return self.state == "running"


class Page:
    """The page of a run of one program. Its graph and its roles are made once; all else from the progress."""

    def __init__(self, program: Program) -> None:
        self.program, self.graph = program, SOPGraph(program.sop)

    def steps(self, progress: Progress, stands: Stands) -> dict[str, dict[str, Any]]:
        """Step → StepState, in the order of the file."""
        waits = Waits(self.graph, progress, progress.running)
        names = dict.fromkeys((*self.graph.steps, *(name for name in progress.steps if name != LOOK)))
        return {name: self._step(name, progress, stands, waits) for name in names}

    def _step(self, name: str, progress: Progress, stands: Stands, waits: Waits) -> dict[str, Any]:
        step = progress.steps.get(name) or StepProgress()
        firing = next(reversed(step.active.values()), None)
        state, told = self._state(name, step, progress, stands, waits)
        return {"state": state, "told": told, "fired": step.fired, "began": _rounded(step.began),
                "ended": None if firing is not None else _rounded(step.ended), "items": _items(step, firing, stands),
                **spent_json(step.spent), "maker_of": list(step.made), "asks": _asks(name, progress)}

    def _state(self, name: str, step: StepProgress, progress: Progress, stands: Stands, waits: Waits) -> tuple[str, str]:
        """One of waiting, running, done, failed and never, and more about it in words."""
        firing = next(reversed(step.active.values()), None)
        asks = _asks(name, progress)
        if firing is not None:
            if step.stopped:
                return "failed", step.error
            asked = [f"{amount(asks, 'question')} to answer"] if asks else []
            if not stands.alive:
                return "waiting", ", ".join(asked) or "interrupted: a resume goes on with it"
            return "running", ", ".join([*_running(firing), *asked])
        if name in progress.never:
            return "never", progress.never[name]
        known = name in self.graph.steps
        if not step.fired:
            return "waiting", waits.told(name) if known and stands.alive else ""
        if known and stands.alive and waits.triggered(name):
            return "waiting", f"fired {amount(step.fired, 'time')}; {waits.told(name)}"
        rounds = [f"{step.fired} rounds"] if step.fired > 1 else []
        if step.items is not None and step.items[2]:
            return "failed", ", ".join([f"{step.items[2]} of {amount(step.items[0], 'item')} failed", *rounds])
        return "done", ", ".join(rounds)

    def caps(self, progress: Progress, stands: Stands) -> list[dict[str, Any]]:
        """What was spent, and how much may be."""
        budget, spent = (self.program.sop.budget or Budget()).over(progress.budget), progress.total
        seconds = seconds_of(progress, stands)
        rows = [("calls", spent.calls, budget.calls, short(spent.calls), budget.calls and short(budget.calls)),
                ("tokens", spent.tokens, budget.tokens, short(spent.tokens), budget.tokens and short(budget.tokens)),
                ("usd", spent.cost / PICO, budget.usd, money(spent.cost, spent.estimated),
                 budget.usd and whole_dollars(budget.usd)),
                ("time", seconds, budget.time, duration(seconds), budget.time and duration(budget.time))]
        return [{"what": what, "spent": used, "cap": cap, "told": f"{told} of {most}" if most else told}
                for what, used, cap, told, most in rows]

    def done(self, steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """How many steps are over; `share`: items of those under way counted, 0 to 1."""
        over = sum(one["state"] in ("done", "failed", "never") for one in steps.values())
        part = sum((one["items"]["done"] + one["items"]["failed"]) / one["items"]["of"] for one in steps.values()
                   if one["state"] in ("running", "waiting") and one["items"] and one["items"]["of"] and one["ended"] is None)
        return {"done": over, "of": len(steps), "share": round((over + part) / max(len(steps), 1), 4)}

    def live(self, progress: Progress, stands: Stands) -> dict[str, Any]:
        """What changes from event to event, but for the steps and the questions."""
        return {"seq": progress.seq, "state": stands.state, "reason": stands.reason,
                "seconds": round(seconds_of(progress, stands), 3), "caps": self.caps(progress, stands),
                "finished": progress.activations, "unanswered": _unanswered(progress.total),
                "can": can(progress, stands)}

    def overview(self, progress: Progress, stands: Stands, questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """All of it, without the drawing of the graph."""
        opened, sop, steps = progress.opened, self.program.sop, self.steps(progress, stands)
        outside = [label for label in progress.untrusted.values() if label]
        return {
            "run": stands.run, "sop": sop.sop, "describes": sop.description, "file": opened.get("location", ""),
            "began": progress.clock.began, "at": progress.clock.latest, "folder": stands.folder,
            "forked_from": progress.forked_from(stands.run), "from": opened.get("reused_from"), "until": opened.get("until"),
            "staged": bool(opened.get("staged")), "recorded": opened.get("recorded", ""), "package": opened.get("package", ""),
            "models": dict(opened.get("models", {})), "sandbox": opened.get("sandbox", ""),
            "roles": [{"name": name, "model": model} for name, model in cast(self.program, opened.get("models", {})).items()],
            "outputs": list(sop.outputs or ()), "untrusted": listed(list(dict.fromkeys(outside))), "progress": self.done(steps),
            "steps": steps, "questions": list(questions), **self.live(progress, stands)}


def can(progress: Progress, stands: Stands) -> dict[str, bool]:
    """What may be done with the run now."""
    return {"stop": stands.alive, "resume": not stands.alive and stands.state not in ("success", "damaged"),
            "fork": progress.seq > 0, "answer": bool(progress.questions)}


def seconds_of(progress: Progress, stands: Stands) -> float:
    """How long the run was under way, up to now."""
    return progress.clock.now(stands.now) if stands.alive else progress.clock.elapsed


def spent_json(spent: Spending) -> dict[str, Any]:
    """Calls, tokens and US dollars."""
    return {"calls": spent.calls, "tokens": spent.tokens, "usd": spent.cost / PICO, "estimated": spent.estimated > 0}


def _unanswered(spent: Spending) -> dict[str, Any]:
    return {"calls": spent.open_calls, "tokens": spent.open_tokens, "usd": spent.open_cost / PICO}


def _asks(name: str, progress: Progress) -> int:
    return sum(key.partition("@")[0] == name for key in progress.questions)


def _running(firing: FiringProgress) -> list[str]:
    told = [f"round {firing.round}"] if firing.round > 1 else []
    if firing.items is not None:
        told.append(f"{firing.done} of {amount(firing.items, 'item')}")
        told += [f"{firing.failed} failed"] if firing.failed else []
    elif attempts := max(firing.slots.values(), default=0):
        told.append(f"attempt {attempts + 1}")
    inside = inside_told(firing)
    return [*told, f"in {listed(inside, 3)}"] if inside else told


def _items(step: StepProgress, firing: FiringProgress | None, stands: Stands) -> dict[str, int] | None:
    if firing is None:
        if step.items is None:
            return None
        of, done, failed = step.items
        return {"of": of, "done": done, "failed": failed, "running": 0, "waiting": 0}
    if firing.items is None:
        return None
    running = len(firing.slots) if stands.alive else 0
    return {"of": firing.items, "done": firing.done, "failed": firing.failed, "running": running,
            "waiting": max(firing.items - firing.done - firing.failed - running, 0)}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
