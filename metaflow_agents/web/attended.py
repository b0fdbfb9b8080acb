"""A command of `sop` as a process that nobody attends: what it prints goes to a log that does not grow without bound.

    python -P -m metaflow_agents.web.attended LOG run FILE …

The log is written by a thread of the process itself: the run needs no other process, and nobody has to read what it prints.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

LARGEST = 1 << 20                   # bytes of a log
_KEPT = LARGEST // 2                # of its end, when it has grown that large
_PIECE = 64 << 10


@contextmanager
def logged(log: Path) -> Iterator[None]:
    """All that this process prints, and what it starts does, is appended to the log."""
    reading, writing = os.pipe()
    for stream in (1, 2):
        os.dup2(writing, stream)
    os.close(writing)
    # What Python had there was made for a file, whose position it would ask for.
    sys.stdout, sys.stderr = (open(stream, "w", encoding="utf-8", closefd=False, buffering=1) for stream in (1, 2))
    thread = Thread(target=_copied, args=(reading, log), name="log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        thread.join(1.0)                # what it started may hold the pipe open for longer


def _copied(reading: int, log: Path) -> None:
    with open(os.open(log, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
        file.seek(0, os.SEEK_END)
        while piece := os.read(reading, _PIECE):
            if file.tell() + len(piece) > LARGEST:
                file.seek(-_KEPT, os.SEEK_END)
                end = file.read()
                file.seek(0)
                file.truncate()
                file.write(b"(what stood here is cut off)\n" + end)
            file.write(piece)
            file.flush()


def main() -> None:
    """Carries out the command that stands behind the log's name."""
    from metaflow_agents.cli.entry_point import main as sop

    log, sys.argv[1:] = Path(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGINT, signal.default_int_handler)        # a server in the background of a shell ignores it
    with logged(log):
        sop()


if __name__ == "__main__":
    main()
