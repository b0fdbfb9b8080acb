"""A SOP given as a text, run for a measurement: in memory, from a folder of its own that is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from metaflow_agents import ModelRequest, RunResult, run_sync


def ran(text: str, model: Callable[[ModelRequest], Any], inputs: Mapping[str, Any], *, sandbox: str | None = None,
        templates: Mapping[str, str] | None = None) -> RunResult:
    """How it ended and what it made. `templates`: name of a file beside it → what stands in it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, template in (templates or {}).items():
            Path(folder, name).write_text(template, encoding="utf-8")
        path = Path(folder, "measured.yaml")
        path.write_text(text, encoding="utf-8")
        return run_sync(path, inputs=inputs, model=model, workspace=None, sandbox=sandbox)


def succeeded(result: RunResult) -> RunResult:
    """The result. Raises RuntimeError where the run did not succeed: then there is nothing to be measured."""
    if not result.ok:
        raise RuntimeError(f"the run ended as {result.outcome}: {result.reason}")
    return result
