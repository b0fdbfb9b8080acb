"""The solver, as a command for the sandbox: what is run, on which files, and what its outcome says.

unified-planning (https://unified-planning.readthedocs.io) with Fast Downward (Helmert, JAIR 2006) does the search, in a process
of its own; `docs/decisions/0034-the-solver-runs-in-the-sandbox.md` says why.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from metaflow_agents import plugins
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.texts.strict_json import read

WANTED = {"unified-planning": (1, 3), "up-fast-downward": (1, 0)}
"""The packages of the extra `solver`, each with its first version that will do."""
OUTCOME = "outcome.json"
MEMORY_MB = 2048
_FULL = ("of memory", "MemoryError", "bad_alloc")
Status = Literal["solved", "unsolvable", "refused", "time", "memory"]


@dataclass(frozen=True, slots=True)
class Solved:
    """What the solver found: a plan, one action a line, or why there is none, in words for who wrote the problem."""

    status: Status
    plan: str = ""
    told: str = ""


def missing() -> str:
    """What of the extra is not installed, with the fix; empty where all of it is. Nothing is imported."""
    return plugins.missing("solver", WANTED)


def checkup() -> tuple[str, str]:
    """For `sop doctor`: whether the extra is installed that the strategy `solver` needs, and nothing else does."""
    lacking = missing()
    return "note" if lacking else "ok", lacking or f"{' and '.join(WANTED)} are installed"


def command(*, optimal: bool) -> tuple[str, ...]:
    """The arguments to run."""
    return (sys.executable, "-P", "solve.py", "fast-downward-opt" if optimal else "fast-downward", str(MEMORY_MB))


def files(domain: str, problem: str) -> dict[str, bytes]:
    """What it runs on: path → bytes."""
    return {"domain.pddl": domain.encode(), "problem.pddl": problem.encode(), "solve.py": _script()}


class EndedSolver(Protocol):
    """How the command ended. `written`: the outcome's file, if there is one."""

    @property
    def exit_code(self) -> int: ...  # noqa: D102
    @property
    def timed_out(self) -> bool: ...  # noqa: D102
    @property
    def stderr(self) -> str: ...  # noqa: D102
    @property
    def written(self) -> str | None: ...  # noqa: D102


def outcome(ended: EndedSolver, seconds: float) -> Solved:
    """What came of it, within so many seconds.

    Raises AttemptFailed where the solver itself failed.
    """
    if ended.timed_out:
        return Solved("time", told=f"the solver found no plan within {seconds:g} seconds")
    if ended.written is None and any(sign in ended.stderr for sign in _FULL):
        return Solved("memory", told="the solver found no plan in the memory that it may take")
    if ended.written is None:
        raise AttemptFailed(f"the solver ended with exit code {ended.exit_code} and no outcome: {ended.stderr[-1000:]}")
    try:
        found = read(ended.written)
        status, told = found["status"], found["told"]
    except (ValueError, KeyError, TypeError) as error:
        raise AttemptFailed(f"the solver told no outcome that can be read: {error}") from None
    match status:
        case "solved":
            return Solved("solved", found["plan"])
        case "unsolvable":
            return Solved("unsolvable", told="the solver went through all that it can try, and no plan reaches the goal")
        case "refused":
            return Solved("refused", told=f"the solver can't read it: {told}")
        case "memory" | "time":
            return Solved(status, told="the solver found no plan in the time and memory that it may take")
        case _:
            raise AttemptFailed(f"the solver failed: {told[-1000:]}")


@cache
def _script() -> bytes:
    return Path(__file__).with_name("worker.py").read_bytes()
