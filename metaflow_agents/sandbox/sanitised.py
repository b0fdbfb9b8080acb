"""What is shown of outputs and files: bounded, and without the paths of this machine, so that it is the same on every one."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from metaflow_agents.sandbox.output import Output

SHOWN_CHARACTERS = 200_000          # of each output
PYTHON = "~python"
PACKAGES = "~packages"
_SHARED = ("/", "/usr", "/usr/local")
"""Where a Python may be installed among everything else: these alone tell nothing of a machine."""


class OutputSanitiser:
    """Texts as they are shown. `places`: (path, what stands for it), of which the longest that fits is taken."""

    def __init__(self, places: Sequence[tuple[str, str]]) -> None:
        self._names = {path.encode("utf-8", "surrogateescape"): name.encode() for path, name in (*places, *_python())}
        paths = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile(rb"(?<![\w.-])(?:" + b"|".join(map(re.escape, paths)) + rb")(?![\w-]|\.\w)")

    def of(self, data: bytes) -> bytes:
        """The same with names for the places."""
        return self._pattern.sub(lambda found: self._names[found[0]], data)

    def output(self, output: Output) -> tuple[str, bool]:
        """Text of an output, and whether it was cut."""
        kept = self.of(bytes(output.kept))
        text = kept.decode("utf-8", "surrogateescape")      # keeps every byte, so that what is cut can be counted
        shown = text[:SHOWN_CHARACTERS]
        more = output.total - len(output.kept) + len(kept) - len(shown.encode("utf-8", "surrogateescape"))
        shown = shown.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return (f"{shown}\n… cut: {more} more bytes\n", True) if more else (shown, False)


@cache
def _python() -> tuple[tuple[str, str], ...]:
    """Where this Python and its packages lie, as tracebacks name them."""
    known = sysconfig.get_paths()
    packages = [(known[name], f"{PYTHON}/site-packages") for name in ("purelib", "platlib")]
    library = [(known[name], PYTHON) for name in ("stdlib", "platstdlib")]
    prefixes = [(str(Path(prefix)), PYTHON) for prefix in (sys.prefix, sys.base_prefix) if prefix not in _SHARED]
    return tuple(dict([*prefixes, *library, *packages]).items())
