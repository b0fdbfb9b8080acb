from tally.cli import main


def test_report(book, capsys):
    assert main(["report", book]) == 0
    assert "cake" in capsys.readouterr().out


def test_add(book, capsys):
    assert main(["add", book, "2024-06-02", "cake", "1.10"]) == 0
    main(["report", book])
    assert "5.10" in capsys.readouterr().out


def test_a_missing_book_is_told(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none.csv")]) == 2
    assert "no such book" in capsys.readouterr().err
