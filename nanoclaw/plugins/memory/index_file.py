"""The index on disk: one SQLite file, opened, and written a batch of notes at a time."""

from __future__ import annotations

import marshal
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from nanoclaw.plugins.memory.chunks import NoteEntry

FORMAT = 10
"""An index with another number is thrown away and built again."""

FILE_BITS = 17
"""Bits of a chunk's id below those of its file; a file of the largest size has fewer chunks."""


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


def merge(db: sqlite3.Connection) -> None:
    """Make one of the many parts in which postings were written; terms are then found in half the time."""
    db.execute("INSERT INTO postings (postings) VALUES ('optimize')")


class Batch:
    """Chunks replaced in one transaction; their postings are written together, at the end."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._added: list[tuple[int, str]] = []
        self._removed: list[tuple[int, str]] = []

    def replace(self, file: int, chunks: Sequence[tuple[int, list[NoteEntry]]]) -> None:
        """Store a file's chunks; those that are as before stay, at the beginning and at the end."""
        first, last = file << FILE_BITS, (file + 1 << FILE_BITS) - 1
        sql = "SELECT id, row, data FROM chunks WHERE id BETWEEN ? AND ? ORDER BY row"
        old = self._db.execute(sql, (first, last)).fetchall()
        free = max((id for id, _, _ in old), default=first - 1) + 1
        new = [(row, entries, marshal.dumps([tuple(entry) for entry in entries])) for row, entries in chunks]
        while old and new and old[0][1:] == (new[0][0], new[0][2]):
            del old[0], new[0]
        while old and new and old[-1][2] == new[-1][2]:
            self._db.execute("UPDATE chunks SET row = ? WHERE id = ?", (new.pop()[0], old.pop()[0]))
        for (id, _, before), (row, entries, data) in zip(old, new, strict=False):
            self._put(id, row, entries, data)
            self._post(id, loaded(before), entries)
        for id, _, before in old[len(new) :]:
            self._db.execute("DELETE FROM chunks WHERE id = ?", (id,))
            self._post(id, loaded(before), ())
        for id, (row, entries, data) in enumerate(new[len(old) :], free):
            self._put(id, row, entries, data)
            self._post(id, (), entries)

    def _put(self, id: int, row: int, entries: Sequence[NoteEntry], data: bytes) -> None:
        days = [entry.day for entry in entries]
        length = sum([entry.length for entry in entries])
        values = (id, row, min(days), max(days), len(entries), length, data)
        self._db.execute("REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def _post(self, chunk: int, before: Sequence[NoteEntry], after: Sequence[NoteEntry]) -> None:
        old, new = [list(map(_posted, entries)) for entries in (before, after)]
        for at in range(max(len(old), len(new))):
            said, says = old[at] if at < len(old) else "", new[at] if at < len(new) else ""
            if said != says:
                self._removed += [(chunk << 8 | at, said)] if said else ()
                self._added += [(chunk << 8 | at, says)] if says else ()

    def write(self) -> Iterable[str] | None:
        """The terms whose frequencies changed; None if there are many."""
        entries = self._db.execute("SELECT coalesce(sum(entries), 0) FROM chunks").fetchone()[0]
        # in the order of ids, and of terms: much faster
        sql = "INSERT INTO postings (postings, rowid, terms) VALUES ('delete', ?, ?)"
        self._db.executemany(sql, sorted(self._removed))
        self._db.executemany("INSERT INTO postings (rowid, terms) VALUES (?, ?)", sorted(self._added))
        if len(self._added) > entries * _MUCH_NEW:
            self._db.execute("DELETE FROM terms")
            self._db.execute("INSERT INTO terms SELECT term, doc FROM vocabulary")
            return None
        return self._count()

    def _count(self) -> Iterable[str]:
        counts = Counter[str]()
        for _, terms in self._removed:
            counts.subtract(set(terms.split()))
        for _, terms in self._added:
            counts.update(set(terms.split()))
        sql = "INSERT INTO terms VALUES (?, ?) ON CONFLICT (term) DO UPDATE SET entries = entries + excluded.entries"
        self._db.executemany(sql, sorted(counts.items()))
        fewer = [(term,) for term, count in counts.items() if count < 0]
        self._db.executemany("DELETE FROM terms WHERE term = ? AND entries <= 0", fewer)
        return counts


def _posted(entry: NoteEntry) -> str:
    """Terms that an entry is found by, as they were written: they are removed by the same words."""
    return f"{entry.terms} {entry.heading}"


_MUCH_NEW = 0.2
"""Share of all entries from which on it is faster to count each term again than to add to it."""
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
CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab (postings, row);
PRAGMA user_version = {FORMAT};
COMMIT;
"""
