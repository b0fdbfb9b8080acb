"""Hindsight on the game of 24: GPT-4's logged answers, rated by an exact check, before a model that goes on from the last one.

Liu et al., "Chain of Hindsight Aligns Language Models with Feedback" (ICLR 2024; arXiv 2023): outputs in rising order of their
ratings. Laskin et al., "In-context Reinforcement Learning with Algorithm Distillation" (ICLR 2023): episodes in learning order.
The logs are those of Yao et al., "Tree of Thoughts" (NeurIPS 2023).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.papers.row import PaperRow
from benchmarks.papers.running import ran, succeeded
from metaflow_agents.models.port import ModelRequest

SAMPLES = 20
ROUNDS = 8
RATED = """
sop: rated
inputs: {puzzles: [{numbers: string, past: [{text: string, mark: integer, fall: integer, none: integer}]}]}
roles: {player: {profile: You play.}}
artifacts: {answers: {each: string}}
steps:
  play:
    role: player
    needs: [puzzles]
    foreach: {in: puzzles, as: puzzle, key: puzzle.numbers, parallel: 20}
    makes: answers
    task: "One of {{ puzzles | length }} puzzles. Make 24 of: {{ puzzle.numbers }} (end)"
    strategy: STRATEGY
"""
EPISODES = """
sop: episodes
inputs: {numbers: string}
roles: {player: {profile: You play.}}
artifacts: {attempt: {schema: {move: integer, solved: boolean}}, seen: {schema: boolean}}
steps:
  play:
    role: player
    needs: [numbers]
    wants: [seen]
    sees: [attempt]
    when: not seen
    makes: attempt
    rounds: 8
    task: "Make 24 of: {{ numbers }} (end)"
    strategy: STRATEGY
  look: {value: attempt.solved, needs: [attempt], makes: seen, rounds: 8}
outputs: [attempt]
success: attempt.solved
"""
_STEP = re.compile(r"(-?\S+) ([-+*/]) (-?\S+) = (-?\S+)")
Numbers = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Puzzle:
    """Four numbers, and what GPT-4 answered, in the order of the log."""

    numbers: str
    said: tuple[str, ...]


def puzzles(data: Path) -> list[Puzzle]:
    """The 50 logged ones, with the first 20 of the 100 answers to each."""
    numbers = [line.split(",")[1] for line in (data / "game24/24.csv").read_text(encoding="utf-8").splitlines()[1:]]
    log = (data / "game24/gpt-4_0.7_naive_cot_sample_100_start900_end1000.jsonl").read_text(encoding="utf-8").splitlines()
    return [Puzzle(numbers[record["idx"]], tuple(record["ys"][:SAMPLES])) for record in map(json.loads, log)]


@lru_cache(maxsize=4096)
def kept(numbers: str, text: str) -> list[tuple[str, Numbers]]:
    """The steps of an answer, as long as they hold: each with the numbers that are left after it."""
    left, found = tuple(Fraction(number) for number in numbers.split()), list[tuple[str, Numbers]]()
    for a, sign, b, result in _STEP.findall(text.partition("Answer:")[0]):
        following = {after for written, after in _moves(left) if (_fraction(a), sign, _fraction(b)) == written
                     and _fraction(result) in after}
        if not following:
            break
        left = min(following)
        found.append((f"{a} {sign} {b} = {result}", left))
    return found


def mark(numbers: str, text: str) -> int:
    """The rating of an answer: how many steps hold, and one more where they come to 24."""
    steps = kept(numbers, text)
    return len(steps) + bool(steps and steps[-1][1] == (24,))


def _fraction(text: str) -> Fraction | None:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def _moves(left: Numbers) -> Iterator[tuple[tuple[Fraction, str, Fraction], Numbers]]:
    """Every step that two of the numbers allow, in the order of the numbers, with what is left after it in rising order."""
    for first, a in enumerate(left):
        for second, b in enumerate(left):
            if first != second:
                rest = [one for place, one in enumerate(left) if place not in (first, second)]
                for sign, result in (("+", a + b), ("-", a - b), ("*", a * b), ("/", a / b if b else None)):
                    if result is not None:
                        yield (a, sign, b), tuple(sorted([*rest, result]))


def _finish(left: Numbers) -> str | None:
    """The last step to 24 of two numbers."""
    return next((f"{a} {sign} {b} = 24" for (a, sign, b), after in _moves(left) if after == (24,)), None)


def _reaches(left: Numbers) -> bool:
    return left == (24,) or any(_reaches(after) for _, after in _moves(left))


async def follows(request: ModelRequest) -> str:
    """Goes on from the last output that it is shown: keeps the steps that hold, and looks one step ahead from there."""
    said = str(request.messages[-1]["content"])
    numbers = re.findall(r"Make 24 of: (.*?) \(end\)", said)[-1]
    shown = re.findall(r'<output rating="[^"]*">\n(.*?)\n</output>', said, re.DOTALL)
    steps = kept(numbers, shown[-1]) if shown else []
    left = steps[-1][1] if steps else tuple(Fraction(number) for number in numbers.split())
    written = [step for step, _ in steps]
    while len(left) > 2:
        (a, sign, b), left = next(_moves(left))
        written.append(f"{a} {sign} {b} = {_of(a, sign, b)}")
    last = _finish(left) if len(left) == 2 else None
    return "Steps:\n" + "\n".join([*written, *([last] if last else [])]) + "\nAnswer: the above"


def _of(a: Fraction, sign: str, b: Fraction) -> Fraction:
    return {"+": a + b, "-": a - b, "*": a * b}.get(sign, a)


async def explores(request: ModelRequest) -> dict[str, Any]:
    """Tries the first step after those that it is shown as tried, and plays on from there as well as can be."""
    said = str(request.messages[-1]["content"])
    numbers = re.findall(r"Make 24 of: (.*?) \(end\)", said)[-1]
    tried = [json.loads(text)["move"] for text in re.findall(r'<episode number="\d+">\n(.*?)\n</episode>', said, re.DOTALL)]
    move = max(tried, default=-1) + 1
    return {"move": move, "solved": _reaches(_openings(numbers)[move])}


def _openings(numbers: str) -> list[Numbers]:
    return [after for _, after in _moves(tuple(Fraction(number) for number in numbers.split()))]


def openings_needed(numbers: str) -> int:
    """How many first steps have to be tried, in their order, until one leads to 24."""
    return next((number for number, left in enumerate(_openings(numbers), 1) if _reaches(left)), 10**6)


def rated(given: Sequence[Puzzle], strategy: str) -> int:
    """How many puzzles are solved in one run."""
    past = [{"numbers": one.numbers, "past": [{"text": text, "mark": mark(one.numbers, text), "fall": -mark(one.numbers, text),
                                               "none": 0} for text in one.said]} for one in given]
    result = succeeded(ran(RATED.replace("STRATEGY", strategy), follows, {"puzzles": past}, sandbox="none"))
    return sum(mark(one.numbers, result["answers"][one.numbers]) == 4 for one in given)


def explored(given: Sequence[Puzzle], strategy: str) -> int:
    """How many puzzles are solved in at most 8 episodes, each puzzle a run."""
    text = EPISODES.replace("STRATEGY", strategy)
    return sum(ran(text, explores, {"numbers": one.numbers}, sandbox="none").ok for one in given)


def by(ratings: str, most: int = 4) -> str:
    """The strategy with ratings of that name."""
    return (f"{{hindsight: {{outputs: \"puzzle.past | map(attribute='text') | list\", "
            f"ratings: \"puzzle.past | map(attribute='{ratings}') | list\", most: {most}}}}}")


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    given = puzzles(data)
    rising, order, falling = (rated(given, by(name)) for name in ("mark", "none", "fall"))
    alone = rated(given, "single")
    learnt, blank = explored(given, '{hindsight: {episodes: "history(\'attempt\')"}}'), explored(given, "single")
    differs = ("the papers train a model on such sequences, of other tasks; here they stand in the context of a program that "
               "goes on from the last one: shown is which ones stand there, and in which order")
    return [
        PaperRow("hindsight", f"50 puzzles of 24 solved after the best 4 of {SAMPLES} logged answers: rising by rating; as "
                              "logged; falling; none shown", "no figure of this kind (Chain of Hindsight)",
                 f"{rising}; {order}; {falling}; {alone} of {len(given)}", differs),
        PaperRow("hindsight", f"the same puzzles in at most {ROUNDS} episodes: the last 4 in the context; none",
                 "contexts of 2 to 4 episodes are needed (Algorithm Distillation; as remembered, not verified)",
                 f"{learnt}; {blank} of {len(given)}", differs),
    ]
