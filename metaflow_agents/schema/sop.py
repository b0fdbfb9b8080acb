"""What a person may write in `sops/*.yaml` and `roles/*.yaml`, as frozen pydantic models.

The fields are the keys of the language; `docs/language.md` is generated from their descriptions. A key of the
language that this version does not build stands in `NOT_BUILT` and is refused by name, never accepted and ignored.
Short spellings (a name for `makes`, one value for a list) are normalised here, so that the rest of the package
meets one form.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator
from pydantic_core import PydanticCustomError

from metaflow_agents.schema import quantity
from metaflow_agents.schema.model import Value

LANGUAGE_VERSIONS = (1,)
TOOL_TURNS = 30
"""How often a role may call tools, one turn after the other, on its way to one answer; then it has to answer."""
ROLE_QUESTIONS = 8
"""How many questions a role may put to others on one branch of an activation."""
REFLECTION_QUESTIONS = 3
"""How many questions a role asks itself as it reflects."""
ANSWER_REPAIRS = 2
"""How often a role is asked to mend an answer that does not fit its artifact, before the attempt has failed."""
NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"

NOT_BUILT: dict[str, dict[str, str]] = {
    "sop": {
    },
    "role": {},
    "step": {},
    "foreach": {"stream": "a step reads what is whole; steps that follow one another item by item are one SOP, a `sop:` step"},
    "artifact": {},
    "memory": {},
    "recall": {},
}


def _told(parse: Any) -> Any:
    def validate(written: object) -> Any:
        try:
            return parse(written)
        except ValueError as error:
            raise PydanticCustomError("quantity", "{told}", {"told": str(error)}) from None
    return validate


def _listed(written: object) -> object:
    return [written] if isinstance(written, str) else written


def _expression(written: object) -> object:
    """An expression may be written as the YAML scalar that it is: `when: true`, `priority: 3`."""
    if isinstance(written, bool):
        return "true" if written else "false"
    return str(written) if isinstance(written, int | float) else written


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Seconds = Annotated[float, BeforeValidator(_told(quantity.seconds))]
Count = Annotated[int, BeforeValidator(_told(quantity.count))]
Dollars = Annotated[float, BeforeValidator(_told(quantity.dollars))]
Window = Annotated[tuple[int, str], BeforeValidator(_told(quantity.window))]
Expression = Annotated[str, BeforeValidator(_expression), Field(min_length=1)]
Template = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Budget(Value):
    """Caps that are never overrun; a call's worst case is reserved before it is sent."""

    usd: Dollars | None = Field(None, description="US dollars; every model under the cap has to have a price")
    tokens: Count | None = Field(None, description="tokens in and out, all calls together")
    calls: Count | None = Field(None, description="model calls")
    time: Seconds | None = Field(None, description="seconds of wall time, or like `30m`")


class Price(Value):
    """What an endpoint asks for, in US dollars for a million tokens."""

    in_: Annotated[float, Field(ge=0)] = Field(alias="in", description="for a million tokens of the request")
    out: Annotated[float, Field(ge=0)] = Field(description="for a million tokens of the answer, reasoning included")
    cached: Annotated[float, Field(ge=0)] | None = Field(
        None, description="for a million tokens of the request that the endpoint had cached; by default as `in`")


class EndpointModel(Value):
    """A model behind an endpoint that speaks the OpenAI chat-completions protocol."""

    name: str = Field(min_length=1, description="what the endpoint calls it")
    endpoint: str | None = Field(
        None, description="its base URL, `http://localhost:8000/v1`; by default OPENAI_BASE_URL, or OpenAI's own")
    key: str | None = Field(
        None, description="the environment variable that holds its key; by default OPENAI_API_KEY, unless `endpoint` is written")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(None, description="by default the endpoint's own")
    max_tokens: Count | None = Field(None, description="longest answer, in tokens; always sent; by default 8192")
    timeout: Seconds | None = Field(None, description="longest silence of the endpoint; by default 10m")
    price: Price | None = Field(None, description="US dollars for a million tokens; by default as published")
    tools: Literal["native", "text"] = Field(
        "native", description="how it is told of tools and calls them: by the protocol, or in the text of prompts and answers")
    parameters: dict[str, Any] = Field(default_factory=dict, description="sent with every request as they stand: `seed`, `top_p`")


def _spelling(written: object) -> str:
    return "text" if isinstance(written, str) else "mapping"


ModelSpec = Annotated[
    Annotated[str, Tag("text")] | Annotated[EndpointModel, Tag("mapping")], Discriminator(_spelling)]
"""A model as it stands under `models`: a text such as `dry`, or the mapping of one behind an endpoint."""


class Limits(Value):
    """What an endpoint allows, for all roles of all runs in the process."""

    rpm: Count | None = Field(None, description="requests in any 60 seconds")
    tpm: Count | None = Field(None, description="tokens in any 60 seconds, in and out")
    concurrency: Count | None = Field(None, description="requests under way at once")


Effect = Literal["none", "idempotent", "once"]
"""What doing it a second time does: nothing was done at all, the same again, or a second thing."""


class PolicySpec(Value):
    """What roles may do: deny beats ask beats allow, and what neither the preset nor a rule names is denied."""

    preset: Literal["read-only", "workspace", "danger-full-access"] = Field(
        "workspace", description="what holds where no rule says otherwise")
    allow: Texts = Field((), description="rules such as `write(src/**)`, `run(python -m pytest *)`, `mcp(github.search_*)`")
    ask: Texts = Field((), description="rules whose actions a person is asked about")
    deny: Texts = Field((), description="rules whose actions never happen")


class ToolSpec(Value):
    """A tool that a SOP declares, or what it sets of a built-in one."""

    python: str | None = Field(None, description="a Python function, `package.module:function`: its signature is the schema")
    description: str | None = Field(None, description="what roles are told it is for; by default its docstring")
    effect: Effect | None = Field(None, description="`none`, `idempotent` or `once`, which is what is taken for granted")
    secrets: dict[str, str] = Field(
        default_factory=dict, description="parameter → secret: filled in when it is called, and no part of what roles see")
    headers: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="of `fetch`: origin → headers, `${NAME}` in them being a secret")


class ServerSpec(Value):
    """An MCP server, in the form of the `mcpServers` that people have in their configuration."""

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = Field(
        None, description="by default what `command` or `url` says")
    command: str | None = Field(None, description="a program that speaks MCP over its standard input and output")
    args: Texts = Field((), description="its arguments")
    env: dict[str, str] = Field(default_factory=dict, description="its environment; `${NAME}` is a secret")
    cwd: str | None = Field(None, description="the folder that it runs in; by default that of the SOP")
    url: str | None = Field(None, description="where it is served over streamable HTTP")
    headers: dict[str, str] = Field(default_factory=dict, description="sent with every request; `${NAME}` is a secret")
    timeout: Seconds | None = Field(None, description="longest time of one call; by default 1m")
    effects: dict[str, Effect] = Field(default_factory=dict, description="tool (or pattern) → `none`, `idempotent`, `once`")


class ApiSpec(Value):
    """A service with an OpenAPI description, whose operations become tools."""

    spec: str = Field(description="file of its description, JSON or YAML, OpenAPI 3.0 or 3.1")
    server: str | None = Field(None, description="base URL; by default the description's first server")
    operations: Texts = Field(("*",), description="patterns of operation ids, or of `METHOD /path`: which become tools")
    headers: dict[str, str] = Field(default_factory=dict, description="sent with every request; `${NAME}` is a secret")
    timeout: Seconds | None = Field(None, description="longest time of one call; by default 1m")
    effects: dict[str, Effect] = Field(
        default_factory=dict, description="operation (or pattern) → `none`, `idempotent`, `once`; by default as its method says")


Weight = Annotated[float, Field(ge=0, le=1000)]
IndexName = Literal["hnsw", "exact", "faiss"]
Similarity = Literal["cosine", "inner_product"]
"""Cosine looks at directions alone. The inner product prefers long vectors too; of vectors of length 1 they are the same."""


class Recall(Value):
    """What comes back to a role's mind of what fell out of its window, of other runs, and of other roles."""

    from_: Literal["role", "run", "project"] = Field(
        "role", alias="from", description="`role`: its own, of all runs; `run`: all roles' of this run; `project`: all there are")
    top: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(6, description="how many memories a prompt holds")
    recency: Weight = Field(1.0, description="how much it counts that a memory is new")
    importance: Weight = Field(
        1.0, description="how much it counts that it is important, 1 to 10: the role's model is asked as it is stored, unless 0")
    relevance: Weight = Field(
        1.0, description="how much it counts that its words are those of the task, and with `embeddings` what it means")
    decay: Annotated[float, Field(gt=0, le=1)] = Field(0.995, description="by what recency falls with every newer memory")
    embeddings: str | None = Field(
        None, min_length=1, description="who embeds memories, so that one in other words than the task is found: a name under "
                                        "`models`, or a model itself; by default nobody")
    index: IndexName = Field("hnsw", description="how the nearest embeddings are found: `hnsw`, `exact` or `faiss`")
    similarity: Similarity = Field(
        "cosine", description="what near means: `cosine`, or `inner_product`, which prefers long vectors")

    @property
    def embedder(self) -> str | None:
        """Who embeds, where relevance counts at all."""
        return self.embeddings if self.relevance else None


class Reflect(Value):
    """When a role asks itself what it comes to that it remembers."""

    after: Annotated[int, Field(ge=1, strict=True)] = Field(
        150, description="how much importance has to come together since it last reflected; each memory has 1 to 10")


class Memory(Value):
    """What a role remembers between its activations."""

    window: Window = Field((40, "turns"), description="what stays verbatim: `40 turns` or `16k tokens`; the oldest is dropped")
    summary: bool = Field(
        False, strict=True, description="whether what falls out of the window is summed up, by the role's model, in its prompts")
    recall: Recall | None = Field(None, description="what comes back to its mind beyond the window; by default nothing")
    reflect: Reflect | None = Field(
        None, description="insights over what it remembers, once that weighs enough; they are recalled like other memories")
    lessons: Annotated[int, Field(ge=1, le=50, strict=True)] | None = Field(
        None, description="how many lessons from failed trials, the latest of all runs, stand in its prompts; by default "
                          "it keeps none")


class Role(Value):
    """Who works: a profile, a prompt template, a model and a memory. The file is `roles/NAME.yaml`."""

    role: Name | None = Field(None, description="the role's name, as its file is called")
    profile: str = Field("", description="who this is, in a line")
    goal: str = Field("", description="what the role is after")
    constraints: Texts = Field((), description="what the role keeps to")
    prompt: str | None = Field(None, description="file name of the Jinja2 template that opens every prompt of the role")
    model: str | None = Field(None, description="a name under `models`, or a model itself")
    memory: Memory = Field(Memory(), description="what the role remembers")
    watches: tuple[Name, ...] = Field((), description="artifacts whose messages reach the role's inbox and memory")
    budget: Budget | None = Field(None, description="caps for all the role's work in a run")
    tools: Texts = Field((), description="what it may use: built-in tools, declared ones, `SERVER.*` of a server or a service")
    policy: PolicySpec | None = Field(None, description="narrows what the SOP allows; it never widens it")


INPUT_KEYS = ("type", "description", "default", "trusted")
"""A mapping of these is an input; any other one is the schema of an input."""


class Input(Value):
    """What a run is given: a command-line option of the same name."""

    type: Any = Field("string", description="a schema, or `file` or `folder`")
    description: str = Field("", description="the help text of the option")
    default: Any = Field(None, description="the value where none is given")
    trusted: bool | None = Field(
        None, strict=True, description="whether it may decide about actions; by default files and folders may not")

    @property
    def required(self) -> bool:
        """Whether a run must be given it: no `default` was written."""
        return "default" not in self.model_fields_set


class Rule(Value):
    """What a schema can't say; a broken rule goes back to the author."""

    assert_: Expression = Field(alias="assert", description="an expression over the artifact, by its name")
    message: str = Field("", description="what the author is told")


class Graph(Value):
    """Says that a list of an artifact is a dependency graph: unique keys, known references, no cycle."""

    nodes: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")] | None = Field(
        None, description="the field that holds the list; without it the artifact is the list")
    key: Name = Field(description="the field of a node that names it")
    edges: Name = Field(description="the field of a node that lists the keys of those that come first")


class Artifact(Value):
    """A named, typed, versioned value: text, data with a schema, a collection, or a set of files."""

    schema_: Any = Field(
        None, alias="schema", description="shorthand, JSON Schema (inline or a file name), or `python: module:Model`")
    each: Any = Field(None, description="the schema of one item of a collection that a `foreach` step makes")
    files: Texts = Field((), description="path patterns in the run's repository; may hold `{{ }}`")
    file: str | None = Field(None, description="where the artifact lies in the run's repository")
    render: str | None = Field(None, description="file name of the Jinja2 template by which a person reads it in `file`")
    initial: Any = Field(None, description="its value at the start, version 1")
    rules: tuple[Rule, ...] = Field((), description="what its schema can't say")
    graph: Graph | None = Field(
        None, description="its list is a dependency graph; a `foreach` over it takes `key` and `after` from there")
    description: str = Field("", description="what it is, told to those who make and read it")

    @property
    def has_initial(self) -> bool:
        """Whether `initial` was written, `initial: null` included."""
        return "initial" in self.model_fields_set


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

    run: str | tuple[str, ...] | None = Field(None, description="a command that must end with exit code 0")
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


Calls = Annotated[int, BeforeValidator(_told(quantity.calls))]


class Progress(Value):
    """A role looks at the run as a whole at intervals, and lets it go on, replans it or stops it."""

    every: Calls = Field(description="after how many model calls it looks again: `10 calls`")
    goal: str = Field(min_length=1, description="what the run is after, in words")
    role: Name = Field(description="who looks")
    makes: Name | None = Field(
        None, description="a text artifact: what it says where it replans; the steps that want it fire again")
    replans: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(2, description="how often it may replan")


Rung = Literal["hint", "reflect", "ask", "stop"]


class Stuck(Value):
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
            raise PydanticCustomError("stuck", "each stands once, in the order {order}", {"order": ", ".join(order)})
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


def _input(written: object) -> object:
    """`{type, description, default}`, or a schema alone."""
    if isinstance(written, Input) or (isinstance(written, dict) and "type" in written
                                      and set(written) <= set(INPUT_KEYS)):
        return written
    return {"type": written}


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


def _strategy(written: object) -> object:
    return {written: {}} if isinstance(written, str) else written


_MODEL_WRITTEN = re.compile(r"[A-Za-z_]\w*|[A-Za-z_][\w-]*[:/].*", re.DOTALL)
DOERS = ("role", "run", "call", "value", "human", "sop")
READS = ("needs", "wants", "sees")


class Step(Value):
    """A doer turning the artifacts it reads into the one that it makes."""

    role: str | None = Field(None, description="a role, or an expression that names one of the declared roles")
    self_: Template | None = Field(
        None, alias="self", description="who the role is here, a template: each name has a memory of its own")
    run: str | tuple[str, ...] | None = Field(
        None, description="a command: text split into arguments, or a list of them; no shell")
    call: str | None = Field(None, description="a Python function, `package.module:function`, async or not")
    value: Expression | None = Field(None, description="an expression; free, no model")
    human: Annotated[Human, BeforeValidator(_human)] | None = Field(
        None, description="a question to a person: `text`, `approve`, or `{choice: [...]}`; `task` is the question")

    sop: str | None = Field(None, min_length=1, description="another SOP, by its name or the name of its file")

    needs: Texts = Field((), description="artifacts that trigger and must exist; `design.package` narrows to that part")
    wants: Texts = Field((), description="artifacts that trigger and may be missing")
    sees: Texts = Field((), description="artifacts that never trigger and may be missing")
    makes: Annotated[Makes, BeforeValidator(_makes)] = Field(description="the artifact; `{NAME: PATTERN}` confines files")

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
    review: Review | None = Field(None, description="a role that judges the answer, once it fits and its check is content")
    stuck: Stuck | None = Field(None, description="what is done where the same comes again and again; by default nothing")
    talks_to: Texts = Field((), description="roles that its role may put questions to, with the tool `ask_role`")
    parse: str | None = Field(None, description="of a command: `json FILE`, `junit` or `junit FILE`")
    args: dict[str, Any] | None = Field(None, description="arguments of a function; texts are templates")
    inputs: dict[Name, Expression] = Field(
        default_factory=dict, description="of a SOP: what it is given, an expression for each of its inputs")
    output: Name | None = Field(None, description="of a SOP: which of its artifacts this step makes; by default its only output")
    model: str | None = Field(
        None, description="a name under `models`, a model itself, or an expression that names one of the declared models")
    budget: Budget | None = Field(None, description="caps for all the step's work in a run")
    tools: ToolsSpec | None = Field(
        None, description="what its role may use here, in place of the role's own `tools`; `{only: EXPRESSION}` picks of these")
    trusts: Texts = Field((), description="artifacts and tools whose words may decide about actions here")
    effect: Literal["idempotent", "once"] | None = Field(
        None, description="of a function: whether it may run again after a crash; `once` asks a person")
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
    def doer(self) -> Literal["role", "run", "call", "value", "human", "sop"]:
        """Which of the keys names the worker; `sop check` holds that there is exactly one."""
        return next(key for key in ("role", "run", "call", "value", "human", "sop") if getattr(self, key) is not None)


class Defaults(Value):
    """Keys that every step and every role has unless it says otherwise."""

    steps: dict[str, Any] = Field(default_factory=dict, description="any keys of a step")
    roles: dict[str, Any] = Field(default_factory=dict, description="any keys of a role")


class Case(Value):
    """A test of the SOP that `sop test` runs offline."""

    inputs: dict[str, Any] = Field(default_factory=dict, description="the inputs")
    given: dict[Name, Any] = Field(
        default_factory=dict, description="artifact values that stand in for what their steps would make")
    until: str | None = Field(None, description="the step after which the case ends")
    model: str = Field("dry", description="a model that needs no endpoint: `dry`, `python:…`, `replay:…`")
    expect: Expression = Field("success", description="`success`, or an expression over the artifacts")


class SOP(Value):
    """A standard operating procedure: a program whose instructions are steps."""

    sop: Name = Field(description="its name")
    language: int = Field(1, strict=True, description="version of this language")
    description: str = Field("", description="what it is for")
    inputs: dict[Name, Annotated[Input, BeforeValidator(_input)]] = Field(default_factory=dict, description="what a run is given")
    defaults: Defaults = Field(Defaults(), description="keys that every step and role has")
    roles: dict[Name, Role] = Field(
        default_factory=dict, description="who works: overrides of `roles/NAME.yaml`, or the whole role")
    artifacts: dict[Name, Artifact] = Field(default_factory=dict, description="what passes between them")
    steps: dict[Name, Step] = Field(min_length=1, description="who makes what from what")
    outputs: tuple[Name, ...] | None = Field(None, description="what the run is for; by default what nobody reads")
    success: Expression | None = Field(None, description="what the exit status means; by default that every output exists")
    tests: dict[Name, Case] = Field(default_factory=dict, description="what `sop test` runs")
    budget: Budget | None = Field(None, description="caps for the whole run")
    limits: Limits | None = Field(None, description="what each endpoint of the SOP's models allows")
    models: dict[Name, ModelSpec] = Field(default_factory=dict, description="names for models; `default` is everybody's")
    progress: Progress | None = Field(None, description="a role that looks at the run as a whole at intervals")
    policy: PolicySpec | None = Field(None, description="what roles may do; by default the preset `workspace`")
    secrets: tuple[Name, ...] = Field((), description="environment variables, each of which reaches the one tool that names it")
    tools: dict[Name, ToolSpec] = Field(default_factory=dict, description="tools that roles may use")
    mcp_servers: dict[Name, ServerSpec] = Field(default_factory=dict, alias="mcpServers", description="MCP servers by name")
    openapi: dict[Name, ApiSpec] = Field(default_factory=dict, description="services with an OpenAPI description, by name")

    def tools_of(self, step: Step, role: str | None = None) -> tuple[str, ...]:
        """The tools that a role may use in a step, as they are written. By default that of the step itself; where it is worked
        out at run time which one works there, all that any of them has.
        """
        if step.role is None:
            return ()
        if step.tools is not None and not isinstance(step.tools, ToolChoice):
            return step.tools               # else a choice among those of the role
        if role is not None or step.role in self.roles:
            return self.roles[role or step.role].tools
        return tuple(dict.fromkeys(tool for role in self.roles.values() for tool in role.tools))

    @property
    def remembers(self) -> bool:
        """Whether what roles do goes into the project's memory file: one of them recalls, reflects, or keeps lessons."""
        return any((role.memory.recall, role.memory.reflect, role.memory.lessons) != (None, None, None)
                   for role in self.roles.values())

    def recalled(self, name: str) -> bool:
        """Whether what a role remembers comes back to anybody's mind: its own, or that of one who recalls from all."""
        return any(other.memory.recall is not None and (own == name or other.memory.recall.from_ != "role")
                   for own, other in self.roles.items())

    def rates(self, name: str) -> bool:
        """Whether a role's model is asked how important each of its memories is: it counts for the role itself, or for one that
        recalls what others remember.
        """
        return self.roles[name].memory.reflect is not None or any(
            other.memory.recall is not None and other.memory.recall.importance > 0
            and (own == name or other.memory.recall.from_ != "role") for own, other in self.roles.items())

    @field_validator("language")
    @classmethod
    def _known(cls, version: int) -> int:
        if version not in LANGUAGE_VERSIONS:
            raise PydanticCustomError("language", "language {v} is unknown; supported: 1", {"v": version})
        return version


class Configuration(Value):
    """What a person sets for all SOPs, in `sop/config.yaml` of their configuration folder; a SOP goes before it."""

    models: dict[Name, ModelSpec] = Field(default_factory=dict, description="names for models; `default` is everybody's")
    limits: Limits | None = Field(None, description="what each endpoint allows, where the SOP says nothing of it")
