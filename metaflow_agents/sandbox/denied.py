"""The files of denied programs: what may not be started is not there to be started, by whatever name.

A program is looked for by its name in everything that is shown inside, not only along PATH. With a file go all its names: what
links to it, and hard links. So `touch` of a system where one file is all of coreutils or busybox takes the others along, and no
rule can take one alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from metaflow_agents.errors import RunError
from metaflow_agents.policy.commands import program

MOST = 500
"""Files that are taken away from one command; each costs a mount."""
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """Something that is shown inside: a file or a folder here, and its place there."""

    source: str
    place: str


@dataclass(frozen=True, slots=True)
class _File:
    """What all names of a file have in common; `names`: how many of them there are, links not counted."""

    disk: int
    inode: int
    names: int


@lru_cache(maxsize=64)
def denied_places(denied: tuple[str, ...], shown: tuple[ProcessTree, ...], kept: str = "") -> tuple[str, ...]:
    """Where the files of these programs lie inside, sorted. `denied`: as `Sandbox.run` takes it. `kept`: a program of which the
    file stays whatever is said, as it stands here.

    Looked for once in a process: what is installed meanwhile is not seen. Raises RunError for more files than can be taken away.
    """
    wanted, found = _Matcher(denied), dict[_File, set[str]]()
    for path, place in (one for tree in shown for one in _files(tree)):
        if wanted(place) and (file := _file(path)) is not None:
            found.setdefault(file, set()).update(_places(os.path.realpath(path), shown))
    found.pop(_file(kept) or _File(0, 0, 0), None)
    if any(file.names > 1 for file in found):
        inodes = {file.inode: file for file in found}
        for path, place in (one for tree in shown for one in _files(tree, inodes)):
            if (file := _file(path, linked=False)) in found:
                found[file].add(place)
    places = sorted(set().union(*found.values()))
    if len(places) > MOST:
        rules = ", ".join(f"`run({one} *)`" for one in denied)
        raise RunError(f"the rules that deny {rules} are about {len(places):,} files, and at most {MOST} can be taken away from "
                       "a command: deny fewer programs, or allow the few that are needed")
    return tuple(places)


def hides(places: tuple[str, ...], program: str, shown: Iterable[ProcessTree]) -> bool:
    """Whether the file of a program is among these places."""
    return not set(places).isdisjoint(_places(os.path.realpath(program), shown))


def denied_files(denied: tuple[str, ...], files: Iterable[tuple[str, str, int, int]], kept: str) -> list[str]:
    """The same for files that lie elsewhere, told as (path, what it leads to, disk, inode). `kept`: a file that stays."""
    wanted, known = _Matcher(denied), list(files)
    found = {(disk, inode) for path, real, disk, inode in known if wanted(path) and real != kept}
    return sorted({real for _, real, disk, inode in known if (disk, inode) in found and real != kept})


class _Matcher:
    """Whether a path is that of a denied program; `git` has its commands beside it."""

    def __init__(self, denied: tuple[str, ...]) -> None:
        names = [program(one) for one in denied if "/" not in one]
        names += ["git-*"] if "git" in names else []
        self._names = _either(names)
        self._paths = _either(one for one in denied if "/" in one)

    def __call__(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        plain = name.casefold().removesuffix(".exe") if name.isascii() else program(name)
        return self._names.match(plain) is not None or self._paths.match(path) is not None


def _either(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")


def _places(path: str, shown: Iterable[ProcessTree]) -> Iterator[str]:
    """Where a file lies inside: its own name, in each tree that it is in."""
    for tree in shown:
        if path == tree.source or path.startswith(f"{tree.source}/"):
            yield tree.place + path[len(tree.source):]


def _files(tree: ProcessTree, inodes: Iterable[int] | None = None) -> Iterator[tuple[str, str]]:
    """Files and links of a tree, and where they lie inside; only those of some inodes, where these are given."""
    if not os.path.isdir(tree.source):
        yield tree.source, tree.place
        return
    waiting = [tree.source]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif inodes is None or entry.inode() in inodes:
                    yield entry.path, tree.place + entry.path[len(tree.source):]


def _file(path: str, *, linked: bool = True) -> _File | None:
    """A program's file; None for what is no program. `linked`: a link is what it leads to."""
    try:
        there = os.stat(path, follow_symlinks=linked)
    except OSError:
        return None
    fits = stat.S_ISREG(there.st_mode) and there.st_mode & _EXECUTABLE
    return _File(there.st_dev, there.st_ino, there.st_nlink) if fits else None
