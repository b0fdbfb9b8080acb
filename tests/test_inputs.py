# ruff: noqa: E501  (SOPs stand here as people write them)
"""What a run is given: checked against types, read from files and folders, asked for by name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from scripted import write

from metaflow_agents import load_sop, run
from metaflow_agents.errors import UsageError
from metaflow_agents.runtime import input_files
from metaflow_agents.runtime.input_files import Remote
from metaflow_agents.runtime.input_options import parse_option
from metaflow_agents.runtime.inputs import labels, read_inputs
from metaflow_agents.schema.payload import Data, Files, unpack

SOP = """
    sop: given
    inputs:
      text: {type: string, description: What to say}
      count: {type: integer, default: 3}
      level: {type: low | high, default: low}
      rows: {type: [{name: string, 'n?': integer}], default: []}
      maybe: {type: string | null, default: null}
      page: {type: file, default: null}
      code: {type: folder, default: null}
    artifacts: {out: {}}
    steps: {join: {value: text, needs: [text], sees: [count, level, rows, maybe, page, code], makes: out}}
"""


def read(tmp_path: Path, **given: Any) -> dict[str, Any]:
    program = load_sop(write(tmp_path, SOP)).program
    found, blobs, *_ = read_inputs(program, given)
    values: dict[str, Any] = {}
    for name, digest in found.items():
        payload = unpack(blobs[digest])
        if isinstance(payload, Data):
            values[name] = payload.value
        elif isinstance(payload, Files):
            values[name] = {path: blobs[blob] for path, blob in payload.files.items()}
    return values


def test_defaults_fill_what_is_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, text="x") == {
        "text": "x", "count": 3, "level": "low", "rows": [], "maybe": None, "page": None, "code": None}


def test_bounds_stand_among_the_keys(tmp_path: Path) -> None:
    program = load_sop(write(tmp_path, """
        sop: bounded
        inputs:
          rows: {type: integer, minimum: 1, maximum: 40, description: How many, default: 3}
          code: {type: string, pattern: '^[A-Z]', minLength: 2, optional: true}
          pair: {type: integer, priority: integer}
        artifacts: {out: {}}
        steps: {join: {value: "rows ~ (code or '') ~ pair.type", needs: [rows, code, pair], makes: out}}
    """)).program
    rows, code = program.sop.inputs["rows"], program.sop.inputs["code"]
    assert (rows.description, rows.default, code.optional) == ("How many", 3, True)
    assert program.schemas["input:rows"] == {"type": "integer", "minimum": 1, "maximum": 40}
    assert set(program.schemas["input:pair"]["properties"]) == {"type", "priority"}, "a schema of two fields"
    with pytest.raises(UsageError) as told:
        read_inputs(program, {"rows": 0, "code": "x", "pair": {"type": 1, "priority": 2}})
    assert "expected integer, at least 1, at most 40" in str(told.value) and "input `code`" in str(told.value)


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        read(tmp_path, count="three", level="hgih", rows=[{"nmae": "x"}], colour="red")
    lines = str(told.value).splitlines()
    assert len(lines) == 5
    for part in ("`colour` is no input", "input `text` is missing (What to say); give it with `--text", "input `count`: the value is \"three\"",
                 "input `level`", "input `rows`"):
        assert any(part in line for line in lines), part


def test_files_and_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("grüß")
    folder = tmp_path / "code"
    (folder / "sub" / ".git").mkdir(parents=True)
    (folder / "a.py").write_text("a = 1\n")
    (folder / "sub" / "b.bin").write_bytes(b"\x00\xff")
    (folder / "sub" / ".git" / "config").write_text("not mine")
    (folder / "link.py").symlink_to(tmp_path / "page.md")
    values = read(tmp_path, text="x", page=tmp_path / "page.md", code=str(folder))
    assert values["page"] == "grüß"
    assert values["code"] == {"a.py": b"a = 1\n", "sub/b.bin": b"\x00\xff"}
    assert read(tmp_path, text="x", page=f"@{tmp_path / 'page.md'}")["page"] == "grüß"


@pytest.mark.parametrize(("given", "told"), [
    ({"page": "none.md"}, "can't read none.md: No such file"), ({"page": "."}, ". is a folder; a file was expected"),
    ({"page": 5}, "a path was expected, not 5"), ({"code": "none"}, "none is not there; a folder was expected"),
    ({"code": "pyproject.toml"}, "pyproject.toml is a file; a folder was expected"),
])
def test_wrong_paths_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], told: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    with pytest.raises(UsageError, match="input `") as caught:
        read(tmp_path, text="x", **given)
    assert told in str(caught.value)


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "MAX_BYTES", 1024 * 1024)
    (tmp_path / "code").mkdir()
    for number in range(3):
        (tmp_path / "code" / f"{number}.txt").write_bytes(b"x" * 500_000)
    (tmp_path / "big.txt").write_bytes(b"x" * 1_100_000)
    for given, told in (({"page": tmp_path / "big.txt"}, "larger than 1 MiB"), ({"code": tmp_path / "code"}, "more than 1 MiB")):
        with pytest.raises(UsageError, match=told):
            read(tmp_path, text="x", **given)


def test_options_of_a_command_line(tmp_path: Path) -> None:
    program = load_sop(write(tmp_path, SOP)).program
    (tmp_path / "rows.json").write_text('[{"name": "x"}]')
    (tmp_path / "text.txt").write_text("[1, 2]")
    assert parse_option(program, "text", "[1, 2]") == "[1, 2]"
    assert parse_option(program, "text", f"@{tmp_path / 'text.txt'}") == "[1, 2]"
    assert parse_option(program, "count", "7") == 7
    assert parse_option(program, "level", "high") == "high"
    assert parse_option(program, "rows", f"@{tmp_path / 'rows.json'}") == [{"name": "x"}]
    assert parse_option(program, "page", "@x") == "@x"
    with pytest.raises(UsageError, match="input `rows` wants JSON"):
        parse_option(program, "rows", "[{")
    with pytest.raises(UsageError, match="can't read"):
        parse_option(program, "text", f"@{tmp_path / 'none.txt'}")
    with pytest.raises(UsageError, match="`@` names no file"):
        parse_option(program, "text", "@")


def test_a_file_without_its_at_and_a_file_of_bad_json_are_told_by_name(tmp_path: Path) -> None:
    program = load_sop(write(tmp_path, SOP)).program
    (tmp_path / "rows.json").write_text('[{"name": "x"}]')
    (tmp_path / "bad.json").write_text("[{")
    for name in ("rows", "count"):
        with pytest.raises(UsageError) as error:
            parse_option(program, name, str(tmp_path / "rows.json"))
        assert f"write `@{tmp_path / 'rows.json'}`" in str(error.value)
    with pytest.raises(UsageError, match=r"bad\.json: input `rows` wants JSON"):
        parse_option(program, "rows", f"@{tmp_path / 'bad.json'}")
    with pytest.raises(UsageError, match="wants JSON"):
        parse_option(program, "rows", "x" * 5000)           # no name of any file


async def test_a_folder_is_files_to_those_who_read_it(tmp_path: Path) -> None:
    text = """
        sop: folder
        inputs: {code: {type: folder}}
        artifacts: {listing: {schema: [string]}, seen: {}}
        steps:
          list_it: {value: code | list, needs: [code], makes: listing}
          look: {run: [bash, -c, "cat sub/b.txt"], needs: [code], makes: seen}
    """
    (tmp_path / "given" / "sub").mkdir(parents=True)
    (tmp_path / "given" / "a.txt").write_text("a")
    (tmp_path / "given" / "sub" / "b.txt").write_text("b")
    result = await run(write(tmp_path, text), code=tmp_path / "given", workspace=tmp_path / "runs", sandbox="none")
    assert result["listing"] == ["a.txt", "sub/b.txt"] and result["seen"]["stdout"] == "b"
    assert result.folder is not None and os.listdir(result.folder) == [".git"]        # what was given is not what the run made


def test_json_values_go_in_as_they_are(tmp_path: Path) -> None:
    rows = [{"name": "ünï\n\u2028", "n": 2**53}]
    assert read(tmp_path, text="x", rows=rows)["rows"] == json.loads(json.dumps(rows))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder whose files a client may name, with all that could lead out of it."""
    (tmp_path / "secret").write_text("the key")
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside" / "b.txt").write_text("beside")
    folder = tmp_path / "root"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("hello")
    (folder / "inner" / "b.txt").write_text("below")
    (folder / "link").symlink_to("../secret")
    (folder / "out").symlink_to("..")
    (folder / "inner" / "up").symlink_to("/proc/self")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize("path", [
    "../secret", "ROOT/../secret", "inner/../../secret", "/proc/self/environ", "/dev/stdin", "/dev/zero", "/etc/passwd", "link",
    "ROOT/link", "out/secret", "inner/up/environ", "ROOT-beside/b.txt", "..", ".", "", "inner", "pipe", "a.txt/x", "~/a.txt", "@a.txt",
    "a.txt\x00", "a\ud800", "file:///etc/passwd", 7, ["a.txt"], "x" * 5000, "nowhere"])
def test_a_client_reads_nothing_but_regular_files_below_the_root(root: Path, path: Any) -> None:
    program = load_sop(write(root.parent, SOP)).program
    path = path.replace("ROOT", str(root)) if isinstance(path, str) else path
    with pytest.raises(UsageError) as told:
        read_inputs(program, {"text": "x", "page": path}, remote=Remote(root))
    assert "the key" not in str(told.value) and len(str(told.value)) < 6000
    with pytest.raises(UsageError, match="reads no files for its clients"):
        read_inputs(program, {"text": "x", "page": path}, remote=Remote())


def test_a_client_reads_files_below_the_root(root: Path) -> None:
    program = load_sop(write(root.parent, SOP)).program
    for path in ("a.txt", "inner/b.txt", f"{root}/a.txt", "./a.txt"):
        assert read_inputs(program, {"text": "x", "page": path}, remote=Remote(root))[0]
    for folder, there in ((".", ["a.txt", "inner/b.txt"]), ("inner", ["b.txt"]), (str(root), ["a.txt", "inner/b.txt"])):
        found, blobs, *_ = read_inputs(program, {"text": "x", "code": folder}, remote=Remote(root))
        payload = unpack(blobs[found["code"]])
        assert isinstance(payload, Files) and list(payload.files) == there
    for folder in ("out", "inner/up", "../root", "a.txt", "pipe"):
        with pytest.raises(UsageError):
            read_inputs(program, {"text": "x", "code": folder}, remote=Remote(root))


def test_what_a_client_gives_is_untrusted_whatever_the_sop_says(tmp_path: Path) -> None:
    program = load_sop(write(tmp_path, SOP.replace("text: {type: string,", "text: {type: string, trusted: true,"))).program
    by_default = {"page": "the input page", "code": "the input code"}
    assert labels(program, ["text", "count"]) == by_default
    assert labels(program, ["text", "count"], Remote()) == {"text": "the input text", "count": "the input count", **by_default}
    assert labels(program, ["text", "count"], Remote(trusted=True)) == by_default
