"""What a command prints: to whom, in which encoding, and to a reader that may have gone."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from metaflow_agents.errors import UsageError
from metaflow_agents.terminal import printing

if TYPE_CHECKING:
    from metaflow_agents.views.page import Page

_ASCII = {"→": "->", "✓": "+", "●": "*", "○": "o", "✗": "x", "–": "-", "…": "...", "↻": "(loop)", "×": "x", "’": "'"}


def complain(message: str, status: int) -> int:
    """Tells on stderr what is wrong, and returns the status."""
    say([f"sop: {message}"], sys.stderr)
    return status


def say(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Prints lines. Where the reader has gone (`| head`), the rest goes nowhere and the command goes on to its own end."""
    out = stream or sys.stdout
    try:
        painted = out.isatty()
        for line in lines:
            printing.write(f"{line}\n", out, painted=painted)
    except BrokenPipeError:
        _nowhere(out)


def say_json(value: Any) -> None:
    """Prints one JSON document."""
    say([printing.as_json(value, indent=2)])


def say_value(text: str) -> None:
    """Prints a value as it is, letter by letter, for a file or another program; on a terminal as everything else."""
    if sys.stdout.isatty():
        say([printing.shown(text, lines=True).removesuffix("\n")])
        return
    try:
        printing.write_value(text.removesuffix("\n") + "\n", sys.stdout)
    except BrokenPipeError:
        _nowhere(sys.stdout)


def say_bytes(data: bytes) -> None:
    """Writes bytes as they are, for a file or another program; in text, secrets are redacted. A terminal gets text alone.

    Raises UsageError where they are no text and stdout is a terminal.
    """
    from metaflow_agents.schema.binary import (
        text_in,  # not above: what it loads waits until the current directory is no place of modules
    )

    text = text_in(data)
    if sys.stdout.isatty():
        if text is None:
            raise UsageError(f"these {len(data):,} bytes are no text, and stdout is a terminal: write them to a file, "
                             "`--raw > FILE`")
        say([printing.shown(text, lines=True).removesuffix("\n")])
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data if text is None else printing.redacted(text).encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _nowhere(sys.stdout)


def prompt(text: str) -> None:
    """Asks on stderr: what is typed stands behind it, in the same line."""
    printing.write(text, sys.stderr, painted=sys.stderr.isatty())
    sys.stderr.flush()


def page(stream: TextIO | None = None) -> Page:
    """The reader's window: its width and colours on a terminal, lines of any length elsewhere."""
    from metaflow_agents.settings import Settings
    from metaflow_agents.views.page import Page

    out = stream or sys.stdout
    if not out.isatty():
        return Page()
    settings = Settings.read()
    return Page(width=_width(out), colour=not settings.no_color and settings.command_environment.get("TERM") != "dumb")


def _width(stream: TextIO) -> int:
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, 0) or 80
    except OSError:                             # a terminal that does not tell its size
        return 80


def prepare_streams() -> None:
    """No letter may stop a command: what the terminal's encoding lacks is spelt in ASCII."""
    codecs.register_error("sop", _spelt)
    printing.take_over()
    if sys.stdin is None:                           # as below; first of all, so that no file of a run gets its number
        sys.stdin = open(os.devnull, encoding="utf-8")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:                      # closed by whoever started the command
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="sop")


def _spelt(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_ASCII.get(letter, "?") for letter in error.object[error.start:error.end]), error.end


def flush() -> None:
    """Hands over what was printed; a reader that has gone is no error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _nowhere(stream)


def _nowhere(stream: TextIO) -> None:
    """Points a stream whose reader has gone at nothing, so that nothing more is said of it at exit either."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
    finally:
        os.close(null)
