"""Runs of `crash/start.yaml` that are killed between the start of their process and their end, and what can be done with them.

usage: crash_start.py PHASE COUNT SEED [fork|real]     PHASE: start (up to the first call of a model) or whole

One process without threads: it forks. Prints what failed, and how many kills found what.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from killing import Died, said, traced

HERE = Path(__file__).parent / "crash"
NAME = "one"
CALLS = 6               # of the model, of which two at once may be under way


class Scene:
    """A folder of its own for a run: workspace, state folder, and the ledger of the model's calls."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.ledger = root, root / "w", root / "ledger"
        self.where = ["--workspace", str(self.home)]
        self.run = ["run", str(HERE / "start.yaml"), "--topic", "t", "--name", NAME, "--sandbox", "none", "--model",
                    f"python:{HERE / 'start_desk.py'}:answer", *self.where]
        self.resume = ["resume", NAME, "--sandbox", "none", *self.where]

    def enter(self) -> None:
        """Paths of this process, and so of its forks."""
        os.environ["XDG_STATE_HOME"], os.environ["XDG_CONFIG_HOME"] = str(self.root / "state"), str(self.root / "config")
        os.environ["SOP_TEST_LEDGER"] = str(self.ledger)

    def killed(self, words: Sequence[str], at: int, *, real: bool = False, first_call: bool = False) -> Died:
        """The command, killed at its change number `at` (0: never). `first_call`: it ends where the model is first called."""
        from metaflow_agents.cli import command

        begun = (lambda _: self.ledger.exists()) if first_call else None
        new = [sys.executable, "-c", "from metaflow_agents.cli import main; main()", *words]
        return traced(new if real else lambda: command(list(words)), at, self.root, self.root / "out", begun)

    def calls(self) -> Counter[str]:
        """How often the model was asked each call."""
        return Counter(self.ledger.read_text().split()) if self.ledger.exists() else Counter()

    def files(self) -> dict[str, str]:
        """The run's folder but for its history."""
        top = self.home / NAME
        return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*"))
                if path.is_file() and ".git" not in path.parts}


@contextmanager
def scene() -> Iterator[Scene]:
    memory = "/dev/shm"                                             # a kill asks nothing of the disk
    root = Path(tempfile.mkdtemp(prefix="crash-of-sop-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        made = Scene(root)
        made.enter()
        yield made
    finally:
        shutil.rmtree(root)


def warm() -> None:
    """Imports here what a run imports, so that its forks need not."""
    with scene() as made:
        listed = made.root / "modules"

        def work() -> int:
            from metaflow_agents.cli import command

            status = command(made.run)
            for words in (["show", NAME], ["show", NAME, "parts", "--json"], ["log", NAME], ["log", NAME, "--audit"], ["runs"],
                          ["log", NAME, "--json"], ["show", NAME, "--json"], ["resume", NAME]):
                command([*words, *made.where])
            listed.write_text("\n".join(name for name in sys.modules if not name.startswith(("_", "start_desk"))))
            return status

        died = traced(work, 0, made.root, made.root / "out")
        assert died.status == 0, (made.root / "out").read_text()
        import importlib

        for name in listed.read_text().splitlines():
            try:
                importlib.import_module(name)
            except ImportError:
                pass
        import gc

        gc.freeze()                                                 # a fork looks through nothing of this


def changes(phase: str, real: bool = False) -> int:
    """How many changes of files a run comes to, up to its first call or in all."""
    with scene() as made:
        died = made.killed(made.run, 0, real=real, first_call=phase == "start")
        assert died.status == (-9 if phase == "start" else 0), (made.root / "out").read_text()
        return died.changes


def untroubled() -> dict[str, Any]:
    """What a run gives that nobody kills."""
    with scene() as made:
        return outcome(made, [made.run])


def outcome(made: Scene, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    *before, (status, out, err), (_, value, _), (_, listed, _) = said(
        *commands, ["show", NAME, "parts", "--json", *made.where], ["runs", "--json", *made.where])
    last = json.loads(listed)
    return {"status": status, "parts": value, "files": made.files(), "state": last[0]["state"] if len(last) == 1 else listed,
            "before": [one[0] for one in before], "said": "" if status == 0 else out + err}


def faults(made: Scene, whole: dict[str, Any], *, again: bool) -> tuple[str, list[str]]:
    """What the kill left, and what is wrong with what the commands say of it and do with it.

    `again`: begun again under its name where that is promised; else gone on with, where there is a journal.
    """
    journal = made.home / ".journals" / f"{NAME}.db"
    there = journal.exists()
    settled: set[str] = set()
    found: list[str] = []
    looks = said(["runs", "--json", *made.where], ["show", NAME, *made.where], ["log", NAME, "--json", *made.where],
                 ["show", NAME, "--json", *made.where], ["log", NAME, "--audit", *made.where])
    for what, (status, out, err) in zip(("runs", "show", "log", "show --json", "audit"), looks, strict=True):
        fine = status == 0 if there or what == "runs" else status == 2 and f"no run `{NAME}`" in err
        if not fine:
            found.append(f"{what}: {status}: {(out + err)[-300:]}")
    kinds: list[str] = []
    if there and looks[2][0] == 0:
        events = json.loads(looks[2][1])
        kinds = [event["kind"] for event in events]
        settled = {event["key"] for event in events if event["kind"] == "settled"}
    fresh = not there or (again and set(kinds) <= {"run_opened", "committed"})
    before = made.calls()
    got = outcome(made, [made.run if fresh else made.resume])
    got.pop("before")
    if kinds[-1:] == ["run_ended"]:
        got["status"] = 0                                           # it had succeeded: there was nothing to go on with
        got["said"] = ""
    if got != whole:
        found.append(f"{'begun again' if fresh else 'resumed'}: {got}")
    for key, count in made.calls().items():
        if count > (1 if key in settled else 1 + (before[key] > 0)):
            found.append(f"call {key} was made {count} times, and its answer was {'kept' if key in settled else 'lost'}")
    if made.calls().total() > CALLS + 2:
        found.append(f"calls: {made.calls()}")
    left = [path.name for path in journal.parent.iterdir() if path.name != journal.name]
    if left:
        found.append(f"left beside the journal: {left}")
    return ("begun" if len(kinds) == 2 else "under way" if there else "nothing") + (", again" if again and fresh else ""), found


def tried(point: int, whole: dict[str, Any], *, real: bool = False, again: bool = False) -> tuple[str, list[str]]:
    """A run that is killed at a point, and what is found then."""
    with scene() as made:
        died = made.killed(made.run, point, real=real)
        state, found = faults(made, whole, again=again)
        if died.status not in (-9, 0):
            found.append(f"it ended with {died.status}: {(made.root / 'out').read_text()}")
        return state, [f"killed at change {point}: {fault}" for fault in found]


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    phase, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    real = sys.argv[4:] == ["real"]
    random_ = random.Random(seed)
    if not real:
        warm()
    whole = untroubled()
    whole.pop("before")
    assert whole["status"] == 0, whole
    last = changes(phase, real)
    tell(f"{phase}: {last} changes of files; seed {seed}")
    points = list(range(1, last + 1)) * (count // last)
    points += random_.sample(range(1, last + 1), count - len(points))
    random_.shuffle(points)
    began, states, failed = time.monotonic(), Counter[str](), 0
    for number, point in enumerate(points):
        state, found = tried(point, whole, real=real, again=bool(number % 2))
        states[state] += 1
        failed += bool(found)
        for fault in found:
            tell(fault)
    tell(f"{len(points)} kills in {time.monotonic() - began:.0f} s, {failed} failed: {dict(states)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
