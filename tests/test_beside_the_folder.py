"""An artifact without a file in the run's folder has one beside it, whatever it is and however the run ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metaflow_agents.cli import command

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
MIXED = """
sop: mixed
inputs: {rows: {type: [string], default: [a/b, c]}}
artifacts:
  note: {}
  count: {schema: integer}
  plan: {schema: {goal: string, parts: [string]}}
  each_row: {each: string}
  logo: {}
  own: {file: own.md}
  pages: {files: "pages/**"}
  never: {}
outputs: [note, count, plan, each_row, logo, own, pages]
steps:
  a: {value: "'no line break'", makes: note}
  b: {value: "3", makes: count}
  c: {value: "{'goal': 'Tea', 'parts': ['water', 'leaves']}", makes: plan}
  d: {foreach: {in: rows, as: row}, sees: rows, value: "row ~ '!'", makes: each_row}
  e: {call: making:logo, makes: logo}
  f: {value: "'mine'", makes: own}
  g: {value: "{'pages/1.txt': 'one'}", makes: pages}
  h: {value: "note", needs: note,  when: "note == 'other'", makes: never}
"""
LATE = """
sop: late
artifacts: {first: {}, second: {}}
steps:
  a: {value: "'done'", makes: first}
  b: {call: making:late, needs: first, makes: second}
"""
MAKING = f"""
import pathlib, time
def logo(): return {PNG!r}
def late():
    if pathlib.Path({{home!r}}, "stop").exists():
        raise RuntimeError("not today")
    if pathlib.Path({{home!r}}, "wait").exists():
        pathlib.Path({{home!r}}, "waiting").touch()
        time.sleep(60)
    return "late"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mixed.yaml").write_text(MIXED)
    (tmp_path / "late.yaml").write_text(LATE)
    (tmp_path / "making.py").write_text(MAKING.replace("{home!r}", repr(str(tmp_path))))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def laid(home: Path, run: str) -> dict[str, bytes]:
    """What lies beside the folder of a run."""
    folder = home / "workspace" / ".artifacts" / run
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_each_kind_has_its_file(home: Path) -> None:
    assert command(["run", "mixed.yaml", "--name", "m"]) == 0
    found = laid(home, "m")
    assert json.loads(found.pop("each_row.json")) == {"a/b": "a/b!", "c": "c!"}
    assert json.loads(found.pop("plan.json")) == {"goal": "Tea", "parts": ["water", "leaves"]}
    assert found == {"note.md": b"no line break\n", "count.json": b"3\n", "logo.png": PNG}
    assert not any(path.name == "note.md" for path in (home / "workspace" / "m").rglob("*")), "the folder is the SOP's alone"


def test_what_a_stopped_run_made_is_there_and_what_is_no_longer_made_goes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "stop").touch()
    assert command(["run", "late.yaml", "--name", "l"]) == 1
    assert laid(home, "l") == {"first.md": b"done\n"}
    assert "  ls workspace/.artifacts/l " in capsys.readouterr().out
    (home / "workspace" / ".artifacts" / "l" / "stranger.md").write_text("x")
    (home / "stop").unlink()
    assert command(["resume", "l"]) == 0
    assert laid(home, "l") == {"first.md": b"done\n", "second.md": b"late\n"}


def test_a_run_without_such_artifacts_has_no_folder_of_them(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "plain.yaml").write_text("sop: plain\nartifacts: {own: {file: own.md}}\nsteps: {a: {value: \"'x'\", makes: own}}\n")
    assert command(["run", "plain.yaml", "--name", "p"]) == 0
    assert not (home / "workspace" / ".artifacts").exists()
    assert ".artifacts" not in capsys.readouterr().out


@pytest.mark.one_in(4)
def test_after_a_kill_the_resume_lays_them_out(home: Path) -> None:
    (home / "wait").touch()
    starting = "from metaflow_agents.cli import command; command(['run', 'late.yaml', '--name', 'k', '--sandbox', 'none'])"
    process = subprocess.Popen([sys.executable, "-c", starting], start_new_session=True)
    until = time.monotonic() + 30
    while not (home / "waiting").exists() and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert laid(home, "k") == {}
    (home / "wait").unlink()
    assert command(["resume", "k"]) == 0
    assert laid(home, "k") == {"first.md": b"done\n", "second.md": b"late\n"}
