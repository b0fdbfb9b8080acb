"""What a command needs of the Python that runs this: which files and folders, and nothing that only lies beside them.

A virtual environment often lies in a project's folder, and a Python in somebody's home: so no prefix is taken whole, only
its programs and libraries.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")


@cache
def interpreter_places(given: tuple[str, ...] = ("/usr",), *, based: bool = False) -> tuple[str, ...]:
    """Absolute paths that have to be there for Python and its packages; none below those of `given`, or twice. `based`: for the
    Python that this one is based on, without the packages of a virtual environment or of the user.
    """
    found: list[str] = []

    def fresh(path: str) -> bool:
        return not any(path == other or path.startswith(f"{other}/") for other in (*given, *found))

    own = () if based else (sys.prefix, sys.exec_prefix)
    for prefix in dict.fromkeys((*own, sys.base_prefix, sys.base_exec_prefix, os.path.realpath(sys.base_prefix))):
        if prefix != "/":
            found += [str(part) for name in _PARTS if (part := Path(prefix, name)).exists() and fresh(str(part))]
    found += [path for path in _packages_of_the_user() if not based and fresh(path)]
    found += [path for path in _links(base_program() if based else sys.executable) if fresh(path)]
    return tuple(found)


def python_version() -> str:
    """The version by which packages are chosen: `3.11`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def base_program() -> str:
    """The program of the Python that this one is based on: the same, where this is no virtual environment."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def user_base() -> dict[str, str]:
    """The variable that names the user's own packages (`pip install --user`), where this Python uses them."""
    return {"PYTHONUSERBASE": site.getuserbase()} if _packages_of_the_user() else {}


def _packages_of_the_user() -> list[str]:
    folder = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    return [folder] if folder in sys.path and os.path.isdir(folder) else []


def _links(program: str) -> Iterator[str]:
    """The program, and what it links to, link by link."""
    seen: set[str] = set()
    while program not in seen:
        yield program
        seen.add(program)
        if os.path.islink(program):
            program = os.path.normpath(os.path.join(os.path.dirname(program), os.readlink(program)))
