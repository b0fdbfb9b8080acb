"""Self-consistency (Wang et al., ICLR 2023): what voting over samples makes of answers that are often wrong.

GSM8K's questions go through the strategy and the engine to a model that knows the gold answers and errs at a seeded rate: its
wrong answers are spread over a few numbers. The accuracy that votes then have is known exactly, and worked out here apart from
the strategy. The game of 24 brings GPT-4's own samples: there the vote is held against a count of its own.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb, factorial
from pathlib import Path
from typing import Any

from benchmarks.papers.row import PaperRow
from benchmarks.papers.running import ran
from benchmarks.papers.tree_of_thoughts import solves
from metaflow_agents.models.port import ModelRequest

SAMPLES = (1, 5, 11)
RIGHT = Fraction(2, 5)                  # of one sample
WRONG = 3                               # numbers over which its wrong answers are spread evenly
SEED = 7
SOP = """
sop: sums
inputs: {problems: [{id: string, question: string}]}
roles: {solver: {profile: You solve word problems.}}
artifacts: {solved: {each: {answer: integer}}}
steps:
  solve:
    role: solver
    needs: [problems]
    foreach: {in: problems, as: problem, key: problem.id, parallel: 25}
    makes: solved
    strategy: STRATEGY
"""
LOG = "game24/gpt-4_0.7_naive_cot_sample_100_start900_end1000.jsonl"
PUZZLES = """
sop: puzzles
inputs: {puzzles: [{id: string}]}
roles: {player: {profile: You play the game of 24.}}
artifacts: {solved: {each: {answer: string}}}
steps:
  solve:
    role: player
    needs: [puzzles]
    foreach: {in: puzzles, as: puzzle, key: puzzle.id, parallel: 5}
    makes: solved
    strategy: {self_consistency: {samples: 100}}
"""


def gold(data: Path) -> dict[str, int]:
    """Question → gold answer, of GSM8K's problems whose answer is a whole number."""
    lines = (data / "gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()
    found = {one["question"]: one["answer"].rpartition("####")[2].strip().replace(",", "") for one in map(json.loads, lines)}
    return {question: int(answer) for question, answer in found.items() if answer.lstrip("-").isdigit()}


def sample(question: str, number: int, answer: int) -> int:
    """What the erring model says the `number`-th time: the gold answer with probability `RIGHT`, else one of `WRONG` others."""
    chance = random.Random(f"{SEED}/{number}/{question}")
    return answer if chance.random() < RIGHT else answer + chance.randint(1, WRONG)


def accuracy(data: Path, samples: int) -> tuple[int, int]:
    """How many problems are solved through the engine with so many samples, of how many."""
    known = gold(data)
    problems = [{"id": str(number), "question": question} for number, question in enumerate(known)]

    def model(request: ModelRequest) -> Any:
        said = request.messages[-1]["content"]
        question = json.loads(said.partition('<item name="problem">')[2].partition("</item>")[0])["question"]
        number = request.key.partition("vote.s")[2].partition("/")[0]
        return {"answer": sample(question, int(number or 0), known[question])}

    strategy = "single" if samples == 1 else f"{{self_consistency: {{samples: {samples}, compare: answer.answer}}}}"
    result = ran(SOP.replace("STRATEGY", strategy), model, {"problems": problems})
    solved = [result["solved"][one["id"]]["answer"] == known[one["question"]] for one in problems]
    return sum(solved), len(solved)


def counted(data: Path, samples: int) -> int:
    """The same, counted apart from the strategy: most common first, of equals the one that came first."""
    return sum(Counter(sample(question, number, answer) for number in range(samples)).most_common(1)[0][0] == answer
               for question, answer in gold(data).items())


def probability(samples: int, right: Fraction = RIGHT, wrong: int = WRONG) -> Fraction:
    """That the right answer has the plurality of so many samples, exactly, from the multinomial distribution.

    Of several that lead the one that came first is taken; each order of the samples is as likely as any other, so that it is the
    right one with probability 1 / (how many lead).
    """
    whole = Fraction(0)
    for count in range(1, samples + 1):
        others = samples - count
        chance = comb(samples, count) * right**count * (1 - right)**others
        for ties in range(wrong + 1):
            ways = comb(wrong, ties) * _spread(others - ties * count, wrong - ties, count - 1) \
                * Fraction(factorial(others), factorial(count)**ties) if ties * count <= others else Fraction(0)
            whole += chance * ways / Fraction(wrong)**others / (1 + ties)
    return whole


def _spread(balls: int, boxes: int, most: int) -> Fraction:
    """Sum of 1 / (n1! n2! …) over all ways to put so many balls into boxes, at most `most` in each."""
    sums = [Fraction(1), *[Fraction(0)] * balls]
    for _ in range(boxes):
        sums = [sum((sums[left - one] / factorial(one) for one in range(min(most, left) + 1)), Fraction(0))
                for left in range(balls + 1)]
    return sums[balls]


def within(solved: int, whole: int, chance: Fraction, deviations: int = 3) -> bool:
    """Whether a share is as near to its expectation as so many standard deviations allow."""
    return abs(solved - whole * chance) <= deviations * float(whole * chance * (1 - chance))**0.5


def logged(data: Path) -> dict[str, list[str]]:
    """Puzzle → GPT-4's 100 samples: the last line of each."""
    numbers = [line.split(",")[1] for line in (data / "game24/24.csv").read_text(encoding="utf-8").splitlines()[1:]]
    records = map(json.loads, (data / LOG).read_text(encoding="utf-8").splitlines())
    return {numbers[record["idx"]]: [text.strip().splitlines()[-1].removeprefix("Answer: ") for text in record["ys"]]
            for record in records}


def pluralities(data: Path) -> tuple[int, int, int]:
    """Of the logged puzzles: in how many the strategy takes what most samples say, how many that solves, how many there are.

    Counted apart from the strategy: most common first, of equals the one that came first.
    """
    said = logged(data)

    def model(request: ModelRequest) -> Any:
        puzzle = request.key.partition("[")[2].partition("]")[0].replace("%20", " ")
        return {"answer": said[puzzle][int(request.key.partition("vote.s")[2].partition("/")[0])]}

    result = ran(PUZZLES, model, {"puzzles": [{"id": puzzle} for puzzle in said]})
    found = {puzzle: result["solved"][puzzle]["answer"] for puzzle in said}
    same = sum(found[puzzle] == Counter(samples).most_common(1)[0][0] for puzzle, samples in said.items())
    return same, sum(solves(puzzle, answer) for puzzle, answer in found.items()), len(said)


def rows(data: Path) -> list[PaperRow]:
    """The vote over logged samples, and the accuracy by number of samples."""
    same, solved, puzzles = pluralities(data)
    found: Sequence[tuple[int, tuple[int, int]]] = [(samples, accuracy(data, samples)) for samples in SAMPLES]
    papers = {1: "56.5 % (chain of thought, greedy)", max(SAMPLES): "74.4 % (40 samples)"}
    differs = {1: f"in the model's place a program that knows the answer and errs at a seeded rate of "
                  f"{100 * float(1 - RIGHT):.0f} %, over {WRONG} wrong numbers; shown is that votes are counted rightly, and not "
                  "what a model gains"}
    return [
        PaperRow("self_consistency", "plurality of GPT-4's 100 samples a puzzle of 24, as a count apart from the strategy has it",
                 "9.0 % solved (Tree of Thoughts, table 2: CoT-SC)", f"{same} of {puzzles} the same; {solved} solved",
                 "the same samples, of whose 100 puzzles these are the first half"),
        *(PaperRow("self_consistency", f"GSM8K: right with {samples} sample{'s' if samples > 1 else ''}; expected",
                   papers.get(samples, "rises with the samples (figure 2, LaMDA-137B)"),
                   f"{100 * right / max(whole, 1):.1f} % ({right} of {whole}, "
                   f"{'' if right == counted(data, samples) else 'not '}as counted apart); "
                   f"{100 * float(probability(samples)):.1f} %, exact multinomial",
                   differs.get(samples, "as above"))
          for samples, (right, whole) in found)]
