"""Pairs for the parameters of strategies: what `walk_pairs.py` hands on. The models compute what they say from key and prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
TRIED = """
sop: walk
roles: {writer: {profile: You write.}, judge: {profile: You judge.}, other: {profile: You judge too.}}
artifacts: {number: {schema: integer, file: number.json}}
steps: {write: {role: writer, makes: number, strategy: {reflexion: {evaluator: {assert: answer > 3}, trials: 5}}}}
"""
TREE = """
sop: walk
roles: {writer: {profile: You write.}, judge: {profile: You judge.}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter, strategy: {tree_of_thoughts: {depth: 2, breadth: 2, samples: 2}}}}
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
    "tree_of_thoughts": (TREE, tree, {
        "thought": Way("a letter"), "depth": Way(1), "search": Way("dfs"), "breadth": Way(1), "generate": Way("sample"),
        "thoughts": Way(4), "evaluate": Way("vote"), "samples": Way(1), "values": Way({"good": 3, "fair": 2, "poor": 1}),
        "threshold": Way(10), "expansions": Way(1, also={"search": "dfs"}), "judge": Way("judge"), "answer": Way("last"),
        "prompts.propose": Way("other.j2"), "prompts.sample": Way("other.j2", also={"generate": "sample"}),
        "prompts.value": Way("other.j2"), "prompts.vote": Way("other.j2", also={"evaluate": "vote"}),
        "prompts.answer": Way("other.j2")}),
}
"""Strategy → its base, its model, and its parameters."""
