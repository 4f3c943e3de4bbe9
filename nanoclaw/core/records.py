"""Audit log: a line before each effect of a tool and its outcome after it, in transactions that a turn makes anyway,
and what plugins ask of the core's tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from nanoclaw.core.messages import Address, Effect, Usage

RECENT = 1_000
"""So many of the newest lines are searched."""

COLUMNS = "tool, kind, target, text, state, before, after, id, at, turn"

INSERT = (
    "INSERT INTO ledger (at, address, turn, tool, kind, target, text, state, before, after)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def of_turn(store: Any, turn: int) -> list[Effect]:
    """Effects of a recent turn in order, including those that have only begun."""
    # an index would cost a page of the journal for each step of each turn
    sql = f"SELECT {COLUMNS} FROM ledger WHERE id > (SELECT max(id) FROM ledger) - ? AND turn = ? ORDER BY id"
    return [effect_of(row) for row in store.rows(sql, RECENT, turn)]


def insert(
    db: sqlite3.Connection, address: str, turn: int | None, now: datetime, effects: Sequence[Effect]
) -> list[int | None]:
    """Add lines inside the caller's transaction; their numbers."""
    return [db.execute(INSERT, row_of(effect, address, turn, now)).lastrowid for effect in effects]


def finish(db: sqlite3.Connection, rows: Sequence[int | None], effects: Sequence[Effect]) -> None:
    """Write the outcome of effects over the lines that `insert` made; of what is undone by now, results tell."""
    sql = "UPDATE ledger SET (tool, kind, target, text, state, before, after, told) = (?,?,?,?,?,?,?,?) WHERE id = ?"
    db.executemany(sql, [(*_values(one), one.state == "undone", row) for one, row in zip(effects, rows, strict=True)])


def row_of(effect: Effect, address: str, turn: int | None, now: datetime) -> tuple[object, ...]:
    """The values of INSERT."""
    return (now.isoformat(), address, turn, *_values(effect))


def _values(effect: Effect) -> tuple[str | None, ...]:
    words = (
        text.encode("utf-8", "replace").decode() for text in (effect.tool, effect.kind, effect.target, effect.text)
    )
    return (*words, effect.state, effect.before, effect.after)


def effect_of(row: Any) -> Effect:
    """An effect from the columns of COLUMNS."""
    tool, kind, target, text, state, before, after, id_, at, turn = row
    return Effect(tool, kind, target, text, state, before, after, id_, datetime.fromisoformat(at), turn)


_TALK = """FROM messages CROSS JOIN turns ON turns.id = messages.turn CROSS JOIN inbox ON inbox.id = turns.inbox
    CROSS JOIN sessions ON sessions.id = messages.session"""  # in this order: by the rows of the messages

_IS_OWNERS = """inbox.body ->> 'origin' = 'person' AND NOT coalesce(json_extract(inbox.body, '$.group[0]'), 0)
    AND CASE json_type(inbox.body, '$.role') WHEN 'text' THEN inbox.body ->> 'role' = 'owner' WHEN 'null' THEN 0
        ELSE 1 END"""
"""True of what the owner wrote in private."""

_IS_TALK = f"""CASE WHEN json_valid(messages.body) AND json_valid(inbox.body) THEN messages.body ->> 'text' <> ''
    AND (messages.body ->> 'kind' = 'assistant'
        OR (messages.body ->> 'kind' = 'user' AND messages.body ->> 'origin' = 'person'))
    AND coalesce(inbox.body ->> 'profile', '') = '' AND {_IS_OWNERS} ELSE 0 END"""
"""True of the owner's words and the answers to them, under no profile of its own."""


class Records(NamedTuple):
    """`read` is that of the store. A line of the audit log is its number, the hash before, and the one after."""

    read: Callable[..., list[Any]]

    def context(self, conversation: Address) -> int:
        """The number of a conversation's context, which /new counts up; 0 where there is no conversation."""
        found = self.read("SELECT context FROM sessions WHERE key = ?", str(conversation))
        return int(found[0][0]) if found else 0

    def spent(
        self, since: date, after: int, by: Address | None = None
    ) -> Iterator[tuple[int, str, str, str, bool, str, Usage]]:
        """Requests from a day on, after a row, of a conversation: row, day, origin, conversation ('' for none), if
        answered here, model, tokens."""
        sql = "SELECT usage.id, substr(at, 1, 10), origin, coalesce(key, ''), is_local, usage.model, input_tokens,"
        sql += " output_tokens, cached_tokens FROM usage LEFT JOIN sessions ON sessions.id = session"
        which = "WHERE at >= ?1 AND usage.id > ?2 AND (?3 IS NULL OR key = ?3) ORDER BY usage.id"
        for row in self.read(f"{sql} {which}", since.isoformat(), after, by and str(by)):
            yield *row[:6], Usage(*row[6:])

    def move(self, tx: Any, conversation: Address, to: Address, turn: int | None) -> None:
        """Give the effects of a conversation to another one, and to a turn of that."""
        sql = "UPDATE ledger SET address = ?, turn = coalesce(?, turn) WHERE address = ?"
        tx.execute(sql, str(to), turn, str(conversation))

    # --- what was said, for who notes or searches or forgets it -------------------------------------------------------

    def messages(self) -> list[tuple[int, str, bool]]:
        """Of each message its turn, its JSON, and if that turn has ended."""
        return self.read("SELECT turn, body, ended IS NOT NULL FROM messages JOIN turns ON turns.id = turn")

    def turns(self) -> list[tuple[int, int, int, str]]:
        """Of each turn its number, the rows of the message that began it and of its conversation, and running calls."""
        return self.read("SELECT id, inbox, session, CASE WHEN ended IS NULL THEN running ELSE '' END FROM turns")

    def conversations(self) -> dict[int, tuple[str, str]]:
        """By row the address of each conversation, as text, and the model chosen for it."""
        return {row: (key, model) for row, key, model in self.read("SELECT id, key, model FROM sessions")}

    def settled(self) -> int:
        """The first message of a turn under way, which may still be taken back: those before it stay."""
        sql = "SELECT min(messages.id) FROM turns CROSS JOIN messages ON turn = turns.id WHERE ended IS NULL"
        return next((row for (row,) in self.read(sql) if row), 2**63 - 1)

    def reasons(self, turns: Sequence[int]) -> dict[int, str]:
        """Why turns ended, as far as they have."""
        sql = "SELECT id, reason FROM turns WHERE ended IS NOT NULL AND id IN (SELECT value FROM json_each(?))"
        return dict(self.read(sql, json.dumps(turns)))

    def talk(self, after: int, since: str = "") -> list[tuple[int, int, int, str, bool]]:
        """The owner's words and the answers to them after a row, in turns that ended since a time: row, conversation,
        size, end of the turn, and if it is of the newest context."""
        what = "messages.id, messages.session, length(messages.body), ended, messages.context = sessions.context"
        return self.read(f"SELECT {what} {_TALK} WHERE messages.id > ? AND ended > ? AND {_IS_TALK}", after, since)

    def said(self, conversation: int, first: int, last: int) -> list[tuple[int, int, bool, str, str, str, str, str]]:
        """All messages of a range: row, turn, if it is such talk, kind, time, text, sources of others' text, and calls
        as JSON."""
        body = ", ".join(f"messages.body {one}" for one in ("->> 'kind'", "->> 'at'", "->> 'text'", "->> 'outside'"))
        sql = f"SELECT messages.id, messages.turn, {_IS_TALK} AND ended IS NOT NULL, {body}, messages.body -> 'calls'"
        which = "messages.session = ? AND messages.id BETWEEN ? AND ? AND json_valid(messages.body)"
        return self.read(f"{sql} {_TALK} WHERE {which} ORDER BY messages.id", conversation, first, last)

    def asked(self, conversation: Address) -> list[tuple[int, int, int, str, str]]:
        """The first words of each turn that a person began there: turn, row, context (below 0 where it was taken back),
        time and text. Counted from 1 they are the messages that commands number."""
        what = "turn, min(messages.id), messages.context, body ->> 'at', body ->> 'text'"
        which = "CASE WHEN json_valid(body) THEN body ->> 'kind' = 'user' AND body ->> 'origin' = 'person' END"
        sql = f"SELECT {what} FROM messages JOIN sessions ON sessions.id = session WHERE key = ? AND {which}"
        return self.read(f"{sql} GROUP BY turn ORDER BY 2", str(conversation))

    def find(self, pattern: str, most: int) -> list[tuple[str, int, int, str, str, str]]:
        """Words said and answered that are LIKE a pattern, the newest first: conversation, turn, row, kind, time
        and text."""
        sql = (
            "SELECT key, turn, messages.id, body ->> 'kind', body ->> 'at', body ->> 'text' FROM messages JOIN sessions"
            " ON sessions.id = session WHERE CASE WHEN json_valid(body) THEN body ->> 'text' LIKE ? ESCAPE char(92) AND"
            " body ->> 'kind' <> 'result' AND body ->> 'origin' IS NOT 'runtime' END ORDER BY messages.id DESC LIMIT ?"
        )
        return self.read(sql, pattern, most)

    def last_spoke(self) -> datetime | None:
        """When a person last wrote."""
        sql = "SELECT max(received) FROM inbox WHERE CASE WHEN json_valid(body) THEN body ->> 'origin' = 'person' END"
        return next((datetime.fromisoformat(at) for (at,) in self.read(sql) if at), None)

    # --- messages that came, and that were sent ----------------------------------------------------------------------

    def attached(self, turn: int | None = None) -> list[str]:
        """Paths of all files that came with messages; only those of the conversation in which a turn is."""
        files = "SELECT DISTINCT file.value ->> 0 FROM inbox, json_each(inbox.body, '$.attachments') AS file"
        of_it = "SELECT id FROM turns WHERE session = (SELECT session FROM turns WHERE id = ?1)"
        return [path for (path,) in self.read(f"{files} WHERE ?1 IS NULL OR turn IN ({of_it})", turn) if path]

    def owners_chats(self, most: int) -> list[Address]:
        """Private chats in which the owner wrote, the newest first."""
        sql = f"SELECT channel, chat FROM inbox WHERE channel <> 'program' AND {_IS_OWNERS} GROUP BY 1, 2"
        return [Address(*row) for row in self.read(f"{sql} ORDER BY max(id) DESC LIMIT ?", most)]

    def is_waiting(self, address: Address) -> bool:
        """True if a message there has not been answered yet."""
        sql = "SELECT 1 FROM inbox WHERE (channel, chat) = (?, ?) AND state <> 'done' LIMIT 1"
        return bool(self.read(sql, *address))

    def waiting(self) -> tuple[int, int]:
        """The numbers of messages that are not answered, and not sent yet."""
        unsent = "SELECT count(*) FROM outbox WHERE state = 'pending'"
        return self.read(f"SELECT count(*), ({unsent}) FROM inbox WHERE state <> 'done'")[0]  # type: ignore[no-any-return]

    def take_kept(self, tx: Any, address: Address) -> str:
        """The text of a chat's newest message that is not begun, which then needs no turn; '' for none."""
        newest = "SELECT max(id) FROM inbox WHERE state = 'new' AND (channel, chat) = (?, ?)"
        sql = f"UPDATE inbox SET state = 'done' WHERE id = ({newest}) RETURNING body ->> 'text'"
        return "".join(text for (text,) in tx.execute(sql, *address))

    def is_last(self, address: Address, row: int, but: Sequence[str] = (), at: datetime | None = None) -> bool:
        """True if nothing was sent to a chat after a row, except these texts, and no turn begun there after a time."""
        sql = "SELECT 1 FROM outbox WHERE channel = ? AND chat = ? AND id > ? AND text NOT IN"
        if self.read(f"{sql} (SELECT value FROM json_each(?)) LIMIT 1", *address, row, json.dumps(but)):
            return False
        sql = "SELECT started FROM turns JOIN inbox ON inbox.id = turns.inbox WHERE channel = ? AND chat = ?"
        begun = self.read(f"{sql} ORDER BY turns.id DESC LIMIT 1", *address) if at else ()
        return not begun or at is None or datetime.fromisoformat(begun[0][0]) <= at

    def sent(self, row: int) -> tuple[str, int, str, str, str, list[str], str]:
        """State, attempts, the platform's ids of the parts, the last error, text, files and address of a row of the
        outbox."""
        columns = "state, attempts, platform_id, error, text, files, channel || ':' || chat"
        found = self.read(f"SELECT {columns} FROM outbox WHERE id = ?", row) or [("", 0, "", "", "", "[]", "")]
        state, attempts, ids, error, text, files, place = found[0]
        return state, attempts, ids, error, text, json.loads(files), place

    def unhurried(self) -> dict[int, datetime]:
        """Messages that nobody waits for and that are not sent yet: by row of the outbox when it came."""
        sql = "SELECT id, came FROM outbox WHERE state = 'pending' AND came <> '' ORDER BY id"
        return {row: datetime.fromisoformat(came) for row, came in self.read(sql)}

    def told_together(self, tx: Any, rows: Sequence[int]) -> None:
        """One message tells what these rows of the outbox would: they are not sent any more."""
        sql = "UPDATE outbox SET state = 'delivered' WHERE id IN (SELECT value FROM json_each(?))"
        tx.execute(sql, json.dumps(rows))

    def sent_as(self, channel: str, platform_id: str) -> list[int]:
        """Rows of what was sent with this id of the platform, as one of its parts."""
        sql = "SELECT id FROM outbox WHERE channel = ? AND instr(' ' || platform_id || ' ', ' ' || ? || ' ')"
        return [row for (row,) in self.read(sql, channel, platform_id)]

    def answered(self, turn: int) -> str:
        """The platform's id of the message that began a turn."""
        sql = "SELECT external_id FROM inbox JOIN turns ON turns.inbox = inbox.id WHERE turns.id = ?"
        return "".join(id_ for (id_,) in self.read(sql, turn))

    def name_in(self, address: Address) -> str:
        """The name that the person of a chat goes by; '' if it is not known."""
        sql = "SELECT body ->> 'name' FROM inbox WHERE (channel, chat) = (?, ?) ORDER BY id DESC LIMIT 20"
        return next((name for (name,) in self.read(sql, *address) if name), "")

    # --- the audit log: lists are newest first -----------------------------------------------------------------------

    def effects(self, conversation: Address, count: int) -> list[Effect]:
        """The last ones of a conversation."""
        return self._effects("address = ? ORDER BY id DESC LIMIT ?", str(conversation), count)

    def of_files(self, *states: str) -> list[Effect]:
        """Those in these states that left something to undo, in all conversations, as far as they are recent."""
        where = "before IS NOT NULL AND before <> after AND state IN (SELECT value FROM json_each(?))"
        return self._effects(f"{where} ORDER BY id DESC LIMIT ?", json.dumps(states), RECENT)

    def undone(self, conversation: Address) -> list[Effect]:
        """Undone, and the model of the conversation has not been told."""
        return self._effects("state = 'undone' AND told = 0 AND address = ? ORDER BY id DESC", str(conversation))

    def read_for(self, sha256: str) -> list[str]:
        """Sources of others' text that the turns had read which left a file with this content."""
        turns = "SELECT turn FROM ledger WHERE after = ?"
        sql = f"SELECT DISTINCT body ->> 'outside' FROM messages WHERE turn IN ({turns}) AND json_valid(body)"
        return [source for (source,) in self.read(f"{sql} AND body ->> 'outside' <> ''", sha256)]

    def add(self, tx: Any, effect: Effect, at: datetime, conversation: Address | None = None, turn: int = 0) -> None:
        """A further effect; `conversation` is None if it belongs to none."""
        tx.execute(INSERT, *row_of(effect, str(conversation or ""), turn or None, at))

    def mark_undone(self, tx: Any, effect: Effect) -> None:
        tx.execute("UPDATE ledger SET state = 'undone', told = 0 WHERE id = ?", effect.id)

    def mark_told(self, tx: Any, conversation: Address) -> None:
        tx.execute("UPDATE ledger SET told = 1 WHERE state = 'undone' AND told = 0 AND address = ?", str(conversation))

    def rename(self, tx: Any, hashes: Mapping[str, str]) -> None:
        """Note that contents have changed, because words were removed from them."""
        for old, new in hashes.items():
            for column in ("before", "after"):
                tx.execute(f"UPDATE ledger SET {column} = ? WHERE {column} = ?", new, old)

    def _effects(self, where: str, *values: object) -> list[Effect]:
        return [effect_of(row) for row in self.read(f"SELECT {COLUMNS} FROM ledger WHERE {where}", *values)]
