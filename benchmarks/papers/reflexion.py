"""Reflexion on HumanEval: GPT-4's logged solutions and reflections served through the strategy, and a model that needs lessons.

Shinn et al., "Reflexion: Language Agents with Verbal Reinforcement Learning" (NeurIPS 2023), table 1. The problems are those of
Chen et al., "Evaluating Large Language Models Trained on Code" (2021).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers import needs
from benchmarks.papers.row import PaperRow
from metaflow_agents import run_sync
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Observed
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.payload import Data, unpack

SOP = """
sop: programming
inputs: {problems: [{id: string, prompt: string, entry_point: string, test: string}]}
roles: {programmer: {profile: You write Python.}}
artifacts: {solutions: {files: "*/solution.py"}}
steps:
  solve:
    role: programmer
    needs: [problems]
    foreach: {in: problems, as: problem, key: problem.id, parallel: 2}
    makes: {solutions: "{{ problem.id }}/solution.py"}
    task: "{{ problems | length }} problems; this one: complete `{{ problem.id }}/solution.py`.\\n\\n{{ problem.prompt }}"
    strategy:
      reflexion:
        evaluator:
          run:
            - python
            - -c
            - |
              import sys
              sys.path.insert(0, "{{ problem.id }}")
              from solution import *
              {{ problem.test }}
              check({{ problem.entry_point }})
        unsolved: last
"""
BUG = "    return -987654321\n"
_LESSON = re.compile(r"<lesson>\n(.*?)\n</lesson>", re.DOTALL)
_VERDICT = re.compile(r"<verdict>\n(.*?)\n</verdict>", re.DOTALL)
_TRIAL = re.compile(r"/trial\.(\d+)/(turn\.0|lesson)$")


@dataclass(frozen=True, slots=True)
class Record:
    """A problem with what GPT-4 made of it in the end, and what it told itself on the way."""

    id: str
    prompt: str
    entry_point: str
    test: str
    canonical: str
    solution: str
    reflections: tuple[str, ...]
    solved: bool

    @property
    def given(self) -> dict[str, str]:
        """What a run is given of it."""
        return {"id": self.id, "prompt": self.prompt, "entry_point": self.entry_point, "test": self.test}

    def file(self, body: str) -> str:
        """The answer with a whole file."""
        return f"=== file: {self.id}/solution.py ===\n{self.prompt}{body.rstrip()}\n=== end ===\n"


@dataclass(frozen=True, slots=True)
class Ended:
    """How the trials of one problem ended, as the journal has it."""

    good: bool
    trials: int
    why: str


def logged(data: Path) -> list[Record]:
    """The 82 records in the order of the file."""
    lines = (data / "reflexion" / "humaneval_py_gpt4.jsonl").read_text(encoding="utf-8").splitlines()
    return [Record(one["task_id"].replace("/", "_"), one["prompt"], one["entry_point"], one["test"], one["canonical_solution"],
                   one["solution"], tuple(one["reflections"]), one["is_solved"]) for one in map(json.loads, lines)]


class Log:
    """Serves the log: as many failed trials as it has reflections, each followed by one of these, and then the solution.

    The log keeps no failed solution: an empty one stands for each. `lessons`: what stood in the prompts of the trials.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {record.id: record for record in records}
        self.lessons: dict[tuple[str, int], list[str]] = {}

    async def __call__(self, request: ModelRequest) -> Any:
        """By the place in the log that the call's key tells."""
        record = self._records[parse_activation(request.key).item or ""]
        found = _TRIAL.search(request.key)
        number, kind = (int(found[1]), found[2]) if found else (1, "turn.0")
        if kind == "lesson":
            return record.reflections[number - 1] if number <= len(record.reflections) else "The log has no more."
        self.lessons[record.id, number] = _LESSON.findall(str(request.messages[-1]["content"]))
        return record.file(f"    # trial {number}\n" if number <= len(record.reflections) else record.solution)

    def last_three(self) -> tuple[int, int]:
        """Of the trials after a logged reflection: in whose prompts the last three stood and nothing else; all of them."""
        later = {(id, number): lessons for (id, number), lessons in self.lessons.items()
                 if 1 < number <= len(self._records[id].reflections) + 1}
        right = sum(lessons == [one.strip() for one in self._records[id].reflections[:number - 1]][-3:]
                    for (id, number), lessons in later.items())
        return right, len(later)


class Learner:
    """Writes a bug, and the solution only where a lesson about its function and an error stands in its prompt.

    A lesson repeats the last line of what the evaluator said, and no more.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {record.id: record for record in records}

    async def __call__(self, request: ModelRequest) -> Any:
        """From the prompt alone."""
        said = "\n".join(str(message["content"]) for message in request.messages)
        record = self._records[re.search(r"`(HumanEval_\d+)/solution\.py`", said)[1]]       # type: ignore[index]
        verdict = _VERDICT.search(said)
        if verdict is not None:
            return f"`{record.entry_point}` failed: {verdict[1].strip().splitlines()[-1]}"
        learnt = any(f"`{record.entry_point}` failed" in lesson and "Error" in lesson for lesson in _LESSON.findall(said))
        return record.file(record.canonical if learnt else BUG)


def tried(records: Sequence[Record], model: Any, more: str = "", templates: Mapping[str, str] | None = None) -> dict[str, Ended]:
    """All problems in one run, each evaluated by its own tests in the sandbox. `more`: further lines of the parameters."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name, text in (templates or {}).items():
            (home / name).write_text(text, encoding="utf-8")
        (home / "programming.yaml").write_text(SOP + "".join(f"        {line}\n" for line in more.splitlines()), encoding="utf-8")
        result = run_sync(home / "programming.yaml", problems=[record.given for record in records], model=model,
                          workspace=home / "runs", name="trials")
        if not result.ok:
            raise RuntimeError(f"the run ended as {result.outcome}: {result.reason}")
        return _ended(home / "runs" / ".journals" / "trials.db")


def _ended(path: Path) -> dict[str, Ended]:
    found: dict[str, Ended] = {}
    with Journal.read(path) as journal:
        for _, event in journal.events(Observed):
            payload = unpack(journal.blob(event.payload))
            if event.key.endswith("/trials") and isinstance(payload, Data):
                note = payload.value
                found[parse_activation(event.key).item or ""] = Ended(note["good"], note["trials"], note["ended"])
    return found


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data. Raises NotMeasured where there is no sandbox."""
    needs.sandbox()
    records = logged(data)
    log = Log(records)
    served = tried(records, log, "trials: 10")
    agree = sum(served[record.id].good == record.solved for record in records)
    right, later = log.last_three()
    with_, first = tried(records, Learner(records), "trials: 2"), tried(records, Learner(records), "trials: 1")
    deaf = tried(records, Learner(records), "trials: 3\nprompts: {trial: deaf.j2}", {"deaf.j2": "{{ output_format }}"})
    count, stuck = len(records), sum(one.why.startswith("stuck") for one in deaf.values())
    return [
        PaperRow("reflexion", "records of GPT-4's log with whose verdict the evaluator in the sandbox agrees; solved",
                 "91.0 % solved; in the half at hand 73 of 82",
                 f"{agree} of {count}; {sum(one.good for one in served.values())}",
                 "GPT-4's answers are served from its log; failed ones are not in it, and empty ones stand for them"),
        PaperRow("reflexion", "trials after a logged lesson whose prompt shows the last three lessons and no others",
                 "1 to 3 are kept (section 3)", f"{right} of {later}", "nothing: the fourth lesson pushes out the first"),
        PaperRow("reflexion", "a planted bug mended: with the strategy; in one trial; with lessons taken out of the prompt",
                 "91.0 %; 80.1 % (GPT-4 alone)",
                 "; ".join(f"{sum(one.good for one in found.values())}" for found in (with_, first, deaf)) + f" of {count}",
                 "in the model's place a program that mends what its lesson names: shown is that the lesson comes from the "
                 "verdict and is read, not how well a model reflects"),
        PaperRow("reflexion", "lessons taken out: ended as stuck after the second of three trials",
                 "no figure: a trajectory ends where an action repeats its observation",
                 f"{stuck} of {count}", "the paper's rule is for other tasks (ALFWorld)"),
    ]
