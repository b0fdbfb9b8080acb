"""Writes a run's history in a process of its own, which dies by SIGKILL at a chosen moment.

usage: history_killed.py JOURNAL FOLDER PHASE NUMBER   (`before` or `after` the n-th rename, or in the n-th `object` of the pack)
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from metaflow_agents.output.history import objects
from metaflow_agents.output.history.writing import write


def main() -> None:
    journal, folder, phase, number = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    rename, write_object, count = os.replace, objects.write_object, 0

    def dies(here: bool) -> None:
        nonlocal count
        count += here
        if here and count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def renaming(*arguments: Any, **options: Any) -> None:
        dies(phase == "before")
        rename(*arguments, **options)
        dies(phase == "after")

    def writing(to: Any, *arguments: Any, **options: Any) -> int:
        def half(data: bytes) -> int:
            to(data[: len(data) // 2])
            dies(phase == "object")
            return int(to(data[len(data) // 2:]))

        return write_object(half, *arguments, **options)

    os.replace = renaming               # type: ignore[assignment]
    objects.write_object = writing
    write(journal, folder)


if __name__ == "__main__":
    main()
