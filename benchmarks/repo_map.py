# ruff: noqa: E501
"""The map of a repository: how fast it is drawn, and whether the file to change is among its first five.

    python -m benchmarks.repo_map                   # 60 commits of this project; a minute or two
    python -m benchmarks.repo_map --most 700        # all of them
    python -m benchmarks.repo_map --repository PATH

A request is what somebody wrote before or beside a change: the subject of a commit, its whole message, or what a package of DevBench wants
tested (SOP_TEST_DATA). The repository is as it stood before. Counted is where the first of the files stands that the change touched and that were
there; in the second column the one of which most lines changed. Only files that the map parses count, and only they are ranked.
Commits that touch none are left out, and no commit is left out for what its subject does not say.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from metaflow_agents.code.map.languages import language_of
from metaflow_agents.code.map.parsing import parse_job
from metaflow_agents.code.map.ranking import ranked
from metaflow_agents.code.map.reading import KeptTags

HERE = Path(__file__).parent.parent
FIRST = 5


@dataclass(frozen=True)
class Case:
    """A request, the files as they stood (path → git's name of what they hold), and the lines that changed of each file."""

    request: str
    body: str
    files: Mapping[str, str]
    changed: Mapping[str, int]


class Git:
    """A repository that is read: whole files by their names, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, bytes] = {}

    def said(self, *words: str) -> str:
        """What a git command prints."""
        return subprocess.run(["git", "-c", "core.quotepath=false", *words], cwd=self._folder, capture_output=True, check=True).stdout.decode("utf-8", "replace")

    def cases(self, most: int, seed: int) -> Iterator[Case]:
        """Some commits that have one parent, taken by chance."""
        commits = [line.split("\x00") for line in self.said("log", "--no-merges", "--format=%H%x00%P%x00%s").splitlines()]
        commits = [one for one in commits if one[1]]
        random.Random(seed).shuffle(commits)
        for name, parent, subject in commits[:most]:
            files = dict((line.split("\t", 1)[1], line.split()[2])
                         for line in self.said("ls-tree", "-r", parent).splitlines() if line.split()[1] == "blob")
            changed = {path: sum(int(count) for count in (added, gone) if count != "-") for added, gone, path in
                       (line.split("\t", 2) for line in self.said("diff", "--numstat", "--no-renames", parent, name).splitlines())}
            changed = {path: count for path, count in changed.items() if path in files and language_of(path)}
            if changed:
                yield Case(subject, self.said("log", "-1", "--format=%B", name), files, changed)

    def whole(self, files: Mapping[str, str]) -> dict[str, bytes]:
        """Path → bytes."""
        lacking = [name for name in dict.fromkeys(files.values()) if name not in self._held]
        out = subprocess.run(["git", "cat-file", "--batch"], cwd=self._folder, input="\n".join(lacking).encode(), capture_output=True, check=True).stdout
        at = 0
        for name in lacking:
            end = out.index(b"\n", at)
            size = int(out[at:end].split()[2])
            self._held[name] = out[end + 1:end + 1 + size]
            at = end + 2 + size
        return {path: self._held[name] for path, name in files.items()}


async def places(kept: KeptTags, files: Mapping[str, bytes], request: str, changed: Mapping[str, int]) -> tuple[int, int]:
    """Where the first of the changed files stands, and where the one that changed most, from 1."""
    parts = await kept.read(files)
    order = [path for path, _ in ranked(parts, request) if language_of(path)]
    return 1 + next(at for at, path in enumerate(order) if path in changed), 1 + order.index(max(changed, key=lambda path: changed[path]))


def devbench() -> Iterator[tuple[str, dict[str, bytes], dict[str, int]]]:
    """(what is wanted, files, the files that it is about) of DevBench's packages: the prompts for their unit tests."""
    data = Path(os.environ.get("SOP_TEST_DATA", "../shared/data")) / "devbench"
    for folder in sorted(data.iterdir()) if data.is_dir() else ():
        told = json.loads((folder / "repo_config.json").read_text(encoding="utf-8"))
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))
                 if path.is_file() and path.name != "repo_config.json" and path.stat().st_size < 1 << 20}
        for test, linked in told.get("unit_test_linking", {}).items():
            about = {path: 1 for path in files if any(path == one or path.endswith(f"/{one}") for one in linked)}
            for kind in ("coarse_unit_test_prompt", "fine_unit_test_prompt"):
                request = told.get(kind, {}).get(test, "").replace(test, "a new file")
                if request and about:
                    yield request, {path: held for path, held in files.items() if path != test}, about


def told(name: str, found: list[tuple[int, int]]) -> None:
    """A row."""
    if found:
        first, most = (sum(one[column] <= FIRST for one in found) for column in (0, 1))
        print(f"{name:48} {first:4} of {len(found):4} {first / len(found):6.0%}      {most:4} {most / len(found):6.0%}", flush=True)


async def main() -> None:
    """Speed, then the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=60, help="commits")
    parser.add_argument("--seed", type=int, default=2, help="which commits; those of 1 were looked at when weights were chosen")
    parser.add_argument("--repository", type=Path, default=HERE)
    given = parser.parse_args()
    python = {path.as_posix(): path.read_bytes() for path in sorted(HERE.rglob("*.py")) if ".venv" not in path.parts}
    size = sum(map(len, python.values())) / 1e6
    await KeptTags().read(dict(list(python.items())[:4]))           # the workers have started
    kept = KeptTags()
    for name in ("parsed", "again, nothing changed"):
        begun = time.perf_counter()
        parts = await kept.read(python)
        spent = time.perf_counter() - begun
        print(f"{size:.1f} MB of Python in {len(python)} files, {name}: {spent:.2f} s, {size / spent:.1f} MB/s")
    begun = time.process_time()
    for held in python.values():
        parse_job(held, "python")
    spent = time.process_time() - begun
    print(f"the same in one process: {spent:.2f} s of processor time, {size / spent:.1f} MB/s")
    begun = time.perf_counter()
    ranked(parts, "a step that calls a tool")
    print(f"ranked: {time.perf_counter() - begun:.2f} s\n\n{'among the first five':48} a changed file         the most changed one", flush=True)
    told("DevBench: what is to be tested", [await places(kept, files, request, about) for request, files, about in devbench()])
    git = Git(given.repository)
    subjects, bodies = [], []
    for case in git.cases(given.most, given.seed):
        files = git.whole(case.files)
        subjects.append(await places(kept, files, case.request, case.changed))
        if len(case.body.strip()) > len(case.request) + 40:
            bodies.append(await places(kept, files, case.body, case.changed))
    told(f"{given.repository.resolve().name}: subjects of commits", subjects)
    told("the same: whole messages, where there is more", bodies)


if __name__ == "__main__":
    asyncio.run(main())
