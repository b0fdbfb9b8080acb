"""A situation behind an address: looked at, held against a goal by numbers, acted on only while what was decided on still holds.

GET gives `{"numbers": {NAME: NUMBER}, "acts": {NAME: WHAT IT DOES}}`; POST takes `{"act": NAME}`. Names are words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import httpx

_LARGEST, _MOST = 1 << 16, 50       # bytes of an answer; names in it
_SECONDS = 10.0
_NAME = re.compile(r"[A-Za-z][\w-]{0,39}")
_FORM = '{"numbers": {NAME: NUMBER}, "acts": {NAME: TEXT}}'
WAIT = "wait"


def look(where: str) -> dict[str, Any]:
    """The situation as it is now. Raises ValueError where nothing answers, or what answers has another form."""
    found = _asked("GET", where)
    numbers, acts = (found.get(key) if isinstance(found, dict) else None for key in ("numbers", "acts"))
    if not isinstance(numbers, dict) or not isinstance(acts, dict) or max(len(numbers), len(acts)) > _MOST:
        raise ValueError(f"where: {where} gave another form; expected {_FORM} with at most {_MOST} names each")
    for name in (*numbers, *acts):
        if not _NAME.fullmatch(name):
            raise ValueError(f"where: {where} gave the name {name[:60]!r}; expected a word of at most 40 letters and digits")
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"where: {where} gave {name} = {str(value)[:60]}; expected a number")
    return {"numbers": numbers, "acts": {name: str(does)[:200] for name, does in acts.items()}}


def _asked(method: str, where: str, **body: Any) -> Any:
    """What an address answers: JSON of a bounded size."""
    try:
        plain = where.startswith("http://")             # no certificates are read for it, which takes a while
        with httpx.stream(method, where, timeout=_SECONDS, trust_env=False, verify=not plain, **body) as reply:
            read = b""
            for part in reply.iter_bytes():
                read += part
                if len(read) > _LARGEST:
                    raise ValueError(f"where: {where} gave more than {_LARGEST:,} bytes")
            if reply.status_code != 200:
                raise ValueError(f"where: {where} answered {method} with status {reply.status_code}; expected 200")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ValueError(f"where: {where} gave no answer ({error}): start what is to be looked at, or give its address, "
                         "like http://127.0.0.1:8000") from None
    try:
        return json.loads(read)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"where: {where} gave no JSON ({error}); expected {_FORM}") from None


def checked(seen: dict[str, Any], past: list[Any], number: str, least: float, most: float, hold: int,
            rounds: int) -> dict[str, Any]:
    """The number of a look against its bounds. `past`: what was said of earlier looks. Raises ValueError for no such number."""
    numbers = seen["numbers"]
    if number not in numbers:
        raise ValueError(f"number: there is no `{number}`; there is: {', '.join(numbers)}")
    if least > most:
        raise ValueError(f"least: {least:g} is more than most, {most:g}; give the smaller one as `least`")
    value = numbers[number]
    within = (past[-1]["within"] if past else 0) + 1 if least <= value <= most else 0
    reached, used = within >= hold, len(past)
    place = "below" if value < least else "above" if value > most else f"within, for {within} of {hold} looks in a row"
    return {"ok": reached, "ended": "goal" if reached else "rounds" if used >= rounds else "no", "round": used, "value": value,
            "within": within, "why": f"{number} is {value:g}: {place}", "numbers": numbers}


def undecided(decision: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    """What is wrong with a decision, held against the look that it is made on."""
    faults = []
    if decision["act"] not in (*seen["acts"], WAIT):
        faults.append(f"`act`: there is no `{decision['act']}`; there is: {', '.join((*seen['acts'], WAIT))}")
    if not decision["holds"]:
        faults.append("`holds` is empty: say within which bounds of which number this act is right")
    return faults + _broken(decision["holds"], seen["numbers"])


def _broken(holds: Sequence[dict[str, Any]], numbers: dict[str, float]) -> list[str]:
    """The bounds that numbers are not within."""
    unknown = [f"`holds`: there is no number `{one['number']}`; there is: {', '.join(numbers)}"
               for one in holds if one["number"] not in numbers]
    return unknown + [f"{one['number']} is {numbers[one['number']]:g}, and not within {one['least']:g} to {one['most']:g}"
                      for one in holds if one["number"] in numbers and not one["least"] <= numbers[one["number"]] <= one["most"]]


def act(decision: dict[str, Any], where: str) -> dict[str, Any]:
    """Does what was decided, if a look now shows that what it was decided on still holds."""
    now = look(where)
    broken = _broken(decision["holds"], now["numbers"])
    if decision["act"] not in (*now["acts"], WAIT):
        broken.append(f"there is no act `{decision['act']}` any more")
    if broken:
        return {"done": False, "why": f"`{decision['act']}` was not done, since the situation changed after it was decided: "
                                      f"{'; '.join(broken)}."}
    if decision["act"] != WAIT:
        _asked("POST", where, json={"act": decision["act"]})
    return {"done": True, "why": f"`{decision['act']}` was done."}


def log(checks: list[Any], orientations: list[Any], decisions: list[Any], results: list[Any], goal: str, wanted: str,
        rounds: int) -> str:
    """The goal, every look, what was decided, what came of it, and how many acts are left, as Markdown."""
    last = checks[-1]
    left = rounds - last["round"]
    ends = {"goal": f"The goal is reached: {last['why']}, after {last['round']} acts.",
            "rounds": f"The goal is not reached: {last['why']}, and all {rounds} acts are used.",
            "no": f"The goal is not reached yet: {last['why']}. {left} act{' is' if left == 1 else 's are'} left. (A run that "
                  "ends here has used up its budget: `sop resume RUN --budget calls=N` goes on.)"}
    told = [f"Goal: {goal}", f"As a number: {wanted}.", ends[last["ended"]]]
    for place, (check, orientation, decision, result) in enumerate(zip_longest(checks, orientations, decisions, results), 1):
        told.append(f"\nLook {place}: {', '.join(f'{name} {value:g}' for name, value in check['numbers'].items())}.")
        if decision and result:
            told += [f"Learned: {orientation['learned']}", f"Decided: `{decision['act']}`. Why: {decision['why']}",
                     f"Expected: {decision['expect']}", f"What came of it: {result['why']}"]
    return "\n".join(told) + "\n"
