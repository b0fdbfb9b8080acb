"""Plays `docker` where none starts: notes what it was asked for, and carries commands out on this machine, unconfined."""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path

HERE = Path(os.environ["STAND_IN"])             # `asked` in it gets a line for each call, `NAME.pid` the process of a container
IMAGE = "sha256:" + "5" * 64


def main(arguments: list[str]) -> int:
    with (HERE / "asked").open("a") as asked:
        asked.write(json.dumps(arguments) + "\n")
    if arguments[0] == "info":
        return int(os.environ.get("STAND_IN_INFO", "0"))
    if arguments[:2] == ["image", "inspect"]:
        sys.stdout.write(f"{IMAGE}\n")
        return 0 if arguments[-1] in ("metaflow-agents-python:3.11", *os.environ.get("STAND_IN_IMAGES", "").split()) else 1
    if arguments[0] == "rm":
        file = HERE / f"{arguments[-1]}.pid"
        if file.exists():
            end(int(file.read_text()))
        return 0
    if arguments[0] == "run":
        run(arguments)
    return 0


def end(pid: int) -> None:
    """A container ends with all that is in it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    for child in children:
        end(int(child))


def run(arguments: list[str]) -> None:
    at = arguments.index("sha256:" + "5" * 64)
    options, words = arguments[:at], arguments[at + 1:]
    (HERE / f"{options[options.index('--name') + 1]}.pid").write_text(str(os.getpid()))
    pairs = list(pairwise(options))
    mounts = dict(reversed([part.split("=", 1)[1] for part in value.split(",")[1:3]]) for key, value in pairs if key == "--mount")
    env = dict(value.split("=", 1) for key, value in pairs if key == "--env")
    os.chdir(mounts["/sop/work"])
    os.execve(sys.executable, ["python3", *words], env | {"PATH": os.defpath, "HOME": mounts["/sop/home"]})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
