"""`keep:` of an input: what the last successful run of the SOP left is what the next one reads."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import resume, run_sync, start
from metaflow_agents.api.run import fork
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.cli.entry_point import command
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.lock import RunLock
from metaflow_agents.journal.places import journal_path
from metaflow_agents.schema.event import RunOpened

COUNT = """
sop: count
inputs:
  before: {type: [string], default: [], keep: seen}
  word: string
artifacts: {seen: {schema: [string]}}
steps:
  add: {value: "before + [word]", needs: [before, word], makes: seen}
success: word != 'bad'
tests:
  goes_on: {inputs: {before: [a], word: b}, expect: "seen == ['a', 'b']"}
  first: {inputs: {word: b}, expect: "seen == ['b']"}
"""
TYPED = """
sop: typed
inputs:
  before: {type: TYPE, optional: true, keep: made}
  word: string
artifacts: {made: {SHAPE}}
steps:
  add: {call: "fns:add", needs: [before, word], makes: made}
"""
MODEL = """
sop: said
inputs:
  before: {type: string, default: nothing, keep: letter}
  topic: {type: string, trusted: false}
roles: {clerk: {profile: You write.}}
artifacts: {letter: {}}
steps:
  write: {role: clerk, needs: [before, topic], makes: letter}
"""


def lay(tmp_path: Path, text: str, name: str = "it.yaml") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def ran(sop: Path, name: str | None = None, **given: Any) -> Any:
    return run_sync(sop, workspace=sop.parent / "w", name=name, model=given.pop("model", None), **given)


def beginning(sop: Path, run: str) -> RunOpened:
    with Journal.read(journal_path(sop.parent / "w", run)) as journal:
        assert journal.state.opened is not None
        return journal.state.opened


def opened(sop: Path, run: str) -> dict[str, str]:
    return beginning(sop, run).kept


def cut(sop: Path, run: str, name: str) -> None:
    """A run as a kill leaves it: the first events of another."""
    Journal.copy(journal_path(sop.parent / "w", run), journal_path(sop.parent / "w", name), 2).__exit__()


def test_a_run_reads_what_the_last_successful_one_left(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    assert ran(sop, "one", word="a")["seen"] == ["a"]
    assert ran(sop, "two", word="b")["seen"] == ["a", "b"]
    assert (opened(sop, "one"), opened(sop, "two")) == ({}, {"before": "`seen@1` of run `one`"})
    assert ran(sop, "three", word="c", before=["x"])["seen"] == ["x", "c"], "what is given goes before it"
    assert ran(sop, "four", word="d")["seen"] == ["x", "c", "d"]


def test_a_failed_run_a_dry_run_one_with_stand_ins_and_one_in_memory_keep_nothing(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, word="a")
    assert ran(sop, word="bad").outcome == "failure"
    for options in ({"model": "dry"}, {"given": {"seen": ["z"]}}, {"staged": True}):
        assert ran(sop, word="b", **options).ok
    assert run_sync(sop, workspace=None, word="q")["seen"] == ["q"], "a run in memory reads nothing either"
    assert ran(sop, word="b")["seen"] == ["a", "b"]


def test_what_a_dry_model_made_up_is_not_kept(tmp_path: Path) -> None:
    sop = lay(tmp_path, MODEL)
    ran(sop, "dry", topic="rain", model="dry")
    ran(sop, "real", topic="rain", model=lambda request: "Rain.")
    ran(sop, "dry-again", topic="rain", model="dry")
    ran(sop, "next", topic="rain", model=lambda request: "More.")
    assert opened(sop, "real") == {} and opened(sop, "next") == {"before": "`letter@1` of run `real`"}


@pytest.mark.parametrize("name, other", [("another", COUNT.replace("sop: count", "sop: other"))])
def test_another_sop_in_the_workspace_leaves_nothing_for_it(tmp_path: Path, name: str, other: str) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, "one", word="a")
    assert ran(lay(tmp_path, other, "other.yaml"), name, word="b")["seen"] == ["b"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("type_, shape, first, second", [
    ("string", "", "b''", "ab"), ("file", "", "b'\\0x'", b"\0xb"), ("file", "", "'t'", "tb"),
    ("folder", "files: ['**']", "{'p/x.bin': b'\\0', 't.txt': 'x'}", {"p/x.bin": b"\0", "t.txt": "xb"})])
def test_text_files_and_folders_are_kept_byte_for_byte(tmp_path: Path, type_: str, shape: str, first: str, second: Any) -> None:
    sop = lay(tmp_path, TYPED.replace("TYPE", type_).replace("SHAPE", shape))
    add = {"folder": "{**before, 't.txt': before['t.txt'] + word}",
           "file": "before + (word.encode() if isinstance(before, bytes) else word)", "string": "before + word"}[type_]
    start = "word" if type_ == "string" else first
    (tmp_path / "fns.py").write_text(f"def add(before, word):\n    return {start} if before is None else {add}\n")
    assert ran(sop, word="a").ok
    assert ran(sop, word="b")["made"] == second


def test_a_changed_type_is_an_error_that_says_the_run_and_the_way_out(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, "one", word="a")
    text = COUNT.replace("type: [string], default: []", "type: [integer], default: []").replace('"before + [word]"', '"[word]"')
    text = text.partition("tests:")[0]
    with pytest.raises(UsageError, match=r"input `before`: what `seen@1` of run `one` left does not fit .*\n?.*--before"):
        ran(lay(tmp_path, text), "two", word="b")
    assert not journal_path(tmp_path / "w", "two").exists()
    assert ran(sop, "three", word="b", before=[1])["seen"] == ["b"]


def test_where_it_came_from_outside_the_label_comes_along(tmp_path: Path) -> None:
    sop = lay(tmp_path, MODEL)
    for name, topic in (("one", "rain"), ("two", "snow")):
        assert ran(sop, name, topic=topic, model=lambda request: "A letter.").ok
    with Journal.read(journal_path(tmp_path / "w", "two")) as journal:
        assert journal.state.untrusted("before") == "the input topic"
    lay(tmp_path, MODEL.replace("keep: letter", "keep: letter, trusted: true"))
    ran(sop, "three", topic="sun", model=lambda request: "A letter.")
    with Journal.read(journal_path(tmp_path / "w", "three")) as journal:
        assert journal.state.untrusted("before") == ""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("until", range(2, 12))
def test_a_run_that_was_killed_at_any_write_keeps_nothing_until_it_has_ended(tmp_path: Path, until: int) -> None:
    """Events 1 and 2 are one write. Each prefix of the journal is what a kill leaves.
    The next run reads the old value, or the new one, and no third."""
    sop, home = lay(tmp_path, COUNT), tmp_path / "w"
    ran(sop, "one", word="a")
    ran(sop, "two", word="b")
    path = journal_path(home, "two")
    with Journal.read(path) as journal:
        last = journal.last
    if until > last:
        return
    Journal.copy(path, journal_path(home, "cut"), until).__exit__()
    for rest in path.parent.glob("two.db*"):
        rest.unlink()
    expected = ["a", "b", "c"] if until == last else ["a", "c"]
    assert ran(sop, "next", word="c")["seen"] == expected
    if until < last:
        assert asyncio.run(resume("cut", workspace=home))["seen"] == ["a", "b"], "it reads what it read when it began"
        assert ran(sop, "last", word="d")["seen"] == ["a", "c", "d"], "it began before `next`"


def test_a_fork_keeps_nothing_before_its_own_end(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, "one", word="a")
    fork("one", workspace=tmp_path / "w")
    shutil.rmtree(tmp_path / "w" / "one")
    journal_path(tmp_path / "w", "one").unlink()
    assert ran(sop, word="b")["seen"] == ["b"]


def test_a_damaged_journal_is_told_and_the_option_leads_past_it(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, "one", word="a")
    journal_path(tmp_path / "w", "bad").write_bytes(b"no database" * 100)
    with pytest.raises(UsageError, match=r"kept values can't be looked for: .*bad\.db.*--before"):
        ran(sop, "two", word="b")
    assert ran(sop, "two", word="b", before=[])["seen"] == ["b"]


def test_show_tells_the_run_that_it_came_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, "one", word="a")
    ran(sop, "two", word="b")
    command(["show", "two", "--workspace", str(tmp_path / "w")])
    assert "`before` is kept from `seen@1` of run `one`" in capsys.readouterr().out


def test_an_older_run_that_ends_later_does_not_overtake_a_newer_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sop, home = lay(tmp_path, COUNT), tmp_path / "w"
    ran(sop, "may", word="a")
    assert ran(sop, "june", word="b", until="add").outcome == "until"
    assert ran(sop, "july", word="c")["seen"] == ["a", "c"]
    assert beginning(sop, "july").kept_without == {"before": {"june": "until"}}
    capsys.readouterr()
    command(["resume", "june", "--workspace", str(home)])
    told = "the next run reads `seen@1` of run `july` for `before`, and not what this one made: `july` began later"
    assert told in " ".join(capsys.readouterr().out.split())
    command(["run", str(sop), "--word", "e", "--name", "trial", "--workspace", str(home), "--model", "dry"])
    assert "the next run reads" not in capsys.readouterr().out
    assert ran(sop, "august", word="d")["seen"] == ["a", "c", "d"], "july began last"
    assert beginning(sop, "august").kept_without == {"before": {}}


def test_a_fork_stands_where_its_run_stood_and_goes_before_it(tmp_path: Path) -> None:
    sop, home = lay(tmp_path, COUNT), tmp_path / "w"
    ran(sop, "one", word="a")
    fork("one", at="add@1", new_name="one-again", workspace=home)
    asyncio.run(resume("one-again", workspace=home))
    ran(sop, "two", word="b")
    assert opened(sop, "two") == {"before": "`seen@1` of run `one-again`"}
    fork("one", at="add@1", new_name="one-late", workspace=home)
    asyncio.run(resume("one-late", workspace=home))
    ran(sop, "three", word="c")
    assert opened(sop, "three") == {"before": "`seen@1` of run `two`"}


def test_runs_that_are_unfinished_are_told_at_the_start_and_in_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sop, home = lay(tmp_path, COUNT), tmp_path / "w"
    ran(sop, "before-it", word="z", until="add")
    ran(sop, "base", word="a")
    ran(sop, "waits", word="b", until="add")
    ran(sop, "failed", word="bad")
    ran(sop, "made-up", word="b", until="add", given={"seen": ["q"]})
    for name in ("killed", "runs"):
        ran(sop, f"of-{name}", word="b")
        cut(sop, f"of-{name}", name)
        for rest in journal_path(home, "x").parent.glob(f"of-{name}.db*"):
            rest.unlink()
    lock = RunLock(journal_path(home, "runs"))
    command(["run", str(sop), "--word", "c", "--name", "new", "--workspace", str(home)])
    lock.release()
    told = ("not in `before`: what runs make that began later: `waits` (at the step asked for), `killed` (killed), "
            "`runs` (running); to have it, let them succeed and begin anew")
    said = " ".join(capsys.readouterr().out.split())
    assert 0 < said.index(told) < said.index("add@1"), "told before anything is done"
    command(["show", "new", "--workspace", str(home)])
    assert told in " ".join(capsys.readouterr().out.split())


def test_that_nothing_was_kept_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sop, home = lay(tmp_path, COUNT), tmp_path / "w"
    for options, told in (([], True), (["--before", "[]"], False)):
        command(["run", str(sop), "--word", "c", "--workspace", str(home / str(told)), *options])
        assert ("nothing was kept for `before`: it has its default" in capsys.readouterr().out) is told


def test_a_run_that_has_succeeded_counts_while_its_files_are_written(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, "one", word="a")
    lock = RunLock(journal_path(tmp_path / "w", "one"))
    assert ran(sop, "two", word="b")["seen"] == ["a", "b"]
    lock.release()


async def test_a_run_that_ended_between_the_reading_and_the_beginning_is_told(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    await asyncio.to_thread(ran, sop, "one", word="a")
    going = start(sop, workspace=tmp_path / "w", name="slow", word="b")
    await asyncio.to_thread(ran, sop, "quick", word="c")
    async with going as run:
        await run.result()
    assert opened(sop, "slow") == {"before": "`seen@1` of run `one`"}
    assert beginning(sop, "slow").kept_without == {"before": {"quick": "success"}}


def test_from_a_run_reads_what_that_run_read(tmp_path: Path) -> None:
    sop, asked = lay(tmp_path, MODEL), []

    def model(request: Any) -> str:
        asked.append(request.key)
        return f"Letter {len(asked)}."

    for name in ("one", "two"):
        ran(sop, name, topic="rain", model=model)
    assert ran(sop, "again", topic="rain", model=model, from_run="two")["letter"] == "Letter 2."
    assert ran(sop, "first-again", topic="rain", model=model, from_run="one")["letter"] == "Letter 1."
    assert len(asked) == 2, "nobody was asked again"
    assert opened(sop, "again") == {"before": "`before@1` of run `two`"} and beginning(sop, "again").kept_without == {}
    with Journal.read(journal_path(tmp_path / "w", "again")) as journal:
        assert journal.state.untrusted("before") == "the input topic"
    ran(sop, "given", topic="rain", model=model, from_run="two", before="x")
    assert len(asked) == 3 and opened(sop, "given") == {}, "what is given goes before it"


def test_from_a_run_that_had_no_such_input_reads_what_it_would_have_read(tmp_path: Path) -> None:
    old = COUNT.replace("  before: {type: [string], default: [], keep: seen}\n", "").replace("before + [word]", "[word]")
    sop = lay(tmp_path, old.replace("needs: [before, word]", "needs: [word]").partition("tests:")[0])
    for name, word in (("one", "a"), ("two", "b")):
        ran(sop, name, word=word)
    assert ran(lay(tmp_path, COUNT), "three", word="b", from_run="two")["seen"] == ["a", "b"]
    assert ran(sop, "four", word="b", from_run="one")["seen"] == ["b"], "there was none before it"


def test_from_a_run_that_had_nothing_to_read_has_nothing(tmp_path: Path) -> None:
    sop = lay(tmp_path, TYPED.replace("TYPE", "folder").replace("SHAPE", "files: ['**']"))
    (tmp_path / "fns.py").write_text("def add(before, word):\n    return {**(before or {}), word: word}\n")
    for name, more in (("one", {}), ("two", {"from_run": "one"})):
        assert ran(sop, name, word="a", **more)["made"] == {"a": "a"}


def test_which_run_is_read_may_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sop, home = lay(tmp_path, COUNT), tmp_path / "w"
    ran(sop, "one", word="a")
    ran(sop, "trial", word="x")
    ran(sop, "open", word="y", until="add")
    assert ran(sop, "two", word="b", keep_from="one")["seen"] == ["a", "b"]
    assert ran(sop, "new", word="c", keep_from="none")["seen"] == ["c"]
    assert beginning(sop, "two").kept_without == {} == beginning(sop, "new").kept_without
    command(["run", str(sop), "--word", "d", "--name", "three", "--workspace", str(home), "--keep-from", "two", "--from", "new"])
    assert opened(sop, "three") == {"before": "`seen@1` of run `two`"}, "it says more than `--from`"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keep_from, more, told", [
    ("on", {}, r"`--keep-from on`: 'on' is no run here; did you mean `one`\? there is: two, one, none"),
    ("open", {}, r"'open' is no run of `count` that succeeded and keeps what it made; .*there is: two, one, none"),
    ("other", {}, r"'other' is no run of `count` that succeeded"),
    ("one", {"before": ["x"]}, r"`--keep-from one` would do nothing: no input with `keep` is left to read"),
    ("none", {"before": ["x"]}, r"`--keep-from none` would do nothing"),
    ("one", {"workspace": None}, r"a run in memory reads no other run")])
def test_a_wrong_run_to_keep_from_gets_the_choices(tmp_path: Path, keep_from: str, more: dict[str, Any], told: str) -> None:
    sop = lay(tmp_path, COUNT)
    ran(sop, "one", word="a")
    ran(sop, "two", word="b")
    ran(sop, "open", word="c", until="add")
    ran(lay(tmp_path, COUNT.replace("sop: count", "sop: other"), "other.yaml"), "other", word="d")
    with pytest.raises(UsageError, match=told):
        run_sync(sop, **{"workspace": tmp_path / "w", "word": "e", "keep_from": keep_from, **more})


def test_a_run_to_keep_from_that_made_no_such_artifact_is_an_error(tmp_path: Path) -> None:
    ran(lay(tmp_path, COUNT.replace("seen", "known")), "one", word="a")
    with pytest.raises(UsageError, match="that run made no `seen` for the input `before`; name another run, or give the input"):
        ran(lay(tmp_path, COUNT), "two", word="b", keep_from="one")


async def test_a_test_of_the_sop_gives_what_was_kept(tmp_path: Path) -> None:
    sop = lay(tmp_path, COUNT)
    assert [verdict.ok async for verdict in try_out(sop)] == [True, True]
