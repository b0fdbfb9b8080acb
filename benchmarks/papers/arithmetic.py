"""GSM8K's problems as sums: what its calculator marks (`<<48/2=24>>`) compute, and which sums use which others' results.

Cobbe et al., "Training Verifiers to Solve Math Word Problems" (2021).
"""

from __future__ import annotations

import ast
import json
import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from benchmarks.papers.calculator import as_number

_MARK = re.compile(r"<<([^=<>]+)=([^<>]+)>>")
_NUMBER = re.compile(r"\d*\.?\d+")
_DOES = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True, slots=True)
class Sum:
    """One sum: `<r0>` stands in `text` for the result of sum 0; `needs` are those sums."""

    text: str
    needs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem: what is asked, the sums of the published solution, the answer."""

    question: str
    sums: tuple[Sum, ...]
    answer: Fraction

    def right(self, said: str) -> bool:
        """Whether this is the answer, up to the rounding of the published one."""
        return bool(said) and abs(Fraction(said) - self.answer) < Fraction(1, 100)


def problems(data: Path) -> dict[str, Problem]:
    """Those whose marks are all plain arithmetic and end in the published answer; number in the file → problem."""
    found = {}
    for number, line in enumerate((data / "gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()):
        record = json.loads(line)
        marks = _MARK.findall(record["answer"])
        try:
            answer = as_number(record["answer"].rpartition("####")[2])
            values = [Fraction(computed(value)) for _, value in marks]
            sums = tuple(_sum(text, values[:place]) for place, (text, _) in enumerate(marks))
            right = [abs(Fraction(computed(text)) - value) < Fraction(1, 100)
                     for (text, _), value in zip(marks, values, strict=True)]
        except (SyntaxError, ValueError, ZeroDivisionError):
            continue
        if marks and all(right) and values[-1] == answer:
            found[f"p{number}"] = Problem(record["question"], sums, answer)
    return found


def _sum(text: str, before: list[Fraction]) -> Sum:
    """A number that is an earlier result stands for the latest one that is equal to it."""
    needs: dict[int, None] = {}

    def named(found: re.Match[str]) -> str:
        for place in reversed(range(len(before))):
            if before[place] == Fraction(found[0]):
                needs[place] = None
                return f"<r{place}>"
        return found[0]

    return Sum(_NUMBER.sub(named, _plain(text)), tuple(needs))


def computed(text: str) -> str:
    """The value of a sum, exactly. Raises ValueError for what is none."""
    return str(_value(ast.parse(_plain(text), mode="eval").body))


def _plain(text: str) -> str:
    text = text.strip().replace("$", "").replace(",", "").replace("x", "*").replace("×", "*")
    text = re.sub(r"(\d*\.?\d+)%", r"(\1/100)", text)
    return re.sub(r"(?<![\d.])0+(?=\d)", "", text)


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _DOES:
        found: Fraction = _DOES[type(node.op)](_value(node.left), _value(node.right))
        return found
    raise ValueError(f"{ast.unparse(node)} is no sum")
