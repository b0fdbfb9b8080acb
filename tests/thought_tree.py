"""A model that knows a tree of thoughts, for the tests of `tree_of_thoughts`, and what a run's journal tells of its search."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripted import write

from metaflow_agents import run
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Observed
from metaflow_agents.schema.payload import Data, unpack

SOP = """
    sop: think
    inputs: {riddle: string}
    roles: {thinker: {profile: You think.}, judge: {profile: You judge.}}
    artifacts: {solved: {schema: {answer: string}}}
    steps:
      solve:
        {role: thinker, needs: [riddle], makes: solved, task: "Solve {{ riddle }}.", strategy: {tree_of_thoughts: PARAMETERS}}
"""
Way = tuple[str, ...]
LETTERS: dict[Way, list[str]] = {(): ["a", "b", "c"], ("a",): ["a", "b"], ("b",): ["a", "b"], ("c",): ["a", "b"]}
LEADS_ASTRAY: dict[Way, list[str]] = {("a",): ["sure"], ("b",): ["likely"], ("c",): ["impossible"], ("a", "a"): ["impossible"],
                                      ("a", "b"): ["impossible"], ("b", "b"): ["sure"]}
"""Judgements of these letters: of the beginnings the most valued leads nowhere."""
UNTYPED = SOP.replace("{schema: {answer: string}}", "{}")


class Tree:
    """A model that knows a tree: it reads from its prompt where in it the search stands.

    `children`: way → thoughts. `values`: way → judgements in the order of the samples, the last one for all others; one of
    several words is not in form. `votes`: of each sample the way that it votes for, from its beginning on. `answer` makes the
    answer of the request and the way.
    """

    def __init__(self, children: Mapping[Way, Sequence[str]], values: Mapping[Way, Sequence[str]] | None = None,
                 votes: Sequence[Way] = (), answer: Any = None) -> None:
        self.children, self.values, self.votes = children, values or {}, votes
        self.answer = answer
        self.asked: dict[str, str] = {}
        self.hot = set[tuple[str, float | None]]()

    async def __call__(self, request: Any) -> Any:
        assert request.key not in self.asked, "no two calls have the same key"
        said = next(message["content"] for message in request.messages if message["role"] == "user")
        self.asked[request.key] = "\n".join(str(message["content"]) for message in request.messages)
        self.hot.add((request.key, request.parameters.get("temperature")))
        await asyncio.sleep(0)
        place = re.search(r"/tot\.d\d+\.(?:n\d+\.)?(\w+)(?:\.s(\d+))?", request.key)
        path = path_of(said)
        if place is None:
            return self.answer(request, path) if self.answer else {"answer": "-".join(path)}
        kind, sample = place[1], int(place[2] or 0)
        if kind == "propose":
            return {"thoughts": list(self.children.get(path, []))}
        if kind == "sample":
            return f" {self.children[path][sample]}\n"
        if kind == "vote":
            ways = [path_of(way) for way in re.findall(r"<way .*?</way>", said, re.DOTALL)]
            best = [number for number, way in enumerate(ways, 1) if self.votes[sample][:len(way)] == way]
            return {"why": "so", "best": best[0]} if best else "no vote"
        words = self.values.get(path, ["likely"])
        word = words[min(sample, len(words) - 1)]
        return word if " " in word else {"why": "so", "value": word}

    @property
    def keys(self) -> list[str]:
        """Of its calls, below the activation's."""
        return [key.partition("~")[2][2:] for key in self.asked]


def astray() -> Tree:
    """Letters, of which the first looks best."""
    return Tree(LETTERS, LEADS_ASTRAY)


def path_of(said: str) -> Way:
    return tuple(re.findall(r"<thought number=\"\d+\">\n(.*?)\n</thought>", said, re.DOTALL))


def desk(folder: Path, parameters: Any, text: str = SOP, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    return write(folder, text.replace("PARAMETERS", json.dumps(parameters)), **files)


async def solved(folder: Path, model: Any, text: str = SOP, **parameters: Any) -> Any:
    """The answer, of a run whose journal stays."""
    path = desk(folder, parameters, text)
    result = await run(path, riddle="x", model=model, workspace=folder, name="r", sandbox="none")
    assert result.ok, result
    found = result["solved"]
    return found["answer"] if isinstance(found, dict) and "answer" in found else found


def noted(folder: Path, name: str = "r") -> dict[str, Any]:
    """What the journal tells of the search: branch → note."""
    found = {}
    with Journal.read(folder / ".journals" / f"{name}.db") as journal:
        for _, event in journal.events(Observed):
            payload = unpack(journal.blob(event.payload))
            assert isinstance(payload, Data)
            found[event.key.rpartition("/")[2]] = payload.value
    return found
