# ruff: noqa: E501, ASYNC221, ASYNC240
"""`bug_fix.yaml` on planted defects: a test that fails before and passes after, and hidden tests that pass in the end.

    python -m benchmarks.bug_fix                    # all tasks of `polyglot_python` in the folder that SOP_TEST_DATA names; some minutes
    python -m benchmarks.bug_fix --tasks bowling,poker

The model is a function that sees only prompts and knows each task's example. So the figure says what the procedure does with a model
that finds what is asked for, and nothing of any model: which file is shown, that a test which passes goes back to its author, that a
fix which fails goes round again, what the patch holds. Every third task begins with a test that passes, every fourth with a fix that mends nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.planted import Planted, planted
from metaflow_agents import run

SOP = Path(__file__).parent.parent / "sops/bug_fix.yaml"
_FILE = re.compile(r'<file path="([^"]+)">\n(.*?)\n</file>', re.DOTALL)
_MAPPED = re.compile(r"^(\S+\.py):$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of a task. `place`: of the broken file in the map, from 1; 0 where it is not in it."""

    name: str
    fixed: bool
    red: int
    hidden: bool
    applies: bool
    place: int
    calls: int
    seconds: float
    why: str

    @property
    def good(self) -> bool:
        """A test failed before, passes after, hidden tests pass, and the patch applies."""
        return self.fixed and self.red > 0 and self.hidden and self.applies


class Knows:
    """A model that knows programs as they should be, and of a defect only what its prompts say."""

    def __init__(self, examples: Sequence[str], *, slips: tuple[str, ...] = ()) -> None:
        self._examples, self._slips = examples, set(slips)
        self.calls, self.place = 0, 0
        self._program = ""

    def __call__(self, request: Any) -> Any:
        """Answers by the step."""
        self.calls += 1
        text = "\n".join(part if isinstance(part := message["content"], str) else str(part) for message in request.messages)
        if request.step == "diagnose":
            mapped = _MAPPED.findall(text)
            program = next(path for path in mapped if not path.endswith("_test.py"))
            self.place = mapped.index(program) + 1
            return {"cause": "one operator or number is not what it should be", "expected": "what the issue expects",
                    "files": [{"path": program, "why": "the issue names it"}], "test_file": f"test_issue_{Path(program).stem}.py"}
        shown = dict(_FILE.findall(text))
        if request.step == "write_test":
            path = f"test_issue_{Path(next(iter(shown))).stem}.py"
            if "test" in self._slips:
                self._slips.discard("test")
                return _block(path, "def test_nothing():\n    assert True\n")
            reported = re.search(r"```python\n(.*?)\n```", text, re.DOTALL)
            return _block(path, f"{reported[1]}\n" if reported else "")
        path, now = next((path, held) for path, held in shown.items() if not path.startswith("test_issue_"))
        if "fix" in self._slips:
            self._slips.discard("fix")
            return _edit(path, now.splitlines(), [*now.splitlines(), "# looked at"])
        return _edit(path, now.splitlines(), difflib.get_close_matches(now, self._examples, 1, 0.5)[0].splitlines())


def _block(path: str, text: str) -> str:
    return f"==== file: {path} ====\n{text}==== end ====\n"


def _edit(path: str, now: list[str], wanted: list[str]) -> str:
    edits = ""
    for group in difflib.SequenceMatcher(None, now, wanted, autojunk=False).get_grouped_opcodes(3):
        _, first, _, other, _ = group[0]
        _, _, last, _, end = group[-1]
        edits += "\n".join(["<<<<<<< SEARCH", *now[first:last], "=======", *wanted[other:end], ">>>>>>> REPLACE"]) + "\n"
    return f"=== edit: {path} ===\n{edits}=== end ===\n"


async def mended(task: Planted, examples: Sequence[str], *, slips: tuple[str, ...] = (), sandbox: str | None = None) -> Outcome:
    """One task, from a folder with the defect to the verdict of its hidden tests."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        repo = Path(scratch, "repo")
        repo.mkdir()
        (repo / task.program).write_text(task.broken, encoding="utf-8")
        (repo / task.tests).write_text(task.visible, encoding="utf-8")
        before = {path.name: path.read_bytes() for path in repo.iterdir()}
        model = Knows(examples, slips=slips)
        result = await run(SOP, repo=str(repo), issue=task.issue, model=model, workspace=None, **({"sandbox": sandbox} if sandbox else {}))
        outcome = result["outcome"]
        assert {path.name: path.read_bytes() for path in repo.iterdir()} == before, "the repository is as it was"
        subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
        patch = result["patch"] if outcome["red"] else ""
        applied = subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=repo, capture_output=True, check=False)
        (repo / task.tests).write_text(task.hidden, encoding="utf-8")
        hidden = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], cwd=repo, capture_output=True, check=False)
    return Outcome(task.name, outcome["fixed"], len(outcome["red"]), hidden.returncode == 0, bool(patch) and applied.returncode == 0, model.place,
                   model.calls, time.monotonic() - begun, outcome["why"])


def folders(names: Sequence[str] = ()) -> list[Path]:
    """The tasks that are there. Raises SystemExit where the data are not."""
    data = Path(os.environ.get("SOP_TEST_DATA", "../shared/data")) / "polyglot_python"
    if not data.is_dir():
        raise SystemExit(f"there is no folder {data}: SOP_TEST_DATA names the folder with `polyglot_python`")
    return [folder for folder in sorted(data.iterdir()) if folder.is_dir() and (not names or folder.name in names)]


def slips_of(place: int) -> tuple[str, ...]:
    """What a task's model gets wrong at first."""
    return (*(("test",) if place % 3 == 0 else ()), *(("fix",) if place % 4 == 0 else ()))


async def main() -> None:
    """All tasks, one after the other, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", help="names, with commas")
    parser.add_argument("--sandbox", help="where commands run; by default the first that holds")
    given = parser.parse_args()
    chosen = folders(tuple(filter(None, given.tasks.split(","))))
    examples = [(folder / "meta/example.py").read_text(encoding="utf-8") for folder in chosen]
    outcomes = []
    for place, folder in enumerate(chosen):
        outcomes.append(one := await mended(planted(folder), examples, slips=slips_of(place), sandbox=given.sandbox))
        print(f"{one.name:26} {'good' if one.good else 'BAD':5} {one.calls:2} calls, place {one.place} in the map, {one.seconds:5.1f} s  "
              f"{one.why if not one.good else ', '.join(slips_of(place))}", flush=True)
    count = len(outcomes)
    print(f"\na test failed before and passes after: {sum(one.fixed and one.red > 0 for one in outcomes)} of {count}; hidden tests pass: "
          f"{sum(one.hidden for one in outcomes)} of {count}; the patch applies: {sum(one.applies for one in outcomes)} of {count}; "
          f"the file among the first five: {sum(0 < one.place <= 5 for one in outcomes)} of {count}")
    sys.exit(0 if all(one.good for one in outcomes) else 1)


if __name__ == "__main__":
    asyncio.run(main())
