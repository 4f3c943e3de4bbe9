"""The way on from a damaged state.db: what SELECT still reads of it, over the newest copy."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.atomic_write import drafted, reason, sync_folder
from nanoclaw.core.errors import StoreError, WorkspaceError
from nanoclaw.core.store import plugin_tables
from nanoclaw.core.store.copies import BODIES, daily_copies, is_whole
from nanoclaw.core.store.format import bring_up, format_of, newest_format
from nanoclaw.core.store.table_list import SEQUENCE, WHOLE_TABLES, Columns, Listed, listed
from nanoclaw.core.store.wal import WriteAheadLog
from nanoclaw.sqlite_salvage.pages import DAMAGED

if TYPE_CHECKING:
    from nanoclaw.core.plugin import Plugin


def recover(path: Path, plugins: Sequence[type[Plugin]]) -> str:
    """Keep a damaged store aside and put in its place the newest copy, with all that can still be read over it.

    Only for the owner; `plugins` are those whose tables it may have. Returns what happened as a sentence. Raises
    StoreError, and leaves all as it was, if there is no room. Whenever it is interrupted, the next one continues with
    the same file and its journal.
    """
    try:
        aside = _keep_aside(path)
        with drafted(path) as draft:
            copy = _newest_copy(path, draft)
            journal = WriteAheadLog(_journal(aside))
            tables = _fill(draft, aside, journal, plugins)
            for suffix in ("-wal", "-shm"):  # a journal would be played into the new file
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            sync_folder(path.parent)
    except (OSError, WorkspaceError, sqlite3.Error) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"{path} is damaged, and can't be moved aside to start afresh: {why.rstrip('.')}. Nothing was changed; "
            "free some space, or move it aside yourself."
        ) from error
    torn = ""
    if lost := journal.lost:
        torn = f" Its journal is damaged: some of the last {lost:,} writes may be missing."
    return f"{path} was damaged and is kept as {aside.name}. {_in_words(copy, tables)}{torn}"


def _in_words(copy: Path | None, tables: Sequence[Table]) -> str:
    """Tell what goes on and what is missing."""
    base = f"the copy of {copy.stem.partition('-')[2]}" if copy else ""
    if not any(table.read for table in tables):
        return f"Nothing of it could be read: {f'{base} is used' if base else 'there is no copy, so all starts anew'}."
    missing = ", ".join(str(table) for table in tables if table.missing != 0)
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


def _newest_copy(path: Path, draft: Path) -> Path | None:
    """Put the newest copy that is whole into the draft, an empty store where there is none."""
    for copy in daily_copies(path):
        shutil.copyfile(copy, draft)
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            try:
                if is_whole(db) and 0 < format_of(db) <= newest_format():
                    bring_up(db)
                    return copy
            except sqlite3.Error:
                continue
    draft.write_bytes(b"")
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        bring_up(db)
    return None


class Table(NamedTuple):
    """Rows that were read, and the most that can be missing, None if nobody can tell."""

    name: str
    read: int
    missing: int | None

    def without(self, dropped: int) -> Table:
        return self if self.missing is None else self._replace(missing=self.missing + dropped)

    def __str__(self) -> str:
        words = NAMES.get(self.name, f"rows of {self.name.replace('_', ' ')}")
        return f"some {words}" if self.missing is None else f"at most {self.missing:,} {words}"


NAMES = {
    "inbox": "messages that came in",
    "outbox": "messages that went out",
    "messages": "messages of conversations",
    "sessions": "conversations",
    "usage": "records of usage",
    "ledger": "records of effects",
    "turns": "turns of conversations",
    "compactions": "summaries of conversations",
    "flags": "switches",
    "models": "facts about models",
    "images": "pictures",
    WHOLE_TABLES: WHOLE_TABLES,
}
"""The person's words for tables; of others the rows are told."""


def _fill(draft: Path, damaged: Path, journal: WriteAheadLog, plugins: Sequence[type[Plugin]]) -> list[Table]:
    """Take over what SELECT reads of a damaged store with all of its journal that is whole; what could not be read
    stays as the draft has it."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as new:
        new.executescript("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF")
        made = plugin_tables.make(new, plugins)
        content = journal.played_into(damaged.read_bytes(), is_mended=True)
        old = listed(content, dict(new.execute(_TABLES)))
        new.execute("BEGIN")
        with closing(old.db):
            tables = list(_take_over(old, new))
        for name, version in made.items():
            plugin_tables.note(new, name, version)
        _stand_in(new, damaged.name)
        dropped = _drop_loose_ends(new)
        new.execute("COMMIT")
        if not is_whole(new):
            raise StoreError(f"what was read of {damaged} is not a complete database; move it aside yourself.")
    return [table.without(dropped[table.name]) for table in tables]


_TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"


def _take_over(old: Listed, new: sqlite3.Connection) -> Iterator[Table]:
    """Replace the rows of whole tables, and put those of damaged ones over what the copy has."""
    for sql in old.others.values():  # of plugins that don't run
        with suppress(sqlite3.Error):
            new.execute(sql)
    for table, _ in new.execute(_TABLES).fetchall():
        if table in old.rows and is_whole(old.db, table):
            new.execute(f'DELETE FROM "{table}"')
            yield Table(table, _take_rows(old, new, table), 0)
        elif table in old.rows or table in old.lost:  # else there was none
            for sql in _ENDING.get(table, ()):
                new.execute(sql)
            count, last = _take_rows(old, new, table), _last(old.db, table)
            yield Table(table, count, max(0, last - _count(new, table)) if last else None)
    if WHOLE_TABLES in old.lost:
        yield Table(WHOLE_TABLES, 0, None)
    for _, (name, last) in old.rows.get(SEQUENCE, ()):  # no number is given a second time
        with suppress(sqlite3.Error):
            new.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))


_ENDING = {
    "inbox": ("UPDATE inbox SET state = 'done'",),
    "turns": ("UPDATE turns SET ended = started, reason = 'failed' WHERE ended IS NULL",),
}
"""Nothing that the copy has is done once more, except rows that could be read."""


def _take_rows(old: Listed, new: sqlite3.Connection, table: str) -> int:
    """Copy all rows that can be read, and return their number."""
    columns = Columns.of(new, table)
    body = columns.names.index('"body"') if table in BODIES else None
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


def _stand_in(db: sqlite3.Connection, name: str) -> None:
    """Put rows in place of lost ones, without which messages that could be read would be lost too."""
    now = datetime.now().astimezone().isoformat()
    body = json.dumps({"sender": "", "text": "", "origin": "person", "at": now, "attachments": []})
    lost = "SELECT turn FROM messages WHERE turn NOT IN (SELECT id FROM turns)"
    if db.execute(f"{lost} UNION SELECT id FROM turns WHERE inbox NOT IN (SELECT id FROM inbox)").fetchone():
        sql = (
            "INSERT INTO inbox (channel, chat, external_id, body, state, received)"
            " VALUES ('recovered', '', ?, ?, 'done', ?) RETURNING id"
        )
        ((row,),) = db.execute(sql, (name, body, now)).fetchall()
        db.execute("UPDATE turns SET inbox = ? WHERE inbox NOT IN (SELECT id FROM inbox)", (row,))
        sql = "INSERT INTO turns (id, session, inbox, started, ended, reason)"
        of_messages = f"FROM messages WHERE turn IN ({lost}) GROUP BY turn"
        db.execute(f"{sql} SELECT turn, min(session), ?1, ?2, ?2, 'failed' {of_messages}", (row, now))


def _drop_loose_ends(db: sqlite3.Connection) -> Counter[str]:
    """Rows whose other half is lost: a conversation is made again, and a summary ends earlier; else the link is emptied
    where it may be, or the row goes. Counts those by table."""
    dropped: Counter[str] = Counter()
    earlier = "(SELECT max(id) FROM messages WHERE messages.session = compactions.session AND id <= upto)"
    db.execute(f"UPDATE compactions SET upto = {earlier} WHERE {earlier} IS NOT NULL")
    while broken := db.execute("PRAGMA foreign_key_check").fetchall():
        for table, row, parent, key in broken:
            column = next(each[3] for each in db.execute(f'PRAGMA foreign_key_list("{table}")') if each[0] == key)
            (its,) = (each for each in db.execute(f'PRAGMA table_info("{table}")') if each[1] == column)
            if parent == "sessions":
                db.executemany(
                    _STANDS_IN, db.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,)).fetchall()
                )
            elif its[3] or its[5]:  # required, or a part of the key
                dropped[table] += db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,)).rowcount
            else:
                db.execute(f'UPDATE "{table}" SET "{column}" = NULL WHERE rowid = ?', (row,))
    return dropped


_STANDS_IN = """
    INSERT OR IGNORE INTO sessions (id, key, context)
    SELECT ?1, 'recovered:' || ?1, ifnull(max(context), 1) FROM messages WHERE session = ?1
"""
