"""Conversations in the store: every step a model would accept, written as it happens."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from nanoclaw.events import TurnEnded
from nanoclaw.messages import Address, AssistantMessage, Message, Origin, Outbound, ToolCall, Usage, UserMessage
from nanoclaw.store import codec, usage
from nanoclaw.store.db import Store
from nanoclaw.store.outbox import insert
from nanoclaw.store.scrub import Words

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A line of `nanoclaw sessions list`."""

    key: str
    messages: int
    last: str


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """An ended turn; `manifest` is the text that it began with."""

    manifest: str
    messages: tuple[Message, ...]
    model: str
    reason: str
    usage: Usage


class Session:
    """One conversation's newest context. `history` is what the model will be sent, in order."""

    def __init__(self, store: Store, clock: Clock, id_: int, key: str) -> None:
        self._store, self._clock, self._id, self.key = store, clock, id_, key
        (row,) = store.rows("SELECT context, memory, model FROM sessions WHERE id = ?", id_)
        self._context: int = row[0]
        self.memory: str | None = row[1]
        self.model: str = row[2]
        self.history: list[Message] = _history(store, id_, self._context)
        self.on_forget: Callable[[], None] = lambda: None
        self._forgetting: list[tuple[Words, bool]] = []
        self._in_turn = False

    def forget(self, words: Words, closely: bool) -> None:
        """Take up what the store no longer has, tell `on_forget`, and store none of the words until the turn ends."""
        self.reload()
        if self._in_turn:
            self._forgetting.append((words, closely))
        self.on_forget()

    def reload(self) -> None:
        """Take up what another hand changed in the store."""
        ((self.memory,),) = self._store.rows("SELECT memory FROM sessions WHERE id = ?", self._id)
        self.history[:] = _history(self._store, self._id, self._context)

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

    def begin_turn(self, inbox: int, messages: Sequence[Message], manifest: str = "") -> Turn:
        """The inbox row is running and its messages are part of the history, in one transaction."""
        self._forgetting.clear()
        with self._store.transaction() as db:
            db.execute("UPDATE inbox SET state = 'running' WHERE id = ?", (inbox,))
            sql = "INSERT INTO turns (session, inbox, started, manifest) VALUES (?, ?, ?, ?)"
            turn = db.execute(sql, (self._id, inbox, self._clock().isoformat(), manifest)).lastrowid
            assert turn is not None
            self._insert(turn, messages)
        self.history.extend(messages)
        self._in_turn = True
        return Turn(self, turn, inbox, _origin(messages))

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
        self._session, self._id, self._inbox, self._origin = session, id_, inbox, origin
        self._calls: list[usage.Call] = []

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._session.history)

    def called(self, call: usage.Call) -> None:
        """A request to a model was made; it is written with what comes next."""
        self._calls.append(call)

    def acting(self, calls: Sequence[ToolCall]) -> None:
        """Note the calls that are about to run, so that a crash can be told from a step that never began."""
        running = self._session._without(json.dumps([[call.name, call.arguments[:500]] for call in calls]))
        with self._transaction() as db:
            db.execute("UPDATE turns SET running = ? WHERE id = ?", (running, self._id))

    def step(self, messages: Sequence[Message]) -> None:
        """An assistant message together with all its results: one transaction."""
        messages = self._session._clean(messages)
        with self._transaction() as db:
            self._session._insert(self._id, messages)
            db.execute("UPDATE turns SET running = '[]' WHERE id = ?", (self._id,))
        self._session.history.extend(messages)

    def end(self, ended: TurnEnded, final: Sequence[Message], outbound: Outbound | None, model: str) -> None:
        """The final answer, its outbox row and the inbox row's end: one transaction."""
        session, tokens, now = self._session, ended.usage, self._session._clock().isoformat()
        final = session._clean(final)
        if outbound:
            outbound = replace(outbound, text=session._without(outbound.text))
        with self._transaction() as db:
            session._insert(self._id, final)
            db.execute(
                "UPDATE turns SET ended = ?, reason = ?, running = '[]', model = ?, input_tokens = ?,"
                " output_tokens = ?, cached_tokens = ? WHERE id = ?",
                (now, ended.reason, model, tokens.input_tokens, tokens.output_tokens, tokens.cached_tokens, self._id),
            )
            db.execute("UPDATE inbox SET state = 'done' WHERE id = ?", (self._inbox,))
            if outbound:
                insert(db, outbound, now, self._inbox)
        session.history.extend(final)
        session._end_turn()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One of the store's, with the requests that were made since the last one."""
        session = self._session
        with session._store.transaction() as db:
            if self._calls:
                now = session._clock()
                usage.record(db, self._calls, now, session=session._id, turn=self._id, origin=self._origin)
            yield db
        self._calls.clear()


class Sessions:
    """All conversations; an open one is kept in memory."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._open: dict[str, Session] = {}

    def of(self, address: Address) -> Session:
        """The session of an address, made when it is the first time."""
        key = str(address)
        if key not in self._open:
            with self._store.transaction() as db:
                db.execute("INSERT INTO sessions (key) VALUES (?) ON CONFLICT DO NOTHING", (key,))
            ((id_,),) = self._store.rows("SELECT id FROM sessions WHERE key = ?", key)
            self._open[key] = Session(self._store, self._clock, id_, key)
        return self._open[key]

    def forget(self, words: Words, address: Address | None) -> None:
        """Let all conversations forget what was taken out of the store; in the one of `address` it was asked for."""
        for session in self._open.values():
            session.forget(words, session.key == str(address))

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
    return (found[0][2], _history(store, found[0][0], found[0][1])) if found else (None, [])


def last_turn(store: Store, key: str) -> TurnRecord | None:
    """The newest ended turn of a session's context, or None."""
    found = store.rows(
        "SELECT turns.id, manifest, turns.model, reason, input_tokens, output_tokens, cached_tokens FROM turns"
        " JOIN sessions ON sessions.id = turns.session JOIN messages ON messages.turn = turns.id"
        " WHERE key = ? AND ended IS NOT NULL AND messages.context = sessions.context ORDER BY turns.id DESC LIMIT 1",
        key,
    )
    if not found:
        return None
    turn, manifest, model, reason, *tokens = found[0]
    bodies = store.rows("SELECT body FROM messages WHERE turn = ? ORDER BY id", turn)
    messages = tuple(codec.load(json.loads(body), lambda sha256: _image(store, sha256)) for (body,) in bodies)
    return TurnRecord(manifest, messages, model, reason, Usage(*tokens))


def whole_history(store: Store, key: str) -> list[Message] | None:
    """All that was ever said in a session, older contexts included; None when there is no such session."""
    found = store.rows("SELECT id FROM sessions WHERE key = ?", key)
    return _history(store, found[0][0], None) if found else None


def _origin(messages: Sequence[Message]) -> Origin:
    """Who began a turn: its last user message stands after the program's own."""
    return next((message.origin for message in reversed(messages) if isinstance(message, UserMessage)), "person")


def _history(store: Store, session: int, context: int | None) -> list[Message]:
    where, values = ("session = ? AND context = ?", (session, context)) if context else ("session = ?", (session,))
    texts = [row[0] for row in store.rows(f"SELECT body FROM messages WHERE {where} ORDER BY id", *values)]
    try:
        # one parse of the whole is several times quicker than one of each row
        return [_message(store, body) for body in json.loads(f"[{','.join(texts)}]")]
    except (KeyError, ValueError, TypeError):
        return [message for text in texts if (message := _undamaged(store, text))]


def _message(store: Store, body: dict[str, Any]) -> Message:
    return codec.load(body, lambda sha256: _image(store, sha256))


def _undamaged(store: Store, text: str) -> Message | None:
    """None for a row that cannot be read: it stays in the store, and the conversation goes on without it."""
    try:
        return _message(store, json.loads(text))
    except (KeyError, ValueError, TypeError) as error:
        from nanoclaw.log import logger

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
