"""What a process keeps of a memory file to find things in it fast: what scopes see, and where tokens stand.

It is brought up to date before each look by what was stored since, which is little; where something was removed, by this process
or another one, it begins anew. See docs/decisions/0121.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from metaflow_agents.memory.postings import Posting, ranked
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.seen import Memories, Row, Seen

_SEEN = 1_000_000                   # memories in what scopes see, of all scopes together
_HELD = 1_000_000                   # memories in which tokens stand, of all tokens together
_FRESH = 2_000                      # memories stored since whose tokens are added; where they are more, all is read anew
TABLES = """
PRAGMA temp_store=MEMORY;
CREATE VIRTUAL TABLE temp.asked USING fts5(text, tokenize='porter unicode61');
CREATE VIRTUAL TABLE temp.asked_tokens USING fts5vocab(temp, asked, instance);
CREATE VIRTUAL TABLE temp.tokens USING fts5vocab(main, words, instance);
"""                                 # a text in the tokens of the index, and where each token stands in the memories


class Lookups:
    """For one connection, one thread at a time. Errors are those of SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.clear()

    def clear(self) -> None:
        """Something was removed: nothing that is known holds."""
        self._age = object()
        self._version, self._last, self._count = -1, 0, 0
        self._seen: OrderedDict[Scope, Memories] = OrderedDict()
        self._postings: OrderedDict[str, Posting] = OrderedDict()
        self._upto: dict[str, int] = {}         # token → the last memory that its posting knows
        self._fresh: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._fresh_count, self._tokenised = 0, 0

    def known(self) -> tuple[object, int]:
        """An object that is another one once something was removed, or another process wrote; and the last memory."""
        self._up_to_date()
        return self._age, self._last

    def seen(self, scope: Scope) -> Seen:
        """What a scope sees."""
        self._up_to_date()
        return Seen(self._others(scope) if scope.others else Memories(), self._own(scope))

    def matching(self, words: Sequence[str], scope: Scope, limit: int) -> dict[int, float]:
        """See `MemoryDatabase.matching`."""
        seen = self.seen(scope)
        if not len(seen):
            return {}
        tokens: dict[str, None] = {}
        for word, of_word in self._tokens(words):
            if len(of_word) == 1:
                held = self._posting(of_word[0]).held(seen)
            else:
                held = sum(number in seen for number, in self._db.execute("SELECT rowid FROM words WHERE words MATCH ?",
                                                                          (f'"{word}"',)))
            if held * 2 < len(seen):
                tokens |= dict.fromkeys(of_word)
        return ranked([self._posting(token) for token in tokens], seen, limit)

    def _up_to_date(self) -> None:
        """Looks whether something was removed, and how far the file goes."""
        version, = self._db.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            there, = self._db.execute("SELECT count(*) FROM memories").fetchone()
            fresh, = self._db.execute("SELECT count(*) FROM memories WHERE seq > ?", (self._last,)).fetchone()
            if there - fresh != self._count:
                self.clear()
            self._version, self._age = version, object()
        fresh, last = self._db.execute("SELECT count(*), max(seq) FROM memories WHERE seq > ?", (self._last,)).fetchone()
        if fresh:
            self._count, self._last = self._count + fresh, last

    def _others(self, scope: Scope) -> Memories:
        key = replace(scope, own=())
        found = self._seen.pop(key, None)
        if found is None:
            found = Memories()
        if found.upto < self._last:
            condition, given = key.where()
            found.add(self._read(condition, {**given, "after": found.upto}))
            found.upto = self._last
        self._seen[key] = found
        while len(self._seen) > 1 and sum(map(len, self._seen.values())) > _SEEN:
            self._seen.popitem(last=False)
        return found

    def _own(self, scope: Scope) -> list[Row]:
        if not scope.own:
            return []
        condition, given = replace(scope, others=False).where()
        rows = {row[0]: row for row in self._read(condition, {**given, "after": 0})}
        return [rows[number] for number in dict.fromkeys(scope.own) if number in rows]

    def _read(self, condition: str, given: dict[str, object]) -> list[Row]:
        rows = self._db.execute("SELECT m.seq, m.importance, d.sz FROM memories m NOT INDEXED"
                                " JOIN words_docsize d ON d.id = m.seq"
                                f" WHERE m.seq > :after AND {condition} ORDER BY m.seq", given)
        sizes: dict[bytes, int] = {}
        found = []
        for number, importance, size in rows:
            length = sizes.get(size)
            if length is None:
                length = sizes[size] = _length(size)
            found.append((number, importance, length))
        return found

    def _tokens(self, words: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Each word, and the tokens that the index makes of it."""
        self._db.execute("DELETE FROM temp.asked")
        self._db.executemany("INSERT INTO temp.asked(rowid, text) VALUES (?,?)", enumerate(words))
        rows = self._db.execute("SELECT doc, term FROM temp.asked_tokens ORDER BY doc, offset").fetchall()
        return [(words[number], [term for _, term in of_word]) for number, of_word in groupby(rows, key=lambda row: row[0])]

    def _posting(self, token: str) -> Posting:
        """Where a token stands, in all memories of the file."""
        self._tokenise()
        posting = self._postings.pop(token, None)
        if posting is None:
            rows = self._db.execute("SELECT doc FROM temp.tokens WHERE term = ?", (token,)).fetchall()      # by rising numbers
            held = Counter(number for number, in rows if number <= self._last)
            posting = Posting(held.keys(), held.values())
        else:
            posting.add((number, count) for number, count in self._fresh.get(token, ()) if number > self._upto[token])
        self._postings[token] = posting
        self._upto[token] = self._last
        while len(self._postings) > 1 and sum(map(len, self._postings.values())) > _HELD:
            gone, _ = self._postings.popitem(last=False)
            del self._upto[gone]
        return posting

    def _tokenise(self) -> None:
        """The tokens of what was stored since postings were read."""
        if self._tokenised == self._last:
            return
        if not self._postings or self._fresh_count > _FRESH:
            fresh: list[tuple[int, str]] = []
            self._forget_postings()
        else:
            fresh = self._db.execute("SELECT seq, text FROM memories WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                                     (self._tokenised, self._last, _FRESH + 1)).fetchall()
            if len(fresh) > _FRESH:
                fresh = []
                self._forget_postings()
        self._tokenised = self._last
        if not fresh:
            return
        self._db.execute("DELETE FROM temp.asked")
        self._db.executemany("INSERT INTO temp.asked(rowid, text) VALUES (?,?)", fresh)
        counted = "SELECT doc, term, count(*) FROM temp.asked_tokens GROUP BY doc, term ORDER BY doc"
        for number, term, count in self._db.execute(counted).fetchall():
            self._fresh[term].append((number, count))
        self._fresh_count += len(fresh)

    def _forget_postings(self) -> None:
        self._postings.clear()
        self._upto.clear()
        self._fresh.clear()
        self._fresh_count = 0
        for memories in self._seen.values():
            memories.held.clear()


def _length(size: bytes) -> int:
    """The tokens of a memory, as FTS5 keeps their number for its one column: seven bits a byte, the highest first."""
    length = 0
    for byte in size:
        length = length << 7 | byte & 127
    return length
