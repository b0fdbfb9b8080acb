# ruff: noqa: E501  (SOPs stand here as people write them)
"""Files that are no text stay what they are, byte for byte, along every path that a file takes through a run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bytes_files import FNS, INSIDE, SOP, found_in, lay, listed, named, noise, png, real
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from real_git import ALONE, git
from scripted import Scripted, events, ran, write

from metaflow_agents import RunResult, load_sop, resume, run
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.values import Values
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.runtime.input_options import parse_option
from metaflow_agents.schema.binary import BinaryFile, content, data_of
from metaflow_agents.schema.event import Finished
from metaflow_agents.schema.media import HEAD, UNKNOWN, media_type

ALL = {**real(), **noise(200, seed=12)}


def clerk(request: ModelRequest) -> Any:
    """Copies with the tool `run`, once, looks, and says that it is done."""
    if any(message["role"] == "tool" for message in request.messages):
        return "Done."
    return Reply(text="", calls=(ToolCall("a", "run", {"command": "cp -r c r"}),))


async def go(folder: Path, files: dict[str, bytes], one: bytes, **options: Any) -> tuple[Path, RunResult]:
    desk = write(folder, SOP, inside_yaml=INSIDE, fns_py=FNS)
    given_ = lay(folder / "given", named("v", files))
    (folder / "one.bin").write_bytes(one)
    result = await run(desk, **{"model": Scripted(tool=clerk), "workspace": folder / "runs", "sandbox": "none", "name": "it",
                                "things": given_, "one": folder / "one.bin", "everything": True, **options})
    assert result.ok, result.reason
    return folder / "runs", result


def wanted(files: dict[str, bytes], one: bytes) -> dict[str, bytes]:
    """What the run's folder has to hold of files that are no text."""
    lettered = {path: data for letter in "vcers" for path, data in named(letter, files).items()}
    return {**lettered, "single.bin": one, "double.bin": one + one, "through.bin": one}


def must_be_the_same(home: Path, result: RunResult, files: dict[str, bytes], one: bytes) -> None:
    """In the run's folder, in its journal, in what the program is given, in the git history, and in what commands saw."""
    there = found_in(home / "it")
    there.pop("sizes.json")
    assert there == wanted(files, one)
    with Journal.read(home / ".journals" / "it.db") as journal:
        values = Values(journal.blob, journal.state)
        held = {name: values.latest(name) for name in (*"things taken called single_files tooled inner".split(), "items")}
        single = data_of(values.latest("single"))
    for name, letter in zip("things taken called single_files tooled inner".split(), "vvcers", strict=True):
        assert held[name].as_bytes() == named(letter, files), name
    assert {path: data_of(one_) for path, one_ in held["items"].items()} == named("c", files)
    assert single == one
    for name, letter in (("taken", "v"), ("tooled", "r"), ("inner", "s")):
        given_ = {path: data.encode() if isinstance(data, str) else data for path, data in result.outputs[name].items()}
        assert given_ == named(letter, files)
    assert result.outputs["double"] == one + one
    assert result.outputs["seen"]["stdout"].splitlines() == listed(named("c", files))
    assert git(home / "it", "status", "--porcelain") == ""
    shown = subprocess.run(["git", "-C", str(home / "it"), "show", "HEAD:single.bin"], check=True, capture_output=True, env=ALONE)
    assert shown.stdout == one
    blobs = {line.split("\t")[1]: line.split()[2] for line in git(home / "it", "ls-tree", "-r", "HEAD").splitlines()}
    assert set(blobs) == {*wanted(files, one), "sizes.json"}


@pytest.mark.one_in(8, always=False)
async def test_real_and_random_files_are_identical_along_every_path(tmp_path: Path) -> None:
    one = png(20, 20, 6)
    assert sum(isinstance(content(data), BinaryFile) for data in ALL.values()) > 150
    home, result = await go(tmp_path, ALL, one)
    must_be_the_same(home, result, ALL, one)
    assert result.outputs["sizes"] == {"count": len(ALL), "first": "image/png"}


@pytest.mark.one_in(8, always=False)
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """The process dies while its role is asked, with files on every path behind it and before it."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(go(tmp_path, ALL, png(20, 20, 6), model=dying))
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    result = asyncio.run(resume("it", workspace=tmp_path / "runs", model=Scripted(tool=clerk), sandbox="none"))
    assert result.ok, result.reason
    must_be_the_same(tmp_path / "runs", result, ALL, png(20, 20, 6))


def dying(request: ModelRequest) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


async def test_from_takes_over_what_is_no_text(tmp_path: Path) -> None:
    files, one = dict(list(real().items())[:4]), png(3, 3)
    home, _ = await go(tmp_path, files, one)
    again = Scripted(tool=clerk)
    result = await run(tmp_path / "desk.yaml", model=again, workspace=home, sandbox="none", name="again", from_run="it",
                       things=tmp_path / "given", one=tmp_path / "one.bin", everything=True)
    assert result.ok, result.reason
    assert ran(home, "again") == set() and again.requests == []
    assert found_in(home / "again") == found_in(home / "it")
    lay(tmp_path / "given" / "v", {"grey.png": files["grey.png"] + b"\xff"})
    changed = await run(tmp_path / "desk.yaml", model=Scripted(tool=clerk), workspace=home, sandbox="none", name="changed", from_run="it",
                        things=tmp_path / "given", one=tmp_path / "one.bin", everything=True)
    assert changed.ok, changed.reason
    assert ran(home, "changed") == {"take", "call", "split", "see", "tool", "nest", "nest_one", "gather", "count"}
    made = {event.activation for event in events(home, "changed", Finished) if event.reused_from is None}
    assert {key for key in made if key.startswith(("split", "gather"))} == {"split@1[c/grey.png]~0", "gather@1[c/grey.png]~0"}


@pytest.mark.one_in(8)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(files=st.dictionaries(st.sampled_from(["a.png", "b", "c.txt", "d.xlsx"]), st.binary(max_size=300), min_size=1),
       one=st.binary(max_size=300).filter(lambda data: isinstance(content(data), BinaryFile)))
def test_whatever_the_bytes_are(files: dict[str, bytes], one: bytes) -> None:
    with TemporaryDirectory() as folder:
        home, result = asyncio.run(go(Path(folder), files, one))
        must_be_the_same(home, result, files, one)


@given(st.binary(max_size=500) | st.text().map(str.encode))
@example(b"RIFF\0")
@example(b"\xef\xbb\xbfa\r\n")
@example(b"\xed\xa0\x80")
def test_a_file_is_its_text_or_stays_its_bytes(data: bytes) -> None:
    held = content(data, "x")
    assert data_of(held) == data
    assert isinstance(held, str) == (b"\0" not in data and data.decode("utf-8", "ignore").encode() == data)


@pytest.mark.parametrize(("name", "type_"), [
    ("grey.png", "image/png"), ("dot.gif", "image/gif"), ("dot.bmp", "image/bmp"), ("one.pdf", "application/pdf"),
    ("sums.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"), ("book.epub", "application/epub+zip"),
    ("packed.zip", "application/zip"), ("nothing.zip", "application/zip"), ("silence.wav", "audio/wav"), ("sans.ttf", "font/ttf"),
    ("sans.otf", "font/otf"), ("text.gz", "application/gzip"), ("rows.sqlite", "application/vnd.sqlite3"),
    ("text.tar", "application/octet-stream")])
def test_the_type_is_told_from_the_bytes(name: str, type_: str) -> None:
    data = real()[name]
    assert media_type(data, name) == type_
    assert media_type(data[:HEAD], name) == type_


def test_no_name_makes_a_file_what_it_is_not() -> None:
    """What is called like a picture or a workbook and is none, is none."""
    assert media_type(b"\xff\xfe\x00", "a.png") == UNKNOWN
    assert media_type(b"\x7fELF\2", "a.xlsx") == "application/x-elf"
    assert media_type(real()["grey.png"], "a.exe") == "image/png"
    assert media_type(b"RIFF\0\0\0\0OTHR", "a.wav") == UNKNOWN


async def test_one_file_is_refused_where_data_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(png())
    sop = """
        sop: refused
        inputs: {one: {type: file}}
        artifacts: {out: SPEC}
        steps: {make: {value: VALUE, needs: [one], makes: out}}
    """
    for spec, value, told in (
            ("{schema: {a: any}}", '"{\'a\': one}"', "`out` is data, and holds the file [one.png: image/png, "),
            ("{schema: string}", "one", "`out` has a schema, and [one.png: image/png, "),
            ("{}", "one | upper", "bytes, no text] can't be taken for text; fix: ask `is string` first")):
        result = await run(write(tmp_path, sop.replace("SPEC", spec).replace("VALUE", value)), workspace=tmp_path / "runs",
                           one=tmp_path / "one.png")
        assert told in result.reason, result.reason
    fields = await run(write(tmp_path, sop.replace("SPEC", "{schema: {a: [any]}}").replace(
        "VALUE", '"{\'a\': [one.name, one.media_type, one.size, one.sha256, one == one, one is string]}"')),
        workspace=tmp_path / "runs", one=tmp_path / "one.png")
    assert fields["out"] == {"a": ["one.png", "image/png", len(png()), sha256(png()).hexdigest(), True, False]}


async def test_texts_stay_texts_and_an_option_wants_one(tmp_path: Path) -> None:
    """A byte order mark, line ends of other systems: nothing of it is lost."""
    data = "\ufeffgrüß\r\nzwei\rdrei".encode()
    (tmp_path / "t.txt").write_bytes(data)
    sop = "sop: t\ninputs: {t: {type: file}}\nartifacts: {o: {files: \"**\"}}\nsteps: {m: {value: \"{'o.txt': t}\", needs: [t], makes: o}}\n"
    result = await run(write(tmp_path, sop), workspace=tmp_path / "runs", name="it", t=tmp_path / "t.txt")
    assert result.ok, result.reason
    assert (tmp_path / "runs" / "it" / "o.txt").read_bytes() == data
    program = load_sop(write(tmp_path, sop.replace("{type: file}", "string"))).program
    (tmp_path / "p.png").write_bytes(png())
    with pytest.raises(UsageError, match=r"p\.png: image/png, \d+ bytes, is no text \(UTF-8\); declare it `type: file`"):
        parse_option(program, "t", f"@{tmp_path / 'p.png'}")
