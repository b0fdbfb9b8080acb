"""Types of step that installed packages add (`use:`): they exist, can be loaded, and take what `with` gives."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from metaflow_agents import plugins
from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.shape_errors import problems_of


def check_executors(c: Context) -> None:
    """Each step that names one. The package that adds it is imported, as a run would do."""
    for name, step in c.sop.steps.items():
        if step.use is not None:
            _executor(c, name, step)


def broken(c: Context, where: Place, error: UsageError, *, key: bool = False) -> None:
    """Tells that what an installed package adds can't be loaded."""
    message, _, mend = str(error).rpartition("; ")
    c.say("plugin-broken", where, message, mend, key=key)


def _executor(c: Context, name: str, step: Step) -> None:
    kind, where = step.use or "", ("steps", name, "use")
    plugin = plugins.installed("executors").get(kind)
    if plugin is None:
        c.say("unknown-executor", where, f"there is no type of step `{kind}`", plugins.choices("executors", kind))
        return
    try:
        spec = getattr(plugin.load(), "SPEC", None)
        if not (isinstance(spec, type) and issubclass(spec, BaseModel)):
            raise UsageError(f"`{kind}` (executors) of {plugin.maker} has no `SPEC`; fix or uninstall {plugin.distribution}")
    except UsageError as error:
        broken(c, where, error)
        return
    _parameters(c, name, step, spec)


def _parameters(c: Context, name: str, step: Step, spec: type[BaseModel]) -> None:
    kind, given = step.use, step.with_ or {}
    spot: Place = ("steps", name, "with") if c.has("steps", name, "with") else ("steps", name, "use")
    fields = {field.alias or key: field for key, field in spec.model_fields.items()}
    unknown = [parameter for parameter in given if parameter not in fields]
    for parameter in unknown:
        c.say("executor-parameter", (*spot, parameter), f"`use: {kind}` takes no `{parameter}`",
              did_you_mean(parameter, fields) if fields else "it takes none: leave `with` out", key=True)
    lacking = [key for key, field in fields.items() if field.is_required() and key not in given]
    if lacking:
        c.say("executor-parameter", spot, f"`use: {kind}` wants {', '.join(f'`{one}`' for one in lacking)}",
              f"write `with: {{{', '.join(f'{one}: …' for one in lacking)}}}`")
    if unknown or lacking:
        return
    try:
        spec.model_validate(given)
    except ValidationError as error:
        fixed = [one for one in error.errors(include_url=False) if not _rendered(_at(given, one["loc"]))]
        for problem in problems_of(fixed, given, c.loaded.places, spot):
            c.say_at("executor-parameter", problem.file, problem.line, problem.column, problem.message, problem.mend)


def _at(given: Any, place: tuple[int | str, ...]) -> Any:
    """What is written at a place, or the last of it that is there."""
    for part in place:
        try:
            given = given[part]
        except (KeyError, IndexError, TypeError):
            return given
    return given


def _rendered(written: Any) -> bool:
    """Whether a value is known in a run alone: a template stands in it."""
    if isinstance(written, str):
        return "{{" in written or "{%" in written
    inside = written.values() if isinstance(written, dict) else written if isinstance(written, list) else ()
    return any(_rendered(one) for one in inside)
