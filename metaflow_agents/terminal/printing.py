r"""The one way out for text: whatever this process prints is written here, redacted and without what would command a reader.

Redacted: the secrets that were made known by `redact`. Escaped: control characters (C0, C1), the controls of writing direction,
invisible letters, line and paragraph separators and lone surrogates; on a terminal as signs, in JSON as `\u…`, so that the data
stay the same. Source: Unicode Technical Report 36, and Unicode Standard Annex 9, for what these letters can hide.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

# Categories Cc, Cf, Cs, Zl and Zp, without tab and line feed; then letters that take no ink, which hide text from people:
# fillers, and variation selectors but for the two that choose how an emoji looks.
_HIDING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064"
    "\u2066-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef")
HIDING = re.compile(f"[{_HIDING}]")
_PAINT = r"\x1b\[[0-9]{1,2}(?:;[0-9]{1,2}){0,3}m"     # what `Page.paint` writes: nothing that moves or erases
_KEPT_OR_HIDING = re.compile(f"({_PAINT})|[{_HIDING}]")
_LOST = "\N{REPLACEMENT CHARACTER}"

_redactors: dict[object, Callable[[str], str]] = {}


def redact(known_by: object, masked: Callable[[str], str]) -> None:
    """From now on what is printed passes `masked`; whoever is `known_by` the same is asked once."""
    _redactors[known_by] = masked


def redacted(text: str) -> str:
    """The text without the secrets that this process knows."""
    for masked in tuple(_redactors.values()):
        text = masked(text)
    return text


def redacts() -> bool:
    """Whether this process knows any secret."""
    return bool(_redactors)


def shown(text: str, *, lines: bool = False) -> str:
    """Text that somebody else wrote, on a terminal: an escape sequence shows, and does nothing.

    With `lines`, line breaks and tabs stay; otherwise they become spaces.
    """
    if text.isprintable() and text.isascii():
        return text
    found = HIDING.sub(_sign, text)
    return found if lines else found.replace("\n", " ").replace("\t", " ")


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON for programs and people: letters as they are, and those that hide by their numbers."""
    return HIDING.sub(_escaped, json.dumps(value, ensure_ascii=False, indent=indent))


def write(text: str, stream: TextIO, *, painted: bool = False) -> None:
    """Prints. `painted`: styles and colours stay; whoever made the text has shown what is foreign in it by `shown`."""
    text = redacted(text)
    if HIDING.search(text):
        text = _KEPT_OR_HIDING.sub(lambda found: found[1] if found[1] and painted else _sign(found), text)
    stream.write(text)


def write_value(text: str, stream: TextIO) -> None:
    """Prints a value that a person asked for by name, letter by letter: for a file or another program, never for a terminal."""
    stream.write(redacted(text))


def take_over() -> None:
    """What Python and packages print by themselves goes this way too: uncaught exceptions, warnings, logs."""
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    warnings.showwarning = _warned
    root = logging.getLogger()
    if not root.handlers:                       # else the first `logging.error` of somebody's would give it one of its own
        root.addHandler(_Handler(logging.WARNING))


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            _complain(self.format(record))
        except Exception:                       # a log that can't be formatted stops nobody, as everywhere in `logging`
            self.handleError(record)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _complain("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


def _uncaught_in_thread(told: threading.ExceptHookArgs) -> None:
    if told.exc_value is not None and not isinstance(told.exc_value, SystemExit):
        _uncaught(told.exc_type, told.exc_value, told.exc_traceback)


def _warned(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
            line: str | None = None) -> None:
    _complain(warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n"))


def _complain(text: str) -> None:
    if sys.stderr is not None:
        write(f"{text}\n", sys.stderr)


def _sign(found: re.Match[str]) -> str:
    letter = found[0][0]
    code = ord(letter)
    if letter == "\r":
        return " "
    return chr(0x2400 + code) if code < 0x20 else _LOST


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
