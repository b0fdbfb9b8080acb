"""`manual` and `manual:FOLDER`: a person (or another program) answers, at the terminal or through files."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from metaflow_agents.errors import AttemptFailed, UsageError
from metaflow_agents.journal.private import make_folder
from metaflow_agents.journal.whole import write_whole
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import Model, ModelRequest, Reply, Traits, estimated
from metaflow_agents.models.schema_in_words import asks_for_text
from metaflow_agents.schema import pictures
from metaflow_agents.terminal import printing
from metaflow_agents.terminal.reader import Terminal, standard_input

END = "."                                # on a line of its own: the answer is over, as in mail(1)
LONGEST_LINE = 4095                      # bytes: what comes after, a terminal drops without a word (tty_ioctl(4), N_TTY)
LONGEST_ANSWER = 32_768                  # tokens: room for a whole program; there is no endpoint that would cut it off
POLL = 0.5                               # seconds between two looks for an answer
_LONGEST_NAME = 150                      # of a file, so that with its endings every file system takes it
_UNHURT = getattr(signal, "SIGURG", 0)   # told to whoever holds a lease: one that kills nobody


def manual_model(folder: str) -> Model:
    """The model of `manual` (an empty `folder`) or `manual:FOLDER`. Raises UsageError where nobody can be asked there."""
    if folder:
        place = Path(folder).expanduser()
        if place.exists() and not place.is_dir():
            raise UsageError(f"`manual:{folder}`: {place} is a file; name a folder, there already or not")
        return FolderModel(f"manual:{folder}", place)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("`manual` asks at a terminal, and this is none: `manual:FOLDER` writes each prompt there as a file, and "
                         "waits for the file with its answer")
    return TerminalModel()


class TerminalModel:
    """Shows each prompt on stderr and reads its answer from stdin, one at a time though several are waiting."""

    name = "manual"
    at_terminal = True
    traits = Traits(native_tools=False, images=False, max_tokens=LONGEST_ANSWER)     # a person calls a tool in the text form

    def __init__(self, read: int | None = None, write: Callable[[str], object] | None = None) -> None:
        self._terminal = standard_input(sys.stdin.fileno()) if read is None else Terminal(read)
        self._write = self._stderr if write is None else write
        self._waiting = 0

    async def ask(self, request: ModelRequest) -> Reply:
        """The answer as it was typed. Waits until those before it are answered."""
        self._waiting += 1
        try:
            async with self._terminal.turn:
                return fitting(request, await self._answer(request))
        finally:
            self._waiting -= 1

    async def _answer(self, request: ModelRequest) -> str:
        others = f"; {self._waiting - 1} more waiting" if self._waiting > 1 else ""
        self._write(f"\n{printing.shown(conversation(request), lines=True)}\n"
                    f"----- your answer to {request.key}, in the role of {request.role}{others} -----\n"
                    f"End it with a line that holds only `{END}`, or with Ctrl-D at the beginning of a line.\n")
        nothing = 0
        while True:
            lines, cut = await self._lines()
            text = "".join(lines)
            nothing = 0 if lines else nothing + 1
            if nothing > 2:
                raise CallFailed("the terminal gives no answer", then="stop", charged=0, refused=True)
            if cut:
                self._write(f"A line is longer than the {LONGEST_LINE} bytes that a terminal takes, and was cut: write the "
                            "answer again in shorter lines, or stop and `sop resume RUN --model manual:FOLDER`, which reads "
                            "files.\n")
            elif text.strip():
                return text.removesuffix("\n")
            else:
                self._write("That was nothing: write the answer.\n")

    async def _lines(self) -> tuple[list[str], bool]:
        """Lines until the end mark or the end of input, and whether one may have been cut."""
        lines: list[str] = []
        cut = False
        while True:
            line = await self._terminal.line()
            if line.rstrip(b"\r\n") == END.encode() or not line:
                return lines, cut
            cut = cut or len(line) > LONGEST_LINE
            lines.append(line.decode("utf-8", "replace").replace("\r\n", "\n"))

    @staticmethod
    def _stderr(text: str) -> None:
        printing.write(text, sys.stderr)
        sys.stderr.flush()


class FolderModel:
    """Writes each prompt as `FOLDER/KEY.prompt.md` and waits for `FOLDER/KEY.answer.md`; several at once.

    An answer is taken when it is not empty, stands as it stood at the look before, and (where the system can tell) no
    process has it open for writing. One that lies there already, to exactly this prompt, is taken.
    """

    traits = Traits(native_tools=False, images=False, max_tokens=LONGEST_ANSWER)

    def __init__(self, name: str, folder: Path, poll: float = POLL) -> None:
        self._name, self._folder, self._poll = name, folder, poll

    @property
    def name(self) -> str:
        """As it was given: `manual:FOLDER`."""
        return self._name

    async def ask(self, request: ModelRequest) -> Reply:
        """The text of the answer's file. Raises AttemptFailed for one that is no UTF-8 text, CallFailed."""
        name = stem(request)
        prompt, answer = self._folder / f"{name}.prompt.md", self._folder / f"{name}.answer.md"
        try:
            _written(prompt, prompt_text(request, answer.name))
        except OSError as error:
            raise CallFailed(f"can't write the prompt {prompt}: {error.strerror}; name another folder: `sop resume RUN --model "
                             "manual:FOLDER`", then="stop", charged=0, refused=True) from error
        try:
            data = await self._awaited(answer)
        except asyncio.CancelledError:
            with suppress(OSError):                  # nobody waits for it any more; a resume writes it again
                os.unlink(prompt)
            raise
        try:
            text = data.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise AttemptFailed(f"the answer {answer.name} is no UTF-8 text: byte 0x{data[error.start]:02x} at "
                                f"{error.start}") from None
        return fitting(request, text)

    async def _awaited(self, answer: Path) -> bytes:
        """The bytes of an answer, once it is whole."""
        before: tuple[int, ...] | None = None
        while True:
            seen = _looked_at(answer)
            if seen is not None and seen == before:
                data = _read(answer)
                if data.strip() and _looked_at(answer) == seen:
                    return data
            before = seen
            await asyncio.sleep(self._poll)


def _looked_at(answer: Path) -> tuple[int, ...] | None:
    """What tells whether a file is still the same; None where it is not there, is empty, or is being written."""
    try:
        file = os.open(answer, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:                              # not there yet, or not yet for us to read
        return None
    try:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            return None
        return None if not state.st_size or _open_elsewhere(file) else (state.st_ino, state.st_size, state.st_mtime_ns)
    finally:
        os.close(file)


def _read(answer: Path) -> bytes:
    try:
        return answer.read_bytes()
    except OSError:                              # it went away in between
        return b""


def _open_elsewhere(file: int) -> bool:
    """Whether some process has a file open for writing: only then a read lease is refused with EAGAIN (fcntl(2), F_SETLEASE)."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        fcntl.fcntl(file, fcntl.F_SETSIG, _UNHURT)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:                              # a file system without leases, or a file of somebody else's: nobody can tell
        return False
    return False


def stem(request: ModelRequest) -> str:
    """The name of a call's files: its key as a file may be called, and the beginning of its prompt's fingerprint.

    So an answer that was given to another prompt of the same key is never taken.
    """
    head, tilde, call = request.key.rpartition("~")
    name = quote(head, safe="@[]") + tilde + re.sub(r"[^\w.]", ".", call)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME - 17]}-{hashlib.sha256(request.key.encode()).hexdigest()[:16]}"
    return f"{name}.{request.prompt[:8]}"


def prompt_text(request: ModelRequest, answer: str) -> str:
    """A prompt as a file that tells by itself what to do with it."""
    return f"""\
Answer the conversation below as its next `assistant` message: as the {request.role} that it speaks to, from what stands in it and
nothing else. Write the answer, and nothing but the answer, into a new file in this folder. When it is whole, rename it to:

    {answer}

It is read once it has that name, is not empty and nobody writes to it any more. It is UTF-8 text, of which {room(request):,}
bytes are taken: so much is reserved for it, and another prompt asks to go on from there. Leave this file as it is.

{conversation(request)}"""


def room(request: ModelRequest) -> int:
    """The bytes that an answer may have, as `estimated` counts them, so that the call costs no more than was reserved."""
    return 4 * (request.worst_tokens - estimated(request, Reply(text="", estimated=True)).tokens)


def fitting(request: ModelRequest, text: str) -> Reply:
    """The reply of an answer. One that is longer than its `room` is cut there, as an endpoint cuts it, and is asked to go on."""
    data, most = text.encode(), room(request)
    cut = len(data) > most
    return estimated(request, Reply(text=data[:most].decode("utf-8", "ignore") if cut else text, estimated=True, cut=cut))


def conversation(request: ModelRequest) -> str:
    """What a language model would be sent, for people: messages under their roles, its tools, then the schema of the answer."""
    count = len(request.messages)
    parts = [f"----- message {number} of {count}: {message['role']} -----\n\n{_told(message).rstrip()}\n"
             for number, message in enumerate(request.messages, 1)]
    for tool in request.tools:
        takes = json.dumps(tool.get("parameters") or {}, ensure_ascii=False)
        told = tool.get("description") or ""
        parts.append(f"----- tool: {tool['name']} -----\n\n{told}\nIts arguments, as JSON Schema: {takes}\n")
    if not asks_for_text(request.schema):
        schema = json.dumps(request.schema, ensure_ascii=False, indent=2)
        parts.append(f"----- the answer is one JSON value that fits this JSON Schema -----\n\n{schema}\n")
    return "\n".join(parts)


def _told(message: Mapping[str, Any]) -> str:
    """A message with the calls and the pictures in it."""
    calls = [json.dumps(call, ensure_ascii=False) for call in message.get("calls", ())]
    return "\n".join(part for part in (message["content"], *calls, *pictures.told(message)) if part)


def _written(path: Path, text: str) -> None:
    """Whole or not at all: whoever finds the file can read it."""
    make_folder(path.parent)
    write_whole(path, text.encode(), path.with_name(f".{path.name}.part"))


