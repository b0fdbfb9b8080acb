# ruff: noqa: E501  (SOPs stand here as people write them)
"""`--demo`: what commands, tools and functions gave in a recording stands for them, where all that they depend on is equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write

from metaflow_agents import resume, start
from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.models.recording import read_recording, save
from metaflow_agents.schema.event import Finished, Inner

SHOP = """
from pathlib import Path

def count(word):
    with Path({ledger!r}).open("a") as ledger:
        print(word, file=ledger)
    return {{"letters": len(word), "z": 1, "a": 2}}

def files(word):
    return {{"out/a.txt": word, "out/b.bin": b"\\xff\\x00"}}
"""
INNER = """
    sop: inner
    inputs: {word: string}
    roles: {clerk: {profile: writes}}
    artifacts: {counted: {schema: any}, text: {}}
    steps:
      count: {call: 'shop:count', needs: [word], makes: counted}
      write: {role: clerk, needs: [counted], makes: text, task: "{{ counted | tojson }}"}
    outputs: [text]
"""
DESK = """
    sop: desk
    inputs: {word: string}
    artifacts: {said: {}, made: {files: "out/**"}, listed: {}, text: {}, each: {each: {}}}
    steps:
      say: {run: [bash, -c, "echo $1 >>LEDGER; echo $1", say, "{{ word }}"], needs: [word], makes: said}
      make: {call: 'shop:files', needs: [word], makes: made}
      list: {run: [bash, -c, "echo list >>LEDGER; ls out"], needs: [made], makes: listed}
      walk: {run: [bash, -c, "echo $1 >>LEDGER", walk, "{{ one }}"], needs: [word], foreach: {in: "word | list", as: one}, makes: each}
      inside: {sop: inner, inputs: {word: word}, needs: [word], makes: text}
    outputs: [said, made, listed, text, each]
"""


def desk(folder: Path, **edits: str) -> Path:
    ledger = str(folder / "ledger.txt")
    text = DESK.replace("LEDGER", ledger)
    for old, new in edits.items():
        text = text.replace(old, new)
    return write(folder, text, shop_py=SHOP.format(ledger=ledger), inner_yaml=INNER)


async def ran(path: Path, name: str, word: str, **options: Any) -> Any:
    async with start(path, name=name, inputs={"word": word}, workspace=path.parent / "w", sandbox="none", **options) as going:
        return await going.result()


async def recorded(folder: Path) -> tuple[Any, Path]:
    first = await ran(desk(folder), "one", "abc", model=Scripted(write="a text"))
    file = folder / "it.jsonl"
    with RawJournal(folder / "w" / ".journals" / "one.db") as journal:
        assert save(journal, file, "a test", results=True) == 1
        assert save(journal, folder / "calls.jsonl", "a test") == 1
    calls = (folder / "calls.jsonl").read_text().splitlines()
    assert calls == file.read_text().splitlines()[:2] and len(calls) == 2
    return first, file


def done(folder: Path) -> list[str]:
    """What was carried out for real since this was asked last."""
    ledger = folder / "ledger.txt"
    found = ledger.read_text().split() if ledger.exists() else []
    ledger.unlink(missing_ok=True)
    return found


async def test_nothing_is_carried_out_where_all_is_equal(tmp_path: Path) -> None:
    first, file = await recorded(tmp_path)
    assert sorted(done(tmp_path)) == ["a", "abc", "abc", "b", "c", "list"]
    again = await ran(tmp_path / "desk.yaml", "two", "abc", model=f"replay:{file}", recorded=file)
    assert again.outputs == first.outputs and again.ok and done(tmp_path) == []
    own = [event.reused_from for event in events(tmp_path / "w", "two", Finished) if event.reused_from]
    inner = [one.event.reused_from for one in events(tmp_path / "w", "two", Inner) if one.event.kind == "finished"]
    assert sorted(own) == sorted(["it.jsonl:say@1~0", "it.jsonl:make@1~0", "it.jsonl:list@1~0", *(f"it.jsonl:walk@1[{one}]~0" for one in "abc")])
    assert inner == ["it.jsonl:inside@1~0/count@1~0", None]
    for_real = await ran(tmp_path / "desk.yaml", "three", "abc", model=f"replay:{file}")
    assert for_real.outputs == first.outputs and len(done(tmp_path)) == 6


async def test_what_depends_on_something_else_is_carried_out(tmp_path: Path) -> None:
    _, file = await recorded(tmp_path)
    done(tmp_path)
    path = desk(tmp_path, **{"echo list": "echo  list"})
    result = await ran(path, "two", "abc", model=f"replay:{file}", recorded=file)
    assert result.ok and done(tmp_path) == ["list"]
    other = await ran(path, "three", "abd", model=Scripted(write="another"), recorded=file)
    assert other["text"] == "another" and sorted(done(tmp_path)) == ["abd", "abd", "d", "list"]


async def test_a_resume_goes_on_with_the_recording(tmp_path: Path) -> None:
    first, file = await recorded(tmp_path)
    done(tmp_path)
    assert (await ran(tmp_path / "desk.yaml", "two", "abc", model=f"replay:{file}", recorded=file, until="say")).outcome == "until"
    assert (await resume("two", workspace=tmp_path / "w", sandbox="none")).outputs == first.outputs and done(tmp_path) == []


@pytest.mark.parametrize(("edit", "said"), [
    (lambda line: {**line, "payload": {"kind": "nothing"}}, "the payload of say@1~0 is none"),
    (lambda line: {key: value for key, value in line.items() if key != "depends"}, "depends"),
])
async def test_a_damaged_recording_is_told_with_its_line(tmp_path: Path, edit: Any, said: str) -> None:
    _, file = await recorded(tmp_path)
    lines = file.read_text().splitlines()
    number = next(place for place, line in enumerate(lines) if '"result":"say' in line)
    lines[number] = json.dumps(edit(json.loads(lines[number])))
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(JournalError, match=rf"damaged at line {number + 1}: .*{said}"):
        read_recording(file)


async def test_contents_that_a_result_names_have_to_be_there(tmp_path: Path) -> None:
    _, file = await recorded(tmp_path)
    lines = [line for line in file.read_text().splitlines() if '"content"' not in line]
    assert len(lines) < len(file.read_text().splitlines())
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(JournalError, match="the result of make@1~0 names a content that does not stand in it"):
        read_recording(file)


async def test_results_come_from_a_recording_or_from_a_run(tmp_path: Path) -> None:
    _, file = await recorded(tmp_path)
    with pytest.raises(UsageError, match="`--demo` takes results over from a recording and `--from one` from a run"):
        await ran(tmp_path / "desk.yaml", "two", "abc", model="dry", recorded=file, from_run="one")
