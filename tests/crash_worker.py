"""A process that forks: reads jobs (JSON, one a line), does each, and writes its result to standard output.

usage: crash_worker.py FOLDER plain|small|tools|thinking < jobs
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import crash_harness as harness
import crash_thinking as thinking
import crash_tools_harness as tools
import crash_trouble as trouble


def done(home: Path, job: dict[str, Any], known: harness.Facts) -> dict[str, Any]:
    started = time.monotonic()
    try:
        result = tried(home, job, known)
    except Exception:
        result = {"faults": [traceback.format_exc()], "reached": 0, "excess": 0, "in_flight": 0}
    return {**job, **result, "seconds": time.monotonic() - started}


def tried(home: Path, job: dict[str, Any], known: harness.Facts) -> dict[str, Any]:
    match job:
        case {"kills": kills, "tools": True}:
            return tools.die_and_go_on(home, [(number, phase) for number, phase in kills], known, job["seed"])
        case {"kills": kills, "scene": scene}:
            return thinking.die_and_go_on(home, scene, [(number, phase) for number, phase in kills], job["seed"])
        case {"kills": kills}:
            return harness.die_and_go_on(home, [(number, phase) for number, phase in kills], known, job["seed"])
        case {"fork": number}:
            return harness.die_and_fork(home, number, known, job["seed"])
        case {"full": where}:
            return trouble.full_and_go_on(home, where, job["number"], known)
        case _:
            return trouble.stop_and_go_on(home, job["stop"], known)


def main() -> None:
    home = Path(sys.argv[1]) / str(os.getpid())
    if sys.argv[2] == "small":
        del harness.desk.TOPICS[harness.FEW:]
    stages = {"tools": tools.staged, "thinking": thinking.staged}
    known = harness.Facts()             # of the thinking, each scene has its own
    with stages[sys.argv[2]](home) if sys.argv[2] in stages else nullcontext():
        if sys.argv[2] != "thinking":
            known = tools.reference(home) if sys.argv[2] == "tools" else harness.reference(home)
        gc.freeze()                     # a collection in a fork would copy every page that it looks at
        for line in sys.stdin:
            sys.stdout.write(json.dumps(done(home, json.loads(line), known)) + "\n")
            sys.stdout.flush()
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
