"""API-Bank: its gold calls, made anew by `examples/classics/api_bank` on the engine, and its three decisions scored apart.

Li et al., "API-Bank: A Comprehensive Benchmark for Tool-Augmented LLMs" (EMNLP 2023). A dialogue is one run on databases of its
own: its calls are asked for as a model would, checked against the APIs' schemas, carried out, and what they give is held against
what was recorded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.row import PaperRow
from metaflow_agents import ModelRequest, Prepared, Reply, RunResult, ToolCall, load_sop, prepare, run_sync

EXAMPLE = Path(__file__).parents[2] / "examples/classics/api_bank/api_bank.yaml"
SEARCH = "ToolSearcher"
LEVELS = ("level-1-given-desc", "level-2-toolsearcher")
DRAWN = frozenset({"RegisterUser", "AppointmentRegistration"})
"""APIs whose output is drawn by chance; the benchmark's own check looks at their input alone."""


@dataclass(frozen=True, slots=True)
class Gold:
    """A call as it was recorded."""

    api: str
    arguments: Mapping[str, Any]
    output: Any
    exception: str | None


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What was said and called, in order: (who, text) or a call."""

    level: str
    turns: tuple[tuple[str, str] | Gold, ...]

    @property
    def calls(self) -> list[Gold]:
        """Its calls but those of the tool search."""
        return [turn for turn in self.turns if isinstance(turn, Gold) and turn.api != SEARCH]

    @property
    def said(self) -> str:
        """All that was said, line by line."""
        return "\n".join(f"{turn[0]}: {turn[1]}" for turn in self.turns if not isinstance(turn, Gold))


def dialogues(data: Path) -> Iterator[Dialogue]:
    """All of them. Raises FileNotFoundError where there are none."""
    found = [(level, path) for level in LEVELS for path in sorted((data / "api_bank" / level).glob("*.jsonl"))]
    if not found:
        raise FileNotFoundError(2, "no dialogues", str(data / "api_bank"))
    for level, path in found:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        yield Dialogue(level, tuple(_turn(line) for line in lines))


def _turn(line: Mapping[str, Any]) -> tuple[str, str] | Gold:
    """A line. The input in the result is the arguments after the benchmark's own conversion of texts into types."""
    if line["role"] != "API":
        return line["role"], line["text"]
    result = line["result"]
    typed = result.get("input")
    return Gold(line["api_name"], typed if isinstance(typed, dict) else line["param_dict"], result.get("output"),
                result.get("exception"))


class Player:
    """A model that makes the gold calls one after the other, and keeps what they gave."""

    def __init__(self) -> None:
        self.calls: list[Gold] = []
        self.gave: list[str] = []

    def __call__(self, request: ModelRequest) -> Any:
        """The next gold call; of the other steps what lets the run go on."""
        if request.step != "act":
            return {"decide": {"call": True, "why": "gold"}, "judge": {"ok": True, "why": "gold"}}.get(request.step, "done")
        self.gave = [str(one["content"]) for one in request.messages if one["role"] == "tool"]
        if len(self.gave) >= len(self.calls):
            return Reply("", calls=(ToolCall("", "finish", {"answer": "done"}),))
        gold = self.calls[len(self.gave)]
        return Reply("", calls=(ToolCall("", gold.api, dict(gold.arguments)),))


class Replay:
    """Replays the gold calls of dialogues, each in a run of its own."""

    def __init__(self, databases: Path) -> None:
        self._player, self._databases = Player(), databases
        self._sop: Prepared = prepare(EXAMPLE, model=self._player, workspace=None)
        self._names = frozenset(load_sop(EXAMPLE).program.sop.roles["caller"].tools)

    def gave(self, dialogue: Dialogue) -> list[str]:
        """What each gold call gave. Raises RuntimeError where the run did not succeed."""
        self._player.calls, self._player.gave = dialogue.calls, []
        apis = [name for name in dict.fromkeys(call.api for call in dialogue.calls) if name in self._names]
        result: RunResult = run_sync(self._sop, inputs={
            "dialogue": dialogue.said, "level": "call", "apis": apis, "databases": str(self._databases)})
        if not result.ok or len(self._player.gave) < len(dialogue.calls):
            raise RuntimeError(f"a replay ended as {result.outcome}: {result.reason}")
        return self._player.gave


def why_not(gold: Gold, gave: str) -> str:
    """Why what a call gave does not agree with its record; empty where it does."""
    if " was not called: " in gave:
        return "its arguments are not those of the published API: the record is older"
    found = json.loads(gave)
    output, exception = found["output"], found["exception"]
    if (output, exception) == (gold.output, gold.exception):
        return ""
    if gold.api in DRAWN and output is not None and gold.output is not None:
        return ""
    if str(exception).startswith("there is no database"):
        return "the original asks a service outside, or its database was not published"
    if exception is None and gold.exception is None:
        return "both answer, from other data: the record was made on other databases or by an older API"
    return "one answers and the other refuses: " + str(exception)


def replayed(data: Path, among: Iterable[Dialogue]) -> Counter[str]:
    """Why calls don't agree with their records → how many; "" counts those that do."""
    replay, found = Replay(data / "api_bank/database"), Counter[str]()
    for dialogue in among:
        if dialogue.calls:
            found.update(why_not(gold, gave) for gold, gave in zip(dialogue.calls, replay.gave(dialogue), strict=False))
    return found


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    from benchmarks.papers import api_bank_levels

    everything = list(dialogues(data))
    found = replayed(data, everything)
    reasons = "\n".join(f"{number}: {why}" for why, number in found.most_common() if why)
    return [
        PaperRow("api_bank", "gold calls of levels 1 and 2, made anew by the tools and the engine, that give what was recorded",
                 "399 of 463 in the whole set agree with the original implementations: 86.2 %",
                 f"{found['']} of {found.total()}: {found[''] / found.total():.1%}\n{reasons}",
                 "without the searches, which have rows of their own; IDs and tokens that are drawn by chance agree by their "
                 "kind, as in the benchmark's own check; a dialogue has databases of its own"),
        *api_bank_levels.rows(data, everything)]
