"""Messages that came in: on disk before anything is done with them, and never answered twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from nanoclaw.core import records
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Attachment,
    Inbound,
    Message,
    Outbound,
    ToolCall,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.store import history
from nanoclaw.core.store.db import Transaction, Transactions
from nanoclaw.log import logger

BROKEN_OFF = (
    "interrupted: the program ended while this ran. It may have been done, fully or partly: check before you repeat it."
)
"""The result of a call whose outcome nobody knows."""

STOPPED = "stopped before its end; it may have been partly done"
"""The result of a call that was running when its turn was stopped, or the program was told to end."""

TOOK_EFFECT = "The program was interrupted after this: it is done. Do not do it again."
"""The result of a call whose own transaction was committed."""

NOT_DONE = "Nothing was done: this was stopped before it started."
"""The result of a call that writes in one transaction, which was not committed."""


class OpenTurn(NamedTuple):
    """A turn that did not end: the process did, or the model cannot be reached.

    `inbound` is the message that began it, `row` its own; `texts` are all that it is about. `calls` were under way
    when it was interrupted or the program was told to end, `tools` are the names of those by which it changed
    something, as the audit log has it: what was refused is none of them. `resumed` counts how often it was resumed
    after a crash; `waits_for_model`: the person was told so; `waits_for_owner`: none of its newest calls has begun, as
    the owner was asked first.
    """

    id: int
    row: int
    inbound: Inbound
    texts: tuple[str, ...]
    calls: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    resumed: int = 0
    waits_for_model: bool = False
    waits_for_owner: bool = False

    @property
    def address(self) -> Address:
        return self.inbound.address


class Inbox:
    """Reads incoming messages, and marks how far each has got."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions, self._store = transactions, transactions.store

    def seen(self, inbound: Inbound) -> int:
        """The row of a message that was accepted before, else 0."""
        sql = "SELECT coalesce(max(id), 0) FROM inbox WHERE channel = ? AND external_id = ?"
        return int(self._store.rows(sql, inbound.address.channel, inbound.external_id)[0][0])

    def done(self, rows: Sequence[int], outbound: Outbound | None = None) -> None:
        """End messages with the reply to the first of them."""
        with self._transactions.open() as tx:
            end(tx.db, rows, tx.now)
            if outbound:
                tx.send(outbound, inbox=rows[0])

    async def reply(self, row: int, outbound: Outbound) -> None:
        """Send a reply once about a message that still waits."""

        def said(tx: Transaction) -> None:
            if not tx.execute("SELECT 1 FROM outbox WHERE inbox = ? AND text = ?", row, outbound.text):
                tx.send(outbound, inbox=row)

        await self._transactions.write(said)

    def waiting(self) -> list[tuple[int, Inbound]]:
        """Accepted but not begun, in order: what an earlier process left."""
        sql = "SELECT id, channel, chat, external_id, body FROM inbox WHERE state = 'new' ORDER BY id"
        return [(row[0], inbound) for row in self._store.rows(sql) if (inbound := _undamaged(row))]

    def open_turns(self, turn: int | None = None) -> list[OpenTurn]:
        """Begun but not ended, in order: what an earlier process was doing when it ended; or one of them."""
        sql = "SELECT id, inbox, running, resumed, took_effect FROM turns WHERE ended IS NULL AND id = ifnull(?, id)"
        return [found for row in self._store.rows(f"{sql} ORDER BY id", turn) if (found := self._open_turn(*row))]

    def open_turn(self, turn: int) -> OpenTurn | None:
        return next(iter(self.open_turns(turn)), None)

    def _open_turn(self, turn: int, first: int, running: str, resumed: int, took_effect: str) -> OpenTurn | None:
        sql = (
            "SELECT id, channel, chat, external_id, body, told FROM inbox"
            " WHERE state = 'running' AND (turn = ? OR id = ?) ORDER BY id"
        )
        rows = self._store.rows(sql, turn, first)
        inbounds = [inbound for row in rows if (inbound := _undamaged(row))]
        if not inbounds:
            return None
        under_way = unfinished(running, self._transactions.clock(), took_effect)
        sql = "SELECT body FROM messages WHERE turn = ? ORDER BY id"
        bodies = _bodies(self._store.rows(sql, turn))
        running_calls = [call for message in under_way[:1] for call in getattr(message, "tool_calls", ())]
        cut = [call for call, result in zip(running_calls, under_way[1:], strict=True) if result.text == BROKEN_OFF]
        results = [(body.get("name"), body.get("text")) for body in bodies if body.get("kind") == "result"]
        results += [(call.name, result.text) for call, result in zip(running_calls, under_way[1:], strict=True)]
        acted = {effect.tool for effect in records.of_turn(self._store, turn)}
        return OpenTurn(
            turn,
            rows[0][0],
            inbounds[0],
            tuple(map(_about, inbounds)),
            tuple(map(_in_words, cut or _stopped(bodies))),
            tuple(name for name, text in results if name in acted and text != NOT_DONE),
            resumed,
            any(row[5] for row in rows),
            '"paused":true' in took_effect.replace(" ", ""),  # SQLite leaves the blank out
        )


def _stopped(bodies: Sequence[dict[str, Any]]) -> list[ToolCall]:
    """The calls of a turn's newest answer that were stopped with the program."""
    stopped = {body.get("call") for body in bodies if body.get("kind") == "result" and body.get("text") == STOPPED}
    newest: list[list[str]] = next((body["calls"] for body in reversed(bodies) if body.get("calls")), [])
    return [ToolCall(*call) for call in newest if call[0] in stopped]


def change(db: sqlite3.Connection, inbound: Inbound) -> int | None:
    """Give a message that waits its new words and files, or end one that has neither now: its row. None for one that
    was begun, or never came."""
    sql = (
        "UPDATE inbox SET state = ?, body = json_set(body, '$.text', ?, '$.attachments', json(?))"
        " WHERE channel = ? AND chat = ? AND external_id = ? AND state = 'new' RETURNING id"
    )
    state, files = "done" if inbound.is_withdrawn else "new", json.dumps(inbound.attachments)
    values = (state, inbound.message.text, files, *inbound.address, inbound.external_id)
    return next((row for (row,) in db.execute(sql, values).fetchall()), None)


def change_answered(db: sqlite3.Connection, inbound: Inbound) -> bool:
    """Give a message that code has answered its new words. False for any other, and where they are the same."""
    sql = (
        "UPDATE inbox SET body = json_set(body, '$.text', ?1) WHERE (channel, chat, external_id) = (?2, ?3, ?4)"
        " AND ?1 NOT IN ('', body ->> 'text') AND (turn, state) IS (NULL, 'done')"
        " AND id IN (SELECT inbox FROM outbox) RETURNING 1"
    )
    return bool(db.execute(sql, (inbound.message.text, *inbound.address, inbound.external_id)).fetchall())


def end(db: sqlite3.Connection, rows: Iterable[int], now: datetime) -> None:
    """End rows inside the caller's transaction, each with its turn if that could not end by itself."""
    for row in rows:
        ((turn,),) = db.execute("SELECT turn FROM inbox WHERE id = ?", (row,)).fetchall()
        db.execute("UPDATE inbox SET state = 'done' WHERE id = ? OR turn = ?", (row, turn))
        sql = "SELECT running, took_effect FROM turns WHERE id = ? AND ended IS NULL"
        for running, took_effect in db.execute(sql, (turn,)).fetchall():
            sql = (
                "INSERT INTO messages (session, context, turn, body) SELECT turns.session, context, turns.id, ?"
                " FROM turns JOIN sessions ON sessions.id = turns.session WHERE turns.id = ?"
            )
            db.executemany(sql, [(history.dump(message), turn) for message in unfinished(running, now, took_effect)])
            sql = "UPDATE turns SET ended = ?, reason = 'cancelled', running = '[]' WHERE id = ?"
            db.execute(sql, (now.isoformat(), turn))


def unfinished(running: str, now: datetime, took_effect: str = "") -> list[Message]:
    """The answer whose calls were under way when a turn was interrupted, and for each of them its result, or what is to
    be said of one that had not ended. `took_effect` is JSON: ids of the calls whose one transaction is on disk
    ("done"), some with what they have to say of that, and of those that do nothing else ("atomic")."""
    try:
        answer, *results = [history.load(body) for body in json.loads(running)]
        marks: dict[str, list[Any]] = json.loads(took_effect or "{}") or {}
        done = dict((one, TOOK_EFFECT) if isinstance(one, str) else one for one in marks.get("done", ()))
        atomic = set(marks.get("atomic", ()))
    except (ValueError, KeyError, TypeError, AttributeError):  # none, or damaged
        return []
    if not isinstance(answer, AssistantMessage):
        return []
    ended = {result.call_id: result for result in results if isinstance(result, ToolResult)}
    said = {call.id: done.get(call.id) or (NOT_DONE if call.id in atomic else BROKEN_OFF) for call in answer.tool_calls}
    return [
        answer,
        *(
            ended.get(call.id) or ToolResult(call.id, call.name, said[call.id], now, call.id not in done)
            for call in answer.tool_calls
        ),
    ]


def _about(inbound: Inbound) -> str:
    """The text of a message, or the names of its files if it has none."""
    return inbound.message.text or ", ".join(file.name or file.mime or "a file" for file in inbound.attachments)


def _in_words(call: ToolCall) -> str:
    """A call for a person to read: its name and its arguments."""
    try:
        given = json.loads(call.arguments)
        values = [
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in given.values()
        ]
    except (ValueError, AttributeError, RecursionError):
        values = [call.arguments]
    return f"{call.name} {', '.join(values)}".strip()


def _bodies(rows: Iterable[tuple[str]]) -> list[dict[str, Any]]:
    """The stored messages, without those that damage made unreadable."""
    return [body for (text,) in rows if isinstance(body := json.loads(text), dict)]


def _undamaged(row: Sequence[Any]) -> Inbound | None:
    """A message from its row; None if it cannot be read any more."""
    try:
        return _inbound(*row[1:5])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        logger.warning("message {} of the inbox is damaged and was left out: {!r}", row[0], error)
        return None


def _inbound(channel: str, chat: str, external_id: str, text: str) -> Inbound:
    body = json.loads(text)
    is_group, is_mention, overheard = (*body.get("group", ()), False, False, "")[:3]
    said_at, outside = datetime.fromisoformat(body["at"]), body.get("outside", "")
    message = UserMessage(body["text"], said_at, body["origin"], outside=outside)
    attachments = tuple(Attachment(*file) for file in body["attachments"])
    return Inbound(
        Address(channel, chat),
        body["sender"],
        external_id,
        message,
        attachments,
        body.get("quoted", ""),
        body.get("quote", ""),
        body.get("name", ""),
        is_group,
        is_mention,
        overheard,
        role=body.get("role"),
        conversation=Address(*where) if (where := body.get("conversation")) else None,
        profile=body.get("profile", ""),
        quote_from=body.get("quote_from", ""),
    )
