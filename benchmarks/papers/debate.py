"""Debate on GSM8K: pupils who slip in every other problem, and who see a slip in what another one wrote, but not in their own.

Du et al., "Improving Factuality and Reasoning in Language Models through Multiagent Debate" (ICML 2024; arXiv 2023), table 1.
The sums are the problems' own marks; which pupil slips where is seeded by the question, so that the right counts are known.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.calculator import calculate
from benchmarks.papers.react import WordProblem, problems
from benchmarks.papers.row import PaperRow
from benchmarks.papers.running import ran, succeeded
from metaflow_agents.models.port import ModelRequest

SOP = """
sop: word_problems
inputs: {questions: [string]}
roles:
  teacher: {profile: You have pupils.}
  pupil: {profile: You solve word problems.}
  judge: {profile: You judge.}
artifacts: {answers: {each: {working: [string], answer: number}}}
steps:
  solve:
    role: teacher
    needs: [questions]
    foreach: {in: questions, as: question, parallel: 20}
    makes: answers
    task: "One of {{ questions | length }} problems: {{ question }}"
    strategy: STRATEGY
"""
PUPILS = 3
ALONE = "You answered. Answer anew.\n\n{{ output_format }}\n"


def slips(question: str, pupil: int) -> bool:
    """Whether this pupil slips in this problem: one in two, by the digest of both."""
    return _digest(question, pupil)[0] % 2 == 0


def _digest(question: str, pupil: int) -> bytes:
    return hashlib.sha256(f"{pupil} {question}".encode()).digest()


def written(problem: WordProblem, pupil: int) -> dict[str, Any]:
    """What a pupil writes down alone: all sums, one of them with a wrong result where it slips, and what follows from it."""
    at = _digest(problem.question, pupil)[1] % len(problem.sums) if slips(problem.question, pupil) else -1
    results: list[float] = []
    working = []
    for number, one in enumerate(problem.sums):
        expression = one.format(*(repr(result) for result in results))
        results.append(_value(expression) + (_digest(problem.question, pupil)[2] % 9 + 1 if number == at else 0))
        working.append(f"{expression} = {results[-1]!r}")
    return {"working": working, "answer": results[-1]}


def _value(expression: str) -> float:
    try:
        return calculate(expression)
    except ZeroDivisionError:
        return 0.0


def sound(answer: dict[str, Any]) -> bool:
    """Whether every sum that is written down comes to what stands behind it."""
    pairs = [line.rsplit(" = ", 1) for line in answer["working"]]
    return all(abs(_value(expression) - float(result)) < 1e-6 for expression, result in pairs)


class Pupils:
    """All of them, and their judge: who reads an answer whose every sum is right takes it; else it stays with its own."""

    def __init__(self, known: Sequence[WordProblem]) -> None:
        self._known = known

    async def __call__(self, request: ModelRequest) -> Any:
        """Computed from the question and the answers that stand in its prompt."""
        said = "\n".join(str(message["content"]) for message in request.messages if message["role"] == "user")
        problem = next(one for one in self._known if f"problems: {one.question}" in said)
        last = str(request.messages[-1]["content"])
        shown = [json.loads(text) for text in re.findall(r"<answer number[^>]*>\n(.*?)\n</answer>", last, re.DOTALL)]
        good = [number for number, answer in enumerate(shown) if sound(answer)]
        if "/judge/" in request.key:
            return {"best": good[0] + 1 if good else 1, "why": "its sums are right"}
        found = re.search(r"/debater\.(\d+)/", request.key)
        return shown[good[0]] if good else written(problem, int(found[1]) if found else 0)


def solved(known: Sequence[WordProblem], strategy: str) -> int:
    """How many problems get the right answer in one run."""
    result = succeeded(ran(SOP.replace("STRATEGY", strategy), Pupils(known), {"questions": [one.question for one in known]},
                           sandbox="none", templates={"alone.j2": ALONE}))
    return sum(_right(one, result["answers"][one.question]["answer"]) for one in known)


def _right(problem: WordProblem, answer: float) -> bool:
    return abs(answer - problem.answer) < 1e-4


def expected(known: Sequence[WordProblem]) -> dict[str, int]:
    """The right counts, without any strategy: of the first pupil, of a vote, and where one without a slip convinces all."""
    found: Counter[str] = Counter()
    for problem in known:
        wrote = [written(problem, pupil) for pupil in range(PUPILS)]
        most = Counter(one["answer"] for one in wrote).most_common(1)[0][0]
        found["alone"] += _right(problem, wrote[0]["answer"])
        found["vote"] += _right(problem, most)
        found["debate"] += _right(problem, next((one["answer"] for one in wrote if sound(one)), most))
    return dict(found)


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    known = problems(data)
    who = f"roles: [{', '.join(['pupil'] * PUPILS)}], compare: answer.answer"
    alone = solved(known, "single")
    vote, two = solved(known, f"{{debate: {{{who}, rounds: 1}}}}"), solved(known, f"{{debate: {{{who}, rounds: 2}}}}")
    third = known[::3]
    unseen = solved(third, f"{{debate: {{{who}, rounds: 2, prompts: {{round: alone.j2}}}}}}")
    judged = solved(third, f"{{debate: {{{who}, rounds: 1, judge: judge}}}}")
    differs = ("in the model's place pupils who slip in half of the problems by a seed, see a slip of another one, and not their "
               "own: shown is that each round brings the others' answers to everybody, not how well models debate")
    return [
        PaperRow("debate", f"GSM8K, {len(known)} problems that end in a marked sum: right alone; by a vote of 3; in 2 rounds of "
                           "debate", "77.0 %; 81.0 %; 85.0 %", f"{alone}; {vote}; {two} of {len(known)}", differs),
        PaperRow("debate", "of every third: 2 rounds in which nobody is shown the others' answers; 1 round and a judge who "
                           "checks the sums", "no figure: it has no judge", f"{unseen}; {judged} of {len(third)}", "as above"),
    ]
