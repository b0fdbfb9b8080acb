"""API-Bank's levels 2 and 3, and its three decisions apart: minds that search, read and call, some of them spoiled in one thing.

A mind knows what it wants done (the words that it searches by), recognises the documentation of an API when it reads it, and has
the values of arguments by their names. What it has not found it can't call. A token it takes from the call that gives it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.papers.api_bank import EXAMPLE, LEVELS, SEARCH, Dialogue, Gold, why_not
from benchmarks.papers.row import PaperRow
from metaflow_agents import ModelRequest, Reply, ToolCall, prepare, run_sync

Spoiled = Literal["", "need", "which", "enough"]
TOKEN = "token"


@dataclass(frozen=True, slots=True)
class Case:
    """What is said, the level, the words to search by, the gold calls; no calls: none is needed. `amiss`: the first argument is
    written backwards, and what comes of it is not good enough.
    """

    said: str
    level: Literal["find", "plan"]
    words: tuple[str, ...] = ()
    calls: tuple[Gold, ...] = ()
    amiss: bool = False


@dataclass
class Mind:
    """A model for one case. `pages`: the documentation that it read, by name; `made`: what it called and what that gave."""

    case: Case = field(default_factory=lambda: Case("", "find"))
    spoiled: Spoiled = ""
    pages: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    made: list[tuple[str, str]] = field(default_factory=list)

    def begin(self, case: Case, spoiled: Spoiled) -> None:
        """Another case."""
        self.case, self.spoiled, self.pages, self.made = case, spoiled, {}, []

    def __call__(self, request: ModelRequest) -> Any:
        """What it says in the request's step."""
        step: Callable[[ModelRequest], Any] = getattr(self, f"_{request.step}")
        return step(request)

    def _decide(self, request: ModelRequest) -> Any:
        return {"call": bool(self.case.calls) and self.spoiled != "need", "why": ""}

    def _lay_out(self, request: ModelRequest) -> Any:
        return {"steps": list(self.case.words)}

    def _find(self, request: ModelRequest) -> Any:
        read = _results(request)
        if len(read) < len(self.case.words):
            return _call(SEARCH, {"keywords": self.case.words[len(read)]})
        self.pages = {page["name"]: page for text in read for page in json.loads(text)["output"]}
        return _call("finish", {"answer": json.dumps({"apis": self.chosen})})

    @property
    def chosen(self) -> list[str]:
        """The APIs to be called that it has read of: first those that take no token, since one of them gives it."""
        wanted = [call.api for call in self.case.calls if call.api in self.pages]
        if self.spoiled == "which":             # what was found beside
            beside = [name for name in self.pages if name not in wanted]
            wanted = beside[:len(set(wanted))]
        return sorted(dict.fromkeys(wanted), key=lambda name: TOKEN in self.pages[name]["input_parameters"])

    def _act(self, request: ModelRequest) -> Any:
        gave, plan = _results(request), self._planned()
        self.made = [(call.api, text) for call, text in zip(plan, gave, strict=False)]
        if len(gave) >= len(plan):
            return _call("finish", {"answer": "done"})
        call, given = plan[len(gave)], dict(plan[len(gave)].arguments)
        if TOKEN in given and any(api == "GetUserToken" for api, _ in self.made):
            gave_it = next(json.loads(text)["output"] for api, text in self.made if api == "GetUserToken")
            given[TOKEN] = (gave_it or {}).get(TOKEN, "")
        if self.case.amiss and len(gave) == len(plan) - 1:
            name = next(iter(given))
            given[name] = str(given[name])[::-1]
        return _call(call.api, given)

    def _planned(self) -> list[Gold]:
        if self.spoiled == "which":
            return [Gold(name, self.case.calls[0].arguments, None, None) for name in self.chosen]
        order = {name: place for place, name in enumerate(self.chosen)}
        return sorted((call for call in self.case.calls if call.api in order), key=lambda call: order[call.api])

    def _judge(self, request: ModelRequest) -> Any:
        last = [line for line in str(request.messages[-1]["content"]).splitlines() if '"api_name"' in line][-1]
        return {"ok": '"exception": null' in last and self.spoiled != "enough", "why": ""}

    def _answer(self, request: ModelRequest) -> Any:
        return "done"


def _results(request: ModelRequest) -> list[str]:
    return [str(one["content"]) for one in request.messages if one["role"] == "tool"]


def _call(name: str, arguments: Mapping[str, Any]) -> Reply:
    return Reply("", calls=(ToolCall("", name, dict(arguments)),))


class Desk:
    """Runs cases through the SOP."""

    def __init__(self, data: Path) -> None:
        self.mind, self._databases = Mind(), data / "api_bank/database"
        self._sop = prepare(EXAMPLE, model=self.mind, workspace=None)

    def ran(self, case: Case, spoiled: Spoiled = "") -> Mapping[str, Any]:
        """The artifacts of a run. Raises RuntimeError where it did not succeed."""
        self.mind.begin(case, spoiled)
        result = run_sync(self._sop, inputs={"dialogue": case.said, "level": case.level, "databases": str(self._databases)})
        if not result.ok:
            raise RuntimeError(f"a run ended as {result.outcome}: {result.reason}")
        return result.artifacts


# -- levels

def found_and_called(desk: Desk, cases: Sequence[Case]) -> tuple[int, int, int]:
    """Of the gold calls: all, those whose documentation was found, and of these what was made and gave what was recorded."""
    whole = found = right = 0
    for case in cases:
        desk.ran(case)
        whole += len(case.calls)
        known = [call for call in case.calls if call.api in desk.mind.pages]
        found += len(known)
        made = list(desk.mind.made)
        for call in known:
            place = next((place for place, (api, text) in enumerate(made) if api == call.api and not why_not(call, text)), None)
            if place is not None:
                right += 1
                del made[place]
    return whole, found, right


def level_2(dialogues: Sequence[Dialogue]) -> Iterator[Case]:
    """A case for each dialogue that searches: by the words that were recorded."""
    for one in dialogues:
        words = tuple(str(turn.arguments["keywords"]) for turn in one.turns if isinstance(turn, Gold) and turn.api == SEARCH)
        if one.level == LEVELS[1] and words and one.calls:
            yield Case(one.said, "find", words, tuple(one.calls))


def level_3(dialogues: Sequence[Dialogue]) -> Iterator[Case]:
    """Level 2 without its hints: one request of all that the user said; nothing of what the assistant said or searched by. It is
    searched for by the user's own words, one search for each thing they said, and one for the token that an API asks for.
    """
    for one in dialogues:
        texts = [turn[1] for turn in one.turns if not isinstance(turn, Gold) and turn[0] == "User"]
        if one.level == LEVELS[1] and texts and one.calls:
            yield Case(f"User: {' '.join(texts)}", "plan", tuple(texts), tuple(one.calls))


# -- decisions

def turns(dialogues: Sequence[Dialogue]) -> Iterator[Case]:
    """For each thing that a user said at level 2: whether calls follow before they speak again, and which."""
    for one in dialogues:
        if one.level != LEVELS[1]:
            continue
        for place, turn in enumerate(one.turns):
            if isinstance(turn, Gold) or turn[0] != "User":
                continue
            after = one.turns[place + 1:]
            end = next((number for number, each in enumerate(after) if not isinstance(each, Gold) and each[0] == "User"),
                       len(after))
            calls = [each for each in after[:end] if isinstance(each, Gold) and each.api != SEARCH]
            words = tuple(str(each.arguments["keywords"]) for each in one.turns if isinstance(each, Gold) and each.api == SEARCH)
            if calls and not words:
                continue
            said = Dialogue(one.level, one.turns[:place + 1]).said
            yield Case(said, "find", words, tuple(calls))
            if calls:
                yield Case(said, "find", words, tuple(calls), amiss=True)


@dataclass
class Scores:
    """Of each decision: how often it was right, and how often it was to be made."""

    need: list[bool] = field(default_factory=list)
    which: list[bool] = field(default_factory=list)
    enough: list[bool] = field(default_factory=list)

    def told(self) -> str:
        """In words."""
        return ", ".join(f"{name} {sum(one)} of {len(one)}" for name, one in vars(self).items())


def decided(desk: Desk, cases: Sequence[Case], spoiled: Spoiled) -> Scores:
    """The three decisions of a mind, each where it comes to it: who sees no need chooses nothing."""
    scores = Scores()
    for case in cases:
        made = desk.ran(case, spoiled)
        scores.need.append(made["need"]["call"] == bool(case.calls))
        if not (made["need"]["call"] and case.calls):
            continue
        known = {call.api for call in case.calls if call.api in desk.mind.pages}
        if known:
            scores.which.append(set(made["found"]["apis"]) == known)
        last = [json.loads(line) for line in made["calls"].splitlines()][-1:]
        if last and made.get("enough") is not None:
            scores.enough.append(made["enough"]["ok"] == (last[0]["exception"] is None))
    return scores


_MINDS: tuple[tuple[Spoiled, str], ...] = (
    ("", "a mind that decides as was recorded"), ("need", "one that sees no need"),
    ("which", "one that takes what was found beside"), ("enough", "one that is never content"))


def rows(data: Path, dialogues: Sequence[Dialogue]) -> list[PaperRow]:
    """The figures."""
    desk = Desk(data)
    second, third = (found_and_called(desk, list(of(dialogues))) for of in (level_2, level_3))
    cases = list(turns(dialogues))
    told = "\n".join(f"{words}: {decided(desk, cases, spoiled).told()}" for spoiled, words in _MINDS)
    return [
        PaperRow("api_bank", "level 2: gold calls whose documentation is found by the recorded keywords (five pages each, and "
                 "who gives the token), and of these made rightly", "GPT-4: 37.0 % (Retrieve+Call, table 3)",
                 f"{second[1]} of {second[0]} found; {second[2]} of {second[1]} made",
                 "the mind can search, read and call, and knows what it wants; no model chooses"),
        PaperRow("api_bank", "level 3, made of level 2: one request of all that the user said, no hint of what to search for; "
                 "planned, searched by the user's words, called in the order that the documentation asks for",
                 "GPT-4: 70.0 % (Plan+Retrieve+Call, table 3; as remembered, not verified)",
                 f"{third[1]} of {third[0]} found; {third[2]} of {third[1]} made",
                 "the paper's level 3 is other dialogues, which are not among the data"),
        PaperRow("api_bank", f"the three decisions apart, in {len(cases)} cases of level 2: is a call needed, which, is what it "
                 "gave good enough", "—", told,
                 "each call stands there twice: as recorded, and with an argument written backwards, since no recorded result is "
                 "not good enough"),
    ]
