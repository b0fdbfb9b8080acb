"""The search over many tools, beside plain BM25 and chance: API-Bank's dialogues that have to find their API, BFCL's functions.

Li et al., "API-Bank" (EMNLP 2023), table 3 and table 6; Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond" (2009). What is measured is the search alone, with the words that API-Bank's recorded model searched with, and with what
the user said first.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.row import PaperRow
from metaflow_agents.tools.retrieval import ToolIndex

TOP = 5
Told = dict[str, Any]
Search = Callable[[str, int], list[str]]
Case = tuple[set[str], str]
"""The tools that are right, and what is searched for."""


@dataclass(frozen=True, slots=True)
class Recall:
    """The share of the right tools among the first five: of this search, of plain BM25, of five tools drawn by chance."""

    ours: float
    plain: float
    chance: float


def told(name: str, description: str = "", /, **parameters: str) -> Told:
    """A tool as a model is told of it, all its parameters texts."""
    properties = {each: {"type": "string", "description": said} for each, said in parameters.items()}
    return {"name": name, "description": description, "parameters": {"type": "object", "properties": properties}}


def measured(tools: Sequence[Told], cases: Sequence[Case]) -> Recall:
    """Recall of all three. Chance is exact: five of n tools hold each of them with probability 5/n."""
    return Recall(recall(ToolIndex(tools).search, cases), recall(plain_bm25(tools), cases), TOP / len(tools))


def recall(search: Search, cases: Sequence[Case], top: int = TOP) -> float:
    """The mean share of the right tools that are among the first `top`."""
    return sum(len(gold & set(search(query, top))) / len(gold) for gold, query in cases) / len(cases)


def plain_bm25(tools: Sequence[Told]) -> Search:
    """The textbook's: lower-case words as they stand, the whole text of a tool as one document."""
    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    counts = [Counter(words(" ".join([tool["name"], tool["description"], *(f"{name} {part['description']}" for name, part in
                                      tool["parameters"]["properties"].items())]))) for tool in tools]
    lengths = [count.total() for count in counts]
    usual = sum(lengths) / len(counts)
    shared = Counter(word for count in counts for word in count)

    def search(query: str, top: int) -> list[str]:
        asked = {word: math.log(1 + (len(counts) - shared[word] + 0.5) / (shared[word] + 0.5))
                 for word in dict.fromkeys(words(query))}
        scored = sorted((-sum(rare * count[word] * 2.5 / (count[word] + 1.5 * (0.25 + 0.75 * length / usual))
                              for word, rare in asked.items() if word in count), place)
                        for place, (count, length) in enumerate(zip(counts, lengths, strict=True)))
        return [tools[place]["name"] for value, place in scored[:top] if value < 0]
    return search


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def api_bank(data: Path) -> tuple[list[Told], list[Case], list[Case]]:
    """All APIs that are called or described, and the level whose dialogues have to find theirs: by the keywords that the recorded
    model searched with, and by what the user said first. Where no search ever brought a description, the name and the
    parameters' names are all there is.
    """
    tools: dict[str, Told] = {}
    dialogues = [_lines(path) for path in sorted((data / "api_bank").glob("level-*/*.jsonl"))]
    if not dialogues:
        raise FileNotFoundError(2, "no dialogues", str(data / "api_bank"))
    for line in (line for lines in dialogues for line in lines):
        if line.get("api_name") == "ToolSearcher":
            output = line["result"]["output"]
            for one in output if isinstance(output, list) else [output]:
                said = {name: part["description"] for name, part in one["input_parameters"].items()}
                tools[one["name"]] = told(one["name"], one["description"], **said)
    for line in (line for lines in dialogues for line in lines):
        if line["role"] == "API" and line["api_name"] != "ToolSearcher":
            tools.setdefault(line["api_name"], told(line["api_name"], **dict.fromkeys(line["param_dict"], "")))
    keywords: list[Case] = []
    said_first: list[Case] = []
    for path in sorted((data / "api_bank" / "level-2-toolsearcher").glob("*.jsonl")):
        gold, dialogue = {path.name.partition("-")[0]}, _lines(path)
        keywords += [(gold, line["param_dict"]["keywords"]) for line in dialogue if line.get("api_name") == "ToolSearcher"]
        said_first.append((gold, next(line["text"] for line in dialogue if line["role"] == "User")))
    return list(tools.values()), keywords, said_first


def bfcl(data: Path) -> tuple[list[Told], list[Case]]:
    """The functions of all questions in one heap; right are those of the possible answer, or the only one that was given."""
    tools: dict[str, Told] = {}
    cases: list[Case] = []
    for name in ("multiple", "parallel_multiple", "simple_python", "parallel"):
        known = {each["id"]: each["ground_truth"] for each in _lines(data / "bfcl/possible_answer" / f"{name}.jsonl")}
        for question in _lines(data / "bfcl" / f"{name}.jsonl"):
            for one in question["function"]:
                said = {each: part.get("description", "") for each, part in one["parameters"]["properties"].items()}
                tools[one["name"]] = told(one["name"], one["description"], **said)
            given_alone = [one["name"] for one in question["function"]][:1] if len(question["function"]) == 1 else []
            gold = {each for call in known.get(question["id"], []) for each in call} or set(given_alone)
            cases += [(gold, question["question"][0][0]["content"])] if gold else []
    return list(tools.values()), cases


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    tools, keywords, said_first = api_bank(data)
    heap, questions = bfcl(data)
    table = [(f"API-Bank level 2, by the {len(keywords)} recorded keywords", "GPT-4 finds and calls the right API in 37.0 % "
              "(Retrieve+Call, table 3); 67.9 % of its errors are of the search (table 6)", tools, keywords,
              "another measure: the search alone, five tools shown; no model chooses or calls"),
             (f"API-Bank level 2, by the user's first words in {len(said_first)} dialogues", "—", tools, said_first,
              "the words may be of something else than the API"),
             (f"BFCL, by the words of {len(questions)} questions", "no figure: BFCL has no search", heap, questions,
              "the functions of all questions in one heap; several of them fit one question, and only the gold one counts")]
    return [PaperRow("tool_search", f"recall@5 among {len(among)} tools: {what}; plain BM25; chance", paper,
                     _told(measured(among, cases)), differs) for what, paper, among, cases, differs in table]


def _told(found: Recall) -> str:
    return f"{found.ours:.3f}; {found.plain:.3f}; {found.chance:.3f}"
