"""The table of papers' figures: a line for each figure, and one for what can't be measured here."""

from __future__ import annotations

import json
from pathlib import Path
from pkgutil import iter_modules

import pytest

from benchmarks.papers import __main__ as papers
from benchmarks.papers import arithmetic, calculator, debate, react, route, self_consistency, task_queue
from benchmarks.papers.needs import NotMeasured
from benchmarks.papers.row import PaperRow

ROW = PaperRow("full", "right; wrong", "74 %", "first 1\nlater 2", "another model, and " + "long " * 40)


def lacking(data: Path) -> list[PaperRow]:
    return [PaperRow("x", (data / "logs/a.txt").read_text(), "", "", "")]


def without(data: Path) -> list[PaperRow]:
    raise NotMeasured("it needs a planner")


def given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "sources", lambda: {"full": lambda data: [ROW], "lacking": lacking, "without": without})


def test_a_line_for_each_figure_and_for_what_can_not_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    given(monkeypatch)
    assert papers.main(["--data", str(tmp_path), "--json"]) == 0
    told = capsys.readouterr()
    assert [(row["technique"], row["here"], row["differs"]) for row in json.loads(told.out)] == [
        ("full", ROW.here, ROW.differs), ("lacking", "not measured", "logs/a.txt is not among the public data"),
        ("without", "not measured", "it needs a planner")]
    assert "lacking …" in told.err and "without: " in told.err, "which one is measured is told meanwhile"


def test_the_table_fits_a_screen_and_keeps_every_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    given(monkeypatch)
    assert papers.main(["full", "without", "--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 120
    cells = [[part.strip() for part in line.split("|")] for line in lines if line.count("|") == 3]
    columns = [[row[column] for row in cells if row[column]] for column in range(4)]
    assert columns[0] == ["what", "right; wrong", "all of it"] and columns[1] == ["the paper's figure", "74 %", "—"]
    assert columns[2] == ["the figure here", "first 1", "later 2", "not measured"]
    assert " ".join(columns[3]).split() == f"what is not comparable {ROW.differs} it needs a planner".split()


def test_without_data_every_technique_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("SOP_TEST_DATA", raising=False)
    assert papers.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["technique"] for row in told] == list(papers.TECHNIQUES)
    assert {row["differs"] for row in told} == {"SOP_TEST_DATA names no folder with the public data"}


def test_no_module_with_figures_is_forgotten() -> None:
    folder = Path(papers.__file__).parent
    named = {found.name for found in iter_modules([str(folder)])
             if "\ndef rows(data: Path)" in (folder / f"{found.name}.py").read_text(encoding="utf-8")}
    assert named == set(papers.TECHNIQUES)


def test_an_error_in_a_figure_is_raised_and_an_unknown_technique_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                       capsys: pytest.CaptureFixture[str]) -> None:
    def broken(data: Path) -> list[PaperRow]:
        raise FileNotFoundError(2, "no such file", "/elsewhere/x")

    monkeypatch.setattr(papers, "sources", lambda: {"broken": broken})
    with pytest.raises(FileNotFoundError):
        papers.main(["--data", str(tmp_path)])
    with pytest.raises(SystemExit):
        papers.main(["brokn"])
    assert "there is: broken" in capsys.readouterr().err


CAKE = {"question": "Three parts of four are left. How much?", "answer": "It is 3/4=<<3/4=3/4>>3/4.\n#### 3/4"}
EGGS = {"question": "16 eggs without 3?", "answer": "That is 16-3=<<16-3=13>>13.\n#### 13"}
HALF = {"question": "Half of 1,001?", "answer": "It is 1,001/2=<<1001/2=1001/2>>1001/2.\n#### 1,001/2"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("records", [[], [CAKE], [EGGS, CAKE, HALF]])
def test_files_of_any_number_of_problems_whose_numbers_may_be_fractions(tmp_path: Path, records: list[dict[str, str]]) -> None:
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k/test.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    answers = [{CAKE["question"]: 0.75, EGGS["question"]: 13.0, HALF["question"]: 500.5}[one["question"]] for one in records]
    assert [one.answer for one in react.problems(tmp_path)] == answers
    assert [float(one.answer) for one in arithmetic.problems(tmp_path).values()] == answers
    assert [request.result for request in route._sums(tmp_path)] == answers
    assert list(self_consistency.gold(tmp_path).values()) == [13 for one in records if one is EGGS], "whole numbers"
    for technique in (debate, task_queue):
        assert technique.rows(tmp_path)
    assert react.rows(tmp_path)[0].here.startswith(f"{len(records)}; ")


@pytest.mark.parametrize(("text", "value"), [("18", 18), (" $1,000.50", 1000.5), ("3/4", 0.75), ("-7", -7)])
def test_numbers_as_gsm8k_writes_them(text: str, value: float) -> None:
    assert calculator.as_number(text) == value
    for wrong in ("", "1/0", "a", "3/4/5"):
        with pytest.raises(ValueError):
            calculator.as_number(wrong)
