"""Pairs for the parameters of strategies: what `walk_pairs.py` hands on. The models compute what they say from key and prompt."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import walk_acting

from metaflow_agents.models.port import ModelRequest

THOUGHT = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter, strategy: {chain_of_thought: {}}}}
"""
VOTED = """
sop: walk
roles: {writer: {profile: You write.}, judge: {profile: You judge.}, other: {profile: You judge too.}}
artifacts: {letter: {schema: {word: string, place: integer}}}
steps: {write: {role: writer, makes: letter, strategy: {self_consistency: {samples: 4}}}}
"""
ACTED = """
sop: walk
roles: {writer: {profile: You write., tools: [count]}}
tools: {count: {python: "counting:count"}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter, strategy: {react: {max_steps: 3}}}}
"""
QUEUED_FILES = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {letter: {files: "letters/**"}}
steps: {write: {role: writer, makes: letter, strategy: {task_queue: {}}}}
"""
ENDED = ACTED.replace("letter: {}", "letter: {files: 'letters/**'}")
TRIED = """
sop: walk
roles: {writer: {profile: You write.}, judge: {profile: You judge.}, other: {profile: You judge too.}}
artifacts: {number: {schema: integer, file: number.json}}
steps: {write: {role: writer, makes: number, strategy: {reflexion: {evaluator: {assert: answer > 3}, trials: 5}}}}
"""
ROUTED = """
sop: walk
roles: {writer: {profile: You hand on.}, poet: {profile: You write verse.}, clerk: {profile: You file.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter, strategy: {route: {experts: {poet: {}, clerk: {}}}}}}
"""
DEBATED = """
sop: walk
roles: {writer: {profile: You write.}, poet: {profile: You write verse.}, judge: {profile: You judge.}}
artifacts: {letter: {schema: {word: string, place: integer}}}
steps: {write: {role: writer, makes: letter, strategy: {debate: {roles: [writer, poet]}}}}
"""
RATED = """
sop: walk
inputs: {past: {type: [{text: string, mark: integer}], default: [{text: a, mark: 1}, {text: b, mark: 3}, {text: c, mark: 2}]}}
roles: {writer: {profile: You write.}}
artifacts: {letter: {}}
steps:
  write:
    role: writer
    needs: [past]
    makes: letter
    strategy: {hindsight: {outputs: "past | map(attribute='text') | list", ratings: "past | map(attribute='mark') | list"}}
"""
EPISODES = """
sop: walk
inputs: {past: {type: [string], default: [a, b, c]}}
roles: {writer: {profile: You write.}}
artifacts: {letter: {}}
steps: {write: {role: writer, needs: [past], makes: letter, strategy: {hindsight: {episodes: past}}}}
"""
PLANNED = """
sop: walk
roles: {writer: {profile: You write.}, other: {profile: You do.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter, strategy: {plan_and_execute: {}}}}
"""
QUEUED = """
sop: walk
roles: {writer: {profile: You write.}, other: {profile: You do.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter, strategy: {task_queue: {}}}}
"""
TREE = """
sop: walk
roles: {writer: {profile: You write.}, judge: {profile: You judge.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter, strategy: {tree_of_thoughts: {depth: 2, breadth: 2, samples: 2}}}}
"""
SWITCHES = """(define (domain switches)
(:predicates (lamp ?l) (lit ?l))
(:action press :parameters (?l) :precondition (and (lamp ?l) (not (lit ?l))) :effect (lit ?l)))"""
LAMPS = """(define (problem lamps) (:domain switches)
(:objects a b) (:init (lamp a) (lamp b)) (:goal (and (lit a) (lit b))))"""
SOLVED = f"""
sop: walk
inputs: {{rules: {{type: string, default: {json.dumps(SWITCHES)}}}}}
roles: {{writer: {{profile: You write.}}}}
artifacts: {{letter: {{schema: {{steps: [string]}}}}}}
steps: {{write: {{role: writer, needs: [rules], makes: letter, strategy: {{solver: {{}}}}}}}}
"""
A_TEMPLATE = {"other.j2": "In other words.", **walk_acting.FILES}


async def samples(request: ModelRequest) -> Any:
    """`a`, `b`, `b`, `a`, each with its place; a judge takes the second of those that it is shown."""
    found = re.search(r"/vote\.s(\d+)/", request.key)
    return {"best": 2, "why": ""} if found is None else {"word": "abba"[int(found[1]) % 4], "place": int(found[1])}


async def trials(request: ModelRequest) -> Any:
    """The number of the trial; a lesson that names it. Judges find the third good, one of them the fourth alone."""
    number = int(re.search(r"/trial\.(\d+)/", request.key)[1]) if "/trial." in request.key else 0     # type: ignore[index]
    if request.key.endswith("/lesson"):
        return f"It is not {number}."
    return {"good": number > (2 if request.role == "judge" else 3), "why": request.role} if "/verdict" in request.key else number


async def routed(request: ModelRequest) -> Any:
    """The first of the experts, and one word for it."""
    if request.key.endswith("/choice") and request.schema is not None:
        return {"expert": request.schema["properties"]["expert"]["enum"][0], "why": "it is the first"}
    return {"words": 1} if request.key.endswith("/arguments") else f"by {request.role}"


async def debated(request: ModelRequest) -> Any:
    """All give the same word, each its place; a judge takes the second."""
    found = re.search(r"/debater\.(\d+)/", request.key)
    return {"best": 2, "why": ""} if found is None else {"word": "a", "place": int(found[1])}


async def planned(request: ModelRequest) -> Any:
    """A plan of three tasks, of two where it is mended; one of them fails, and the next plan does without it."""
    if "/task." in request.key:
        for _ in range(50):                     # the others go on meanwhile
            await asyncio.sleep(0)
        failed = request.key.endswith("task.c/turn.0")
        names = request.schema["properties"]["results"]["properties"] if request.schema else {}
        return {"ok": not failed, "why": "no paper" if failed else "", "results": dict.fromkeys(names, "done")}
    if "/plan." not in request.key:
        return "a word"
    names = "d" if "/plan.0" not in request.key else "ab" if "/repair." in request.key else "abc"
    return {"tasks": [{"name": one, "does": one, "needs": [], "makes": [f"{one}.out"], "value": 1, "effort": 1} for one in names]}


async def queued(request: ModelRequest) -> Any:
    """Two tasks, of one where it is mended, and after each of the first two another; the last one first."""
    if request.key.endswith("/order"):
        waiting = re.findall(r"(?m)^- (\d+): ", str(request.messages[-1]["content"]))
        return {"order": [int(number) for number in reversed(waiting)]}
    if "/create" not in request.key:
        return {"ok": True, "result": "done"} if "/do/" in request.key else "a word"
    after = re.search(r"/queue\.(\d)/", request.key)
    new = ["a"] if "/repair." in request.key else ["a", "b"] if after is None else ["c", "d"][int(after[1]):int(after[1]) + 1]
    return {"tasks": new}


async def tree(request: ModelRequest) -> Any:
    """From every way `b`, `c` and `a` go on, and of them `a` is the best. Votes are for the last of those that are shown."""
    said = str(next(message["content"] for message in request.messages if message["role"] == "user"))
    path, asked = re.findall(r"<thought .*?>\n(.*?)\n</thought>", said), request.key.rpartition("/")[2]
    if asked.endswith(".propose"):
        return {"thoughts": ["b", "c", "a"]}
    if ".sample." in asked:
        return "bca"[int(asked[-1]) % 3]
    if ".tot." not in f".{asked}":
        return "-".join(path)
    properties = (request.schema or {})["properties"]
    if ".vote." in asked:
        return {"why": "", "best": properties["best"]["enum"][-1]}
    return {"why": "", "value": properties["value"]["enum"]["abc".index(path[-1]) if path else 0]}


async def translated(request: ModelRequest) -> Any:
    """Both texts, the problem first with a name that is not there; an answer whose plan is mended by what is told of it."""
    if "/turn.0" in request.key or "/plan." in request.key:
        return {"steps": ["(press a)", "(press b)"] if "/plan." in request.key else ["(press a)", "(press a)"]}
    problem = LAMPS if "/mend." in request.key else LAMPS.replace("(lamp b)", "(lmp b)")
    texts = {"domain.pddl": SWITCHES, "problem.pddl": problem}
    if "=== file: domain.pddl" not in str(request.messages[-1]["content"]):
        texts.pop("domain.pddl")
    return "\n".join(f"=== file: {name} ===\n{text}\n=== end ===" for name, text in texts.items())


def planned_apart(argv: Sequence[str], timeout: float) -> bytes:
    """What stands for the planner: its plan has another order where it is to be the shortest, or has more time."""
    lamps = "ba" if "fast-downward-opt" in argv or timeout > 60 else "ab"
    return json.dumps({"status": "solved", "plan": "\n".join(f"(press {lamp})" for lamp in lamps), "told": ""}).encode()


class Way(NamedTuple):
    """A parameter's value, what stands there on the other side (None: nothing), and what both sides have besides."""

    value: Any
    instead: Any = None
    also: Mapping[str, Any] = {}


async def words(request: ModelRequest) -> Any:
    """Always the same."""
    return "a word"


STRATEGIES: dict[str, tuple[str, Any, Mapping[str, Way]]] = {
    "chain_of_thought": (THOUGHT, words, {"prompts.reason": Way("other.j2"), "prompts.answer": Way("other.j2")}),
    "self_consistency": (VOTED, samples, {
        "samples": Way(2, 3), "compare": Way("answer.word"), "judge": Way("judge"), "temperature": Way(0.5),
        "prompts.judge": Way("other.j2", also={"judge": "judge"})}),
    "react": (ACTED, walk_acting.acting, {
        "max_steps": Way(4), "prompts.act": Way("other.j2"), "prompts.correct": Way("other.j2"),
        "prompts.best": Way("other.j2")}),
    "reflexion": (TRIED, trials, {
        "evaluator": Way({"assert": "answer > 1"}, {"role": "judge"}), "evaluator.assert": Way("answer > 1", "answer > 2"),
        "evaluator.run": Way("true", "false", {"evaluator": {}}), "evaluator.role": Way("judge", "other", {"evaluator": {}}),
        "trials": Way(4), "lessons": Way(1), "unsolved": Way("last", also={"trials": 2}), "prompts.trial": Way("other.j2"),
        "prompts.reflect": Way("other.j2")}),
    "route": (ROUTED, routed, {
        "experts": Way({"clerk": {}, "writer": {}}, {"poet": {}, "clerk": {}}),
        "experts.poet": Way({}, None, {"fallback": "writer"}),
        "experts.poet.about": Way("for verse"), "experts.poet.takes": Way({"words": "integer"}), "fallback": Way("writer"),
        "prompts.choose": Way("other.j2"), "prompts.extract": Way("other.j2", also={"experts.poet.takes": {"words": "integer"}}),
        "prompts.work": Way("other.j2")}),
    "debate": (DEBATED, debated, {
        "roles": Way(["poet", "writer"], ["writer", "poet"]), "rounds": Way(1), "compare": Way("answer.word"),
        "judge": Way("judge"), "prompts.round": Way("other.j2"), "prompts.judge": Way("other.j2", also={"judge": "judge"})}),
    "hindsight": (RATED, words, {
        "outputs": Way("past | map(attribute='text') | reverse | list", "past | map(attribute='text') | list"),
        "ratings": Way("past | map(attribute='mark') | reverse | list", "past | map(attribute='mark') | list"),
        "best": Way(5), "most": Way(2), "prompts.outputs": Way("other.j2")}),
    "plan_and_execute": (PLANNED, planned, {
        "tasks": Way(2), "parallel": Way(1), "replans": Way(0), "every": Way(1), "executor": Way("other"),
        "prompts.plan": Way("other.j2"), "prompts.replan": Way("other.j2"), "prompts.execute": Way("other.j2"),
        "prompts.answer": Way("other.j2")}),
    "task_queue": (QUEUED, queued, {
        "tasks": Way(1), "queue": Way(1), "reprioritise": Way(False), "executor": Way("other"),
        "prompts.create": Way("other.j2"), "prompts.execute": Way("other.j2"), "prompts.reprioritise": Way("other.j2"),
        "prompts.answer": Way("other.j2")}),
    "solver": (SOLVED, translated, {
        "domain": Way("rules"), "plan": Way("answer.steps"), "objects": Way("answer.steps"), "optimal": Way(True),
        "repairs": Way(0), "time": Way("2m"),
        "prompts.translate": Way("other.j2"), "prompts.mend": Way("other.j2"), "prompts.answer": Way("other.j2")}),
    "tree_of_thoughts": (TREE, tree, {
        "thought": Way("a letter"), "depth": Way(1), "search": Way("dfs"), "breadth": Way(1), "generate": Way("sample"),
        "thoughts": Way(4), "evaluate": Way("vote"), "samples": Way(1), "values": Way({"good": 3, "fair": 2, "poor": 1}),
        "threshold": Way(10), "finished": Way("path | last == 'c'"),
        "expansions": Way(1, also={"search": "dfs"}), "judge": Way("judge"), "answer": Way("last"),
        "temperature": Way(0.5), "prompts.propose": Way("other.j2"),
        "prompts.sample": Way("other.j2", also={"generate": "sample"}),
        "prompts.value": Way("other.j2"), "prompts.vote": Way("other.j2", also={"evaluate": "vote"}),
        "prompts.answer": Way("other.j2")}),
}
"""Strategy → its base, its model, and its parameters."""
