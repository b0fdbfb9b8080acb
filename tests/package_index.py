"""Wheels that tests write themselves, and a folder of them as pip's only index: nothing of it needs a network."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from metaflow_agents.packages.lock import Package


def wheel(folder: Path, name: str, version: str = "1.0", files: Mapping[str, str | bytes] | None = None, *,
          requires: Sequence[str] = (), tag: str = "py3-none-any", scripts: str = "", executable: Sequence[str] = ()) -> Path:
    """A wheel in `folder`. `files`: by default a module `NAME.py` with `VERSION`. `scripts`: the text of `[console_scripts]`.
    `executable`: which of the files are programs.
    """
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
            told = zipfile.ZipInfo(place)                   # its date is always the same one
            told.external_attr |= (0o100755 if place in executable else 0o100644) << 16
            archive.writestr(told, data, zipfile.ZIP_DEFLATED)
    return path


def package(path: Path) -> Package:
    """What a lock says of a wheel."""
    name, version = path.name.split("-")[:2]
    return Package(name=name, version=version, file=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def only(folder: Path) -> dict[str, str]:
    """What pip gets so that this folder is its index, whatever the user's settings are."""
    return {"PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder),
            "PIP_NO_CACHE_DIR": "1"}


def installed(folder: Path, *names: str) -> None:
    """Wheels of what is installed here, with all that it asks for here: an index that needs no network."""
    done: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name.casefold() in done:
            continue
        done.add(name.casefold())
        found = distribution(name)
        asked = [one for one in map(Requirement, found.requires or ())
                 if one.marker is None or one.marker.evaluate({"extra": ""})]
        files = {str(path): path.locate().read_bytes() for path in found.files or ()
                 if path.parts[0] != ".." and not path.parts[0].endswith(".dist-info") and path.suffix != ".pyc"}
        name = found.metadata["Name"].replace("-", "_")
        beside = [path for path in found.files or () if path.parts[0] == ".." and path.parts[-2:-1] == ("bin",)]
        programs = {f"{name}-{found.version}.data/scripts/{path.name}": data for path in beside
                    if not (data := path.locate().read_bytes()).startswith(b"#!")}
        points = [one for one in found.entry_points if one.group != "console_scripts"]
        plugins = "".join(f"[{group}]\n" + "".join(f"{one.name} = {one.value}\n" for one in points if one.group == group)
                          for group in sorted({one.group for one in points}))
        files |= {f"{name}-{found.version}.dist-info/entry_points.txt": plugins} if plugins else {}
        wheel(folder, name, found.version, files | programs, requires=[one.name for one in asked], executable=[*programs])
        left += [one.name for one in asked]
