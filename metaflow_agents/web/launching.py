"""Runs that a page begins: processes of their own, as a command line in another terminal would be. They need no server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.private import make_folder
from metaflow_agents.journal.run_summary import RawJournal, holder
from metaflow_agents.terminal.printing import shown
from metaflow_agents.texts.strict_json import read

_PATIENCE = 60.0                    # seconds until a run has begun
_POLL = 0.05
_SOP = "from metaflow_agents.cli import main; main()"
_SAID = 4000                        # bytes of the end of a log that are told
_FORK = 300.0                       # seconds that a copy of a journal may take


def log_of(journal: Path) -> Path:
    """Where what a run prints lies that a page began."""
    return journal.with_suffix(".log")


def launch(workspace: Path, folder: Path, name: str, words: Sequence[str]) -> None:
    """Starts `sop` with these words, about the run of this name, and returns once the run has begun (or is over).

    Raises UsageError where the command ends without that, in its own words.
    """
    journal = journal_path(workspace, name)
    make_folder(journal.parent)
    log, before = log_of(journal), _last(journal)
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as file:
        file.write(f"$ sop {' '.join(words)}\n".encode("utf-8", "replace"))
        file.flush()
        start = os.fstat(file.fileno()).st_size
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "metaflow_agents.web.attended", str(log.absolute()), *words], cwd=folder,
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
    Thread(target=process.wait, name=f"sop {words[0]} {name}", daemon=True).start()
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        over = process.poll()
        if _last(journal) > before and (over is not None or holder(journal) == process.pid):
            return
        if over is not None:
            why = _said(log, start) or f"`sop {words[0]}` ended with status {over}"
            if not before:
                log.unlink(missing_ok=True)         # of a run that never was
            raise UsageError(why)
        time.sleep(_POLL)


def _last(journal: Path) -> int:
    """Number of the last event; 0 where there is none yet."""
    try:
        with RawJournal(journal) as found:
            return found.last()
    except (UsageError, JournalError):
        return 0


def _said(log: Path, start: int) -> str:
    """Why the command ended, and what it printed before: the problems of a SOP."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start if start < size else 0, size - _SAID))
        text = shown(file.read().decode("utf-8", "replace"), lines=True).strip()
    before, _, why = f"\n{text}".rpartition("\nsop: ")
    return f"{why}\n{before}".strip()


def forked(workspace: Path, folder: Path, words: Sequence[str]) -> str:
    """The name of the run that `sop fork` made of these words. Raises UsageError."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SOP, "fork", "--json", "--workspace", str(workspace), *words],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FORK, check=False, start_new_session=True)
    if done.returncode:
        raise UsageError(shown(done.stderr, lines=True).strip().removeprefix("sop: ") or f"status {done.returncode}")
    return str(read(done.stdout)["run"])
