"""What a SOP names that installed packages add: it exists, can be loaded, and takes what `with` gives."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from metaflow_agents import plugins
from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.shape_errors import problems_of


def check_executors(c: Context) -> None:
    """Each step of a type that a package adds, which is imported, as a run would do."""
    for name, step in c.sop.steps.items():
        if step.use is None:
            continue
        where: Place = ("steps", name, "use")
        spec = spec_of(c, where, "executors", step.use, "type of step")
        if spec is not None:
            spot: Place = ("steps", name, "with") if c.has("steps", name, "with") else where
            parameters(c, spot, f"use: {step.use}", step.with_ or {}, spec)


def broken(c: Context, where: Place, error: UsageError, *, key: bool = False) -> None:
    """Tells that what an installed package adds can't be loaded."""
    message, _, mend = str(error).rpartition("; ")
    c.say("plugin-broken", where, message, mend, key=key)


def check_plugin(c: Context, where: Place, group: str, name: str, what: str) -> None:
    """That an installed package adds a thing of that name, which can be loaded."""
    plugin = plugins.installed(group).get(name)
    if plugin is None:
        c.say("unknown-plugin", where, f"there is no {what} `{name}`", plugins.choices(group, name))
        return
    try:
        plugin.load()
    except UsageError as error:
        broken(c, where, error)


def spec_of(c: Context, where: Place, group: str, name: str, what: str) -> type[BaseModel] | None:
    """What `with` may hold of what an installed package adds; None where there is none, or it can't be loaded, which is told."""
    plugin = plugins.installed(group).get(name)
    if plugin is None:
        c.say("unknown-plugin", where, f"there is no {what} `{name}`", plugins.choices(group, name))
        return None
    try:
        spec = getattr(plugin.load(), "SPEC", None)
        if not (isinstance(spec, type) and issubclass(spec, BaseModel)):
            raise UsageError(f"`{name}` ({group}) of {plugin.maker} has no `SPEC`; fix or uninstall {plugin.distribution}")
    except UsageError as error:
        broken(c, where, error)
        return None
    return spec


def parameters(c: Context, spot: Place, told: str, given: dict[str, Any], spec: type[BaseModel]) -> None:
    """That `with` gives what is taken; what a template gives is known in a run alone. `told`: who takes it, as it is written."""
    fields = {field.alias or key: field for key, field in spec.model_fields.items()}
    unknown = [parameter for parameter in given if parameter not in fields]
    for parameter in unknown:
        c.say("plugin-parameter", (*spot, parameter), f"`{told}` takes no `{parameter}`",
              did_you_mean(parameter, fields) if fields else "it takes none: leave `with` out", key=True)
    lacking = [key for key, field in fields.items() if field.is_required() and key not in given]
    if lacking:
        c.say("plugin-parameter", spot, f"`{told}` wants {', '.join(f'`{one}`' for one in lacking)}",
              f"write `with: {{{', '.join(f'{one}: …' for one in lacking)}}}`")
    if unknown or lacking:
        return
    try:
        spec.model_validate(given)
    except ValidationError as error:
        fixed = [one for one in error.errors(include_url=False) if not _rendered(_at(given, one["loc"]))]
        for problem in problems_of(fixed, given, c.loaded.places, spot):
            c.say_at("plugin-parameter", problem.file, problem.line, problem.column, problem.message, problem.mend)


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
