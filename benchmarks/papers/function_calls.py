"""The Berkeley Function-Calling Leaderboard (BFCL): its functions as tools, its possible answers, and all that makes one wrong.

Patil et al., "The Berkeley Function Calling Leaderboard" (ICML 2025). The functions go the way of an MCP server's tools. Their
schemas are in a dialect of Python's types (`dict`, `float`, `tuple`), which is read as the leaderboard's own checker does. That
checker, too, refuses a call that lacks a required argument, and one with an argument that the function does not name.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.papers.row import PaperRow
from metaflow_agents.agent.offered import Offered
from metaflow_agents.tools.arguments import faults_of
from metaflow_agents.tools.mcp_listing import Listing
from metaflow_agents.tools.toolbox import Toolbox

KINDS = ("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance")
CONTRADICTING = {
    "a value that the schema does not take": {
        "simple_python_358": "diet", "multiple_76": "material", "parallel_152": "mod, 2 calls",
        "parallel_multiple_94": "elements", "parallel_multiple_194": "unit"},
    "a required argument left out": {"simple_python_200": "fuel_efficiency", "parallel_88": "initial_velocity"},
    "an argument that the schema has not": {"parallel_multiple_12": "permeability", "parallel_multiple_26": "type"},
}
"""How a possible answer contradicts the schema beside it, in which questions, by which argument; six calls in the first way.
Nothing else of BFCL may be refused.
"""
WORDS = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list",
         "object": "an object"}
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
_SAMPLES: dict[str, Any] = {"string": "seven", "integer": 7, "number": 7.5, "boolean": True, "array": ["seven"],
                            "object": {"a": 7}, "null": None}
Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """The functions of a question, as an MCP server would offer them, and its gold calls: function, argument → what it may be."""

    id: str
    tools: tuple[Mapping[str, Any], ...]
    gold: tuple[tuple[str, Mapping[str, Sequence[Any]]], ...]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A call that something is wrong with, and what the message about it has to say."""

    kind: str
    arguments: dict[str, Any]
    told: str


@dataclass
class Counts:
    """What was accepted and refused. `unusable`: functions with why; `refused`: answers, by question. Of wrong calls, by kind:
    how many there are, how many were refused with the message that was wanted, and how many of these a program made right that
    does what the message says.
    """

    functions: int = 0
    unusable: dict[str, str] = field(default_factory=dict)
    answers: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)


def questions(data: Path, kinds: Iterable[str] = KINDS) -> Iterator[Question]:
    """All questions of these kinds; those of irrelevance have no gold calls."""
    for kind in kinds:
        answers = data / "bfcl/possible_answer" / f"{kind}.jsonl"
        gold = {one["id"]: one["ground_truth"] for one in _lines(answers)} if kind != "irrelevance" else {}
        for one in _lines(data / "bfcl" / f"{kind}.jsonl"):
            tools = tuple({"name": function["name"], "description": function["description"],
                           "inputSchema": in_json_schema(function["parameters"])} for function in one["function"])
            yield Question(one["id"], tools, tuple(pair for call in gold.get(one["id"], ()) for pair in call.items()))


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def in_json_schema(node: Any) -> Any:
    """A schema of the set as JSON Schema."""
    if isinstance(node, list):
        return [in_json_schema(each) for each in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    found = {name: in_json_schema(each) for name, each in node.items()}
    if isinstance(kind, str):
        found["type"] = _TYPES.get(kind, kind)
        if found["type"] is None:
            del found["type"]
    return found


# -- possible answers

def answers(gold: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """The possible answers of one call: each value of each argument once, beside the first value of all others.

    No schema of the set makes one argument depend on another, so that no more combinations say more. An empty text among the
    values says that an argument may be left out.
    """
    options = {name: [one for value in allowed if value != "" for one in variants(value)] for name, allowed in gold.items()}
    first = {name: values[0] for name, values in options.items() if values}
    yield first
    for name, allowed in gold.items():
        yield from ({**first, name: value} for value in options[name][1:])
        if "" in allowed and name in first:
            yield {other: value for other, value in first.items() if other != name}


def variants(value: Any) -> list[Any]:
    """A value; of an object, whose fields are lists of what they may be, all that it may be, each field on its own."""
    if isinstance(value, dict) and all(isinstance(allowed, list) for allowed in value.values()):
        return list(answers(value))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        parts = [variants(part) for part in value]
        first = [part[0] for part in parts]
        return [first, *([*first[:place], one, *first[place + 1:]] for place, part in enumerate(parts) for one in part[1:])]
    return [value]


# -- what makes them wrong

def wrongs(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Iterator[Wrong]:
    """Every way to get one thing wrong in a call: an argument, or a field inside of one, missing, unknown, misspelt, mistyped."""
    for path, node, value in places(schema, arguments):
        where = spelt(path)
        if isinstance(value, dict) and "properties" in node:
            yield from _names_wrong(path, node, value, arguments)
        if path and "enum" in node:
            listed = ", ".join(json.dumps(one, ensure_ascii=False) for one in node["enum"])
            yield Wrong("value", put(arguments, path, "none of them"), f'`{where}` is "none of them"; expected one of {listed}')
        if path and node.get("type") in WORDS and "enum" not in node:
            for kind, sample in _SAMPLES.items():
                if kind != node["type"] and (kind, node["type"]) != ("integer", "number"):
                    shown = json.dumps(sample)
                    yield Wrong("type", put(arguments, path, sample), f"`{where}` is {shown}; expected {WORDS[node['type']]}")


def _names_wrong(path: Path_, node: Mapping[str, Any], value: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[Wrong]:
    known = node["properties"]
    for name in value:
        if name in node.get("required", ()):
            wanted = WORDS.get(known[name].get("type"), "a value") if "enum" not in known[name] else "one of "
            yield Wrong("missing", put(whole, path, _without(value, name)),
                        f"`{spelt((*path, name))}` is missing; expected {wanted}")
        for other in misspelt(name):
            if other not in known and name in known:
                renamed = {other if one == name else one: each for one, each in value.items()}
                yield Wrong("name", put(whole, path, renamed), f"`{spelt((*path, other))}` is no argument of this tool: ")
    if known or not path:
        there = ", ".join(f"`{one}`" for one in known) or "none"
        yield Wrong("extra", put(whole, path, {**value, "unasked_for": 7}),
                    f"`{spelt((*path, 'unasked_for'))}` is no argument of this tool: there is: {there}")


def misspelt(name: str) -> list[str]:
    """The name with its last letter doubled, with two letters swapped, and in the other style of writing names."""
    middle = len(name) // 2
    swapped = name[:middle - 1] + name[middle] + name[middle - 1] + name[middle + 1:] if len(name) > 1 else name
    camel = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
    other = camel if camel != name else re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name)
    return [one for one in dict.fromkeys((name + name[-1], swapped, other)) if one != name]


def places(node: Mapping[str, Any], value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Mapping[str, Any], Any]]:
    """The value and every value inside of it that the schema speaks of: where it is, its schema, itself."""
    yield path, node, value
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name in node.get("properties", {}):
                yield from places(node["properties"][name], part, (*path, name))
    elif isinstance(value, list) and "items" in node:
        for number, part in enumerate(value):
            yield from places(node["items"], part, (*path, number))


def put(whole: Mapping[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """A copy with this value at a place."""
    made: Any = deepcopy(dict(whole))
    if not path:
        return dict(value)
    inner = made
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return dict(made)


def at(whole: Mapping[str, Any], path: Path_) -> Any:
    """The value at a place. Raises LookupError."""
    found: Any = whole
    for part in path:
        found = found[part]
    return found


def spelt(path: Path_) -> str:
    """A place as messages write it: `conditions[0].field`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _without(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {one: each for one, each in value.items() if one != name}


# -- what the messages are worth

def mended(arguments: Mapping[str, Any], faults: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments after what the faults say, and nothing else. `known`: what the caller has a mind to say, by name.

    It puts what it knows where something is missing or of the wrong kind, renames what is meant to have another name, and leaves
    out what there is no name for.
    """
    made: dict[str, Any] = deepcopy(dict(arguments))
    for fault in faults:
        if found := re.match(r"`(.+?)` is no argument of this tool: (?:did you mean `(.+?)`\? )?", fault):
            path = read(found[1])
            inner = at(made, path[:-1])
            value = inner.pop(path[-1])
            if found[2]:
                inner.setdefault(found[2], value)
        elif found := re.match(r"`(.+?)` is .*; expected ", fault) or re.match(r"`(.+?)` is missing; expected ", fault):
            path = read(found[1])
            at(made, path[:-1])[path[-1]] = deepcopy(at(known, path))
    return made


def read(where: str) -> Path_:
    """A place that a message names."""
    return tuple(int(part[1:-1]) if part.startswith("[") else part for part in re.findall(r"\[\d+\]|[^.\[\]]+", where))


# -- all of it

def counted(data: Path) -> Counts:
    """Loads every function, checks every possible answer, and every wrong call made of those that are accepted."""
    counts = Counts()
    seen: set[str] = set()
    for question in questions(data):
        listing = Listing()
        for tool in question.tools:
            listing.add(tool)
        listing.settle()
        counts.functions += len(question.tools)
        counts.unusable.update({f"{question.id}: {name}": why for name, why in listing.refused.items()})
        for name, gold in question.gold:
            schema = listing.kept[name].parameters
            for arguments in answers(gold):
                counts.answers += 1
                if faults_of(schema, arguments):
                    counts.refused[question.id] += 1
                    continue
                said = json.dumps([schema, arguments])
                if said not in seen:
                    seen.add(said)
                    _try_wrong(counts, schema, arguments)
    asyncio.run(_try_names(counts, data))
    return counts


def _try_wrong(counts: Counts, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    for wrong in wrongs(schema, arguments):
        counts.wrong[wrong.kind] += 1
        faults = faults_of(schema, wrong.arguments)
        if any(fault.startswith(wrong.told) for fault in faults):
            counts.named[wrong.kind] += 1
            counts.mended[wrong.kind] += mended(wrong.arguments, faults, arguments) == arguments


async def _try_names(counts: Counts, data: Path) -> None:
    """Calls of tools that are not there: the names of the gold calls, misspelt."""
    for question in questions(data):
        offered = Offered(Toolbox(), [], [dict(tool) for tool in question.tools])
        for name in {name for name, _ in question.gold}:
            for other in misspelt(name):
                counts.wrong["tool"] += 1
                tool, why = await offered.found(other)
                counts.named["tool"] += tool is None and f"there is no tool `{other}`: " in why and f"`{name}`" in why
                counts.mended["tool"] += f"did you mean `{name}`?" in why


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    counts = counted(data)
    listed = [f"{', '.join(f'{name} ({which})' for name, which in found.items())}: {why}" for why, found in CONTRADICTING.items()]
    wrongly = sorted({*counts.refused} - {name for found in CONTRADICTING.values() for name in found})
    kinds = {"missing": "missing", "extra": "one too many", "name": "misspelt", "type": "another type",
             "value": "none of the choices", "tool": "another function"}
    told = "\n".join(f"{words}: {counts.named[kind]:,} of {counts.wrong[kind]:,}" for kind, words in kinds.items())
    none = "no figure: BFCL scores models"
    return [
        PaperRow("function_calls", "functions whose schema loads", none,
                 f"{counts.functions - len(counts.unusable):,} of {counts.functions:,}",
                 "BFCL writes Python's types; they are read as its own checker reads them"),
        PaperRow("function_calls", "possible answers that are accepted: each value of each argument of each gold call", none,
                 f"{counts.answers - counts.refused.total():,} of {counts.answers:,}"
                 + (f"; wrongly refused: {', '.join(wrongly)}" if wrongly else ""),
                 f"those refused contradict their own schema. {'. '.join(listed)}"),
        PaperRow("function_calls", "calls with one thing wrong, refused by a message that names the place, the fault and what is "
                                   "wanted", none, told, "the ways of getting an accepted answer wrong are ours"),
        PaperRow("function_calls", "of all these, made right by a program that knows no schema and does what the message says",
                 none, f"{sum(counts.mended.values()):,} of {sum(counts.wrong.values()):,}",
                 "the program knows what it wanted to say, argument by argument; how well a model mends is not shown"),
    ]
