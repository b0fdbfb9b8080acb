"""What is killed at every write of its journal: a small SOP for each strategy, and for each way in which roles work together.

Their models compute what they say from their prompts, so that whatever a resume tells in another way makes another result. Who
pays, does that outside, where it has to happen once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import bytes_files as binary
import test_bytes_paths as bytes_paths
import test_memory_inherited as inherited
import test_memory_shared as shared
import test_plans as plans
import test_run_characters as characters
import test_run_lessons as lessons
import test_run_recall as recall
import test_run_summary as summary
import test_strategies_debate as debate
import test_strategies_hindsight as hindsight
import test_strategies_plan_and_execute as planned
import test_strategies_react as react
import test_strategies_reflexion as reflexion
import test_strategies_route as route
import test_strategies_self_consistency as consistency
import test_strategies_solver as solver
import test_strategies_task_queue as queue
import test_sub_sops as sub_sops
import test_together_progress as progress
import test_together_review as review
import test_together_stuck as stuck
import test_together_talks_to as talks_to
import thought_tree
from embedders import DESK, Embedder
from scripted import Scripted

from benchmarks.papers import reflections
from benchmarks.papers.solver import SOP as SOLVED
from metaflow_agents.kits.planning import solving
from metaflow_agents.memory import indexes
from metaflow_agents.memory.store import Kind
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall

Model = Callable[[ModelRequest], Any]
TILL = """
    import os

    def pay(id: str) -> str:
        '''Pays something.'''
        file = os.open("OUTSIDE", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, f"{id}\\n".encode())
        os.close(file)
        return f"paid {id}"
"""
PAYS = 'tools: {pay: {python: "till:pay", effect: once}}'


@dataclass(frozen=True, slots=True)
class Earlier:
    """What another run has remembered: whose it is, and the text."""

    role: str
    text: str
    kind: Kind = "turn"


@dataclass(frozen=True, slots=True)
class Scene:
    """What is run, and what has to come of it.

    `files` lie beside the SOP; an input that is a `Path` is one of them. `model` makes a model anew for each process, and so do
    `models`, those of a name. `pays`: what is paid. Where calls are made
    `freely`, how many these are, in which order and what they are told depends on what was ready first or on other runs, and
    only what comes of them has to be the same; but what is asked again is told the same. `missing`: what it needs and is not
    installed here. `before`: what other runs have left in the project's memory; `meanwhile`: what one leaves there while this
    one is dead. `every`: of so many writes one kills, where a process of it takes long. `at_work`: what its journal has to tell
    of the minds of its roles (`crash_minds.py`) or of what was done, so that what the scene is for has had its part in it.
    """

    sop: str
    model: Callable[[], Model]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    pays: tuple[str, ...] = ()
    freely: bool = False
    missing: str = ""
    before: tuple[Earlier, ...] = ()
    meanwhile: Earlier | None = None
    every: int = 1
    models: Mapping[str, Callable[[], Model]] = field(default_factory=dict)
    at_work: tuple[str, ...] = ()

    def lay(self, folder: Path, name: str) -> None:
        """Writes the SOP and what lies beside it."""
        for path, held in {f"{name}.yaml": self.sop, **self.files}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(held if isinstance(held, bytes) else dedent(held).encode())

    def given(self, folder: Path) -> dict[str, Any]:
        """Its inputs, where the SOP lies in this folder."""
        return {name: folder / value if isinstance(value, Path) else value for name, value in self.inputs.items()}


def untrusted(sop: str, name: str) -> str:
    """The SOP with a text from outside as its input, so that labels have to come back as well."""
    found = re.sub(rf"\{{{name}: (string|integer)", rf"{{{name}: {{type: \1, trusted: false}}", sop, count=1)
    assert found != sop, name
    return found


def calls(request: ModelRequest, *tools: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(text="", calls=tuple(ToolCall(f"c{place}", name, given) for place, (name, given) in enumerate(tools)))


def was_told(request: ModelRequest) -> list[str]:
    """The names of the tools that have answered."""
    return [str(message.get("name")) for message in request.messages if message["role"] == "tool"]


NEARLY = """
    sop: nearly
    inputs: {letter: string}
    roles: {clerk: {profile: You file.}}
    artifacts: {facts: {schema: {names: [string]}}, note: {files: note.py}}
    steps:
      read: {role: clerk, needs: [letter], makes: facts}
      write: {role: clerk, needs: [facts], makes: note}
"""


def nearly(request: ModelRequest) -> str:
    """Its JSON is broken, does not fit at first, and its only file has words around it. It goes on from what was made of that."""
    said = [str(message["content"]) for message in request.messages]
    if request.step == "write":
        return f"Here it is:\n```python\nNAMES = {sorted(set(re.findall('Jo|Ann', said[-1])))}\n```"
    if "repair" in request.key:
        return f"```json\n{{'names': {re.findall('Jo|Ann', said[-2])},}}\n```"
    return "Sure: {'names': 'Jo, Ann',}"


PATCHED = """
    sop: patched
    inputs: {letter: string}
    roles: {smith: {profile: You code.}}
    artifacts: {source: {files: "src/**", initial: {src/old.py: "a = 1\\nb = 2\\n"}}, told: {}}
    steps:
      mend: {role: smith, needs: [letter], sees: [source], makes: source}
      say: {role: smith, needs: [source], makes: told}
"""


def patching(request: ModelRequest) -> str:
    """A part of its first answer fits: a file and one edit; then it says the rest."""
    if request.step == "say":
        return str(request.messages[-1]["content"])[-300:]
    edit = "=== edit: src/old.py ===\n<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE\n=== end ===\n"
    if "repair" in request.key:
        return edit.format("b = 2", "b = 3")
    return "=== file: src/new.py ===\nn = 1\n=== end ===\n" + edit.format(
        "a = 1", "a = 7\n>>>>>>> REPLACE\n<<<<<<< SEARCH\nc = 2\n=======\nc")


PRINTED = """
    sop: printed
    inputs: {topic: string}
    roles: {clerk: {profile: You write.}}
    artifacts: {page: {file: [page.md, page.html, page.docx]}, told: {}}
    steps:
      print: {role: clerk, needs: [topic], makes: page}
      say: {role: clerk, needs: [page], makes: told}
"""


COPIED = """
    sop: copied
    inputs: {topic: string}
    roles: {clerk: {profile: You repeat.}}
    artifacts: {held: {}, said: {}}
    steps:
      hold: {value: topic, needs: [topic], makes: held}
      say: {role: clerk, needs: [held], makes: said}
"""
"""Each step makes the bytes that the input holds: they are durable from the first write on."""


SINGLE = f"""
    sop: single
    inputs: {{order: string}}
    {PAYS}
    roles: {{clerk: {{profile: You buy., tools: [pay]}}}}
    artifacts: {{bought: {{schema: {{what: [string]}}, file: bought.json}}}}
    steps: {{buy: {{role: clerk, needs: [order], makes: bought}}}}
"""


def buyer(request: ModelRequest) -> Any:
    """Pays for two things in one turn, and for one more in the next; its answer is mended."""
    said = [str(message["content"]) for message in request.messages]
    words = re.findall(r"\b(tea|jam|rum)\b", "\n".join(said[:2]))
    paid = len(was_told(request))
    if "repair" in request.key:
        return {"what": sorted(set(words))}
    if paid < 2:
        return calls(request, *(("pay", {"id": word}) for word in words[:2]))
    return calls(request, ("pay", {"id": words[2]})) if paid < 3 else "All is bought."


THOUGHT = """
    sop: thought
    inputs: {riddle: string}
    roles: {thinker: {profile: You think.}}
    artifacts: {answer: {schema: {letters: integer}}}
    steps: {think: {role: thinker, needs: [riddle], makes: answer, strategy: chain_of_thought}}
"""


def thinker(request: ModelRequest) -> Any:
    if request.key.endswith("/reason"):
        return "a riddle has letters: " + "-".join("riddle")
    return {"letters": sum(message["content"].count("-") + 1 for message in request.messages if message["role"] == "assistant")}


def acting(request: ModelRequest) -> Any:
    """First pays, then adds; once it thinks without acting."""
    if "pay" not in was_told(request):
        return react.act("pay", id="fee")
    if len(react.observed(request)) == 1 and request.messages[-1]["role"] == "tool":
        return "Let me think."
    return react.adder(request)


class Hands(planned.Desk):
    """Does a task by a file and a payment, then tells what it made."""

    async def answer(self, request: ModelRequest) -> Any:
        name = planned.named(request.key)
        if name and name not in self.fails and not was_told(request):
            return calls(request, ("write", {"path": f"out/{name}", "text": f"{name}\n"}), ("pay", {"id": name}))
        if name and name not in self.fails:
            task = next(place for place, message in enumerate(request.messages) if message["role"] == "assistant")
            request = replace(request, messages=request.messages[:task])
        return await super().answer(request)


PLANNED = f"""
    sop: planned
    inputs: {{wish: string}}
    {PAYS}
    roles: {{planner: {{profile: You plan.}}, hand: {{profile: You do., tools: [read, write, pay]}}}}
    artifacts: {{report: {{schema: {{said: [string]}}}}}}
    steps:
      make:
        role: planner
        needs: [wish]
        makes: report
        strategy: {{plan_and_execute: {{executor: hand, every: 3}}}}
"""


def hands() -> Model:
    """Two at once, and one that is begun while the other of them may be under way still; a task fails, and is planned anew."""
    task = planned.task
    wrong, plan = [task("a"), task("b", "A")], [task("a"), task("f"), task("b", "a"), task("c", "b")]
    return Hands(lambda request: plan if "/repair." in request.key else wrong, [task("c", "b"), task("d", "b", "f")],
                 [task("c2", "b")], fails={"c": "no paper"})


CHAPTER = sub_sops.CHAPTER.replace(
    "roles: {writer: {profile: You write.}", f"{PAYS}\n    roles: {{writer: {{profile: You write., tools: [pay]}}")


def author(request: ModelRequest) -> Any:
    """Pays for each draft, within the SOP that is a step."""
    if request.step == "draft" and not was_told(request):
        return calls(request, ("pay", {"id": re.findall(r"Draft (\w+)", str(request.messages[-1]["content"]))[0]}))
    return sub_sops.answer(request)


ADDED_UP = """
    sop: added_up
    inputs: {sums: [{name: string, numbers: [integer]}]}
    roles: {clerk: {profile: You add., tools: [add, pay]}}
    tools: {add: {python: "adding:add", effect: none}, pay: {python: "till:pay", effect: once}}
    artifacts: {totals: {each: {sum: integer}}}
    steps:
      work:
        role: clerk
        needs: [sums]
        foreach: {in: sums, as: one, key: one.name}
        makes: totals
        task: "Add {{ one.numbers }} for {{ one.name }}."
        strategy: {react: {max_steps: 4}}
"""


def adding(request: ModelRequest) -> Any:
    """Pays for its item, then adds its numbers with the tool, one after the other."""
    text = "\n".join(str(message["content"]) for message in request.messages if message["role"] == "user")
    task, sums = re.search(r"Add (\[.*?\]) for (\w+)", text), react.observed(request)
    assert task is not None
    numbers: list[int] = json.loads(task[1])
    if "pay" not in was_told(request):
        return react.act("pay", id=task[2])
    if len(sums) == len(numbers) - 1:
        return json.dumps({"sum": sums[-1]})
    return react.act("add", a=sums[-1] if sums else numbers[0], b=numbers[len(sums) + 1])


TOOLED = """
    sop: tooled
    inputs: {bills: [{id: string, numbers: [integer]}]}
    roles: {clerk: {profile: You tell.}}
    tools: {add: {python: "adding:add", effect: none}, pay: {python: "till:pay", effect: once}}
    artifacts: {sums: {each: integer}, paid: {each: string}, tip: {schema: integer}, lost: {}, told: {},
                receipt: {files: "out/**"}}
    steps:
      count:
        tool: add
        inputs: {a: "one.numbers[0]", b: "one.numbers[1]"}
        needs: [bills]
        foreach: {in: bills, as: one, key: one.id}
        makes: sums
        parse: json
      settle:
        tool: pay
        inputs: {id: one.id}
        needs: [bills, sums]
        foreach: {in: bills, as: one, key: one.id}
        makes: paid
      thank: {tool: pay, inputs: {id: "'tip'"}, needs: [paid], makes: tip, parse: json, retries: 1, on_fail: {makes: lost}}
      note: {tool: write, inputs: {path: "'out/receipt.txt'", text: "sums ~ paid ~ lost.error"},
             needs: [sums, paid, lost], makes: receipt}
      tell: {role: clerk, needs: [receipt, lost], makes: told}
    outputs: [told, receipt]
"""


def telling(request: ModelRequest) -> str:
    """Says what was paid, as the receipt has it."""
    return ", ".join(sorted(set(re.findall(r"paid \w+", str(request.messages[-1]["content"])))))


def learning(request: ModelRequest) -> str:
    """Goes on from the last episode by the beginning of the first."""
    found = re.findall(r'<episode number="\d+">\n(.*?)\n</episode>', str(request.messages[-1]["content"]), re.DOTALL)
    return str(found[-1] + found[0][0]) if found else "a"


def reminded(request: ModelRequest) -> str:
    """Tells what it is reminded of."""
    found = re.findall(r'<memory [^>]*at="(\w+)@', "\n".join(str(message["content"]) for message in request.messages))
    return f"{request.step}, in mind of {', '.join(found) or 'nothing'}"


TOWN = reflections.TOWN.replace(
    "diary: {Klaus: [string], Maria: [string], Isabella: [string]}",
    "diary: {type: {Klaus: [string], Maria: [string], Isabella: [string]}, trusted: false}")
SAW = "live@{2}[{0}]~0: reflection of villager[{0}] on {3}: One cares about {1} before all else"

class Refusing:
    """Answers as it always does; each process is refused once at each of its calls, and tries again."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def refuse(self, request: ModelRequest) -> None:
        if request.key not in self._refused:
            self._refused.add(request.key)
            raise CallFailed("busy", then="again", charged=0, after=0.001, refused=True, busy=True)

    def __call__(self, request: ModelRequest) -> str:
        return "snow"


SHELVED = """
    sop: shelved
    policy: {deny: ["write(old/**)"], ask: ["write(index.txt)", "write(gone.txt)"]}
    inputs: {topic: string}
    roles: {clerk: {profile: You write labels.}}
    artifacts: {labels: {files: "**", initial: {gone.txt: "x"}}, told: {}}
    steps:
      label: {role: clerk, needs: [topic], sees: [labels], makes: labels}
      tell: {role: clerk, needs: [labels], makes: told}
    outputs: [labels, told]
"""


def labelling(request: ModelRequest) -> str:
    """Writes what it may not, mends that, and tells what stands there."""
    said = str(request.messages[-1]["content"])
    if request.step == "tell":
        return ", ".join(sorted(set(re.findall(r"\w+\.txt", said))))
    denied = "" if "is not allowed" in said else "=== file: old/a.txt ===\na\n=== end ===\n"
    return f"{denied}=== file: index.txt ===\nsnow\n=== end ===\n=== delete: gone.txt ===\n"


SCENES: dict[str, Scene] = {
    "asked_answers": Scene(untrusted(SHELVED, "topic"), lambda: labelling, {"topic": "snow"}),
    "single": Scene(SINGLE, lambda: buyer, {"order": "tea, jam and rum"}, pays=("tea", "jam", "rum")),
    "copied": Scene(COPIED, lambda: lambda _: "snow", {"topic": "snow"}),
    "documents": Scene(PRINTED, lambda: lambda _: "# Snow\n\nIt *falls*.\n", {"topic": "snow"}, every=3),
    "repaired": Scene(untrusted(NEARLY, "letter"), lambda: nearly, {"letter": "x"},
                      at_work=("observed read@1~0/turn.0/repaired", "observed write@1~0/turn.0/repaired")),
    "patched": Scene(PATCHED, lambda: patching, {"letter": "x"}),
    "chain_of_thought": Scene(untrusted(THOUGHT, "riddle"), lambda: thinker, {"riddle": "x"}),
    "tried_again": Scene(COPIED, Refusing, {"topic": "snow"}),
    "self_consistency": Scene(
        untrusted(consistency.VOTE, "puzzle").replace("PARAMETERS", "samples: 4, judge: judge"),
        partial(consistency.samples, {"answer": "a"}, {"answer": "b"}, {"answer": "b"}, {"answer": "a"}), {"puzzle": "x"}),
    "react": Scene(
        react.SUMS.replace("ARTIFACT", "{schema: {sum: integer}}").replace("PARAMETERS", "max_steps: 4").replace(
            'effect: none}', 'effect: none}, pay: {python: "till:pay", effect: once}').replace("[add]", "[add, pay]"),
        lambda: acting, {"numbers": [3, 5, 8, 13]}, pays=("fee",)),
    "reflexion": Scene(
        reflexion.GUESS.replace("PARAMETERS", 'evaluator: {run: [grep, "[3-9]", guess.json]}'),
        lambda: reflexion.learner, {"limit": 3}),
    "reflexion_by_a_role": Scene(reflexion.GUESS.replace("PARAMETERS", "evaluator: {role: judge}, trials: 2, unsolved: last"),
                                 lambda: reflexion.learner, {"limit": 3}),
    "route": Scene(
        untrusted(route.DESK, "question").replace(", tools: [read], model: verse", "").replace(
            '    models: {verse: "python:verses.py:poem"}\n', ""),
        lambda: route.clerk, {"question": "add numbers up: 3 and 4"}),
    "debate": Scene(untrusted(debate.DESK, "question").replace("PARAMETERS", "roles: [low, high, low], rounds: 2, judge: judge"),
                    lambda: debate.meeting, {"question": "x"}),
    "hindsight": Scene(hindsight.LOOP.replace("PARAMETERS", hindsight.quoted(hindsight.OF_VERSIONS)), lambda: hindsight.follows,
                       at_work=("write@5~0: hindsight [0, 1, 2, 3]",)),
    "plan_and_execute": Scene(PLANNED, hands, {"wish": "x"}, pays=("a", "b", "c2", "d", "f")),
    "task_queue": Scene(untrusted(queue.REPORT, "wish").replace("PARAMETERS", "tasks: 3"), partial(queue.Builder, queue.SORTED),
                        {"wish": "x"}),
    "tree_of_thoughts_breadth_first": Scene(
        untrusted(thought_tree.SOP, "riddle").replace("PARAMETERS", json.dumps({"depth": 2, "breadth": 2, "samples": 2})),
        thought_tree.astray, {"riddle": "x"}),
    "tree_of_thoughts_depth_first": Scene(
        thought_tree.SOP.replace("PARAMETERS", json.dumps({"search": "dfs", "depth": 2, "threshold": 0.5, "samples": 1})),
        thought_tree.astray, {"riddle": "x"}),
    "solver": Scene(
        SOLVED.replace("PARAMETERS", "plan: answer.steps"), lambda: solver.answer, {"rules": "", "story": "Light."},
        missing=solving.missing(), every=4),
    "review": Scene(untrusted(review.LETTER, "topic"), lambda: review.writing, {"topic": "snow"}),
    "talks_to": Scene(talks_to.TEAM, lambda: talks_to.team, {"idea": "x"}),
    "stuck": Scene(stuck.loop("{}"), lambda: stuck.stubborn("lacks a y"), {"wish": "w"}),
    "stuck_in_a_step": Scene(stuck.CHECKED.replace(" STUCK", ", stuck: {}"), lambda: stuck.judged, {"wish": "w"}),
    "progress": Scene(progress.SERIES.replace(" MORE", progress.MORE), lambda: progress.author, {"topic": "sea"}, freely=True,
                      at_work=("finished progress@1", "fired plan_it@2")),
    "graph": Scene(plans.REPLANNED, lambda: plans.replanning, {"goal": "x"}),
    "sop": Scene(sub_sops.BOOK.replace("KEYS", "retries: 0"), lambda: author, {"topic": "rain"}, {"chapter.yaml": CHAPTER},
                 pays=("a", "b")),
    "recall": Scene(
        recall.DESK.replace("RECALL", "from: project, top: 2").replace(" JUDGE", ""),
        lambda: recall.poet(first=9, third=4), {"topic": "tea"}, at_work=("fourth@1~0: recalled first@1~0, second@1~0",)),
    "lessons": Scene(
        untrusted(lessons.GUESS, "limit").replace("MEMORY", "lessons: 2"), lambda: lessons.learner, {"limit": 3},
        at_work=("solve@1~0: lesson of solver: 2 is too small.", "repeat@1~0: lessons solve@1~0, solve@1~0")),
    "recall_beside_other_runs": Scene(
        recall.DESK.replace("RECALL", "from: project, top: 2, importance: 0").replace(" JUDGE", ""), recall.poet,
        {"topic": "tea"}, freely=True, meanwhile=Earlier("poet", "A poem on tea, a whale and the weather.")),
    "react_in_foreach": Scene(
        ADDED_UP, lambda: adding, {"sums": [{"name": "low", "numbers": [1, 2, 4]}, {"name": "high", "numbers": [30, 50, 80]}]},
        pays=("high", "low"), at_work=("done work@1[low]~0/step.2/tool.0", "done work@1[high]~0/step.2/tool.0")),
    "tool_steps": Scene(
        TOOLED, lambda: telling, {"bills": [{"id": "low", "numbers": [1, 2]}, {"id": "high", "numbers": [30, 50]}]},
        pays=("high", "low", "tip"), at_work=("done settle@1[high]~0/tool.0", "failed thank@1~1")),
    "hindsight_of_episodes": Scene(
        hindsight.LOOP.replace("PARAMETERS", hindsight.quoted("episodes: history('draft')")), lambda: learning,
        at_work=("write@5~0: hindsight 4",)),
    "lessons_of_other_runs": Scene(
        untrusted(lessons.GUESS, "limit").replace("MEMORY", "lessons: 2"), lambda: lessons.learner, {"limit": 4}, freely=True,
        before=(Earlier("solver", "2 is too small.", "lesson"),), meanwhile=Earlier("solver", "1 is too small.", "lesson"),
        at_work=("solve@1~0: lessons another write@0~0", "solve@1~0: lesson of solver: 3 is too small.",
                 "repeat@1~0: lessons another write@0~0, solve@1~0")),
    "summary": Scene(
        untrusted(summary.CHAIN.replace("CODE", "string"), "code"), summary.clerk, {"code": "x4711"},
        at_work=("third@1~0: summary of clerk of 1 before: kept: x4711",
                 "recite@1~0: summary of clerk of 3 before: kept: x4711 kept: plum kept: pear")),
    "characters": Scene(
        characters.TOWN.replace(" MEMORY", ""), characters.villager, {"people": characters.PEOPLE[1:]},
        at_work=("hear@1[Maria%20Lopez]~0: turn of villager[Maria Lopez]", "hear@1[Isabella]~0: turn of villager[Isabella]")),
    "characters_that_recall": Scene(
        characters.TOWN.replace(" MEMORY", ", memory: {window: 1 tokens, recall: {}}"), characters.villager,
        {"people": characters.PEOPLE[1:]},
        at_work=("tell@1[Isabella]~0: recalled hear@1[Isabella]~0",)),
    "memory_of": Scene(
        shared.UNTRUSTED.replace(" MEMORY", ", memory: {window: 1 tokens, recall: {importance: 0}}"),
        shared.serving,
        {"letters": shared.LETTERS, "customers": ["Ada", "Bob"]},
        at_work=("take@1[2]~0: turn of [customer Bob]", "mend@1[Ada]~0: recalled take@1[1]~0, take@1[3]~0",
                 "mend@1[Ada]~0: turn of [customer Ada]", "mend@1[Bob]~0: recalled take@1[2]~0")),
    "inherits_memory": Scene(
        untrusted(inherited.OUTER, "secret").replace(" INHERITS", ", inherits_memory: true").replace(
            " MEMORY", inherited.RECALLS),
        inherited.model, {"secret": "figs"}, {"inner.yaml": inherited.INNER.replace(" RECALL", "")}, freely=True,
        at_work=("enter@1~0/tell@1~0: recalled begin@1~0, enter@1~0/note@1~0",)),
    "reflections": Scene(
        TOWN, lambda: reflections.villager, {"people": ["Klaus", "Maria"], "diary": reflections.DIARY}, every=3,
        at_work=(SAW.format("Klaus", "research", 3, "live@1[Klaus]~0, live@3[Klaus]~0"),
                 SAW.format("Maria", "party", 2, "live@1[Maria]~0, live@2[Maria]~0"),
                 "ask@1[Maria]~0: recalled live@2[Maria]~0")),
    "reflections_beside_other_runs": Scene(
        TOWN, lambda: reflections.villager, {"people": ["Maria"], "diary": reflections.DIARY}, freely=True, every=3,
        before=(Earlier("villager[Maria]", "You swept."),), meanwhile=Earlier("villager[Maria]", "You slept."),
        at_work=("live@1[Maria]~0: recalled another write@0~0",
                 SAW.format("Maria", "party", 1, "live@1[Maria]~0"))),
    "embeddings": Scene(
        untrusted(DESK, "topic").replace("RECALL", "embeddings: senses, top: 1"), lambda: reminded, {"topic": "Whales"},
        models={"senses": Embedder}, missing=indexes.missing("hnsw"),
        at_work=("fourth@1~0: recalled first@1~0",)),
    "bytes": Scene(
        binary.CHANGED, lambda: bytes_paths.clerk, {"things": Path("given"), "one": Path("given/v/rgba.png")},
        {"inside.yaml": binary.INSIDE, "fns.py": binary.CHANGING,
         **{f"given/v/{name}": binary.real()[name] for name in ("rgba.png", "one.pdf", "sums.xlsx", "silence.wav", "sans.ttf")}},
        at_work=("done tool@1~0/turn.0/tool.0",)),
}
"""By name. The test that looks for a scene of each strategy reads the SOPs."""
__all__ = ["SCENES", "Scene", "Scripted"]