from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.errors import RunError
from metaflow_agents.output.workspace import PARTIAL, Changes, Workspace


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def folders(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_dir())


async def put(workspace: Workspace, files: dict[str, bytes]) -> Changes:
    stored = {sha(data): data for data in files.values()}

    async def load(digest: str) -> bytes:
        return stored[digest]

    return await workspace.reconcile({path: sha(data) for path, data in files.items()}, load)


async def test_apply_writes_deletes_and_clears_empty_folders(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    await workspace.apply({"a/b/c": b"1", "a/d": b"2", "e": b""})
    assert tree(workspace.folder) == {"a/b/c": b"1", "a/d": b"2", "e": b""}
    assert (workspace.folder / "a/d").stat().st_mode & 0o777 == 0o644
    await workspace.apply({"e": b"3"}, ["a/b/c", "never/there"])
    assert tree(workspace.folder) == {"a/d": b"2", "e": b"3"}
    assert folders(workspace.folder) == ["a"]
    await workspace.apply({"a": b"a file now"}, ["a/d"])
    assert tree(workspace.folder) == {"a": b"a file now", "e": b"3"}


async def test_a_stop_iteration_in_its_thread_is_told_and_nobody_waits_for_ever(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workspace, "_write", lambda *_: next(iter(())))
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(Workspace(tmp_path / "w").apply({"a": b"1"}), 60)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", ".git/hooks/x", "", f"a/{PARTIAL}1"])
async def test_refused_paths(tmp_path: Path, path: str) -> None:
    workspace = Workspace(tmp_path / "w")
    for doing in (workspace.apply({path: b""}), workspace.apply({}, [path]), put(workspace, {path: b""})):
        with pytest.raises(RunError, match="refused"):
            await doing
    assert not (tmp_path / "x").exists()


async def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("mine")
    workspace = Workspace(tmp_path / "w")
    workspace.folder.mkdir()
    (workspace.folder / "d").symlink_to(outside)
    (workspace.folder / "f").symlink_to(outside / "f")
    for doing in (workspace.apply({"d/f": b"x"}), workspace.apply({}, ["d/f"])):
        with pytest.raises(RunError, match="link"):
            await doing
    await workspace.apply({"f": b"x"})
    assert not (workspace.folder / "f").is_symlink()
    assert tree(outside) == {"f": b"mine"}
    changes = await put(workspace, {"d/f": b"y"})
    assert changes == Changes(("d/f",), ("d", "f"))
    assert tree(workspace.folder) == {"d/f": b"y"}
    assert tree(outside) == {"f": b"mine"}


async def test_a_file_in_a_folders_place_is_told(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    await workspace.apply({"a": b"1"})
    with pytest.raises(RunError, match=r"can't write `a/b`"):
        await workspace.apply({"a/b": b"2"})
    with pytest.raises(RunError, match="folder of"):
        await put(workspace, {"a": b"", "a/b": b""})
    await put(workspace, {"a/b": b"2"})
    await put(workspace, {"a": b"3"})
    assert tree(tmp_path) == {"a": b"3"}


async def test_reconcile_mends_what_differs_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    await workspace.apply({"same": b"1", "other": b"2", "extra/x/y": b"3", "mode": b"4"})
    (workspace.folder / "empty/er").mkdir(parents=True)
    (workspace.folder / ".git").mkdir()
    (workspace.folder / ".git/config").write_text("kept")
    (workspace.folder / f"{PARTIAL}0123").write_text("left by a kill")
    (workspace.folder / "mode").chmod(0o600)
    before = (workspace.folder / "same").stat()
    changes = await put(workspace, {"same": b"1", "other": b"two", "new/n": b"5", "mode": b"4"})
    assert changes == Changes(("mode", "new/n", "other"), (f"{PARTIAL}0123", "extra/x/y"))
    assert tree(workspace.folder) == {"same": b"1", "other": b"two", "new/n": b"5", "mode": b"4", ".git/config": b"kept"}
    assert folders(workspace.folder) == [".git", "new"]
    after = (workspace.folder / "same").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert await put(workspace, {"same": b"1", "other": b"two", "new/n": b"5", "mode": b"4"}) == Changes()


names = st.sampled_from(["a", "b", "c/d", "c/e/f", "g"])
contents = st.dictionaries(names, st.binary(max_size=3))


@settings(max_examples=examples(40), deadline=None)
@given(contents, contents)
def test_reconcile_comes_from_anywhere_to_exactly_the_files(
    tmp_path_factory: pytest.TempPathFactory, first: Any, second: Any
) -> None:
    async def go() -> None:
        workspace = Workspace(tmp_path_factory.mktemp("w"))
        await workspace.apply(first)
        changes = await put(workspace, second)
        assert tree(workspace.folder) == second
        assert set(changes.written) == {path for path in second if first.get(path) != second[path]}
        assert set(changes.deleted) == set(first) - set(second)
        assert await put(workspace, second) == Changes()

    asyncio.run(go())


async def test_a_full_disk_is_told_and_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    await workspace.apply({"a": b"old"})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RunError, match=r"can't write `a` in .*No space left on device; make room") as told:
        await workspace.apply({"a": b"new"})
    assert isinstance(told.value.__cause__, OSError)
    assert tree(tmp_path) == {"a": b"old"}


async def test_nobody_sees_half_a_file(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    await workspace.apply({"a": b"0" * 100_000})
    seen: set[bytes] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            data = (tmp_path / "a").read_bytes()
            seen.add(data[:1] + data[-1:] + str(len(data)).encode())

    looking = threading.Thread(target=look)
    looking.start()
    for n in range(60):
        await workspace.apply({"a": str(n % 10).encode() * 100_000})
    stop.set()
    looking.join()
    assert seen <= {f"{n}{n}100000".encode() for n in range(10)}


async def test_a_cancelled_write_is_over_when_the_cancellation_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    started, real = threading.Event(), os.replace

    def slow(*arguments: Any, **options: Any) -> None:
        started.set()
        time.sleep(0.2)
        real(*arguments, **options)

    monkeypatch.setattr(os, "replace", slow)
    task = asyncio.create_task(workspace.apply({"a": b"1", "b": b"2"}))
    assert await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tree(tmp_path) == {"a": b"1"}
