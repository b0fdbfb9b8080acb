"""Trees and packs against the real git, for any sequence of changes; and journals of a thousand commits."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_git import git
from tiers import examples

from benchmarks.large_journal import make_large_journal
from metaflow_agents.errors import RunError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.tree import Leaf
from metaflow_agents.output.history.objects import Chain, Packer
from metaflow_agents.output.history.plan import Commit
from metaflow_agents.output.history.repository import Repository
from metaflow_agents.output.history.writing import write
from metaflow_agents.runtime.prepare import prepare
from metaflow_agents.schema.event import Committed, Entry, Finished, Fired, RunOpened, Version
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Data, Files, pack

PATHS = ["a", "b", "d/a", "d/b", "d/e/f/g", "d-", "d.x", "d0/x", "e/ü", "e/日本"]
states = st.lists(st.dictionaries(st.sampled_from(PATHS), st.binary(max_size=2), max_size=8), min_size=1, max_size=6)


def leaf(data: bytes) -> Leaf:
    return Leaf(digest(data), partial(bytes, data))


def commit(number: int, before: dict[str, bytes], now: dict[str, bytes]) -> Commit:
    return Commit(number, 1_700_000_000 + number, "x <x@x.invalid>", f"number {number}\n",
                  {path: leaf(data) for path, data in now.items() if before.get(path) != data}, frozenset(before.keys() - now))


@settings(max_examples=examples(15), deadline=None)
@given(states)
def test_the_tree_of_every_commit_is_what_it_should_be(wanted: list[dict[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        repository = Repository(Path(name))
        repository.lay_out()
        with Packer(repository.packs, repository.known()) as packer:
            chain = Chain(packer)
            for number, (before, now) in enumerate(zip([{}, *wanted], wanted, strict=False)):
                chain.add(commit(number, before, now))
            packer.finish()
        repository.point(chain.tip, chain.files(), check_out=True)
        assert git(repository.folder, "fsck", "--strict") == ""
        for made, now in zip(git(repository.folder, "rev-list", "--reverse", "main").split(), wanted, strict=True):
            listed = git(repository.folder, "-c", "core.quotePath=false", "ls-tree", "-r", "--format=%(path) %(objectname)", made)
            in_order = sorted(now.items(), key=lambda entry: entry[0].encode())
            assert listed.splitlines() == [f"{path} {git_id(data)}" for path, data in in_order]


def git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@pytest.mark.parametrize(("first", "second", "told"), [
    ("a/b", "a", "`a` can't be a file and a folder"), ("a", "a/b", "`a` can't be a file and the folder of `a/b"),
    ("x/a", "x/a/b/c", "`x/a` can't be a file and the folder of `x/a/b/c`")])
def test_a_file_and_a_folder_of_one_name_are_refused(tmp_path: Path, first: str, second: str, told: str) -> None:
    with Packer(tmp_path, ()) as packer:
        chain = Chain(packer)
        chain.add(Commit(1, 1.0, "x <x@x>", "x\n", {first: leaf(b"1")}))
        with pytest.raises(RunError, match=told):
            chain.add(Commit(2, 2.0, "x <x@x>", "x\n", {second: leaf(b"2")}))
    assert list(tmp_path.iterdir()) == [], "what is not finished leaves nothing"


def test_a_file_may_become_a_folder_and_back(tmp_path: Path) -> None:
    with Packer(tmp_path, ()) as packer:
        chain = Chain(packer)
        chain.add(Commit(1, 1.0, "x <x@x>", "x\n", {"a/b/c": leaf(b"1"), "z": leaf(b"1")}))
        chain.add(Commit(2, 2.0, "x <x@x>", "x\n", {"a": leaf(b"2")}, frozenset({"a/b/c"})))
        chain.add(Commit(3, 3.0, "x <x@x>", "x\n", {"a/d": leaf(b"3")}, frozenset({"a"})))
        assert [path for path, _ in chain.files()] == ["z", "a/d"]


FILES = """
sop: files
inputs: {idea: string}
roles: {engineer: {profile: writes}}
artifacts: {code: {files: "src/**"}}
steps: {write: {role: engineer, needs: [idea], wants: [code], makes: code, rounds: 10000}}
"""


def files_journal(home: Path, rounds: int, count: int) -> Path:
    """The journal of a run in which one of `count` files changes in each round."""
    (home / "files.yaml").write_text(FILES)
    prepared, path = prepare(home / "files.yaml", model="dry"), home / ".journals" / "files.db"

    async def fill() -> None:
        idea = pack(Data(value="x"))
        files = {f"src/p{number % 10}/m{number}.py": digest(b"0") for number in range(count)}
        async with Journal.create(path) as journal:
            given = Committed(versions=(Version(artifact="idea", number=1, payload=digest(idea)),))
            await journal.append(RunOpened(run="files", **prepared.identity), given,
                                 blobs={**prepared.sources, digest(idea): idea, digest(b"0"): b"0"})
            for number in range(1, rounds + 1):
                text = f"print({number})\n".encode()
                files[f"src/p{number % 10}/m{number % count}.py"] = digest(text)
                payload = pack(Files(patterns=("src/**",), files=files))
                key, made = f"write@{number}~0", digest(payload)
                entry = Entry(role="engineer", activation=key, asked="", answered="")
                journal.post(Fired(step="write", round=number, read={"idea": 1, "code": number - 1}),
                             Finished(activation=key, payload=made, memory=entry),
                             Committed(firing=f"write@{number}",
                                       versions=(Version(artifact="code", number=number, payload=made),)),
                             blobs={digest(text): text, made: payload})
            await journal.sync()

    asyncio.run(fill())
    return path


@pytest.mark.one_in(8, always=False)
def test_a_thousand_commits_of_two_hundred_files_are_one_small_pack(tmp_path: Path) -> None:
    path = files_journal(tmp_path, 1000, 200)
    folder = tmp_path / "files"
    written = write(path, folder)
    assert written.commits == 1001 == int(git(folder, "rev-list", "--count", "main"))
    assert git(folder, "fsck", "--strict") == ""
    assert git(folder, "show", "HEAD~400:src/p0/m0.py") == "print(600)"
    assert git(folder, "log", "--format=%ae", "-1", "main") == "engineer@role.invalid"
    packs = list((folder / ".git/objects/pack").iterdir())
    assert len(packs) == 2 and sum(pack.stat().st_size for pack in packs) < 3_000_000
    # Of a commit that changes one file: the file, its folder, two folders above and the commit. Nothing else is written.
    assert written.objects <= 5 * 1001 + 200


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", ["wide", "many", "deep"])
def test_large_journals(tmp_path: Path, shape: Any) -> None:
    path = tmp_path / ".journals" / "large.db"
    make_large_journal(path, 1000, shape=shape)
    written = write(path, tmp_path / "large")
    with Journal.read(path) as journal:
        made = sum(bool(event.versions) for _, event in journal.events(Committed))
    assert written.commits == made == int(git(tmp_path / "large", "rev-list", "--count", "main"))
    assert git(tmp_path / "large", "fsck", "--strict") == ""
