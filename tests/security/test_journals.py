"""Every case of `journals.yaml`: a journal that somebody else made is shown or refused by every command, and does nothing."""

from __future__ import annotations

import asyncio
import json
import pickle
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiers
from patience import PATIENCE
from scripted import write

from metaflow_agents import run
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.schema.model import digest
from metaflow_agents.sop.load import load_sop
from security.path_scenes import SECRET, cli

TABLE: list[dict[str, Any]] = tiers.table(Path(__file__).with_name("journals.yaml"))
SOP = """
sop: honest
inputs: {topic: string}
roles: {a: {profile: x}}
artifacts: {first: {schema: {said: string}}, files: {files: "s/**", initial: {"s/a.md": "x"}}, last: {}}
steps:
  one: {role: a, needs: [topic], makes: first}
  ask: {human: text, needs: [first], sees: [files], makes: last, task: "Well?"}
"""
COMMANDS = ("show r", "show r --json", "show r first", "show r files", "log r", "log r --full", "log r --json", "log r --audit",
            "runs", "runs --json", "diff r other", "inbox", "inbox r", "history r",
            "export r --recording out.jsonl --answered-by x", "fork r --name f", "answer r 1 yes", "resume r",
            "run desk.yaml --topic x --model dry --from r --name again")


class Bomb:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("pwned"),)


class Db:
    """The journal of a run, to be changed behind its back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "workspace" / ".journals" / "r.db"
        self.sql = sqlite3.connect(self.path)

    def event(self, kind: str, nth: int = -1) -> tuple[int, dict[str, Any]]:
        rows = self.sql.execute("SELECT seq, data FROM events WHERE kind = ? ORDER BY seq", (kind,)).fetchall()
        return rows[nth][0], json.loads(rows[nth][1])

    def put(self, seq: int, data: Any) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        self.sql.execute("UPDATE events SET data = ? WHERE seq = ?", (text, seq))

    def blob(self, data: bytes, name: str | None = None, *, packed: bool = False) -> str:
        name = name or digest(data)
        self.sql.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?)", (name, packed, zlib.compress(data) if packed else data))
        return name

    def value(self, data: bytes) -> None:
        """Another payload for the artifact that the first step made."""
        name = self.blob(data)
        for kind in ("finished", "committed"):
            seq, event = self.event(kind)
            text = json.dumps(event)
            old = event["payload"] if kind == "finished" else event["versions"][0]["payload"]
            self.put(seq, text.replace(old, name))

    def opened(self, **changes: Any) -> None:
        seq, event = self.event("run_opened")
        self.put(seq, {**event, **changes})


Change = Callable[[Db], None]
CHANGES: dict[str, Change] = {}


def change(function: Change) -> Change:
    CHANGES[function.__name__.rstrip("_")] = function
    return function


@change
def pickle_(db: Db) -> None:
    db.value(pickle.dumps(Bomb()))


@change
def constructor(db: Db) -> None:
    said = {"py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["touch pwned"]}],
            "!!python/object/apply:os.system": ["touch pwned"]}
    db.value(json.dumps({"kind": "data", "value": {"said": json.dumps(said)}}).encode())


@change
def other_bytes(db: Db) -> None:
    db.blob(b'{"kind":"data","value":{"said":"other"}}', db.event("finished")[1]["payload"])


@change
def missing(db: Db) -> None:
    db.sql.execute("DELETE FROM blobs WHERE digest = ?", (db.event("finished")[1]["payload"],))


@change
def bomb(db: Db) -> None:
    packing = zlib.compressobj()
    first = packing.compress(bytes(1 << 24)) + packing.flush(zlib.Z_FULL_FLUSH)
    data = first + (packing.compress(bytes(1 << 24)) + packing.flush(zlib.Z_FULL_FLUSH)) * 200      # 3.4 GB
    db.sql.execute("UPDATE blobs SET packed = 1, data = ? WHERE digest = ?", (data, db.event("finished")[1]["payload"]))


def differs(db: Db, size: int, source: str, *copies: tuple[int, int]) -> None:
    """In place of the first artifact's value: a text put together from copies (offset, length) of one other blob."""
    numbers = [0, size, 1], [len(copies), *(number for copy in copies for number in (1, *copy)), 0]
    first, last = (b"".join(map(number, each)) for each in numbers)
    db.sql.execute("UPDATE blobs SET packed = 2, data = ? WHERE digest = ?",
                   (first + bytes.fromhex(source[:32]) + last, db.event("finished")[1]["payload"]))


def number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


@change
def endless(db: Db) -> None:
    differs(db, 1000, db.event("finished")[1]["payload"], (0, 1000))


@change
def copies(db: Db) -> None:
    large = db.blob(bytes(1 << 20), packed=True)
    differs(db, 1 << 33, large, *[(0, 1 << 20)] * (1 << 13))


@change
def deep_blob(db: Db) -> None:
    db.value(b'{"kind":"data","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@change
def long_number(db: Db) -> None:
    db.value(b'{"kind":"data","value":' + b"9" * 1_000_000 + b"}")


@change
def deep_event(db: Db) -> None:
    db.put(db.event("finished")[0], '{"activation": ' + "[" * 100_000 + "]" * 100_000 + "}")


@change
def unknown_kind(db: Db) -> None:
    db.sql.execute("UPDATE events SET kind = 'os.system' WHERE seq = ?", (db.event("finished")[0],))


@change
def unknown_field(db: Db) -> None:
    seq, event = db.event("finished")
    db.put(seq, {**event, "__class__": "os.system", "call": "touch pwned"})


@change
def odd_times(db: Db) -> None:
    db.opened(at=-1e300)
    seq, event = db.event("run_ended")
    db.put(seq, {**event, "at": 1e300})


@change
def terminal(db: Db) -> None:
    seq, event = db.event("run_ended")
    db.put(seq, {**event, "reason": "\x1b]0;pwned\x07\x1b[2J", "never": {"\x1b[2Ja": "\x1b[2J"}})


@change
def odd_keys(db: Db) -> None:
    seq, event = db.event("finished")
    db.put(seq, {**event, "activation": "../../../etc/passwd"})


@change
def outside_files(db: Db) -> None:
    data = db.blob(b"pwned")
    files = {"../../pwned": data, "/tmp/pwned-by-a-journal": data}
    name = db.blob(json.dumps({"kind": "files", "patterns": ["**"], "files": files}).encode())
    for seq, text in db.sql.execute("SELECT seq, data FROM events WHERE kind = 'committed'").fetchall():
        event = json.loads(text)
        for version in event.get("versions", []):
            if version["artifact"] == "files":
                version["payload"] = name
        db.put(seq, event)


@change
def reused_from(db: Db) -> None:
    db.opened(reused_from="../../outside/secret")


def recompiled(db: Db, run: list[str]) -> str:
    with RawJournal(db.path) as journal:
        program = json.loads(journal.blob(db.event("run_opened")[1]["compiled"]))
    step = {"run": run, "needs": program["sop"]["steps"]["ask"]["needs"], "makes": {"artifact": "last"}}
    program["sop"]["steps"]["ask"] = step
    program["sop"]["artifacts"]["last"] = {}
    return db.blob(json.dumps(program).encode())


def without_question(db: Db) -> None:
    """Before the person was asked: the step is still to be fired."""
    seq = min(db.event("fired")[0], db.event("asked")[0])
    db.sql.execute("DELETE FROM events WHERE seq >= ?", (seq,))


@change
def other_program(db: Db) -> None:
    without_question(db)
    db.opened(compiled=recompiled(db, ["touch", str(db.folder / "pwned")]), sandbox="none")


@change
def unconfined(db: Db) -> None:
    without_question(db)
    db.opened(compiled=recompiled(db, ["touch", str(db.folder / "pwned")]), sandbox="none", location=str(db.folder / "gone.yaml"))


def commanding(file: Path, argv: list[str]) -> Path:
    """The SOP with a command in place of its question."""
    steps = SOP.replace('{human: text, needs: [first], sees: [files], makes: last, task: "Well?"}',
                        f"{{run: {json.dumps(argv)}, needs: [first], makes: last}}")
    file.write_text(steps + "success: last.ok\n")
    return file


def theirs(db: Db, file: Path) -> dict[str, Any]:
    """What an event says of a SOP that lies there."""
    program = load_sop(file).program
    return {"compiled": db.blob(program.stored()), "sop": program.fingerprint, "sandbox": "none", "location": str(file)}


@change
def unconfined_beside(db: Db) -> None:
    without_question(db)
    db.opened(**theirs(db, commanding(db.folder / "hidden.yaml", ["touch", str(db.folder / "pwned")])))


@change
def unconfined_answered(db: Db) -> None:
    file = db.folder / "hidden.yaml"
    file.write_text(SOP.replace("last: {}}", "last: {}, more: {}}")
                    + f"  then: {{run: [touch, {db.folder}/pwned], needs: [last], makes: more}}\nsuccess: more.ok\n")
    db.opened(**theirs(db, file))


def begun_here(db: Db) -> Path:
    """In the run's place one of mine, unconfined as I said, up to its command. Returns its SOP."""
    file = commanding(db.folder / "mine.yaml", ["true"])
    words = f"run {file} --topic x --model python:model.py:answer --name r --workspace mine --sandbox none --until one"
    status, said = cli(*words.split())
    assert status == 0, said
    mine = sqlite3.connect(db.folder / "mine" / ".journals" / "r.db")
    mine.backup(db.sql)
    mine.close()
    return file


@change
def unconfined_same_name(db: Db) -> None:
    begun_here(db)
    db.opened(**theirs(db, commanding(db.folder / "hidden.yaml", ["touch", str(db.folder / "pwned")])))


@change
def unconfined_altered(db: Db) -> None:
    begun_here(db).unlink()                     # else what changed since is told
    said = theirs(db, commanding(db.folder / "hidden.yaml", ["touch", str(db.folder / "pwned")]))
    at = db.event("run_ended")[1]["at"] + 1
    db.sql.execute("INSERT INTO events (seq, kind, data) SELECT max(seq) + 1, 'resumed', ? FROM events",
                   (json.dumps({"at": at, "sources": {}, **said}),))


@change
def garbage_program(db: Db) -> None:
    db.opened(compiled=db.blob(b'{"sop": {"py/object": "os.system"}}'))


@change
def trigger(db: Db) -> None:
    db.sql.executescript("""
        CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END;
        ALTER TABLE blobs RENAME TO kept;
        CREATE VIEW blobs AS SELECT digest, packed, load_extension('/tmp/evil.so') AS data FROM kept;
    """)


@change
def other_database(db: Db) -> None:
    db.sql.execute("PRAGMA application_id = 7")


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Db:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.db").write_text(SECRET)
    (tmp_path / "model.py").write_text("def answer(request):\n    return {'said': 'hello'}\n")
    sop = write(tmp_path, SOP)
    for name in ("r", "other"):
        result = asyncio.run(run(sop, topic="x", model="python:model.py:answer", name=name, workspace=tmp_path / "workspace"))
        assert result.outcome == "waiting", result.reason
    return Db(tmp_path)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in TABLE])
def test_a_strangers_journal_does_nothing(row: dict[str, Any], db: Db) -> None:
    CHANGES[row["change"]](db)
    db.sql.commit()
    db.sql.close()
    kept = db.path.read_bytes()
    refused = 0
    for line in COMMANDS:
        if line.startswith("run"):
            db.path.write_bytes(kept)           # as the stranger made it, whatever was done with it since
        begun = time.process_time()
        status, said = cli(*line.split())
        assert time.process_time() - begun < PATIENCE, line
        assert status in (0, 1, 2, 3, 4, 5), (line, status, said)
        assert "Traceback" not in said and len(said) < 3_000_000, (line, said[-2000:])
        assert SECRET not in said
        refused += status not in (0, 4) and not line.startswith(("answer", "diff"))
        assert status == 0 or said.strip(), f"{line}: {status} without a word"
    assert bool(refused) == (row["expected"] == "told")
    assert not list(db.folder.rglob("pwned*")) and not Path("/tmp/pwned-by-a-journal").exists()
    assert (db.folder / "outside" / "secret.db").read_text() == SECRET
    assert "pickle" in sys.modules, "it is there, and nobody asked it"


def test_the_table_is_whole() -> None:
    assert {row["change"] for row in TABLE} == set(CHANGES)
    assert len(TABLE) == len({row["id"] for row in TABLE}) and all(row["owasp"] and row["what"] for row in TABLE)
