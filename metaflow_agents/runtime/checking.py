"""A SOP that is checked: by whatever is known in this process of strategies, models, tools and indexes."""

from __future__ import annotations

from pathlib import Path

from metaflow_agents.agent import strategies
from metaflow_agents.errors import SOPInvalid
from metaflow_agents.memory.indexes import missing
from metaflow_agents.settings import Settings
from metaflow_agents.sop.check import CheckReport
from metaflow_agents.sop.check import check as check_sop
from metaflow_agents.sop.configuration import read_configuration
from metaflow_agents.sop.load import LoadedSOP, Reading, read_sop
from metaflow_agents.tools.known import known_tools


def check(source: str | Path | Reading, *, start: Path | None = None, settings: Settings | None = None) -> CheckReport:
    """Checks a SOP by file or name, or one that was read already.

    `start` is the folder from which names are looked for (default: the current one). Strategies that were registered
    from Python are known, and the models of the user's configuration (that of `settings`, by default this process's).
    Raises SOPNotFound where there is no such SOP; whatever stands in its files is told in `problems`.
    """
    models = read_configuration((settings or Settings.read()).configuration).configuration.models
    return check_sop(source, start=start, strategies=strategies.known(), models=models, missing=missing, tools=known_tools)


def checked(sop: str | Path, settings: Settings | None = None) -> LoadedSOP:
    """A SOP without errors. Raises SOPNotFound, or SOPInvalid with all its problems."""
    reading = read_sop(sop)
    report = check(reading, settings=settings)
    if not report.ok or reading.loaded is None:
        raise SOPInvalid(report.errors)
    return reading.loaded
