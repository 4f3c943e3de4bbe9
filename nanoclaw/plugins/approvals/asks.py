"""Questions to the owner: asked, and kept with the turn that waits for them until they are answered or expire."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from nanoclaw.core.channel import MAIN
from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import Notice, Settled
from nanoclaw.core.messages import Address, CheckedCall, Outbound, OwnersAnswer, ToolResult
from nanoclaw.core.plugin import Ask, Asker, Host, NamedTuple, Scope, Turn, Tx
from nanoclaw.escapes import one_line, revealed

SECONDS, LOOK_SECONDS = 900.0, 60.0  # while a question is open; between looks at the clock, as the machine may sleep
NOTED = "OK."  # said of an answer in the person's own words
SHORT = 60  # characters of a question that is only named
COLUMNS = (
    "turn, call, sha256, question, options, otherwise, is_free, exact, scope, channel, chat, about, asked, expires,"
    " sender, conversation"
)

YES, NO = OwnersAnswer("yes", "owner"), OwnersAnswer("no", "nobody")


class Question(NamedTuple):
    """One that was asked. `turn` is 0 if none waits for it, `sender` and `conversation` are that turn's; `sha256` is of
    the call that it is about; `place` is where it was asked, in the row `outbox`; `answer` is None while it is open."""

    number: int
    turn: int
    call: str
    sha256: str
    ask: Ask
    place: Address
    about: Address
    outbox: int
    asked: datetime
    expires: datetime
    sender: str
    conversation: Address | None
    answer: OwnersAnswer | None


class Asks(Asker):
    """Asks, and keeps the questions."""

    def __init__(self, host: Host, covers: Callable[[Ask, CheckedCall, Turn], bool]) -> None:
        """`covers` is true for a call to which a yes was extended."""
        self._host, self.covers = host, covers
        self._timer: asyncio.TimerHandle | None = None
        self._until: dict[tuple[int, datetime], float] = {}  # by number and end, the end by a clock that nobody sets
        self._futures: dict[int, asyncio.Future[OwnersAnswer]] = {}

    def chosen(self, call: CheckedCall, turn: Turn) -> OwnersAnswer | None:
        asked = self._of(turn, call)
        return next((one.answer for one in asked if one.ask.options and one.sha256 == sha256_of(call)), None)

    def says(
        self, call: CheckedCall, asks: Sequence[Ask], turn: Turn, *, was_asked: bool
    ) -> OwnersAnswer | tuple[Ask, ...]:
        options, profile = asks[0].options, turn.profile
        for one in reversed(self._of(turn, call) if was_asked else ()):
            if one.answer and one.ask.options == options:
                if one.sha256 == sha256_of(call):
                    return one.answer
                if not options:  # a yes to another call with the same id
                    return NO
        wanted = tuple(ask for ask in asks if options or not self.covers(ask, call, turn))
        is_there = (profile.can_ask if options else profile.can_allow) and self.place(turn.address) is not None
        return YES if not wanted else wanted if is_there else asks[0].otherwise

    def ask_owner(self, tx: Tx, turn: Turn, asks: Sequence[tuple[CheckedCall, tuple[Ask, ...]]]) -> None:
        """Ask; one alone of those with options, so that plain words can only be its answer."""
        each = [(call, _as_one(of_call)) for call, of_call in asks]
        for call, ask in [one for one in each if not one[1].options] or each[:1]:
            self._ask(tx, turn, call, ask, turn.address)

    def waits(self, turn: int) -> bool:
        return bool(self._questions("turn = ? AND by = ''", turn))

    def drop(self, turn: int) -> None:
        self._give_up([one for one in self.open() if one.turn == turn])

    def was_refused(self, call: CheckedCall, turn: Turn, since: datetime) -> bool:
        """True if the owner has refused exactly this since a time, in a turn that is still in the history."""
        found = self._questions("by = 'owner' AND answer = 'no' AND sha256 = ?", sha256_of(call))
        shown = {one.call_id for one in turn.history if isinstance(one, ToolResult)} if found else ()
        return any(one.conversation == turn.conversation and one.asked >= since and one.call in shown for one in found)

    async def ask(
        self, ask: Ask, about: Address, turn: Turn | None = None, call: CheckedCall | None = None
    ) -> OwnersAnswer:
        if call and turn and ask.scope:
            given = (one.answer for one in self._of(turn, call) if one.ask.scope == ask.scope)
            if self.covers(ask, call, turn) or any(one and one.is_yes for one in given):
                return YES
        if self.place(about) is None or not (ask.options or turn is None or turn.profile.can_allow):
            return ask.otherwise
        number = await self._host.write(lambda tx: self._ask(tx, turn, None, ask, about))
        future: asyncio.Future[OwnersAnswer] = asyncio.get_running_loop().create_future()
        self._futures[number] = future
        try:
            return await future
        finally:
            del self._futures[number]
            if not future.done() or future.cancelled():
                self._end(number, ask.otherwise, goes_on=False)

    def open(self) -> list[Question]:
        """Questions without an answer, the oldest first."""
        return self._questions("by = ''")

    def of(self, conversation: Address) -> list[Question]:
        """Those of its turns that the owner has answered, the oldest first."""
        return self._questions("conversation = ? AND by = 'owner'", json.dumps(conversation))

    def find(self, number: int) -> Question | None:
        return next(iter(self._questions("id = ?", number)), None)

    def note(self, number: int, text: str) -> Question | None:
        """Note the owner's answer; None if there is no such open question."""
        return self._end(number, OwnersAnswer(text, "owner"))

    def reminders(self, place: Address) -> list[str]:
        """The open questions of a place, for a terminal that comes after they were asked."""
        return [told for one in self.open() if one.turn and (told := self.reminder(one, place))]

    # --- asking ------------------------------------------------------------------------------------------------------

    def place(self, about: Address) -> Address | None:
        """Find where the owner can be asked now: right there, else in a terminal or a chat of their own."""
        access, schedule, delegate = map(self._host.get, ("access", "schedule", "delegate"))
        own = delegate.home_of(about) if delegate else about
        own = schedule.target_of(own) if schedule else own
        places = [own, MAIN, *(access.accounts.owners_chats() if access else ())]
        return next((one for one in places if self._is_owners(one) and self._is_there(one)), None)

    def worded(self, ask: Ask, call: CheckedCall | None, turn: Turn | None) -> Ask:
        """Name others' text that may have brought a yes/no question about, and show exactly what its yes is to."""
        from nanoclaw.exact_text import call_text, exactly

        if ask.options:
            return ask
        told = taint.warning(ask, call, turn) if call and turn and (taint := self._host.get("taint")) else ""
        exact = self._host.redact(ask.exact or (call_text(call.arguments) if call else ""))
        shown = exactly(exact) if exact else ""
        return ask._replace(question="\n\n".join(filter(None, (ask.question, told, shown))), exact=exact)

    def send(self, tx: Tx, question: Question) -> int:
        """Send the question, a yes/no to a call also to an open terminal; its row in the outbox."""
        from nanoclaw.plugins.approvals.questions import buttons

        number, below = question.number, buttons(question)
        is_also_there = question.turn and not question.ask.options and question.place != MAIN and self._is_there(MAIN)
        places = [question.place, MAIN] if is_also_there else [question.place]
        told = (Outbound(place, self.whole(question, place), buttons=below) for place in places)
        row, *copies = [tx.send(one, is_news=False) for one in told]
        sql = "INSERT INTO approvals_copies (outbox, ask, channel, chat) VALUES (?, ?, ?, ?)"
        for copy in copies:
            tx.execute(sql, copy, number, *MAIN)
        tx.after(lambda: self._tell_the_others(question))
        return row

    def shown(self, question: Question) -> dict[Address, int]:
        """By place, the row of the outbox that asked a question there."""
        sql = "SELECT channel, chat, outbox FROM approvals_copies WHERE ask = ?"
        copies = {Address(channel, chat): row for channel, chat, row in self._host.read(sql, question.number)}
        return {question.place: question.outbox, **copies}

    def whole(self, question: Question, place: Address) -> str:
        """A question with all that belongs to it, as a place gets it."""
        from nanoclaw.plugins.approvals.questions import how

        about = question.about
        delegate = self._host.get("delegate")
        who = (delegate.named(about) if delegate else "") or f"{about}, not from this chat"
        origin = "" if place == about else f"\n\n(This comes from {who}.)"
        return self._host.redact(f"{question.ask.question}{origin}\n\n{how(question, self._host.now())}")

    def reminder(self, question: Question, place: Address) -> str:
        """Tell a terminal what its first words may be the answer to; '' while the question itself is still to come."""
        row = self.shown(question).get(place, 0)
        if not (row or (place == MAIN and not question.ask.options)) or self._host.records.sent(row)[0] == "pending":
            return ""
        options = f" ({', '.join(question.ask.options)})" if question.ask.options else ""
        whole = f", and /answer {question.number} shows all of it" * (named(question) != question.ask.question)
        waits = f"question {question.number} waits for your answer: “{named(question)}”{options}"
        return f"{waits}: {commands(question)}{whole}"

    def over(self, tx: Tx, question: Question) -> None:
        """Say what happens with a question whose time is over."""
        then = f"take “{taken}”" if (taken := (question.answer or NO).text) else "carry on without an answer"
        text = f"Question {question.number} (“{named(question)}”) was not answered in time, so I {then}."
        tx.send(Outbound(question.place, text), is_news=False)

    def settled(self, question: Question) -> None:
        """Take the buttons of a question away that is answered, or over, wherever it was asked."""
        shown = self.shown(question)
        for place, row in shown.items():
            if ids := self._host.records.sent(row)[2]:
                self._host.show(place, Settled(ids.split()[-1]))
        if len(shown) > 1:
            self._host.show(MAIN, Notice(came_to(question, is_asked=False)))

    def _tell_the_others(self, question: Question) -> None:
        number, place, about = question.number, question.place, question.about
        is_shown = place == about and (about.channel != MAIN.channel or question.ask.options)
        if not is_shown:  # `nanoclaw -m` shows what answers it, no more
            whose, where = ("your", "") if place == about else ("the owner's", f", asked in {place}")
            self._host.show(about, Notice(f"waiting for {whose} answer to question {number}{where}"))
        home = self.conversation(about)
        if home not in (about, place):
            self._host.show(home, Notice(f"question {number} waits in {place}: {commands(question)}"))

    def _is_owners(self, address: Address) -> bool:
        access = self._host.get("access")
        return access.is_owners(address) if access else address.channel == MAIN.channel

    def _is_there(self, address: Address) -> bool:
        channel = self._host.channel(address.channel)
        return channel is not None and channel.hints.stays and channel.serves(Outbound(address, ""))

    def conversation(self, address: Address) -> Address:
        access = self._host.get("access")
        return (access.conversation_of(address) if access else None) or address

    # --- from its beginning to its end -------------------------------------------------------------------------------

    def restore(self) -> None:
        """Close questions that nobody waits for any more, and let the time of the others go on. A turn whose question
        expired meanwhile is not told here: whoever resumes it checks."""
        self._give_up([one for one in self.open() if not one.call])
        self.expire(goes_on=False)
        for question in self.open():
            if told := self.reminder(question, question.place):
                self._host.show(question.place, Notice(told))

    def expire(self, *, goes_on: bool = True) -> None:
        """Close expired questions, also if nobody has checked the clock since, as after a sleep; and check it again."""
        loop, pauses, until = asyncio.get_running_loop(), [LOOK_SECONDS], dict[tuple[int, datetime], float]()
        for one in self.open():
            key, left = (one.number, one.expires), (one.expires - self._host.now()).total_seconds()
            until[key] = self._until.get(key, loop.time() + left)
            if (left := min(left, until[key] - loop.time())) > 0:
                pauses.append(left)
                continue
            with suppress(StoreError):  # a full disk: it is tried again
                self._end(one.number, OwnersAnswer(one.ask.default, "time"), goes_on=goes_on)
        self.close()
        self._until, self._timer = until, loop.call_later(min(pauses), self.expire) if until else None

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _ask(self, tx: Tx, turn: Turn | None, call: CheckedCall | None, ask: Ask, about: Address) -> int:
        """Ask the owner, for a turn that is to wait or for who waits in this process; the question's number."""
        place, now, ask = self.place(about) or about, self._host.now(), self.worded(ask, call, turn)
        expires = now + timedelta(seconds=SECONDS if ask.seconds is None else ask.seconds)
        what = revealed(ask.question), json.dumps(ask.options, ensure_ascii=False), ask.otherwise.text
        more = ask.is_free + ask.asks_back, revealed(ask.exact), json.dumps(ask.scope, ensure_ascii=False)
        of = (turn.id or None) if turn else None, call.id if call else "", sha256_of(call) if call else ""
        whose = (turn.sender, json.dumps(turn.conversation)) if turn else ("", "")
        ((number,),) = tx.execute("UPDATE approvals_numbers SET last = last + 1 RETURNING last")
        row = (number, *of, *what, *more, *place, json.dumps(about), now.isoformat(), expires.isoformat(), *whose)
        tx.execute(f"INSERT INTO approvals_asks (id, {COLUMNS}) VALUES ({', '.join('?' * len(row))})", *row)
        (question,) = self._questions("id = ?", number)
        tx.execute("UPDATE approvals_asks SET outbox = ? WHERE id = ?", self.send(tx, question), number)
        tx.after(self.expire)
        return int(number)

    def _end(self, number: int, answer: OwnersAnswer, *, goes_on: bool = True) -> Question | None:
        """Store the outcome of a question; None if it is not open."""
        if (question := self.find(number)) is None or question.answer:
            return None
        question = question._replace(answer=answer)
        self._host.write_now(partial(self._ended, question, answer, goes_on))
        return question

    def _ended(self, question: Question, answer: OwnersAnswer, goes_on: bool, tx: Tx) -> None:
        tx.execute("UPDATE approvals_asks SET answer = ?, by = ? WHERE id = ?", *answer, question.number)
        if answer.by == "time" and question.ask.options:
            self.over(tx, question)
        tx.after(partial(self.settled, question))
        if goes_on:
            tx.after(partial(self._tell, question, answer))

    def _give_up(self, questions: Sequence[Question]) -> None:
        """Close questions that nobody waits for."""
        for one in questions:
            self._end(one.number, one.ask.otherwise, goes_on=False)

    def _tell(self, question: Question, answer: OwnersAnswer) -> None:
        if future := self._futures.get(question.number):
            if not future.done():
                future.set_result(answer)
        elif question.turn and not self.waits(question.turn):
            self._host.resume(question.turn)

    def _of(self, turn: Turn, call: CheckedCall) -> list[Question]:
        return self._questions("turn = ? AND call = ?", turn.id, call.id)

    def _questions(self, condition: str, *values: object) -> list[Question]:
        what = f"{COLUMNS}, id, coalesce(outbox, 0), answer, by FROM approvals_asks WHERE {condition}"
        what += " AND datetime(asked) || datetime(expires) NOT NULL AND json_valid(options) AND json_valid(about)"
        return [_question(*row) for row in self._host.read(f"SELECT {what} ORDER BY id", *values)]


def _question(*row: Any) -> Question:
    turn, call, sha256, text, options, otherwise, is_free, exact, scope, channel, chat, about, asked, *rest = row
    expires, sender, conversation, number, outbox, answer, by = rest
    of = Scope(*one) if (one := json.loads(scope or "null")) else None
    ask = Ask(text, tuple(json.loads(options)), otherwise, None, bool(is_free), exact, of, asks_back=is_free > 1)
    times = datetime.fromisoformat(asked), datetime.fromisoformat(expires)
    whose = sender, Address(*json.loads(conversation)) if conversation else None
    places = Address(channel, chat), Address(*json.loads(about))
    answered = OwnersAnswer(answer, by) if by else None
    return Question(number, turn or 0, call, sha256, ask, *places, outbox, *times, *whose, answered)


def sha256_of(call: CheckedCall) -> str:
    """Hash of a call's name and arguments: a yes allows exactly this call."""
    said = json.dumps([call.name, dict(call.arguments)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()


def named(question: Question) -> str:
    """A question in short; a code span that is cut ends there."""
    text, fence = one_line(question.ask.question.partition("\n\n```" if question.ask.options else "\n\n")[0], SHORT), ""
    for run in re.findall("`+", text):
        fence = "" if run == fence else fence or run
    return text + fence


def commands(question: Question, text: str = "") -> str:
    """Commands that answer a question; those that mean the same as some words."""
    from nanoclaw.yes_no import yes_or_no

    number, is_yes = question.number, yes_or_no(text)
    if question.ask.options:
        return f"/answer {number} {one_line(text, SHORT) or '…'}"
    return f"/yes {number} or /no {number}" if is_yes is None else f"/{'yes' if is_yes else 'no'} {number}"


def came_to(question: Question, *, is_asked: bool = True) -> str:
    """Say of a question that is not open any more what it came to."""
    text, by = question.answer or NO
    words = f": “{one_line(text, SHORT)}”" if text else ""
    why = {
        "owner": f"it was answered{words}",
        "time": f"its time was over{words and f', and “{one_line(text, SHORT)}” was taken'}",
        "nobody": "what it was about has ended",
    }[by]
    if not is_asked:
        return f"question {question.number} (“{named(question)}”) is over: {why}"
    return f"There is no open question {question.number}: {why}. Ask again if it still matters."


def _as_one(asks: Sequence[Ask]) -> Ask:
    """Several questions as one. Its yes can be extended if all of them have the same scope."""
    question = "\n\n".join(dict.fromkeys(ask.question for ask in asks))
    exact = "\n\n".join(dict.fromkeys(ask.exact for ask in asks if ask.exact))
    seconds = min((ask.seconds for ask in asks if ask.seconds is not None), default=None)
    scope = asks[0].scope if len({ask.scope for ask in asks}) == 1 else None
    return asks[0]._replace(question=question, exact=exact, seconds=seconds, scope=scope)
