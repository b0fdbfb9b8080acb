"""The tables of the project's memory file, and how a file of an older format gets them."""

from __future__ import annotations

APPLICATION_ID = 0x4D464D31         # "MFM1"
FORMAT = 2
SCHEMA = f"""
CREATE TABLE memories(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL,
  role TEXT NOT NULL, activation TEXT NOT NULL, at REAL NOT NULL, text TEXT NOT NULL, digest TEXT NOT NULL, importance INTEGER,
  untrusted TEXT NOT NULL, cites TEXT NOT NULL, apart INTEGER NOT NULL DEFAULT 0);
CREATE INDEX by_role ON memories(role, run, seq, importance, apart);
CREATE INDEX by_name ON memories(name);
CREATE INDEX by_digest ON memories(digest);
CREATE VIRTUAL TABLE words USING fts5(text, content='memories', content_rowid='seq', tokenize='porter unicode61');
CREATE TRIGGER stored AFTER INSERT ON memories BEGIN
  INSERT INTO words(rowid, text) VALUES (new.seq, new.text);
END;
CREATE TRIGGER removed AFTER DELETE ON memories BEGIN
  INSERT INTO words(words, rowid, text) VALUES ('delete', old.seq, old.text);
END;
CREATE TABLE vectors(
  number INTEGER PRIMARY KEY AUTOINCREMENT, embedder TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL,
  UNIQUE(embedder, digest));
CREATE TABLE forgotten(key TEXT PRIMARY KEY);
PRAGMA application_id={APPLICATION_ID};
PRAGMA user_version={FORMAT};
"""
FROM_1 = f"""
ALTER TABLE memories ADD COLUMN apart INTEGER NOT NULL DEFAULT 0;
DROP INDEX by_role;
CREATE INDEX by_role ON memories(role, run, seq, importance, apart);
PRAGMA user_version={FORMAT};
"""
