"""Every key of the language with a pair of SOPs that differ in nothing else: what `test_walk_keys.py` walks.

A pair is a base SOP, the place of a key in it and a value. The one side is the base without the key, or with another
value (`instead`) where the language demands the key; the other side has the value. `shows` says where the two sides
must differ: what the run does (its journal), what `sop check` says, what `sop test` says, or what people are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from metaflow_agents.models.dry import DryModel
from metaflow_agents.models.port import ModelRequest

LEFT_OUT = object()
Shows = Literal["journal", "check", "test", "people"]


async def dry(request: ModelRequest) -> Any:
    """The smallest answer; unlike the `dry` model itself it lets commands, functions and checks run."""
    return await DryModel().ask(request)


async def slow(request: ModelRequest) -> Any:
    """Takes a quarter of a second."""
    await asyncio.sleep(0.25)
    return await dry(request)


async def loud_at_b(request: ModelRequest) -> Any:
    """Fails for the item `b`: a repair is answered no better."""
    return "no number" if "[b]" in request.key else 1


async def wrong_at_first(request: ModelRequest) -> Any:
    """No number in the first attempt, a number in the second."""
    return "no number" if "~0" in request.key else 1


async def growing(request: ModelRequest) -> Any:
    """0, then 1, 2, … with each repair or firing."""
    return len(request.messages) // 2 + int(request.key.split("@")[1].split("~")[0])


@dataclass(frozen=True)
class Pair:
    """Two SOPs that differ in one key, and where that must show."""

    at: str                                     # a dotted place; digits are indices of lists
    value: Any
    base: str                                   # YAML
    shows: Shows = "journal"
    instead: Any = LEFT_OUT
    form: str = ""                              # which form of a key that has several
    model: Callable[[ModelRequest], Any] | None = dry
    given: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The pair's place and form, as pytest shows it."""
        return self.at + (f"({self.form})" if self.form else "") + ("" if self.shows == "journal" else f"-{self.shows}")


DESK = """
async def answer(request):
    return f"{request.role} in {request.step}, by the desk"
async def other(request):
    return f"{request.role} in {request.step}, by another"
def count(words, step_size=1):
    return len(words) * step_size
def total(numbers):
    return sum(numbers)
def refuse(letter):
    return "too plain"
"""

LETTER = """
sop: walk
inputs: {topic: string}
roles: {writer: {profile: You write.}}
artifacts: {letter: {}}
steps: {write: {role: writer, needs: [topic], makes: letter}}
"""
TOPIC = {"topic": "rain"}

NUMBER = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {number: {schema: integer}}
steps: {write: {role: writer, makes: number}}
"""

SERIES = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {one: {}, two: {}, three: {}}
steps:
  first:  {role: writer, makes: one}
  second: {role: writer, needs: [one], makes: two}
  third:  {role: writer, needs: [two], makes: three}
"""

WATCHED = """
sop: walk
roles: {writer: {profile: You write.}, scout: {profile: You look around.}}
artifacts: {news: {}, brief: {}, letter: {}}
steps:
  look:  {role: scout, makes: news}
  sift:  {value: "'brief'", needs: [news], makes: brief}
  write: {role: writer, needs: [brief], makes: letter}
"""

FACT = """
sop: walk
inputs: {topic: {type: string, default: rain}}
artifacts: {fact: {}, other: {}}
steps: {look: {value: topic, needs: [topic], makes: fact}}
"""

NOTES = """
sop: walk
inputs: {names: {type: [string], default: [a, b, c]}}
roles: {writer: {profile: You write.}}
artifacts: {notes: {each: integer}}
steps: {write: {role: writer, needs: [names], foreach: {in: names}, makes: notes}}
"""

TASKS = """
sop: walk
inputs:
  tasks: {type: [{id: string, uses: [string]}], default: [{id: a, uses: [b]}, {id: b, uses: []}]}
roles: {writer: {profile: You write.}}
artifacts: {notes: {each: integer}}
steps: {write: {role: writer, needs: [tasks], foreach: {in: tasks, key: item.id}, makes: notes}}
"""

PAGES = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {pages: {files: ["pages/*", notes.txt]}}
steps: {write: {role: writer, makes: pages}}
"""

LOOP = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {number: {schema: integer, initial: 0}, verdict: {schema: boolean}}
steps:
  judge: {value: number >= 9, needs: [number], makes: verdict}
  mend:  {role: writer, needs: [verdict], sees: [number], when: not verdict, makes: number, rounds: 2}
"""

TWO_ROLES = """
sop: walk
roles: {writer: {profile: You write.}, scout: {profile: You look.}}
artifacts: {news: {}, letter: {}}
steps:
  look:  {role: scout, makes: news}
  write: {role: writer, makes: letter}
"""

LISTED = """
sop: walk
artifacts:
  fact: {schema: {name: string}, initial: {name: moss}}
  listing: {}
steps: {list_it: {run: cat fact.txt, needs: [fact], makes: listing}}
"""

RESULTS = """
sop: walk
artifacts:
  kept: {files: ["*.xml", "*.json"], initial: {results.xml: "<testsuite><testcase name='it' classname='t'/></testsuite>", it.json: "[1, 2]"}}
  result: {}
steps: {look: {run: "true", needs: [kept], makes: result}}
"""

CALLED = """
sop: walk
inputs: {words: {type: [string], default: [a, b]}}
artifacts: {size: {schema: integer}}
steps: {measure: {call: "desk.py:count", needs: [words], makes: size}}
"""

CHECKED = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter}}
"""

TESTED = """
sop: walk
inputs: {topic: {type: string, default: rain}}
roles: {writer: {profile: You write.}}
artifacts: {letter: {}, shout: {}}
steps:
  write: {role: writer, needs: [topic], makes: letter}
  shout: {value: letter | upper, needs: [letter], makes: shout}
tests: {walks: {}}
"""


def edited(base: str, *changes: tuple[str, str]) -> str:
    """A base with some of its text replaced; each change must find its text once."""
    for old, new in changes:
        if base.count(old) != 1:
            raise AssertionError(f"{old!r} stands {base.count(old)} times in {base}")
        base = base.replace(old, new)
    return base


SOP_KEYS = [
    Pair("sop", "walk", LETTER, "check"),
    Pair("sop", "walk", LETTER, instead="stroll", given=TOPIC),
    Pair("language", 2, LETTER, "check"),
    Pair("description", "Letters about the weather.", LETTER, "people"),
    Pair("inputs", {"topic": "string"}, LETTER, "check"),
    Pair("inputs", {"topic": {"type": "string", "default": "rain"}}, edited(LETTER, ("needs: [topic]", "task: '{{ run.inputs | length }}'"))),
    Pair("inputs.topic", "string", edited(LETTER, ("{topic: string}", "{}")), "check"),
    Pair("inputs.topic.type", "string", FACT, "check"),
    Pair("inputs.topic.type", [{"word": "string"}], FACT, instead="string"),
    Pair("inputs.topic.description", "what the letter is about", edited(FACT, (
        "{look: {value: topic, needs: [topic], makes: fact}}", "{look: {role: scout, needs: [topic], makes: fact}}"), (
        "artifacts:", "roles: {scout: {profile: You look.}}\nartifacts:"))),
    Pair("inputs.topic.default", "rain", edited(FACT, (", default: rain", ""))),
    Pair("defaults", {"steps": {"retries": 1}}, NUMBER, model=wrong_at_first),
    Pair("defaults.steps", {"retries": 1}, NUMBER, model=wrong_at_first),
    Pair("defaults.roles", {"goal": "Short sentences."}, LETTER, given=TOPIC),
    Pair("roles", {"writer": {"profile": "You write."}}, LETTER, "check"),
    Pair("roles.writer", {"profile": "You write."}, LETTER, "check"),
    Pair("artifacts", {"letter": {}}, LETTER, "check"),
    Pair("artifacts.letter", {}, LETTER, "check"),
    Pair("steps", {"write": {"role": "writer", "needs": ["topic"], "makes": "letter"}}, LETTER, "check"),
    Pair("steps.again", {"value": "letter", "needs": ["letter"], "makes": "copy"}, edited(LETTER, ("{letter: {}}", "{letter: {}, copy: {}}")),
         given=TOPIC),
    Pair("outputs", ["letter"], edited(TWO_ROLES, ("{role: scout, makes: news}", "{role: scout, makes: news, when: run.name == 'x'}"))),
    Pair("success", "letter == ''", LETTER, given=TOPIC),
    Pair("budget", {"calls": 0}, LETTER, given=TOPIC),
    Pair("budget.tokens", 10, edited(LETTER, ("inputs:", "budget: {}\ninputs:")), given=TOPIC),
    Pair("budget.calls", 2, edited(SERIES, ("roles:", "budget: {}\nroles:"))),
    Pair("budget.time", 0.05, edited(LETTER, ("inputs:", "budget: {}\ninputs:")), given=TOPIC, model=slow),
    Pair("models", {"default": "python:desk.py:answer"}, LETTER, given=TOPIC, model=None, files={"desk.py": DESK}),
    Pair("tests", {"walks": {"inputs": {"topic": "rain"}}}, LETTER, "test"),
    Pair("tests.walks", {"inputs": {"topic": "rain"}}, edited(LETTER, ("roles:", "tests: {}\nroles:")), "test"),
]

ROLE_KEYS = [
    Pair("roles.writer.role", "scribe", LETTER, "check"),
    Pair("roles.writer.profile", "You write.", edited(LETTER, ("profile: You write.", "goal: Short sentences."))),
    Pair("roles.writer.goal", "Short sentences.", LETTER),
    Pair("roles.writer.constraints", ["no adjectives"], LETTER),
    Pair("roles.writer.prompt", "scribe.md.j2", LETTER, files={"scribe.md.j2": "A scribe for {{ step }}."}),
    Pair("roles.writer.model", "python:desk.py:other", edited(LETTER, ("inputs:", "models: {default: 'python:desk.py:answer'}\ninputs:")),
         model=None, files={"desk.py": DESK}),
    Pair("roles.writer.memory", {"window": "1 turns"}, SERIES),
    Pair("roles.writer.memory.window", "1 turns", edited(SERIES, ("profile: You write.", "profile: You write., memory: {}"))),
    Pair("roles.writer.memory.window", "1 tokens", edited(SERIES, ("profile: You write.", "profile: You write., memory: {}")), form="tokens"),
    Pair("roles.writer.watches", ["news"], WATCHED),
    Pair("roles.writer.budget", {"calls": 2}, SERIES),
    Pair("roles.writer.budget.tokens", 10, edited(TWO_ROLES, ("profile: You write.", "profile: You write., budget: {}"))),
    Pair("roles.writer.budget.calls", 2, edited(SERIES, ("profile: You write.", "profile: You write., budget: {}"))),
    Pair("roles.writer.budget.time", 0.05, edited(TWO_ROLES, ("profile: You write.", "profile: You write., budget: {}")), model=slow),
]

ARTIFACT_KEYS = [
    Pair("artifacts.letter.schema", {"text": "string"}, LETTER),
    Pair("artifacts.notes.each", "integer", edited(NOTES, ("{each: integer}", "{}")), "check"),
    Pair("artifacts.notes.each", "integer", NOTES, instead="string"),
    Pair("artifacts.letter.files", "*.txt", LETTER),
    Pair("artifacts.fact.file", "fact.txt", LISTED),
    Pair("artifacts.fact.render", "fact.j2", edited(LISTED, ("initial:", "file: fact.txt, initial:")),
         files={"fact.j2": "It is {{ fact.name }}."}),
    Pair("artifacts.letter.initial", "Dear you", LETTER),
    Pair("artifacts.number.rules", [{"assert": "number > 0"}], NUMBER),
    Pair("artifacts.number.rules.0.assert", "number > 0", edited(NUMBER, ("schema: integer", "schema: integer, rules: [{message: more}]")),
         "check"),
    Pair("artifacts.number.rules.0.assert", "number > 0",
         edited(NUMBER, ("schema: integer", "schema: integer, rules: [{message: more}]")), instead="number >= 0"),
    Pair("artifacts.number.rules.0.message", "write a larger one",
         edited(NUMBER, ("schema: integer", "schema: integer, rules: [{assert: number > 0}]"))),
    Pair("artifacts.letter.description", "what goes out today", LETTER),
]

DOER_KEYS = [
    Pair("steps.write.role", "writer", LETTER, "check"),
    Pair("steps.write.role", "'writer' if topic else 'scout'", edited(LETTER, ("{writer:", "{scout: {profile: You look.}, writer:")),
         instead="scout"),
    Pair("steps.list_it.run", "cat fact.txt", LISTED, "check"),
    Pair("steps.list_it.run", "cat fact.txt", LISTED, instead="true"),
    Pair("steps.list_it.run", ["echo", "a b"], LISTED, instead="echo a b", form="list"),
    Pair("steps.measure.call", "desk.py:count", CALLED, "check", files={"desk.py": DESK}),
    Pair("steps.measure.call", "desk.py:count", edited(CALLED, ("needs: [words]", "needs: [words], args: {numbers: [1, 2, 4]}")),
         instead="desk.py:total", files={"desk.py": DESK}),
    Pair("steps.look.value", "topic", FACT, "check"),
    Pair("steps.look.value", "topic", FACT, instead="topic | upper"),
    Pair("steps.write.task", "Write about {{ topic }}.", LETTER),
    Pair("steps.write.strategy", "chain_of_thought", LETTER, form="chain_of_thought"),
    Pair("steps.write.strategy", "single", edited(LETTER, ("inputs:", "defaults: {steps: {strategy: chain_of_thought}}\ninputs:")), form="single"),
    Pair("steps.look.parse", "json it.json", edited(RESULTS, ("result: {}", "result: {schema: [integer]}")), form="json FILE"),
    Pair("steps.look.parse", "junit results.xml", RESULTS, form="junit FILE"),
    Pair("steps.look.parse", "junit", edited(RESULTS, ('run: "true"', "run: python -m pytest --co -q")), form="junit"),
    Pair("steps.measure.args", {"step_size": 3}, CALLED, files={"desk.py": DESK}),
    Pair("steps.write.model", "python:desk.py:other", edited(LETTER, ("inputs:", "models: {default: 'python:desk.py:answer'}\ninputs:")),
         model=None, files={"desk.py": DESK}),
]

STEP_KEYS = [
    Pair("steps.write.needs", ["topic"], LETTER),
    Pair("steps.write.wants", ["topic"], edited(LETTER, ("needs: [topic], ", ""))),
    Pair("steps.write.sees", ["topic"], edited(LETTER, ("needs: [topic], ", ""))),
    Pair("steps.look.makes", "fact", FACT, "check"),
    Pair("steps.look.makes", "fact", FACT, instead="other"),
    Pair("steps.write.makes", {"pages": "pages/one.txt"}, PAGES, instead="pages"),
    Pair("steps.write.makes.pages", ["pages/two.txt", "notes.txt"], PAGES, instead="pages/one.txt"),
    Pair("steps.write.when", "topic == 'snow'", LETTER),
    Pair("steps.mend.rounds", 2, LOOP, "check"),
    Pair("steps.mend.rounds", 3, LOOP, instead=2),
    Pair("steps.write.priority", 5, TWO_ROLES),
    Pair("steps.write.timeout", 0.05, LETTER, model=slow),
    Pair("steps.write.retries", 1, NUMBER, model=wrong_at_first),
    Pair("steps.write.on_fail", "skip", NOTES, form="skip", model=loud_at_b),
    Pair("steps.write.on_fail", "stop", edited(NOTES, ("inputs:", "defaults: {steps: {on_fail: skip}}\ninputs:")), form="stop", model=loud_at_b),
    Pair("steps.write.on_fail", {"makes": "lost"}, edited(NOTES, ("{each: integer}", "{each: integer}, lost: {}")), form="makes",
         instead="skip", model=loud_at_b),
    Pair("steps.write.budget", {"calls": 2}, NOTES),
    Pair("steps.write.budget.tokens", 10, edited(NOTES, ("makes:", "budget: {}, makes:"))),
    Pair("steps.write.budget.calls", 2, edited(NOTES, ("makes:", "budget: {}, makes:"))),
    Pair("steps.write.budget.time", 0.05, edited(NOTES, ("makes:", "budget: {}, makes:")), model=slow),
    Pair("steps.write.check", {"run": "false"}, CHECKED),
    Pair("steps.write.check.run", "false", edited(CHECKED, ("makes:", "check: {}, makes:")), "check"),
    Pair("steps.write.check.run", "false", edited(CHECKED, ("makes:", "check: {}, makes:")), instead="true"),
    Pair("steps.write.check.run", ["grep", "-q", "it is"], edited(CHECKED, ("makes:", "check: {}, makes:")), instead="true", form="list"),
    Pair("steps.write.check.call", "desk.py:refuse", edited(CHECKED, ("makes:", "check: {}, makes:")), "check", files={"desk.py": DESK}),
    Pair("steps.write.check.call", "desk.py:refuse", edited(CHECKED, ("makes:", "check: {}, makes:")), instead="desk.py:total",
         files={"desk.py": edited(DESK, ("def total(numbers):\n    return sum(numbers)", "def total(letter):\n    return None"))}),
    Pair("steps.write.check.repairs", 1, edited(CHECKED, ("makes:", "check: {run: 'false'}, makes:"))),
]

FOREACH_KEYS = [
    Pair("steps.write.foreach", {"in": "names"}, edited(NOTES, ("{each: integer}", "{files: '*.txt'}"))),
    Pair("steps.write.foreach.in", "names", NOTES, "check"),
    Pair("steps.write.foreach.in", "names", NOTES, instead="names | reverse | list"),
    Pair("steps.write.foreach.as", "person", NOTES),
    Pair("steps.write.foreach.key", "item | upper", NOTES),
    Pair("steps.write.foreach.after", "item.uses", TASKS),
    Pair("steps.write.foreach.where", "item != 'b'", NOTES),
    Pair("steps.write.foreach.parallel", 1, NOTES),
]

TEST_KEYS = [
    Pair("tests.walks.inputs", {"topic": "snow"}, edited(TESTED, ("walks: {}", "walks: {expect: topic == 'snow'}")), "test"),
    Pair("tests.walks.given", {"letter": "Dear you"}, edited(TESTED, ("walks: {}", "walks: {expect: shout == 'DEAR YOU'}")), "test"),
    Pair("tests.walks.until", "write", edited(TESTED, ("walks: {}", "walks: {expect: not shout}")), "test"),
    Pair("tests.walks.model", "python:desk.py:answer", edited(TESTED, ("walks: {}", "walks: {expect: \"'desk' in letter\"}")), "test",
         files={"desk.py": DESK}),
    Pair("tests.walks.expect", "letter == ''", TESTED, "test"),
]

PAIRS = [*SOP_KEYS, *ROLE_KEYS, *ARTIFACT_KEYS, *DOER_KEYS, *STEP_KEYS, *FOREACH_KEYS, *TEST_KEYS]
