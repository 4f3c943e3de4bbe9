"""Inverted index of the notes in one SQLite file: derived from them, follows every change, may be deleted any time."""

from __future__ import annotations

import hashlib
import marshal
import math
import os
import sqlite3
import threading
import time
from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.memory.chunks import NoteEntry, chunks
from nanoclaw.plugins.memory.notes import memory_files, read_memory_file

FORMAT = 4
"""An index with another number is thrown away and built anew."""

CACHED_CHUNKS = 128

MOST_CACHED_IDF = 20_000
"""Terms whose inverse document frequency is remembered from one query to the next: 3 MB."""

MOST_UNWRITTEN = 200_000
"""Postings gathered before they are written: bounds the memory of a first build."""

MOST_AT_ONCE = 32_000
"""Bytes of changed notes that a query waits for, where another index takes up the rest."""

LOOKED_AT = 100
"""The newest notes are looked at for each query, as all of ten years would take 10 ms."""

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
    terms: str  # of all its entries, each between blanks


class Stopped(Exception):
    """The index is to be closed; all that was taken up in whole steps is kept."""


class Index:
    """The notes of one workspace by their terms. One thread at a time: hold `lock`."""

    def __init__(
        self,
        workspace: Workspace,
        path: Path,
        delegate: Callable[[], None] | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """`delegate` is called when much has changed, to have another index of the same file take it up; while that
        `is_delegated`, this one leaves changes alone. `is_stopped` is asked every few milliseconds of taking up.
        """
        self.workspace, self.path = workspace, path
        self._root = os.fspath(workspace.root)  # joined thousands of times
        self._delegate, self._is_stopped = delegate, is_stopped
        self.is_delegated = False
        self.lock = threading.RLock()
        self.entries, self.average_length, self.chunks = 0, 1.0, 0
        self._names: list[str] = []
        self._folder: Stamp | None = None
        self._looked = 0.0
        self._db: sqlite3.Connection | None = None
        self._stamps: dict[str, Stamp] = {}
        self._cache: OrderedDict[int, Chunk] = OrderedDict()
        self._idf: dict[str, float] = {}
        self._version = self._inode = 0

    def close(self) -> None:
        with self.lock:
            self._disconnect()

    def discard(self) -> None:
        """Delete the file, so that no word of it is left on disk; the next query builds it anew."""
        with self.lock:
            self._disconnect()
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self.path.with_name(self.path.name + suffix).unlink()

    # --- following the files -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take up changes on disk since the last time. Raises Stopped."""
        db = self._connected()
        if self.is_delegated or not (changed := self._changed()):
            return
        later = self._too_much(changed) if self._delegate else 0
        self._take_up(db, dict([*changed.items()][later:]))
        self._cache.clear()
        self._measure()
        if later:
            self._looked = 0.0
            if self._delegate and self._inode:
                self.is_delegated = True
                self._delegate()

    def _changed(self) -> dict[str, Stamp | None]:
        """Files in another state than here, with their stamps, None for a deleted one; facts and newest notes last."""
        names, is_all = self._looked_at()
        found = {name: stamp for name in names if (stamp := self._stamp(name))}
        gone = [name for name in (self._stamps if is_all else names) if name in self._stamps and name not in found]
        stale = [name for name, stamp in found.items() if self._stamps.get(name) != stamp]
        return {name: found.get(name) for name in sorted([*stale, *gone], key=lambda name: ("/" not in name, name))}

    def _looked_at(self) -> tuple[Sequence[str], bool]:
        """The files to look at now, and whether these are all."""
        folder = self._stamp(self.workspace.notes.name)
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

    def _too_much(self, changed: Mapping[str, Stamp | None]) -> int:
        """The number of files, the oldest first, that are too much for now."""
        room = MOST_AT_ONCE
        files = [*changed.items()]
        for left in range(len(files), 0, -1):
            name, stamp = files[left - 1]
            room -= (stamp or self._stamps[name])[1]
            if room < 0:
                alone = left == len(changed) and not self._inode  # nobody else can see an index in memory
                return left - alone
        return 0

    def _take_up(self, db: sqlite3.Connection, changed: Mapping[str, Stamp | None]) -> None:
        """Index files, the last one first and in several steps, so that a query meanwhile finds the newest notes."""
        ids, left = _new_ids(db, changed), [*changed]
        while left:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:  # another process is at it: what is there will do
                self._looked = 0.0
                return
            with db:
                batch, done = _Batch(db, self._check), []
                while left and batch.size < MOST_UNWRITTEN:
                    self._check()
                    done.append(left.pop())
                    self._read(batch, done[-1], changed[done[-1]], ids[done[-1]])
                batch.write()
            for name in done:
                if stamp := changed[name]:
                    self._stamps[name] = stamp
                else:
                    del self._stamps[name]

    def _check(self) -> None:
        if self._is_stopped():
            raise Stopped

    def _read(self, batch: _Batch, name: str, stamp: Stamp | None, ids: Iterator[int]) -> None:
        if not stamp:
            batch.replace(name, [], ids)
            batch.db.execute("DELETE FROM files WHERE name = ?", (name,))
            return
        try:
            text = read_memory_file(self.workspace, name) or ""
        except WorkspaceError:
            text = ""
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        known = batch.db.execute("SELECT digest FROM files WHERE name = ?", (name,)).fetchone()
        if not known or known[0] != digest:
            batch.replace(name, list(chunks(text, name)), ids)
        batch.db.execute("REPLACE INTO files VALUES (?, ?, ?, ?)", (name, *stamp, digest))

    # --- looking up --------------------------------------------------------------------------------------------------

    def postings(self, term: str) -> array[int]:
        """Posting list of a term: the ids of the entries that have it."""
        row = self._opened().execute("SELECT postings FROM terms WHERE term = ?", (term,)).fetchone()
        return array("I", row[0]) if row else array("I")

    def known(self, terms: Iterable[str]) -> list[str]:
        """Those of the terms that an entry has."""
        every = list(terms)
        marks = ",".join("?" * len(every))
        rows = self._opened().execute(f"SELECT term FROM terms WHERE term IN ({marks})", every)
        return [term for (term,) in rows]

    def idf(self, frequency: int) -> float:
        """Inverse document frequency of a term that so many entries have."""
        return math.log(1 + (max(self.entries, _FEWEST_ENTRIES) - frequency + 0.5) / (frequency + 0.5))

    def idf_of_shared(self, terms: Iterable[str]) -> dict[str, float]:
        """Inverse document frequency by term, 0 for one that a single entry has. Kept until notes change."""
        if len(self._idf) > MOST_CACHED_IDF:
            self._idf.clear()
        unknown = sorted(term for term in terms if term not in self._idf)[:MOST_CACHED_IDF]  # in order: much faster
        marks = ",".join("?" * len(unknown))
        sql = f"SELECT term, length(postings) / 4 FROM terms WHERE term IN ({marks})"
        for term, frequency in self._opened().execute(sql, unknown):
            self._idf[term] = self.idf(frequency) if frequency > 1 else 0.0
        return self._idf

    def chunk(self, id: int) -> Chunk:
        if id not in self._cache:
            sql = "SELECT file, row, data FROM chunks WHERE id = ?"
            file, row, data = self._opened().execute(sql, (id,)).fetchone()
            entries = _loaded(data)
            terms = f" {' '.join([f'{entry.terms} {entry.heading}' for entry in entries])} "
            self._cache[id] = Chunk(file, row, entries, terms)
            if len(self._cache) > CACHED_CHUNKS:
                self._cache.popitem(last=False)
        self._cache.move_to_end(id)
        return self._cache[id]

    def between(self, first: date, last: date, most: int) -> list[int]:
        """Chunks with entries of these days, the newest first."""
        sql = "SELECT id FROM chunks WHERE first <= ? AND last >= ? AND first > 0 ORDER BY last DESC LIMIT ?"
        return [id for (id,) in self._opened().execute(sql, (last.toordinal(), first.toordinal(), most))]

    # --- the file ----------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        """As the last refresh left it: a query is answered from one state."""
        return self._db or self._connected()

    def _connected(self) -> sqlite3.Connection:
        if self._db is not None and self._inode == _inode(self.path):
            version = self._db.execute("PRAGMA data_version").fetchone()[0]
            if version != self._version:  # another process wrote
                self._load(self._db)
            return self._db
        self._disconnect()
        try:
            self._db = _open(self.path)
        except (sqlite3.Error, OSError):
            self.discard()
            try:
                self._db = _open(self.path)
            except (sqlite3.Error, OSError):  # a full disk, a home that is read-only: do without the file
                self._db = _open(Path(":memory:"))
        self._inode = _inode(self.path)
        if self._delegate:
            self._db.execute("PRAGMA busy_timeout = 20")  # a query does not wait for a writer
        self._looked = 0.0
        self._load(self._db)
        return self._db

    def _load(self, db: sqlite3.Connection) -> None:
        self._version = db.execute("PRAGMA data_version").fetchone()[0]
        self._stamps = {name: (mtime, size) for name, mtime, size in db.execute("SELECT name, mtime, size FROM files")}
        self._cache.clear()
        self._measure()

    def _measure(self) -> None:
        assert self._db is not None
        sql = "SELECT count(*), coalesce(sum(entries), 0), coalesce(sum(length), 0) FROM chunks"
        self._idf.clear()
        self.chunks, self.entries, length = self._db.execute(sql).fetchone()
        self.average_length = length / self.entries if length else 1.0

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None
        self._stamps.clear()
        self._cache.clear()


class _Batch:
    """Chunks replaced in one transaction; their postings are written together, at the end."""

    def __init__(self, db: sqlite3.Connection, check: Callable[[], None]) -> None:
        self.db, self._check = db, check
        self.size = 0
        self._added: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))
        self._removed: defaultdict[str, list[int]] = defaultdict(list)

    def replace(self, file: str, chunks: Sequence[tuple[int, list[NoteEntry]]], ids: Iterator[int]) -> None:
        """Store a file's chunks; those that are as before stay, at the beginning and at the end."""
        sql = "SELECT id, row, data FROM chunks WHERE file = ? ORDER BY row"
        old = self.db.execute(sql, (file,)).fetchall()
        new = [(row, entries, marshal.dumps([tuple(entry) for entry in entries])) for row, entries in chunks]
        while old and new and old[0][1:] == (new[0][0], new[0][2]):
            del old[0], new[0]
        while old and new and old[-1][2] == new[-1][2]:
            self.db.execute("UPDATE chunks SET row = ? WHERE id = ?", (new.pop()[0], old.pop()[0]))
        for (id, _, before), (row, entries, data) in zip(old, new, strict=False):
            self._put(id, file, row, entries, data)
            self._count(id, _loaded(before), entries)
        for id, _, before in old[len(new) :]:
            self.db.execute("DELETE FROM chunks WHERE id = ?", (id,))
            self._count(id, _loaded(before), ())
        for row, entries, data in new[len(old) :]:
            id = self._new_chunk(next(ids, None))
            self._put(id, file, row, entries, data)
            self._count(id, (), entries)

    def _new_chunk(self, id: int | None) -> int:
        """The id of a new chunk: the given one unless another process was faster, else the next."""
        sql = "INSERT OR IGNORE INTO chunks (id, file, row, first, last, entries, length) VALUES (?,'',0,0,0,0,0)"
        cursor = self.db.execute(sql, (id,))
        if not cursor.rowcount:
            cursor = self.db.execute(sql, (None,))
        return cursor.lastrowid or 0

    def _put(self, id: int, file: str, row: int, entries: Sequence[NoteEntry], data: bytes) -> None:
        days = [entry.day for entry in entries]
        length = sum(entry.length for entry in entries)
        sql = "UPDATE chunks SET file = ?, row = ?, first = ?, last = ?, entries = ?, length = ?, data = ? WHERE id = ?"
        self.db.execute(sql, (file, row, min(days), max(days), len(entries), length, data, id))

    def _count(self, id: int, before: Sequence[NoteEntry], after: Sequence[NoteEntry]) -> None:
        old, new = _postings(id, before), _postings(id, after)
        for term, entry in old - new:
            self._removed[term].append(entry)
        for term, entry in new - old if old else new:
            self._added[term].append(entry)
        self.size += len(new)

    def write(self) -> None:
        terms = [*(self._added.keys() | self._removed.keys())]
        for at in range(0, len(terms), _WRITTEN_AT_ONCE):
            self._check()
            self._write(terms[at : at + _WRITTEN_AT_ONCE])

    def _write(self, terms: Sequence[str]) -> None:
        rows = []
        for term in terms:
            found = self.db.execute("SELECT postings FROM terms WHERE term = ?", (term,)).fetchone()
            postings = array("I", found[0] if found else b"")
            for entry in self._removed.get(term, ()):
                postings.remove(entry)
            added = sorted(self._added.get(term, ()))
            if added and postings and added[0] < postings[-1]:
                postings = array("I", sorted([*postings, *added]))
            else:
                postings.extend(added)
            rows.append((term, postings.tobytes()))
        self.db.executemany("REPLACE INTO terms VALUES (?, ?)", [row for row in rows if row[1]])
        self.db.executemany("DELETE FROM terms WHERE term = ?", [(term,) for term, left in rows if not left])


def _new_ids(db: sqlite3.Connection, changed: Mapping[str, Stamp | None]) -> dict[str, Iterator[int]]:
    """Ids for new chunks by file: those of newer notes are higher, although they are taken up first."""
    begin = db.execute("SELECT coalesce(max(id), 0) FROM chunks").fetchone()[0] + 1
    ids: dict[str, Iterator[int]] = {}
    for name, stamp in changed.items():
        end = begin + (stamp[1] if stamp else 0) // _CHUNK_BYTES + 1
        ids[name], begin = iter(range(begin, end)), end
    return ids


def _loaded(data: bytes) -> tuple[NoteEntry, ...]:
    return tuple(map(NoteEntry._make, marshal.loads(data)))


def _postings(chunk: int, entries: Sequence[NoteEntry]) -> set[tuple[str, int]]:
    """Each term of a chunk's entries with the entry's id."""
    found: set[tuple[str, int]] = set()
    for at, entry in enumerate(entries):
        found.update(zip({*entry.terms.split(), *entry.heading.split()}, repeat(chunk << 8 | at)))
    return found


def _open(path: Path) -> sqlite3.Connection:
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
        db.executescript(_SCHEMA)
        db.execute("SELECT count(*) FROM files").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


_FEWEST_ENTRIES = 100
"""A word is not common because the only note has it."""
_WRITTEN_AT_ONCE = 200
_CHUNK_BYTES = 512
"""A chunk has more as a rule; where it has less, the file's last chunks are numbered after all others."""
_SCHEMA = f"""
PRAGMA user_version = {FORMAT};
CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, mtime INTEGER, size INTEGER, digest BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunks (
    id INTEGER PRIMARY KEY, file TEXT, row INTEGER, first INTEGER, last INTEGER, entries INTEGER, length INTEGER,
    data BLOB
);
CREATE INDEX IF NOT EXISTS chunks_of_file ON chunks (file, row);
CREATE INDEX IF NOT EXISTS chunks_of_days ON chunks (last, first);
CREATE INDEX IF NOT EXISTS chunks_by_size ON chunks (entries, length);
CREATE TABLE IF NOT EXISTS terms (term TEXT PRIMARY KEY, postings BLOB);
"""
