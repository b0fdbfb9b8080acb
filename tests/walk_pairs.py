"""Every key of the language with a pair of SOPs that differ in nothing else: what `test_walk_keys.py` walks.

A pair is a base SOP, the place of a key in it and a value. The one side is the base without the key, or with another
value (`instead`) where the language demands the key; the other side has the value. `shows` says where the two sides
must differ: what the run does (its journal), what `sop check` says, what `sop test` says, or what people are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import walk_acting
import walk_strategies
import walk_together
from walk_models import Metered, dry, embeds, slow, unhurried, wrong_at_b, wrong_at_first
from walk_sops import (
    ASKED,
    AT_AN_ENDPOINT,
    CALLED,
    CHARACTERS,
    DESK,
    DRAWN,
    ELSEWHERE,
    EQUIPPED,
    FACT,
    FETCHING,
    GUARDED,
    INHERITED,
    INHERITING,
    INNER,
    INSTALLED,
    LEARNS,
    LETTER,
    LISTED,
    LOOP,
    LOST,
    NOTES,
    NUMBER,
    PAGES,
    PLANNED,
    REFLECTS,
    REMINDED,
    RESULTS,
    RULED,
    SERIES,
    SERVED,
    SHOP,
    SHOPPED,
    SUB_SOP,
    TASKS,
    TESTED,
    TWO_ROLES,
    WATCHED,
)

from metaflow_agents.models.port import Model, ModelRequest

LEFT_OUT = object()
KEYS_SET = {"WALK_KEY": "a secret that nobody may see"}
Shows = walk_together.Shows


@dataclass(frozen=True)
class Pair:
    """Two SOPs that differ in one key, and where that must show."""

    at: str                                     # a dotted place; digits are indices of lists
    value: Any
    base: str                                   # YAML
    shows: Shows = "journal"
    instead: Any = LEFT_OUT
    also: Mapping[str, Any] = field(default_factory=dict)           # place → value, set on both sides
    form: str = ""                              # which form of a key that has several
    model: Callable[[ModelRequest], Any] | Model | None = dry
    given: Mapping[str, Any] = field(default_factory=dict)          # inputs
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The pair's place and form, as pytest shows it."""
        return self.at + (f"({self.form})" if self.form else "") + ("" if self.shows == "journal" else f"-{self.shows}")


RECALLS = {"roles.writer.memory.recall.importance": 0}
ONE = {"roles.writer.memory.recall.top": 1}
EMBEDDED = {"roles.writer.memory.recall.embeddings": "dry", "roles.writer.memory.recall.recency": 0}
NO_TOPIC_NEEDED = {"steps.write.needs": LEFT_OUT}
IN_A_FILE = {"artifacts.letter.file": "letter.txt"}
AT_THE_DESK = {"models.default": "python:desk.py:answer"}
A_SCOUT = {"roles.scout.profile": "You look around."}
ITS_FILES = {"desk.py": DESK}
LOCAL = {"models.default.name": "m", "models.default.endpoint": "http://localhost:1/v1"}
PRICE = {"in": 1, "out": 4}

GRAPH = {"nodes": "tasks", "key": "id", "edges": "uses"}

SOP_KEYS = [
    Pair("sop", "walk", LETTER, "check"),
    Pair("sop", "walk", LETTER, instead="stroll"),
    Pair("language", 2, LETTER, "check"),
    Pair("description", "Letters about the weather.", LETTER, "people"),
    Pair("inputs", {"topic": "string"}, LETTER, "check"),
    Pair("inputs", {"topic": {"default": "rain", "type": "string"}}, LETTER,
         also={**NO_TOPIC_NEEDED, "steps.write.task": "{{ run.inputs | length }}"}),
    Pair("inputs.topic", "string", LETTER, "check"),
    Pair("inputs.topic.type", "string", FACT, "check"),
    Pair("inputs.topic.type", "snow | hail", FACT, instead="string",
         also={"inputs.topic.default": LEFT_OUT}, given={"topic": "rain"}),
    Pair("inputs.topic.description", "what the letter is about", LETTER),
    Pair("inputs.topic.default", "rain", FACT),
    Pair("inputs.topic.optional", True, FACT, instead=False, also={"inputs.topic.default": LEFT_OUT}),
    Pair("inputs.topic.trusted", False, FACT),
    Pair("defaults", {"steps": {"retries": 1}}, NUMBER, model=wrong_at_first),
    Pair("defaults.steps", {"retries": 1}, NUMBER, model=wrong_at_first),
    Pair("defaults.roles", {"goal": "Short sentences."}, LETTER),
    Pair("roles", {"writer": {"profile": "You write."}}, LETTER, "check"),
    Pair("roles.writer", {"profile": "You write."}, LETTER, "check"),
    Pair("artifacts", {"letter": {}}, LETTER, "check"),
    Pair("artifacts.letter", {}, LETTER, "check"),
    Pair("steps", {"write": {"role": "writer", "needs": ["topic"], "makes": "letter"}}, LETTER, "check"),
    Pair("steps.again", {"value": "letter", "needs": ["letter"], "makes": "copy"}, LETTER,
         also={"artifacts.copy.initial": "none"}),
    Pair("outputs", ["letter"], TWO_ROLES, also={"steps.look.when": "run.name == 'x'"}),
    Pair("success", "letter == ''", LETTER),
    Pair("budget", {"calls": 2}, SERIES),
    Pair("budget.tokens", 10, LETTER),
    Pair("budget.calls", 2, SERIES),
    Pair("budget.time", 0.05, LETTER, model=slow),
    Pair("budget.usd", 0.000001, LETTER, model=Metered("money")),
    Pair("limits", {"tpm": 10}, LETTER, model=Metered("limits")),
    Pair("limits.rpm", 1, SERIES, model=Metered("rpm"), also={"budget.time": 0.5}),
    Pair("limits.tpm", 10, LETTER, model=Metered("tpm")),
    Pair("limits.concurrency", 1, NOTES, model=Metered("concurrency")),
    Pair("models.default.price", PRICE, LETTER, "check", also={**LOCAL, "budget.usd": 1}),
    Pair("models", {"default": "python:desk.py:answer"}, LETTER, model=None, files=ITS_FILES),
    Pair("tests", {"walks": {"inputs": {"topic": "rain"}}}, LETTER, "tests"),
    Pair("tests.walks", {"inputs": {"topic": "rain"}}, LETTER, "tests"),
]

ROLE_KEYS = [
    Pair("roles.writer.role", "scribe", LETTER, "check"),
    Pair("roles.writer.profile", "You write.", LETTER, also={"roles.writer.goal": "Short sentences."}),
    Pair("roles.writer.goal", "Short sentences.", LETTER),
    Pair("roles.writer.constraints", ["no adjectives"], LETTER),
    Pair("roles.writer.prompt", "scribe.md.j2", LETTER, files={"scribe.md.j2": "A scribe for {{ step }}."}),
    Pair("roles.writer.model", "python:desk.py:other", LETTER, also=AT_THE_DESK, model=None, files=ITS_FILES),
    Pair("roles.writer.memory", {"window": "1 turns"}, SERIES),
    Pair("roles.writer.memory", "none", SERIES, form="none"),
    Pair("roles.writer.memory.window", "1 turns", SERIES),
    Pair("roles.writer.memory.window", "1 tokens", SERIES, form="tokens"),
    Pair("roles.writer.memory.window", "0 turns", SERIES, form="none"),
    Pair("roles.writer.memory.recall", {"importance": 0}, REMINDED),
    Pair("roles.writer.memory.recall.from", "run", REMINDED, also=RECALLS),
    Pair("roles.writer.memory.recall.top", 1, REMINDED, also=RECALLS),
    Pair("roles.writer.memory.recall.recency", 9, REMINDED, also={**RECALLS, **ONE}),
    Pair("roles.writer.memory.recall.importance", 2, REMINDED, instead=0, also={**RECALLS, **ONE}),
    Pair("roles.writer.memory.recall.relevance", 0, REMINDED, instead=9, also={**RECALLS, **ONE}),
    Pair("roles.writer.memory.recall.decay", 0.001, REMINDED, also={**RECALLS, "roles.writer.memory.recall.importance": 0}),
    Pair("roles.writer.memory.recall.embeddings", "dry", REMINDED, also=RECALLS),
    Pair("roles.writer.memory.recall.index", "exact", REMINDED, "check", also=RECALLS),
    Pair("roles.writer.memory.recall.similarity", "inner_product", REMINDED, model=embeds, also={**RECALLS, **ONE, **EMBEDDED}),
    Pair("roles.writer.memory.over", "run", REMINDED, "check", also={"roles.writer.memory.recall.from": "project"}),
    Pair("roles.writer.memory.summary", True, REMINDED),
    Pair("roles.writer.memory.reflect", {"after": 2}, REMINDED, also={"roles.writer.memory.recall": {}}),
    Pair("roles.writer.memory.reflect.after", 3, REFLECTS, instead=2),
    Pair("roles.writer.memory.lessons", 3, LEARNS, model=walk_strategies.trials),
    Pair("roles.writer.memory.lessons", 2, LEARNS, instead=3, model=walk_strategies.trials),
    Pair("steps.recite.self", "{{ item }}", CHARACTERS),
    Pair("steps.recite.memory_of", "{{ item }}", CHARACTERS),
    Pair("roles.writer.watches", ["news"], WATCHED),
    Pair("roles.writer.budget", {"calls": 2}, SERIES),
    Pair("roles.writer.budget.tokens", 10, TWO_ROLES),
    Pair("roles.writer.budget.usd", 0.000001, SERIES, model=Metered("money-of-a-role")),
    Pair("roles.writer.budget.calls", 2, SERIES),
    Pair("roles.writer.budget.time", 0.05, TWO_ROLES, model=slow),
]

ARTIFACT_KEYS = [
    Pair("artifacts.letter.schema", {"text": "string"}, LETTER),
    Pair("artifacts.notes.each", "integer", NOTES, "check"),
    Pair("artifacts.notes.each", "integer", NOTES, instead="string"),
    Pair("artifacts.letter.files", "*.txt", LETTER),
    Pair("artifacts.fact.file", "fact.txt", LISTED),
    Pair("artifacts.letter.file", ["letter.md", "letter.html"], LETTER, instead="letter.md", form="documents",
         model=lambda _: "# Rain"),
    Pair("artifacts.fact.render", "fact.j2", LISTED, also={"artifacts.fact.file": "fact.txt"},
         files={"fact.j2": "It is {{ fact }}."}),
    Pair("artifacts.letter.initial", "Dear you", LETTER),
    Pair("artifacts.number.rules", [{"assert": "number > 0"}], NUMBER),
    Pair("artifacts.number.rules.0.assert", "number > 0", RULED, "check"),
    Pair("artifacts.number.rules.0.assert", "number > 0", RULED, instead="number >= 0"),
    Pair("artifacts.plan.graph", GRAPH, PLANNED),
    Pair("artifacts.plan.graph.nodes", "tasks", PLANNED, "check", also={"artifacts.plan.graph": GRAPH}),
    Pair("artifacts.plan.graph.key", "other", PLANNED, instead="id",
         also={"artifacts.plan.graph": GRAPH, "steps.write.foreach.key": LEFT_OUT, "artifacts.plan.graph.edges": "none",
               "artifacts.plan.schema": {"tasks": [{"id": "string", "other": "string", "uses": ["string"], "first": ["string"],
                                                    "none?": ["string"]}]}}),
    Pair("artifacts.plan.graph.edges", "uses", PLANNED, instead="first", also={"artifacts.plan.graph": GRAPH}),
    Pair("artifacts.pages.rules", [{"assert": "pages | length > 3"}], PAGES),
    Pair("artifacts.number.rules.0.message", "write a larger one", RULED),
    Pair("artifacts.letter.description", "what goes out today", LETTER),
]

DOER_KEYS = [
    Pair("steps.write.role", "writer", LETTER, "check"),
    Pair("steps.write.role", "'writer' if topic else 'scout'", LETTER, instead="scout", also=A_SCOUT),
    Pair("steps.write.task", "Write about {{ topic }}.", LETTER),
    Pair("steps.write.show", {"topic": "none"}, LETTER),
    Pair("steps.write.strategy", "chain_of_thought", LETTER, form="chain_of_thought"),
    Pair("steps.write.strategy", "tree_of_thoughts", LETTER, form="tree_of_thoughts"),
    Pair("steps.write.strategy", "solver", LETTER, form="solver"),
    Pair("steps.write.strategy", "single", LETTER, form="single", also={"defaults.steps.strategy": "chain_of_thought"}),
    Pair("steps.write.strategy", "self_consistency", LETTER, form="self_consistency"),
    Pair("steps.write.strategy", "plan_and_execute", LETTER, form="plan_and_execute"),
    Pair("steps.write.strategy", "task_queue", LETTER, form="task_queue"),
    Pair("steps.write.strategy", "react", walk_acting.COUNTER, form="react", files=walk_acting.FILES),
    Pair("steps.write.strategy", {"route": {"experts": {"writer": {}, "scout": {}}}}, LETTER, form="route", also=A_SCOUT),
    Pair("steps.write.strategy", {"debate": {"roles": ["writer", "writer"]}}, LETTER, form="debate"),
    Pair("steps.write.strategy", {"hindsight": {"episodes": "history('topic')"}}, LETTER, form="hindsight"),
    Pair("steps.write.strategy.tree_of_thoughts.alone", True, walk_strategies.TREE, also={"steps.write.task": "Spell."},
         model=walk_strategies.tree),
    Pair("steps.write.strategy.task_queue.record", "letters/tasks.md", walk_strategies.QUEUED_FILES),
    Pair("steps.write.strategy.react.last_word", "letters/end.md", walk_strategies.ENDED, files=walk_acting.FILES),
    Pair("steps.write.strategy.hindsight.episodes", "past | reverse | list", walk_strategies.EPISODES, instead="past"),
    Pair("steps.write.strategy.hindsight.prompts.episodes", "other.j2", walk_strategies.EPISODES,
         files=walk_strategies.A_TEMPLATE),
    Pair("steps.write.strategy", {"reflexion": {"evaluator": {"assert": "answer"}}}, LETTER, form="reflexion"),
    Pair("steps.write.model", "python:desk.py:other", LETTER, also=AT_THE_DESK, model=None, files=ITS_FILES),
    Pair("steps.list_it.run", "cat fact.txt", LISTED, "check"),
    Pair("steps.list_it.run", "cat fact.txt", LISTED, instead="true"),
    Pair("steps.list_it.run", ["echo", "a  b"], LISTED, instead="echo a  b", form="list"),
    Pair("steps.try_it.packages", "lock", INSTALLED, model=None),
    Pair("steps.look.parse", "json it.json", RESULTS, form="json FILE"),
    Pair("steps.look.parse", "junit results.xml", RESULTS, form="junit FILE"),
    Pair("steps.look.parse", "junit", RESULTS, form="junit", instead="junit results.xml",
         also={"steps.look.run": "python -m pytest -p no:asyncio --co -q"}),
    Pair("steps.measure.call", "desk:count", CALLED, "check", files=ITS_FILES),
    Pair("steps.measure.call", "desk:count", CALLED, instead="desk:letters", files=ITS_FILES),
    Pair("steps.measure.args", {"step_size": 3}, CALLED, files=ITS_FILES),
    Pair("steps.draw.use", "draw", DRAWN, "check"),
    Pair("steps.draw.with", {"word": "tea", "width": 2}, DRAWN, instead={"word": "tea"}),
    Pair("steps.ask.human", "text", ASKED, "check", form="text"),
    Pair("steps.ask.human", "text", ASKED, form="text", instead="approve"),
    Pair("steps.ask.human", "approve", ASKED, form="approve", instead="text"),
    Pair("steps.ask.human", {"choice": ["warm", "cold"]}, ASKED, form="choice", instead={"choice": ["warm", "hot"]}),
    Pair("steps.ask.task", "What of {{ topic }}, then?", ASKED, instead="What of {{ topic }}?"),
    Pair("steps.ask.on_no_answer", "assume", ASKED),
    Pair("steps.ask.on_no_answer", "assume", ASKED, instead="fail", also={"steps.ask.human": "approve"}),
    Pair("steps.ask.on_no_answer", "fail", ASKED, also={"steps.ask.on_fail": "skip"}),
    Pair("steps.look.value", "topic", FACT, "check"),
    Pair("steps.look.value", "topic", FACT, instead="topic | upper"),
]

STEP_KEYS = [
    Pair("steps.write.needs", ["topic"], LETTER),
    Pair("steps.write.wants", ["topic"], LETTER, also=NO_TOPIC_NEEDED),
    Pair("steps.write.sees", ["topic"], LETTER, also=NO_TOPIC_NEEDED),
    Pair("steps.look.makes", "fact", FACT, "check"),
    Pair("steps.look.makes", "fact", FACT, instead="other",
         also={"artifacts.fact.initial": "one", "artifacts.other.initial": "two"}),
    Pair("steps.write.makes", {"pages": "pages/one.txt"}, PAGES, instead="pages"),
    Pair("steps.write.makes.pages", ["pages/two.txt", "notes.txt"], PAGES, instead="pages/one.txt",
         also={"steps.write.makes": {}}),
    Pair("steps.write.when", "topic == 'snow'", LETTER),
    Pair("steps.mend.rounds", 2, LOOP, "check"),
    Pair("steps.mend.rounds", 3, LOOP, instead=2),
    Pair("steps.write.priority", 5, TWO_ROLES),
    Pair("steps.write.timeout", 0.05, LETTER, model=slow),
    Pair("steps.write.retries", 1, NUMBER, model=wrong_at_first),
    Pair("steps.write.trusts", ["topic"], LETTER, also={"inputs.topic.trusted": False}),
    Pair("steps.write.on_fail", "skip", NOTES, form="skip", model=wrong_at_b),
    Pair("steps.write.on_fail", "stop", NOTES, form="stop", model=wrong_at_b, also={"defaults.steps.on_fail": "skip"}),
    Pair("steps.write.on_fail", {"makes": "lost"}, LOST, form="makes", instead="skip", model=wrong_at_b),
    Pair("steps.write.budget", {"calls": 2}, NOTES),
    Pair("steps.write.budget.tokens", 10, NOTES),
    Pair("steps.write.budget.usd", 0.000001, LETTER, model=Metered("money-of-a-step")),
    Pair("steps.write.budget.calls", 2, NOTES),
    Pair("steps.write.budget.time", 0.05, NOTES, model=slow),
    Pair("steps.write.check", {"run": "false"}, LETTER, also=IN_A_FILE),
    Pair("steps.write.check.told", False, LETTER, also={**IN_A_FILE, "steps.write.check": {"run": "true"}}),
    Pair("steps.write.check.time", "7s", LETTER, also={**IN_A_FILE, "steps.write.check": {"run": "true"}}),
    Pair("steps.write.check.run", "false", LETTER, "check", also=IN_A_FILE),
    Pair("steps.write.check.run", "false", LETTER, instead="true", also=IN_A_FILE),
    Pair("steps.write.check.run", ["test", "-n", ""], LETTER, instead=["test", "-n", "it is"], form="list", also=IN_A_FILE),
    Pair("steps.write.check.call", "desk:refuse", LETTER, "check", files=ITS_FILES),
    Pair("steps.write.check.call", "desk:refuse", LETTER, instead="desk:content", files=ITS_FILES),
    Pair("steps.write.check.repairs", 1, LETTER, also={**IN_A_FILE, "steps.write.check.run": "false"}),
]

A_SHOP = {"shop.json": "{}"}
READ_ONLY = {"policy.preset": "read-only"}
KEPT_BACK = {"roles.writer.policy.preset": "read-only"}
FILLED = "${KEY}"

POLICY_KEYS = [                     # what `sop check` knows of them; what they do in a run is beside it
    Pair("policy", {"preset": "read-only"}, GUARDED, "check"),
    Pair("policy.preset", "read-only", GUARDED, "check", also={"policy.allow": []}),
    Pair("policy.allow", ["write(docs/**)"], GUARDED, "check", also=READ_ONLY),
    Pair("policy.ask", ["write(docs/**)"], GUARDED, "check", also=READ_ONLY),
    Pair("policy.deny", ["write"], GUARDED, "check"),
    Pair("policy.screen", ["own.yaml"], LETTER, files={"own.yaml": "weather: [rain]"}),
    Pair("roles.writer.tools", ["write"], GUARDED, "check", also=READ_ONLY),
    Pair("roles.writer.policy", {"deny": ["write"]}, GUARDED, "check"),
    Pair("roles.writer.policy.preset", "read-only", GUARDED, "check", also={"roles.writer.policy.allow": []}),
    Pair("roles.writer.policy.allow", ["write(docs/**)"], GUARDED, "check", also=KEPT_BACK),
    Pair("roles.writer.policy.ask", ["write(docs/**)"], GUARDED, "check", also=KEPT_BACK),
    Pair("roles.writer.policy.deny", ["write"], GUARDED, "check"),
    Pair("roles.writer.policy.screen", ["own.yaml"], GUARDED, "check"),
    Pair("steps.write.sop", "other", SUB_SOP, instead="inner", files=INNER),
    Pair("steps.write.inputs", {"about": "topic"}, SUB_SOP, files=INNER),
    Pair("steps.write.output", "second", SUB_SOP, files=INNER),
    Pair("steps.write.inherits_memory", True, INHERITING, files=INHERITED),
    Pair("steps.write.tools.only", "['read']", PLANNED, instead="['search']", also={"steps.write.tools": {"only": "['read']"}}),
    Pair("steps.write.tools", ["run"], GUARDED, "check", also={"policy.deny": ["run"]}),
    Pair("steps.write.on_no_answer", "fail", LETTER, "check"),
    Pair("secrets", ["KEY"], GUARDED, "check"),
    Pair("tools", {"convert": {"python": "desk:count"}}, GUARDED, "check", files=ITS_FILES),
    Pair("tools.convert", {"python": "desk:count"}, EQUIPPED, "check", files=ITS_FILES),
    Pair("tools.convert.python", "desk:count", EQUIPPED, "check", files=ITS_FILES),
    Pair("tools.acme.source", "shop", SHOPPED, "check"),
    Pair("tools.acme.with", {"stock": {"tea": 4}}, SHOPPED, instead={"stock": {"tea": 3}}),
    Pair("tools.acme.effects", {"order": "idempotent"}, SHOPPED),
    Pair("tools.convert.secrets", {"words": "KEY"}, EQUIPPED, "check", files=ITS_FILES),
    Pair("tools.fetch.headers", {"https://a.example": {"X-Key": FILLED}}, FETCHING, "check"),
    Pair("mcpServers", {"github": {"command": "github-server"}}, GUARDED, "check"),
    Pair("mcpServers.github", {"command": "github-server"}, SERVED, "check"),
    Pair("mcpServers.github.type", "http", SERVED, "check"),
    Pair("mcpServers.github.command", "github-server", SERVED, "check"),
    Pair("mcpServers.github.args", [FILLED], SERVED, "check"),
    Pair("mcpServers.github.env", {"TOKEN": FILLED}, SERVED, "check"),
    Pair("mcpServers.github.cwd", "${KEY}", SERVED, "check"),
    Pair("mcpServers.github.url", "https://mcp.example.com", ELSEWHERE, "check"),
    Pair("mcpServers.github.headers", {"Authorization": FILLED}, ELSEWHERE, "check"),
    Pair("openapi", {"shop": {"spec": "shop.json"}}, GUARDED, "check", files=A_SHOP),
    Pair("openapi.github", {"spec": "shop.json"}, SHOP, "check", files=A_SHOP),
    Pair("openapi.github.spec", "shop.json", SHOP, "check", instead="another.json", files=A_SHOP),
    Pair("openapi.github.server", "https://user:word@a.example", SHOP, "check", files=A_SHOP),
    Pair("openapi.github.headers", {"Authorization": FILLED}, SHOP, "check", files=A_SHOP),
]

FOREACH_KEYS = [
    Pair("steps.write.foreach", {"in": "names"}, NOTES, also={"artifacts.notes": {"files": "*.txt"}}),
    Pair("steps.write.foreach.in", "names", NOTES, "check"),
    Pair("steps.write.foreach.in", "names", NOTES, instead="names | reverse | list"),
    Pair("steps.write.foreach.as", "person", NOTES),
    Pair("steps.write.foreach.key", "item | upper", NOTES),
    Pair("steps.write.foreach.after", "item.uses", TASKS),
    Pair("steps.write.foreach.where", "item != 'b'", NOTES),
    Pair("steps.write.foreach.parallel", 1, NOTES, model=unhurried),
]

ANSWERED = {"tests.walks.model": "python:desk.py:answer"}

TEST_KEYS = [
    Pair("tests.walks.inputs", {"topic": "snow"}, TESTED, "tests", also={"tests.walks.expect": "topic == 'snow'"}),
    Pair("tests.walks.given", {"letter": "Dear you"}, TESTED, "tests", also={"tests.walks.expect": "shout == 'DEAR YOU'"}),
    Pair("tests.walks.until", "write", TESTED, "tests", also={"tests.walks.expect": "not shout"}),
    Pair("tests.walks.model", "python:desk.py:answer", TESTED, "tests", also={"tests.walks.expect": "'desk' in letter"},
         files=ITS_FILES),
    Pair("tests.walks.model", {"writer": "python:desk.py:answer"}, TESTED, "tests", files=ITS_FILES,
         also={"tests.walks.expect": "'desk' in letter"}),
    Pair("tests.walks.expect", "letter == ''", TESTED, "tests"),
    Pair("tests.walks.prompts", {"write": {"contains": "snow"}}, TESTED, "tests"),
    Pair("tests.walks.prompts.write", {"not_contains": "rain"}, TESTED, "tests"),
    Pair("tests.walks.prompts.write.contains", ["rain", "snow"], TESTED, "tests"),
    Pair("tests.walks.prompts.write.not_contains", "rain", TESTED, "tests"),
    Pair("tests.walks.order", ["raise_it", "write"], TESTED, "tests"),
    Pair("tests.walks.at_most", {"calls": 0}, TESTED, "tests"),
    Pair("tests.walks.at_most.calls", 0, TESTED, "tests"),
    Pair("tests.walks.at_most.tokens", 1, TESTED, "tests", also=ANSWERED, files=ITS_FILES),
    Pair("tests.walks.at_most.usd", 0.0001, TESTED, "tests", files=ITS_FILES, also={
        "models.paid": {"name": "python:desk.py:answer", "price": {"in": 10, "out": 40}}, "tests.walks.model": "paid"}),
]

MODEL_KEYS = [
    Pair("models.default", {"name": "qwen3", "endpoint": "http://127.0.0.1:9/v1"}, LETTER, model=None),
    Pair("models.default.name", "qwen3", AT_AN_ENDPOINT, "check"),
    Pair("models.default.name", "llama", AT_AN_ENDPOINT, instead="qwen3", model=None),
    Pair("models.default.endpoint", "http://127.0.0.1:8/v1", AT_AN_ENDPOINT, instead="http://127.0.0.1:9/v1", model=None),
    Pair("models.default.endpoint", "http://127.0.0.1:9/v1", AT_AN_ENDPOINT, model=None, form="left out"),
    Pair("models.default.key", "WALK_KEY", AT_AN_ENDPOINT, model=None),
    Pair("models.default.temperature", 0, AT_AN_ENDPOINT, model=None),
    Pair("models.default.max_tokens", "4k", AT_AN_ENDPOINT, model=None),
    Pair("models.default.timeout", "20s", AT_AN_ENDPOINT, model=None),
    Pair("models.default.tools", "text", AT_AN_ENDPOINT, model=None),
    Pair("models.default.price", {"in": 1, "out": 2}, AT_AN_ENDPOINT, model=None),
    Pair("models.default.price.in", 2, AT_AN_ENDPOINT, instead=1, model=None, also={"models.default.price.out": 2}),
    Pair("models.default.price.out", 3, AT_AN_ENDPOINT, instead=2, model=None, also={"models.default.price.in": 1}),
    Pair("models.default.price.cached", 0, AT_AN_ENDPOINT, model=None, also={"models.default.price.in": 1,
                                                                             "models.default.price.out": 2}),
    Pair("models.default.parameters", {"seed": 7}, AT_AN_ENDPOINT, model=None),
    Pair("models.default.accepts", ["text", "image"], AT_AN_ENDPOINT, model=None),
    Pair("roles.writer.accepts", ["text", "image"], LETTER, "check", also={"models.default": "openai:x"}),
    Pair("inputs.topic.exclude", ["*.md"], LETTER, "check"),
    Pair("inputs.topic.keep", "lettre", LETTER, "check"),
]

ACTING_KEYS = [Pair(at, value, base, "journal", LEFT_OUT if instead is None else instead, also, form="in a run",
                    model=walk_acting.acting, files=walk_acting.FILES)
               for at, value, base, also, instead in walk_acting.ACTING]

STRATEGY_KEYS = [Pair(f"steps.write.strategy.{strategy}.{name}", way.value, base, instead=LEFT_OUT if way.instead is None
                      else way.instead, also={f"steps.write.strategy.{strategy}.{at}": what for at, what in way.also.items()},
                      model=model, files=walk_strategies.A_TEMPLATE)
                 for strategy, (base, model, ways) in walk_strategies.STRATEGIES.items() for name, way in ways.items()]

TOGETHER_KEYS = [Pair(at, value, base, shows, LEFT_OUT if instead is None else instead, also, model=walk_together.severe)
                 for at, value, base, shows, instead, also in walk_together.TOGETHER]

PAIRS = [*SOP_KEYS, *MODEL_KEYS, *ROLE_KEYS, *ARTIFACT_KEYS, *DOER_KEYS, *STEP_KEYS, *POLICY_KEYS, *FOREACH_KEYS, *TEST_KEYS,
         *ACTING_KEYS, *STRATEGY_KEYS, *TOGETHER_KEYS]
