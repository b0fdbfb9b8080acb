"""Where a module that a SOP names lies. Nothing is imported.

What is installed (the standard library, site-packages, absolute entries of `sys.path`) comes first, then the SOP's folders: its
own and its project's. A module in the SOP's own folder that has the name of an installed one is an error that names both: neither
is taken in silence. The current directory is never looked at, not even where `sys.path` has it as a relative entry.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path

from metaflow_agents import plugins


@dataclass(frozen=True, slots=True)
class Located:
    """A module. `file` is None where it has none (built in, a namespace, in an archive); `own`: it lies in the SOP's folders."""

    file: Path | None
    own: bool


class Shadowed(ImportError):
    """A module beside the SOP and an installed one have the same name; the message names both."""


def locate(name: str, folders: Sequence[Path]) -> Located | None:
    """The module `name`, or None. `folders` are the SOP's, its own first. Raises Shadowed."""
    name = offered(name)
    top, *rest = name.split(".")
    installed, beside = installed_spec(top), _beside(top, folders)
    if installed is not None and installed.origin is not None:
        if beside is not None and beside.parent_is(folders[:1]) and not _same(installed.origin, beside.file):
            raise Shadowed(_both(top, beside.file, installed.origin))
        return _installed(installed, rest)
    if beside is not None:
        return _below(beside, rest)
    if installed is not None and (found := _installed(installed, rest)) is not None:
        return found                            # a namespace, whose parts lie in several folders
    return _namespace(top, rest, folders)


def offered(name: str) -> str:
    """The module that an installed package offers to SOPs under this name, or under that of a package above it; else the name."""
    above, below = name, ""
    while above:
        plugin = plugins.installed("functions").get(above)
        if plugin is not None:
            return plugin.value + below
        above, _, last = above.rpartition(".")
        below = f".{last}{below}"
    return name


def as_offered(name: str, text: bytes) -> bytes:
    """The text of a module that is offered under this name, with the names under which its package offers modules."""
    if offered(name) != name:
        for plugin in sorted(plugins.installed("functions").values(), key=lambda one: -len(one.value)):
            text = text.replace(f"{plugin.value}.".encode(), f"{plugin.name}.".encode())
    return text


def locate_beside(name: str, folders: Sequence[Path]) -> Located | None:
    """The module `name` in the folders, whatever is installed: what a relative import of a SOP's module means."""
    top, *rest = name.split(".")
    beside = _beside(top, folders)
    return _namespace(top, rest, folders) if beside is None else _below(beside, rest)


def locate_file(written: str, folders: Sequence[Path]) -> Path | None:
    """The file that a SOP names by its path from its folder, or from its project's; or None."""
    return next((place for place in file_places(written, folders) if place.is_file()), None)


def file_places(written: str, folders: Sequence[Path]) -> list[Path]:
    """Where a file is looked for: an absolute path there, any other in the folders, and never in the current directory."""
    path = Path(written).expanduser()
    return [path] if path.is_absolute() else [folder / path for folder in folders]


def installed_spec(top: str) -> ModuleSpec | None:
    """What Python itself finds under a top-level name, relative entries of `sys.path` left out."""
    known = sys.modules.get(top)
    if known is not None:
        spec = getattr(known, "__spec__", None)
        return spec if spec is not None else ModuleSpec(top, None, origin=getattr(known, "__file__", None) or "built-in")
    return installed_finder(top)


def installed_finder(top: str) -> ModuleSpec | None:
    """The same for a module that is not imported yet: all of `sys.meta_path` is asked, the path's finder for absolute entries."""
    absolute = [entry for entry in sys.path if os.path.isabs(entry)]
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None
        if finder is PathFinder:
            spec = PathFinder.find_spec(top, absolute)
        elif find is None or getattr(finder, "of_sops", False):
            continue
        else:
            spec = find(top, None, None)
        if spec is not None:
            return spec
    return None


@dataclass(frozen=True, slots=True)
class _Beside:
    """A module or a regular package in one of the folders. `inside`: the package's folder."""

    file: Path
    folder: Path
    inside: Path | None = None

    def parent_is(self, folders: Sequence[Path]) -> bool:
        return self.folder in folders


def _beside(top: str, folders: Sequence[Path]) -> _Beside | None:
    for folder in folders:
        package = folder / top / "__init__.py"
        if package.is_file():
            return _Beside(package, folder, folder / top)
        if (file := _file_of(folder / top)) is not None:
            return _Beside(file, folder)
    return None


def _installed(spec: ModuleSpec, rest: Sequence[str]) -> Located | None:
    if not rest:
        return Located(_real(spec.origin), own=False)
    inside = [Path(each) for each in spec.submodule_search_locations or ()]
    if inside and not any(folder.is_dir() for folder in inside):
        return Located(None, own=False)         # an archive, which only running it could look into
    return _walked(rest, inside, own=False)


def _below(beside: _Beside, rest: Sequence[str]) -> Located | None:
    if not rest:
        return Located(beside.file, own=True)
    return None if beside.inside is None else _walked(rest, [beside.inside], own=True)


def _namespace(top: str, rest: Sequence[str], folders: Sequence[Path]) -> Located | None:
    inside = [folder / top for folder in folders if (folder / top).is_dir()]
    return _walked(rest, inside, own=True) if inside and rest else None


def _walked(parts: Sequence[str], folders: Sequence[Path], *, own: bool) -> Located | None:
    """The module below packages, by its files alone: a package may be a folder without `__init__.py`."""
    part, *rest = parts
    for folder in folders:
        base = folder / part
        package = base / "__init__.py"
        if not rest and package.is_file():
            return Located(package, own)
        if not rest and (file := _file_of(base)) is not None:
            return Located(file, own)
        if rest and base.is_dir() and (found := _walked(rest, [base], own=own)) is not None:
            return found
    return None


def _file_of(base: Path) -> Path | None:
    for suffix in (".py", *EXTENSION_SUFFIXES, ".pyc"):
        file = base.with_name(base.name + suffix)
        if file.is_file():
            return file
    return None


def _real(origin: str | None) -> Path | None:
    return Path(origin) if origin and os.path.isabs(origin) and os.path.isfile(origin) else None


def _same(origin: str, file: Path) -> bool:
    try:
        return os.path.samefile(origin, file)
    except OSError:                             # built in, frozen: no file
        return False


def _both(top: str, beside: Path, installed: str) -> str:
    of = "the standard library" if top in sys.stdlib_module_names else "an installed package"
    return (f"two modules are called `{top}`: {beside}, beside the SOP, and {installed}, of {of}; rename the one beside the SOP")


def is_own(name: str, folders: Sequence[Path]) -> bool:
    """Whether an `import` in a SOP's module means a module in the SOP's folders. Raises Shadowed."""
    found = locate(name, folders)
    if found is None and "." not in name:       # `import package` of a folder without `__init__.py`
        return installed_spec(name) is None and any((folder / name).is_dir() for folder in folders)
    if found is None:
        return is_own(name.partition(".")[0], folders)
    return found.own


