"""What happened: the typed events of a run's journal, one tagged union on `kind`.

The journal, the bus and every view share these. Payloads stand in the journal's blob table under their digest;
an event carries the digest. Keys of firings, activations and calls are those of the language reference
("Identity in the journal"); `keys.py` builds and parses them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SerializerFunctionWrapHandler, field_serializer

from metaflow_agents.schema.endpoint import ModelSpec
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.tools import Effect

Outcome = Literal["success", "failure", "stopped", "interrupted", "until", "budget", "endpoint", "waiting"]
Verdict = Literal["allow", "ask", "deny"]
Trouble = Literal["rate", "refused", "silence", "failed"]


class _Event(Value):
    at: float = Field(0.0, description="Unix time in seconds, set when it happens, or else when it is handed to the journal")


class RunOpened(_Event):
    """The first event: what runs, on what, with which options."""

    kind: Literal["run_opened"] = "run_opened"
    run: str
    sop: str = Field(description="fingerprint of the compiled SOP: equal for equal meaning")
    compiled: str = Field(description="digest of the compiled SOP's canonical JSON")
    sources: dict[str, str] = Field(description="file name → digest of its text, for people; the compiled form decides")
    entry: str = Field(description="which of the sources is the SOP file")
    location: str = Field("", description="where the SOP file was found, so that a resume can look whether it changed")
    models: dict[str, str] = Field(
        default_factory=dict, description="who is asked, in words: name → model; `role:NAME` is one for a role, `STEP/NAME` "
                                          "one of a sub-SOP; `*` answers for everybody who is not named")
    chosen: dict[str, ModelSpec] = Field(
        default_factory=dict, description="of these, what the SOP does not say itself: a resume asks the same again")
    base_url: str | None = Field(None, description="OPENAI_BASE_URL as it was, where a model is asked that names no endpoint")
    sandbox: str = Field("", description="where commands run: `bubblewrap`, `landlock`, `container`, or `none` (unconfined, as "
                                         "asked for); empty: nowhere")
    image: str = Field("", description="of the sandbox `container`: the digest of the image in which commands run")
    until: str | None = None
    budget: dict[str, float] = Field(default_factory=dict, description="caps given on the command line")
    given: dict[str, str] = Field(
        default_factory=dict, description="artifact → digest of the value that stands in for its steps' work")
    reused_from: str | None = Field(None, description="`--from`: the run whose unchanged activations are taken over")
    recorded: str = Field("", description="`--demo`: the recording whose results of commands, tools and functions are taken")
    package: str = Field("", description="version of this package")
    functions: dict[str, str] = Field(
        default_factory=dict, description="Python that the SOP names → the file that it was found in")
    allowed: tuple[str, ...] = Field((), description="`--allow`: packages that may be installed, besides what the SOP allows")
    staged: bool = Field(False, description="acting tools only tell what they would do")
    left_out: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="input that is a folder → paths that were not read and `--everything` reads: "
                                          "at most 20, and how many more")
    untaken: dict[str, dict[str, tuple[str, ...]]] = Field(
        default_factory=dict, description="input that is a folder → why paths in it were not read, whatever was asked for → "
                                          "these paths: at most 20, and how many more")
    plugins: dict[str, str] = Field(
        default_factory=dict, description="what installed packages add and the run uses, `GROUP/NAME` → distribution and version")
    kept: dict[str, str] = Field(default_factory=dict, description="input → artifact and run that its value was kept from")
    kept_without: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="input that looked for a kept value → run whose values are not in it, as it began "
                                          "later than the one that is read → how it stood then")


class Resumed(_Event):
    """The run goes on in another process; what failed for good may be tried again."""

    kind: Literal["resumed"] = "resumed"
    sop: str
    compiled: str
    sources: dict[str, str]
    entry: str = ""
    location: str = ""
    changes: tuple[str, ...] = Field((), description="what differs from the SOP that ran before, accepted by the person")
    models: dict[str, str] = Field(default_factory=dict)
    sandbox: str = Field("", description="where commands run from here on; empty: where they did")
    image: str = Field("", description="the digest of its image, where that is the sandbox `container`")
    chosen: dict[str, ModelSpec] = Field(default_factory=dict)
    base_url: str | None = None
    until: str | None = None
    budget: dict[str, float] = Field(default_factory=dict)
    plugins: dict[str, str] | None = Field(None, description="as in `run_opened`, from here on; None: as before")
    replaced: tuple[str, ...] = Field((), description="other versions of packages than before, in words")
    forked_from: str | None = Field(None, description="`RUN@FIRING`, where this event begins a fork")


class Version(Value):
    """One new version of an artifact."""

    artifact: str
    number: int
    payload: str = Field(description="digest of its payload")
    untrusted: str = Field("", description="what of it came from outside the user, in words; empty: nothing")


class Entry(Value):
    """What a role remembers of one activation: digests of what it was asked and what it answered.

    Of a reflection these are the question, and what it came to see; of a summary, nothing, and the summary; of a lesson, what
    was asked in the activation, and the lesson.
    """

    role: str
    kind: Literal["turn", "reflection", "summary", "lesson"] = "turn"
    activation: str
    asked: str
    answered: str
    untrusted: str = Field("", description="what of it came from outside the user, in words; empty: nothing")
    importance: int | None = Field(None, description="1 to 10, as the role's model rated it; None: it was not asked")
    mind: str = Field("", description="with `self`: which character of the role remembers it, as `ROLE[NAME]`; with `memory_of`: "
                                      "who else, as `[NAME]`; empty: the role")
    cites: tuple[str, ...] = Field((), description="of a reflection: keys of the memories that it rests on")
    covers: int = Field(0, description="of a summary: how many turns, the first of its firing's causal past, it sums up")

    @property
    def whose(self) -> str:
        """Who remembers it: a role, one character of a role, or whom roles that share a memory name."""
        return self.mind or self.role


class Fired(_Event):
    """A step was triggered: its activations read exactly these versions. The cursor moves here."""

    kind: Literal["fired"] = "fired"
    step: str
    round: int
    read: dict[str, int] = Field(description="artifact → version; 0 where it is missing")
    items: tuple[str, ...] | None = Field(None, description="keys in the order of the list; None without `foreach`")


class Reserved(_Event):
    """A model call is about to be sent: its worst case is charged."""

    kind: Literal["reserved"] = "reserved"
    key: str
    role: str = ""
    try_: int = Field(0, alias="try")
    digest: str = Field(description="fingerprint of model, messages, parameters, schema and tools")
    request: str = Field(description="digest of the request's canonical JSON")
    model: str
    tokens: int = Field(description="worst case, in tokens")
    cost: int = Field(0, description="worst case, in picodollars (10⁻¹² US dollars)")
    unpriced: bool = Field(False, description="it costs money, and nobody knows how much: `cost` is 0")


class Settled(_Event):
    """A model call came back, or failed: the reservation is replaced by what it cost."""

    kind: Literal["settled"] = "settled"
    key: str
    try_: int = Field(0, alias="try")
    reply: str | None = Field(None, description="digest of the reply; None where it failed")
    error: str | None = None
    stops: bool = Field(False, description="the run stops with that error; without it the attempt failed, on a resume too")
    again: bool = Field(False, description="this try failed and another one follows: the call is not over")
    trouble: Trouble | None = Field(
        None, description="where it failed: refused for its rate, otherwise not taken up, silent for too long, or anything else")
    wait: float = Field(0.0, description="seconds until the next try, where one follows")
    calls: int = Field(1, description="0 where the endpoint did not take the request up")
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = Field(0, description="of those in: what the endpoint had cached")
    cost: int = Field(0, description="picodollars (10⁻¹² US dollars)")
    estimated: bool = Field(
        False, description="an upper bound or an estimate: nobody told the tokens, or which were in and which out")


class Observed(_Event):
    """Something that was not determined, recorded before anything is built on it: what a command or a function gave."""

    kind: Literal["observed"] = "observed"
    key: str
    payload: str
    seconds: float = 0.0


class EarlierEffect(Value):
    """A call with an effect that may happen once only, as an earlier run made it (`--from`)."""

    source: str = Field(description="`RUN:KEY` of the call")
    tool: str
    arguments: str = Field(description="digest of the arguments' canonical JSON")
    payload: str = Field("", description="digest of what it gave; empty: nobody knows whether it happened")
    patch: str | None = Field(None, description="digest of the `Patch` of what it wrote and deleted")
    untrusted: str = Field("", description="what of what it gave came from outside the user, in words; empty: nothing")


class Finished(_Event):
    """An activation made its item (or the whole, without `foreach`)."""

    kind: Literal["finished"] = "finished"
    activation: str
    payload: str
    digest: str = Field("", description="fingerprint of what decides whether an item runs again when its step fires again")
    parts: dict[str, str] = Field(default_factory=dict, description="input → fingerprint: what the activation depends on")
    memory: Entry | None = None
    besides: tuple[Entry, ...] = Field((), description="what else its role remembers from then on: insights, lessons, a summary")
    seconds: float = 0.0
    reused_from: str | None = Field(None, description="`RUN:ACTIVATION` whose result was taken over")
    why: tuple[str, ...] = Field((), description="with `--from`: which inputs differ, where it ran anew")
    untrusted: str = Field("", description="what of it came from outside the user, in words; empty: nothing")
    assumed: tuple[str, ...] = Field((), description="what was assumed, since nobody answered")
    effects: tuple[EarlierEffect, ...] = Field(
        (), description="of a result that was taken over: what was done for it that may happen once only")


class Failed(_Event):
    """An attempt failed. With `final`, the activation did."""

    kind: Literal["failed"] = "failed"
    activation: str
    error: str
    seconds: float = 0.0
    final: bool = False
    stops: bool = Field(False, description="the run ends with it (`on_fail: stop`); a resume grants fresh attempts")
    untrusted: str = Field("", description="where the error's words may have come from, if from outside the user; empty: nowhere")
    trace: str = Field("", description="the end of the traceback of an exception that no rule speaks of; else empty")


class Committed(_Event):
    """A firing ended (or, without one, inputs were given): its versions exist from here on, all at once."""

    kind: Literal["committed"] = "committed"
    firing: str | None = None
    versions: tuple[Version, ...] = ()
    reused: tuple[str, ...] = Field((), description="items whose digest did not change since the last firing")


class Documented(_Event):
    """The documents of a version were made anew, since what they are made of is another now; its value is what it was."""

    kind: Literal["documented"] = "documented"
    artifact: str
    number: int
    payload: str = Field(description="digest of the payload that the version has from here on")


class Sent(_Event):
    """A message from a role (or a program) to one role, or to all; with a `key`, a word between two roles in an activation."""

    kind: Literal["sent"] = "sent"
    sender: str
    to: str | None = Field(None, description="a role; None is a broadcast")
    payload: str
    key: str = Field("", description="of the question that it asks or answers, which stands in nobody's inbox; empty: a letter")
    untrusted: str = Field("", description="what of it came from outside the user, in words; empty: nothing")


class Inner(_Event):
    """Something that happened to the steps of a sub-SOP. Its calls, tools and questions stand in the journal by themselves."""

    kind: Literal["inner"] = "inner"
    activation: str = Field(description="the activation that the sub-SOP is")
    event: Annotated[Fired | Finished | Failed | Committed | Sent | Inner, Field(discriminator="kind")]

    @field_serializer("event", mode="wrap")
    def _with_kind(self, event: _Event, written: SerializerFunctionWrapHandler) -> dict[str, object]:
        """What is written leaves out defaults, and this is one that decides how the rest is read."""
        return {"kind": getattr(event, "kind", ""), **written(event)}


class Decided(_Event):
    """The policy decided about an action, by which rule: one record of the audit."""

    kind: Literal["decided"] = "decided"
    key: str = Field(description="of the tool call")
    role: str
    tool: str
    action: str = Field(description="as rules spell it: `run(git push)`")
    verdict: Verdict
    rule: str = Field(description="what decided, in words: a rule and whose it is, a preset, trust, or that nothing names it")
    untrusted: str = Field("", description="what the activation had read from outside the user by then; empty: nothing")
    chain: str = Field("", description="digest over this record and the one before it")


class Intended(_Event):
    """A tool is about to be called: from here on it may have had its effect."""

    kind: Literal["intended"] = "intended"
    key: str = Field(description="of the tool call: `…/turn.0/tool.1`")
    tool: str
    arguments: str = Field(description="digest of the arguments' canonical JSON")
    effect: Effect = "once"
    taken: EarlierEffect | None = Field(
        None, description="the call of an earlier run whose result is taken in place of making this one; None: it is made")


class Done(_Event):
    """A tool call is over: what the role is told, and what it did to the files of its activation."""

    kind: Literal["done"] = "done"
    key: str
    payload: str = Field(description="digest of what the role is told (`Data`)")
    patch: str | None = Field(None, description="digest of the `Patch` of what it wrote and deleted")
    error: bool = False
    refused: bool = Field(
        False, description="it was not carried out: its arguments make no sense, or the policy or a person forbids it")
    untrusted: str = Field("", description="where what it says came from, if from outside the user; empty: it did not")
    staged: bool = Field(False, description="it was not carried out (`--dry-tools`): this is what it would have done")
    seconds: float = 0.0


class Asked(_Event):
    """A person is asked something; the answer may come days later, from another process."""

    kind: Literal["asked"] = "asked"
    key: str = Field(description="of what waits for it: an activation, or a tool call")
    question: str = Field(description="digest of the question (`people.Question`)")
    why: str = Field("", description="why it is asked anew, where it was asked before")
    chain: str = ""


class Answered(_Event):
    """What a person said, or what was taken for it."""

    kind: Literal["answered"] = "answered"
    key: str
    answer: str = Field(description="digest of the answer (`people.Answer`)")
    by: str = Field("", description="`terminal`, `answer` (the command), `--yes`, `assumed`, `earlier answer KEY`, or a "
                                    "program's name")
    rested: float = Field(0.0, description="seconds before it in which nothing ran: they count against no budget")
    chain: str = ""


class RunEnded(_Event):
    """The run rests. It may be resumed unless it succeeded."""

    kind: Literal["run_ended"] = "run_ended"
    outcome: Outcome
    reason: str = ""
    never: dict[str, str] = Field(default_factory=dict, description="step that never fired → why")


Event = Annotated[
    RunOpened | Resumed | Fired | Reserved | Settled | Observed | Decided | Intended | Done | Asked | Answered | Finished
    | Failed | Committed | Documented | Sent | Inner | RunEnded,
    Field(discriminator="kind"),
]
