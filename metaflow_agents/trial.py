"""`sop test`: the `tests:` of a SOP, each run in memory, with a model that needs no endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.engine.scheduler import everything, succeeded
from metaflow_agents.errors import ExpressionError, MetaflowError, UsageError, did_you_mean
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.opening import checked
from metaflow_agents.prompts import MISSING, analyse_expression, evaluate, truthy
from metaflow_agents.runs import start
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import PATHS, SOP, Case


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one case went. `why` says what did not hold; `met` the values that its expression named."""

    case: str
    ok: bool
    why: str = ""
    met: Mapping[str, Any] | None = None
    activations: int = 0
    calls: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """What `sop test --json` prints of a case."""
        return {"case": self.case, "ok": self.ok, "why": self.why, "met": dict(self.met or {}),
                "activations": self.activations, "calls": self.calls, "seconds": round(self.seconds, 3)}


async def try_out(sop: str | Path, cases: Sequence[str] = (), *, sandbox: str | None = None) -> AsyncIterator[Verdict]:
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
    path = loaded.folder / Path(loaded.entry).name
    for name in cases or declared:
        yield await _try(path, loaded.program, name, declared[name], loaded.folder, sandbox)


async def _try(path: Path, program: Program, name: str, case: Case, folder: Path, sandbox: str | None) -> Verdict:
    try:
        run = start(path, model=case.model, inputs=_inputs(program.sop, case, folder), given=case.given, until=case.until,
                    workspace=None, sandbox=sandbox)
        async with run as going:
            result = await going.result()
            values = Values(going.journal.blob, going.journal.state)
            fine, why, met = _expected(program.sop, case, values, going.journal.state)
    except MetaflowError as error:
        return Verdict(name, False, str(error))
    if not fine and result.outcome in ("stopped", "budget", "waiting"):
        why = f"{why}; the run was stopped: {result.reason}"
    return Verdict(name, fine, why, met, result.activations, result.calls, result.seconds)


def _inputs(sop: SOP, case: Case, folder: Path) -> dict[str, Any]:
    """A case's inputs; the paths of files and folders are read from the SOP's folder."""
    return {name: str(folder / value) if isinstance(value, str) and name in sop.inputs
            and sop.inputs[name].type in PATHS else value for name, value in case.inputs.items()}


def _expected(sop: SOP, case: Case, values: Values, state: RunState) -> tuple[bool, str, dict[str, Any]]:
    """Whether a case's `expect` holds over everything that its run left; if not, why, and what the names in it were."""
    name = "" if state.opened is None else state.opened.run
    facts = {"name": name, "inputs": {one: values.latest(one) for one in sop.inputs}}
    reason = ""
    try:
        success, reason = succeeded(sop, values, facts)
    except ExpressionError as error:
        success, reason = False, f"`success`: {error}"
    scope = {**everything(sop, values), "run": facts, "success": success}
    named = analyse_expression(case.expect, dict.fromkeys(scope, Shape.any())).names
    met = {one: _plain(values, state, one) if one != "success" else success for one in scope if one in named and one != "run"}
    try:
        if truthy(evaluate(case.expect, scope)):
            return True, "", met
        because = f"; {reason}" if "success" in named and reason else ""
        return False, f"`{case.expect}` does not hold{because}", met
    except ExpressionError as error:
        return False, f"`{case.expect}`: {error}", met


def _plain(values: Values, state: RunState, name: str) -> Any:
    payload = state.payload(name)
    return None if payload is None or values.latest(name) is MISSING else values.plain(payload)
