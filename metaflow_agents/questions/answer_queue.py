"""Answers to a run that is under way in another process: a file beside its journal, appended to and emptied under a lock.

Each line is one letter. Who appends is told only once the line is on disk; the run takes letters out after what they say is in
its journal. A process that is killed in between leaves the letter, and what it answers is answered already: it counts once.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field, ValidationError

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.whole import write_whole
from metaflow_agents.questions.question import Answer
from metaflow_agents.schema.model import Value


class Letter(Value):
    """One answer on its way. `question` is the digest of the question that was shown to whoever answered."""

    key: str
    question: str
    answer: Answer
    by: str = Field("answer", description="as in the event `answered`")


class AnswerQueue:
    """The letters of one run. Every method raises JournalError where the file can't be used."""

    def __init__(self, journal: Path) -> None:
        self.path = journal.with_name(f"{journal.name}.answers")

    def put(self, letter: Letter) -> None:
        """Returns once the letter is on disk."""
        line = letter.model_dump_json(exclude_defaults=True).encode() + b"\n"
        with self._open() as file:
            size = os.lseek(file, 0, os.SEEK_END)
            if size and os.pread(file, 1, size - 1) != b"\n":      # somebody was killed while writing: that line ends here
                line = b"\n" + line
            _write(file, line)

    def letters(self) -> list[Letter]:
        """All that lie there, in the order in which they came; they stay."""
        if not os.path.lexists(self.path):
            return []
        with self._open() as file:
            return self._read(_whole(file))

    def drop(self, letters: list[Letter]) -> None:
        """Takes these out, which were the first of them; what came since stays."""
        with self._open() as file:
            left = self._read(_whole(file))[len(letters):]
            rest = b"".join(letter.model_dump_json(exclude_defaults=True).encode() + b"\n" for letter in left)
            if rest:                                               # whole or not at all
                part = self.path.with_name(f"{self.path.name}.part")
                write_whole(self.path, rest, part)
            else:
                self.path.unlink(missing_ok=True)

    def _read(self, data: bytes) -> list[Letter]:
        found = []
        for number, line in enumerate(data.split(b"\n")[:-1], 1):  # what is not ended was never acknowledged
            if line.strip():
                try:
                    found.append(Letter.model_validate_json(line))
                except ValidationError as error:
                    if line.startswith(b'{"key"') and not line.endswith(b"}"):
                        continue                                   # cut off by a kill, and ended by the next who wrote
                    raise JournalError(f"{self.path}, line {number}, is no answer ({error.error_count()} faults): nothing that "
                                       "`sop answer` wrote; remove the file") from error
        return found

    @contextmanager
    def _open(self) -> Iterator[int]:
        """The file, locked; made where there is none. The one under the name: who emptied it may have taken it away."""
        try:
            while True:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    if _is_at(file, self.path):
                        yield file
                        return
                finally:
                    os.close(file)
        except OSError as error:
            raise JournalError(f"can't use {self.path}: {error.strerror}; make it a file that can be written") from error


def _write(file: int, data: bytes) -> None:
    """Returns once it is on disk."""
    while data:
        data = data[os.write(file, data):]
    os.fsync(file)


def _whole(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
