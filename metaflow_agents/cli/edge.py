"""The edge of the process: streams, exit statuses, and errors in one clear line instead of a traceback."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from metaflow_agents.errors import MetaflowError, SOPInvalid

if TYPE_CHECKING:
    from metaflow_agents.views.page import Page

INTERRUPTED = 130
_ASCII = {"→": "->", "✓": "+", "●": "*", "○": "o", "✗": "x", "–": "-", "…": "...", "↻": "(loop)", "×": "x", "’": "'"}


def main() -> None:
    """The command `sop`."""
    sys.exit(command(sys.argv[1:]))


def command(words: Sequence[str]) -> int:
    """Carries out one command line and returns its exit status. Raises nothing but bugs."""
    _prepare_streams()
    import typer

    from metaflow_agents.cli.app import app

    wrong_usage: type[Exception] = typer.BadParameter.__mro__[2]           # what typer calls a ClickException
    try:
        status = typer.main.get_command(app).main(args=list(words), prog_name="sop", standalone_mode=False)
    except wrong_usage as error:
        status = complain(_one_line(str(getattr(error, "format_message", error.__str__)())), 2)
    except MetaflowError as error:
        status = _failed(error)
    except (KeyboardInterrupt, typer.Abort):
        status = complain("interrupted", INTERRUPTED)
    except OSError as error:                    # the system refused: a file, a folder, the terminal
        where = f"{error.filename}: " if error.filename else ""
        status = complain(f"{where}{(error.strerror or str(error))}", 1)
    _flush()
    return status if isinstance(status, int) else 0


def complain(message: str, status: int) -> int:
    """Tells on stderr what is wrong, and returns the status."""
    say([f"sop: {message}"], sys.stderr)
    return status


def say(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Prints lines. Where the reader has gone (`| head`), the rest goes nowhere and the command goes on to its own end."""
    out = stream or sys.stdout
    try:
        for line in lines:
            out.write(f"{line}\n")
    except BrokenPipeError:
        _nowhere(out)


def say_json(value: Any) -> None:
    """Prints one JSON document."""
    import json

    say([json.dumps(value, ensure_ascii=False, indent=2)])


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


def _failed(error: MetaflowError) -> int:
    if isinstance(error, SOPInvalid):
        from metaflow_agents.views.checked import problem_lines
        from metaflow_agents.views.wording import amount

        say(problem_lines(error.problems, page(sys.stderr)), sys.stderr)
        return complain(f"the SOP has {amount(len(error.problems), 'error')}: nothing was run", error.exit_status)
    return complain(str(error), error.exit_status)


def _one_line(message: str) -> str:
    return " ".join(message.split()).removesuffix(".")


def _prepare_streams() -> None:
    """No letter may stop a command: what the terminal's encoding lacks is spelt in ASCII."""
    codecs.register_error("sop", _spelt)
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


def _flush() -> None:
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
