"""Steps that ask people, and what a step trusts."""

from __future__ import annotations

from fnmatch import fnmatchcase

from metaflow_agents.errors import AnswerInvalid, did_you_mean
from metaflow_agents.schema.step import Human, Step
from metaflow_agents.schema.strategies.workers import tools_in
from metaflow_agents.schema.trusting import ARTIFACT, INPUT, TOOL, covers, split
from metaflow_agents.schema.validation import Validator, validator
from metaflow_agents.schema.wording import describe
from metaflow_agents.sop.checks.context import Context
from metaflow_agents.sop.graph import reads


def check_people(c: Context) -> None:
    """`human`, `on_no_answer` and `trusts` of each step."""
    for name, step in c.sop.steps.items():
        _human(c, name, step)
        _no_answer(c, name, step)
        _trusts(c, name, step)


def _human(c: Context, name: str, step: Step) -> None:
    if step.human is None:
        return
    if step.task is None:
        c.say("human-task", ("steps", name), f"`{name}` asks a person, but has no question",
              "add `task: …`: it is what the person is shown", key=True)
    choices = step.human.choices
    twice = next((choice for at, choice in enumerate(choices) if choice in choices[:at]), None)
    if twice is not None:
        c.say("human-choices", ("steps", name, "human"), f"the choice `{twice}` is duplicated", "keep one of them")
    elif step.human.kind == "choice" and len(choices) < 2:
        c.say("human-choices", ("steps", name, "human"), f"`{choices[0] if choices else ''}` alone is no choice",
              "add another one, or write `human: approve`")
    else:
        _fits(c, name, step, step.human)


def _fits(c: Context, name: str, step: Step, human: Human) -> None:
    """That each answer which a person may choose fits the artifact, plain or as the object of its kind."""
    schema = c.program.schemas.get(step.makes.artifact)
    if schema is None or "$python" in schema or human.kind == "text":
        return
    check = validator(schema, step.makes.artifact)
    answers: dict[str, tuple[object, ...]] = {choice: (choice, {"choice": choice, "assumed": False}) for choice in human.choices}
    if human.kind == "approve":
        answers = {said: (said == "yes", {"approved": said == "yes", "reason": "so", "assumed": False}) for said in ("yes", "no")}
    for said, forms in answers.items():
        if not any(_valid(check, form) for form in forms):
            c.say("human-answer", ("steps", name, "human"),
                  f"the answer `{said}` does not fit the schema of `{step.makes.artifact}`: {describe(schema)}",
                  "let the schema take it, or leave the schema out: the answer has one of its own")
            return


def _valid(check: Validator, value: object) -> bool:
    try:
        check.validate(value)
    except AnswerInvalid:
        return False
    return True


def _no_answer(c: Context, name: str, step: Step) -> None:
    if "on_no_answer" in step.model_fields_set and step.role is not None and not _asks(c, step):
        if c.own("steps", name, "on_no_answer"):
            c.say("nobody-asked", ("steps", name, "on_no_answer"),
                  f"`{name}` asks nobody: its role has no tool that a person is asked about, nor `ask_person`",
                  "add `ask_person` to the role's `tools`, or remove it", key=True)


def _asks(c: Context, step: Step) -> bool:
    return bool(tools_in(c.sop, step, c.strategies)) or (step.stuck is not None and "ask" in step.stuck.then)


def _trusts(c: Context, name: str, step: Step) -> None:
    if c.doers.get(name) == "human":
        return                                            # told as misplaced
    tools = tools_in(c.sop, step, c.strategies)
    servers = dict.fromkeys(tool.partition(".")[0] for tool in tools if "." in tool)
    tools = (*tools, *servers, *(["ask_role"] if step.talks_to else []))
    read = tuple(dict.fromkeys(reads(step)))
    for index, written in enumerate(step.trusts):
        where, (space, trusted) = c.entry("steps", name, "trusts", index), split(written)
        kinds = [kind for kind, names in ((INPUT, c.sop.inputs), (ARTIFACT, c.sop.artifacts)) if trusted in names]
        used = any(_of(trusted, tool) for tool in tools)
        if space == "" and kinds and used:
            c.say("trusts-twice", where, f"`{trusted}` is an {kinds[0]} and covers a tool of `{name}`: which of them is trusted?",
                  f"write `{kinds[0]}.{trusted}`, or `{TOOL}.{trusted}`")
        elif not (used if space == TOOL else trusted in read and space in ("", *kinds)) and not (space == "" and used):
            what = "reads or uses" if tools else "reads"
            choices = (*read, *tools) if not space else [f"{TOOL}.{tool}" for tool in tools] if space == TOOL else [
                f"{space}.{other}" for other in read if (other in c.sop.inputs) == (space == INPUT)]
            c.say("trusts-nothing", where, f"`{written}` is nothing that `{name}` {what}", did_you_mean(written, choices))


def _of(trusted: str, tool: str) -> bool:
    """Whether a name is one of a server's tools that a role may use, or covers some of them."""
    return fnmatchcase(trusted, f"{tool}.*" if "." not in tool else tool) or covers(trusted, tool)
