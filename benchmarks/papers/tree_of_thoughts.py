"""Tree of Thoughts on the game of 24: GPT-4's logged thoughts served through the strategy, and a solver with breadth 1 and 5.

Yao et al., "Tree of Thoughts: Deliberate Problem Solving with Large Language Models" (NeurIPS 2023), section 4.1.
"""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.papers.row import PaperRow
from metaflow_agents import run_sync
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Observed, Settled
from metaflow_agents.schema.payload import Data, unpack

LOG = "game24/gpt-4_0.7_propose1_value3_greedy5_start900_end1000.jsonl"
VALUES = {"sure": 20, "likely": 1, "impossible": 0.001, "none": 0}
"""The numbers of the authors' code; `none`: a sample that says none of its words."""
SOP = """
sop: game_of_24
inputs: {puzzles: [string]}
roles: {player: {profile: You play the game of 24.}}
artifacts: {solved: {each: string}}
steps:
  solve:
    role: player
    needs: [puzzles]
    foreach: {in: puzzles, as: puzzle, parallel: 10}
    makes: solved
    task: "Use {{ puzzle }} and + - * / to obtain 24."
    strategy: {tree_of_thoughts: PARAMETERS}
"""
STATE = "State: {{ {'puzzle': puzzle, 'path': path} | tojson }}\n"
LEFT = "State: {{ {'left': (path[-1] | split('left: '))[1]} | tojson }}\n"
"""What a value depends on, and nothing else: a state that several ways reach is judged once."""


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    log = logged(data)
    with tempfile.TemporaryDirectory() as folder:
        tree = replayed(log, Path(folder))
    same = sum(selections_equal(record, tree[record["steps"][0]["x"]]) for record in log)
    solved = solved_of(tree)
    told = {record["steps"][0]["x"] for record in log if any(info["r"] for info in record["infos"])}
    puzzles = [record["steps"][0]["x"] for record in log]
    wide, narrow = solver_solves(puzzles, breadth=5), solver_solves(puzzles, breadth=1)
    return [
        PaperRow("tree_of_thoughts", "selections of GPT-4's log, 50 puzzles with 4 depths each, that the search makes too",
                 "no figure of this kind", f"{same} of {sum(len(record['steps']) for record in log)}",
                 "the thoughts and their values are GPT-4's, served from its log; what is tested is the search"),
        PaperRow("tree_of_thoughts", "puzzles solved by one of the five ways at the end, breadth 5", "74 of 100",
                 f"{len(solved)} of {len(log)}, {'the same that the log solves' if solved == told else 'others than the log'}",
                 "the same log, of whose puzzles these are the first half; as published, it solves 69 of the 100"),
        PaperRow("tree_of_thoughts", "the same puzzles solved with breadth 1; with breadth 5",
                 "45 %; 74 % (and 4 % by chain of thought)",
                 f"{100 * len(narrow) // len(puzzles)} %; {100 * len(wide) // len(puzzles)} %",
                 "in the model's place a program that looks one move ahead; it gives one answer, not the best of five"),
    ]


# -- GPT-4's log, served

def logged(data: Path) -> list[dict[str, Any]]:
    """The records of the log: `steps` with `ys`, `new_ys`, `values`, `select_new_ys`, and `infos` with what was solved."""
    return [json.loads(line) for line in (data / LOG).read_text(encoding="utf-8").splitlines()]


def taken_apart(value: float) -> list[str]:
    """The three judgements whose numbers make this value."""
    thousandths = round(value * 1000)
    sure, rest = divmod(thousandths, 20_000)
    likely, impossible = divmod(rest, 1000)
    said = ["sure"] * sure + ["likely"] * likely + ["impossible"] * impossible
    return said + ["none"] * (3 - len(said))


class Served:
    """A model that knows the log: it reads the puzzle and the way so far from its prompt, and answers what GPT-4 did."""

    def __init__(self, log: Sequence[Mapping[str, Any]]) -> None:
        self._steps = {record["steps"][0]["x"]: record["steps"] for record in log}
        self.first: dict[tuple[str, str], int] = {}

    def __call__(self, request: ModelRequest) -> Any:
        """What GPT-4 said."""
        state = state_of(request)
        puzzle, path, place = state["puzzle"], state["path"], request.key.rpartition("/")[2]
        if place.endswith(".propose"):
            step = self._steps[puzzle][len(path)]
            number, before = int(place.split(".")[2].removeprefix("n")), text_of(path)
            # A way that was selected twice was asked about twice; the log does not say where the second answer begins.
            first = self.first.setdefault((puzzle, before), number)
            return {"thoughts": [after.removeprefix(before)[:-1] for after in step["new_ys"] if after.startswith(before)]
                    if number == first else []}
        step = self._steps[puzzle][len(path) - 1]
        value = step["values"][step["new_ys"].index(text_of(path))]
        return {"why": "the log", "value": taken_apart(value)[int(place.rpartition("s")[2])]}


def replayed(log: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Puzzle → what the journal tells of each depth, of a run whose model is the log."""
    play(folder, {"depth": 4, "breadth": 5, "thoughts": 100, "samples": 3, "values": VALUES, "answer": "last",
                  "prompts": {"propose": "state.j2", "value": "state.j2"}},
         [record["steps"][0]["x"] for record in log], Served(log))
    return noted(folder)


def selections_equal(record: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> int:
    """At how many depths the journal tells of the log's candidates, values and selection, in their order."""
    equal = 0
    for step, depth, ways in zip(record["steps"], told, ways_of(told), strict=True):
        equal += list(ways.values()) == step["new_ys"] and [one["value"] for one in depth["thoughts"]] == step["values"] \
            and [ways[number] for number in depth["selected"]] == step["select_new_ys"]
    return equal


def ways_of(told: Sequence[Mapping[str, Any]]) -> list[dict[int, str]]:
    """Of each depth: number of a thought → the way that ends with it."""
    ways = [{0: ""}]
    for depth in told:
        ways.append({one["n"]: f"{ways[-1][one['from']]}{one['thought']}\n" for one in depth["thoughts"]})
    return ways[1:]


def solved_of(tree: Mapping[str, Sequence[Mapping[str, Any]]]) -> set[str]:
    """The puzzles that one of the ways selected at the end solves."""
    found = set()
    for puzzle, depths in tree.items():
        ways = ways_of(depths)[-1]
        if any(solves(puzzle, ways[number]) for number in depths[-1]["selected"]):
            found.add(puzzle)
    return found


# -- a solver

class Solver:
    """A model that computes: every move from the numbers that are left, and a judgement that looks one move ahead."""

    def __call__(self, request: ModelRequest) -> Any:
        """Moves, a judgement, or the expression that a way amounts to."""
        state, place = state_of(request), request.key.rpartition("/")[2]
        if ".value." in place:
            return {"why": "as far as can be seen", "value": judged(numbers_of(state["left"]))}
        if place.endswith(".propose"):
            return {"thoughts": list(moves(numbers_of(state["path"][-1]) if state["path"] else numbers_of(state["puzzle"])))}
        return expression_of(state["path"])


def moves(left: Sequence[Fraction]) -> Iterator[str]:
    """Every move, as GPT-4 writes them: `4 + 5 = 9 (left: 6 9 10)`; of those that leave the same numbers the first."""
    seen = set()
    for one, other in combinations(range(len(left)), 2):
        rest = [number for place, number in enumerate(left) if place not in (one, other)]
        for a, sign, b, made in results(left[one], left[other]):
            after = tuple(sorted([*rest, made]))
            if after not in seen:
                seen.add(after)
                yield f"{a} {sign} {b} = {made} (left: {' '.join(map(str, after))})"


def results(a: Fraction, b: Fraction) -> Iterator[tuple[Fraction, str, Fraction, Fraction]]:
    """What two numbers make: the one, the sign, the other, the result."""
    yield a, "+", b, a + b
    yield a, "*", b, a * b
    for one, other in ((a, b), (b, a)):
        yield one, "-", other, one - other
        if other:
            yield one, "/", other, one / other


def judged(left: Sequence[Fraction]) -> str:
    """`sure` where one more move makes 24, `likely` where no number is too big or too small: the paper's prompt judges so."""
    if len(left) == 1:
        return "sure" if left[0] == 24 else "impossible"
    if len(left) == 2:
        return "sure" if any(made == 24 for _, _, _, made in results(*left)) else "impossible"
    return "likely" if all(0 < number <= 13 and number.denominator == 1 for number in left) and sum(left) >= 8 else "impossible"


def expression_of(path: Sequence[str]) -> str:
    """The one expression that a way's moves amount to."""
    made: list[tuple[Fraction, str]] = []
    for move in path:
        a, sign, b, result = re.fullmatch(r"(\S+) ([-+*/]) (\S+) = (\S+) \(left: .*\)", move).groups()     # type: ignore[union-attr]
        parts = []
        for number in (a, b):
            found = next((one for one in made if one[0] == Fraction(number)), None)
            if found is not None:
                made.remove(found)
            parts.append(found[1] if found is not None else number)
        made.append((Fraction(result), f"({parts[0]} {sign} {parts[1]})"))
    return made[-1][1]


def solver_solves(puzzles: Sequence[str], **parameters: Any) -> set[str]:
    """The puzzles that the solver's answers solve, with these parameters."""
    with tempfile.TemporaryDirectory() as folder:
        answers = play(Path(folder), {"depth": 3, "thoughts": 50, "samples": 1, **parameters, "prompts": {
            "propose": "state.j2", "value": "left.j2", "answer": "state.j2"}}, puzzles, Solver())
    return {puzzle for puzzle, answer in answers.items() if solves(puzzle, answer)}


# -- both

def play(folder: Path, parameters: Mapping[str, Any], puzzles: Sequence[str], model: Any) -> dict[str, str]:
    """Puzzle → answer, of a run in this folder."""
    (folder / "state.j2").write_text(STATE)
    (folder / "left.j2").write_text(LEFT)
    (folder / "game.yaml").write_text(SOP.replace("PARAMETERS", json.dumps(parameters)))
    result = run_sync(folder / "game.yaml", puzzles=list(puzzles), model=model, workspace=folder, name="game", sandbox="none")
    found: dict[str, str] = result["solved"]
    return found


def noted(folder: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Puzzle → what the strategy put into the journal of each depth."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    with Journal.read(folder / ".journals" / "game.db") as journal:
        for _, event in journal.events(Observed):
            payload = unpack(journal.blob(event.payload))
            assert isinstance(payload, Data)
            item = re.search(r"\[(.*)\]", event.key)
            found.setdefault("" if item is None else item[1].replace("%20", " "), []).append(payload.value)
    return found


def calls(folder: Path) -> Counter[str]:
    """How many calls there were of each kind: `propose`, `value`, …"""
    with Journal.read(folder / ".journals" / "game.db") as journal:
        return Counter(re.sub(r"\W.*", "", re.sub(r".*/(tot\.d\d+\.(n\d+\.)?)?", "", event.key))
                       for _, event in journal.events(Settled))


def state_of(request: ModelRequest) -> dict[str, Any]:
    """What the prompt says of where the search stands."""
    told = re.search(r"^State: (.*)$", str(request.messages[-1]["content"]), re.MULTILINE)
    assert told is not None
    found: dict[str, Any] = json.loads(told[1])
    return found


def text_of(path: Sequence[str]) -> str:
    """A way as the log writes it."""
    return "".join(f"{thought}\n" for thought in path)


def numbers_of(text: str) -> list[Fraction]:
    """The numbers of a puzzle, or those that a move leaves."""
    return [Fraction(number) for number in text.split("left: ")[-1].rstrip(")").split()]


def solves(puzzle: str, answer: str) -> bool:
    """Whether an answer makes 24 of the puzzle's numbers, each used once: `Answer: (4 * 5) + (10 - 6) = 24`."""
    expression = answer.strip().splitlines()[-1].lower().replace("answer: ", "").split("=")[0]
    if sorted(re.findall(r"\d+", expression)) != sorted(re.findall(r"\d+", puzzle)):
        return False
    try:
        return _computed(ast.parse(expression.strip(), mode="eval").body) == 24
    except (SyntaxError, ValueError, ZeroDivisionError):
        return False


def _computed(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return Fraction(node.value)
    if isinstance(node, ast.BinOp):
        a, b = _computed(node.left), _computed(node.right)
        match node.op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return a / b
    raise ValueError(f"no arithmetic: {ast.unparse(node)}")
