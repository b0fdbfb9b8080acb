"""A script that runs outside of this process, in the sandbox: it asks unified-planning for a plan and writes what came of it.

It imports nothing of this package, and nothing of this package imports it. It reads `domain.pddl` and `problem.pddl`, asks the
engine that its first argument names, and writes `outcome.json`: `status`, `told`, and `plan`, one action a line. Its second
argument bounds the memory, in MB, of each process that it starts, where the sandbox does not.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

STATUS = {
    "SOLVED_SATISFICING": "solved", "SOLVED_OPTIMALLY": "solved", "UNSOLVABLE_PROVEN": "unsolvable",
    "UNSOLVABLE_INCOMPLETELY": "unsolvable", "TIMEOUT": "time", "MEMOUT": "memory", "UNSUPPORTED_PROBLEM": "refused",
}


def solve(engine: str) -> dict[str, Any]:
    """What the engine says of the problem that lies in this folder."""
    from unified_planning.environment import get_environment
    from unified_planning.io import PDDLReader
    from unified_planning.shortcuts import OneshotPlanner

    get_environment().credits_stream = None
    try:
        problem = PDDLReader().parse_problem("domain.pddl", "problem.pddl")
    except Exception as error:              # it raises what it likes, and its words are for who wrote the text
        return {"status": "refused", "told": f"{type(error).__name__}: {error}"[:2000], "plan": ""}
    with OneshotPlanner(name=engine) as planner:
        found = planner.solve(problem)
    told = "\n".join(message.message for message in found.log_messages or ())[-2000:]
    if found.plan is None:
        return {"status": STATUS.get(found.status.name, "failed"), "told": f"{found.status.name}\n{told}", "plan": ""}
    lines = [f"({' '.join((one.action.name, *map(str, one.actual_parameters)))})" for one in found.plan.actions]
    return {"status": "solved", "told": "", "plan": "\n".join(lines)}


if __name__ == "__main__":
    most = int(sys.argv[2]) << 20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    Path("outcome.json").write_text(json.dumps(solve(sys.argv[1])))
