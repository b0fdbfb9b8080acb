"""Which files a page may name: SOPs and inputs below the folder where the server was started, shipped SOPs, what was uploaded.

Whoever has a session acts as the user, and a page is not to hand out more of the machine than it works on all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.sop.library import find_sop, shipped_demonstrations, shipped_folder
from metaflow_agents.sop.load import read_sop

UPLOADS = ".uploads"
_HEAD = 64 << 10                    # bytes of a YAML file in which it says that it is a SOP
_SOP = re.compile(r"^(?:sop|steps)\s*:", re.MULTILINE)
_MOST = 200                         # SOPs that are listed


def sop_file(folder: Path, written: str) -> Path:
    """The file of a SOP that a page names: by its path, or by its name as on the command line. Links are followed first.

    Raises SOPNotFound, UsageError where it lies elsewhere.
    """
    found = find_sop(written, folder)
    shipped = shipped_folder("sops").resolve()
    if found.is_relative_to(folder.resolve()) or found.parent == shipped:
        return found
    raise UsageError(f"{found} lies outside of {folder}, where `sop ui` was started: start it in a folder above that file")


def input_path(folder: Path, workspace: Path, written: str) -> Path:
    """The file or folder that a page names as an input. Links are followed first. Raises UsageError where it lies elsewhere."""
    try:
        found = (folder / written).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{written!r:.200} is no path: {error}") from None
    if found.is_relative_to(folder.resolve()) or found.is_relative_to((workspace / UPLOADS).resolve()):
        return found
    raise UsageError(f"{found} lies outside of {folder}, where `sop ui` was started: upload it, or start the server in a folder "
                     "above it")


def sops(folder: Path) -> list[dict[str, Any]]:
    """The SOPs that can be run from a page: those of the folder first, then the shipped ones."""
    return [dict(_told(file, *_written(file))) for file in _files(folder)]


@lru_cache(maxsize=2 * _MOST)
def _told(file: Path, _when: int, _size: int) -> Mapping[str, Any]:
    """One of them; read again when its file has changed."""
    reading = read_sop(file)
    sop = None if reading.loaded is None else reading.loaded.program.sop
    name = file.stem if sop is None else sop.sop
    return {"name": name, "file": str(file), "describes": "" if sop is None else sop.description, "valid": sop is not None,
            "demo": name in shipped_demonstrations(), "shipped": file.parent == shipped_folder("sops").resolve()}


def _written(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


def _files(folder: Path) -> Iterator[Path]:
    there: dict[Path, None] = {}
    top, shipped = folder.resolve(), shipped_folder("sops").resolve()
    for where in (folder, folder / "sops", shipped):
        for file in sorted([*where.glob("*.yaml"), *where.glob("*.yml")]):
            real = file.resolve()
            if len(there) < _MOST and (real.is_relative_to(top) or real.parent == shipped) and _is_sop(real):
                there[real] = None
    yield from there


def _is_sop(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return False
    return len(set(_SOP.findall(head))) > 1
