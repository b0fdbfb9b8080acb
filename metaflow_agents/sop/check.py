"""`sop check`: everything that can be known of a SOP without a model. It imports and executes nothing of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metaflow_agents.errors import Problem
from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.role import IndexName
from metaflow_agents.schema.strategies import STRATEGIES, StrategySpec
from metaflow_agents.sop.bounds import Bounds, bounds_of
from metaflow_agents.sop.checks.acting import acts
from metaflow_agents.sop.checks.calls import check_calls
from metaflow_agents.sop.checks.context import Context, Takes
from metaflow_agents.sop.checks.doers import check_doers
from metaflow_agents.sop.checks.files import check_failures, check_files
from metaflow_agents.sop.checks.flow import check_flow
from metaflow_agents.sop.checks.foreach import check_makes
from metaflow_agents.sop.checks.graphs import check_graphs
from metaflow_agents.sop.checks.models import check_models
from metaflow_agents.sop.checks.money import check_money
from metaflow_agents.sop.checks.names import check_names, check_use
from metaflow_agents.sop.checks.recall import check_recall
from metaflow_agents.sop.checks.sentences import check_sentences
from metaflow_agents.sop.checks.sops import check_sops
from metaflow_agents.sop.checks.steps import check_expressions
from metaflow_agents.sop.checks.strategies import check_strategies
from metaflow_agents.sop.checks.tests import check_tests
from metaflow_agents.sop.checks.together import check_together
from metaflow_agents.sop.checks.values import check_values
from metaflow_agents.sop.functions import located, unfollowed
from metaflow_agents.sop.load import Reading, read_sop


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `sop check` found: problems by place, bounds where every cycle has one, the program where there is no error."""

    file: str
    problems: tuple[Problem, ...]
    bounds: Bounds | None
    program: Program | None
    functions: Mapping[str, str] = field(default_factory=dict)
    """Python that the SOP names → its file, as a run would find it."""
    unfollowed: tuple[str, ...] = ()
    """What of that Python `--from` does not compare, since reading its files does not lead there."""

    @property
    def ok(self) -> bool:
        """Whether the SOP may run: warnings are no obstacle."""
        return not self.errors

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that have to be mended."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed and probably not meant."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    def as_json(self) -> dict[str, Any]:
        """The compiled manifest that `sop check --json` prints; its keys stay from version to version."""
        program = self.program
        return {
            "manifest": 1,
            "file": self.file,
            "ok": self.ok,
            "problems": [problem.as_json() for problem in self.problems],
            "bounds": self.bounds.as_json() if self.bounds else None,
            "fingerprint": program.fingerprint if program else None,
            "functions": dict(self.functions),
            "unfollowed": list(self.unfollowed),
            "program": program.model_dump(mode="json", by_alias=True, exclude_unset=True) if program else None,
        }


def check(source: str | Path | Reading, *, start: Path | None = None,
          strategies: Mapping[str, type[StrategySpec]] = STRATEGIES,
          models: Mapping[str, str | EndpointModel] | None = None,
          missing: Callable[[IndexName], str] = lambda _: "",
          tools: Callable[[Program], Mapping[str, Takes]] = lambda _: {}) -> CheckReport:
    """Checks a SOP by file or name, or one that was read already.

    `start` is the folder from which names are looked for (default: the current one), `strategies` are those that a step
    may name, `models` those of the user's configuration, `missing` tells what an index over embeddings lacks here,
    `tools` what tools take, as far as that is known.
    Raises SOPNotFound where there is no such SOP; whatever stands in its files is told in `problems`.
    """
    reading = source if isinstance(source, Reading) else read_sop(source, start=start)
    loaded = reading.loaded
    if loaded is None:
        file = reading.problems[0].file if reading.problems else str(source)
        return CheckReport(file, _sorted(reading.problems, file), None, None)
    context = Context(loaded, strategies, reading=reading.problems,
                      models=models or {}, missing=missing, tools=tools)
    bounds = _checked(context)
    problems = _sorted((*reading.problems, *dict.fromkeys(_all_problems(context))), loaded.entry)
    sound = not any(problem.severity == "error" for problem in problems)
    return CheckReport(loaded.entry, problems, bounds if sound else None, loaded.program if sound else None,
                       located(loaded), unfollowed(loaded))


def _all_problems(c: Context) -> Iterator[Problem]:
    yield from c.problems
    for inner in c.inner.values():
        yield from _all_problems(inner)


def _checked(c: Context) -> Bounds | None:
    """Runs all groups. The order matters: names first, since what is misspelt is told once; use last."""
    bounds = {}
    for name, loaded in c.loaded.inner.items():
        c.inner[name] = Context(loaded, c.strategies, reading=c.reading, models=c.models,
                                missing=c.missing, tools=c.tools)
        bounds[name] = _checked(c.inner[name])
    check_names(c)
    check_makes(c)
    check_graphs(c)
    check_failures(c)
    check_doers(c)
    check_models(c)
    check_recall(c)
    check_money(c)
    if acts(c.sop):
        _check_acting(c)
    check_expressions(c)
    check_sops(c)
    if any(step.tool is not None for step in c.sop.steps.values()):
        from metaflow_agents.sop.checks.tool_steps import check_tool_steps

        check_tool_steps(c)
    if any(step.packages is not None or step.tool == "packages" for step in c.sop.steps.values()):
        from metaflow_agents.sop.checks.packages import check_packages

        check_packages(c)
    if any(step.use is not None for step in c.sop.steps.values()):
        from metaflow_agents.sop.checks.installed import check_executors

        check_executors(c)
    check_strategies(c)
    check_together(c)
    check_sentences(c)
    check_files(c)
    check_calls(c)
    check_values(c)
    check_tests(c)
    graph = check_flow(c)
    check_use(c)
    return None if graph.unbounded_cycles() else bounds_of(c.program, graph, c.walked, c.strategies, bounds)


def _check_acting(c: Context) -> None:
    """What roles may do and what people are asked. Most SOPs have none of it, and their check does not load these groups."""
    from metaflow_agents.sop.checks.people import check_people
    from metaflow_agents.sop.checks.policy import check_policies
    from metaflow_agents.sop.checks.secrets import check_secrets
    from metaflow_agents.sop.checks.tools import check_tools

    check_tools(c)
    check_policies(c)
    check_secrets(c)
    check_people(c)


def _sorted(problems: tuple[Problem, ...], entry: str) -> tuple[Problem, ...]:
    """By place; those of the SOP itself before those of the files that it names; where YAML is at fault, nothing else is."""
    broken = {(one.file, one.line, one.column) for one in problems if one.code.startswith("yaml-") and one.line}
    left = [one for one in problems if one.code.startswith("yaml-") or (one.file, one.line, one.column) not in broken]
    return tuple(sorted(dict.fromkeys(left), key=lambda one: (one.file != entry, one.file, one.line, one.column, one.code)))
