"""The stockroom: a real MCP server, a real web service, a person who is asked once, and a process that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metaflow_agents.journal.run_summary import RawJournal

EXAMPLE = Path(__file__).parent.parent / "examples" / "stockroom"
SOP = Path(sys.executable).with_name("sop")


RUN = ("run", "stockroom.yaml", "--order", "3 x kettle to Lisbon", "--model", "python:desk.py:clerk", "--name", "kettles")
HOLD = """\
        import os, time
        while os.path.exists("hold"):           # it is booked, and who booked it does not hear of it
            time.sleep(0.02)
"""


@pytest.fixture
def stockroom(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The example on a port of its own, its carrier running."""
    folder = tmp_path / "stockroom"
    shutil.copytree(EXAMPLE, folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in ("carrier.py", "carrier.openapi.yaml"):
        file = folder / name
        booking = "        self.answer(201,"
        file.write_text(file.read_text().replace("8799", str(port)).replace(booking, HOLD + booking))
    environment = {**os.environ, "CARRIER_KEY": "let-me-ship-9174", "PATH": f"{SOP.parent}:{os.environ['PATH']}"}
    with (folder / "carrier.log").open("w") as log:
        carrier = subprocess.Popen([sys.executable, "carrier.py"], cwd=folder, stdout=log)
    try:
        for _ in range(200):
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield folder, environment
    finally:
        carrier.terminate()
        carrier.wait()


def sop(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SOP), *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)


def done(journal: Path) -> list[str]:
    """The tools whose calls are over."""
    if not journal.is_file():
        return []
    with RawJournal(journal) as opened:
        over = [event["key"] for _, event in opened.events("done")]              # first: more may be written meanwhile
        tools = {event["key"]: event["tool"] for _, event in opened.events("intended")}
        return [tools[key] for key in over]


def killed(folder: Path, environment: dict[str, str], here: Callable[[], bool], *words: str) -> None:
    """A command that is killed where it has come so far."""
    running = subprocess.Popen([str(SOP), *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    try:
        while not here() and running.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        came = here()
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert came


@pytest.mark.slow
def test_it_is_killed_asks_once_and_ends_well(stockroom: tuple[Path, dict[str, str]]) -> None:
    folder, environment = stockroom
    journal = folder / "workspace" / ".journals" / "kettles.db"
    killed(folder, environment, lambda: "ledger.reserve" in done(journal), *RUN)
    assert done(journal).count("ledger.reserve") == 1 and "carrier.book_shipment" not in done(journal)

    parked = sop(folder, environment, "resume", "kettles")
    assert parked.returncode == 4, parked.stdout + parked.stderr
    asked = json.loads(sop(folder, environment, "inbox", "--json").stdout)
    assert len(asked) == 1 and "carrier.book_shipment" in json.dumps(asked)
    assert (folder / "carrier.log").read_text() == ""
    assert sop(folder, environment, "answer", "kettles", "--yes").returncode == 0
    ended = sop(folder, environment, "resume", "kettles")
    assert ended.returncode == 0, ended.stdout + ended.stderr

    receipt = json.loads((folder / "workspace" / "kettles" / "receipt.json").read_text())
    assert receipt == {"item": "kettle", "quantity": 3, "to": "Lisbon", "reservation": "R-1", "shipment": "S-1", "price": 13.5}
    assert json.loads((folder / "books.json").read_text()) == {"stock": {"kettle": 2, "teapot": 1}, "reserved": [["kettle", 3]]}
    assert (folder / "carrier.log").read_text().count("booked") == 1
    audit = sop(folder, environment, "log", "kettles", "--audit")
    assert audit.returncode == 0 and "they are as they were written" in audit.stdout
    assert not [file for file in (folder / "workspace").rglob("*") if file.is_file() and b"let-me-ship" in file.read_bytes()]


@pytest.mark.one_in(16, always=False)
def test_killed_while_it_books_it_asks_whether_that_has_happened(stockroom: tuple[Path, dict[str, str]]) -> None:
    folder, environment = stockroom
    (folder / "desk.py").write_text((folder / "desk.py").read_text().replace("SECONDS = 1.0", "SECONDS = 0.0"))
    (folder / "hold").touch()
    assert sop(folder, environment, *RUN).returncode == 4
    assert sop(folder, environment, "answer", "kettles", "--yes").returncode == 0
    killed(folder, environment, lambda: "booked" in (folder / "carrier.log").read_text(), "resume", "kettles")
    (folder / "hold").unlink()

    again = sop(folder, environment, "resume", "kettles")
    assert again.returncode == 4, again.stdout + again.stderr
    (asked,) = json.loads(sop(folder, environment, "inbox", "--json").stdout)
    assert asked["kind"] == "effect" and "carrier.book_shipment" in json.dumps(asked)
    assert sop(folder, environment, "answer", "kettles", "--yes", "--reason", "the carrier has it as S-1").returncode == 0
    ended = sop(folder, environment, "resume", "kettles")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (folder / "carrier.log").read_text().count("booked") == 1
    assert json.loads((folder / "workspace" / "kettles" / "receipt.json").read_text())["shipment"] == "S-1"


@pytest.mark.one_in(6)
def test_staged_books_nothing(stockroom: tuple[Path, dict[str, str]]) -> None:
    folder, environment = stockroom
    told = sop(folder, environment, "run", "stockroom.yaml", "--order", "1 x teapot to Oslo", "--dry-tools", "--model",
               "python:desk.py:clerk")
    assert told.returncode == 0, told.stdout + told.stderr
    looked_up, _, listed = told.stdout.partition("staged: nothing of this was done:")
    assert "mcp(ledger.stock)" in looked_up.partition("staged: looked up")[2]
    assert all(action in listed for action in ("mcp(ledger.reserve)", "api(carrier.book_shipment)"))
    assert (folder / "carrier.log").read_text() == "" and not (folder / "books.json").exists()


def asked(folder: Path, environment: dict[str, str], order: str, *answer: str) -> subprocess.CompletedProcess[str]:
    """A run that is asked about its booking, answered, and gone on with."""
    parked = sop(folder, environment, "run", "stockroom.yaml", "--order", order, "--model", "python:desk.py:clerk", "--name",
                 "one")
    assert parked.returncode == 4, parked.stdout + parked.stderr
    answered = sop(folder, environment, "answer", "one", *answer)
    assert answered.returncode == 0, answered.stderr
    return sop(folder, environment, "resume", "one")


@pytest.mark.one_in(8)
def test_arguments_that_a_person_changed_are_carried_out_and_told(stockroom: tuple[Path, dict[str, str]]) -> None:
    folder, environment = stockroom
    changed = {"body": {"city": "Porto", "pieces": 1, "reservation": "R-1"}}
    ended = asked(folder, environment, "1 x teapot to Lisbon", "--yes", "--arguments", json.dumps(changed))
    assert ended.returncode == 0 and json.loads((folder / "carrier.log").read_text().removeprefix("booked ")) == changed["body"]
    audit = sop(folder, environment, "log", "one", "--audit").stdout
    assert f"with {json.dumps(changed)} instead" in audit and '"city": "Lisbon"' in audit
    assert f"yes, with {json.dumps(changed)} instead" in sop(folder, environment, "log", "one").stdout


@pytest.mark.one_in(12, always=False)
def test_what_is_refused_is_no_success_and_the_clerk_hears_why(stockroom: tuple[Path, dict[str, str]]) -> None:
    folder, environment = stockroom
    ended = asked(folder, environment, "1 x teapot to Lisbon", "--no", "--reason", "too dear")
    assert ended.returncode == 1 and "did not allow `api(carrier.book_shipment)`: too dear" in ended.stdout
    assert json.loads((folder / "workspace" / "one" / "receipt.json").read_text())["shipment"] == ""
    assert (folder / "carrier.log").read_text() == ""


@pytest.mark.one_in(12, always=False)
def test_what_is_not_there_is_not_booked(stockroom: tuple[Path, dict[str, str]]) -> None:
    folder, environment = stockroom
    ended = sop(folder, environment, "run", "stockroom.yaml", "--order", "2 x teapot to Oslo", "--model", "python:desk.py:clerk")
    assert ended.returncode == 1 and "there are only 1 of teapot" in ended.stdout, ended.stdout + ended.stderr
    assert "asks a person" not in ended.stdout and (folder / "carrier.log").read_text() == ""
