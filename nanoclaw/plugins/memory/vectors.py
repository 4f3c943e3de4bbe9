"""Vectors of the notes' lines, in the index: each is made once, and those nearest to a question are found."""

from __future__ import annotations

import hashlib
import math
import sqlite3
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw.plugins.memory.chunks import CLOCK, NoteEntry, entries
from nanoclaw.plugins.memory.index_file import FILE_BITS, loaded

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.index import Index

LONGEST = 1_000  # characters of a line that its vector is made of
NEAREST = 30  # lines that a question is compared with, whatever their words
_LOOKED_AT = 200  # lines with the nearest signatures, of which the nearest vectors are chosen
_ENTRY_BITS = FILE_BITS + 8
_LONGEST_LOOK = 0.05  # seconds

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector_model (name TEXT, size INTEGER, cohort BLOB);
CREATE TABLE IF NOT EXISTS vectors (key INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS signatures (key INTEGER PRIMARY KEY, bits BLOB);
CREATE TABLE IF NOT EXISTS lines (entry INTEGER PRIMARY KEY, key INTEGER);
CREATE INDEX IF NOT EXISTS lines_by_key ON lines (key);
CREATE TABLE IF NOT EXISTS lines_of (file INTEGER PRIMARY KEY, digest BLOB, is_done INTEGER);
"""


class Nearness:
    """Distances of lines from one question. A line's is 0 if it is as near as any line that has nothing to do with it,
    and 1 or more where it is nearer than nearly all such lines, whatever the model."""

    def __init__(self, table: VectorTable, vector: Sequence[float], cohort: Sequence[bytes]) -> None:
        self._table = table
        self._vector = _unit(vector)
        others = [_cosine(self._vector, data) for data in cohort]
        self._mean = math.fsum(others) / len(others)
        self._spread = math.sqrt(math.fsum((each - self._mean) ** 2 for each in others) / len(others)) or 1.0
        self._known: dict[int, float] = {}
        self.entries: dict[int, float] = {}
        """Ids of the nearest entries, with how near they are."""

    def compare(self, entries: Iterable[NoteEntry]) -> None:
        """Look at more entries than the nearest."""
        self.look_up({key_of(entry) for entry in entries})

    def of(self, entry: NoteEntry) -> float:
        """Nearness of an entry, 0 for one that was not looked at."""
        return self._known.get(key_of(entry), 0.0)

    def look_up(self, keys: Set[int]) -> Mapping[int, float]:
        """Nearness of all lines that were looked at, by key, with those of `keys`."""
        for key, data in self._table.rows("SELECT key, data FROM vectors", keys - self._known.keys()):
            self._known[key] = (_cosine(self._vector, data) - self._mean) / self._spread
        return self._known


class VectorTable:
    """The vectors of one model. Hold the index's lock."""

    def __init__(self, index: Index, model: str) -> None:
        self._index, self._model = index, model
        self._db: sqlite3.Connection | None = None
        self._version, self._is_clear = 0, False
        self._keys: list[int] = []
        self._bits: list[int] = []
        self._cohort: list[bytes] = []
        self._centre: list[float] = []

    def missing(self, most: int) -> tuple[list[tuple[int, str]], bool]:
        """Keys and texts of lines without a vector, the newest first, and whether these are all. Of many it gives some,
        at least one file's: a query waits meanwhile."""
        db, found, until = self._opened(), dict[int, str](), time.monotonic() + _LONGEST_LOOK
        sql = (
            "SELECT files.id, name, files.digest FROM files LEFT JOIN lines_of ON lines_of.file = files.id"
            " WHERE lines_of.digest IS NOT files.digest OR NOT is_done ORDER BY files.id DESC"
        )
        for file, name, digest in db.execute(sql).fetchall():
            found |= self._missing_of(db, file, name, digest)
            self._is_clear = False
            if len(found) >= most or time.monotonic() > until:
                return list(found.items()), False
        gone = "SELECT 1 FROM lines_of WHERE file NOT IN (SELECT id FROM files) LIMIT 1"
        if not found and (not self._is_clear or db.execute(gone).fetchall()):
            self._clear_away(db)
            self._is_clear = True
        return list(found.items()), True

    def begin(self, cohort: Sequence[Sequence[float]] = ()) -> None:
        """Begin anew with a model: `cohort` are the vectors of `cohort_texts`, none for one that is still unknown."""
        db = self._opened()
        with db:
            self._empty(db)
            packed = b"".join(_packed(_unit(each)) for each in cohort)
            rows = [(self._model, len(cohort[0]), packed)] if cohort else []
            db.executemany("INSERT INTO vector_model VALUES (?, ?, ?)", rows)
        self._load(db)

    def add(self, vectors: Mapping[int, Sequence[float]]) -> bool:
        """Keep vectors by key; False, and away with all, where they have another size: that is another model."""
        db = self._opened()
        rows = [(key, _unit(vector)) for key, vector in vectors.items()]
        if any(len(vector) != len(self._centre) for _, vector in rows):
            self.begin()
            return False
        with db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("REPLACE INTO vectors VALUES (?, ?)", [(key, _packed(vector)) for key, vector in rows])
            bits = [(key, self._signature(vector)) for key, vector in rows]
            size = len(self._centre) + 7 >> 3
            db.executemany("REPLACE INTO signatures VALUES (?, ?)", [(key, each.to_bytes(size)) for key, each in bits])
        self._keys += [key for key, _ in bits]
        self._bits += [each for _, each in bits]
        return True

    @property
    def has_begun(self) -> bool:
        self._opened()
        return bool(self._cohort)

    @property
    def size(self) -> int:
        """Numbers of one vector; 0 if there is none."""
        self._opened()
        return len(self._centre) if self._keys else 0

    def progress(self) -> tuple[int, int]:
        db = self._opened()
        ((made,),) = db.execute(
            "SELECT count(*) FROM lines WHERE key IN (SELECT key FROM signatures)"
            f" AND entry >> {_ENTRY_BITS} IN (SELECT id FROM files, lines_of WHERE id = file AND"
            " lines_of.digest = files.digest)"
        )
        ((lines,),) = db.execute("SELECT coalesce(sum(entries), 0) FROM chunks")
        return made, lines

    def _missing_of(self, db: sqlite3.Connection, file: int, name: str, digest: bytes) -> dict[int, str]:
        """Those of one file, whose lines are written down; it is done with where none is missing."""
        text = self._index.text(name)
        if hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() != digest:  # changed meanwhile
            return {}
        every = ((row, title, CLOCK.sub("", words).strip()) for row, _, title, words, _ in entries(text))
        said = {row: f"{title}: {words}" if _tells(title) else words for row, title, words in every}
        first, last = file << FILE_BITS, (file + 1 << FILE_BITS) - 1
        sql = "SELECT id, row, data FROM chunks WHERE id BETWEEN ? AND ?"
        lines = [
            (id << 8 | at, key_of(entry), said.get(row + entry.start) or entry.terms or "-")
            for id, row, data in db.execute(sql, (first, last)).fetchall()
            for at, entry in enumerate(loaded(data))
        ]
        known = {key for key, _ in self.rows("SELECT key, 0 FROM signatures", [key for _, key, _ in lines])}
        missing = {key: words[:LONGEST] for _, key, words in lines if key not in known}
        with db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM lines WHERE entry BETWEEN ? AND ?", (first << 8, (last << 8) | 255))
            db.executemany("INSERT INTO lines VALUES (?, ?)", [(id, key) for id, key, _ in lines])
            db.execute("REPLACE INTO lines_of VALUES (?, ?, ?)", (file, digest, not missing))
        return missing

    def _clear_away(self, db: sqlite3.Connection) -> None:
        """Delete vectors of lines that are gone."""
        with db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM lines_of WHERE file NOT IN (SELECT id FROM files)")
            db.execute(f"DELETE FROM lines WHERE entry >> {_ENTRY_BITS} NOT IN (SELECT id FROM files)")
            gone = db.execute("DELETE FROM signatures WHERE key NOT IN (SELECT key FROM lines)").rowcount
            if gone:
                db.execute("DELETE FROM vectors WHERE key NOT IN (SELECT key FROM lines)")
        if gone:
            self._load(db)

    def near(self, vector: Sequence[float]) -> Nearness | None:
        """The lines nearest to a question; None if there is nothing to compare it with."""
        self._opened()
        if not self._keys or len(vector) != len(self._centre):
            return None
        found = Nearness(self, vector, self._cohort)
        wanted = self._signature(_unit(vector))
        away = [(bits ^ wanted).bit_count() for bits in self._bits]
        counts = Counter(away)
        distances = sorted(counts)
        below = accumulate(counts[each] for each in distances)
        most = next((each for each, count in zip(distances, below, strict=True) if count >= _LOOKED_AT), distances[-1])
        keys = [key for key, distance in zip(self._keys, away, strict=True) if distance <= most]
        known = found.look_up({*keys[: 4 * _LOOKED_AT]})
        best = sorted(known, key=known.__getitem__, reverse=True)[:NEAREST]
        found.entries = {entry: known[key] for key, entry in self.rows("SELECT key, entry FROM lines", best)}
        return found

    def rows(self, select: str, keys: Iterable[int]) -> list[tuple[int, Any]]:
        every, found = sorted({*keys}), list[tuple[int, Any]]()
        for at in range(0, len(every), 500):
            some = every[at : at + 500]
            found += self._opened().execute(f"{select} WHERE key IN ({','.join('?' * len(some))})", some).fetchall()
        return found

    def _signature(self, vector: Sequence[float]) -> int:
        """A bit for each number: above the usual or not. Of near vectors few differ."""
        return int("".join(["1" if a > b else "0" for a, b in zip(vector, self._centre, strict=True)]), 2)

    def _opened(self) -> sqlite3.Connection:
        db = self._index.connection()
        if db is not self._db:
            self._db = None
            db.executescript(_SCHEMA)
            named = db.execute("SELECT name FROM vector_model").fetchall()
            if named and named != [(self._model,)]:
                with db:
                    self._empty(db)
            self._load(db)
            self._db = db
        elif self._version != db.execute("PRAGMA data_version").fetchone()[0]:  # another process wrote
            self._load(db)
        return db

    def _load(self, db: sqlite3.Connection) -> None:
        self._version = db.execute("PRAGMA data_version").fetchone()[0]
        row = db.execute("SELECT size, cohort FROM vector_model WHERE name = ?", (self._model,)).fetchone()
        size, packed = row or (0, b"")
        step = size + array("f").itemsize
        self._cohort = [packed[at : at + step] for at in range(0, len(packed), step)]
        units = [_unit(array("b", each[-size:])) for each in self._cohort]
        self._centre = [math.fsum(each) / len(units) for each in zip(*units, strict=True)] if units else []
        signatures = db.execute("SELECT key, bits FROM signatures").fetchall() if size else []
        self._keys = [key for key, _ in signatures]
        self._bits = [int.from_bytes(bits) for _, bits in signatures]

    def _empty(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        for table in ("vector_model", "vectors", "signatures", "lines", "lines_of"):
            db.execute(f"DELETE FROM {table}")


@cache
def cohort_texts() -> list[str]:
    """Lines about all kinds of things: by how near these are to a question, chance is known."""
    return Path(__file__).with_name("cohort.txt").read_text("utf-8").splitlines()


def key_of(entry: NoteEntry) -> int:
    """Equal for lines with the same text, in any file."""
    text = f"{entry.terms}|{entry.heading}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def _tells(title: str) -> bool:
    """Tell a heading that says more than a day or time."""
    return sum(map(str.isalpha, title)) > 2 and not title[:4].isdigit()


def _unit(vector: Sequence[float]) -> Sequence[float]:
    length = math.hypot(*vector)
    return [each / length for each in vector] if length else vector


def _packed(vector: Sequence[float]) -> bytes:
    """A byte for each number, after the length that these have."""
    most = max(map(abs, vector))
    numbers = array("b", [round(127 * each / most) for each in vector])
    return array("f", [math.hypot(*numbers)]).tobytes() + numbers.tobytes()


def _cosine(unit: Sequence[float], packed: bytes) -> float:
    return float(sum(map(mul, unit, array("b", packed[4:])))) / array("f", packed[:4])[0]
