"""Wheels that tests write themselves, and a folder of them as pip's only index: nothing of it needs a network."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from metaflow_agents.packages.lock import Package


def wheel(folder: Path, name: str, version: str = "1.0", files: Mapping[str, str | bytes] | None = None, *,
          requires: Sequence[str] = (), tag: str = "py3-none-any", scripts: str = "") -> Path:
    """A wheel in `folder`. `files`: by default a module `NAME.py` with `VERSION`. `scripts`: the text of `[console_scripts]`."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    held: dict[str, str | bytes] = dict(files if files is not None else {f"{name}.py": f"VERSION = {version!r}\n"})
    held[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {one}\n" for one in requires)
    held[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"
    if scripts:
        held[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}\n"
    held[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in (*held, f"{info}/RECORD"))
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, data in held.items():
            archive.writestr(zipfile.ZipInfo(place), data, zipfile.ZIP_DEFLATED)        # its date is always the same one
    return path


def package(path: Path) -> Package:
    """What a lock says of a wheel."""
    name, version = path.name.split("-")[:2]
    return Package(name=name, version=version, file=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def only(folder: Path) -> dict[str, str]:
    """What pip gets so that this folder is its index, whatever the user's settings are."""
    return {"PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder),
            "PIP_NO_CACHE_DIR": "1"}
