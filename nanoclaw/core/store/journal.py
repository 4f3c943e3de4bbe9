"""A turn's journal: each step on disk before the next, so that a crash loses nothing and repeats nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from nanoclaw.core import records
from nanoclaw.core.messages import AssistantMessage, Effect, Message, Origin, Outbound, ToolCall, ToolResult
from nanoclaw.core.plugin import Ended
from nanoclaw.core.store import codec, history, usage
from nanoclaw.core.store.inbox import OpenTurn, unfinished
from nanoclaw.core.store.inbox import end as close_rows
from nanoclaw.core.store.sessions import Session
from nanoclaw.core.store.tx import Transaction

T = TypeVar("T")


class TurnJournal:
    """Records one turn. What a method was given is on disk when it returns, except for `later` and `called`."""

    def __init__(self, session: Session, id_: int, inbox: int, spender: Origin) -> None:
        """`inbox` is the row of its first message; `spender` has its costs."""
        self.session, self.id, self.inbox, self._spender = session, id_, inbox, spender
        self._calls: list[usage.Call] = []
        self._begun: list[int | None] = []  # lines of the audit log without an outcome
        self._later: list[Callable[[Transaction], object]] = []

    def called(self, call: usage.Call) -> None:
        """Record a request to a model; it is written with the next step."""
        self._calls.append(call)

    def later(self, change: Callable[[Transaction], object]) -> None:
        """Make a change part of the next transaction."""
        self._later.append(change)

    async def write(self, change: Callable[[Transaction], T], call: str, told: str = "") -> T:
        """Make a change in one transaction with the mark that a call took effect, and what is told of it after a
        crash."""

        def marked(tx: Transaction) -> T:
            result = change(tx)
            sql = (
                "UPDATE turns SET took_effect = json_insert(CASE WHEN json_type(took_effect, '$.done') = 'array'"
                " THEN took_effect ELSE '{\"atomic\": [], \"done\": []}' END, '$.done[#]', json(?)) WHERE id = ?"
            )
            tx.db.execute(sql, (json.dumps([call, told] if told else call), self.id))
            return result

        return await self._write(marked)

    async def begin(
        self, inbox: Sequence[int], messages: Sequence[Message], manifest: str = "", snapshot: str = ""
    ) -> TurnJournal:
        """Mark the inbox rows as running and make their messages part of the history, in one transaction. A power cut
        may undo it: then they are waiting messages, as nothing was done yet."""
        session = self.session

        def begun(tx: Transaction) -> None:
            sql = "INSERT INTO turns (id, session, inbox, started, manifest) VALUES (?, ?, ?, ?, ?)"
            tx.db.execute(sql, (self.id, session.id, self.inbox, tx.now.isoformat(), manifest))
            _mark_running(tx.db, self.id, inbox)
            session.add_sent_meanwhile(tx, f"before/{self.id}")
            session.insert(tx, self.id, messages)
            if snapshot:
                session.keep_snapshot(snapshot)
            self._write_rest(tx)
            tx.after(lambda: setattr(session, "is_in_turn", True))

        await session.transactions.write(begun, is_synced=False)
        return self

    def reopen(self, cut: OpenTurn, *, after_crash: bool = False) -> TurnJournal:
        """Resume a turn that did not end. Calls that were running become part of the history as broken off; those of a
        paused turn wait there for an answer."""
        if not cut.waits_for_owner:
            with self.session.transactions.open() as tx:
                sql = "SELECT running, took_effect FROM turns WHERE id = ?"
                ((running, took_effect),) = tx.db.execute(sql, (cut.id,)).fetchall()
                messages = unfinished(running, tx.now, took_effect)
                sql = "UPDATE turns SET running = '[]', took_effect = '[]', resumed = resumed + ? WHERE id = ?"
                tx.db.execute(sql, (after_crash, cut.id))
                self.session.insert(tx, cut.id, messages)
        self.session.is_in_turn = True
        return self

    async def flush(self) -> None:
        """Write what was left for the next step, where none comes."""
        await self._write(lambda tx: None)

    async def join(self, inbox: Sequence[int], messages: Sequence[Message]) -> None:
        """Add messages to the turn that came while it ran."""

        def joined(tx: Transaction) -> None:
            _mark_running(tx.db, self.id, inbox)
            self.session.insert(tx, self.id, messages)

        await self._write(joined)

    def hold(self, told: Outbound | None) -> None:
        """Leave the turn open until its model can be reached again; the person is told once."""
        with self._transaction() as tx:
            now = tx.now.isoformat()
            tx.db.execute("UPDATE inbox SET told = ? WHERE turn = ? AND told = ''", (now, self.id))
            if told:
                tx.send(told, inbox=self.inbox)
        self.session.end_turn()

    def leave(self) -> None:
        """Leave the turn open for the next start, as the process ends."""
        with self._transaction():
            pass
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
            self._note_running(tx.db, answer, *(result for result in known if not result.images))
            self._note_marks(tx.db, atomic)
            self._begun = records.insert(tx.db, *self._line(), self.session.clean_effects(effects))

        await self._write(noted)

    async def acted(self, answer: AssistantMessage, results: Sequence[ToolResult], effects: Sequence[Effect]) -> None:
        """Record which of these calls have ended while others of the answer still run or wait."""

        def noted(tx: Transaction) -> None:
            self._note_running(tx.db, answer, *(result for result in results if not result.images))
            records.finish(tx.db, self._begun, self.session.clean_effects(effects)[: len(self._begun)])

        await self._write(noted)

    def _note_running(self, db: sqlite3.Connection, *messages: Message) -> None:
        running = self.session.clean_text(f"[{','.join(map(codec.dump, messages))}]")
        db.execute("UPDATE turns SET running = ? WHERE id = ?", (running, self.id))

    def _note_marks(self, db: sqlite3.Connection, atomic: Sequence[str], *, paused: bool = False) -> None:
        marks = {"atomic": list(atomic), "done": [], **({"paused": True} if paused else {})} if atomic else []
        db.execute("UPDATE turns SET took_effect = ? WHERE id = ?", (json.dumps(marks), self.id))

    async def step(self, messages: Sequence[Message], effects: Sequence[Effect] = ()) -> None:
        """Add an assistant message together with all its results. `effects` are those that were announced, with their
        outcome, then any others."""

        def taken(tx: Transaction) -> None:
            said, changed, count = self.session.clean(messages), self.session.clean_effects(effects), len(self._begun)
            self.session.insert(tx, self.id, said)
            if changed:
                records.finish(tx.db, self._begun, changed[:count])
                records.insert(tx.db, *self._line(), changed[count:])
            tx.db.execute("UPDATE turns SET running = '[]', took_effect = '[]' WHERE id = ?", (self.id,))

        await self._write(taken)
        self._begun = []

    def retried(self, plugins: Sequence[str]) -> None:
        """Record with the next step which plugins made the model answer again."""
        self.later(lambda tx: tx.execute("UPDATE turns SET retries = ? WHERE id = ?", json.dumps(plugins), self.id))

    def retries(self) -> list[str]:
        sql = "SELECT retries FROM turns WHERE id = ?"
        return [str(name) for name in json.loads(self.session.transactions.store.rows(sql, self.id)[0][0])]

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the turn so far."""
        said = history.of_turn(self.session.transactions.store, self.session.id, self.id)
        return tuple(call for one in said if isinstance(one, AssistantMessage) for call in one.tool_calls)

    def pause(self, answer: AssistantMessage, change: Callable[[Transaction], object]) -> None:
        """Leave the turn open with an answer whose calls wait for the owner's yes, which `change` asks for."""
        with self._transaction() as tx:
            self._note_running(tx.db, answer)
            self._note_marks(tx.db, [call.id for call in answer.tool_calls], paused=True)  # none of them has begun
            change(tx)
        self.session.end_turn()

    def waiting(self) -> AssistantMessage | None:
        """The answer whose calls wait for the owner's yes."""
        rows = self.session.transactions.store.rows("SELECT running FROM turns WHERE id = ?", self.id)
        answer = codec.first_of(rows[0][0])
        return answer if isinstance(answer, AssistantMessage) else None

    async def end(
        self,
        ended: Ended,
        final: Sequence[Message],
        model: str,
        also: Iterable[int] = (),
        hooks: Callable[[Ended, Transaction], Ended] = lambda ended, tx: ended,
        then: Callable[[Ended, Transaction], object] = lambda ended, tx: None,
    ) -> None:
        """End the turn: the final answer, its outbox row, the end of the inbox rows (`also` of others that it speaks
        of) and what the plugins' `hooks` make of it are one transaction; `then` is its last part."""
        end_in = self._ending(ended, final, model, also, hooks)
        await self._write(lambda tx: then(end_in(tx), tx))

    def end_now(
        self,
        ended: Ended,
        final: Sequence[Message],
        hooks: Callable[[Ended, Transaction], Ended],
        then: Callable[[Ended, Transaction], object],
    ) -> None:
        """End a turn with a text by the program, before anything else runs."""
        with self._transaction() as tx:
            then(self._ending(ended, final, "", (), hooks)(tx), tx)

    def _ending(
        self,
        ended: Ended,
        final: Sequence[Message],
        model: str,
        also: Iterable[int],
        hooks: Callable[[Ended, Transaction], Ended],
    ) -> Callable[[Transaction], Ended]:
        def end_in(tx: Transaction) -> Ended:
            session, last = self.session, hooks(ended, tx)
            said = session.clean(final)
            if last.outbound:
                last = last._replace(outbound=last.outbound._replace(text=session.clean_text(last.outbound.text)))
            session.insert(tx, self.id, said)
            tx.db.execute(
                "UPDATE turns SET ended = ?, reason = ?, running = '[]', took_effect = '[]', model = ? WHERE id = ?",
                (tx.now.isoformat(), last.reason, model, self.id),
            )
            close_rows(tx.db, (self.inbox, *also), tx.now)
            if last.outbound and (last.outbound.text.strip() or last.outbound.files):
                tx.send(last.outbound, inbox=self.inbox)
            session.add_sent_meanwhile(tx, f"told/{self.id}")
            tx.after(session.end_turn)
            return last

        return end_in

    def _line(self) -> tuple[str, int, datetime]:
        """Columns that all lines of the audit log share."""
        return self.session.key, self.id, self.session.transactions.clock()

    async def _write(self, change: Callable[[Transaction], T]) -> T:
        """Make a change in one transaction with everything that was left for it."""

        def whole(tx: Transaction) -> T:
            self._write_rest(tx)
            return change(tx)

        return await self.session.transactions.write(whole)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        """A transaction of the store, with the changes requested and the requests made since the last one."""
        with self.session.transactions.open() as tx:
            self._write_rest(tx)
            yield tx

    def _write_rest(self, tx: Transaction) -> None:
        changes, calls = self._later, self._calls
        self._later, self._calls = [], []
        tx.on_rollback(lambda: self._take_back(changes, calls))
        for change in changes:
            change(tx)
        if calls:
            usage.record(tx.db, calls, tx.now, session=self.session.id, turn=self.id or None, origin=self._spender)

    def _take_back(self, changes: list[Callable[[Transaction], object]], calls: list[usage.Call]) -> None:
        self._later, self._calls = changes + self._later, calls + self._calls


def _mark_running(db: sqlite3.Connection, turn: int, inbox: Sequence[int]) -> None:
    """Record that messages are being answered in that turn."""
    db.executemany("UPDATE inbox SET state = 'running', turn = ? WHERE id = ?", [(turn, row) for row in inbox])
