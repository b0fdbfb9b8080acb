"""What a run made, what it cost, what never fired and why, and how to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.payload import Collection, Files
from metaflow_agents.schema.program import Program
from metaflow_agents.views.minutes import OUTCOMES, models_told
from metaflow_agents.views.page import Page, safe, table
from metaflow_agents.views.wording import amount, duration, moment

_STYLES = {"success": "green", "until": "green", "running": "cyan"}


@dataclass(frozen=True, slots=True)
class Told:
    """A run as its journal tells it.

    `home` is the workspace, as it was given; `standing` an outcome, `running` or `killed`. Of `state` no call is asked
    for: what the run cost stands beside it, so that `sop show` need not read every call to tell of it.
    """

    name: str
    program: Program
    state: RunState
    values: Values
    home: Path
    standing: str
    calls: int
    tokens: int
    seconds: float

    @property
    def folder(self) -> Path:
        """Where the run's files lie."""
        return self.home / self.name

    def as_json(self) -> dict[str, Any]:
        """What `sop show --json` and `sop run --json` print; values of outputs are asked for one by one."""
        state = self.state
        opened = state.opened
        return {
            "run": self.name,
            "sop": self.program.sop.sop,
            "file": None if opened is None else opened.location,
            "state": self.standing,
            "reason": "" if state.ended is None else state.ended.reason,
            "folder": str(self.folder),
            "journal": str(self.home / ".journals" / f"{self.name}.db"),
            "began": state.began,
            "seconds": round(self.seconds, 3),
            "activations": state.activations,
            "calls": self.calls,
            "tokens": self.tokens,
            "models": dict(state.models),
            "artifacts": {name: {"version": len(made), "made_by": made[-1].firing, **self._where(name, made[-1].payload)}
                          for name, made in state.versions.items() if name not in self.program.sop.inputs},
            "steps": {name: state.fired.get(name, 0) for name in self.program.sop.steps},
            "never": {} if state.ended is None else dict(state.ended.never),
        }

    def _where(self, artifact: str, payload: str) -> dict[str, Any]:
        held = self.values.payload(payload)
        if isinstance(held, Files):
            return {"files": list(held.files), "missing": list(held.missing)}
        spec = self.program.sop.artifacts.get(artifact)
        found: dict[str, Any] = {"file": spec.file if spec else None}
        if isinstance(held, Collection):
            found |= {"keys": [key for key, _ in held.items], "missing": list(held.missing)}
        return found


def ending_lines(told: Told, page: Page) -> list[str]:
    """What stands at the end of `sop run` and `sop resume`."""
    state = told.state
    lines = [_outcome(told, page), *_made(told, page)]
    never = {} if state.ended is None else state.ended.never
    if never:
        lines += ["never fired:", *table([[name, why] for name, why in never.items()], page, indent="  ")]
    lines += page.wrapped(f"cost: {amount(told.calls, 'call')}, {amount(told.tokens, 'token')}, {duration(told.seconds)}, "
                          f"{amount(state.activations, 'activation')}")
    return [*lines, *_onward(told, page)]


def show_lines(told: Told, page: Page) -> list[str]:
    """`sop show RUN`."""
    state, opened = told.state, told.state.opened
    facts = [
        ["SOP", f"{told.program.sop.sop}  {'' if opened is None else opened.location}".rstrip()],
        ["state", _standing(told)],
        ["began", f"{moment(state.began)}, under way for {duration(told.seconds)}"],
        ["cost", f"{amount(told.calls, 'call')}, {amount(told.tokens, 'token')}, {amount(state.activations, 'activation')}"],
        ["models", models_told(state.models) or "none"],
        ["folder", f"{told.folder}/"],
        ["journal", str(told.home / ".journals" / f"{told.name}.db")],
    ]
    lines = [page.paint(told.name, "bold")]
    lines += [line for word, fact in facts for line in page.wrapped(safe(fact), f"  {word:<9}")]
    made = _made(told, page)
    lines += ["", *made] if made else ["", "nothing was made"]
    never = {} if state.ended is None else state.ended.never
    rows = [[name, amount(state.fired.get(name, 0), "firing") if state.fired.get(name) else "never",
             _items(told, name) if state.fired.get(name) else never.get(name, "")] for name in told.program.sop.steps]
    lines += ["", *table(rows, page, headings=("step", "fired", ""), indent="  ")]
    onward = _onward(told, page)
    return [*lines, "", *onward] if onward else lines


def _items(told: Told, step: str) -> str:
    active = next((firing for firing in told.state.active.values() if firing.step == step), None)
    if active is not None:
        return "under way" if active.items is None else f"under way, {len(active.done)} of {amount(len(active.items), 'item')}"
    walked = told.state.walked.get(step, ())
    return amount(len(walked), "item") if told.program.sop.steps[step].foreach else ""


def _outcome(told: Told, page: Page) -> str:
    word, colon, reason = _standing(told).partition(":")
    return f"{page.paint(told.name, 'bold')}: {page.paint(word, _STYLES.get(told.standing, 'red'), 'bold')}{colon}{safe(reason)}"


def _standing(told: Told) -> str:
    """How the run stands, and why where that says more."""
    word, ended = OUTCOMES[told.standing], told.state.ended
    return f"{word}: {ended.reason}" if ended is not None and ended.reason not in ("", word) else word


def _made(told: Told, page: Page) -> list[str]:
    rows = []
    for name, made in told.state.versions.items():
        if name not in told.program.sop.inputs:
            rows.append([f"{name}@{len(made)}", made[-1].firing or "given", _place(told, name, made[-1].payload)])
    return table(rows, page, headings=("made", "by", ""), indent="  ") if rows else []


def _place(told: Told, artifact: str, payload: str) -> str:
    """Where a version lies as files, or what it holds."""
    held = told.values.payload(payload)
    spec = told.program.sop.artifacts.get(artifact)
    if isinstance(held, Files):
        lost = f", {len(held.missing)} missing" if held.missing else ""
        if len(held.files) == 1:
            return f"{told.folder / next(iter(held.files))}{lost}"
        where = f" in {told.folder / _common(held.files)}/" if held.files else ""
        return f"{amount(len(held.files), 'file')}{where}{lost}"
    if spec is not None and spec.file is not None:
        return str(told.folder / spec.file)
    if isinstance(held, Collection):
        return amount(len(held.items), "item") + (f", {len(held.missing)} missing" if held.missing else "")
    return ""


def _common(files: Mapping[str, str]) -> PurePosixPath:
    folders = [PurePosixPath(path).parent.parts for path in files]
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return PurePosixPath(*shared)


def _onward(told: Told, page: Page) -> list[str]:
    """How to go on: always how to look, and how to resume where something is left to do."""
    where = "" if told.home == Path("workspace") else f" --workspace {told.home}"
    if told.standing == "running":
        return []
    ways = [(f"sop show {told.name} ARTIFACT{where}", "an artifact's value"),
            (f"sop log {told.name}{where}", "who said what to whom")]
    if any(getattr(told.values.payload(made[-1].payload), "missing", ()) for made in told.state.versions.values()):
        ways.append((f"sop log {told.name} --kind failed{where}", "what failed, and why"))
    if told.standing == "success":
        pass
    elif told.standing == "budget":
        ways.insert(0, (f"sop resume {told.name} --budget {_cap(told)}=…{where}", "goes on with a higher cap"))
    elif told.standing == "failure":
        at = next((firing for firing in reversed(told.state.reads)), "FIRING")
        ways.insert(0, (f"sop fork {told.name} --at {at}{where}", "branches off before a firing"))
    else:
        ways.insert(0, (f"sop resume {told.name}{where}", "goes on where it stands"))
    return table(ways, page, indent="  ", styles={0: lambda _: "cyan"})


def _cap(told: Told) -> str:
    reason = "" if told.state.ended is None else told.state.ended.reason
    return next((measure for measure in ("tokens", "calls", "time") if measure in reason), "tokens")
