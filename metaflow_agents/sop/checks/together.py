"""How roles work together: reviews and questions to each other inside a step, and who recalls what one came to see or learnt."""

from __future__ import annotations

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema.keys import LOOK
from metaflow_agents.schema.results import VERDICT
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.expressions import expression, step_scope
from metaflow_agents.sop.graph import triggers


def check_together(c: Context) -> None:
    """`review` and `talks_to` of each step, `progress`, and `reflect` and `lessons` of each role."""
    check_progress(c)
    for name, spec in c.sop.roles.items():
        if spec.memory.reflect is not None and not c.sop.recalled(name):
            c.say("reflections-unread", ("roles", name, "memory", "reflect"),
                  f"`{name}` writes reflections, but nothing recalls them", "add `recall: {}` to its `memory`", key=True)
        if spec.memory.lessons is not None and not any(_learns(c, name, step) for step in c.sop.steps.values()):
            c.say("lessons-unwritten", ("roles", name, "memory", "lessons"),
                  f"`{name}` keeps lessons, but none of its steps uses a strategy that produces lessons",
                  "give one a strategy that does: `strategy: {reflexion: …}`", key=True)
    for name, step in c.sop.steps.items():
        _review(c, name, step)
        for index, role in enumerate(step.talks_to):
            where = c.entry("steps", name, "talks_to", index)
            _declared(c, where, role)
            if role == step.role:
                c.say("talks-to-itself", where, f"`{name}` is done by `{role}`, which needs no tool to talk to itself",
                      "name another role, or leave it out")


def _learns(c: Context, role: str, step: Step) -> bool:
    """Whether a role may draw lessons in a step; where it is worked out at run time who works there, any may."""
    theirs = step.role is not None and (step.role == role or step.role not in c.sop.roles)
    return theirs and any(strategy in c.strategies and c.strategies[strategy].LEARNS for strategy in step.strategy or {})


def check_progress(c: Context) -> None:
    """`progress` of the SOP: who looks, and what its replanning makes."""
    spec = c.sop.progress
    if spec is None:
        return
    _declared(c, ("progress", "role"), spec.role)
    if LOOK in c.sop.steps:
        c.say("reserved-name", ("steps", LOOK), f"`{LOOK}` stands in the journal for looks at the run, and can't be a step here",
              "rename the step", key=True)
    if spec.makes is None:
        return
    where: Place = ("progress", "makes")
    own = c.sop.artifacts.get(spec.makes)
    if own is None:
        c.say("undeclared-artifact", where, f"`progress` makes `{spec.makes}`, which is not declared",
              f"declare it under `artifacts`: `{spec.makes}: {{}}`")
    elif spec.makes in c.made or own.has_initial or c.shape(spec.makes).kinds != {"string"}:
        c.say("progress-makes", where, f"`{spec.makes}` has to be a text that nobody else makes",
              f"declare one of its own: `{spec.makes}_advice: {{}}`")
    elif not any(spec.makes in triggers(step) for step in c.sop.steps.values()):
        c.say("progress-makes", where, f"no step fires again for `{spec.makes}`: that it is replanned would change nothing",
              f"let the step that plans say `wants: [{spec.makes}]`")


def _declared(c: Context, where: Place, role: str) -> None:
    if role not in c.sop.roles:
        c.say("unknown-role", where, f"there is no role `{role}`", did_you_mean(role, c.sop.roles))


def _review(c: Context, name: str, step: Step) -> None:
    review = step.review
    if review is None:
        return
    where: Place = ("steps", name, "review")
    _declared(c, (*where, "role"), review.role)
    verdict = Shape.of(c.program.schemas.get(f"review:{name}", VERDICT))
    if verdict.kind not in ("object", "any"):
        c.say("review-verdict", (*where, "verdict"), f"a verdict has fields, and this one is {verdict.describe()}",
              "write them: `verdict: {score: integer, why: string}`")
    elif review.accept is not None:
        made = c.shape(step.makes.artifact)
        answer = made.element if made.kind == "collection" and made.element is not None else made
        scope = {**step_scope(c, name, step, Shape.any() if step.foreach else None), "verdict": verdict, "answer": answer}
        expression(c, (*where, "accept"), review.accept, scope, name)
    elif review.verdict is not None:
        c.say("review-accept", where, "the verdict has a form of its own, and nothing says when the answer is taken",
              "add `accept: EXPRESSION`, over `verdict`")
