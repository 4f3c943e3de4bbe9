"""Recovery of a damaged state.db: what is special about our tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.atomic_write import reason
from nanoclaw.core.errors import StoreError
from nanoclaw.sqlite_salvage import salvage
from nanoclaw.start.opening import bring_up, format_of, newest_format, note_version, version_of

if TYPE_CHECKING:
    from nanoclaw.core.plugin import Plugin


def recover(path: Path, plugins: Sequence[type[Plugin]]) -> str:
    """Keep a damaged store aside, and put what can be read of it in its place; `plugins` are those whose tables it may
    have. Returns what happened as a sentence. Raises StoreError, and leaves all as it was."""
    try:
        return salvage.recover(path, _schema(plugins))
    except (OSError, sqlite3.Error) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"{path} is damaged, and can't be moved aside to start afresh: {why.rstrip('.')}. Nothing was changed; "
            "free some space, or move it aside yourself."
        ) from error


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
}

CLOSING = {
    "inbox": "UPDATE inbox SET state = 'done'",
    "turns": "UPDATE turns SET ended = started, reason = 'failed' WHERE ended IS NULL",
}
"""Work in the copy counts as done and is not repeated, except rows that could be read."""

SESSION = """
    INSERT OR IGNORE INTO sessions (id, key, context)
    SELECT ?1, 'recovered:' || ?1, ifnull(max(context), 1) FROM messages WHERE session = ?1
"""


def end_command(copy: Path, name: str) -> None:
    """End a command that waits in a copy of a store, so that what is restored from it doesn't carry it out again."""
    with closing(sqlite3.connect(copy)) as db, db, suppress(sqlite3.OperationalError):  # of an older format
        sql = "UPDATE inbox SET state = 'done' WHERE state <> 'done' AND ltrim(json_extract(body, '$.text')) LIKE ?"
        db.execute(sql, (f"/{name}%",))


def _schema(plugins: Sequence[type[Plugin]]) -> salvage.Schema:
    made: dict[str, int] = {}

    def bring_up_all(db: sqlite3.Connection) -> bool:
        if is_known := format_of(db) <= newest_format():
            bring_up(db)
            for one in plugins:
                with suppress(sqlite3.Error):  # what can't be made is left to the next start
                    for sql in one.migrations[version_of(db, one.name) :]:
                        db.executescript(sql)
                    made[one.name] = len(one.migrations)
        return is_known

    def mend(db: sqlite3.Connection, name: str) -> None:
        for plugin, version in made.items():
            note_version(db, plugin, version)
        _stand_in(db, name)

    return salvage.Schema(NAMES, CLOSING, {"sessions": SESSION}, bring_up_all, mend)


def _stand_in(db: sqlite3.Connection, name: str) -> None:
    """Replace lost turns and incoming messages by empty ones, and let summaries end earlier."""
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
    earlier = "(SELECT max(id) FROM messages WHERE messages.session = compactions.session AND id <= upto)"
    db.execute(f"UPDATE compactions SET upto = {earlier} WHERE {earlier} IS NOT NULL")
