"""ReAct on GSM8K: a model that knows which sums to do and can't do them reads each result before it writes down the next sum.

Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (ICLR 2023), table 1. The sums are the problems' own
marks `<<48/2=24>>` (Cobbe et al., "Training Verifiers to Solve Math Word Problems", 2021).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.calculator import as_number, calculate
from benchmarks.papers.row import PaperRow
from benchmarks.papers.running import ran, succeeded
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall

SOP = """
sop: word_problems
inputs: {questions: [string]}
roles: {pupil: {profile: You solve word problems., tools: TOOLS}}
tools: {calculate: {python: "benchmarks.papers.calculator:calculate", effect: none}}
artifacts: {answers: {each: {answer: number}}}
steps:
  solve:
    role: pupil
    needs: [questions]
    foreach: {in: questions, as: question, parallel: 20}
    makes: answers
    task: "One of {{ questions | length }} problems: {{ question }}"
    strategy: STRATEGY
"""
_MARK = re.compile(r"<<(.+?)=(.+?)>>")
_NUMBER = re.compile(r"\d*\.?\d+")


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A question, the sums that lead to its answer, and the answer. In a sum `{0}` is the result of the first one."""

    question: str
    sums: tuple[str, ...]
    answer: float


def problems(data: Path) -> list[WordProblem]:
    """Those of which the last marked sum is the answer."""
    lines = (data / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    found = (_problem(json.loads(line)) for line in lines)
    return [problem for problem in found if problem is not None]


def _problem(record: dict[str, str]) -> WordProblem | None:
    marks = _MARK.findall(record["answer"])
    answer = float(as_number(record["answer"].partition("####")[2]))
    try:
        results = [float(as_number(value)) for _, value in marks]
    except ValueError:                                          # a mark whose result is no number
        return None
    if not results or abs(results[-1] - answer) > 1e-6:
        return None
    return WordProblem(record["question"].strip(), tuple(_with_places(expression, results[:place])
                                                         for place, (expression, _) in enumerate(marks)), answer)


def _with_places(expression: str, before: Sequence[float]) -> str:
    """The sum, and in the place of each number that an earlier one gave the number of that one."""
    def place(found: re.Match[str]) -> str:
        given = [number for number, result in enumerate(before) if result == float(found[0])]
        return f"{{{given[-1]}}}" if given else found[0]
    return _NUMBER.sub(place, expression)


class Pupil:
    """Knows what to add and to multiply. In its head a result has one significant digit; the tool's has all of them.

    What it is about stands in its prompt: the question, and what the tool gave. `hasty`: it asks for all its sums in one message
    as long as nobody tells it better, later ones with its own guesses in them.
    """

    def __init__(self, known: Sequence[WordProblem], *, hasty: bool = False) -> None:
        self._known, self._hasty = known, hasty

    async def __call__(self, request: ModelRequest) -> Any:
        """The next sum for the tool; the answer, where there are no more sums or no tool."""
        said = "\n".join(str(message["content"]) for message in request.messages if message["role"] == "user")
        problem = next(one for one in self._known if f"problems: {one.question}" in said)
        read = [float(str(message["content"])) for message in request.messages
                if message["role"] == "tool" and _is_number(str(message["content"]))]
        sums = self._sums(problem, read)
        left = sums[len(read):]
        has_tool = any(tool["name"] == "calculate" for tool in request.tools)
        if left and has_tool:
            corrected = any("none of them was carried out" in str(message["content"]) for message in request.messages)
            now = left if self._hasty and not corrected else left[:1]
            return Reply(text="I do the next sum.", calls=tuple(ToolCall("", "calculate", {"expression": one}) for one in now))
        results = [*read, *(in_the_head(one) for one in left)]
        return json.dumps({"answer": results[-1]})

    @staticmethod
    def _sums(problem: WordProblem, read: Sequence[float]) -> list[str]:
        """All sums, with the results in their places: those that it read, else those that it guesses."""
        results, written = list(read), []
        for number, one in enumerate(problem.sums):
            written.append(one.format(*(f"{result:f}" for result in results)))
            if number >= len(read):
                results.append(in_the_head(written[-1]))
        return written


def in_the_head(expression: str) -> float:
    """A sum to one significant digit."""
    try:
        return float(f"{calculate(expression):.0e}")
    except ZeroDivisionError:
        return 0.0


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text) is not None


def solved(known: Sequence[WordProblem], strategy: str, *, tool: bool = True, hasty: bool = False) -> int:
    """How many problems get the right answer in one run."""
    text = SOP.replace("STRATEGY", strategy).replace("TOOLS", "[calculate]" if tool else "[]")
    answers = succeeded(ran(text, Pupil(known, hasty=hasty), {"questions": [one.question for one in known]}))["answers"]
    return sum(abs(answers[one.question]["answer"] - one.answer) < 1e-4 for one in known)


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    known = problems(data)
    all_steps, none = solved(known, "{react: {max_steps: 12}}"), solved(known, "chain_of_thought", tool=False)
    few = {most: solved(known, f"{{react: {{max_steps: {most}}}}}") for most in (1, 2, 4)}
    hasty, unled = solved(known, "{react: {max_steps: 12}}", hasty=True), solved(known, "single", hasty=True)
    paper = "FEVER 60.9 % with actions; 56.3 % by reasoning alone. HotpotQA 27.4 %; 29.4 %"
    differs = ("another task, and in the model's place a program that knows which sums to do and can't do them: shown is that "
               "each observation reaches the next thought, not how well a model reasons")
    return [
        PaperRow("react", f"GSM8K, {len(known)} problems that end in a marked sum: right with the tool; by reasoning alone",
                 paper, f"{all_steps}; {none} of {len(known)}", differs),
        PaperRow("react", "the same with max_steps 1; 2; 4: the best answer after the last step",
                 "no figure; 7 and 5 steps at most (as remembered, not verified)",
                 "; ".join(f"{count}" for count in few.values()) + f" of {len(known)}", "as above"),
        PaperRow("react", "the same of a hasty model, which asks for all sums at once: held to one action a message; not held",
                 "no figure: its text form has one action a step", f"{hasty}; {unled} of {len(known)}", "as above"),
    ]
