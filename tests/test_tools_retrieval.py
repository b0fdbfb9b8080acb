"""The search over many tools, on its own and against plain BM25 and chance on API-Bank's and BFCL's tools."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metaflow_agents.tools.retrieval import ToolIndex, words

DATA = Path(os.environ.get("SOP_TEST_DATA", "/dev/null"))
Told = dict[str, Any]
Search = Callable[[str, int], list[str]]


def told(name: str, description: str = "", /, **parameters: str) -> Told:
    properties = {each: {"type": "string", "description": said} for each, said in parameters.items()}
    return {"name": name, "description": description, "parameters": {"type": "object", "properties": properties}}


@pytest.mark.parametrize(("text", "found"), [
    ("searchIssues", ["search", "issu"]), ("search_issues", ["search", "issu"]), ("git.search-issue", ["git", "search", "issu"]),
    ("HTTPServerError", ["http", "serv", "error"]), ("Base64Token", ["base", "64", "token"]),
    ("the booking of a hotel", ["book", "hotel"]), ("cancellation cancelled cancel", ["cancel"] * 3),
    ("Größe straße", ["größ", "straß"]), ("", []), ("?! the", []),
])
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_it_finds_by_name_description_and_parameters() -> None:
    index = ToolIndex([told("depot.listParcels", "Parcels that wait.\nMore of it."), told("clock.now", "What time it is."),
                       told("mail.send", "Send a letter.", recipient="who gets it"), told("depot.addParcel", "Put one in.")])
    assert index.search("parcel list")[0] == "depot.listParcels"
    assert index.search("recipients") == ["mail.send"] and index.search("letters") == ["mail.send"]
    assert index.search("depot") == ["depot.addParcel", "depot.listParcels"]     # of two alike, the one that says less
    assert index.search("") == index.search("zebra") == []
    assert index.description("depot.listParcels") == "Parcels that wait." and len(index) == 4
    assert ToolIndex([]).search("anything") == []
    assert ToolIndex([{"name": "odd", "description": None, "parameters": {"properties": [1]}}]).search("odd") == ["odd"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])       # the alphabet of all texts is made at the first
@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=40)), max_size=8, unique_by=lambda pair: pair[0]),
       st.text(max_size=30), st.integers(0, 9))
def test_whatever_is_asked_it_gives_known_names_once(tools: list[tuple[str, str]], query: str, top: int) -> None:
    index = ToolIndex([told(name, said) for name, said in tools])
    found = index.search(query, top)
    assert len(found) <= top and len(set(found)) == len(found) and set(found) <= {name for name, _ in tools}
    assert found == index.search(query, 10)[:top]


def test_a_tools_own_description_finds_it() -> None:
    verbs, things = ("list", "create", "delete", "update", "export"), ("invoice", "parcel", "customer", "route", "driver")
    tools = [told(f"{verb}_{thing}", f"{verb} one {thing} or several") for verb in verbs for thing in things]
    index = ToolIndex(tools)
    for tool in tools:
        assert index.search(tool["description"].replace("_", " "))[0] == tool["name"]


# -- against plain BM25 and chance


def plain_bm25(tools: list[Told]) -> Search:
    """The textbook's: lower-case words as they stand, the whole text of a tool as one document."""
    def read(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    counts = [Counter(read(" ".join([tool["name"], tool["description"], *(f"{name} {part['description']}" for name, part in
                                     tool["parameters"]["properties"].items())]))) for tool in tools]
    usual = sum(sum(count.values()) for count in counts) / len(counts)
    shared = Counter(word for count in counts for word in count)

    def score(count: Counter[str], query: str) -> float:
        return sum(math.log(1 + (len(counts) - shared[word] + 0.5) / (shared[word] + 0.5)) * count[word] * 2.5
                   / (count[word] + 1.5 * (0.25 + 0.75 * sum(count.values()) / usual)) for word in set(read(query)))

    def search(query: str, top: int) -> list[str]:
        scored = sorted(((-score(count, query), place) for place, count in enumerate(counts)))
        return [tools[place]["name"] for value, place in scored[:top] if value < 0]
    return search


def recall(search: Search, cases: list[tuple[set[str], str]], top: int = 5) -> float:
    """The mean share of the right tools that are among the first `top`."""
    return sum(len(gold & set(search(query, top))) / len(gold) for gold, query in cases) / len(cases)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def api_bank() -> tuple[list[Told], list[tuple[set[str], str]], list[tuple[set[str], str]]]:
    """All APIs that are called or described, and the level whose dialogues have to find theirs: by the keywords that the recorded
    model searched with, and by what the user said first. Where no search ever brought a description, the name and the
    parameters' names are all there is.
    """
    tools: dict[str, Told] = {}
    for path in sorted((DATA / "api_bank").glob("level-*/*.jsonl")):
        for line in lines(path):
            if line.get("api_name") == "ToolSearcher":
                output = line["result"]["output"]
                for one in output if isinstance(output, list) else [output]:
                    said = {name: part["description"] for name, part in one["input_parameters"].items()}
                    tools[one["name"]] = told(one["name"], one["description"], **said)
    for path in sorted((DATA / "api_bank").glob("level-*/*.jsonl")):
        for line in lines(path):
            if line["role"] == "API" and line["api_name"] != "ToolSearcher":
                tools.setdefault(line["api_name"], told(line["api_name"], **dict.fromkeys(line["param_dict"], "")))
    keywords, said_first = [], []
    for path in sorted((DATA / "api_bank" / "level-2-toolsearcher").glob("*.jsonl")):
        gold, dialogue = {path.name.partition("-")[0]}, lines(path)
        keywords += [(gold, line["param_dict"]["keywords"]) for line in dialogue if line.get("api_name") == "ToolSearcher"]
        said_first.append((gold, next(line["text"] for line in dialogue if line["role"] == "User")))
    return list(tools.values()), keywords, said_first


def bfcl() -> tuple[list[Told], list[tuple[set[str], str]]]:
    """The functions of all questions in one heap; right are those of the possible answer, or the only one that was given."""
    tools: dict[str, Told] = {}
    cases = []
    for name in ("multiple", "parallel_multiple", "simple_python", "parallel"):
        answers = DATA / "bfcl" / "possible_answer" / f"{name}.jsonl"
        known = {each["id"]: each["ground_truth"] for each in lines(answers)} if answers.exists() else {}
        for question in lines(DATA / "bfcl" / f"{name}.jsonl"):
            for one in question["function"]:
                said = {each: part.get("description", "") for each, part in one["parameters"]["properties"].items()}
                tools[one["name"]] = told(one["name"], one["description"], **said)
            given_alone = [one["name"] for one in question["function"]][:1] if len(question["function"]) == 1 else []
            gold = {each for call in known.get(question["id"], []) for each in call} or set(given_alone)
            cases += [(gold, question["question"][0][0]["content"])] if gold else []
    return list(tools.values()), cases


@pytest.mark.skipif(not (DATA / "api_bank").is_dir(), reason="SOP_TEST_DATA does not name a folder with public data")
def test_recall_on_api_bank_is_not_below_plain_bm25() -> None:
    tools, keywords, said_first = api_bank()
    assert len(tools) > 40 and len(keywords) > 20
    for cases in (keywords, said_first):
        ours, plain, chance = recall(ToolIndex(tools).search, cases), recall(plain_bm25(tools), cases), 5 / len(tools)
        assert ours >= plain > chance, (ours, plain, chance)
    assert recall(ToolIndex(tools).search, keywords) >= 0.85


@pytest.mark.skipif(not (DATA / "bfcl").is_dir(), reason="SOP_TEST_DATA does not name a folder with public data")
def test_recall_on_the_functions_of_bfcl_is_not_below_plain_bm25() -> None:
    tools, cases = bfcl()
    assert len(tools) > 400 and len(cases) > 400
    ours, plain = recall(ToolIndex(tools).search, cases), recall(plain_bm25(tools), cases)
    assert ours >= plain > 5 / len(tools), (ours, plain)
