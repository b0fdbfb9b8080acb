"""Where SOPs, roles, templates and schema files are found: beside the SOP, in the project, in the package.

The project is the nearest folder, from a start upwards, that holds `sops/`, `roles/`, `.git` or `pyproject.toml`. A folder above
the start that everybody may write to (`/tmp`) is none: what lies there is not the author's. Of the current directory nothing is
taken but the SOP that is named: its roles, templates and Python lie beside it, in its project or in the package.

A SOP lies where its file lies, `..` and links followed: of the way by which it was named nothing is taken either.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from metaflow_agents.errors import SOPNotFound, did_you_mean
from metaflow_agents.sop.reading import MAX_BYTES

_MARKS = ("sops", "roles", ".git", "pyproject.toml")
_ENDINGS = (".yaml", ".yml")


def shipped_folder(kind: Literal["roles", "sops"]) -> Path:
    """The library that travels with the package: in the wheel `shipped/`, in a checkout the top level."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "shipped" / kind
    return installed if installed.is_dir() else package.parent / kind


def shipped_recording(sop: str) -> Path | None:
    """The recorded run of a SOP that travels with the package, which `--demo` replays; None where there is none."""
    found = _recordings() / f"{sop}.jsonl"
    return found if found.is_file() else None


def shipped_demonstrations() -> list[str]:
    """The SOPs of which a recording travels with the package."""
    return sorted(path.stem for path in _recordings().glob("*.jsonl"))


def _recordings() -> Path:
    return shipped_folder("sops") / "recordings"


def project_of(start: Path) -> Path | None:
    """The project that a folder lies in, or None."""
    start = start.resolve()             # the parents of `a/../b` as it is written would be those of `a`
    for folder in (start, *start.parents):
        if (folder == start or not _open_to_all(folder)) and any(_exists(folder / mark) for mark in _MARKS):
            return folder
    return None


def find_sop(name: str | Path, start: Path) -> Path:
    """The file of a SOP: a path that exists, else a bare name (with or without `.yaml`) looked for in `start`,
    `start/sops`, the project's `sops/` and the package. The path is the file's own: without `..`, and no link.

    Raises SOPNotFound, saying where it was looked for and what is there.
    """
    written = str(name)
    if not written.strip() or "\0" in written:
        raise SOPNotFound(f"{written!r} names no SOP: write a file or the name of one")
    direct = start / _at_home(written)
    if _exists(direct):
        return _a_sop(direct, written)
    project = project_of(start)
    folders = _distinct([start, start / "sops", *([project / "sops"] if project else []), shipped_folder("sops")])
    if len(Path(written).parts) == 1:
        for folder in folders:
            for candidate in _spellings(folder, written):
                if candidate.is_file():
                    return _a_sop(candidate, written)
    else:
        for candidate in _spellings(direct.parent, direct.name):
            if candidate.is_file():
                return _a_sop(candidate, written)
    existing = list(dict.fromkeys(file.stem for folder in folders for file in _yaml_files(folder)))
    looked = ", ".join(_shown(folder, start) for folder in folders)
    raise SOPNotFound(f"no SOP `{written}`: looked in {looked}; {did_you_mean(Path(written).stem, existing)}")


class SOPFile(NamedTuple):
    """A SOP's file: where it lies, its bytes (one more than a file may have, where it is too large), and its folders."""

    path: Path
    data: bytes
    folders: Folders


def sop_file(name: str | Path, start: Path) -> SOPFile:
    """The file that `find_sop` finds. Raises SOPNotFound, also where it can't be read."""
    path = find_sop(name, start)
    return SOPFile(path, read_bytes(path), Folders(path.parent))


def role_in(name: str, folders: Iterable[Path]) -> Path | None:
    """The first role file of that name in the folders, or None."""
    if name_refusal(name):
        return None
    return next((file for folder in folders for file in _spellings(folder, name) if file.is_file()), None)


class Folders:
    """The folders in which what a SOP names is looked for, in order. `sop`: the one in which its file lies."""

    def __init__(self, sop_folder: Path) -> None:
        self.sop = sop_folder.resolve()

    @cached_property
    def roles(self) -> list[Path]:
        """Those of role files."""
        return _distinct([*self.own_roles, shipped_folder("roles")])

    @cached_property
    def own_roles(self) -> list[Path]:
        """The same without the package's."""
        above = [] if _open_to_all(self.sop.parent) else [self.sop.parent / "roles"]
        return _distinct([self.sop / "roles", *above, *(project / "roles" for project in self._project)])

    @property
    def role_names(self) -> list[str]:
        """The roles that have a file."""
        return list(dict.fromkeys(file.stem for folder in self.roles for file in _yaml_files(folder)))

    @cached_property
    def files(self) -> list[Path]:
        """Those of templates and schema files. The package is none of them, but for its own SOPs: a file that the author has yet
        to write must not be found among files that the author never saw.
        """
        return _distinct([self.sop, *(project / "sops" for project in self._project)])

    @cached_property
    def roots(self) -> list[Path]:
        """Those, links resolved, in one of which every file that a SOP names has to lie: a link in a project that somebody else
        wrote must not lead to files of the user's, whose text would go into prompts.
        """
        package = [shipped_folder(kind).resolve() for kind in ("roles", "sops")]
        above = self.sop.parent / "roles"       # as it stands: where it is a link itself, what it leads to is outside
        return list(dict.fromkeys((self.sop, above, *self._project, *package)))

    @cached_property
    def python(self) -> list[Path]:
        """Those of the Python that a SOP names, for a check and for a run alike. None for a SOP of the package: what it names is
        installed with it.
        """
        return [] if self.sop == shipped_folder("sops").resolve() else _distinct((self.sop, *self._project))

    @cached_property
    def _project(self) -> list[Path]:
        project = project_of(self.sop)
        return [] if project is None else [project]


def find_beside(name: str, folders: Iterable[Path]) -> Path | None:
    """The first file of that plain name in the folders, or None."""
    if name_refusal(name):
        return None
    return next((folder / name for folder in folders if _is_file(folder / name)), None)


def name_refusal(name: str) -> str | None:
    """Why a name can't be the plain name of a file beside another one; None where it can."""
    if not name or name in (".", ".."):
        return "it is no file name"
    if "/" in name or "\\" in name or ":" in name:
        return "it must be a plain file name, without folders"
    if any(ord(character) < 32 for character in name) or len(name.encode("utf-8", "replace")) > 200:
        return "it is no file name"
    return None


def read_bytes(file: Path, most: int = MAX_BYTES) -> bytes:
    """At most one byte more than a file may have, so that a reader can tell that it is too large.

    Raises SOPNotFound where it can't be read.
    """
    try:
        with file.open("rb") as stream:
            return stream.read(most + 1)
    except OSError as error:
        raise SOPNotFound(f"can't read {file}: {(error.strerror or str(error)).lower()}") from None


def _a_sop(file: Path, written: str) -> Path:
    if file.is_dir():
        there = [one.name for one in _yaml_files(file)]
        raise SOPNotFound(f"`{written}` is a folder, and a SOP is a file; " + (
            f"in it there is: {', '.join(there[:12])}" if there else "there is no YAML file in it"))
    if not file.is_file():
        raise SOPNotFound(f"`{written}` is no regular file")
    if file.suffix.lower() not in _ENDINGS:
        raise SOPNotFound(f"`{written}` is no SOP: its name has to end in .yaml or .yml")
    return file.resolve()


def _at_home(written: str) -> Path:
    path = Path(written)
    try:
        return path.expanduser()
    except RuntimeError:                # nobody is called so: `~name` is then a name like others
        return path


def _spellings(folder: Path, name: str) -> list[Path]:
    if name.lower().endswith(_ENDINGS):
        return [folder / name] if _is_file(folder / name) else []
    return [folder / f"{name}{ending}" for ending in _ENDINGS if _is_file(folder / f"{name}{ending}")]


def _yaml_files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix in _ENDINGS and ".schema" not in file.suffixes)
    except OSError:                 # a folder that is not there, or may not be listed, offers no names
        return []


def file_names(folders: Iterable[Path], endings: tuple[str, ...]) -> list[str]:
    """The names of files in the folders that end so."""
    found: set[str] = set()
    for folder in folders:
        try:
            found |= {file.name for file in folder.iterdir() if file.name.endswith(endings)}
        except OSError:             # a folder that is not there, or may not be listed, offers no names
            continue
    return sorted(found)


def _open_to_all(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:                 # not there, or not to be entered: nothing is found in it either
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:                 # a name too long for the system, or a folder that may not be entered
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _distinct(folders: Iterable[Path]) -> list[Path]:
    seen: dict[Path, Path] = {}
    for folder in folders:
        seen.setdefault(folder.absolute().resolve(), folder)
    return list(seen.values())


def _shown(folder: Path, start: Path) -> str:
    if folder in (shipped_folder("sops"), shipped_folder("roles")):
        return "the package"
    try:
        return folder.relative_to(start).as_posix() + "/"
    except ValueError:
        return str(folder)
