"""The real `git`, as the judge of a run's repository: nothing of this machine's configuration is heard."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

ALONE = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "LC_ALL": "C.UTF-8",
         "GIT_AUTHOR_NAME": "somebody", "GIT_AUTHOR_EMAIL": "somebody@else.invalid", "GIT_COMMITTER_NAME": "somebody",
         "GIT_COMMITTER_EMAIL": "somebody@else.invalid"}


def git(folder: Path, *arguments: str) -> str:
    """What git prints, without the last line break. Raises CalledProcessError."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=ALONE)
    return done.stdout.rstrip("\n")


def timeless(folder: Path) -> dict[str, str]:
    """Of a repository what follows no times: the last commit's tree, that the folder is just that, who made which commits.

    In which order two steps that ran side by side committed is not determined, so commits are counted.
    """
    if not (folder / ".git" / "HEAD").is_file():
        return {"status": "no repository"}
    said = Counter(git(folder, "log", "--format=%ae %s").splitlines())
    return {"last commit": git(folder, "log", "-1", "--format=%T"), "status": git(folder, "status", "--porcelain"),
            **{f"commit {line}": f"{times} times" for line, times in sorted(said.items())}}
