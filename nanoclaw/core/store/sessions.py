"""Conversations in the store: every step a model would accept, on disk before the next, so that a crash loses nothing
and repeats nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from nanoclaw.core import records
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Effect,
    HistoryMemo,
    Message,
    Origin,
    Outbound,
    Placed,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.core.plugin import Ended, NamedTuple, TurnRecord, Tx
from nanoclaw.core.store import history, inbox
from nanoclaw.core.store.db import Store, Transaction, Transactions
from nanoclaw.core.store.history import SHORT
from nanoclaw.core.store.inbox import OpenTurn, unfinished
from nanoclaw.runtime_metadata import program_remark


class Call(NamedTuple):
    """One request to a model. `estimated` is our own count of its input, 0 if none was made; where the provider told
    nothing (`is_reported` is False), so is `usage`. `is_local`: answered on the person's own machine."""

    model: str
    usage: Usage
    estimated: int = 0
    is_reported: bool = True
    is_local: bool = False


def record(
    db: sqlite3.Connection,
    calls: Iterable[Call],
    at: datetime,
    *,
    session: int | None = None,
    turn: int | None = None,
    origin: Origin = "person",
) -> None:
    """Record calls inside the caller's transaction."""
    rows = [
        (
            *(at.isoformat(), session, turn, origin, call.model),
            *(call.usage.input_tokens, call.usage.output_tokens, call.usage.cached_tokens),
            *(call.estimated, call.is_reported, call.is_local),
        )
        for call in calls
    ]
    sql = (
        "INSERT INTO usage (at, session, turn, origin, model, input_tokens, output_tokens, cached_tokens, estimated,"
        " is_reported, is_local) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    db.executemany(sql, rows)


def past_counts(store: Store, model: str, limit: int = 20) -> list[tuple[int, int]]:
    """The newest pairs of our own count and the provider's, oldest first."""
    sql = "SELECT estimated, input_tokens FROM usage WHERE model = ? AND estimated > 0 AND is_reported ORDER BY id DESC"
    return store.rows(f"{sql} LIMIT ?", model, limit)[::-1]


T = TypeVar("T")

Clean = Callable[[str, bool], str]
"""Removes from a text what is to be forgotten; True for the conversation where that was requested."""

MOST_LOADED, UNUSED = 64, timedelta(minutes=10)
"""Most conversations in memory, and seconds after which an unused one leaves it, except those in a turn."""

SENT = "Sent by the program."
"""The remark in a history if nobody gave a reason for a message."""


class Session:
    """One conversation's newest context. `history` is what the model will be sent, in order."""

    def __init__(self, transactions: Transactions, id_: int, key: str, next_turn: Callable[[], int]) -> None:
        self.transactions, self.id, self.key, self._next_turn = transactions, id_, key, next_turn
        self._store, self._clock = transactions.store, transactions.clock
        self.context: int
        self.model: str
        ((self.context, self.model),) = self._store.rows("SELECT context, model FROM sessions WHERE id = ?", id_)
        self.memo = HistoryMemo()
        self._is_loaded = False
        self._history: list[Message] = []
        self._last = 0  # number of its newest message in the store
        self._snapshot_text: str | None = None
        self._results: int | None = None  # of tools, so far
        self.forgot = 0
        """Counts how often something was forgotten."""
        self.is_in_turn = False
        self._forgetting: list[tuple[Clean, bool]] = []

    @property
    def history(self) -> list[Message]:
        if not self._is_loaded:
            self.placed()
        return self._history

    @property
    def snapshot_text(self) -> str | None:
        """The prompt snapshot of the context, as text."""
        if not self._is_loaded:
            self.placed()
        return self._snapshot_text

    def unload(self) -> None:
        """Remove history and snapshot from memory; they are read from the store when needed."""
        self._is_loaded, self.memo, self._results = False, HistoryMemo(), None
        self._history, self._snapshot_text = [], None

    def results(self) -> int:
        """The number of tool results so far, counted from 1, older contexts included."""
        if self._results is None:
            sql = f"SELECT count(*) FROM messages WHERE {history.IS_RESULT}"
            self._results = int(self._store.rows(sql, self.id)[0][0])
        return self._results

    def result(self, number: int) -> tuple[ToolCall | None, ToolResult] | None:
        """The result with a number, counted from 1, and its call; None if there is none."""
        sql = f"SELECT id, turn, body FROM messages WHERE {history.IS_RESULT} ORDER BY id LIMIT 1 OFFSET ?"
        for id_, turn, found in history.placed_of(self._store, self._store.rows(sql, self.id, max(1, number) - 1)):
            assert isinstance(found, ToolResult)
            said = self.of_turn(turn, id_)
            made = [call for one in said if isinstance(one, AssistantMessage) for call in one.tool_calls]
            return next((call for call in reversed(made) if call.id == found.call_id), None), found
        return None

    def _add(self, messages: Sequence[Message], last: int) -> None:
        """Read the store, unless that was done meanwhile."""
        if self._is_loaded and last > self._last:
            self._history.extend(messages)
            self._last = last

    def forget(self, clean: Clean, is_here: bool) -> None:
        """Drop what the store no longer has, and store none of it again until the turn ends."""
        self.forgot += 1
        if self.is_in_turn:
            self._forgetting.append((clean, is_here))
        self.unload()

    def placed(self) -> list[Placed]:
        """The history, read again, with the row of each message."""
        shown = history.shown(self._store, self.id, self.context)
        found = self._store.rows("SELECT memory FROM sessions WHERE id = ?", self.id)
        self._snapshot_text = found[0][0] if found else None  # as JSON; none where its own row is being written
        self._history, self._is_loaded = [placed.message for placed in shown], True
        self._last = shown[-1].id if shown else 0
        return shown

    def unsummed(self) -> list[Placed]:
        """The summary if there is one, and all messages since, including those replaced by lines."""
        return history.shown(self._store, self.id, self.context, with_lines=False)

    def has_lines(self) -> bool:
        """True if lines were ever shown in place of turns of this context."""
        sql = "SELECT 1 FROM compactions WHERE session = ? AND context = ? AND kind = 'short' AND summary <> ''"
        return bool(self._store.rows(sql, self.id, self.context))

    def whole(self) -> list[Message]:
        """All messages ever, older contexts included."""
        return history.whole_history(self._store, self.key) or []

    def said(self, before: int, most: int) -> list[Placed]:
        """The last messages before a row, older contexts included, but none that was taken back."""
        rows = "SELECT id FROM messages WHERE session = ? AND id < ? AND context > 0 ORDER BY id DESC LIMIT ?"
        sql = f"SELECT id, turn, body FROM messages WHERE id IN ({rows}) ORDER BY id"
        return history.placed_of(self._store, self._store.rows(sql, self.id, before, most))

    def of_turn(self, turn: int, upto: int) -> list[Message]:
        """The messages of a turn up to that id, as they were said."""
        return history.of_turn(self._store, self.id, turn, upto)

    def last_turn(self) -> TurnRecord | None:
        """The newest ended turn of this context."""
        sql = (
            "SELECT turns.id, manifest, turns.model, reason FROM turns JOIN messages ON messages.turn = turns.id"
            " WHERE turns.session = ? AND ended IS NOT NULL AND reason <> 'told' AND messages.context = ?"
            " ORDER BY turns.id DESC LIMIT 1"
        )
        for turn, manifest, model, reason in self._store.rows(sql, self.id, self.context):
            columns = "coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0)"
            sql = f"SELECT coalesce(min(is_reported), 1), {columns} FROM usage WHERE turn = ?"
            ((is_reported, *tokens),) = self._store.rows(sql, turn)
            messages = tuple(history.of_turn(self._store, self.id, turn))
            return TurnRecord(manifest, messages, model, reason, Usage(*tokens), bool(is_reported))
        return None

    def compact(self, upto: int, summary: str, snapshot: str) -> None:
        """From now on send the summary in place of all messages up to that id, after a new prompt snapshot."""
        with self.transactions.open() as tx:
            tx.db.execute("UPDATE sessions SET memory = ? WHERE id = ?", (snapshot, self.id))
            self._note_compaction(tx, "summary", upto, SHORT, summary)

    def shorten(self, upto: int, chars: int = SHORT, lines: str = "") -> None:
        """From now on shorten long texts up to that id, or send lines in place of all messages up to it."""
        with self.transactions.open() as tx:
            self._note_compaction(tx, "short", upto, chars, lines)

    def _note_compaction(self, tx: Transaction, kind: str, upto: int, chars: int, text: str) -> None:
        row = (self.id, self.context, self._clock().isoformat(), kind, upto, chars, self.clean_text(text))
        columns = "session, context, at, kind, upto, chars, summary"
        tx.db.execute(f"INSERT INTO compactions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        tx.after(self.unload)

    def reset(self, tx: Tx) -> None:
        """Start a new context; what was said stays in the store."""
        tx.execute("UPDATE sessions SET context = context + 1, memory = NULL WHERE id = ?", self.id)
        tx.after(self._begin_context)

    def take_back(self, tx: Tx, turn: int) -> None:
        """Leave a turn of the context and all after it out of what is sent; they stay, in a context of their own."""
        here, where = "session = ? AND context = ?", (self.id, self.context, turn)
        first = f"(SELECT min(id) FROM messages WHERE {here} AND turn >= ?)"
        tx.execute(f"DELETE FROM compactions WHERE {here} AND upto >= {first}", *where[:2], *where)
        tx.execute(f"UPDATE messages SET context = -context WHERE {here} AND turn >= ?", *where)
        tx.after(self.unload)

    def _begin_context(self) -> None:
        self.context += 1
        self.unload()

    def use_model(self, model: str) -> None:
        with self.transactions.open() as tx:
            tx.db.execute("UPDATE sessions SET model = ? WHERE id = ?", (model, self.id))
            tx.after(lambda: setattr(self, "model", model))

    def keep_snapshot(self, text: str) -> None:
        """Keep what this context began with, so that the next request begins alike."""
        if text == self.snapshot_text:
            return
        with self.transactions.open() as tx:
            tx.db.execute("UPDATE sessions SET memory = ? WHERE id = ?", (text, self.id))
            tx.after(lambda: setattr(self, "_snapshot_text", text))

    # --- turns -------------------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        self.is_in_turn = False
        self._forgetting.clear()

    def clean_text(self, text: str) -> str:
        for clean, is_here in self._forgetting:
            text = clean(text, is_here)
        return text

    def clean_effects(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        if not self._forgetting:
            return effects
        return [
            effect._replace(target=self.clean_text(effect.target), text=self.clean_text(effect.text))
            for effect in effects
        ]

    def insert(self, tx: Transaction, turn: int, messages: Sequence[Message]) -> None:
        """Make messages part of the history once they are on disk, without what was forgotten in this turn."""
        if self._forgetting:
            messages = [history.with_texts(message, self.clean_text(history.dump(message))) for message in messages]
        last, sql = 0, "INSERT INTO messages (session, context, turn, body) VALUES (?, ?, ?, ?) RETURNING id"
        for message in messages:
            for image in () if isinstance(message, AssistantMessage) else message.images:
                insert = "INSERT OR IGNORE INTO images (sha256, mime, data) VALUES (?, ?, ?)"
                tx.execute(insert, image.sha256, image.mime, image.data)
            ((last,),) = tx.execute(sql, self.id, self.context, turn, history.dump(message))
        if self._results is not None:
            self._results += sum(isinstance(message, ToolResult) for message in messages)
            tx.on_rollback(lambda: setattr(self, "_results", None))
        tx.after(lambda: self._add(messages, last))

    def add_sent(self, tx: Transaction, key: str, said: Sequence[tuple[str, str, str]]) -> None:
        """Add messages that the program sent by itself: remark, text, and sources of others' text. `key` is unique."""
        messages, why = list[Message](), "{} Sent to the person as follows:"
        for remark, text, outside in said:
            about = UserMessage(program_remark(tx.now, why.format(remark or SENT)), tx.now, "runtime", outside=outside)
            messages += [about, AssistantMessage(text, tx.now)]
        self.add_turn(tx, key, messages)

    def add_turn(self, tx: Transaction, key: str, messages: Sequence[Message], *, had_before: bool = False) -> None:
        """Add messages to the history that no turn has brought here; '' is a `key` of their own. A turn that the owner
        `had_before` elsewhere is found at its own time."""
        turn, body = self._next_turn(), '{"origin": "person", "role": "owner"}' if had_before else "{}"
        began, ended = (messages[0].at, messages[-1].at) if had_before else (tx.now, tx.now)
        sql = "INSERT INTO inbox (channel, chat, external_id, body, state, received) VALUES (?, ?, ?, ?, 'done', ?)"
        values = ("program", self.key, key or f"added/{turn}", body, tx.now.isoformat())
        ((row,),) = tx.execute(f"{sql} RETURNING id", *values)
        sql = "INSERT INTO turns (id, session, inbox, started, ended, reason) VALUES (?, ?, ?, ?, ?, 'told')"
        tx.execute(sql, turn, self.id, row, began.isoformat(), ended.isoformat())
        tx.execute("UPDATE inbox SET turn = ? WHERE id = ?", turn, row)
        self.insert(tx, turn, messages)

    def add_sent_meanwhile(self, tx: Transaction, key: str) -> None:
        """Add messages that were sent during a turn here to the history."""
        sql = (
            "SELECT remark, text, json_array_length(files), outside FROM untold JOIN outbox ON outbox.id = outbox"
            " WHERE conversation = ? ORDER BY outbox"
        )
        if rows := tx.execute(sql, self.key):
            tx.execute("DELETE FROM untold WHERE conversation = ?", self.key)
            said = [(remark, history_text(text, files), outside) for remark, text, files, outside in rows]
            self.add_sent(tx, key, said)


class TurnJournal:
    """Records one turn. What a method was given is on disk when it returns, except for `later` and `called`."""

    def __init__(self, session: Session, id_: int, inbox: int, spender: Origin) -> None:
        """`inbox` is the row of its first message; `spender` has its costs."""
        self.session, self.id, self.inbox, self._spender = session, id_, inbox, spender
        self._calls: list[Call] = []
        self._begun: list[int | None] = []  # lines of the audit log without an outcome
        self._later: list[Callable[[Transaction], object]] = []

    def called(self, call: Call) -> None:
        """Record a request to a model; it is written with the next step."""
        self._calls.append(call)

    def later(self, change: Callable[[Transaction], object]) -> None:
        """Make a change part of the next transaction."""
        self._later.append(change)

    async def change(self, change: Callable[[Transaction], T]) -> T:
        """Make a change in one transaction with everything that was left for it."""
        return await self.session.transactions.write(lambda tx: self._with_rest(tx, change))

    def change_now(self, change: Callable[[Transaction], T]) -> T:
        """The same, before anything else runs."""
        return self.session.transactions.write_now(lambda tx: self._with_rest(tx, change))

    async def write(self, change: Callable[[Transaction], T], call: str, told: str = "") -> T:
        """Make a change in one transaction with the mark that a call took effect, and what is told of it after a
        crash."""

        def marked(tx: Transaction) -> T:
            result = change(tx)
            sql = (
                "UPDATE turns SET took_effect = json_insert(CASE WHEN json_type(took_effect, '$.done') = 'array'"
                " THEN took_effect ELSE '{\"atomic\": [], \"done\": []}' END, '$.done[#]', json(?)) WHERE id = ?"
            )
            tx.execute(sql, json.dumps([call, told] if told else call), self.id)
            return result

        return await self.change(marked)

    async def begin(
        self, rows: Sequence[int], messages: Sequence[Message], manifest: str = "", snapshot: str = ""
    ) -> TurnJournal:
        """Mark the inbox rows as running and make their messages part of the history, in one transaction. A power cut
        may undo it: then they are waiting messages, as nothing was done yet."""
        session = self.session

        def begun(tx: Transaction) -> None:
            sql = "INSERT INTO turns (id, session, inbox, started, manifest) VALUES (?, ?, ?, ?, ?)"
            tx.execute(sql, self.id, session.id, self.inbox, tx.now.isoformat(), manifest)
            session.add_sent_meanwhile(tx, f"before/{self.id}")
            self._with_rest(tx, lambda tx: self.join(tx, rows, messages))
            if snapshot:
                session.keep_snapshot(snapshot)
            tx.after(lambda: setattr(session, "is_in_turn", True))

        await session.transactions.write(begun, is_synced=False)
        return self

    def join(self, tx: Transaction, rows: Sequence[int], messages: Sequence[Message]) -> None:
        """Make messages part of the turn, also of a running one."""
        for row in rows:
            tx.execute("UPDATE inbox SET state = 'running', turn = ? WHERE id = ?", self.id, row)
        self.session.insert(tx, self.id, messages)

    def reopen(self, cut: OpenTurn, *, after_crash: bool = False) -> TurnJournal:
        """Resume a turn that did not end. Calls that were running become part of the history as broken off; those of a
        paused turn wait there for an answer."""
        if not cut.waits_for_owner:
            with self.session.transactions.open() as tx:
                ((running, took_effect),) = tx.execute("SELECT running, took_effect FROM turns WHERE id = ?", cut.id)
                messages = unfinished(running, tx.now, took_effect)
                sql = "UPDATE turns SET running = '[]', took_effect = '[]', resumed = resumed + ? WHERE id = ?"
                tx.execute(sql, after_crash, cut.id)
                self.session.insert(tx, cut.id, messages)
        self.session.is_in_turn = True
        return self

    def leave(self, told: Outbound | None = None, *, waits: bool = False) -> None:
        """Leave the turn open: for the next start, as the process ends, or while it `waits` until its model can be
        reached again, of which the person is told once."""

        def left(tx: Transaction) -> None:
            if waits:
                tx.execute("UPDATE inbox SET told = ? WHERE turn = ? AND told = ''", tx.now.isoformat(), self.id)
            if told:
                tx.send(told, inbox=self.inbox)

        self.change_now(left)
        self.session.end_turn()

    async def acting(
        self,
        answer: AssistantMessage,
        effects: Sequence[Effect] = (),
        atomic: Sequence[str] = (),
        known: Sequence[ToolResult] = (),
    ) -> None:
        """Record the answer whose calls are about to run, so that a crash can be told from a step that never began, and
        in the audit log what they are about to change. `atomic` are ids of calls whose only effect is one write;
        `known` are results of calls that ran before."""

        def noted(tx: Transaction) -> None:
            self._note_running(tx, answer, known, {"atomic": list(atomic), "done": []} if atomic else [])
            self._begun = []
            self._begun = self._log(tx, effects)

        await self.change(noted)

    async def acted(self, answer: AssistantMessage, results: Sequence[ToolResult], effects: Sequence[Effect]) -> None:
        """Record which of these calls have ended while others of the answer still run or wait."""

        def noted(tx: Transaction) -> None:
            self._note_running(tx, answer, results)
            self._log(tx, effects[: len(self._begun)])

        await self.change(noted)

    def _note_running(
        self, tx: Transaction, answer: AssistantMessage, results: Sequence[ToolResult], marks: object = None
    ) -> None:
        """Note calls that run, with the results of those that have ended; the `marks` of before stay without new."""
        messages: list[Message] = [answer, *(result for result in results if not result.images)]
        running = self.session.clean_text(f"[{','.join(map(history.dump, messages))}]")
        sql = "UPDATE turns SET running = ?, took_effect = ifnull(?, took_effect) WHERE id = ?"
        tx.execute(sql, running, None if marks is None else json.dumps(marks), self.id)

    def _log(self, tx: Transaction, effects: Sequence[Effect]) -> list[int | None]:
        """Write effects into the audit log: first the outcome of those that it has, then new ones; their lines."""
        if not effects:
            return []
        known, effects = self._begun, self.session.clean_effects(effects)
        records.finish(tx.db, known, effects[: len(known)])
        return records.insert(tx.db, self.session.key, self.id, tx.now, effects[len(known) :])

    async def step(self, messages: Sequence[Message], effects: Sequence[Effect] = ()) -> None:
        """Add an assistant message together with all its results. `effects` are those that were announced, with their
        outcome, then any others."""

        def taken(tx: Transaction) -> None:
            self.session.insert(tx, self.id, messages)
            self._log(tx, effects)
            tx.execute("UPDATE turns SET running = '[]', took_effect = '[]' WHERE id = ?", self.id)

        await self.change(taken)
        self._begun = []

    def retries(self) -> list[str]:
        sql = "SELECT retries FROM turns WHERE id = ?"
        return [str(name) for name in json.loads(self.session.transactions.store.rows(sql, self.id)[0][0])]

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the turn so far."""
        said = history.of_turn(self.session.transactions.store, self.session.id, self.id)
        return tuple(call for one in said if isinstance(one, AssistantMessage) for call in one.tool_calls)

    def pause(self, answer: AssistantMessage, change: Callable[[Transaction], object]) -> None:
        """Leave the turn open with an answer whose calls wait for the owner's yes, which `change` asks for."""
        none_has_begun = {"atomic": [call.id for call in answer.tool_calls], "done": [], "paused": True}

        def paused(tx: Transaction) -> None:
            self._note_running(tx, answer, (), none_has_begun)
            change(tx)

        self.change_now(paused)
        self.session.end_turn()

    def waiting(self) -> AssistantMessage | None:
        """The answer whose calls wait for the owner's yes."""
        rows = self.session.transactions.store.rows("SELECT running FROM turns WHERE id = ?", self.id)
        answer = history.first_of(rows[0][0])
        return answer if isinstance(answer, AssistantMessage) else None

    def end(
        self, tx: Transaction, ended: Ended, final: Sequence[Message], model: str, also: Iterable[int] = ()
    ) -> Ended:
        """End the turn with its final answer, its outbox row and the end of its inbox rows, `also` of others that it
        speaks of. Returns its end without what was forgotten meanwhile."""
        session, outbound = self.session, ended.outbound
        if outbound:
            outbound = outbound._replace(text=session.clean_text(outbound.text))
        session.insert(tx, self.id, final)
        sql = "UPDATE turns SET ended = ?, reason = ?, running = '[]', took_effect = '[]', model = ? WHERE id = ?"
        tx.execute(sql, tx.now.isoformat(), ended.reason, model, self.id)
        inbox.end(tx.db, (self.inbox, *also), tx.now)
        if outbound and (outbound.text.strip() or outbound.files):
            tx.send(outbound, inbox=self.inbox)
        session.add_sent_meanwhile(tx, f"told/{self.id}")
        tx.after(session.end_turn)
        return ended._replace(outbound=outbound)

    def _with_rest(self, tx: Transaction, change: Callable[[Transaction], T]) -> T:
        changes, calls = self._later, self._calls
        self._later, self._calls = [], []
        tx.on_rollback(lambda: self._take_back(changes, calls))
        for one in changes:
            one(tx)
        if calls:
            record(tx.db, calls, tx.now, session=self.session.id, turn=self.id or None, origin=self._spender)
        return change(tx)

    def _take_back(self, changes: list[Callable[[Transaction], object]], calls: list[Call]) -> None:
        self._later, self._calls = changes + self._later, calls + self._calls


class Sessions:
    """All conversations; recently used ones are in memory."""

    def __init__(
        self, transactions: Transactions, home_of: Callable[[Address], Address | None] = lambda address: None
    ) -> None:
        """`home_of` tells which conversation an address is part of, where that is another than its own."""
        self.transactions, self.store, self._home_of = transactions, transactions.store, home_of
        self._open: dict[str, Session] = {}
        self._used: dict[str, datetime] = {}  # those whose history may be in memory, the longest unused first
        self._last_turn = 0

    def next_turn(self) -> int:
        """The number of a turn that is about to begin, before it is in the store."""
        if not self._last_turn:
            ((self._last_turn,),) = self.store.rows("SELECT coalesce(max(id), 0) FROM turns")
        self._last_turn += 1
        return self._last_turn

    def conversation(self, address: Address) -> Address:
        """The conversation that an address is part of."""
        return self._home_of(address) or address

    def of(self, conversation: Address) -> Session:
        """The session of a conversation, created at the first use."""
        key = str(conversation)
        if key not in self._open:
            if not (found := self.store.rows("SELECT id FROM sessions WHERE key = ?", key)):
                with self.transactions.open() as tx:
                    found = tx.db.execute("INSERT INTO sessions (key) VALUES (?) RETURNING id", (key,)).fetchall()
                    tx.on_rollback(lambda: self._open.pop(key, None))
            self._open[key] = Session(self.transactions, found[0][0], key, self.next_turn)
        self._used.pop(key, None)
        self._used[key] = now = self.transactions.clock()
        for other, used in list(self._used.items()):
            if len(self._used) <= MOST_LOADED and now - used < UNUSED:
                break
            if other in self._open and not self._open[other].is_in_turn:
                del self._used[other]
                self._open[other].unload()
        return self._open[key]

    def enter(self, tx: Transaction, row: int, outbound: Outbound, remark: str) -> None:
        """Add a message that the program sends to the history of its chat: now, or after the turn that runs there."""
        session = self.of(self.conversation(outbound.address))
        if session.is_in_turn or tx.execute("SELECT 1 FROM turns WHERE session = ? AND ended IS NULL", session.id):
            sql = "INSERT INTO untold (outbox, conversation, remark, outside) VALUES (?, ?, ?, ?)"
            tx.execute(sql, row, session.key, remark, outbound.outside)
        else:
            text = history_text(outbound.text, len(outbound.files))
            session.add_sent(tx, f"sent/{row}", [(remark, text, outbound.outside)])

    def drop(self, tx: Tx, session: Session, turn: int) -> None:
        """Keep only the cost of a turn that has ended, and drop a conversation that had nothing else."""
        tx.execute("UPDATE usage SET session = NULL, turn = NULL WHERE turn = ?", turn)
        tx.execute("DELETE FROM compactions WHERE upto IN (SELECT id FROM messages WHERE turn = ?)", turn)
        tx.execute("DELETE FROM messages WHERE turn = ?", turn)
        tx.execute("UPDATE ledger SET turn = NULL WHERE turn = ?", turn)
        rows = tx.execute("UPDATE inbox SET turn = NULL WHERE turn = ? RETURNING id", turn)
        tx.execute("DELETE FROM turns WHERE id = ?", turn)
        for (row,) in rows:
            tx.execute("UPDATE outbox SET inbox = NULL WHERE inbox = ?", row)  # what it sent stays
            tx.execute("DELETE FROM inbox WHERE id = ?", row)
        if not tx.execute("SELECT 1 FROM turns WHERE session = ?", session.id):
            tx.execute("DELETE FROM sessions WHERE id = ?", session.id)
        tx.after(lambda: (self._open.pop(session.key, None), self._used.pop(session.key, None)))

    def forget(self, clean: Clean, conversation: Address | None) -> None:
        """Let all conversations forget what was removed from the store; `conversation` is where it was asked for."""
        for session in self._open.values():
            session.forget(clean, session.key == str(conversation))

    def reload(self) -> None:
        """Read the store again after another process changed it."""
        for session in self._open.values():
            session.unload()


def history_text(text: str, files: int) -> str:
    """The text about a sent message for the history."""
    return text if text.strip() else f"({files} file{'s' if files > 1 else ''} without words)"
