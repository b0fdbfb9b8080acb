"""How roles think: strategies that exist, parameters that they take, and what these refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.prompts import analyse_template
from metaflow_agents.schema import paths
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import Reference, StrategySpec, unloadable
from metaflow_agents.schema.strategies.base import model_at
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.doers import blind, command
from metaflow_agents.sop.checks.expressions import Scope, expression, step_scope, template
from metaflow_agents.sop.checks.installed import broken
from metaflow_agents.sop.shape_errors import problems_of


def check_strategies(c: Context) -> None:
    """The strategy of each step that has one."""
    for name, step in c.sop.steps.items():
        if step.strategy is not None:
            _strategy(c, name, step)


def _strategy(c: Context, name: str, step: Step) -> None:
    where: Place = ("steps", name, "strategy")
    (strategy, parameters), = (step.strategy or {}).items()
    if strategy in ("matrix", "max-parallel") and strategy not in c.strategies:
        return                                            # a habit from GitHub Actions, told while reading
    at_key = c.has(*where, strategy)
    spot: Place = (*where, strategy) if at_key else where
    if strategy not in c.strategies:
        c.say("unknown-strategy", spot, f"there is no strategy `{strategy}`", did_you_mean(strategy, c.strategies), key=at_key)
    elif why := unloadable(c.strategies[strategy]):
        broken(c, spot, UsageError(why), key=at_key)
        c.lost_strategies.add(name)
    elif parameters is not None and not isinstance(parameters, dict):
        c.say("strategy-parameter", spot, f"the parameters of `{strategy}` have to be a mapping", f"write `{strategy}: {{}}`")
    else:
        spec = _parameters(c, spot, strategy, parameters or {}, at_key)
        for reference in () if spec is None else spec.references():
            _reference(c, name, step, spot, reference)
        for message, mend in () if spec is None or step.role is None else spec.wrong_tools(c.sop.tools_of(step)):
            c.say("strategy-tools", spot, message, mend, key=at_key)
        for parameter, path in () if spec is None else spec.writes():
            _file(c, step, (*spot, parameter), path)


def _parameters(c: Context, spot: Place, strategy: str, given: Mapping[str, Any], at_key: bool) -> StrategySpec | None:
    takes = c.strategies[strategy]
    fields = {field.alias or name: field for name, field in takes.model_fields.items() if name != "prompts" or takes.PROMPTS}
    unknown = [parameter for parameter in given if parameter not in fields]
    for parameter in unknown:
        c.say("strategy-parameter", (*spot, parameter), f"the strategy `{strategy}` has no parameter `{parameter}`",
              did_you_mean(parameter, fields) if fields else f"it takes none: write `strategy: {strategy}`", key=True)
    missing = [name for name, field in fields.items() if field.is_required() and name not in given]
    if missing:
        listed = ", ".join(f"`{parameter}`" for parameter in missing)
        wanted = ", ".join(f"{parameter}: …" for parameter in missing)
        c.say("strategy-parameter", spot, f"the strategy `{strategy}` wants {listed}", f"write `{{{strategy}: {{{wanted}}}}}`",
              key=at_key)
    if unknown or missing:
        c.lost_strategies.add(str(spot[1]))
        return None
    try:
        return takes.model_validate(given)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        for one in errors:
            if one["type"] == "extra_forbidden":
                _unknown_below(c, spot, takes, one["loc"])
        errors = [one for one in errors if one["type"] != "extra_forbidden"]
        for problem in problems_of(errors, given, c.loaded.places, spot):
            c.say_at(problem.code, problem.file, problem.line, problem.column, problem.message, problem.mend)
        c.lost_strategies.add(str(spot[1]))
        return None


def _unknown_below(c: Context, spot: Place, takes: type[StrategySpec], loc: tuple[str | int, ...]) -> None:
    """A key that a mapping among the parameters, such as an evaluator, does not have."""
    model = model_at(takes, loc[:-1])
    fields = [] if model is None else [field.alias or name for name, field in model.model_fields.items()]
    c.say("strategy-parameter", (*spot, *loc), f"there is no `{loc[-1]}` here", did_you_mean(str(loc[-1]), fields), key=True)


def _reference(c: Context, name: str, step: Step, spot: Place, reference: Reference) -> None:
    """That what a parameter refers to exists, and what its expression or template names."""
    where, to = (*spot, *reference.place), reference.refers.to
    if to == "role" and reference.text not in c.sop.roles:
        c.say("unknown-role", where, f"there is no role `{reference.text}`", did_you_mean(reference.text, c.sop.roles))
    elif to == "expression":
        analysis = expression(c, where, reference.text, _scope(c, name, step, reference), name)
        if analysis is not None and reference.refers.gives:
            _gives(c, where, analysis.shape, reference.refers.gives)
    elif to == "command":
        _command(c, name, step, where, reference.text)
    elif to == "template" and reference.text in c.program.templates:
        text = c.program.templates[reference.text]
        analysis = analyse_template(text, _scope(c, name, step, reference), c.program.templates)
        c.analyses.append((name, analysis))
        for finding in analysis.findings:
            c.say_at(finding.code, *c.loaded.places.template(reference.text, finding.line, finding.column), finding.message,
                     finding.mend)


def _file(c: Context, step: Step, where: Place, path: str) -> None:
    """That the step makes a file which a parameter names."""
    artifact = c.sop.artifacts.get(step.makes.artifact)
    patterns = step.makes.patterns or (artifact.files if artifact is not None else ())
    if why := paths.refusal(path):
        c.say("strategy-parameter", where, f"the path `{path}` is refused: {why}", "write a relative path, with `/`")
    elif artifact is not None and not paths.matches(patterns, path):
        makes = f"files that match {', '.join(f'`{one}`' for one in patterns)}" if patterns else "no files"
        c.say("strategy-parameter", where, f"the step makes {makes}, and `{path}` is none of them",
              "name a file of what the step makes")


def _gives(c: Context, where: Place, shape: Shape, wanted: str) -> None:
    """That an expression gives a list, or a list of numbers, as far as that is known."""
    if not shape.kinds & {"list", "any"}:
        c.say("not-a-list", where, f"this expression gives {shape.describe()}, and a list is wanted",
              "name a list, such as the versions of an artifact: `history('NAME')`")
    elif wanted == "numbers" and shape.kinds == {"list"} and not shape.item().kinds & {"number", "integer", "any"}:
        c.say("strategy-parameter", where, f"this expression gives a list of {shape.item().describe()}, and numbers are wanted",
              "take the numbers of its items: `… | map(attribute='NAME') | list`")


def _command(c: Context, name: str, step: Step, where: Place, text: str) -> None:
    """A command, or an argument of one that is written as a list."""
    if isinstance(where[-1], str):
        command(c, name, step, where, text)
    else:
        template(c, where, text, step_scope(c, name, step, Shape.any() if step.foreach else None), name)
    if where[-1] in ("run", 0):
        blind(c, name, step, where, "assert: EXPRESSION")


def _scope(c: Context, name: str, step: Step, reference: Reference) -> Scope:
    """What the step reads, and the names that the strategy adds; of these only the answer's form is known."""
    made = c.shape(step.makes.artifact)
    answer = made.element if made.kind == "collection" and made.element is not None else made
    more = {one: answer if one == "answer" else Shape.any() for one in reference.refers.also}
    return {**step_scope(c, name, step, Shape.any() if step.foreach else None), **more}
