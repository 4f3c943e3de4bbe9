"""Conversations in the store: every step a model would accept, written as it happens."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Effect,
    Message,
    Origin,
    Outbound,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.core.store import audit as ledger
from nanoclaw.core.store import codec, usage
from nanoclaw.core.store.compactions import instead, shortened
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import OpenTurn, end, sent_by, unfinished
from nanoclaw.core.store.outbox import insert
from nanoclaw.plugins.forget.scrub import Words

Clock = Callable[[], datetime]


class SessionInfo(NamedTuple):
    """A line of `nanoclaw sessions list`."""

    key: str
    messages: int
    last: str


class TurnRecord(NamedTuple):
    """An ended turn; `manifest` is the text that it began with. Not `is_reported`: some of `usage` is our own count."""

    manifest: str
    messages: tuple[Message, ...]
    model: str
    reason: str
    usage: Usage
    is_reported: bool = True


class Placed(NamedTuple):
    """A message of the history and where it stands in the store; a summary has no place (0)."""

    id: int
    turn: int
    message: Message


class Session:
    """One conversation's newest context. `history` is what the model will be sent, in order."""

    def __init__(self, store: Store, clock: Clock, id_: int, key: str) -> None:
        self._store, self._clock, self._id, self.key = store, clock, id_, key
        (row,) = store.rows("SELECT context, memory, model FROM sessions WHERE id = ?", id_)
        self._context: int = row[0]
        self.memory: str | None = row[1]
        self.model: str = row[2]
        self.history: list[Message] = [placed.message for placed in _shown(store, id_, self._context)]
        self.forgot = 0
        self.on_forget: Callable[[], None] = lambda: None
        self._forgetting: list[tuple[Words, bool]] = []
        self._in_turn = False

    def forget(self, words: Words, closely: bool) -> None:
        """Take up what the store no longer has, tell `on_forget`, and store none of the words until the turn ends.
        `forgot` counts how often that was."""
        self.forgot += 1
        self.reload()
        if self._in_turn:
            self._forgetting.append((words, closely))
        self.on_forget()

    def reload(self) -> None:
        """Take up what another hand changed in the store."""
        ((self.memory,),) = self._store.rows("SELECT memory FROM sessions WHERE id = ?", self._id)
        self.placed()

    def placed(self) -> list[Placed]:
        """The history, read anew, with the place of each message."""
        shown = _shown(self._store, self._id, self._context)
        self.history[:] = [placed.message for placed in shown]
        return shown

    def whole(self) -> list[Message]:
        """All that was ever said, older contexts included."""
        return whole_history(self._store, self.key) or []

    def of_turn(self, turn: int, upto: int) -> list[Message]:
        """The messages of a turn up to that id, as they were said."""
        sql = "SELECT id, turn, body FROM messages WHERE session = ? AND turn = ? AND id <= ? ORDER BY id"
        return [placed.message for placed in _placed(self._store, self._store.rows(sql, self._id, turn, upto))]

    def compact(self, upto: int, summary: str, opening: str) -> None:
        """From now on the summary is shown in place of all messages up to that id, after a new opening."""
        with self._store.transaction() as db:
            self._note_compaction(db, "summary", upto, self._without(summary))
            db.execute("UPDATE sessions SET memory = ? WHERE id = ?", (opening, self._id))
        self.reload()

    def shorten(self, upto: int) -> None:
        """From now on the long tool results up to that id are shown shortened."""
        with self._store.transaction() as db:
            self._note_compaction(db, "short", upto, "")
        self.reload()

    def called(self, call: usage.Call) -> None:
        """A request to a model was made outside any turn."""
        with self._store.transaction() as db:
            usage.record(db, [call], self._clock(), session=self._id)

    def acting(self, effects: Sequence[Effect]) -> list[int | None]:
        """Note in the ledger what is about to be changed outside the steps of a turn; the numbers of its lines."""
        with self._store.transaction() as db:
            return ledger.insert(db, self.key, None, self._clock(), self._clean_effects(effects))

    def acted(self, rows: Sequence[int | None], effects: Sequence[Effect]) -> None:
        """What became of it, in the order of the lines, and then what was done besides."""
        effects = self._clean_effects(effects)
        with self._store.transaction() as db:
            ledger.settle(db, rows, effects[: len(rows)])
            ledger.insert(db, self.key, None, self._clock(), effects[len(rows) :])

    def _note_compaction(self, db: sqlite3.Connection, kind: str, upto: int, summary: str) -> None:
        sql = "INSERT INTO compactions (session, context, at, kind, upto, summary) VALUES (?, ?, ?, ?, ?, ?)"
        db.execute(sql, (self._id, self._context, self._clock().isoformat(), kind, upto, summary))

    def keep_opening(self, text: str) -> None:
        """Keep what this context began with, so that the next request begins alike."""
        if text == self.memory:
            return
        with self._store.transaction() as db:
            db.execute("UPDATE sessions SET memory = ? WHERE id = ?", (text, self._id))
        self.memory = text

    def reset(self) -> None:
        """Start a new context; what was said stays in the store."""
        with self._store.transaction() as db:
            db.execute("UPDATE sessions SET context = context + 1, memory = NULL WHERE id = ?", (self._id,))
        self._context, self.memory = self._context + 1, None
        self.history.clear()

    def use_model(self, model: str) -> None:
        with self._store.transaction() as db:
            db.execute("UPDATE sessions SET model = ? WHERE id = ?", (model, self._id))
        self.model = model

    def last_turn(self) -> TurnRecord | None:
        """The newest ended turn of this context."""
        return last_turn(self._store, self.key)

    def begin_turn(self, inbox: Sequence[int], messages: Sequence[Message], manifest: str = "") -> Turn:
        """The inbox rows are running and their messages are part of the history, in one transaction. They tell of all
        that was undone."""
        self._forgetting.clear()
        with self._store.transaction() as db:
            sql = "INSERT INTO turns (session, inbox, started, manifest) VALUES (?, ?, ?, ?)"
            turn = db.execute(sql, (self._id, inbox[0], self._clock().isoformat(), manifest)).lastrowid
            assert turn is not None
            _take_up(db, turn, inbox)
            self._insert(turn, messages)
            ledger.tell_undone(db, self.key)
        self.history.extend(messages)
        self._in_turn = True
        return Turn(self, turn, inbox[0], _origin(messages))

    def reopen_turn(self, cut: OpenTurn, *, after_crash: bool = False) -> Turn:
        """Take up a turn that did not end. Calls that were under way become part of the history, as broken off."""
        self._forgetting.clear()
        with self._store.transaction() as db:
            ((running,),) = db.execute("SELECT running FROM turns WHERE id = ?", (cut.id,)).fetchall()
            messages = unfinished(running, self._clock(), sent_by(db, cut.id))
            sql = "UPDATE turns SET running = '[]', resumed = resumed + ? WHERE id = ?"
            db.execute(sql, (after_crash, cut.id))
            self._insert(cut.id, messages)
        self.history.extend(messages)
        self._in_turn = True
        return Turn(self, cut.id, cut.inbox, cut.inbound.message.origin)

    def tell(self, db: sqlite3.Connection, inbox: int, messages: Sequence[Message]) -> None:
        """What the program says by itself, because of an inbox row, becomes part of the history inside the caller's
        transaction; add it to `history` when that is over. It is legal between any two steps of a turn."""
        now = self._clock().isoformat()
        sql = "INSERT INTO turns (session, inbox, started, ended, reason) VALUES (?, ?, ?, ?, 'told')"
        turn = db.execute(sql, (self._id, inbox, now, now)).lastrowid
        assert turn is not None
        self._insert(turn, messages)

    def _end_turn(self) -> None:
        self._in_turn = False
        self._forgetting.clear()

    def _without(self, text: str) -> str:
        for words, closely in self._forgetting:
            text = words.without_any(text, closely=closely)
        return text

    def _clean(self, messages: Sequence[Message]) -> Sequence[Message]:
        if not self._forgetting:
            return messages
        return [_with_texts(message, self._without(codec.dump(message))) for message in messages]

    def _clean_effects(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        if not self._forgetting:
            return effects
        return [
            replace(effect, target=self._without(effect.target), text=self._without(effect.text)) for effect in effects
        ]

    def _insert(self, turn: int, messages: Sequence[Message]) -> None:
        db = self._store.db
        for message in messages:
            for image in () if isinstance(message, AssistantMessage) else message.images:
                sql = "INSERT OR IGNORE INTO images (sha256, mime, data) VALUES (?, ?, ?)"
                db.execute(sql, (image.sha256, image.mime, image.data))
        sql = "INSERT INTO messages (session, context, turn, body) VALUES (?, ?, ?, ?)"
        db.executemany(sql, [(self._id, self._context, turn, codec.dump(message)) for message in messages])


class Turn:
    """A turn's journal. What `step` was given is on disk when it returns."""

    def __init__(self, session: Session, id_: int, inbox: int, origin: Origin) -> None:
        self._session, self.id, self.inbox, self._origin = session, id_, inbox, origin
        self._calls: list[usage.Call] = []
        self._begun: list[int | None] = []  # lines of the ledger without an outcome

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._session.history)

    def called(self, call: usage.Call) -> None:
        """A request to a model was made; it is written with what comes next."""
        self._calls.append(call)

    def join(self, inbox: Sequence[int], messages: Sequence[Message]) -> None:
        """Take messages into the turn that came while it ran: one transaction."""
        with self._transaction() as db:
            _take_up(db, self.id, inbox)
            self._session._insert(self.id, messages)
            ledger.tell_undone(db, self._session.key)
        self._session.history.extend(messages)

    def hold(self, told: Outbound | None) -> None:
        """The model cannot be reached: the turn stays open for another time, and the person is told of it once."""
        now = self._session._clock().isoformat()
        with self._transaction() as db:
            db.execute("UPDATE inbox SET told = ? WHERE turn = ? AND told = ''", (now, self.id))
            if told:
                insert(db, told, now, self.inbox)
        self._session._end_turn()

    def leave(self) -> None:
        """The process ends: the turn stays open for the next start."""
        with self._transaction():
            pass

    def acting(self, answer: AssistantMessage, effects: Sequence[Effect] = ()) -> None:
        """Note the answer whose calls are about to run, so that a crash can be told from a step that never began, and
        in the ledger what they are about to change."""
        with self._transaction() as db:
            self._note_running(db, answer)
            self._begun = ledger.insert(db, *self._line(), self._session._clean_effects(effects))

    def acted(self, answer: AssistantMessage, results: Sequence[ToolResult], effects: Sequence[Effect]) -> None:
        """Note which of these calls have ended while others of the answer still run or wait."""
        with self._transaction() as db:
            self._note_running(db, answer, *(result for result in results if not result.images))
            ledger.settle(db, self._begun, self._session._clean_effects(effects)[: len(self._begun)])

    def _note_running(self, db: sqlite3.Connection, *messages: Message) -> None:
        running = self._session._without(f"[{','.join(map(codec.dump, messages))}]")
        db.execute("UPDATE turns SET running = ? WHERE id = ?", (running, self.id))

    def step(self, messages: Sequence[Message], effects: Sequence[Effect] = ()) -> None:
        """An assistant message together with all its results: one transaction. `effects` are those that began, as they
        ended, and then what they brought about besides."""
        messages, effects = self._session._clean(messages), self._session._clean_effects(effects)
        count = len(self._begun)
        with self._transaction() as db:
            self._session._insert(self.id, messages)
            if effects:
                ledger.settle(db, self._begun, effects[:count])
                ledger.insert(db, *self._line(), effects[count:])
            db.execute("UPDATE turns SET running = '[]' WHERE id = ?", (self.id,))
        self._begun = []
        self._session.history.extend(messages)

    def end(
        self,
        ended: TurnEnded,
        final: Sequence[Message],
        outbound: Outbound | None,
        model: str,
        also: Iterable[int] = (),
        write: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """The final answer, its outbox row and the end of the inbox rows, `also` of others that it speaks of, and what
        else there is to `write`: one transaction."""
        session, tokens, now = self._session, ended.usage, self._session._clock().isoformat()
        final = session._clean(final)
        if outbound:
            outbound = replace(outbound, text=session._without(outbound.text))
        with self._transaction() as db:
            session._insert(self.id, final)
            db.execute(
                "UPDATE turns SET ended = ?, reason = ?, running = '[]', model = ?, input_tokens = ?,"
                " output_tokens = ?, cached_tokens = ? WHERE id = ?",
                (now, ended.reason, model, tokens.input_tokens, tokens.output_tokens, tokens.cached_tokens, self.id),
            )
            end(db, (self.inbox, *also), session._clock())
            if outbound:
                insert(db, outbound, now, self.inbox)
            if write:
                write(db)
        session.history.extend(final)
        session._end_turn()

    def _line(self) -> tuple[str, int, datetime]:
        """What every line of the ledger has in common."""
        return self._session.key, self.id, self._session._clock()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One of the store's, with the requests that were made since the last one."""
        session = self._session
        with session._store.transaction() as db:
            if self._calls:
                now = session._clock()
                usage.record(db, self._calls, now, session=session._id, turn=self.id, origin=self._origin)
            yield db
        self._calls.clear()


class Sessions:
    """All conversations; an open one is kept in memory."""

    def __init__(
        self, store: Store, clock: Clock, conversation: Callable[[Address], Address] = lambda address: address
    ) -> None:
        """`conversation` is where an address has its session, for several that share one."""
        self._store, self._clock, self._conversation = store, clock, conversation
        self._open: dict[str, Session] = {}

    def of(self, address: Address) -> Session:
        """The session of an address, made when it is the first time."""
        key = str(self._conversation(address))
        if key not in self._open:
            with self._store.transaction() as db:
                db.execute("INSERT INTO sessions (key) VALUES (?) ON CONFLICT DO NOTHING", (key,))
            ((id_,),) = self._store.rows("SELECT id FROM sessions WHERE key = ?", key)
            self._open[key] = Session(self._store, self._clock, id_, key)
        return self._open[key]

    def forget(self, words: Words, address: Address | None) -> None:
        """Let all conversations forget what was taken out of the store; in the one of `address` it was asked for."""
        for session in self._open.values():
            session.forget(words, address is not None and session.key == str(self._conversation(address)))

    def reload(self) -> None:
        """Take up what another hand changed in the store."""
        for session in self._open.values():
            session.reload()


def list_sessions(store: Store) -> list[SessionInfo]:
    rows = store.rows(
        "SELECT key, count(messages.id), coalesce(max(turns.started), '') FROM sessions"
        " LEFT JOIN messages ON messages.session = sessions.id LEFT JOIN turns ON turns.id = messages.turn"
        " GROUP BY sessions.id ORDER BY 3 DESC"
    )
    return [SessionInfo(*row) for row in rows]


def session_of(store: Store, key: str) -> tuple[str | None, list[Message]]:
    """What a session's context began with, and its history; nothing when there is no such session."""
    found = store.rows("SELECT id, context, memory FROM sessions WHERE key = ?", key)
    if not found:
        return None, []
    id_, context, memory = found[0]
    return memory, [placed.message for placed in _shown(store, id_, context)]


def last_turn(store: Store, key: str) -> TurnRecord | None:
    """The newest ended turn of a session's context, or None."""
    found = store.rows(
        "SELECT turns.id, manifest, turns.model, reason FROM turns"
        " JOIN sessions ON sessions.id = turns.session JOIN messages ON messages.turn = turns.id"
        " WHERE key = ? AND ended IS NOT NULL AND reason <> 'told' AND messages.context = sessions.context"
        " ORDER BY turns.id DESC LIMIT 1",
        key,
    )
    if not found:
        return None
    turn, manifest, model, reason = found[0]
    bodies = store.rows("SELECT body FROM messages WHERE turn = ? ORDER BY id", turn)
    messages = tuple(codec.load(json.loads(body), lambda sha256: _image(store, sha256)) for (body,) in bodies)
    columns = "coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0)"
    sql = f"SELECT coalesce(min(is_reported), 1), {columns} FROM usage WHERE turn = ?"
    ((is_reported, *tokens),) = store.rows(sql, turn)
    return TurnRecord(manifest, messages, model, reason, Usage(*tokens), bool(is_reported))


def whole_history(store: Store, key: str) -> list[Message] | None:
    """All that was ever said in a session, older contexts included; None when there is no such session."""
    found = store.rows("SELECT id FROM sessions WHERE key = ?", key)
    if not found:
        return None
    rows = store.rows("SELECT id, turn, body FROM messages WHERE session = ? ORDER BY id", found[0][0])
    return [placed.message for placed in _placed(store, rows)]


def _take_up(db: sqlite3.Connection, turn: int, inbox: Sequence[int]) -> None:
    sql = "UPDATE inbox SET state = 'running', turn = ? WHERE id = ?"
    db.executemany(sql, [(turn, row) for row in inbox])


def _origin(messages: Sequence[Message]) -> Origin:
    """Who began a turn: its last user message stands after the program's own."""
    return next((message.origin for message in reversed(messages) if isinstance(message, UserMessage)), "person")


def _shown(store: Store, session: int, context: int) -> list[Placed]:
    """What the model is sent of a context."""
    now = instead(store, session, context)
    sql = "SELECT id, turn, body FROM messages WHERE session = ? AND context = ? AND id > ? ORDER BY id"
    found = _placed(store, store.rows(sql, session, context, now.upto))
    if now.short:
        found = [
            placed._replace(message=shortened(placed.message)) if placed.id <= now.short else placed for placed in found
        ]
    return [Placed(0, 0, now.summary), *found] if now.summary else found


def _placed(store: Store, rows: Sequence[tuple[int, int, str]]) -> list[Placed]:
    try:
        # one parse of the whole is several times quicker than one of each row
        bodies = json.loads(f"[{','.join(body for _, _, body in rows)}]")
        return [Placed(id_, turn, _message(store, body)) for (id_, turn, _), body in zip(rows, bodies, strict=True)]
    except (KeyError, ValueError, TypeError):
        found = ((id_, turn, _undamaged(store, text)) for id_, turn, text in rows)
        return [Placed(id_, turn, message) for id_, turn, message in found if message]


def _message(store: Store, body: dict[str, Any]) -> Message:
    return codec.load(body, lambda sha256: _image(store, sha256))


def _undamaged(store: Store, text: str) -> Message | None:
    """None for a row that cannot be read: it stays in the store, and the conversation goes on without it."""
    try:
        return _message(store, json.loads(text))
    except (KeyError, ValueError, TypeError) as error:
        from nanoclaw.core.log import logger

        logger.warning("a message in {} is damaged and was left out: {!r}", store.path, error)
        return None


def _with_texts(message: Message, dumped: str) -> Message:
    body = json.loads(dumped)
    if isinstance(message, AssistantMessage):
        calls = tuple(ToolCall(*call) for call in body.get("calls", ()))
        return replace(message, text=body["text"], tool_calls=calls, opaque=body.get("opaque", ""))
    return replace(message, text=body["text"])


def _image(store: Store, sha256: str) -> tuple[str, bytes]:
    found = store.rows("SELECT mime, data FROM images WHERE sha256 = ?", sha256)
    if not found:
        raise KeyError(f"image {sha256}")
    mime, data = found[0]
    return mime, data
