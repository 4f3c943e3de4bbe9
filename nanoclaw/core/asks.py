"""Questions to the owner: stored with the turn that waits for them, until they are answered or expire."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from nanoclaw.core.errors import StoreError
from nanoclaw.core.messages import Address, Ask, CheckedCall, OwnersAnswer, Question, Scope, ToolResult
from nanoclaw.core.store.tx import Transaction, Transactions
from nanoclaw.escapes import revealed

if TYPE_CHECKING:
    from nanoclaw.core.plugin import Asker, Turn

SECONDS = 900.0
"""Time for which a question stays open unless it says otherwise."""

LOOK_SECONDS = 60.0
"""Pause between looks at the clock: time goes on while the machine sleeps."""


class Waiter(Protocol):
    """Resumes a turn whose questions are all answered."""

    def answered(self, turn: int) -> None: ...


class Asks:
    """Without an `asker` there is nobody to ask, and every question is a no, or its default."""

    def __init__(self, transactions: Transactions, asker: Asker | None) -> None:
        self._transactions, self._store, self.asker = transactions, transactions.store, asker
        self.waiter: Waiter | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._futures: dict[int, asyncio.Future[OwnersAnswer]] = {}

    def place(self, about: Address) -> Address | None:
        return self.asker.place(about) if self.asker else None

    def covers(self, ask: Ask, call: CheckedCall, turn: Turn) -> bool:
        """True if the owner's yes to something else was extended to this call."""
        return bool(ask.scope and self.asker and self.asker.covers(ask, call, turn))

    def wait_for(self, tx: Transaction, turn: Turn | None, call: CheckedCall | None, ask: Ask, about: Address) -> int:
        """Ask the owner, for a turn that is to wait; the question's number. There must be a `place`."""
        assert self.asker
        place = self.asker.place(about)
        assert place
        ask = self.asker.worded(ask, call, turn)
        ask = ask._replace(question=revealed(ask.question), exact=revealed(ask.exact))
        expires = tx.now + timedelta(seconds=SECONDS if ask.seconds is None else ask.seconds)
        number_of, sender, conversation = (turn.id, turn.sender, turn.conversation) if turn else (0, "", None)
        of_call = (call.id, sha256_of(call)) if call else ("", "")
        row = {
            "turn": number_of or None,
            "call": of_call[0],
            "sha256": of_call[1],
            "question": ask.question,
            "channel": place.channel,
            "chat": place.chat,
            "asked": tx.now.isoformat(),
            "expires": expires.isoformat(),
            "about": json.dumps([*about]),
            "options": json.dumps(ask.options, ensure_ascii=False),
            "otherwise": without(ask).text,
            "is_free": ask.is_free + ask.asks_back,
            "exact": ask.exact,
            "scope": json.dumps(ask.scope, ensure_ascii=False) if ask.scope else "",
            "sender": sender,
            "conversation": json.dumps(conversation) if conversation else "",
        }
        sql = f"INSERT INTO asks ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) RETURNING id"
        ((number,),) = tx.db.execute(sql, (*row.values(),)).fetchall()
        whose = (sender, conversation)
        question = Question(number, number_of, *of_call, ask, place, about, 0, tx.now, expires, *whose)
        tx.db.execute("UPDATE asks SET outbox = ? WHERE id = ?", (self.asker.ask(tx, question), number))
        tx.after(lambda: self._wait(number))
        return int(number)

    def wait_for_all(self, tx: Transaction, turn: Turn, asks: Iterable[tuple[CheckedCall, Ask]]) -> None:
        for call, ask in asks:
            self.wait_for(tx, turn, call, ask, turn.address)

    async def ask(
        self, ask: Ask, about: Address, turn: Turn | None = None, call: CheckedCall | None = None
    ) -> OwnersAnswer:
        """The owner's answer to who waits for it in this process, such as a call of `turn`; a restart means none. It is
        not asked again where a yes with its scope was given to this call, or extended to it."""
        if call and turn and ask.scope:
            given = [one.answer for one in self.of_turn(turn.id).get(call.id, ()) if one.ask.scope == ask.scope]
            if self.covers(ask, call, turn) or any(one and one.is_yes for one in given):
                return OwnersAnswer("yes", "owner")
        if self.place(about) is None or not (ask.options or turn is None or turn.profile.can_allow):
            return without(ask)
        number = await self._transactions.write(lambda tx: self.wait_for(tx, turn, None, ask, about))
        future = self._futures[number] = asyncio.get_running_loop().create_future()
        try:
            answer: OwnersAnswer = await future
            return answer
        finally:
            del self._futures[number]
            if not future.done() or future.cancelled():
                self._end(number, without(ask))

    def open(self) -> list[Question]:
        """Questions without an answer, the oldest first."""
        return self._questions("by = ''")

    def reminders(self, place: Address) -> list[str]:
        """The open questions of a place, for a terminal that comes after they were asked."""
        asked = [question for question in self.open() if question.turn]
        return [told for question in asked if self.asker and (told := self.asker.reminder(question, place))]

    def expire(self) -> None:
        """Close expired questions, also if nobody has checked the clock since, as after a sleep."""
        for question in self.open():
            if question.expires <= self._transactions.clock():
                self._end(question.number, OwnersAnswer(question.ask.default, "time"))

    def find(self, number: int) -> Question | None:
        """A question by its number, open or not."""
        return next(iter(self._questions("id = ?", number)), None)

    def answer(self, number: int, text: str) -> Question | None:
        """Note the owner's answer; None if there is no such open question."""
        return self._end(number, OwnersAnswer(text, "owner"))

    def of_turn(self, turn: int) -> dict[str, list[Question]]:
        """By call, all that was asked about it."""
        found: dict[str, list[Question]] = {}
        for question in self._questions("turn = ?", turn):
            found.setdefault(question.call, []).append(question)
        return found

    def was_refused(self, call: CheckedCall, turn: Turn, since: datetime) -> bool:
        """True if the owner has refused exactly this since a time, in a turn that is still in the history."""
        found = self._questions("by = 'owner' AND answer = 'no' AND sha256 = ?", sha256_of(call))
        shown = {one.call_id for one in turn.history if isinstance(one, ToolResult)} if found else ()
        return any(one.conversation == turn.conversation and one.asked >= since and one.call in shown for one in found)

    def waits(self, turn: int) -> bool:
        """True while a turn has questions without an answer."""
        return bool(self._store.rows("SELECT 1 FROM asks WHERE turn = ? AND by = '' LIMIT 1", turn))

    def drop(self, turn: int) -> None:
        """Close all questions of a turn, as it ends without the answers."""
        self._give_up([question for question in self.open() if question.turn == turn])

    def restore(self) -> None:
        """After a start: close questions that nobody waits for any more, and let the time of the others go on. A turn
        whose question expired meanwhile is not told here: whoever resumes it checks."""
        self._give_up([one for one in self.open() if not one.call])
        for question in self.open():
            self._wait(question.number, goes_on=False)
            if self.asker and question.number in self._timers:
                self.asker.still_open(question)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    # --- its end -----------------------------------------------------------------------------------------------------

    def _wait(self, number: int, until: float | None = None, *, goes_on: bool = True) -> None:
        """Check the clock from time to time until an open question expires."""
        question, loop = self.find(number), asyncio.get_running_loop()
        if question is None or question.answer:
            return
        left = (question.expires - self._transactions.clock()).total_seconds()
        until = loop.time() + left if until is None else until
        if (left := min(left, until - loop.time())) <= 0:
            try:
                self._end(number, OwnersAnswer(question.ask.default, "time"), goes_on=goes_on)
                return
            except StoreError:  # a full disk: it is tried again
                left = LOOK_SECONDS
        self._timers[number] = loop.call_later(min(left, LOOK_SECONDS), self._wait, number, until)

    def _end(self, number: int, answer: OwnersAnswer, *, goes_on: bool = True) -> Question | None:
        """Store the outcome of a question; None if it is not open."""
        question = self.find(number)
        if question is None or question.answer:
            return None
        question = question._replace(answer=answer)
        with self._transactions.open() as tx:
            tx.execute("UPDATE asks SET answer = ?, by = ? WHERE id = ?", answer.text, answer.by, number)
            if answer.by == "time" and question.ask.options and self.asker:
                self.asker.over(tx, question)
            tx.after(partial(self._close, question))
            if goes_on:
                tx.after(partial(self._tell, question, answer))
        return question

    def _give_up(self, questions: list[Question]) -> None:
        """Close questions that nobody waits for."""
        if not questions:
            return
        with self._transactions.open():
            for question in questions:
                self._end(question.number, without(question.ask), goes_on=False)

    def _tell(self, question: Question, answer: OwnersAnswer) -> None:
        if future := self._futures.get(question.number):
            if not future.done():
                future.set_result(answer)
        elif question.turn and self.waiter and not self.waits(question.turn):
            self.waiter.answered(question.turn)

    def _close(self, question: Question) -> None:
        if timer := self._timers.pop(question.number, None):
            timer.cancel()
        if self.asker:
            self.asker.settled(question)

    def _questions(self, condition: str, *values: object) -> list[Question]:
        sql = (
            "SELECT id, coalesce(turn, 0), call, sha256, question, options, otherwise, is_free, exact, scope, channel,"
            " chat, about, coalesce(outbox, 0), asked, expires, answer, by, sender, conversation FROM asks"
            f" WHERE {condition} ORDER BY id"
        )
        return [_question(*row) for row in self._store.rows(sql, *values)]


def without(ask: Ask) -> OwnersAnswer:
    """The answer where nobody is there to be asked."""
    return OwnersAnswer(ask.default if ask.options else "no", "nobody")


def _question(*row: Any) -> Question:
    number, turn, call, sha256, text, options, otherwise, is_free, exact, scope, *rest = row
    channel, chat, about, outbox, asked, expires, answer, by, sender, conversation = rest
    of, answered = Scope(*json.loads(scope)) if scope else None, OwnersAnswer(answer, by) if by else None
    ask = Ask(text, tuple(json.loads(options)), otherwise, None, bool(is_free), exact, of, asks_back=is_free > 1)
    times = datetime.fromisoformat(asked), datetime.fromisoformat(expires)
    whose = sender, Address(*json.loads(conversation)) if conversation else None
    place, came_up = Address(channel, chat), Address(*json.loads(about))
    return Question(number, turn, call, sha256, ask, place, came_up, outbox, *times, *whose, answered)


def sha256_of(call: CheckedCall) -> str:
    """Hash of a call's name and arguments: a yes allows exactly this call."""
    said = json.dumps([call.name, dict(call.arguments)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
