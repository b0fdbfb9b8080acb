"""The run's repository, judged by the real git: who made what from what, and that it is the folder and the journal."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from dulwich.pack import write_pack_index
from real_git import git
from scripted import Scripted, block, write

from metaflow_agents import fork, resume, run, start
from metaflow_agents.errors import RunError, UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.output.history.objects import small_index
from metaflow_agents.output.history.writing import rebuild
from metaflow_agents.output.history.writing import write as write_history
from metaflow_agents.schema.event import Committed
from metaflow_agents.schema.model import digest

TOWN = """
sop: town
inputs: {idea: string}
roles:
  manager: {profile: writes down what is wanted}
  engineer: {profile: writes code}
  poet: {profile: writes verse}
artifacts:
  prd: {schema: {goals: [string]}, file: docs/prd.json}
  code: {files: "src/**"}
  lines: {}
  enough: {schema: boolean}
  verse: {files: "verse/**"}
  words: {schema: {text: string, number: integer}, render: words.md.j2, file: WORDS.md}
steps:
  write_prd: {role: manager, needs: [idea], makes: prd}
  write_code:
    role: "'poet' if goal == 'song' else 'engineer'"
    needs: [prd]
    foreach: {in: prd.goals, as: goal, parallel: 1}
    makes: code
    retries: 1
  count: {run: [sh, -c, "find src -type f | wc -l"], needs: [code], makes: lines}
  judge: {value: "'3' in lines.stdout", needs: [lines], makes: enough}
  mend: {role: engineer, needs: [enough], sees: [code], when: enough, makes: code, rounds: 3}
  sing: {role: poet, needs: [enough], makes: verse, when: not enough}
  conclude: {value: "{'text': 'well done', 'number': 7}", needs: [enough], makes: words, when: not enough}
outputs: [code, verse]
"""
SONG = "verse/für 日本 – 'quoted' \"x\" 🙂.txt"


def answers(**more: Any) -> Scripted:
    first = {"a": block("src/a.py", "print('a')"), "b": block("src/lib/b.py", "b = 1\nc = 2\nd = 3\ne = 4"),
             "song": block("src/song.txt", "la la")}
    failed: list[str] = []

    def code(request: Any) -> Any:
        for goal, text in first.items():
            if request.key.startswith(f"write_code@1[{goal}]"):
                if goal == "b" and not failed:
                    failed.append(goal)
                    return ValueError("not today")
                return text
        raise AssertionError(request.key)

    mended = "=== delete: src/a.py ===\n=== rename: src/lib/b.py -> src/lib/deep/b.py ===\n"
    return Scripted({"write_prd": {"goals": ["a", "b", "song"]}, "write_code": code, "mend": mended,
                     "sing": block(SONG, "la\r\nla"), **more})


async def town(tmp_path: Path, **options: Any) -> Path:
    """A whole run of it; its folder."""
    path = write(tmp_path, TOWN, words_md_j2="# {{ words.text }}\n\n{{ words.number }} for {{ run.inputs.idea }}\n")
    told = {"model": answers(), "idea": "a town", "workspace": tmp_path / "runs", "name": "town", "sandbox": "none", **options}
    result = await run(path, **told)
    assert result.outcome == ("until" if "until" in options else "success"), result.reason
    assert result.folder is not None
    return result.folder


def subjects(folder: Path) -> list[str]:
    return git(folder, "log", "--reverse", "--format=%s").splitlines()


def trailers(folder: Path, commit: str, key: str) -> list[str]:
    return git(folder, "log", "-1", f"--format=%(trailers:key={key},valueonly)", commit).split("\n")


def all_ids(folder: Path) -> str:
    return git(folder, "log", "--format=%H %T")


def journal(folder: Path) -> Path:
    return journal_path(folder.parent, folder.name)


def committed(folder: Path) -> list[tuple[int, Committed]]:
    with Journal.read(journal(folder)) as opened:
        return list(opened.events(Committed))


def is_whole(folder: Path) -> None:
    assert git(folder, "fsck", "--strict", "--no-dangling") == ""
    assert git(folder, "status", "--porcelain", "--ignored", "--untracked-files=all") == ""
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/main"


async def test_the_log_reads_like_the_minutes_of_the_work(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    is_whole(folder)
    said = git(folder, "log", "--reverse", "--format=%s | %an <%ae>").splitlines()
    assert said[:7] == [
        "given: idea@1 | user <user@run.invalid>",
        "write_prd: prd@1 by manager | manager <manager@role.invalid>",
        "write_code: code@1 by engineer and poet, 3 items | engineer <engineer@role.invalid>",
        "count: lines@1 by a command | count <count@step.invalid>",
        "judge: enough@1 by an expression | judge <judge@step.invalid>",
        "mend: code@2 by engineer | engineer <engineer@role.invalid>",
        "count: lines@2 by a command | count <count@step.invalid>"]
    assert sorted(said[8:]) == ["conclude: words@1 by an expression | conclude <conclude@step.invalid>",
                                "sing: verse@1 by poet | poet <poet@role.invalid>"]
    assert set(git(folder, "log", "--format=%cn <%ce> %cd", "--date=format:%z").splitlines()) == {
        "metaflow-agents <metaflow-agents@framework.invalid> +0000"}


async def test_a_commit_says_round_items_and_what_it_was_made_from(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    code = git(folder, "log", "--format=%H", "--grep=^write_code: ")
    seq = next(seq for seq, event in committed(folder) if event.firing == "write_code@1")
    assert git(folder, "log", "-1", "--format=%B", code) == "\n".join([
        "write_code: code@1 by engineer and poet, 3 items", "", "Round 1, made from prd@1.", "",
        "- a (by engineer)", "- b (by engineer, attempt 2)", "- song (by poet)", "",
        "Step: write_code", "Round: 1", "Role: engineer", "Role: poet", "Artifact: code@1", "Made-From: prd@1",
        f"Message: {seq}", "Co-authored-by: poet <poet@role.invalid>"])
    mend = git(folder, "log", "--format=%H", "--grep=^mend: ")
    assert trailers(folder, mend, "Activation") == ["mend@1~0"]
    assert trailers(folder, mend, "Made-From") == ["enough@1, code@1"]
    assert trailers(folder, git(folder, "rev-list", "--max-parents=0", "HEAD"), "Run") == ["town"]


async def test_a_commit_holds_the_files_of_its_version_and_the_times_of_the_journal(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    code, mend = (git(folder, "log", "--format=%H", f"--grep=^{step}: ") for step in ("write_code", "mend"))
    assert git(folder, "show", "--format=", "--name-status", "-M", mend).splitlines() == [
        "D\tsrc/a.py", "R100\tsrc/lib/b.py\tsrc/lib/deep/b.py"]
    assert git(folder, "ls-tree", "-r", "--name-only", code).splitlines() == [
        "docs/prd.json", "src/a.py", "src/lib/b.py", "src/song.txt"]
    assert git(folder, "show", f"{code}:src/a.py") == "print('a')"
    assert {line.split()[0] for line in git(folder, "ls-tree", "-r", "HEAD").splitlines()} == {"100644"}
    assert git(folder, "-c", "core.quotePath=false", "ls-files", "verse", "-z") == f"{SONG}\0"
    assert git(folder, "show", "HEAD:WORDS.md") == "# well done\n\n7 for a town"
    empty = git(folder, "log", "--format=%H", "--grep=^judge: enough@1")
    assert git(folder, "show", "--format=", "--stat", empty) == "", "a version that is no file is in the minutes all the same"
    told = {seq: event.at for seq, event in committed(folder)}
    for line in git(folder, "log", "--format=%at %ct %(trailers:key=Message,valueonly,separator=)").splitlines():
        authored, taken, seq = line.split()
        assert int(authored) == int(taken) == int(told[int(seq)])


async def test_every_version_that_the_journal_holds_is_one_commit(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    made = [f"{version.artifact}@{version.number}" for _, event in committed(folder)
            for version in event.versions]
    told = git(folder, "log", "--reverse", "--format=%(trailers:key=Artifact,valueonly,separator=%x20)").split()
    assert told == made and len(made) == 10


async def test_nothing_but_a_repository_stands_there_and_nothing_runs_from_it(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    found = sorted(path.relative_to(folder / ".git").as_posix() for path in (folder / ".git").rglob("*") if path.is_file())
    packs = [path for path in found if path.startswith("objects/pack/pack-")]
    assert found == sorted(["HEAD", "config", "index", "refs/heads/main", *packs]) and len(packs) == 2
    assert git(folder, "diff-files", "--exit-code") == "", "the index knows the files as they lie there"


async def test_without_a_folder_there_is_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, TOWN, words_md_j2="x")
    assert (await run(path, model=answers(), idea="x", workspace=None, sandbox="none")).ok
    assert set(os.listdir(tmp_path)) == {"words.md.j2", "desk.yaml"}


# -- written in pieces, rebuilt, branched

async def test_in_pieces_it_is_what_it_is_in_one_go(tmp_path: Path) -> None:
    folder = await town(tmp_path, until="write_code")
    is_whole(folder)
    first, packs = all_ids(folder).splitlines(), set(os.listdir(folder / ".git/objects/pack"))
    assert len(first) == 3
    assert (await resume("town", model=answers(), workspace=folder.parent)).ok
    is_whole(folder)
    assert all_ids(folder).splitlines()[-3:] == first, "what was written stays as it was"
    assert packs < set(os.listdir(folder / ".git/objects/pack")), "and only what was new is added"
    in_pieces = all_ids(folder)
    shutil.rmtree(folder / ".git")
    write_history(journal(folder), folder)
    is_whole(folder)
    assert all_ids(folder) == in_pieces
    shutil.rmtree(folder / ".git")
    assert rebuild(journal(folder), folder).tip == in_pieces.split()[0]
    is_whole(folder)


async def test_written_again_nothing_changes(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*") if path.is_file() and path.name != "index"}
    again = write_history(journal(folder), folder)
    assert again.objects == 0 and again.kept == ()
    after = {path: path.stat().st_mtime_ns for path in before}
    before.pop(folder / ".git/HEAD"), after.pop(folder / ".git/HEAD")
    assert after == before


@pytest.mark.parametrize("outcome", ["stopped", "interrupted", "budget", "failure"])
async def test_however_it_comes_to_rest_the_history_is_written(tmp_path: Path, outcome: str) -> None:
    path = write(tmp_path, TOWN.replace("outputs:", "success: lines.stdout == ''\noutputs:"), words_md_j2="x")
    model = answers(mend=RuntimeError("broken") if outcome == "stopped" else None or answers().answers["mend"])
    budget = {"calls": 5} if outcome == "budget" else None
    async with start(path, model=model, idea="x", workspace=tmp_path / "runs", sandbox="none", name="town",
                     budget=budget) as going:
        if outcome == "interrupted":
            async with going.bus.subscribe("prd", after=0) as messages:
                await messages.get()
            going.stop()
        result = await going.result()
    assert result.outcome == outcome, result.reason
    folder = tmp_path / "runs" / "town"
    is_whole(folder)
    versions = sum(bool(event.versions) for _, event in committed(folder))
    assert len(subjects(folder)) == versions >= 2


async def test_a_fork_shares_the_history_up_to_where_it_branched(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    branch = fork("town", at="mend@1", new_name="branch", workspace=folder.parent)
    other = answers(mend="=== delete: src/song.txt ===")
    assert (await resume(branch, model=other, workspace=folder.parent)).ok
    forked = folder.with_name(branch)
    is_whole(forked)
    mine, its = (all_ids(where).splitlines()[::-1] for where in (folder, forked))
    assert its[:5] == mine[:5] and its[5:] and its[5] != mine[5]


async def test_with_another_sop_files_move_in_a_commit_of_their_own(tmp_path: Path) -> None:
    folder = await town(tmp_path, until="write_code")
    changed = (TOWN.replace("file: docs/prd.json", "file: wanted.json"))
    (tmp_path / "desk.yaml").write_text(changed)
    assert (await resume("town", model=answers(), workspace=folder.parent, accept_changes=True)).ok
    is_whole(folder)
    said = subjects(folder)
    assert said[3] == "resumed: the SOP changed" and said[:3] == ["given: idea@1", "write_prd: prd@1 by manager",
                                                                 "write_code: code@1 by engineer and poet, 3 items"]
    moved = git(folder, "log", "--format=%H", "--grep=^resumed: ")
    assert git(folder, "show", "--format=", "--name-status", "-M", moved) == "R100\tdocs/prd.json\twanted.json"
    assert git(folder, "show", "-s", "--format=%an %b", moved).startswith("user - ")
    ids = all_ids(folder)
    shutil.rmtree(folder / ".git")
    assert rebuild(journal(folder), folder).commits == len(said) and all_ids(folder) == ids


async def test_with_another_sop_what_is_no_artifact_any_more_is_deleted(tmp_path: Path) -> None:
    text = """
        sop: dropping
        inputs: {idea: string}
        artifacts: {one: {file: one.txt}, two: {file: two.txt}, three: {file: three.txt}}
        steps:
          first: {value: "'1'", needs: [idea], makes: one}
          second: {value: "'2'", needs: [idea], sees: [one], makes: two}
          third: {value: "'3'", needs: [two], makes: three}
        outputs: [three]
    """
    path = write(tmp_path, text)
    await run(path, idea="x", workspace=tmp_path / "runs", name="run", until="second")
    fewer = [line for line in text.splitlines() if "first:" not in line]
    write(tmp_path, "\n".join(fewer).replace("one: {file: one.txt}, ", "").replace("sees: [one], ", ""))
    assert (await resume("run", workspace=tmp_path / "runs", accept_changes=True)).ok
    folder = tmp_path / "runs" / "run"
    is_whole(folder)
    assert "D\tone.txt" in git(folder, "log", "--grep=^resumed", "--format=", "--name-status")


async def test_a_file_that_can_not_be_rendered_is_told_of_in_its_commit(tmp_path: Path) -> None:
    path = write(tmp_path, TOWN, words_md_j2="{{ 7 // (words.number - 7) }}")
    result = await run(path, model=answers(), idea="x", workspace=tmp_path / "runs", name="town", sandbox="none")
    assert result.outcome == "stopped" and result.reason.count("words.md.j2") == 1
    folder = tmp_path / "runs" / "town"
    body = git(folder, "log", "-1", "--format=%b", "--grep=^conclude: ")
    assert "Its file is not written: words.md.j2, which renders `words` into WORDS.md: " in body
    (tmp_path / "words.md.j2").write_text("{{ words.number }}\n")
    assert (await resume("town", model=answers(), workspace=folder.parent, accept_changes=True)).ok
    is_whole(folder)
    assert git(folder, "show", "HEAD:WORDS.md") == "7" and body in git(folder, "log", "--format=%b")


async def test_what_comes_from_outside_breaks_no_line_of_a_message(tmp_path: Path) -> None:
    key = "x\n\nStep: forged\nRole: admin\x1b[31m\u202e" + "y" * 400
    path = write(tmp_path, """
        sop: keys
        inputs: {names: [string]}
        artifacts: {made: {each: string}}
        steps: {make: {value: name, needs: [names], foreach: {in: names, as: name}, makes: made}}
    """)
    result = await run(path, names=[key], workspace=tmp_path / "runs")
    assert result.folder is not None
    is_whole(result.folder)
    assert trailers(result.folder, "HEAD", "Step") == ["make"] and trailers(result.folder, "HEAD", "Role") == [""]
    line = git(result.folder, "log", "-1", "--format=%B").splitlines()[4]
    assert line.startswith("- x Step: forged Role: admin\ufffd[31m\ufffdyyy") and len(line) < 210


# -- what somebody else did in the folder

async def test_a_commit_by_hand_is_kept_on_a_branch(tmp_path: Path) -> None:
    folder = await town(tmp_path, until="write_code")
    (folder / "mine.txt").write_text("mine")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "by hand")
    mine = git(folder, "rev-parse", "HEAD")
    with pytest.raises(UsageError, match=f"`main` in .* is at {mine[:12]}, which is no commit of the run: .*branch -m main mine"):
        rebuild(journal(folder), folder)
    assert git(folder, "rev-parse", "main") == mine and (folder / "mine.txt").exists()
    assert (await resume("town", model=answers(), workspace=folder.parent)).ok
    is_whole(folder)
    assert "by hand" not in subjects(folder)
    kept = f"before-{mine[:12]}"
    assert git(folder, "rev-parse", kept) == mine and git(folder, "show", f"{kept}:mine.txt") == "mine"
    git(folder, "gc", "-q")
    assert write_history(journal(folder), folder).kept == (), "once is enough"
    is_whole(folder)
    assert git(folder, "branch", "--format=%(refname:short)").split() == [kept, "main"]


async def test_a_branch_and_a_detached_head_of_somebody_else_stay(tmp_path: Path) -> None:
    folder = await town(tmp_path, until="write_code")
    git(folder, "checkout", "-q", "-b", "mine")
    git(folder, "commit", "-q", "--allow-empty", "-m", "on a branch")
    branch = git(folder, "rev-parse", "HEAD")
    assert rebuild(journal(folder), folder).objects == 0
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/mine", "where the run does not go on, what is checked out stays so"
    git(folder, "checkout", "-q", "--detach", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "on no branch")
    detached = git(folder, "rev-parse", "HEAD")
    assert (await resume("town", model=answers(), workspace=folder.parent)).ok
    is_whole(folder)
    assert git(folder, "rev-parse", "mine") == branch
    assert git(folder, "rev-parse", f"before-{detached[:12]}") == detached


async def test_a_rewritten_history_is_laid_aside_and_the_true_one_stands(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    before = all_ids(folder)
    git(folder, "-c", "core.editor=true", "rebase", "-q", "--root", "--exec",
        "git commit -q --allow-empty --amend --author='x <x@x.invalid>' --no-edit")
    git(folder, "pack-refs", "--all")
    assert all_ids(folder) != before
    forged = git(folder, "rev-parse", "main")
    assert write_history(journal(folder), folder).kept == (f"before-{forged[:12]}",)
    assert all_ids(folder) == before
    is_whole(folder)


def hurt(path: Path, place: int) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x55
    path.write_bytes(data)


def pack(inside: Path) -> Path:
    found, = (inside / "objects/pack").glob("*.pack")
    return found


LEFT = ("sop-part", "objects/pack/tmp_pack_sop", "objects/pack/tmp_idx_sop", f"objects/pack/pack-{'0' * 40}.pack")
DAMAGES: dict[str, Callable[[Path], object]] = {
    "no pack": lambda inside: pack(inside).unlink(),
    "no index of it": lambda inside: pack(inside).with_suffix(".idx").unlink(),
    "a byte of the pack": lambda inside: hurt(pack(inside), 200),
    "a byte of its index": lambda inside: hurt(pack(inside).with_suffix(".idx"), 1100),
    "cut short": lambda inside: pack(inside).write_bytes(pack(inside).read_bytes()[:-300]),
    "empty": lambda inside: pack(inside).write_bytes(b""),
    "an index alone": lambda inside: shutil.copy(pack(inside).with_suffix(".idx"), inside / f"objects/pack/pack-{'1' * 40}.idx"),
    "main is garbage": lambda inside: (inside / "refs/heads/main").write_bytes(b"\0" * 41),
    "main is nowhere": lambda inside: (inside / "refs/heads/main").write_bytes(b"1" * 40),
    "main is gone": lambda inside: (inside / "refs/heads/main").unlink(),
    "HEAD is empty": lambda inside: (inside / "HEAD").write_bytes(b""),
    "the index is garbage": lambda inside: (inside / "index").write_bytes(b"DIRC"),
    "the configuration is cut short": lambda inside: (inside / "config").write_text("[core"),
    "left by a kill": lambda inside: [(inside / name).write_bytes(b"half") for name in LEFT],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_repository_is_made_whole(tmp_path: Path, damage: str) -> None:
    folder = await town(tmp_path)
    before = all_ids(folder)
    DAMAGES[damage](folder / ".git")
    for _ in range(2):
        rebuild(journal(folder), folder)
        assert all_ids(folder) == before
        is_whole(folder)
        assert not [name for name in LEFT if (folder / ".git" / name).exists()]
    assert write_history(journal(folder), folder).objects == 0


# -- killed while it is written

def killed(folder: Path, phase: str, number: int) -> bool:
    """Whether a process that writes the history came to that moment, and died there."""
    script = Path(__file__).with_name("history_killed.py")
    done = subprocess.run([sys.executable, str(script), str(journal(folder)), str(folder), phase, str(number)],
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize(("phase", "moments", "first"), [
    ("before", range(1, 6), False), ("after", range(1, 6), False), ("object", (1, 9), False), ("before", (1, 3, 6), True)])
async def test_killed_at_any_moment_it_is_the_old_history_or_the_new(
        tmp_path: Path, phase: str, moments: Sequence[int], first: bool) -> None:
    folder = await town(tmp_path, until="write_code")
    old, before = all_ids(folder), tmp_path / "before"
    shutil.copytree(folder / ".git", before)
    assert (await resume("town", model=answers(), workspace=folder.parent)).ok
    new = all_ids(folder)
    assert old != new
    for number in moments:
        shutil.rmtree(folder / ".git")
        if not first:
            shutil.copytree(before, folder / ".git")
        assert killed(folder, phase, number)
        if not first:
            assert git(folder, "fsck", "--strict", "--no-dangling") == ""
            is_last = phase == "after" and number == 5
            assert all_ids(folder) == (new if is_last else old)
        write_history(journal(folder), folder)
        assert all_ids(folder) == new
        is_whole(folder)
        assert not list((folder / ".git").rglob("*sop*"))
    if len(moments) == 5:
        assert not killed(folder, phase, 6), "there are no more moments"


# -- what refuses it

async def test_a_link_in_its_place_leads_nowhere(tmp_path: Path) -> None:
    folder = await town(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(folder / ".git")
    (folder / ".git").symlink_to(outside)
    with pytest.raises(RunError, match=r"can't write `\.git` in .*: a link .*; remove it, then `sop history town`"):
        rebuild(journal(folder), folder)
    assert list(outside.iterdir()) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("calls", range(1, 9))
async def test_where_the_disk_is_full_the_run_says_so_and_the_old_history_stays(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """The disk is full from the n-th rename of the repository on."""
    folder = await town(tmp_path, until="write_code")
    before, renames, real = all_ids(folder), 0, os.replace

    def full(source: Any, target: Any, **options: Any) -> None:
        nonlocal renames
        renames += ".git" in str(target)
        if renames >= calls and ".git" in str(target):
            raise OSError(28, "No space left on device")
        real(source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        result = await resume("town", model=answers(), workspace=folder.parent)
    if renames < calls:
        assert result.ok and calls > 4
        return
    assert result.outcome == "stopped"
    assert "can't write `.git`" in result.reason and "make room, then `sop resume`" in result.reason
    assert all_ids(folder) == before and "sop" not in str(os.listdir(folder / ".git/objects/pack"))
    done = await resume("town", model=answers(), workspace=folder.parent)
    assert done.ok and done.calls == result.calls
    is_whole(folder)


async def test_a_journal_that_lost_an_old_version_is_told(tmp_path: Path) -> None:
    """The run itself needs it no more; its history does."""
    folder = await town(tmp_path, until="mend")
    before = all_ids(folder)
    with sqlite3.connect(journal(folder)) as connection:
        connection.execute("UPDATE blobs SET data = ?, packed = 0 WHERE digest = ?", (b"x", digest(b"print('a')\n")))
    connection.close()
    result = await resume("town", model=answers(), workspace=folder.parent)
    assert result.outcome == "stopped" and "is damaged at blob" in result.reason and "restore the file" in result.reason
    assert all_ids(folder) == before


async def test_a_path_that_is_a_file_and_a_folder_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: clash
        artifacts: {one: {file: out}, two: {files: "out/**"}}
        steps:
          first: {value: "'x'", makes: one}
          second: {value: "{'out/a': 'x'}", needs: [one], makes: two}
    """)
    result = await run(path, workspace=tmp_path / "runs", name="clash")
    assert result.outcome == "stopped" and "`out`" in result.reason


async def test_writing_it_does_not_hold_up_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from metaflow_agents.output.history import writing

    seen: list[bool] = []
    real = writing.write

    def watched(*arguments: Any) -> Any:
        seen.append(threading.current_thread() is threading.main_thread())
        return real(*arguments)

    monkeypatch.setattr(writing, "write", watched)
    async with asyncio.timeout(60):
        await town(tmp_path)
    assert seen == [False], "once, when the run rests, and in a thread"


@pytest.mark.parametrize("count", [0, 1, 7, 300])
def test_the_index_of_a_pack_is_git_s_own(count: int) -> None:
    """Byte for byte what dulwich writes, which writes each of its fields by itself."""
    entries = sorted((hashlib.sha1(str(number).encode()).digest(), 12 + 1000 * number, number * 7919 % 2**32)
                     for number in range(count))
    file, checksum = io.BytesIO(), hashlib.sha1(b"pack").digest()
    write_pack_index(file, entries, checksum)
    assert small_index(entries, checksum) == file.getvalue()
