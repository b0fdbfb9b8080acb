"""As root: commands run as nobody in particular, who may not walk to where the Python of root, or the copy, lies.

A first bubblewrap then shows that user the same disk, but for the folders that keep it out: these are empty, and hold only
the paths that a command needs.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

OUTSIDER = 65533
"""A user id that no account and no service has: not `nobody`, whose processes are somebody's."""


def reached(program: str, argv: Sequence[str], readable: Sequence[str], writable: str) -> tuple[tuple[str, ...], bool]:
    """The command line that runs `argv` as `OUTSIDER`, and whether it changes the user by itself.

    `program` is bubblewrap; `readable` and `writable` are real paths. Raises FileNotFoundError where `setpriv` is missing.
    """
    closed = _closed((*readable, writable))
    if not closed:
        return tuple(argv), False
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise FileNotFoundError(2, "no such program: it comes with util-linux", "setpriv")
    view = [program, "--die-with-parent", "--dev-bind", "/", "/"]
    for folder in closed:
        view += ["--tmpfs", folder]
    inside = [(path, option) for paths, option in ((readable, "--ro-bind"), ((writable,), "--bind")) for path in paths
              if _below(path, closed)]
    for path, _ in inside:                      # else bubblewrap makes them for its own user alone
        for parent in reversed(Path(path).parents):
            view += ["--dir", str(parent)] if _below(str(parent), closed) else []
    for path, option in inside:
        view += [option, path, path]
    who = (f"--reuid={OUTSIDER}", f"--regid={OUTSIDER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
    return (*view, "--chdir", "/", "--", setpriv, *who, "--", *argv), True


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _closed(needed: Sequence[str]) -> tuple[str, ...]:
    """The outermost folders on the way to these paths that others may not walk through."""
    found: list[str] = []
    for path in needed:
        for folder in reversed(Path(path).parents):
            if not os.stat(folder).st_mode & stat.S_IXOTH:
                found.append(str(folder))
                break
    return tuple(folder for folder in dict.fromkeys(found) if not _below(folder, found))
