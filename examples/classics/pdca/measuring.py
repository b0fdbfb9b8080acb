"""Numbers against a goal: what was measured, whether it is better, which files are kept, and the log of it all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from fnmatch import fnmatchcase
from typing import Any

Files = Mapping[str, Any]
_DIFF, _PRINTED = 6_000, 2_000      # characters of a difference, and of what was printed, that a prompt shows


def checked(measured: dict[str, Any], versions: list[Any], past: list[Any], target: float, better: str, change: str,
            rounds: int) -> dict[str, Any]:
    """What a measurement means. `past`: what was said of those before; the first is of the folder as it was given.

    Raises ValueError where that one gives no number, or nothing may be changed: then there is nothing to improve.
    """
    number, fault = _number(measured)
    if not past:
        if number is None:
            raise ValueError(f"measure: {fault}; give a command that ends with status 0 and prints a number in its last line")
        if not any(fnmatchcase(path, change) for path in versions[-1]):
            raise ValueError(f"change: no file fits `{change}`; there is: {', '.join(sorted(versions[-1])[:20])}")
    best = past[-1]["best"] if past else None
    kept = number is not None and (best is None or (number < best if better == "lower" else number > best))
    now = number if kept else best
    reached = now <= target if better == "lower" else now >= target
    before = past[-1]["version"] if past else 0
    told = f"{fault}. The change is rolled back." if number is None else \
        f"Measured: {_shown(number)}" + (f", {_compared(number, best, better)}." if past else ".")
    return {"ok": reached, "ended": "goal" if reached else "rounds" if len(past) >= rounds else "no", "round": len(past),
            "number": number, "best": now, "kept": kept, "version": len(versions) - 1 if kept else before, "why": told,
            "printed": measured["stdout"][-_PRINTED:] if kept else past[-1]["printed"],
            "diff": _difference(versions[before], versions[-1]) if past else ""}


def _compared(number: float, best: float, better: str) -> str:
    gain = (best - number) * (1 if better == "lower" else -1)
    how = "better than" if gain > 0 else "as much as" if gain == 0 else "worse than"
    return f"{how} the best before, {_shown(best)}: " + ("the change is kept" if gain > 0 else "the change is rolled back")


def _number(measured: dict[str, Any]) -> tuple[float | None, str]:
    """The number in the last line of what a command printed, or why there is none."""
    lines = [line for line in measured["stdout"].splitlines() if line.strip()]
    if measured["exit_code"] != 0:
        said = (measured["stderr"].strip().splitlines() or lines or ["nothing"])[-1][:200]
        return None, f"The command gave no number: it ended with status {measured['exit_code']}, and its last words are: {said}"
    try:
        number = float(lines[-1]) if lines else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        return None, f"The command gave no number: its last line is `{lines[-1][:200] if lines else ''}`"
    return number, ""


def kept(versions: list[Any], checked: dict[str, Any]) -> dict[str, Any]:
    """The files of the best number again; None: a file that was added since."""
    good, now = versions[checked["version"]], versions[-1]
    return {**dict.fromkeys(now), **good}


def outside(work: Any, folder: Any, change: str) -> list[str]:
    """What was changed that may not be."""
    paths = sorted({*work, *folder})
    return [f"`{path}` may not be changed, only files that fit `{change}`: answer again without it" for path in paths
            if not fnmatchcase(path, change) and work.get(path) != folder.get(path)]


def log(checks: list[Any], plans: list[Any], lessons: list[Any], goal: str, measure: str, target: float, better: str,
        rounds: int) -> str:
    """The goal, what was tried, what came of it, what was learned, and how many rounds are left, as Markdown."""
    last = checks[-1]
    wanted = f"{'at most' if better == 'lower' else 'at least'} {_shown(target)}"
    used = f"{last['round']} of {rounds} rounds"
    ends = {"goal": f"The goal is reached: {_shown(last['best'])}, with {used}.",
            "rounds": f"The goal is not reached: the best is {_shown(last['best'])}, and all {rounds} rounds are used.",
            "no": f"The goal is not reached yet: the best is {_shown(last['best'])}. {used} are used, {rounds - last['round']} "
                  "are left. (A run that ends here has used up its budget: `sop resume RUN --budget calls=N` goes on.)"}
    told = [f"Goal: {goal}", f"As a number: {wanted}, printed by `{measure}`.", ends[last["ended"]],
            f"Before any change: {_shown(checks[0]['number'])}."]
    for check, plan, lesson in _rounds(checks, plans, lessons):
        told += [f"\n## Round {check['round']}\n", f"Tried: {plan['idea']}",
                 f"Expected: {_shown(plan['expect'])}. {check['why']}"]
        if not check["diff"]:
            told.append("No file was changed.")
        if lesson:
            told += [f"Cause: {lesson['cause']}", f"Learned: {lesson['lesson']}"]
    return "\n".join(told) + "\n"


def _rounds(checks: Sequence[Any], plans: Sequence[Any], lessons: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
    """Of each round after the first measurement its check, its plan and its lesson, which the last one may not have yet."""
    return list(zip(checks[1:], plans, [*lessons, *[None] * (len(checks) - 1 - len(lessons))], strict=False))


def _difference(before: Files, after: Files) -> str:
    """What is different between two sets of files, as far as they are texts."""
    lines: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path, ""), after.get(path, "")
        if old != new:
            texts = [text.splitlines() if isinstance(text, str) else ["(no text)"] for text in (old, new)]
            lines += unified_diff(*texts, path, path, lineterm="", n=1)
    text = "\n".join(lines)
    return text if len(text) <= _DIFF else f"{text[:_DIFF]}\n… ({len(text) - _DIFF:,} characters more)"


def _shown(number: float | None) -> str:
    return "no number" if number is None else f"{number:.6g}"
