"""A derived index of the notes in one SQLite file: follows every change, and may be deleted at any time."""

from __future__ import annotations

import hashlib
import marshal
import math
import os
import re
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
from nanoclaw.plugins.memory.dates import find_dates
from nanoclaw.plugins.memory.notes import lines_of, memory_files, read_memory_file
from nanoclaw.tokenizer import fold, tokens

FORMAT = 3
"""Raised when an index of before means something else; another number is thrown away and built anew."""

PIECE_LINES = 64
"""Lines that are stored and replaced together; a line's id is its piece's times 256 plus its own."""

CACHED_PIECES = 128

MOST_RARITIES = 20_000
"""Words whose number of lines is remembered from one question to the next: 3 MB."""

MOST_UNWRITTEN = 200_000
"""Words of lines that are gathered before they are written: bounds the memory that a first build takes."""

MOST_AT_ONCE = 32_000
"""Bytes of changed notes that somebody who asks waits for, when there is another to take up the rest."""

MOST_GONE_AT_ONCE = 8
"""Files that are no longer there, the same."""

LOOKED_AT = 100
"""The newest notes are looked at for each question, as all of ten years would take 10 ms."""

LOOK_AGAIN_SECONDS = 60
"""All are looked at so often, and as soon as one was made, renamed or deleted. Only an old note that an editor writes
in place waits that long."""


class Line(NamedTuple):
    """One entry of a note: a bullet or a paragraph. Rows count from the piece's own first row."""

    serial: int
    start: int
    end: int
    characters: int
    words: int
    is_question: bool
    has_time: bool
    speaker: str
    day: int  # date.toordinal(), 0 for none
    section: int
    terms: str  # in order, a blank between: read much faster than a table
    heading: str


class Piece(NamedTuple):
    file: str
    row: int
    lines: tuple[Line, ...]
    terms: str  # of all its lines, each between blanks


class Stopped(Exception):
    """Raised by `between`; all that was taken up in whole steps is kept."""


class Index:
    """The notes of one workspace by their words. One thread at a time: hold `lock`."""

    def __init__(
        self,
        workspace: Workspace,
        path: Path,
        elsewhere: Callable[[], None] | None = None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """`elsewhere` is called when much has changed, to have another index of the same file take it up; until
        `resume` this one leaves changes alone. `between` is called every few milliseconds of taking up: it may wait,
        or raise Stopped.
        """
        self.workspace, self.path = workspace, path
        self._root = os.fspath(workspace.root)  # joined thousands of times
        self._elsewhere = elsewhere
        self._between = between
        self._handed_over = False
        self.lock = threading.RLock()
        self.lines, self.average, self.pieces = 0, 1.0, 0
        self._names: list[str] = []
        self._folder: tuple[int, int] | None = None
        self._looked = 0.0
        self._db: sqlite3.Connection | None = None
        self._stamps: dict[str, tuple[int, int]] = {}
        self._cache: OrderedDict[int, Piece] = OrderedDict()
        self._rarities: dict[str, float] = {}
        self._version = self._inode = 0

    def resume(self) -> None:
        """What was left to another is done."""
        self._handed_over = False

    def close(self) -> None:
        with self.lock:
            self._disconnect()

    def discard(self) -> None:
        """Delete the file, so that no word of it is left on disk; the next search builds it anew."""
        with self.lock:
            self._disconnect()
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self.path.with_name(self.path.name + suffix).unlink()

    def refresh(self) -> None:
        """Take up what changed on disk since the last time. Raises Stopped."""
        db = self._connected()
        if self._handed_over:
            return
        names, is_all = self._looked_at()
        found = {name: stamp for name in names if (stamp := self._stamp(name))}
        stale = [name for name, stamp in found.items() if self._stamps.get(name) != stamp]
        gone = [name for name in (self._stamps if is_all else names) if name in self._stamps and name not in found]
        if not stale and not gone:
            return
        newest_last = sorted(stale, key=lambda name: ("/" not in name, name))
        later = self._later([(name, found[name][1]) for name in newest_last]) if self._elsewhere else 0
        many_gone = self._elsewhere is not None and len(gone) > MOST_GONE_AT_ONCE and self._inode != 0
        self._take_up(db, newest_last[later:], [] if many_gone else gone, found)
        self._cache.clear()
        self._measure()
        if later or many_gone:
            self._looked = 0.0
            if self._elsewhere and self._inode:
                self._handed_over = True
                self._elsewhere()

    def _looked_at(self) -> tuple[Sequence[str], bool]:
        """The files to look at now, and whether these are all."""
        folder = self._stamp(self.workspace.notes.name)
        is_all = not folder or folder[0] == 0 or folder != self._folder
        is_all = is_all or len(self._names) <= LOOKED_AT or time.monotonic() - self._looked > LOOK_AGAIN_SECONDS
        if is_all:
            self._names, self._folder, self._looked = memory_files(self.workspace), folder, time.monotonic()
        return (self._names if is_all else ["MEMORY.md", *self._names[-LOOKED_AT:]]), is_all

    def _later(self, files: Sequence[tuple[str, int]]) -> int:
        """How many of the files, the newest last, are too much for now."""
        room = MOST_AT_ONCE
        for left in range(len(files), 0, -1):
            room -= files[left - 1][1]
            if room < 0:
                alone = left == len(files) and not self._inode  # nobody else can see an index in memory
                return left - alone
        return 0

    def _take_up(
        self, db: sqlite3.Connection, left: list[str], gone: Sequence[str], found: Mapping[str, tuple[int, int]]
    ) -> None:
        """The last file first and in several steps, so that who asks meanwhile finds the newest notes."""
        room = _Room(db, {name: found[name][1] for name in left})
        while left or gone:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:  # another is at it: what is there will do
                self._looked = 0.0
                return
            with db:
                changes = _Changes(db, self._between)
                for name in gone:
                    changes.replace(name, [])
                    db.execute("DELETE FROM files WHERE name = ?", (name,))
                done = []
                while left and changes.size < MOST_UNWRITTEN:
                    self._between()
                    done.append(left.pop())
                    self._read(changes, done[-1], found[done[-1]], room)
                changes.write()
            for name in gone:
                del self._stamps[name]
            self._stamps.update({name: found[name] for name in done})
            gone = ()

    def postings(self, term: str) -> array[int]:
        """The ids of the lines that have the term."""
        row = self._opened().execute("SELECT lines FROM terms WHERE term = ?", (term,)).fetchone()
        return array("I", row[0]) if row else array("I")

    def known(self, terms: Iterable[str]) -> list[str]:
        """Those of the terms that some line has."""
        every = list(terms)
        marks = ",".join("?" * len(every))
        rows = self._opened().execute(f"SELECT term FROM terms WHERE term IN ({marks})", every)
        return [term for (term,) in rows]

    def idf(self, lines: int) -> float:
        """How much a term tells that so many lines have."""
        return math.log(1 + (max(self.lines, _FEWEST_LINES) - lines + 0.5) / (lines + 0.5))

    def rarities(self, terms: Iterable[str]) -> dict[str, float]:
        """The idf of these and other terms, 0 for one that a single line has. They are kept until notes change."""
        if len(self._rarities) > MOST_RARITIES:
            self._rarities.clear()
        unknown = sorted(term for term in terms if term not in self._rarities)[:MOST_RARITIES]  # in order: much faster
        marks = ",".join("?" * len(unknown))
        sql = f"SELECT term, length(lines) / 4 FROM terms WHERE term IN ({marks})"
        for term, lines in self._opened().execute(sql, unknown):
            self._rarities[term] = self.idf(lines) if lines > 1 else 0.0
        return self._rarities

    def piece(self, number: int) -> Piece:
        if number not in self._cache:
            sql = "SELECT file, row, data FROM pieces WHERE id = ?"
            file, row, data = self._opened().execute(sql, (number,)).fetchone()
            lines = tuple(map(Line._make, marshal.loads(data)))
            terms = f" {' '.join([f'{line.terms} {line.heading}' for line in lines])} "
            self._cache[number] = Piece(file, row, lines, terms)
            if len(self._cache) > CACHED_PIECES:
                self._cache.popitem(last=False)
        self._cache.move_to_end(number)
        return self._cache[number]

    def between(self, first: date, last: date, most: int) -> list[int]:
        """The pieces with lines of these days, the newest first."""
        sql = "SELECT id FROM pieces WHERE first <= ? AND last >= ? AND first > 0 ORDER BY last DESC LIMIT ?"
        return [n for (n,) in self._opened().execute(sql, (last.toordinal(), first.toordinal(), most))]

    def _stamp(self, name: str) -> tuple[int, int] | None:
        try:
            found = os.lstat(f"{self._root}/{name}")
        except OSError:
            return None
        # a file that was just written may be written again within the clock's grain: look again next time
        fresh = abs(time.time_ns() - found.st_mtime_ns) < 50_000_000
        return (0 if fresh else found.st_mtime_ns, found.st_size)

    def _read(self, changes: _Changes, name: str, stamp: tuple[int, int], room: _Room) -> None:
        try:
            text = read_memory_file(self.workspace, name) or ""
        except WorkspaceError:
            text = ""
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        known = changes.db.execute("SELECT digest FROM files WHERE name = ?", (name,)).fetchone()
        if not known or known[0] != digest:
            changes.replace(name, list(_pieces(text, name)), room.of(name))
        changes.db.execute("REPLACE INTO files VALUES (?, ?, ?, ?)", (name, *stamp, digest))

    def _opened(self) -> sqlite3.Connection:
        """As the last refresh left it: a question is answered from one state."""
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
        if self._elsewhere:
            self._db.execute("PRAGMA busy_timeout = 20")  # who asks does not wait for who writes
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
        sql = "SELECT count(*), coalesce(sum(lines), 0), coalesce(sum(words), 0) FROM pieces"
        self._rarities.clear()
        self.pieces, self.lines, words = self._db.execute(sql).fetchone()
        self.average = words / self.lines if words else 1.0

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None
        self._stamps.clear()
        self._cache.clear()


class _Changes:
    """Pieces replaced in one transaction; the words' lists are written once, at the end."""

    def __init__(self, db: sqlite3.Connection, between: Callable[[], None]) -> None:
        self.db, self._between = db, between
        self.size = 0
        self._added: defaultdict[str, array[int]] = defaultdict(_no_lines)
        self._removed: dict[str, list[int]] = {}

    def replace(self, file: str, pieces: Sequence[tuple[int, list[Line]]], numbers: Iterable[int] = ()) -> None:
        """A file's pieces; those that are as before stay, at the beginning and at the end. New ones get `numbers`."""
        sql = "SELECT id, row, data FROM pieces WHERE file = ? ORDER BY row"
        old = self.db.execute(sql, (file,)).fetchall()
        new = [(row, lines, marshal.dumps([tuple(line) for line in lines])) for row, lines in pieces]
        while old and new and old[0][2] == new[0][2] and old[0][1] == new[0][0]:
            del old[0], new[0]
        while old and new and old[-1][2] == new[-1][2]:
            self.db.execute("UPDATE pieces SET row = ? WHERE id = ?", (new.pop()[0], old.pop()[0]))
        for at, (number, _, data) in enumerate(old):
            before = list(map(Line._make, marshal.loads(data)))
            if at < len(new):
                self._put(number, file, new[at], before)
            else:
                self.db.execute("DELETE FROM pieces WHERE id = ?", (number,))
                self._count(number, before, [])
        free = iter(numbers)
        for piece in new[len(old) :]:
            self._put(self._new_piece(next(free, None)), file, piece, [])

    def _new_piece(self, number: int | None) -> int:
        """The number of a new piece: the given one unless another process was faster, else the next."""
        sql = "INSERT OR IGNORE INTO pieces (id, file, row, first, last, lines, words) VALUES (?,'',0,0,0,0,0)"
        cursor = self.db.execute(sql, (number,))
        if not cursor.rowcount:
            cursor = self.db.execute(sql, (None,))
        return cursor.lastrowid or 0

    def write(self) -> None:
        terms = [*(self._added.keys() | self._removed.keys())]
        for at in range(0, len(terms), _WRITTEN_AT_ONCE):
            self._between()
            self._write(terms[at : at + _WRITTEN_AT_ONCE])
        self._added.clear()
        self._removed.clear()
        self.size = 0

    def _write(self, terms: Sequence[str]) -> None:
        rows = []
        for term in terms:
            found = self.db.execute("SELECT lines FROM terms WHERE term = ?", (term,)).fetchone()
            lines = array("I", found[0] if found else b"")
            for number in self._removed.get(term, ()):
                lines.remove(number)
            added = sorted(self._added.get(term, ()))
            if added and lines and added[0] < lines[-1]:
                lines = array("I", sorted([*lines, *added]))
            else:
                lines.extend(added)
            rows.append((term, lines.tobytes()))
        self.db.executemany("REPLACE INTO terms VALUES (?, ?)", [row for row in rows if row[1]])
        self.db.executemany("DELETE FROM terms WHERE term = ?", [(term,) for term, lines in rows if not lines])

    def _put(self, number: int, file: str, piece: tuple[int, list[Line], bytes], before: list[Line]) -> None:
        """Write a piece; a line that it had before keeps its id, so that only changed lines cost."""
        row, lines, data = piece
        if before:
            lines = _with_serials(lines, before)
            data = marshal.dumps([tuple(line) for line in lines])
        days = [line.day for line in lines]
        values = (file, row, min(days), max(days), len(lines), sum(line.words for line in lines), data, number)
        sql = "UPDATE pieces SET file = ?, row = ?, first = ?, last = ?, lines = ?, words = ?, data = ? WHERE id = ?"
        self.db.execute(sql, values)
        self._count(number, before, lines)

    def _count(self, number: int, before: list[Line], lines: list[Line]) -> None:
        old = _occurrences(number, before)
        new = _occurrences(number, lines)
        for term, serial in old - new if old else ():
            self._removed.setdefault(term, []).append(serial)
        for term, serial in new - old if old else new:
            self._added[term].append(serial)
        self.size += len(new)


class _Room:
    """Numbers for pieces of files that are taken up together: the newest note's are the highest, whichever is first."""

    def __init__(self, db: sqlite3.Connection, sizes: Mapping[str, int]) -> None:
        """`sizes` are bytes, the oldest file first."""
        begin = db.execute("SELECT coalesce(max(id), 0) FROM pieces").fetchone()[0] + 1
        self._ranges: dict[str, range] = {}
        for name, size in sizes.items():
            self._ranges[name] = range(begin, begin + size // _PIECE_BYTES + 1)
            begin = self._ranges[name].stop

    def of(self, name: str) -> Iterable[int]:
        return self._ranges[name]


def _no_lines() -> array[int]:
    return array("I")


def _occurrences(number: int, lines: Sequence[Line]) -> set[tuple[str, int]]:
    """Each word of a piece's lines with the line's id."""
    found: set[tuple[str, int]] = set()
    for line in lines:
        found.update(zip({*line.terms.split(), *line.heading.split()}, repeat(number << 8 | line.serial)))
    return found


def _with_serials(lines: list[Line], before: list[Line]) -> list[Line]:
    known: dict[str, list[int]] = {}
    for line in reversed(before):
        known.setdefault(line.terms, []).append(line.serial)
    kept = [serials.pop() if (serials := known.get(line.terms)) else None for line in lines]
    free = iter(sorted(set(range(256)) - set(kept)))
    return [
        line._replace(serial=next(free) if serial is None else serial) for line, serial in zip(lines, kept, strict=True)
    ]


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


def entries(text: str) -> Iterator[tuple[int, int, str, str]]:
    """First row, last row, heading above and text of each bullet and paragraph, struck words left out."""
    heading, begun = "", list[tuple[int, str]]()
    for row, line in enumerate([*lines_of(text), ""], 1):
        is_heading = line.startswith("#")
        if begun and (is_heading or not line.strip() or BULLET.match(line)):
            said = clean([each for _, each in begun])
            if said:
                yield begun[0][0], begun[-1][0], heading, said
            begun = []
        if is_heading:
            heading = line.lstrip("# ").strip()
            yield row, row, heading, ""
        elif line.strip():
            begun.append((row, line))


def clean(lines: Sequence[str]) -> str:
    """What the lines of an entry say, without bullet and struck words; '' when nothing is left."""
    text = "\n".join(line.strip() for line in lines)
    text = _STRUCK.sub("", BULLET.sub("", text, count=1)).strip()
    return text if _WORD.search(_STAMP.sub("", text)) else ""


def _pieces(text: str, name: str) -> Iterator[tuple[int, list[Line]]]:
    """Lines in pieces, each with its first row; a new piece begins at a heading where it can."""
    own = _day(name.rpartition("/")[2].removesuffix(".md"))
    day, section, row, heading = own, 0, 1, tuple[str, ...]()
    lines: list[Line] = []
    for start, end, title, said in entries(text):
        if not said:
            section += 1
            spans, rest = find_dates(fold(title), own or date.min) if _YEAR.search(title) else ([], title)
            day = spans[0].first if len(spans) == 1 and spans[0].days == 1 else own
            heading = tuple(dict.fromkeys(tokens(rest))) if _LETTER.search(rest) else ()
        if lines and (len(lines) == PIECE_LINES or (not said and len(lines) >= PIECE_LINES // 4)):
            yield row, lines
            lines = []
        if not lines:
            row, first = start, section
        if said:
            lines.append(_line(len(lines), start - row, end - row, said, day, section - first, heading))
    if lines:
        yield row, lines


def _line(
    serial: int, start: int, end: int, said: str, day: date | None, section: int, heading: tuple[str, ...]
) -> Line:
    terms = list(tokens(said))
    dated = _DATED.match(said)
    own = (_day(dated[1]) if dated else None) or day
    speaker = _SPEAKER.match(said)
    return Line(
        serial,
        start,
        end,
        len(said),
        len(terms),
        said.endswith(("?", "？")),
        bool(_TIME.search(said)),
        fold(speaker[1]) if speaker else "",
        own.toordinal() if own else 0,
        section,
        " ".join(terms),
        " ".join(term for term in heading if term not in terms),
    )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


_FEWEST_LINES = 100
"""A word is not common because the only note has it."""
_WRITTEN_AT_ONCE = 200
_PIECE_BYTES = 512
"""A piece has more as a rule; where it has less, the file's last pieces are numbered after all others."""
BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
_STRUCK = re.compile(r"~~.+?~~", re.DOTALL)
_STAMP = re.compile(r"\d{4}-\d\d-\d\d|\b\d\d:\d\d\b")
_WORD = re.compile(r"[^\W_]")
_LETTER = re.compile(r"[^\W\d_]")
_YEAR = re.compile(r"\d{4}")
_DATED = re.compile(r"(\d{4}-\d\d-\d\d)\b")
_SPEAKER = re.compile(r"(?:\d\d:\d\d )?([^\W\d_][^\n:：]{0,30})[:：]\s")
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|weeks?|weekend|months?|years?|days?|morning|recently|since|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|september|october|"
    r"november|december|summer|winter|spring|autumn|fall|\d{4}|\d{1,2}(?::\d\d|th|st|nd|rd))\b|"
    r"[昨今明前后後]天|[年月日号號周週]|星期",
    re.IGNORECASE,
)
_SCHEMA = f"""
PRAGMA user_version = {FORMAT};
CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, mtime INTEGER, size INTEGER, digest BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pieces (
    id INTEGER PRIMARY KEY, file TEXT, row INTEGER, first INTEGER, last INTEGER, lines INTEGER, words INTEGER, data BLOB
);
CREATE INDEX IF NOT EXISTS pieces_of_file ON pieces (file, row);
CREATE INDEX IF NOT EXISTS pieces_of_days ON pieces (last, first);
CREATE INDEX IF NOT EXISTS pieces_by_size ON pieces (lines, words);
CREATE TABLE IF NOT EXISTS terms (term TEXT PRIMARY KEY, lines BLOB);
"""
