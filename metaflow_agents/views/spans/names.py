"""The names of spans, attributes and metrics: one table, of one version of OpenTelemetry's conventions for generative AI.

These conventions are marked as development: names change between their versions. A new version is a new table, here alone.
What they have no name for begins with `sop.`. The page docs/how-to/opentelemetry.md is made from it.
Source: https://github.com/open-telemetry/semantic-conventions-genai/tree/v0.1.0/docs/gen-ai
"""

from __future__ import annotations

from typing import Literal, NamedTuple

VERSION = "0.1.0"
"""Of the conventions that the names follow (`semantic-conventions-genai`)."""
CONVENTIONS = f"semantic-conventions-genai {VERSION}"
SCOPE = "metaflow_agents"
"""The name of the instrumentation scope."""

# Operations: the values of `gen_ai.operation.name`.
CHAT = "chat"
CREATE_MEMORY = "create_memory"
EMBEDDINGS = "embeddings"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"
INVOKE_WORKFLOW = "invoke_workflow"
PLAN = "plan"
RETRIEVAL = "retrieval"
SEARCH_MEMORY = "search_memory"
STEP = "step"                       # none of the conventions: such spans have no `gen_ai.operation.name`

SPANS: dict[str, tuple[str, str]] = {
    INVOKE_WORKFLOW: ("invoke_workflow SOP", "what one process does of a run: from its start, or a resume, until it ends or "
                      "is killed; the first is the root of the trace, later ones are below it. Also a step that is a SOP"),
    INVOKE_AGENT: ("invoke_agent ROLE", "an activation of a role: one attempt at a step, or at one of its items"),
    CHAT: ("chat MODEL", "a model call with all its tries"),
    EMBEDDINGS: ("embeddings MODEL", "a call that embeds texts"),
    SEARCH_MEMORY: ("search_memory", "around such a call: a role recalls by embeddings"),
    CREATE_MEMORY: ("create_memory", "a role keeps reflections, lessons or a summary, besides its turn"),
    PLAN: ("plan ROLE", "around a call in which a strategy plans (`plan_and_execute`, `task_queue`, `solver`)"),
    EXECUTE_TOOL: ("execute_tool TOOL", "a tool call, by a role or a `tool:` step"),
    RETRIEVAL: ("retrieval files", "a call of the tools `search` and `map`"),
    STEP: ("step STEP", "a firing with `foreach`; an activation of any other type of step"),
}
"""Operation → the name of its spans, and what they are in a run."""

# Attributes of the conventions.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
MAX_TOKENS = "gen_ai.request.max_tokens"
OUTPUT_TYPE = "gen_ai.output.type"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CONVERSATION = "gen_ai.conversation.id"
TOOL = "gen_ai.tool.name"
DATA_SOURCE = "gen_ai.data_source.id"
STORE = "gen_ai.memory.store.id"
RECORDS = "gen_ai.memory.record.count"
ERROR = "error.type"
ADDRESS = "server.address"
PORT = "server.port"
# Those that hold content, which is exported only where it is asked for.
SYSTEM = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
# Attributes of this package.
ACTION = "sop.action"
ARTIFACTS = "sop.artifacts"
ATTEMPT = "sop.attempt"
BY = "sop.by"
CHANGES = "sop.changes"
COST = "sop.cost"
DRY = "sop.dry"
EFFECT = "sop.tool.effect"
ESTIMATED = "sop.cost.estimated"
EVENT = "sop.event"
FORKED = "sop.forked_from"
ITEM = "sop.item"
ITEM_KEY = "sop.item.key"
ITEMS = "sop.items"
KEY = "sop.key"
OUTCOME = "sop.outcome"
PACKAGE = "sop.package"
RESUMED = "sop.resumed"
REUSED = "sop.reused"
ROUND = "sop.round"
RULE = "sop.rule"
RUN = "sop.run"
SANDBOX = "sop.sandbox"
SECONDS = "sop.seconds"
SENDER = "sop.sender"
SOP = "sop.name"
STEP_NAME = "sop.step"
STEP_TYPE = "sop.step.type"
TO = "sop.to"
TRIES = "sop.tries"
UNTIL = "sop.until"
UNTRUSTED = "sop.untrusted"
VERDICT = "sop.verdict"
WHAT = "sop.what"
WORDS = "sop.words"

ATTRIBUTES: dict[str, str] = {
    OPERATION: "which of the operations above",
    PROVIDER: "`openai` for any endpoint; `python`, `replay`, `manual`, `dry` or an installed form for models without one",
    AGENT: "the role; of a workflow the SOP",
    MODEL: "the model as it is asked for",
    MAX_TOKENS: "longest answer that is asked for (with content)",
    OUTPUT_TYPE: "`json` or `text` (with content)",
    INPUT_TOKENS: "tokens of the requests, cached ones included; of an activation those of all its calls",
    OUTPUT_TOKENS: "tokens of the answers, likewise",
    CACHED_TOKENS: "those of the requests that the endpoint had cached",
    CONVERSATION: "the run",
    TOOL: "the tool",
    DATA_SOURCE: "`files`: what `search` and `map` look into",
    STORE: "the role whose memory it is",
    RECORDS: "how many memories are kept, or an activation leaves: a turn, and what its role came to see",
    ERROR: "why it ended badly, in one word (below)",
    ADDRESS: "host of the endpoint",
    PORT: "its port",
    SYSTEM: "the system message, JSON (content)",
    INPUT_MESSAGES: "the other messages, JSON (content)",
    OUTPUT_MESSAGES: "the answer, JSON (content)",
    ARGUMENTS: "arguments of a tool call, JSON (content)",
    RESULT: "what the role was told of it (content)",
    ACTION: "what a tool call would do, as rules spell it (content)",
    ARTIFACTS: "versions that were made: `report@2`",
    ATTEMPT: "number of the attempt, from 0, where it is not the first",
    BY: "who answered: `terminal`, `answer`, `--yes`, `assumed`, a program",
    CHANGES: "how many changes of the SOP a resume accepted",
    COST: "US dollars",
    DRY: "nothing was done (`--dry-tools`)",
    EFFECT: "what a second call of a tool would do: `none`, `idempotent`, `once`",
    ESTIMATED: "the cost is an upper bound",
    EVENT: "number of the event with which the span began: its place in `sop log RUN --json`, from 1",
    FORKED: "the run that a fork branched off from",
    ITEM: "place of the item in its list, from 0",
    ITEM_KEY: "key of the item (content)",
    ITEMS: "how many items a firing has",
    KEY: "key of a call in the journal (content)",
    OUTCOME: "how the run ended",
    PACKAGE: "version of metaflow-agents that began the run",
    RESUMED: "a resume began it",
    REUSED: "the run from which a result was taken over; of a firing how many items are unchanged",
    ROUND: "number of the firing",
    RULE: "what decided about an action",
    RUN: "name of the run",
    SANDBOX: "where commands run",
    SECONDS: "how long something took that has no span",
    SENDER: "who writes a message",
    SOP: "name of the SOP",
    STEP_NAME: "the step; `write/draft` in a step that is a SOP",
    STEP_TYPE: "what the step is: `role`, `run`, `call`, `tool`, `value`, `human`, `sop`, `use`",
    TO: "to whom; `*`: to all",
    TRIES: "tries of a call, where there were several",
    UNTIL: "the step after which the run rests",
    UNTRUSTED: "what came of it is from outside the user",
    VERDICT: "`allow`, `ask` or `deny`",
    WHAT: "what an event or a memory is about: `check`, `repair`, `run`, `reflection`",
    WORDS: "the words of a question, an answer, a message, an error or an end (content)",
}
"""Every attribute of spans and their events, and what it says."""

INPUTS, TRIED, RETRIED, OBSERVED = "sop.inputs", "sop.tried", "sop.retried", "sop.observed"
DECIDED, ASKED, ANSWERED, MESSAGE = "sop.decided", "sop.asked", "sop.answered", "sop.message"
DOCUMENTED, COMMITTED = "sop.documented", "sop.committed"
EVENTS: dict[str, str] = {
    INPUTS: "the run, or a step that is a SOP, is given its inputs", TRIED: "a try at a call failed, and another one follows",
    RETRIED: "that try is sent", OBSERVED: "a command, a check, a repair of an answer, a note of a strategy",
    DECIDED: "the policy decided about an action", ASKED: "a person is asked", ANSWERED: "a person answered",
    MESSAGE: "a message between roles", DOCUMENTED: "documents of a version were made anew",
    COMMITTED: "a firing ended, of which no span is under way",
}
"""Events of spans."""

ERRORS: dict[str, str] = {
    "rate": "the endpoint allows no more for now", "refused": "the endpoint did not take the call up",
    "silence": "the endpoint was silent for too long", "failed": "a call or an attempt failed",
    "stops": "an attempt failed, and the run stops with it",
    "denied": "a tool call was not carried out: by the policy, a person, or as its arguments make no sense",
    "tool_error": "a tool told of an error", "interrupted": "its process was killed before it ended",
    "cancelled": "what it belongs to ended before it did", "failure": "the run finished without success",
    "stopped": "the run was stopped", "budget": "a cap stopped the run", "endpoint": "an endpoint refused every call",
}
"""The values of `error.type`."""

BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Upper bounds of the buckets of durations, in seconds, as the conventions have them."""
COUNTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
WAITS = (1.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)


class MetricName(NamedTuple):
    """A metric: its name, instrument and unit, what it measures, and the bounds of its buckets."""

    name: str
    instrument: Literal["histogram", "counter"]
    unit: str
    what: str
    bounds: tuple[float, ...] = ()


INFERENCE_DURATION = MetricName(
    "gen_ai.client.inference.duration", "histogram", "s", "how long a model call took, with all its tries", BUCKETS)
EMBEDDINGS_DURATION = MetricName(
    "gen_ai.client.embeddings.duration", "histogram", "s", "how long a call took that embeds", BUCKETS)
INFERENCE_INPUT = MetricName(
    "gen_ai.client.inference.usage.input_tokens", "counter", "{token}", "tokens of requests, cached ones included")
INFERENCE_OUTPUT = MetricName("gen_ai.client.inference.usage.output_tokens", "counter", "{token}", "tokens of answers")
INFERENCE_CACHED = MetricName(
    "gen_ai.client.inference.usage.cache_read.input_tokens", "counter", "{token}", "tokens of requests that were cached")
AGENT_DURATION = MetricName(
    "gen_ai.invoke_agent.duration", "histogram", "s", "how long an activation of a role took, or one process with a run", BUCKETS)
AGENT_CALLS = MetricName("gen_ai.invoke_agent.inference_calls", "histogram", "{call}", "model calls of an activation", COUNTS)
AGENT_TOOLS = MetricName("gen_ai.invoke_agent.tool_calls", "histogram", "{call}", "tool calls of an activation", COUNTS)
TOOL_DURATION = MetricName("gen_ai.execute_tool.duration", "histogram", "s", "how long a tool call took", BUCKETS)
SPENT = MetricName("sop.cost", "counter", "{USD}", "what calls cost, in US dollars")
QUESTION_DURATION = MetricName("sop.question.duration", "histogram", "s", "how long a question to a person was open", WAITS)
METRICS = (INFERENCE_DURATION, EMBEDDINGS_DURATION, INFERENCE_INPUT, INFERENCE_OUTPUT, INFERENCE_CACHED, AGENT_DURATION,
           AGENT_CALLS, AGENT_TOOLS, TOOL_DURATION, SPENT, QUESTION_DURATION)

TOLD_AS: dict[str, str] = {
    "run_opened": "begins the first span `invoke_workflow`: the root of the trace; in a fork with a link to that "
                  "of its source",
    "resumed": "begins another `invoke_workflow`, below the root. After a kill it ends what was under way, as "
               "`interrupted`, with the time of the last event before",
    "fired": "begins `step` of a firing with `foreach`, else the span of its first attempt",
    "reserved": "begins `chat` or `embeddings`, and `plan` or `search_memory` around it; of a further try event `sop.retried`",
    "settled": "ends that span; metrics of duration, tokens, cost. Where another try follows event `sop.tried`",
    "observed": "event `sop.observed` of the activation or the tool call",
    "decided": "event `sop.decided` of the tool call, or of the activation where its answer writes files",
    "intended": "begins `execute_tool` or `retrieval`, unless a decision about the call did",
    "done": "ends that span; metric of its duration",
    "asked": "event `sop.asked` of the tool call or the activation that waits",
    "answered": "event `sop.answered` there; metric of how long the question was open",
    "finished": "ends the activation's span (without `foreach` its `committed` does); `create_memory`; metrics of duration and "
                "calls",
    "failed": "ends the span of the attempt, with `error.type`; begins that of the next one",
    "committed": "ends `step` of the firing, or the span of its only activation, with what was made; inputs: event `sop.inputs`",
    "documented": "event `sop.documented` of `invoke_workflow`",
    "sent": "event `sop.message` of the activation that asks, or of `invoke_workflow`",
    "inner": "what it holds, below the span of the step that is a SOP",
    "run_ended": "ends `invoke_workflow`, and all that is under way in it",
}
"""Kind of event → what becomes of it."""

LEFT_OUT: dict[str, str] = {
    "values of artifacts, files": "they are in the journal; a collector is no store for them",
    "words of errors, actions, questions, answers and messages": "content: with `--otel-content` alone; `error.type` is always "
                                                                 "told",
    "keys of items and calls": "models make some of their words: with `--otel-content` alone; `sop.item` and `sop.event` are "
                               "always told",
    "paths of files and endpoints": "they name the machine; of an endpoint host and port are told",
    "digests, fingerprints, the chain of the audit": "they mean something beside the journal alone",
}
"""What of events is not exported, and why. No kind is left out as a whole."""
