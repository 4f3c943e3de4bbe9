"""Index of the notes: derived from them, follows every change, may be deleted any time."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.memory.chunks import NoteEntry, chunks
from nanoclaw.plugins.memory.index_file import FILE_BITS, Batch, inode, loaded, opened
from nanoclaw.plugins.memory.notes import memory_files, read_memory_file

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.vectors import VectorTable

CACHED_CHUNKS = 128

STEP_BYTES = 1_000_000
"""Notes indexed in one transaction. A query that comes meanwhile waits until it is written: a tenth of a second."""

MOST_AT_ONCE = 250_000  # bytes of changed notes that a query waits for, where the rest is left for later
LOOKED_AT = 100  # the newest notes are looked at for each query, as all of ten years would take 10 ms
LOOK_AGAIN_SECONDS = 60
"""Period of a look at all notes, which also follows as soon as one was made, renamed or deleted: only an old note that
an editor writes in place waits that long."""

Stamp = tuple[int, int]
"""Time of the last change in nanoseconds, 0 for just now, and size in bytes."""


class Chunk(NamedTuple):
    """Entries of a file that are stored together; the id of an entry is 256 times that of its chunk, plus its place."""

    file: str
    row: int
    entries: tuple[NoteEntry, ...]
    terms: frozenset[str]  # of all its entries


class Index:
    """The notes of one workspace by their terms. One thread at a time: hold `lock`. A query waits for few changes, and
    somebody calls `go_on` for those that are `unread`."""

    def __init__(self, workspace: Path, path: Path) -> None:
        self.workspace, self.path = workspace, path
        self._root = os.fspath(workspace)  # joined thousands of times
        self.lock = threading.RLock()
        self.entries, self.average_length, self.chunks = 0, 1.0, 0
        self.unread: dict[str, Stamp | None] = {}
        """Files in another state than here, with their stamps, None for a deleted one; facts and newest notes last."""
        self.vectors: VectorTable | None = None
        self.about = "notes"
        self._names: list[str] = []
        self._folder: Stamp | None = None
        self._looked = 0.0
        self._db: sqlite3.Connection | None = None
        self._stamps: dict[str, Stamp] = {}
        self._cache: dict[int, Chunk] = {}
        self._version = self._inode = 0

    def close(self) -> None:
        with self.lock:
            self._disconnect()

    def discard(self) -> None:
        """Delete the file, so that no word of it is left on disk; the next query builds it again."""
        with self.lock:
            self._disconnect()
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self.path.with_name(self.path.name + suffix).unlink()

    # --- following the files -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take up changes on disk since the last time; of many, the newest notes."""
        db = self._connected()
        self._look()
        self._take_up(db, self._newest(MOST_AT_ONCE))

    def go_on(self) -> bool:
        """Take up some of what is unread; False when another process is at it."""
        return self._take_up(self._connected(), self._newest(STEP_BYTES))

    @property
    def unread_bytes(self) -> int:
        return sum(stamp[1] for stamp in self.unread.values() if stamp)

    @property
    def read_bytes(self) -> int:
        return sum(size for name, (_, size) in self._stamps.items() if name not in self.unread)

    def _look(self) -> None:
        """Find what changed."""
        names, is_all = self._looked_at()
        found = {name: stamp for name in names if (stamp := self._stamp(name))}
        gone = [name for name in (self._stamps if is_all else names) if name in self._stamps and name not in found]
        stale = [name for name, stamp in found.items() if self._stamps.get(name) != stamp]
        changed = {name: found.get(name) for name in sorted([*stale, *gone], key=lambda name: ("/" not in name, name))}
        self.unread = changed if is_all else {**self.unread, **changed}

    def _looked_at(self) -> tuple[Sequence[str], bool]:
        """The files to look at now, and whether these are all."""
        folder = self._stamp("memory")
        is_all = not folder or folder[0] == 0 or folder != self._folder
        is_all = is_all or len(self._names) <= LOOKED_AT or time.monotonic() - self._looked > LOOK_AGAIN_SECONDS
        if is_all:
            self._names, self._folder, self._looked = memory_files(self.workspace), folder, time.monotonic()
        return (self._names if is_all else ["MEMORY.md", *self._names[-LOOKED_AT:]]), is_all

    def _stamp(self, name: str) -> Stamp | None:
        try:
            found = os.lstat(f"{self._root}/{name}")
        except OSError:
            return None
        # a file that was just written may be written again within the clock's grain: look again next time
        fresh = abs(time.time_ns() - found.st_mtime_ns) < 50_000_000
        return (0 if fresh else found.st_mtime_ns, found.st_size)

    def _newest(self, room: int) -> list[str]:
        """The newest of the unread files, as many as have so many bytes together, at least one."""
        names = [*reversed(self.unread)]
        for count, name in enumerate(names):
            stamp = self.unread[name] or self._stamps[name]
            room -= stamp[1]
            if room < 0:
                return names[: max(1, count)]
        return names

    def _take_up(self, db: sqlite3.Connection, names: Sequence[str]) -> bool:
        """Index files in one transaction; False when another process is at it."""
        if not names:
            return True
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # what is there will do
            self._looked = 0.0
            return False
        batch = Batch(db)
        with db:
            for name in names:
                self._read(db, batch, name, self.unread[name])
            batch.write()
        for name in names:
            if stamp := self.unread.pop(name):
                self._stamps[name] = stamp
            else:
                self._stamps.pop(name, None)
        self._cache.clear()
        self._measure()
        return True

    def _read(self, db: sqlite3.Connection, batch: Batch, name: str, stamp: Stamp | None) -> None:
        known = db.execute("SELECT id, digest FROM files WHERE name = ?", (name,)).fetchone()
        if not stamp:
            if known:
                batch.replace(known[0], [])
                db.execute("DELETE FROM files WHERE name = ?", (name,))
            return
        text = self.text(name)
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        id = known[0] if known else self._id(db, name)
        if not known or known[1] != digest:
            batch.replace(id, list(chunks(text, name)))
        db.execute("REPLACE INTO files VALUES (?, ?, ?, ?, ?)", (id, name, *stamp, digest))

    def text(self, name: str) -> str:
        """Text of a file, '' if it cannot be read."""
        try:
            return read_memory_file(self.workspace, name) or ""
        except WorkspaceError:
            return ""

    def _id(self, db: sqlite3.Connection, name: str) -> int:
        """The id of a new file: a day's own one, so that newer notes have higher ids in any order of indexing."""
        day = name.rpartition("/")[2].removesuffix(".md")
        with suppress(ValueError):
            if (found := date.fromisoformat(day)).isoformat() == day:
                return found.toordinal()
        if name == "MEMORY.md":
            return _FACTS
        sql = "SELECT max(id) FROM files WHERE id BETWEEN ? AND ?"
        return (db.execute(sql, (_OTHERS, _FACTS - 1)).fetchone()[0] or _OTHERS) + 1

    # --- looking up --------------------------------------------------------------------------------------------------

    def postings(self, term: str, most: int = -1) -> list[int]:
        """Posting list of a term: the ids of the entries that have it, those of the newest notes first."""
        sql = "SELECT rowid FROM postings WHERE postings MATCH ? ORDER BY rowid DESC LIMIT ?"
        return [id for (id,) in self.connection().execute(sql, (f'"{term}"', most))]

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """Number of entries by term, for those of the terms that an entry has."""
        every = sorted(terms)  # in order: much faster
        marks = ",".join("?" * len(every))
        return dict(self.connection().execute(f"SELECT term, entries FROM terms WHERE term IN ({marks})", every))

    def spelled(self, pattern: str, most: int) -> list[str]:
        """Terms that a GLOB pattern describes; all that begin as it does are read."""
        first, _, rest = pattern[1:].partition("]") if pattern[0] == "[" else (pattern[0], "", pattern[1:])
        sql = "SELECT term FROM terms WHERE term GLOB ? LIMIT ?"
        found = (self.connection().execute(sql, (letter + rest, most)) for letter in first)
        return [term for rows in found for (term,) in rows]

    def idf(self, frequency: int) -> float:
        """Inverse document frequency of a term that so many entries have."""
        return math.log(1 + (max(self.entries, _FEWEST_ENTRIES) - frequency + 0.5) / (frequency + 0.5))

    def chunk(self, id: int) -> Chunk:
        if id not in self._cache:
            sql = "SELECT name, row, data FROM chunks, files WHERE chunks.id = ? AND files.id = ?"
            file, row, data = self.connection().execute(sql, (id, id >> FILE_BITS)).fetchone()
            entries = loaded(data)
            terms = frozenset(" ".join([f"{entry.terms} {entry.heading}" for entry in entries]).split())
            if len(self._cache) >= CACHED_CHUNKS:
                self._cache.clear()
            self._cache[id] = Chunk(file, row, entries, terms)
        return self._cache[id]

    def between(self, first: date, last: date, most: int) -> list[int]:
        """Chunks with entries of these days, the newest first."""
        sql = "SELECT id FROM chunks WHERE first <= ? AND last >= ? AND first > 0 ORDER BY last DESC LIMIT ?"
        return [id for (id,) in self.connection().execute(sql, (last.toordinal(), first.toordinal(), most))]

    # --- the file ----------------------------------------------------------------------------------------------------

    def connection(self) -> sqlite3.Connection:
        """As the last refresh left it, a query is answered from one state; also for what is kept in the same file."""
        return self._db or self._connected()

    def _connected(self) -> sqlite3.Connection:
        if self._db is not None and self._inode == inode(self.path):
            version = self._db.execute("PRAGMA data_version").fetchone()[0]
            if version != self._version:  # another process wrote
                self._load(self._db)
            return self._db
        self._disconnect()
        try:
            self._db = opened(self.path)
        except (sqlite3.Error, OSError):
            self.discard()
            try:
                self._db = opened(self.path)
            except (sqlite3.Error, OSError):  # a full disk, a home that is read-only: do without the file
                self._db = opened(Path(":memory:"))
        self._inode = inode(self.path)
        self._load(self._db)
        return self._db

    def _load(self, db: sqlite3.Connection) -> None:
        self._version = db.execute("PRAGMA data_version").fetchone()[0]
        self._stamps = {name: (mtime, size) for name, mtime, size in db.execute("SELECT name, mtime, size FROM files")}
        self._looked = 0.0
        self._cache.clear()
        self._measure()

    def _measure(self) -> None:
        assert self._db is not None
        sql = "SELECT count(*), coalesce(sum(entries), 0), coalesce(sum(length), 0) FROM chunks"
        self.chunks, self.entries, length = self._db.execute(sql).fetchone()
        self.average_length = length / self.entries if length else 1.0

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None
        self._stamps.clear()
        self._cache.clear()


_FEWEST_ENTRIES = 100  # a word is not common because the only note has it
_OTHERS, _FACTS = 4_000_000, 8_000_000  # ids of files that are no day's, after those of all days
