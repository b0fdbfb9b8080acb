"""One case after the other: what it gives, its run, and the verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from metaflow_agents.api.run import start
from metaflow_agents.api.sop_test.expecting import Unmet, unmet
from metaflow_agents.api.sop_test.lived import lived
from metaflow_agents.engine.scheduler import everything, succeeded
from metaflow_agents.errors import ExpressionError, MetaflowError, UsageError, did_you_mean
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.tree import Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.models.registry import Given
from metaflow_agents.prompts import MISSING, analyse_expression
from metaflow_agents.runtime.checking import checked
from metaflow_agents.runtime.prepare import ready
from metaflow_agents.runtime.prepared import Choices
from metaflow_agents.schema.binary import jsonable
from metaflow_agents.schema.case import Case
from metaflow_agents.schema.role import model_for_role
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import PATHS, SOP
from metaflow_agents.settings import Settings
from metaflow_agents.sop.load import LoadedSOP


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """How one case went.

    `unmet`: what does not hold; `error`: why there was no run; `met`: the values that its expression named; `stopped`: why the
    run did not come to its end.
    """

    case: str
    ok: bool
    error: str = ""
    unmet: tuple[Unmet, ...] = ()
    met: Mapping[str, Any] | None = None
    stopped: str = ""
    activations: int = 0
    calls: int = 0
    seconds: float = 0.0

    @property
    def why(self) -> str:
        """What did not hold, in a line; empty where all held."""
        parts = [self.error] if self.error else [f"{one.place}: expected {one.expected}; {one.was}" for one in self.unmet]
        return "; ".join([*parts, *([f"the run was stopped: {self.stopped}"] if self.stopped else [])])

    def as_json(self) -> dict[str, Any]:
        """What `sop test --json` prints of a case."""
        return {"case": self.case, "ok": self.ok, "why": self.why, "unmet": [one.as_json() for one in self.unmet],
                "met": dict(self.met or {}), "stopped": self.stopped, "error": self.error,
                "activations": self.activations, "calls": self.calls, "seconds": round(self.seconds, 3)}


async def try_out(sop: str | Path, cases: Sequence[str] = (), *, sandbox: str | None = None) -> AsyncIterator[CaseVerdict]:
    """Runs the named cases of a SOP (all of them where none is named), one after the other.

    `sandbox` is where commands run in cases whose model is not `dry`, as for `start`. Raises SOPNotFound, SOPInvalid, and
    UsageError where the SOP has no tests, or none of such a name.
    """
    loaded = checked(sop)
    declared = loaded.program.sop.tests
    if not declared:
        raise UsageError(f"{loaded.entry} has no tests: write one, like `tests: {{walks_through: {{model: dry}}}}`")
    for name in cases:
        if name not in declared:
            raise UsageError(f"{loaded.entry} has no test `{name}`: {did_you_mean(name, declared)}")
    for name in cases or declared:
        yield await _try(loaded, name, declared[name], sandbox)


async def _try(loaded: LoadedSOP, name: str, case: Case, sandbox: str | None) -> CaseVerdict:
    sop = loaded.program.sop
    everybody, of_roles = _models(case)
    try:
        with TemporaryDirectory(prefix="sop-test-") as inline:
            prepared = ready(loaded, Choices(everybody, of_roles, sandbox, None, Settings.read(), late=True))
            run = start(prepared, inputs=_inputs(sop, case, loaded.folder, Path(inline)), given=case.given, until=case.until)
        async with run as going:
            result = await going.result()
            if going.lacking:               # it says nothing of the SOP, whatever the case expects
                return CaseVerdict(name, False, going.lacking)
            found, met = _held(sop, case, going.journal)
            wrong = [*(_placed(loaded, name, one) for one in found), *_unrendered(loaded, going.journal)]
    except MetaflowError as error:
        return CaseVerdict(name, False, str(error))
    stopped = result.reason if wrong and result.outcome in ("stopped", "budget", "waiting") else ""
    return CaseVerdict(name, not wrong, "", tuple(wrong), met, stopped, result.activations, result.calls, result.seconds)


def _models(case: Case) -> tuple[str, dict[str, Given]]:
    """Who answers: everybody's model, and those of single roles."""
    if isinstance(case.model, str):
        return case.model, {}
    if set(case.model.values()) <= {"dry"}:
        return "dry", {}                # a dry walk: commands and functions are not carried out either
    return case.model.get("default", "dry"), {
        model_for_role(role): model for role, model in case.model.items() if role != "default"}


def _inputs(sop: SOP, case: Case, folder: Path, inline: Path) -> dict[str, Any]:
    """A case's inputs. Paths of files and folders are read from the SOP's folder; what is written out is laid into `inline`."""
    found: dict[str, Any] = {}
    for name, value in case.inputs.items():
        kind = sop.inputs[name].type if name in sop.inputs else None
        if kind not in PATHS:
            found[name] = value
        elif isinstance(value, Mapping):
            for path, text in value.items():
                place = inline / name / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(text.encode())
            (inline / name).mkdir(exist_ok=True)            # of an empty folder
            found[name] = str(inline / name / next(iter(value)) if kind == "file" else inline / name)
        else:
            found[name] = str(folder / value)
    return found


def _held(sop: SOP, case: Case, journal: Journal) -> tuple[list[Unmet], dict[str, Any]]:
    """What does not hold over everything that a case's run left, and the values of the names in its expression."""
    state = journal.state
    values = Values(journal.blob, state)
    name = "" if state.opened is None else state.opened.run
    facts = {"name": name, "inputs": {one: values.latest(one) for one in sop.inputs}}
    reason = ""
    try:
        success, reason = succeeded(sop, values, facts)
    except ExpressionError as error:
        success, reason = False, f"`success`: {error}"
    scope = {**everything(sop, values), "run": facts, "success": success}
    named = analyse_expression(case.expect, dict.fromkeys(scope, Shape.any())).names
    met = {one: _plain(values, journal, one) if one != "success" else success for one in scope if one in named and one != "run"}
    return list(unmet(sop, case, scope, reason, lived(journal), state.spent)), met


def _unrendered(loaded: LoadedSOP, journal: Journal) -> Iterator[Unmet]:
    """Templates that fail on what the case made: in a run with a folder they would stop it."""
    values = Values(journal.blob, journal.state)
    tree = Tree(loaded.program, values, journal.state, "" if journal.state.opened is None else journal.state.opened.run)
    for name, spec in loaded.program.sop.artifacts.items():
        payload = journal.state.payload(name) if spec.render is not None else None
        try:
            if payload is not None:
                tree.as_rendered(name, values.view(payload))
        except ExpressionError as error:
            path = ("artifacts", name, "render")
            spot = loaded.places.at(path, key=True)
            place = f"{spot.file}:{spot.line}:{spot.column}"
            yield Unmet(f"`{name}` to be rendered by {spec.render}", str(error), path, place=place)


def _plain(values: Values, journal: Journal, name: str) -> Any:
    payload = journal.state.payload(name)
    return None if payload is None or values.latest(name) is MISSING else jsonable(values.plain(payload))


def _placed(loaded: LoadedSOP, case: str, one: Unmet) -> Unmet:
    """With the place in the file: of a key that is not written, that of what it would stand in."""
    path = ("tests", case, *one.at)
    spot = loaded.places.at(path, key=True) if one.at[0] == "given" else loaded.places.inside(path, one.line, one.column)
    return replace(one, place=f"{spot.file}:{spot.line}:{spot.column}")
