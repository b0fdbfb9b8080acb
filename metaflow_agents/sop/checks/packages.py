"""Locks of packages: made by `tool: packages` alone, read by the steps whose commands run with them, and of use there."""

from __future__ import annotations

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context, Place

_COMMANDS = ("run", "python")


def check_packages(c: Context) -> None:
    """Each step with `packages`, and each that makes a lock."""
    locks = {step.makes.artifact for step in c.sop.steps.values() if step.tool == "packages"}
    for name, step in c.sop.steps.items():
        if step.tool == "packages":
            _made(c, name, step)
        if step.packages is not None and c.doers.get(name) in ("run", "role", "tool"):
            _used(c, name, step, locks)


def _made(c: Context, name: str, step: Step) -> None:
    made = step.makes.artifact
    artifact = c.sop.artifacts.get(made)
    if artifact is not None and (artifact.files or artifact.schema_ not in (None, {}) or artifact.each is not None):
        c.say("tool-step", ("steps", name, "makes"), f"`packages` gives a lock, which has a schema of its own, and `{made}` has "
              "another",
              f"declare it as `{made}: {{}}`")
    if step.parse is not None:
        c.say("bad-parse", ("steps", name, "parse"), "`packages` gives a lock, and no text to read", "remove it", key=True)


def _used(c: Context, name: str, step: Step, locks: set[str]) -> None:
    where: Place = ("steps", name, "packages")
    lock = step.packages or ""
    if lock not in locks:
        what = "is an input" if lock in c.sop.inputs else "does not exist" if lock not in c.sop.artifacts else "is made otherwise"
        c.say("packages", where, f"no step with `tool: packages` makes `{lock}`: it {what}",
              did_you_mean(lock, locks) if locks else "add a step `{tool: packages, inputs: {requirements: EXPRESSION}, makes: "
              f"{lock}}}`")
    elif makers := [other for other, one in c.sop.steps.items() if one.on_fail.artifact == lock or (
            one.makes.artifact == lock and one.tool != "packages")]:
        c.say("packages", where, f"`{lock}` is made by `{makers[0]}` too, and what is installed has to be allowed by the policy",
              "let that step make another artifact")
    elif lock not in (*step.needs, *step.wants, *step.sees):
        c.say("packages", where, f"`{name}` does not read `{lock}`",
              f"add `{lock}` to its `needs`, or to its `wants` where its commands do without while there is none")
    elif not _commands(c, step):
        c.say("packages", where, f"`{name}` runs no command: it has no `check: {{run: …}}`, and its role no tool "
              f"{' or '.join(f'`{one}`' for one in _COMMANDS)}", "remove it", key=True)


def _commands(c: Context, step: Step) -> bool:
    """Whether it has commands; a role that is found in the run may have any tool."""
    if step.run is not None or (step.check is not None and step.check.run is not None):
        return True
    if step.role is None:
        return False
    roles = [c.sop.roles[step.role]] if step.role in c.sop.roles else list(c.sop.roles.values())
    return any(tool in _COMMANDS for role in roles for tool in (step.named_tools if step.tools is not None else role.tools))
