"""Language-model agents that work together by a written procedure: checked, budgeted, journalled, resumable.

    from metaflow_agents import run
    result = await run("letters.yaml", letter=text, model=my_function)

The names below are public; they are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metaflow_agents.api.run import fork, go_on, resume, run, run_sync, start
    from metaflow_agents.errors import (
        AnswerInvalid,
        AttemptFailed,
        BudgetExceeded,
        EndpointRefused,
        ExpressionError,
        JournalError,
        MetaflowError,
        ModelMissing,
        Problem,
        PromptChanged,
        RunBusy,
        RunError,
        RunSucceeded,
        SOPError,
        SOPInvalid,
        SOPNotFound,
        StepFailed,
        UsageError,
        Waiting,
    )
    from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
    from metaflow_agents.runtime.checking import check
    from metaflow_agents.runtime.handle import Run, RunResult
    from metaflow_agents.runtime.prepare import prepare
    from metaflow_agents.runtime.prepared import Prepared
    from metaflow_agents.sop.check import CheckReport
    from metaflow_agents.sop.load import LoadedSOP, load_sop
    from metaflow_agents.tools.run_files import RunFiles

_HOMES = {
    **dict.fromkeys(("AnswerInvalid", "AttemptFailed", "BudgetExceeded", "EndpointRefused", "ExpressionError", "JournalError",
                     "MetaflowError", "ModelMissing", "Problem", "PromptChanged", "RunBusy", "RunError", "RunSucceeded",
                     "SOPError", "SOPInvalid", "SOPNotFound", "StepFailed", "UsageError", "Waiting"), "errors"),
    "ModelRequest": "models.port", "Reply": "models.port", "ToolCall": "models.port",
    "Run": "runtime.handle", "RunResult": "runtime.handle",
    "fork": "api.run", "go_on": "api.run", "resume": "api.run", "run": "api.run",
    "run_sync": "api.run", "start": "api.run",
    "Prepared": "runtime.prepared", "prepare": "runtime.prepare",
    "CheckReport": "sop.check", "check": "runtime.checking",
    "LoadedSOP": "sop.load", "load_sop": "sop.load",
    "RunFiles": "tools.run_files",
}

__all__ = [
    "AnswerInvalid", "AttemptFailed", "BudgetExceeded", "CheckReport", "EndpointRefused", "ExpressionError", "JournalError",
    "LoadedSOP", "MetaflowError", "ModelMissing", "ModelRequest", "Prepared", "Problem", "PromptChanged", "Reply", "Run",
    "RunBusy", "RunError", "RunFiles", "RunResult", "RunSucceeded", "SOPError", "SOPInvalid", "SOPNotFound", "StepFailed",
    "ToolCall", "UsageError", "Waiting", "check", "fork", "go_on", "load_sop", "prepare", "resume", "run", "run_sync", "start",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
