"""The examples of seven trades, as a user runs them: checked, tested, run whole, killed and resumed, with exact results."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from patience import until
from trades import EXAMPLES, Trade


def whole_or_killed(calls: int) -> pytest.MarkDecorator:
    """Runs a test twice: the run goes through, and it is killed after so many calls and resumed."""
    return pytest.mark.parametrize("killed", [
        pytest.param(None, id="whole", marks=pytest.mark.one_in(10)),
        pytest.param(calls, id="killed", marks=pytest.mark.one_in(16))])


def rows(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV file, as a spreadsheet reads them."""
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


@pytest.mark.parametrize("sop", [
    pytest.param("repo_change/repo_change", marks=pytest.mark.slow), "debate_rows/debate_row", "town/talk", "book/book_chapter",
    *(pytest.param(name, marks=pytest.mark.one_in(20)) for name in (
        "invoice_audit/invoice_audit", "support_desk/support_desk", "support_desk/one_letter", "book/book",
        "debate_rows/debate_rows", "market_watch/market_watch", "town/town"))])
def test_its_own_tests_hold(tmp_path: Path, sop: str) -> None:
    name, _, stem = sop.partition("/")
    trade = Trade(name, tmp_path)
    trade.environment["FEED_KEY"] = "none"                   # of the market watch, whose fetching is given in its tests
    assert "FAIL" not in trade.sop("test", f"{stem}.yaml")


@pytest.mark.parametrize("name", ["invoice_audit", "support_desk", "book", "debate_rows", "repo_change", "market_watch", "town"])
def test_an_example_is_small_and_holds_nothing_that_was_made(name: str) -> None:
    held = [path for path in (EXAMPLES / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in held) < 200_000
    assert len((EXAMPLES / name / "README.md").read_text(encoding="utf-8").splitlines()) <= 40
    assert not {"FRICTIONS.md", "workspace", "state"} & {part for path in held for part in path.relative_to(EXAMPLES).parts}


# Invoices

INVOICES = ("invoice_audit.yaml", "--orders", "orders.csv", "--suppliers", "suppliers.csv")
DISPUTED = ["04-brightwater-reminder.txt", "06-office-plus.pdf", "06-office-plus.txt", "07-quickserve.txt", "14-nordlicht.txt",
            "post/11 Nordlicht März-Toner.pdf", "post/11 Nordlicht März-Toner.txt"]


@whole_or_killed(9)
def test_a_month_of_invoices_is_audited_and_the_next_month_knows_it(tmp_path: Path, killed: int | None) -> None:
    trade = Trade("invoice_audit", tmp_path)
    trade.run("may", *INVOICES, "--month", "2024-05", "--invoices", "may", function="office", killed=killed, ends=4)
    trade.sop("answer", "may", "1", "--yes")
    trade.sop("answer", "may", "2", "--no", "--reason", "80 toners were never ordered", "--resume")

    audit = trade.value("may", "audit")
    assert audit["sums"] == [
        {"currency": "CHF", "invoices": 1, "total": 1362.06, "accepted": 1362.06, "disputed": 0},
        {"currency": "EUR", "invoices": 6, "total": 14036.59, "accepted": 1674.33, "disputed": 12362.26},
        {"currency": "GBP", "invoices": 2, "total": 3480.0, "accepted": 1740.0, "disputed": 1740.0},
        {"currency": "USD", "invoices": 1, "total": 19700.0, "accepted": 19700.0, "disputed": 0}]
    assert [one["path"] for one in audit["by_hand"]] == [
        "08-fax.txt", "09-halden-smudged.txt", "12-scan-only.png", "13-halden-latin1.txt"]
    assert {one["path"]: one["approval"] for one in audit["rows"] if one["approval"]} == {
        "05-kestrel.txt": "approved", "post/11 Nordlicht März-Toner.txt": "refused: 80 toners were never ordered"}
    assert [(one["number"], one["stated"], one["right"]) for one in rows(trade.made("may", "corrections.csv"), ";")] == [
        ("88-2024-19", "419.00", "389.00"), ("NP-2024-0440", "270.66", "207.66"), ("NP-2024-0431", "80.00", "20.00")]
    files = trade.files("may")
    assert sorted(path.removeprefix("disputed/") for path in files if path.startswith("disputed/")) == DISPUTED
    for path in DISPUTED:
        assert files[f"disputed/{path}"] == (trade.folder / "may" / path).read_bytes()
    assert files["report.pdf"].startswith(b"%PDF") and b"NP-2024-0431" in files["report.html"]

    trade.run("june", *INVOICES, "--month", "2024-06", "--invoices", "june", function="office")
    (again,) = trade.value("june", "doubles")
    assert again["path"] == "02-nordlicht.txt" and "came in 2024-05 already" in again["finding"]["text"]
    assert trade.value("june", "audit")["compared"] == [{"month": "2024-05", "numbers": 10}]
    assert [one["month"] for one in trade.value("june", "ledger")] == ["2024-05"] * 10 + ["2024-06"] * 2


# Letters

LETTERS = ("support_desk.yaml", "--letters")


def sent(trade: Trade) -> dict[str, list[str]]:
    """Whom a mail went to, and what it said behind its greeting and before its signature."""
    mails: dict[str, list[str]] = {}
    for line in (trade.folder / "state" / "outbox.jsonl").read_text(encoding="utf-8").splitlines():
        mail = json.loads(line)
        mails.setdefault(mail["to"], []).append(mail["text"].split("\n\n")[1])
    return mails


@pytest.mark.slow
@whole_or_killed(10)
def test_letters_are_answered_paid_once_and_remembered(tmp_path: Path, killed: int | None) -> None:
    trade = Trade("support_desk", tmp_path)
    trade.run("monday", *LETTERS, "@letters/monday.json", function="desk", killed=killed, ends=4)
    assert "bernd.koch@example.de" in trade.sop("inbox", "monday") and "bernd.koch@example.de" in sent(trade)
    trade.sop("answer", "monday", "1", "--yes", "--reason", "they may choose", "--resume")
    mails = sent(trade)
    assert {name: len(texts) for name, texts in mails.items()} == {
        "ana.silva@example.pt": 2, "bernd.koch@example.de": 2, "chloe.martin@example.fr": 1, "dave.holt@example.com": 1,
        "emma.jones@example.co.uk": 2}
    assert mails["dave.holt@example.com"] == ["parcel P-74: in delivery, arrives on 2025-11-26."]       # and no list of customers
    assert {(one["letter"], one["receipt"], one["amount"]) for one in rows(trade.made("monday", "refunds.csv"))} == {
        ("L01", "R-1", "6.50"), ("L06", "R-2", "89.00")}
    assert {key: one["amount"] for key, one in json.loads((trade.folder / "state/refunds.json").read_text()).items()} == {
        "L01": 6.5, "L06": 89.0}
    assert "Refunds: 2, together 95.50 euros." in trade.made("monday", "report.md")

    monday = json.loads((trade.folder / "letters/monday.json").read_text(encoding="utf-8"))
    letters = {one["id"]: one["customer"] for one in monday}
    asked = [(re.split(r"[\[\]]", key)[1], prompt) for key, prompt in trade.asked("monday") if key.startswith("handle")]
    assert {one for one, _ in asked} == set(letters)
    assert not [one for one, prompt in asked if any(other in prompt for other in mails.keys() - {letters[one]})]

    trade.sop("memory", "add", "[ana.silva@example.pt]", "is allergic to nuts, never send samples")
    trade.sop("memory", "clear", "[emma.jones@example.co.uk]", "--yes")
    trade.run("tuesday", *LETTERS, "@letters/tuesday.json", function="desk")
    after = {name: texts[-1] for name, texts in sent(trade).items()}
    assert "never send samples" in after["ana.silva@example.pt"]
    assert after["bernd.koch@example.de"] == "the refund is on its way, receipt R-2."
    assert after["emma.jones@example.co.uk"] == "earlier letters: none that we know."


@pytest.mark.one_in(12, always=False)
def test_a_letter_that_fails_stops_no_other(tmp_path: Path) -> None:
    trade = Trade("support_desk", tmp_path)
    trade.run("odd", *LETTERS, "@letters/odd.json", function="desk", ends=1)
    report = trade.made("odd", "report.md")
    assert "4 letters; 3 answered" in report and "O02" in report.partition("## What went wrong")[2]
    assert sorted(path for path in trade.files("odd") if path.startswith("answers/")) == [
        "answers/O01.txt", "answers/O03.txt", "answers/O04.txt"]


# A book

BOOK = ("book.yaml", "--title", "Grinding by the Moon", "--subtitle", "Tide mills and their people", "--by", "A. Harbour",
        "--publisher", "Small Press", "--year", "2025", "--audience", "walkers on the coast", "--notes", "sample/notes",
        "--figures", "sample/figures", "--cover", "sample/cover.png", "--chapters", "6")


@whole_or_killed(14)
def test_a_book_is_made_and_one_edited_note_writes_one_chapter(tmp_path: Path, killed: int | None) -> None:
    trade = Trade("book", tmp_path)
    trade.run("moon", *BOOK, function="desk", killed=killed)
    assert json.loads(trade.sop("show", "moon", "--json"))["calls"] == 35
    files = trade.files("moon")
    book = files["book.md"].decode()
    assert book.count("\n# ") == 3 + 6 and "headpond" not in book.partition("# Glossary")[0].replace("also called headpond", "")
    assert files["open_points.md"].decode().endswith("Nothing is open.\n")
    assert files["book.pdf"].startswith(b"%PDF") and files["book.docx"].startswith(b"PK") and b"Small Press" in files["book.html"]
    with zipfile.ZipFile(io.BytesIO(files["book.epub"])) as epub:
        held = [epub.read(name) for name in epub.namelist() if name.endswith(".png")]
    assert sorted(held) == sorted(path.read_bytes() for path in (trade.folder / "sample").rglob("*.png"))
    terms = {one["term"]: one["chapters"] for one in trade.value("moon", "terms")}
    assert len(terms) == 15 and len(terms["mill pond"]) == 3
    assert list(trade.value("moon", "mended")) == ["three-mills-and-why-they-stopp"]

    if killed:
        note = trade.folder / "sample/notes/nendrum.md"
        note.write_text(note.read_text(encoding="utf-8").rstrip() + "\n\nOtters live there now.\n", encoding="utf-8")
        trade.sop("run", *BOOK, "--name", "moon_2", "--from", "moon", "--model", "python:held.py:held")
        first, second = trade.value("moon", "current"), trade.value("moon_2", "current")
        assert [key for key in second if second[key] != first[key]] == ["nendrum"]
        assert "Otters live there now." in trade.made("moon_2", "book.md")
        assert json.loads(trade.sop("show", "moon_2", "--json"))["calls"] < 10


# Claims

@pytest.mark.one_in(16)
@whole_or_killed(20)
def test_claims_get_labels_and_what_fails_is_listed(tmp_path: Path, killed: int | None) -> None:
    trade = Trade("debate_rows", tmp_path)
    table = (trade.folder / "claims.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    few = {"id", "c01", "c02", "c03", "c05", "c09", "c20", "c26", "c31", "c40"}      # not c14: a run waits half a minute for it
    (trade.folder / "few.csv").write_text("".join(line for line in table if line.partition(",")[0] in few), encoding="utf-8")
    words = ("debate_rows.yaml", "--claims", "few.csv", "--gold", "gold.csv")
    trade.run("one", *words, function="anyone", killed=killed, ends=4)
    trade.sop("answer", "one", "1", '{"c05": "false"}', "--resume")
    labels = {one["id"]: (one["label"], one["rounds"], one["decided_by"]) for one in rows(trade.made("one", "labels.csv"))}
    assert labels == {
        "c01": ("true", "1", "judge"), "c02": ("true", "3", "second judge"), "c03": ("undecided", "2", "judge"),
        "c05": ("false", "3", "person"), "c09": ("", "3", "nobody"), "c20": ("undecided", "1", "judge"),
        "c26": ("true", "1", "judge"), "c31": ("", "0", "nobody"), "c40": ("true", "1", "judge")}
    assert [(one["id"], one["where"]) for one in rows(trade.made("one", "failed.csv"))] == [("c31", "debate")]
    score = trade.value("one", "score")
    assert (score["rows"], score["scored"], score["right"], score["accuracy"]) == (9, 7, 6, 0.8571)
    assert {one["who"]: (one["rows"], one["right"]) for one in score["by"]} == {
        "judge": (5, 5), "second judge": (1, 0), "person": (1, 1), "nobody": (2, 0)}
    assert trade.made("one", "disputed.md").count("\n## ") == 3
    asked = trade.asked("one")
    assert sum("[c31]" not in key for key, _ in asked) == 53        # c31 fails while its other debater may still be asked
    assert not [key for key, prompt in asked if "annotators agreed" in prompt]      # words of the gold file


# A repository

QUICK = ("--test_command", "env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q -p no:cacheprovider")
CHANGE = ("repo_change.yaml", "--repo", "sample/tally", *QUICK, "--request")


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def a_change(tmp_path: Path, request: str, killed: int | None) -> tuple[Trade, dict[str, bytes]]:
    """A change that a person approves; the patch leads from the repository to it, and what is secret stayed at home."""
    trade = Trade("repo_change", tmp_path)
    repository = trade.folder / "sample/tally"
    before = tree(repository)
    (repository / ".env").write_text("TALLY_UPLOAD_KEY=till-7731-do-not-share\n")
    (repository / "build").mkdir()
    (repository / "build/tally.tar").write_bytes(b"built")
    trade.run("json", *CHANGE, f"@sample/requests/{request}", function="desk", killed=killed, ends=4)
    trade.sop("answer", "json", "--yes", "--resume")
    assert trade.value("json", "outcome") == {"accepted": True, "why": "approved"}
    assert trade.holds("till-7731") == []
    assert tree(repository) == before | {".env": b"TALLY_UPLOAD_KEY=till-7731-do-not-share\n", "build/tally.tar": b"built"}
    after = {path: held for path, held in trade.files("json").items() if not path.startswith("=change/")}
    patched = tmp_path / "patched"
    shutil.copytree(EXAMPLES / "repo_change/sample/tally", patched, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    patch = trade.folder / "workspace/json/=change/change.patch"
    alone = {"PATH": trade.environment["PATH"], "GIT_DIR": os.devnull}           # no repository around it
    subprocess.run(["git", "apply", str(patch)], cwd=patched, check=True, env=alone)
    assert tree(patched) == after
    return trade, {path: held for path, held in after.items() if before.get(path) != held}


@pytest.mark.one_in(8)
def test_a_bug_is_mended_and_the_patch_applies(tmp_path: Path) -> None:
    trade, changed = a_change(tmp_path, "line_number.txt", None)
    assert sorted(changed) == ["src/tally/store.py", "tests/test_store.py"]
    assert trade.made("json", "=change/test_report.md").startswith("# Tests\n\n10 of 10 pass")


@pytest.mark.parametrize("killed", [pytest.param(None, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.one_in(8))],
                         ids=["whole", "killed"])
def test_a_feature_is_mended_once_revised_once_and_the_patch_applies(tmp_path: Path, killed: int | None) -> None:
    trade, changed = a_change(tmp_path, "json_option.txt", killed)
    assert sorted(changed) == ["CHANGELOG.md", "docs/usage.md", "src/tally/cli.py", "src/tally/layout.py", "src/tally/report.py",
                               "tests/test_json.py"]
    assert not {"src/tally/util.py", "src/tally/old_export.py"} & set(trade.files("json"))
    shown = json.loads(trade.sop("show", "json", "--json"))
    assert shown["calls"] == 12 and shown["artifacts"]["tests"]["version"] == 3


# A market

KEY = "wholesale-77f3-kestrel-0192"


def answers(port: int) -> bool:
    with socket.socket() as trying:
        return not trying.connect_ex(("127.0.0.1", port))


@pytest.fixture
def market(tmp_path: Path) -> Iterator[tuple[Trade, int]]:
    """The example with its shops and its feed at free ports."""
    trade = Trade("market_watch", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"8771": str(one.getsockname()[1]), "8772": str(other.getsockname()[1])}
    for name in ("shops.py", "market_watch.yaml"):
        file = trade.folder / name
        text = file.read_text(encoding="utf-8")
        for port, free in ports.items():
            text = text.replace(port, free)
        file.write_text(text, encoding="utf-8")
    trade.environment["FEED_KEY"] = KEY
    world = subprocess.Popen([sys.executable, "shops.py", "1"], cwd=trade.folder)
    try:
        for port in ports.values():
            until(lambda port=port: answers(int(port)), "a shop that answers")
        yield trade, int(ports["8771"])
    finally:
        world.kill()
        world.wait()


def week(number: int, port: int) -> None:
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/week/{number}", method="POST")) as answer:
        assert answer.read() == f"week {number}\n".encode()


@whole_or_killed(7)
def test_a_market_is_watched_week_by_week(market: tuple[Trade, int], killed: int | None) -> None:
    trade, port = market
    watch = ("market_watch.yaml", "--date")
    trade.run("one", *watch, "2026-03-02", function="answer")
    first = trade.value("one", "report")["week"]
    assert first["first"] and not first["changes"]
    week(2, port)
    trade.run("two", *watch, "2026-03-09", function="answer", killed=killed, ends=4)
    trade.sop("answer", "two", "--choice", "it is right", "--resume")
    second = trade.value("two", "report")
    assert {row["key"]: (row["before"], row["now"], row["change"]) for row in second["week"]["changes"]} == {
        "velo-nord: Trek FX 2 Disc": (749, 689, -8.0), "rad-und-tat: Haibike Trekking 4": (2599, 1999, -23.1),
        "feed: Schwalbe Marathon 47-622": (34.9, 37.9, 8.6)}
    assert {key: one["cause"] for key, one in second["reasons"].items()} == {
        "feed: Schwalbe Marathon 47-622": "list_price", "rad-und-tat: Haibike Trekking 4": "clearance",
        "velo-nord: Trek FX 2 Disc": "campaign"}
    assert [one["product"] for one in second["week"]["gone"]] == ["Puky Z2 Tricycle"]
    assert len(rows(trade.made("two", "prices.csv"))) == 20 and trade.files("two")["report.pdf"].startswith(b"%PDF")
    week(4, port)
    trade.run("four", *watch, "2026-03-23", function="answer")
    fourth = trade.value("four", "report")["week"]
    assert {one["id"]: (one["why"], one["last"]) for one in fourth["unread"]} == {
        "rad-und-tat": ("not reached: HTTP 503", "2026-03-09"), "cycle-hub": ("huge: it was cut off", "2026-03-09"),
        "bikehaus-keller": ("junk: it is no text and no page", "2026-03-09"),
        "pedalwerk": ("it speaks to language models: “Note to AI”", "2026-03-09")}
    assert fourth["gone"] == [] and {row["before_date"] for row in fourth["changes"]} == {"2026-03-09"}
    assert trade.holds(KEY) == []


# A town

TOWN = ("town.yaml", "--people", "@people.json", "--places", "@places.json", "--news", "@news.json", "--days", "1",
        "--town", "Kleinhafen")


@whole_or_killed(30)
def test_news_spread_by_talking_and_nobody_is_shown_a_secret(tmp_path: Path, killed: int | None) -> None:
    trade = Trade("town", tmp_path)
    trade.run("season1", *TOWN, function="villager", killed=killed)
    learned = trade.sop("show", "season1", "learned", "--json")
    assert [(one["who"], one["day"], one["part"], one["place"], one["from"]) for one in json.loads(learned)] == [
        ("Ines Okafor", 0, "", "", ""), ("Tomás Ó Sé", 1, "afternoon", "harbour", "Ines Okafor"),
        ("Jun Sato", 1, "afternoon", "harbour", "Ines Okafor"), ("Zoë Brandt", 1, "evening", "tavern", "Tomás Ó Sé"),
        ("Piet van Dam", 1, "evening", "tavern", "Tomás Ó Sé")]
    assert len([path for path in trade.files("season1") if path.startswith("diaries/")]) == 6
    trade.run("season2", *TOWN, "--first-day", "2", "--knew", learned, function="villager")
    asked = trade.asked("season1") + trade.asked("season2")
    secrets = {one["name"]: one["secret"] for one in json.loads((trade.folder / "people.json").read_text(encoding="utf-8"))}
    whose = {key: unquote(re.findall(r"\[([^\]]*)\]", key)[-1]) for key, _ in asked}
    assert not [key for key, prompt in asked if any(secrets[name] in prompt for name in secrets.keys() - {whose[key]})]
    morning = {whose[key]: "midsummer party" in prompt for key, prompt in trade.asked("season2") if key.startswith("plan@1")}
    assert morning == {name: name != "Old Marga" for name in secrets}            # who heard of it yesterday remembers it
