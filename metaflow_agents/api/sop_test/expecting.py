"""What a case expects of its run, and what of that does not hold: expected, found, and where it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from metaflow_agents.api.sop_test.lived import Lived, Path, spelt
from metaflow_agents.errors import ExpressionError
from metaflow_agents.journal.records import Spending
from metaflow_agents.models.pricing import dollars, picodollars
from metaflow_agents.prompts import MISSING, CollectionView, FilesView, analyse_expression, claims, evaluate, truthy
from metaflow_agents.prompts.names import free_names
from metaflow_agents.schema.address import cover, parse_address
from metaflow_agents.schema.binary import Content
from metaflow_agents.schema.case import AtMost, Case, Prompted
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import SOP
from metaflow_agents.steps.given import given_name

Spent = Mapping[tuple[str, str], Spending]
"""(role, step) → what it cost."""
_SHOWN = 300                        # characters of a value
_NAMED = 3                          # activations that are named for one text
_FIRINGS = 40                       # that are listed


@dataclass(frozen=True, slots=True)
class Unmet:
    """One expectation that does not hold. `at`: where in the case it is written; `line`, `column`: where in that text, from 1.

    `place` is the same as `file:line:column`, once whoever knows the file has filled it in.
    """

    expected: str
    was: str
    at: tuple[str | int, ...]
    line: int = 1
    column: int = 1
    place: str = ""

    def as_json(self) -> dict[str, str]:
        """What `sop test --json` prints of it."""
        return {"place": self.place, "expected": self.expected, "was": self.was}


def unmet(sop: SOP, case: Case, scope: Mapping[str, Any], reason: str, lived: Lived, spent: Spent) -> Iterator[Unmet]:
    """All that does not hold. `scope`: what `expect` sees, `success` among it, and `reason` why that is false."""
    yield from _expression(case.expect, scope, reason)
    for address, prompted in case.prompts.items():
        yield from _prompts(address, prompted, lived)
    yield from _order(case.order, lived)
    yield from _at_most(case.at_most, spent)
    yield from _given(sop, case, lived)


# --- expect

def _expression(expect: str, scope: Mapping[str, Any], reason: str) -> Iterator[Unmet]:
    """The first part of the condition that does not hold."""
    for claim in claims(expect):
        try:
            if truthy(evaluate(claim.text, scope)):
                continue
            sides = claim.sides or tuple(sorted(".".join(path) for path in _paths(claim.text, scope)))
            found = [f"{side} is {shown(evaluate(side, scope))}" for side in sides if free_names(side)]
            was = f"success is false: {reason}" if claim.text == "success" else "; ".join(found) or "it does not hold"
        except ExpressionError as error:
            was = str(error)
        yield Unmet(claim.text, was, ("expect",), claim.line, claim.column)
        return


def _paths(text: str, scope: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """What an expression names, as far as it can be written with dots."""
    return (path for path in analyse_expression(text, dict.fromkeys(scope, Shape.any())).paths
            if all(part.isidentifier() for part in path))


def shown(value: Any) -> str:
    """A value in a line: what is missing as that, of files their paths and sizes."""
    if value is MISSING:
        return "missing"
    if isinstance(value, FilesView):
        text = ", ".join(_sized(path, value[path]) for path in value) or "no files"
    else:
        text = json.dumps(dict(value) if isinstance(value, CollectionView) else value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _sized(path: str, held: Content) -> str:
    return f"{path} ({len(held):,} characters)" if isinstance(held, str) else f"{path} ({held.media_type}, {held.size:,} bytes)"


# --- prompts

def _prompts(written: str, prompted: Prompted, lived: Lived) -> Iterator[Unmet]:
    address, at = parse_address(written), ("prompts", written)
    meant = {path: prompts for path, prompts in lived.sent.items() if cover(address, path)}
    if not meant:
        yield Unmet(f"a prompt of `{written}`", _why_none(address[-1].step, lived), at)
        return
    for place, text in enumerate(prompted.contains):
        lacking = [path for path, prompts in meant.items() if not any(text in prompt for prompt in prompts)]
        if lacking:
            yield Unmet(f"the prompt of {_named(lacking)} to contain {shown(text)}", _nearest(text, meant[lacking[0]]),
                        (*at, "contains", place))
    for place, text in enumerate(prompted.not_contains):
        holding = [path for path, prompts in meant.items() if any(text in prompt for prompt in prompts)]
        if holding:
            prompt = next(prompt for prompt in meant[holding[0]] if text in prompt)
            yield Unmet(f"no prompt of {_named(holding)} to contain {shown(text)}", _around(text, prompt),
                        (*at, "not_contains", place))


def _named(paths: list[Path]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(f"`{spelt(path)}`" for path in paths[:_NAMED]) + more


def _why_none(step: str, lived: Lived) -> str:
    theirs = [path for path in lived.sent if path[-1].step == step]
    if theirs:
        return f"its prompts are of {_named(theirs)}"
    fired = any(path[-1].step == step for path in lived.fired)
    return f"`{step}` fired and asked no model: its work was given" if fired else f"`{step}` did not fire"


def _nearest(text: str, prompts: list[str]) -> str:
    """What the prompt has in its place: the line that is most like it."""
    lines = [line.strip() for prompt in prompts for line in prompt.splitlines() if line.strip()]
    close = get_close_matches(text, lines, 1, 0.4)
    size = f"{sum(map(len, prompts)):,} characters without it"
    return f"{size}; most like it is {shown(close[0])}" if close else size


def _around(text: str, prompt: str) -> str:
    start = prompt.index(text)
    line = prompt.count("\n", 0, start) + 1
    begin, end = prompt.rfind("\n", 0, start) + 1, prompt.find("\n", start + len(text))
    return f"line {line} is {shown(prompt[begin:len(prompt) if end < 0 else end])}"


# --- order

def _order(order: tuple[str, ...], lived: Lived) -> Iterator[Unmet]:
    """Each firing comes behind the one before it; others may stand between."""
    at = 0
    for place, written in enumerate(order):
        address = parse_address(written)
        found = next((number for number in range(at, len(lived.fired)) if cover(address, lived.fired[number])), None)
        if found is None:
            behind = f" after `{order[place - 1]}`" if place else ""
            yield Unmet(f"`{written}` to fire{behind}", _listed(lived.fired), ("order", place))
            return
        at = found + 1


def _listed(fired: Sequence[Path]) -> str:
    if not fired:
        return "nothing fired"
    more = f" … and {len(fired) - _FIRINGS} more" if len(fired) > _FIRINGS else ""
    return f"fired: {', '.join(spelt(path, firing=True) for path in fired[:_FIRINGS])}{more}"


# --- at_most

def _at_most(most: AtMost, spent: Spent) -> Iterator[Unmet]:
    total = sum(spent.values(), Spending())
    if most.calls is not None and total.calls > most.calls:
        yield Unmet(f"at most {most.calls:,} calls", _by_step(spent, "calls"), ("at_most", "calls"))
    if most.tokens is not None and total.tokens > most.tokens:
        yield Unmet(f"at most {most.tokens:,} tokens", _by_step(spent, "tokens"), ("at_most", "tokens"))
    if most.usd is not None and total.cost > picodollars(most.usd):
        yield Unmet(f"at most ${most.usd:g}", _by_step(spent, "cost"), ("at_most", "usd"))


def _by_step(spent: Spent, measure: str) -> str:
    """The sum, and what each step has of it, the dearest first."""
    steps: dict[str, int] = {}
    for (_, step), spending in spent.items():
        steps[step] = steps.get(step, 0) + getattr(spending, measure)

    def told(number: int) -> str:
        return dollars(number) if measure == "cost" else f"{number:,}"

    parts = [f"{step} {told(number)}" for step, number in sorted(steps.items(), key=lambda one: -one[1]) if number]
    unit = "" if measure == "cost" else f" {measure}"
    return f"{told(sum(steps.values()))}{unit}: {', '.join(parts)}"


# --- given

def _given(sop: SOP, case: Case, lived: Lived) -> Iterator[Unmet]:
    """A round for which something was given has to come: else the case shows less than it says."""
    for written in case.given:
        name = given_name(written)[-1]
        makers = [step for step, one in sop.steps.items() if name.step in (step, one.makes.artifact)]
        own = [path for path in lived.fired if len(path) == 1 and path[0].step in makers]
        if name.round is not None and all(path[0].round != name.round for path in own):
            yield Unmet(f"a firing that `{written}` is given for", _listed(own), ("given", written))
