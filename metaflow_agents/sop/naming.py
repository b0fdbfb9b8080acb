"""What the texts of a step name besides the artifacts that it reads: the run's inputs, earlier versions, its round.

An expression or a template takes these from its scope without a word in `needs`, `wants` or `sees`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from metaflow_agents.prompts import analyse_expression, analyse_template, includes
from metaflow_agents.prompts.names import histories
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step, ToolChoice
from metaflow_agents.schema.strategies import STRATEGIES, Specs, references
from metaflow_agents.schema.strategies.workers import workers
from metaflow_agents.sop.graph import reads

Text = tuple[str, bool]
"""A text, and whether it is a template; else it is an expression."""


@dataclass(frozen=True, slots=True)
class Named:
    """The inputs that are reached through `run.inputs`, and the artifacts whose earlier versions `history` gives."""

    inputs: frozenset[str] = frozenset()
    histories: frozenset[str] = frozenset()


def named(program: Program, step: Step, strategies: Specs = STRATEGIES) -> Named:
    """What is named by anything that decides what a step makes: its own texts, and the templates of those who work in it."""
    texts = [*texts_of(program, step, strategies), *_walk(step),
             *((pattern, True) for pattern in program.sop.artifacts[step.makes.artifact].files),
             *((text, True) for text in _templates(program, step, strategies))]
    inputs: set[str] = set()
    for text, template in texts:
        inputs |= _inputs(text, template, frozenset(program.sop.inputs))
    past = frozenset().union(*(histories(text, template=template) for text, template in texts))
    return Named(frozenset(inputs), past)


def texts_of(program: Program, step: Step, strategies: Specs = STRATEGIES) -> Iterator[Text]:
    """The step's own texts that decide a result, those of its strategy's parameters among them."""
    yield from ((text, True) for text in task_texts(program, step))
    if step.self_:
        yield step.self_, True
    if step.memory_of:
        yield step.memory_of, True
    if step.value:
        yield step.value, False
    yield from ((pattern, True) for pattern in step.makes.patterns)
    yield from ((part, True) for how in step.show.values() if not isinstance(how, str) for part in how)
    for command in (step.run, step.check.run if step.check else None):
        if command is not None:
            yield from ((part, True) for part in ([command] if isinstance(command, str) else command))
    yield from ((text, True) for written in (step.args, step.with_) for text in _strings(written))
    yield from ((text, False) for text in step.inputs.values())
    if step.review is not None and step.review.accept is not None:
        yield step.review.accept, False
    for reference in references(step.strategy, strategies):
        if reference.refers.to == "template":
            yield from ((text, True) for text in with_includes(program, reference.text).values())
        elif reference.refers.to != "role":
            yield reference.text, reference.refers.to == "command"


def runs_commands(step: Step, strategies: Specs = STRATEGIES) -> bool:
    """Whether a command has a part in what the step makes: its doer, its check, or one that its strategy names."""
    return (step.run is not None or (step.check is not None and step.check.run is not None)
            or any(reference.refers.to == "command" for reference in references(step.strategy, strategies)))


def task_texts(program: Program, step: Step) -> list[str]:
    """The step's task and the texts of all templates that it includes; empty where it has none."""
    return [step.task, *included(program, step.task).values()] if step.task else []


def with_includes(program: Program, template: str) -> dict[str, str]:
    """A template file and all that it includes: name → text."""
    text = program.templates[template]
    return {template: text, **included(program, text)}


def included(program: Program, text: str) -> dict[str, str]:
    """All templates that a text includes, directly or by others: name → text. One that is not there is told where it is read."""
    found: dict[str, str] = {}
    open_ends = list(includes(text))
    while open_ends:
        name = open_ends.pop()
        if name in program.templates and name not in found:
            found[name] = program.templates[name]
            open_ends.extend(includes(found[name]))
    return found


def _walk(step: Step) -> Iterator[Text]:
    """What decides the items: their values come from there. And who works on them."""
    if step.foreach is not None:
        for expression in (step.foreach.in_, step.foreach.key, step.foreach.after, step.foreach.where):
            if expression is not None:
                yield expression, False
    choice = step.tools.only if isinstance(step.tools, ToolChoice) else None
    yield from ((text, False) for text in (step.role, step.model_expression, choice) if text is not None)


def _templates(program: Program, step: Step, strategies: Specs) -> Iterator[str]:
    """Prompts of the roles that may work in it, and what the files in the tree of its commands are rendered with."""
    for prompt in (program.sop.roles[name].prompt for name in workers(program.sop, step, strategies)):
        if prompt is not None:
            yield from with_includes(program, prompt).values()
    for artifact, how in step.show.items():
        if how == "rendered":
            yield from with_includes(program, program.sop.artifacts[artifact].render or "").values()
    if runs_commands(step, strategies):
        for name in (*reads(step), step.makes.artifact):
            spec = program.sop.artifacts.get(name)
            if spec is not None and spec.file is not None and spec.render is not None:
                yield from with_includes(program, spec.render).values()


def _inputs(text: str, template: bool, declared: frozenset[str]) -> frozenset[str]:
    if "run" not in text:
        return frozenset()
    scope = {"run": Shape.any()}
    paths = (analyse_template(text, scope) if template else analyse_expression(text, scope)).paths
    found: set[str] = set()
    for path in paths:
        if path == ("run",) or path[:2] == ("run", "inputs"):
            found |= {path[2]} if len(path) > 2 else declared
    return frozenset(found & declared)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
