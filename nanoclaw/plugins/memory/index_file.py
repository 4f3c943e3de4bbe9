"""The index on disk: one SQLite file, opened, and written a batch of notes at a time."""

from __future__ import annotations

import marshal
import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nanoclaw.plugins.memory.chunks import NoteEntry

FORMAT = 11  # an index with another number is thrown away and built again
FILE_BITS = 17  # bits of a chunk's id below those of its file; a file of the largest size has fewer chunks


def opened(path: Path) -> sqlite3.Connection:
    """The file, made where it is missing. Raises sqlite3.Error and OSError."""
    if str(path) != ":memory:":
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=2, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # derived: a crash may cost the last change, never the file
        db.execute("PRAGMA secure_delete = ON")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, FORMAT):
            raise sqlite3.DatabaseError("another format")
        if version == 0:
            db.executescript(_SCHEMA)
        db.execute("SELECT count(*) FROM files").fetchone()
        db.execute("PRAGMA busy_timeout = 20")  # a query does not wait for a writer
    except BaseException:
        db.close()
        raise
    return db


def inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def loaded(data: bytes) -> tuple[NoteEntry, ...]:
    return tuple(map(NoteEntry._make, marshal.loads(data)))


class Batch:
    """Chunks replaced in one transaction; their postings are written together, at the end."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._added: list[tuple[int, str]] = []
        self._removed: list[tuple[int, str]] = []

    def replace(self, file: int, chunks: Sequence[tuple[int, list[NoteEntry]]]) -> None:
        """Store a file's chunks."""
        first, last = file << FILE_BITS, (file + 1 << FILE_BITS) - 1
        old = self._db.execute("SELECT id, data FROM chunks WHERE id BETWEEN ? AND ?", (first, last)).fetchall()
        self._removed += [one for id, data in old for one in _posted(id, loaded(data))]
        self._db.execute("DELETE FROM chunks WHERE id BETWEEN ? AND ?", (first, last))
        for id, (row, entries) in enumerate(chunks, first):
            days, length = [entry.day for entry in entries], sum([entry.length for entry in entries])
            data = marshal.dumps([tuple(entry) for entry in entries])
            values = (id, row, min(days), max(days), len(entries), length, data)
            self._db.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            self._added += _posted(id, entries)

    def write(self) -> None:
        """Write the postings and count the terms, in the order of ids, and of terms: much faster."""
        sql = "INSERT INTO postings (postings, rowid, terms) VALUES ('delete', ?, ?)"
        self._db.executemany(sql, sorted(self._removed))
        self._db.executemany("INSERT INTO postings (rowid, terms) VALUES (?, ?)", sorted(self._added))
        counts = Counter[str]()
        for _, terms in self._removed:
            counts.subtract(set(terms.split()))
        for _, terms in self._added:
            counts.update(set(terms.split()))
        sql = "INSERT INTO terms VALUES (?, ?) ON CONFLICT (term) DO UPDATE SET entries = entries + excluded.entries"
        self._db.executemany(sql, sorted(counts.items()))
        fewer = [(term,) for term, count in counts.items() if count < 0]
        self._db.executemany("DELETE FROM terms WHERE term = ? AND entries <= 0", fewer)


def _posted(chunk: int, entries: Sequence[NoteEntry]) -> list[tuple[int, str]]:
    """The terms that each entry is found by, as they were written: they are removed by the same words."""
    return [(chunk << 8 | at, f"{entry.terms} {entry.heading}") for at, entry in enumerate(entries)]


# `ascii` splits at blanks only, as no term has any other ASCII sign that is neither a letter nor a digit
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, name TEXT UNIQUE, mtime INTEGER, size INTEGER, digest BLOB);
CREATE TABLE IF NOT EXISTS chunks (
    id INTEGER PRIMARY KEY, row INTEGER, first INTEGER, last INTEGER, entries INTEGER, length INTEGER, data BLOB
);
CREATE INDEX IF NOT EXISTS chunks_of_days ON chunks (last, first);
CREATE INDEX IF NOT EXISTS chunks_by_size ON chunks (entries, length);
CREATE TABLE IF NOT EXISTS terms (term TEXT PRIMARY KEY, entries INTEGER) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS postings USING fts5 (
    terms, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);
PRAGMA user_version = {FORMAT};
COMMIT;
"""
