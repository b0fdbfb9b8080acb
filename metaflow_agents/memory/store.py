"""The project's memory file: what roles remember beyond a run, in SQLite, with a full-text index over it.

Format 2: `memories`, one row each, numbered in the order in which they were stored (`apart`: its run's alone);
`words`, their FTS5 index (BM25); `vectors`, embeddings, numbered, by what they are of; `forgotten`, the keys that no run may
bring back. Format 1 had no `apart`. Every change is one synced transaction in WAL mode:
a process that is killed in the middle leaves all of it or nothing, and
several processes write at once, one after the other. A memory is stored under a key of its own, and storing it again changes
nothing, so that a run may hand over what it is not sure to have handed over.
BM25 of what a role recalls is counted here over what the scope sees: that of FTS5's `bm25()` counts words in the whole file, so
that what a role recalls would hang on what others remember.
Source: https://www.sqlite.org/fts5.html (its `bm25()`, `fts5vocab`, the table `docsize`), https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from metaflow_agents.errors import MemoryFault
from metaflow_agents.journal.private import make_folder, make_private, tighten
from metaflow_agents.memory.layout import APPLICATION_ID, FORMAT, FROM_1, SCHEMA
from metaflow_agents.memory.lookups import TABLES, Lookups
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.seen import Seen
from metaflow_agents.schema.model import digest

PLACE = Path(".memory") / "project.db"
EMBEDDED = 2000                     # characters of a memory that are embedded: about as many as an embedder takes
_WAIT = 30.0                        # seconds for another process to finish its write
_WORDS = re.compile(r"\w+")
_MOST_WORDS = 48                    # of a query: each costs a walk over all memories that hold it
_COLUMNS = "seq, key, kind, run, name, role, activation, at, text, importance, untrusted, cites, apart"

Kind = Literal["turn", "reflection", "lesson", "note", "pin"]
KINDS: tuple[Kind, ...] = ("turn", "reflection", "lesson", "note", "pin")


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """One thing that a role remembers.

    `run` tells runs apart for good, `name` is what the run is called. `importance` is 1 to 10; None: nobody rated it.
    `cites`: keys of the memories that a reflection rests on. `seq` is its number in the file, rising as they are stored.
    `apart`: it is its run's alone, and no other run sees it.
    """

    key: str
    kind: Kind
    run: str
    name: str
    role: str
    activation: str
    at: float
    text: str
    importance: int | None = None
    untrusted: str = ""
    cites: tuple[str, ...] = ()
    seq: int = 0
    apart: bool = False

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"key": self.key, "kind": self.kind, "run": self.name, "role": self.role, "activation": self.activation,
                "at": self.at, "text": self.text, "importance": self.importance, "untrusted": self.untrusted,
                "cites": list(self.cites), "over": "run" if self.apart else "runs"}


@dataclass(frozen=True, slots=True)
class Known:
    """How the file stood. While `age` is the same object nothing was removed and nobody else wrote: what is new has a number
    above `last`.
    """

    age: object
    last: int


class MemoryDatabase:
    """The file; None: in memory, for a run that has no workspace. Its methods may be called from any thread.

    Every error of SQLite comes out as MemoryFault that says what to do.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self._lock = path, RLock()
        try:
            if path is not None:
                make_folder(path.parent)
                with suppress(FileExistsError):
                    make_private(path)
                tighten(path)
            self._db = sqlite3.connect(path or ":memory:", timeout=_WAIT, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise MemoryFault(f"can't open the memory file {path}: {error}; make its folder writable, with free space") from error
        try:
            with self._translated("open"):
                self._lay_down()
            self._lookups = Lookups(self._db)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Lets go of the file."""
        with self._lock:
            self._db.close()

    def keep(self, memories: Sequence[StoredMemory]) -> int:
        """Stores those that are not there and were not forgotten, all at once or none: how many these were."""
        rows = [(one.key, one.kind, one.run, one.name, one.role, one.activation, one.at, one.text, _digest(one.text),
                 one.importance, one.untrusted, json.dumps(one.cites), one.apart) for one in memories]
        with self._writing():
            kept = 0
            for row in rows:
                done = self._db.execute(
                    "INSERT INTO memories(key, kind, run, name, role, activation, at, text, digest, importance, untrusted, cites,"
                    " apart) SELECT ?,?,?,?,?,?,?,?,?,?,?,?,? WHERE NOT EXISTS (SELECT 1 FROM forgotten WHERE key = ?)"
                    " ON CONFLICT(key) DO NOTHING", (*row, row[0]))
                kept += done.rowcount
        return kept

    def note(self, memory: StoredMemory) -> bool:
        """Stores what a person lays down, also where it was forgotten before: whether it was not there. A note that is there
        becomes a pin where it is laid down as one, and stays a pin where it is not.
        """
        with self._writing():
            self._db.execute("DELETE FROM forgotten WHERE key = ?", (memory.key,))
            pinned = memory.kind == "pin" and self._db.execute(
                "UPDATE memories SET kind = 'pin' WHERE key = ? AND kind = 'note'", (memory.key,)).rowcount == 1
        return self.keep([memory]) == 1 or pinned

    def pins(self, owner: str) -> list[StoredMemory]:
        """What a person pinned for an owner, oldest first."""
        return [_memory(row) for row in self._rows(
            f"SELECT {_COLUMNS} FROM memories WHERE role = ? AND kind = 'pin' ORDER BY seq", (owner,))]

    def owners(self) -> dict[str, int]:
        """Everybody who remembers something, by name, and how much."""
        return dict(self._rows("SELECT role, count(*) FROM memories GROUP BY role ORDER BY role"))

    def forget(self, *, keys: Sequence[str] | None = None, role: str | None = None, run: str | None = None) -> int:
        """Removes what all given conditions hold for, its embeddings too, and lets no run bring it back: how many these were."""
        conditions, given = self._conditions(role, run, None)
        if keys is not None:
            conditions.append("key IN (SELECT value FROM json_each(?))")
            given.append(json.dumps(list(keys)))
        where = " AND ".join(conditions) or "1"
        with self._writing():
            self._db.execute(f"INSERT OR IGNORE INTO forgotten SELECT key FROM memories WHERE {where}", given)
            gone = self._db.execute(f"DELETE FROM memories WHERE {where}", given).rowcount
            self._db.execute("DELETE FROM vectors WHERE digest NOT IN (SELECT digest FROM memories)")
            self._db.execute("INSERT INTO words(words) VALUES ('optimize')")   # what the index has not cleared yet is cleared
            self._lookups.clear()
        return gone

    def numbers(self, keys: Sequence[str]) -> dict[str, int]:
        """Key → number, of those that are there."""
        return {key: seq for key, seq in self._rows(
            "SELECT key, seq FROM memories WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),))}

    def read(self, numbers: Sequence[int]) -> dict[int, StoredMemory]:
        """Memories by number."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM memories WHERE seq IN (SELECT value FROM json_each(?))",
                          (json.dumps(list(numbers)),))
        return {memory.seq: memory for memory in map(_memory, rows)}

    def listed(self, *, role: str | None = None, run: str | None = None, kind: str | None = None,
               limit: int | None = None, owners: Sequence[str] | None = None) -> list[StoredMemory]:
        """The newest that the conditions hold for, oldest first. A role's characters count as it, `owners` are named exactly."""
        conditions, given = self._conditions(role, run, kind)
        if owners is not None:
            conditions.append("role IN (SELECT value FROM json_each(?))")
            given.append(json.dumps(list(owners)))
        rows = self._rows(f"SELECT {_COLUMNS} FROM memories WHERE {' AND '.join(conditions) or '1'} ORDER BY seq DESC LIMIT ?",
                          (*given, -1 if limit is None else limit))
        return [_memory(row) for row in reversed(rows)]

    def seen(self, scope: Scope) -> Seen:
        """Every memory that a scope sees."""
        with self._lock, self._translated("read"):
            return self._lookups.seen(scope)

    def unreflected(self, scope: Scope, unrated: int) -> int:
        """The summed importance of the turns of other runs that came in since a role last reflected, as the scope sees it.
        A turn that nobody rated counts `unrated`.
        """
        where, given = scope.where()
        (summed,), = self._rows(
            "SELECT coalesce(sum(coalesce(m.importance, :unrated)), 0) FROM memories m WHERE m.kind = 'turn' AND m.run != :run"
            f" AND {where} AND m.seq > (SELECT coalesce(max(m.seq), 0) FROM memories m WHERE m.kind = 'reflection' AND {where})",
            {**given, "unrated": unrated})
        return int(summed)

    def matching(self, text: str, scope: Scope, limit: int) -> dict[int, float]:
        """Number → BM25 of the memories that hold a word of the text, the `limit` best; higher is better, and above 0.

        It is counted over what the scope sees, and nothing else. A word that half of that holds, or more, tells nothing and does
        not count.
        """
        words = _chosen(text)
        with self._lock, self._translated("read"):
            return self._lookups.matching(words, scope, limit) if words else {}

    def search(self, text: str, *, role: str | None = None, run: str | None = None,
               limit: int = 10) -> list[tuple[StoredMemory, float]]:
        """Memories that hold a word of the text, with their BM25, best first."""
        words = query(text)
        if not words:
            return []
        conditions, given = self._conditions(role, run, None)
        columns = ", ".join(f"m.{name}" for name in _COLUMNS.split(", "))
        rows = self._rows(f"SELECT {columns}, bm25(words) FROM words JOIN memories m ON m.seq = words.rowid"
                          f" WHERE {' AND '.join(['words MATCH ?', *conditions])} ORDER BY bm25(words), m.seq LIMIT ?",
                          (words, *given, limit))
        return [(_memory(row[:-1]), -row[-1]) for row in rows]

    def vector(self, embedder: str, text: str) -> bytes | None:
        """The embedding of a text as it was stored (little-endian 32-bit floats), if it was."""
        rows = self._rows("SELECT vector FROM vectors WHERE embedder = ? AND digest = ?", (embedder, _digest(text)))
        return rows[0][0] if rows else None

    def keep_vectors(self, embedder: str, vectors: Mapping[str, bytes]) -> bool:
        """Stores embeddings of texts; what is there stays. An embedder that gives another length than it did is another one by
        now: what it gave before is dropped. Whether that was so.
        """
        with self._writing():
            before = self._db.execute("SELECT length(vector) FROM vectors WHERE embedder = ? LIMIT 1", (embedder,)).fetchone()
            stale = before is not None and any(len(vector) != before[0] for vector in vectors.values())
            if stale:
                self._db.execute("DELETE FROM vectors WHERE embedder = ?", (embedder,))
                self._lookups.clear()
            self._db.executemany("INSERT OR IGNORE INTO vectors(embedder, digest, vector) VALUES (?,?,?)",
                                 [(embedder, _digest(text), vector) for text, vector in vectors.items()])
        return stale

    def known(self) -> Known:
        """How the file stands."""
        with self._lock, self._translated("read"):
            return Known(*self._lookups.known())

    def unembedded(self, embedder: str, scope: Scope, after: int = 0) -> list[str]:
        """What of the memories behind `after` that a scope sees is to be embedded yet, each text once, the oldest first."""
        where, given = scope.where()
        rows = self._rows(f"SELECT substr(m.text, 1, {EMBEDDED}) FROM memories m NOT INDEXED WHERE m.seq > :after AND {where}"
                          " AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.embedder = :embedder AND v.digest = m.digest)"
                          " ORDER BY m.seq", {**given, "embedder": embedder, "after": after})
        return list(dict.fromkeys(text for text, in rows))

    def embedded(self, embedder: str, scope: Scope, size: int) -> list[int]:
        """The memories that a scope sees and that have an embedding of so many bytes, in their order."""
        where, given = scope.where()
        return [seq for seq, in self._rows("SELECT m.seq FROM memories m JOIN vectors v ON v.digest = m.digest"
                                           f" WHERE v.embedder = :embedder AND length(v.vector) = :size AND {where}"
                                           " ORDER BY m.seq", {**given, "embedder": embedder, "size": size})]

    def vectors(self, embedder: str, scope: Scope, size: int, after: int = 0) -> list[tuple[int, bytes]]:
        """Memory and embedding, of so many bytes, of what a scope sees, behind the memory `after`, in their order."""
        where, given = scope.where()
        return self._rows("SELECT m.seq, v.vector FROM memories m NOT INDEXED CROSS JOIN vectors v ON v.digest = m.digest"
                          f" WHERE v.embedder = :embedder AND length(v.vector) = :size AND m.seq > :after AND {where}"
                          " ORDER BY m.seq", {**given, "embedder": embedder, "size": size, "after": after})

    def sound(self) -> list[str]:
        """What is wrong with the file, in words; nothing where it is whole."""
        faults = [told for (told,) in self._rows("PRAGMA integrity_check") if told != "ok"]
        try:
            with self._writing():
                self._db.execute("INSERT INTO words(words, rank) VALUES ('integrity-check', 1)")
        except MemoryFault as error:
            faults.append(str(error))
        return faults

    @staticmethod
    def _conditions(role: str | None, run: str | None, kind: str | None) -> tuple[list[str], list[Any]]:
        """Of a role, what its characters remember counts as well."""
        given = {"(role = ? OR instr(role, ?) = 1)": [role, f"{role}["], "name = ?": [run], "kind = ?": [kind]}
        found = {condition: values for condition, values in given.items() if values[0] is not None}
        return [*found], [value for values in found.values() for value in values]

    def _rows(self, statement: str, given: Any = ()) -> list[Any]:
        with self._lock, self._translated("read"):
            return self._db.execute(statement, given).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, self._translated("write"):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _lay_down(self) -> None:
        """The tables, by the first process that comes; the others wait for it."""
        _patiently(lambda: self._db.execute("PRAGMA journal_mode=WAL"))
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA secure_delete=ON")         # what is forgotten is overwritten
        _patiently(lambda: self._db.execute("BEGIN IMMEDIATE"))
        try:
            application, = self._db.execute("PRAGMA application_id").fetchone()
            format_, = self._db.execute("PRAGMA user_version").fetchone()
            there, = self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if application != APPLICATION_ID and there:
                raise MemoryFault(f"{self.path} is no memory file: move it away")
            if there and format_ not in (1, FORMAT):
                raise MemoryFault(f"{self.path} is a memory file of format {format_}, and this version knows {FORMAT}: "
                                  "use the version that wrote it, or move it away")
            script = "" if there and format_ == FORMAT else FROM_1 if there else SCHEMA
            for statement in _statements(script):
                self._db.execute(statement)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        for statement in _statements(TABLES):
            self._db.execute(statement)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            mend = "another process holds it" if "locked" in str(error) else "look whether the disk is full; `sop doctor` helps"
            raise MemoryFault(f"can't {doing} the memory file {self.path}: {error}; {mend}") from error


def query(text: str) -> str:
    """The words of a text as an FTS5 query: any of them, each quoted, so that none of them is an operator."""
    return " OR ".join(f'"{word}"' for word in _chosen(text))


def _chosen(text: str) -> list[str]:
    """The words of a text that are looked for: of very many the longest."""
    words = dict.fromkeys(word.lower() for word in _WORDS.findall(text))
    return sorted(words, key=lambda word: -len(word))[:_MOST_WORDS] if len(words) > _MOST_WORDS else [*words]


def _digest(text: str) -> str:
    """By what the embedding of a text is known: by what is embedded of it."""
    return digest(text[:EMBEDDED].encode())


def _memory(row: Sequence[Any]) -> StoredMemory:
    seq, key, kind, run, name, role, activation, at, text, importance, untrusted, cites, apart = row
    return StoredMemory(key, kind, run, name, role, activation, at, text, importance, untrusted, tuple(json.loads(cites)), seq,
                  bool(apart))


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would commit what is under way."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _patiently(do: Any) -> None:
    """SQLite does not wait for its lock where the mode of a file changes."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            do()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
