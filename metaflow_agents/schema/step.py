"""A step as a person writes it: who does it, what it reads and makes, when, how often, and what becomes of a failure.

Short spellings (a name for `makes`, one value for a list) are normalised here, so that the rest of the package meets one form.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator
from pydantic_core import PydanticCustomError

from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Expression, Name, Seconds, Template, Texts

Doer = Literal["role", "run", "call", "use", "tool", "value", "human", "sop"]
DOERS: tuple[Doer, ...] = get_args(Doer)
READS = ("needs", "wants", "sees")


class Foreach(Value):
    """One activation an item, in parallel."""

    in_: Expression = Field(alias="in", description="an expression that gives a list")
    as_: Name = Field("item", alias="as", description="the item's name in expressions and templates")
    key: Expression | None = Field(None, description="an expression over the item: its unique non-empty text")
    after: Expression | None = Field(None, description="an expression over the item: the keys that must be done first")
    where: Expression | None = Field(None, description="an expression over the item: whether it is taken at all")
    parallel: Annotated[int, Field(ge=1, strict=True)] | None = Field(None, description="how many items run at once at most")


class Check(Value):
    """Executable feedback: what it says goes back to the same author."""

    run: str | tuple[str, ...] | None = Field(
        None, description="a command that must end with exit code 0; an argument that is one `{{ expression }}` with a list "
                          "gives as many arguments")
    time: Seconds | None = Field(None, description="longest time of that command: what takes longer is ended, and has failed")
    told: bool = Field(True, description="whether the author's prompt says what is run, how long that may take, and how")
    call: str | None = Field(None, description="a Python function that returns nothing, or what is wrong")
    repairs: Annotated[int, Field(ge=0, le=20, strict=True)] = Field(2, description="how often the author may mend")


class Review(Value):
    """A role judges an answer; what it says goes back to the author."""

    role: Name = Field(description="who judges: it is shown what the step reads, and the answer")
    verdict: Any = Field(
        None, description="what it answers with: a schema with fields; by default `{good: boolean, why: string}`")
    accept: Expression | None = Field(
        None, description="an expression over `verdict`, `answer` and what the step reads: whether the answer is taken; by "
                          "default `verdict.good`")
    repairs: Annotated[int, Field(ge=0, le=20, strict=True)] = Field(2, description="how often the author may mend")


Rung = Literal["hint", "reflect", "ask", "stop"]


class StuckSpec(Value):
    """What is done where the same comes again and again."""

    after: Annotated[int, Field(ge=2, le=100, strict=True)] = Field(
        2, description="how often the same has to come before anything is done")
    then: Annotated[tuple[Rung, ...], Field(min_length=1)] = Field(
        ("hint", "reflect", "stop"),
        description="what is done then, and at each further time: `hint`, `reflect`, `ask` (a person), `stop`, in this order")

    @field_validator("then")
    @classmethod
    def _rising(cls, rungs: tuple[Rung, ...]) -> tuple[Rung, ...]:
        order = get_args(Rung)
        if list(rungs) != sorted(set(rungs), key=order.index):
            raise PydanticCustomError("stuck", "each may occur once, in the order {order}", {"order": ", ".join(order)})
        return rungs


class Human(Value):
    """What a person is asked for."""

    kind: Literal["text", "approve", "choice"]
    choices: tuple[str, ...] = ()


class Makes(Value):
    """The artifact that a step makes, and for files the patterns to which it is confined."""

    artifact: Name
    patterns: Texts = ()


class ToolChoice(Value):
    """Which of its tools a role may use, worked out at run time."""

    only: Expression = Field(description="an expression that lists tools of the role; where it is missing, all of them")


ToolsSpec = Annotated[Annotated[Texts, Tag("text")] | Annotated[ToolChoice, Tag("mapping")],
                      Discriminator(lambda written: "mapping" if isinstance(written, dict | ToolChoice) else "text")]
"""The tools of a step: a list of them, or a choice of those that its role has."""


class OnFail(Value):
    """What happens when an activation failed for good."""

    action: Literal["stop", "skip", "makes"] = "stop"
    artifact: Name | None = None


def _makes(written: object) -> object:
    if isinstance(written, str):
        return {"artifact": written}
    if isinstance(written, Makes):
        return written
    if isinstance(written, dict) and len(written) == 1 and "artifact" not in written:
        (name, patterns), = written.items()
        return {"artifact": name, "patterns": patterns}
    if isinstance(written, dict) and set(written) <= {"artifact", "patterns"}:
        return written
    raise PydanticCustomError("makes", "a step makes one artifact: write its name, or `{NAME: PATTERN}` for files")


def _human(written: object) -> object:
    if written in ("text", "approve"):
        return {"kind": written}
    if isinstance(written, Human) or (isinstance(written, dict) and "kind" in written):
        return written
    listed = written.get("choice") if isinstance(written, dict) and set(written) == {"choice"} else None
    if isinstance(listed, list | tuple) and listed and all(isinstance(one, str) and one for one in listed):
        return {"kind": "choice", "choices": listed}
    raise PydanticCustomError("human", "`human` is `text`, `approve`, or `{choice: [ONE, OTHER]}`")


def _on_fail(written: object) -> object:
    if written in ("stop", "skip"):
        return {"action": written}
    if isinstance(written, dict) and set(written) == {"makes"}:
        return {"action": "makes", "artifact": written["makes"]}
    if isinstance(written, OnFail) or (isinstance(written, dict) and "action" in written):
        return written
    raise PydanticCustomError("on_fail", "`on_fail` is `stop`, `skip`, or `{makes: ARTIFACT}`")


SHOWN = ("whole", "none", "names", "rendered")
"""The words by which `show` says how prompts show an artifact; a list names the parts that are shown."""


def _shown(written: object) -> object:
    listed = isinstance(written, list | tuple) and written and all(isinstance(one, str) and one for one in written)
    if listed or (isinstance(written, str) and written in SHOWN):
        return written
    raise PydanticCustomError("show", "`show` says `whole`, `none`, `names` or `rendered` of an artifact, or lists its fields, "
                                      "keys or patterns")


Shown = Annotated[Literal["whole", "none", "names", "rendered"] | tuple[Template, ...], BeforeValidator(_shown)]


def _strategy(written: object) -> object:
    return {written: {}} if isinstance(written, str) else written


_MODEL_WRITTEN = re.compile(r"[A-Za-z_]\w*|[A-Za-z_][\w-]*[:/].*", re.DOTALL)


class Step(Value):
    """A doer turning the artifacts it reads into the one that it makes."""

    role: str | None = Field(None, description="a role, or an expression that names one of the declared roles")
    self_: Template | None = Field(
        None, alias="self", description="who the role is here, a template: each name has a memory of its own")
    memory_of: Template | None = Field(
        None, description="whose memory works here in place of the role's, a template: all roles that give one name share it")
    run: str | tuple[str, ...] | None = Field(
        None, description="a command: text split into arguments, or a list of them; no shell")
    call: str | None = Field(None, description="a Python function, `package.module:function`, async or not")
    use: str | None = Field(
        None, min_length=1, description="a type of step that an installed package adds, by its name")
    with_: dict[str, Any] | None = Field(
        None, alias="with", description="of `use`: what that type of step takes; texts are templates")
    tool: str | None = Field(
        None, min_length=1, description="a tool that is called without a model: `fetch`, `SERVICE.OPERATION`, `SERVER.TOOL`")
    value: Expression | None = Field(None, description="an expression; free, no model")
    human: Annotated[Human, BeforeValidator(_human)] | None = Field(
        None, description="a question to a person: `text`, `approve`, or `{choice: [...]}`; `task` is the question")

    sop: str | None = Field(None, min_length=1, description="another SOP, by its name or the name of its file")

    needs: Texts = Field((), description="artifacts that trigger and must exist; `design.package` narrows to that part")
    wants: Texts = Field((), description="artifacts that trigger and may be missing")
    sees: Texts = Field((), description="artifacts that never trigger and may be missing")
    makes: Annotated[Makes, BeforeValidator(_makes)] = Field(description="the artifact; `{NAME: PATTERN}` confines files")

    show: dict[Name, Shown] = Field(
        default_factory=dict, description="how prompts show what is read, and the item: `{NAME: whole | none | names | "
                                          "rendered}`, or `{NAME: [FIELD, KEY or PATTERN]}`; by default whole, or `rendered` "
                                          "where that is shorter; nothing of what the task presents")
    task: Template | None = Field(None, description="the step's own prompt, a Jinja2 template")
    when: Expression | None = Field(None, description="an expression that must hold for the step to fire")
    foreach: Foreach | None = Field(None, description="one activation an item")
    rounds: Annotated[int, Field(ge=1, strict=True)] | None = Field(None, description="at most so many firings in a run")
    priority: Expression | None = Field(None, description="a number, or an expression that gives one: higher starts first")
    timeout: Seconds | None = Field(None, description="longest time of one attempt")
    retries: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(0, description="fresh attempts after a failed one")
    on_fail: Annotated[OnFail, BeforeValidator(_on_fail)] = Field(OnFail(), description="`stop`, `skip`, or `{makes: ARTIFACT}`")
    strategy: Annotated[dict[str, Any], BeforeValidator(_strategy), Field(min_length=1, max_length=1)] | None = Field(
        None, description="how the role thinks: a name, or `{NAME: {parameter: value}}`")
    check: Check | None = Field(None, description="executable feedback to the author")
    review: Review | None = Field(None, description="a role that judges the answer, once it fits and its check passed")
    stuck: StuckSpec | None = Field(None, description="what is done where the same comes again and again; by default nothing")
    talks_to: Texts = Field((), description="roles that its role may put questions to, with the tool `ask_role`")
    parse: str | None = Field(None, description="of a command: `json FILE`, `junit` or `junit FILE`; of a tool: `json`")
    packages: Name | None = Field(
        None, description="the lock that a `tool: packages` step makes: commands run with its packages, and without those of "
                          "this program: of the step, of its `check: {run: …}`, and of its role's tools `run` and `python`")
    args: dict[str, Any] | None = Field(None, description="arguments of a function; texts are templates")
    inputs: dict[str, Expression] = Field(
        default_factory=dict, description="of a SOP or a tool: what it is given, an expression for each input or argument")
    output: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None = Field(
        None, description="of a SOP: which of its artifacts this step makes, or a list of them, for an object with each under "
                          "its name; by default its only output")
    inherits_memory: Annotated[bool, Field(strict=True)] | None = Field(
        None, description="of a SOP: `true`, its roles recall what led to this step too; `false`, nothing from outside of it, "
                          "and nobody recalls what they leave; by default what earlier runs left")
    model: str | None = Field(
        None, description="a name under `models`, a model itself, or an expression that names one of the declared models")
    budget: Budget | None = Field(None, description="caps for all the step's work in a run")
    tools: ToolsSpec | None = Field(
        None, description="what its role may use here, in place of the role's own `tools`; `{only: EXPRESSION}` picks of these")
    trusts: Texts = Field((), description="inputs, artifacts and tools whose words may decide about actions here; "
                                    "`input.NAME`, `artifact.NAME`, `tool.NAME` where a plain name could be two things")
    effect: Literal["idempotent", "once"] | None = Field(
        None, description="of a function, or of `use`: whether it may run again after a crash; `once` asks a person")
    on_no_answer: Literal["wait", "assume", "fail"] = Field(
        "wait", description="where nobody answers: the run parks, the role goes on with an assumption, or the attempt fails")

    @property
    def named_tools(self) -> tuple[str, ...]:
        """The tools that stand in the step by name."""
        return () if self.tools is None or isinstance(self.tools, ToolChoice) else self.tools

    @property
    def model_expression(self) -> str | None:
        """`model` where it is no name and no model by its form, and so has to be worked out."""
        return None if self.model is None or _MODEL_WRITTEN.fullmatch(self.model) else self.model

    @property
    def doer(self) -> Doer:
        """Which of the keys names the worker; `sop check` holds that there is exactly one."""
        return next(key for key in DOERS if getattr(self, key) is not None)
