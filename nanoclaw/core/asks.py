"""Questions to the owner: on disk with the turn that waits for them, until yes, no, or their time is over."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, Protocol

from nanoclaw.core.messages import Address, CheckedCall
from nanoclaw.core.plugin import Ask
from nanoclaw.core.store.tx import Transaction, Transactions

SECONDS = 300.0
"""The time in which a question is open."""


class Question(NamedTuple):
    """One that is open. `turn` is 0 where none waits for it; `place` is where it was asked, in the row `outbox`."""

    number: int
    turn: int
    call: str
    text: str
    place: Address
    about: Address
    outbox: int
    asked: datetime
    expires: datetime


class Asker(Protocol):
    """Says where and how the owner is asked; a plugin is it."""

    def place(self, about: Address) -> Address | None:
        """Address at which the owner can be asked now about what goes on at an address; None for nowhere."""
        ...

    def ask(self, tx: Transaction, number: int, question: str, place: Address, about: Address) -> int:
        """Send the question; its row in the outbox."""
        ...

    def settled(self, question: Question) -> None:
        """A question is answered, or over."""
        ...


class Waiter(Protocol):
    """Takes a turn up again whose questions are all answered."""

    def answered(self, turn: int) -> None: ...


class Asks:
    """Without an `asker` there is nobody to ask, and every question is a no."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions, self._store = transactions, transactions.store
        self.asker: Asker | None = None
        self.waiter: Waiter | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._futures: dict[int, asyncio.Future[bool]] = {}

    def place(self, about: Address) -> Address | None:
        return self.asker.place(about) if self.asker else None

    def put(self, tx: Transaction, turn: int | None, call: CheckedCall | None, ask: Ask, about: Address) -> int:
        """Ask the owner, for a turn that is to wait; the question's number. There must be a `place`."""
        assert self.asker
        place = self.asker.place(about)
        assert place
        expires = tx.now + timedelta(seconds=SECONDS)
        sql = (
            "INSERT INTO asks (turn, call, sha256, question, channel, chat, asked, expires, about)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        values = (turn, call.id if call else "", sha256_of(call) if call else "", ask.question)
        times = (tx.now.isoformat(), expires.isoformat())
        about_text = json.dumps([about.channel, about.chat])
        ((number,),) = tx.db.execute(sql, (*values, place.channel, place.chat, *times, about_text)).fetchall()
        outbox = self.asker.ask(tx, number, ask.question, place, about)
        tx.db.execute("UPDATE asks SET outbox = ? WHERE id = ?", (outbox, number))
        tx.after(lambda: self._set_timer(number, SECONDS))
        return int(number)

    async def ask(self, ask: Ask, about: Address) -> bool:
        """The owner's answer outside a turn; a restart means no."""
        if self.place(about) is None:
            return False
        number = await self._transactions.write(lambda tx: self.put(tx, None, None, ask, about))
        future = self._futures[number] = asyncio.get_running_loop().create_future()
        try:
            is_yes: bool = await future
            return is_yes
        finally:
            del self._futures[number]
            if not future.done() or future.cancelled():
                self.answer(number, False)

    def open(self) -> list[Question]:
        """Questions without an answer, the oldest first."""
        sql = (
            "SELECT id, coalesce(turn, 0), call, question, channel, chat, about, coalesce(outbox, 0), asked, expires"
            " FROM asks WHERE answer = '' ORDER BY id"
        )
        return [
            Question(
                number, turn, call, text, Address(channel, chat), Address(*json.loads(about)), outbox,
                datetime.fromisoformat(asked), datetime.fromisoformat(expires),
            )
            for number, turn, call, text, channel, chat, about, outbox, asked, expires in self._store.rows(sql)
        ]  # fmt: skip

    def answer(self, number: int, is_yes: bool) -> Question | None:
        """Note the owner's answer; None where there is no such open question."""
        question = next((one for one in self.open() if one.number == number), None)
        if question:
            with self._transactions.open() as tx:
                tx.execute("UPDATE asks SET answer = ? WHERE id = ?", "yes" if is_yes else "no", number)
                tx.after(partial(self._answered, question, is_yes))
        return question

    def of_turn(self, turn: int) -> dict[str, tuple[str, str]]:
        """By call: the SHA-256 of the arguments that were asked for, and the answer, '' for none yet."""
        sql = "SELECT call, sha256, answer FROM asks WHERE turn = ?"
        return {call: (sha256, answer) for call, sha256, answer in self._store.rows(sql, turn)}

    def waits(self, turn: int) -> bool:
        """True while a turn has questions without an answer."""
        return not all(answer for _, answer in self.of_turn(turn).values())

    def drop(self, turn: int) -> None:
        """Answer all that a turn waits for with no, as it ends without it."""
        self._give_up([question for question in self.open() if question.turn == turn])

    def take_up(self) -> None:
        """After a start: what nobody waits for any more is a no, and the time of the others goes on."""
        now, given_up = self._transactions.clock(), list[Question]()
        for question in self.open():
            left = (question.expires - now).total_seconds()
            if question.turn and left > 0:
                self._set_timer(question.number, left)
            else:
                given_up.append(question)
        self._give_up(given_up)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _give_up(self, questions: Sequence[Question]) -> None:
        """Answer with no what nobody goes on with."""
        if not questions:
            return
        with self._transactions.open() as tx:
            for question in questions:
                tx.execute("UPDATE asks SET answer = 'no' WHERE id = ?", question.number)
                tx.after(partial(self._close, question))

    def _set_timer(self, number: int, seconds: float) -> None:
        self._timers[number] = asyncio.get_running_loop().call_later(seconds, self.answer, number, False)

    def _answered(self, question: Question, is_yes: bool) -> None:
        self._close(question)
        if future := self._futures.get(question.number):
            if not future.done():
                future.set_result(is_yes)
        elif question.turn and self.waiter and not self.waits(question.turn):
            self.waiter.answered(question.turn)

    def _close(self, question: Question) -> None:
        if timer := self._timers.pop(question.number, None):
            timer.cancel()
        if self.asker:
            self.asker.settled(question)


def sha256_of(call: CheckedCall) -> str:
    """Of a call's name and arguments: what is allowed is exactly this."""
    said = json.dumps([call.name, dict(call.arguments)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
