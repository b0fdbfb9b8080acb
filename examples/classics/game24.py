"""The game of 24, checked: whether steps of arithmetic, such as `4 + 5 = 9 (left: 6 9 10)`, make 24 of four numbers."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Any

_NUMBER = r"(-?\d+(?:/\d+)?)"
_STEP = re.compile(rf"\s*{_NUMBER}\s*([-+*/])\s*{_NUMBER}\s*=\s*{_NUMBER}\s*(?:\(left:(.*)\))?\s*")


def verify(numbers: str, way: dict[str, Any]) -> dict[str, Any]:
    """`ok`, and in `why` what is wrong: each step uses two numbers that are left, its sum is right, and 24 alone is left."""
    left = Counter(Fraction(one) for one in re.findall(r"\d+", numbers))
    for place, step in enumerate(way["steps"], 1):
        fault = _carried_out(step, left)
        if fault:
            return {"ok": False, "why": f"step {place}, `{step}`: {fault}"}
    remains = [str(number) for number in left.elements()]
    return {"ok": remains == ["24"], "why": "" if remains == ["24"] else f"what is left is {' '.join(remains)}"}


def _carried_out(step: str, left: Counter[Fraction]) -> str:
    """Does a step on the numbers that are left; what is wrong with it."""
    found = _STEP.fullmatch(step)
    if found is None:
        return "it is not written like `4 + 5 = 9 (left: 6 9 10)`"
    a, sign, b, made, says = Fraction(found[1]), found[2], Fraction(found[3]), Fraction(found[4]), found[5]
    used = Counter([a, b])
    if used - left:
        return f"{' '.join(str(one) for one in (used - left).elements())} is not left"
    if sign == "/" and b == 0:
        return "nothing is divided by 0"
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[sign]
    if value != made:
        return f"it is {value}"
    left.subtract(used)
    left[made] += 1
    if says is not None and Counter(Fraction(one) for one in re.findall(_NUMBER, says)) != +left:
        return f"what is left is {' '.join(str(one) for one in left.elements())}"
    return ""
