"""The table of papers' figures: rows of every module, and a reason for what is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.papers import __main__ as papers
from benchmarks.papers.row import PaperRow


def test_every_module_gives_its_rows_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    def lacking(data: Path) -> list[PaperRow]:
        return [PaperRow("x", (data / "logs/a.txt").read_text(), "", "", "")]

    row = PaperRow("tree", "figure | one", "74 %", "70 %", "another\nmodel")
    monkeypatch.setattr(papers, "sources", lambda: {"full": lambda data: [row], "lacking": lacking})
    assert papers.main(["--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| tree | figure \\| one | 74 % | 70 % | another model |", "left out: lacking: logs/a.txt is not among the data"]
    assert papers.main(["full", "--data", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == [{"technique": "tree", "what": "figure | one", "paper": "74 %", "here": "70 %",
                             "differs": "another\nmodel"}] and told["skipped"] == {}


def test_without_data_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("SOP_TEST_DATA", raising=False)
    assert papers.main([]) == 0
    assert "left out: self_consistency: SOP_TEST_DATA names no folder" in capsys.readouterr().out


def test_an_error_in_a_figure_is_raised_and_an_unknown_module_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    def broken(data: Path) -> list[PaperRow]:
        raise FileNotFoundError(2, "no such file", "/elsewhere/x")

    monkeypatch.setattr(papers, "sources", lambda: {"broken": broken})
    with pytest.raises(FileNotFoundError):
        papers.main(["--data", str(tmp_path)])
    with pytest.raises(SystemExit):
        papers.main(["brokn"])
    assert "there is: broken" in capsys.readouterr().err
