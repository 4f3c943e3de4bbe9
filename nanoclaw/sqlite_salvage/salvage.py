"""The way on from a damaged database: what SELECT still reads of it, over the newest copy."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.atomic_write import drafted, sync_folder
from nanoclaw.sqlite_salvage.copies import JSON, daily_copies, is_whole
from nanoclaw.sqlite_salvage.pages import DAMAGED
from nanoclaw.sqlite_salvage.table_list import SEQUENCE, WHOLE_TABLES, Columns, Listed, listed
from nanoclaw.sqlite_salvage.wal import WriteAheadLog


class Schema(NamedTuple):
    """The database that a program expects."""

    words: Mapping[str, str]  # the person's words for tables; of others the rows are told
    closing: Mapping[str, str]  # by table, SQL for the rows of a copy before newer ones are put over them
    parents: Mapping[str, str]  # by table, SQL that makes the row of an id that others refer to, where it is lost
    bring_up: Callable[[sqlite3.Connection], bool]  # makes a copy, or an empty file, today's; False where it can't be
    mend: Callable[[sqlite3.Connection, str], None]  # makes rows that others need; also told the damaged file's name


def recover(path: Path, schema: Schema) -> str:
    """Keep a damaged database aside and put in its place the newest copy, with all that can still be read over it.

    Only for the owner. Returns what happened as a sentence. Raises OSError and sqlite3.Error, and leaves all as it was,
    if there is no room. Whenever it is interrupted, the next one continues with the same file and its journal.
    """
    aside = _keep_aside(path)
    with drafted(path) as draft:
        copy = _newest_copy(path, draft, schema)
        journal = WriteAheadLog(_journal(aside))
        tables = _fill(draft, aside, journal, schema)
        for suffix in ("-wal", "-shm"):  # a journal would be played into the new file
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        sync_folder(path.parent)
    said = _in_words(copy, tables, {WHOLE_TABLES: WHOLE_TABLES, **schema.words})
    if lost := journal.lost:
        said += f" Its journal is damaged: some of the last {lost:,} writes may be missing."
    return f"{path} was damaged and is kept as {aside.name}. {said}"


def _in_words(copy: Path | None, tables: Sequence[Table], words: Mapping[str, str]) -> str:
    """Tell what goes on and what is missing."""
    base = f"the copy of {copy.stem.partition('-')[2]}" if copy else ""
    if not any(table.read for table in tables):
        return f"Nothing of it could be read: {f'{base} is used' if base else 'there is no copy: starting anew'}."
    missing = ", ".join(table.report(words) for table in tables if table.missing != 0)
    said = f"What could be read is used{f', over {base}' if base else ''}."
    return f"{said} Missing of what it held: {missing}." if missing else f"{said} Nothing is missing."


def _keep_aside(path: Path) -> Path:
    """Give the file, and its journal, a second name before anything is done."""
    earlier = (other for other in path.parent.glob(f"{path.name}.damaged-*") if other.samefile(path))
    if (aside := next(earlier, None)) is None:
        stamp = f"{path.name}.damaged-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
        names = (stamp if not number else f"{stamp}-{number}" for number in range(1000))
        aside = path.with_name(next(name for name in names if not path.with_name(name).exists()))
        os.link(path, aside)
    wal, aside_wal = _journal(path), _journal(aside)
    if wal.exists() and wal.stat().st_size and not aside_wal.exists():
        os.link(wal, aside_wal)
    sync_folder(path.parent)
    return aside


def _journal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _newest_copy(path: Path, draft: Path, schema: Schema) -> Path | None:
    """Put the newest copy that is whole into the draft, an empty database where there is none."""
    for copy in daily_copies(path):
        shutil.copyfile(copy, draft)
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            try:
                if is_whole(db) and db.execute("PRAGMA user_version").fetchone()[0] and schema.bring_up(db):
                    return copy
            except sqlite3.Error:
                continue
    draft.write_bytes(b"")
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        schema.bring_up(db)
    return None


class Table(NamedTuple):
    """Rows that were read, and the most that can be missing, None if nobody can tell."""

    name: str
    read: int
    missing: int | None

    def without(self, dropped: int) -> Table:
        return self if self.missing is None else self._replace(missing=self.missing + dropped)

    def report(self, words: Mapping[str, str]) -> str:
        called = words.get(self.name, f"rows of {self.name.replace('_', ' ')}")
        return f"some {called}" if self.missing is None else f"at most {self.missing:,} {called}"


def _fill(draft: Path, damaged: Path, journal: WriteAheadLog, schema: Schema) -> list[Table]:
    """Take over what SELECT reads of a damaged database with all of its journal that is whole; what could not be read
    stays as the draft has it."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as new:
        new.executescript("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF")
        content = journal.played_into(damaged.read_bytes(), is_mended=True)
        old = listed(content, dict(new.execute(_TABLES)))
        new.execute("BEGIN")
        with closing(old.db):
            tables = list(_take_over(old, new, schema.closing))
        schema.mend(new, damaged.name)
        dropped = _drop_loose_ends(new, schema.parents)
        new.execute("COMMIT")
        if not is_whole(new):
            raise sqlite3.DatabaseError("what was read of it is not a complete database")
    return [table.without(dropped[table.name]) for table in tables]


_TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"


def _take_over(old: Listed, new: sqlite3.Connection, closing: Mapping[str, str]) -> Iterator[Table]:
    """Replace the rows of whole tables, and put those of damaged ones over what the copy has."""
    for sql in old.others.values():  # of plugins that don't run
        with suppress(sqlite3.Error):
            new.execute(sql)
    for table, _ in new.execute(_TABLES).fetchall():
        if table in old.rows and is_whole(old.db, table):
            new.execute(f'DELETE FROM "{table}"')
            count = _take_rows(old, new, table)
            yield Table(table, count, max(0, _count(old.db, table) - count))
        elif table in old.rows or table in old.lost:  # else there was none
            new.execute(closing.get(table, "SELECT 1"))
            count, last = _take_rows(old, new, table), _last(old.db, table)
            yield Table(table, count, max(0, last - _count(new, table)) if last else None)
    if WHOLE_TABLES in old.lost:
        yield Table(WHOLE_TABLES, 0, None)
    for _, (name, last) in old.rows.get(SEQUENCE, ()):  # no number is given a second time
        with suppress(sqlite3.Error):
            new.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))


def _take_rows(old: Listed, new: sqlite3.Connection, table: str) -> int:
    """Copy all rows that can be read, and return their number."""
    columns = Columns.of(new, table)
    body = columns.names.index(f'"{JSON}"') if f'"{JSON}"' in columns.names else None
    return sum(
        columns.insert(new, row)
        for row in old.rows.get(table, ())
        if body is None or _is_json(new, row[1][body : body + 1])
    )


def _is_json(db: sqlite3.Connection, values: list[Any]) -> bool:
    return DAMAGED not in values and db.execute("SELECT json_valid(?)", values).fetchone() == (1,)


def _last(db: sqlite3.Connection, table: str) -> int | None:
    with suppress(sqlite3.Error):
        return int(db.execute(f'SELECT ifnull(max(rowid), 0) FROM "{table}"').fetchone()[0])
    return None


def _count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def _drop_loose_ends(db: sqlite3.Connection, parents: Mapping[str, str]) -> Counter[str]:
    """Rows whose other half is lost: it is made again where the schema says how; else the link is emptied where it may
    be, or the row goes. Counts those by table."""
    dropped: Counter[str] = Counter()
    while broken := db.execute("PRAGMA foreign_key_check").fetchall():
        for table, row, parent, key in broken:
            column = next(each[3] for each in db.execute(f'PRAGMA foreign_key_list("{table}")') if each[0] == key)
            (its,) = (each for each in db.execute(f'PRAGMA table_info("{table}")') if each[1] == column)
            if parent in parents:
                told = db.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,)).fetchall()
                db.executemany(parents[parent], told)
            elif its[3] or its[5]:  # required, or a part of the key
                dropped[table] += db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,)).rowcount
            else:
                db.execute(f'UPDATE "{table}" SET "{column}" = NULL WHERE rowid = ?', (row,))
    return dropped
