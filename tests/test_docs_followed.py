"""The tutorial and the how-to guides are followed in an empty folder, block by block, without a model and a network."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE
from test_docs import Block, name

from metaflow_agents.cli import command as sop

TOP = Path(__file__).resolve().parent.parent
GUIDES = [TOP / "docs" / "tutorial.md", *sorted((TOP / "docs" / "how-to").glob("*.md"))]
_BLOCK = re.compile(r"^(<!-- not run: .+ -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"# .*?\bstatus (\d+)")
_SHELL = re.compile(r"[|;>&`$]|<<")


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that a reader carries out: its files, and its commands but those that say why they are not run."""
    text = page.read_text(encoding="utf-8")
    found = [(match, Block(match[2], match[3], text.count("\n", 0, match.start()) + 1)) for match in _BLOCK.finditer(text)]
    return [block for match, block in found if block.file or (block.language == "sh" and not match[1])]


def commands(block: Block) -> list[tuple[str, int]]:
    """The commands of a block, each with the exit status that its comment names; one with a here-document has several lines."""
    found: list[tuple[str, int]] = []
    until = None
    for line in block.text.replace("\\\n", " ").splitlines():
        if until is not None:
            found[-1] = (f"{found[-1][0]}\n{line}", found[-1][1])
            until = None if line == until else until
        elif line.strip():
            status = _STATUS.search(line)
            found.append((line, int(status[1]) if status else 0))
            here = re.search(r"<<'(\w+)'", line)
            until = here[1] if here else None
    return found


FOLLOWED = [page for page in GUIDES if any(block.language == "sh" for block in blocks(page))]


def carried_out(line: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Status and output of a command: `sop` in this process, which saves it a start of a second; all else by bash."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["sop"] and not _SHELL.search(line.partition(" #")[0].replace("</dev/null", "")):
        status = sop([word for word in words[1:] if word != "</dev/null"])
        return status, "\n".join(capfd.readouterr())
    ended = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                           check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", FOLLOWED, ids=name)
def test_a_guide_works_in_an_empty_folder(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capfd: pytest.CaptureFixture[str]) -> None:
    for variable in [key for key in os.environ if key.startswith(("OPENAI_", "SOP_"))]:
        monkeypatch.delenv(variable)
    folder, home = tmp_path / "empty", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", os.fspath(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", os.fspath(home))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.chdir(folder)
    for block in blocks(page):
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
            continue
        for line, status in commands(block):
            ended, said = carried_out(line, capfd)
            where = f"{name(page)}:{block.line}: {line}\nstatus {ended}\n{said[-4000:]}"
            assert ended == status and "Traceback" not in said, where


def test_most_guides_are_followed() -> None:
    """A page may show commands that need an endpoint; then it says so."""
    assert len(FOLLOWED) >= 12
    lines = [line for page in FOLLOWED for block in blocks(page) if block.language == "sh" for line, _ in commands(block)]
    assert len([line for line in lines if line.startswith("sop ")]) >= 70
