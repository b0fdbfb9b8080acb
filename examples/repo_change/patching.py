"""The change as a patch that `git apply` takes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path


def make_patch(repo: dict[str, bytes], tree: dict[str, bytes]) -> str:
    """What leads from one set of files to the other; renames are told as such, binary files whole."""
    with tempfile.TemporaryDirectory() as folder:
        git(folder, "init", "-q")
        odd = [path for path, held in {**repo, **tree}.items() if not readable(held)]
        attributes = [f'"{path}" binary' if '"' not in path else "" for path in odd]
        Path(folder, ".git/info").mkdir(exist_ok=True)
        Path(folder, ".git/info/attributes").write_text("".join(f"{line}\n" for line in attributes), encoding="utf-8")
        lay(folder, repo)
        git(folder, "add", "-A", "-f")
        before = git(folder, "write-tree").strip()
        for path in repo.keys() - tree.keys():
            Path(folder, path).unlink()
        lay(folder, {path: held for path, held in tree.items() if repo.get(path) != held})
        git(folder, "add", "-A", "-f")
        return git(folder, "diff", "--cached", "--binary", "-M", before)


def readable(held: bytes) -> bool:
    """Whether it is text in UTF-8."""
    try:
        held.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in held


def lay(folder: str, files: dict[str, bytes]) -> None:
    """Writes files into a folder."""
    for path, held in files.items():
        place = Path(folder, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(held)


def git(folder: str, *words: str) -> str:
    """Git without the user's own settings, which could change what a diff looks like."""
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C.UTF-8",
    }
    words = ("git", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false", *words)
    return subprocess.run(words, cwd=folder, env=settings, check=True, capture_output=True, timeout=60).stdout.decode("utf-8")
