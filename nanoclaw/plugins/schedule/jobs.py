"""Jobs and their occurrences: a firing is a row unique by (job, due time), written together with what is sent."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from nanoclaw.core.messages import Address, Button, Inbound, Message, Outbound, UserMessage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import Ending, put
from nanoclaw.core.store.outbox import insert
from nanoclaw.core.store.sessions import Session, Sessions

Kind = Literal["reminder", "task"]
Schedule = Literal["at", "every", "cron"]
OnMiss = Literal["once", "skip"]
JobState = Literal["active", "paused", "done", "removed"]

OPEN_FOR = timedelta(days=7)
"""So long a reminder is open when nobody answers it, unless it nags."""

CHANNEL = "job"
"""The channel of the conversations in which tasks run; their chat is the job's number."""

Compose = Callable[[Sequence["Firing"]], str]
"""The one message that tells of these reminders."""

Press = Callable[[Sequence["Firing"]], tuple[Button, ...]]
"""What can be pressed below that message."""

Introduce = Callable[[Sequence["Firing"], str], Sequence[Message]]
"""What the history of the conversation gets for them and for the text that is sent."""


class Job(NamedTuple):
    """`rule` is a time, seconds, days such as "14d", or a cron expression; `anchor` is what "every" counts from;
    `words` are the person's.

    With `nag_seconds` a reminder comes again so often, up to `nag_times`. A task may make jobs if it `may_schedule`.
    """

    kind: Kind
    text: str
    words: str
    schedule: Schedule
    rule: str
    zone: str
    anchor: datetime
    target: Address
    creator: str
    next_due: datetime | None
    on_miss: OnMiss = "once"
    state: JobState = "active"
    nag_seconds: int = 0
    nag_times: int = 0
    may_schedule: bool = False
    failures: int = 0
    id: int = 0


class Occurrence(NamedTuple):
    """`number` is the job's, while the person may answer; `again` is when it is sent or tried next; `late` is in
    seconds."""

    id: int
    job: int
    due: datetime
    state: str
    number: int | None
    fired: datetime | None
    late: int
    error: str
    again: datetime | None
    nags_left: int
    tries: int


class Due(NamedTuple):
    """What is to fire: a job's due time with the one after it, or an `occurrence` that comes again."""

    job: Job
    due: datetime
    next_due: datetime | None = None
    occurrence: Occurrence | None = None


class Firing(NamedTuple):
    """A reminder on its way: `is_again` when it was sent before, `is_first` when the person never got one."""

    job: Job
    due: datetime
    late: timedelta
    is_again: bool = False
    is_first: bool = False


class Jobs:
    """Reads and writes the two tables. Nothing of them is kept in memory, and what reads does not write."""

    def __init__(self, store: Store, sessions: Sessions, clock: Callable[[], datetime]) -> None:
        self._store, self._sessions, self._clock = store, sessions, clock

    # --- jobs --------------------------------------------------------------------------------------------------------

    def add(self, job: Job) -> Job:
        """Keep a new one; it comes back with its number."""
        values = (
            *(job.kind, job.text, job.words, job.schedule, job.rule, job.zone, stamp(job.anchor)),
            *(job.target.channel, job.target.chat, job.creator, job.on_miss, _maybe(job.next_due)),
            *(job.nag_seconds, job.nag_times, job.may_schedule),
        )
        sql = (
            "INSERT INTO jobs (kind, text, words, schedule, rule, zone, anchor, channel, chat, creator, on_miss,"
            " next_due, nag_seconds, nag_times, may_schedule) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        with self._store.transaction() as db:
            id_ = db.execute(sql, values).lastrowid
        assert id_ is not None
        return job._replace(id=id_)

    def get(self, id_: int) -> Job | None:
        """None for an unknown one and for one that was removed."""
        found = self._jobs("id = ? AND state <> 'removed'", id_)
        return found[0] if found else None

    def all(self, limit: int = -1, target: Address | None = None) -> list[Job]:
        """Those that are not over, of one conversation or of all, the next one first."""
        where, values = _going_on(target)
        return self._jobs(f"{where} ORDER BY next_due IS NULL, next_due, id LIMIT ?", *values, limit)

    def count(self, target: Address | None = None) -> int:
        where, values = _going_on(target)
        return int(self._store.rows(f"SELECT count(*) FROM jobs WHERE {where}", *values)[0][0])

    def last(self, job: int) -> Occurrence | None:
        """The newest occurrence that has fired, or failed to."""
        found = self._occurrences("job = ? AND state <> 'planned' ORDER BY due DESC LIMIT 1", job)
        return found[0] if found else None

    def last_try(self, job: int) -> datetime | None:
        """When it fired last, well or not."""
        ((fired,),) = self._store.rows("SELECT max(fired) FROM occurrences WHERE job = ?", job)
        return time(fired) if fired else None

    def set_state(self, id_: int, state: JobState, next_due: datetime | None) -> None:
        """Also lets go of what was to come again."""
        with self._store.transaction() as db:
            sql = "UPDATE jobs SET state = ?, next_due = ?, failures = 0 WHERE id = ?"
            db.execute(sql, (state, _maybe(next_due), id_))
            if state != "active":
                _close(db, id_)

    def put_forward(self, id_: int, next_due: datetime) -> None:
        """Let it be due earlier than was thought."""
        with self._store.transaction() as db:
            sql = "UPDATE jobs SET next_due = ? WHERE id = ? AND state = 'active'"
            db.execute(sql, (stamp(next_due), id_))

    def plan(self, job: int) -> None:
        """Let it fire now, besides its schedule."""
        now = stamp(self._clock())
        with self._store.transaction() as db:
            sql = "INSERT INTO occurrences (job, due, state, again) VALUES (?, ?, 'planned', ?) ON CONFLICT DO NOTHING"
            db.execute(sql, (job, now, now))

    # --- what is due -------------------------------------------------------------------------------------------------

    def targets(self, now: datetime) -> list[Address]:
        """Conversations that something is due for."""
        sql = "SELECT DISTINCT channel, chat FROM jobs WHERE state = 'active' AND next_due <= ? ORDER BY next_due"
        return [Address(*row) for row in self._store.rows(sql, stamp(now))]

    def due(self, now: datetime, target: Address) -> list[Job]:
        sql = "state = 'active' AND next_due <= ? AND channel = ? AND chat = ? ORDER BY next_due, id"
        return self._jobs(sql, stamp(now), target.channel, target.chat)

    def again(self, now: datetime) -> list[tuple[Occurrence, Job]]:
        """Occurrences that are to be sent or tried once more, or now for the first time."""
        found = self._occurrences("again <= ? ORDER BY again, id", stamp(now))
        return [(one, self._jobs("id = ?", one.job)[0]) for one in found]

    def next_wake(self, now: datetime) -> datetime | None:
        """When something is due that was not yet due."""
        sql = (
            "SELECT (SELECT min(next_due) FROM jobs WHERE state = 'active' AND next_due > ?1),"
            " (SELECT min(again) FROM occurrences WHERE again > ?1)"
        )
        return min((time(text) for text in self._store.rows(sql, stamp(now))[0] if text), default=None)

    def is_running(self, job: int) -> bool:
        return bool(self._store.rows("SELECT 1 FROM occurrences WHERE job = ? AND state = 'firing'", job))

    # --- reminders ---------------------------------------------------------------------------------------------------

    def send(
        self, dues: Sequence[Due], compose: Compose, introduce: Introduce, press: Press = lambda firings: ()
    ) -> bool:
        """Fire reminders of one conversation: their occurrences, one message in the outbox and in the history, and
        when they are due next, all in one transaction. False when there was nothing left to fire."""
        target = dues[0].job.target
        session = self._sessions.of(target)
        with self._store.transaction() as db:
            now = self._clock()
            is_first = not db.execute("SELECT 1 FROM occurrences WHERE number IS NOT NULL LIMIT 1").fetchone()
            fired = [(row, firing) for due in dues for row, firing in self._fire(db, due, now, is_first)]
            if not fired:
                return False
            firings = [firing for _, firing in fired]
            text = compose(firings)
            messages = introduce(firings, text)
            outbox = self._say(db, session, Outbound(target, text, buttons=press(firings)), messages)
            db.executemany("UPDATE occurrences SET outbox = ? WHERE id = ?", [(outbox, row) for row, _ in fired])
        session.history.extend(messages)
        return True

    def _fire(self, db: sqlite3.Connection, due: Due, now: datetime, is_first: bool) -> Sequence[tuple[int, Firing]]:
        """Nothing for one that was changed or fired meanwhile."""
        job, again = due.job, due.occurrence
        if again and again.number is not None:  # it comes again
            nags = max(0, again.nags_left - 1)
            next_nag = stamp(now + timedelta(seconds=job.nag_seconds)) if nags and job.nag_seconds else None
            sql = "UPDATE occurrences SET again = ?, nags_left = ?, fired = ? WHERE id = ? AND again = ?"
            values = (next_nag, nags, stamp(now), again.id, _maybe(again.again))
            if not db.execute(sql, values).rowcount:
                return ()
            planned = again.again or now
            return [(again.id, Firing(job, planned, max(timedelta(), now - planned), is_again=True))]
        row = again.id if again else self._begin(db, due, now)
        if row is None:
            return ()
        _close(db, job.id)
        _let_go(db, now)
        number = job.id
        first_nag = stamp(now + timedelta(seconds=job.nag_seconds)) if job.nag_times else None
        sql = (
            "UPDATE occurrences SET state = 'sent', number = ?, fired = ?, late = ?, again = ?, nags_left = ?,"
            " tries = tries + 1 WHERE id = ?"
        )
        late = max(timedelta(), now - due.due)
        db.execute(sql, (number, stamp(now), int(late.total_seconds()), first_nag, job.nag_times, row))
        return [(row, Firing(job, due.due, late, is_first=is_first))]

    def _begin(self, db: sqlite3.Connection, due: Due, now: datetime) -> int | None:
        """A new occurrence, and the job goes on to its next time; None when another hand was quicker."""
        if not _advance(db, due):
            return None
        sql = "INSERT INTO occurrences (job, due, state) VALUES (?, ?, 'planned') ON CONFLICT DO NOTHING"
        cursor = db.execute(sql, (due.job.id, stamp(due.due)))
        return cursor.lastrowid if cursor.rowcount else None

    def miss(self, due: Due, error: str) -> None:
        """It does not fire at that time, and the person is told in the list of jobs only."""
        with self._store.transaction() as db:
            now = self._clock()
            if (row := self._begin(db, due, now)) is not None:
                sql = "UPDATE occurrences SET state = 'missed', error = ?, late = ? WHERE id = ?"
                db.execute(sql, (error, max(0, int((now - due.due).total_seconds())), row))

    # --- tasks -------------------------------------------------------------------------------------------------------

    def claim(self, due: Due, text: str) -> tuple[int, Inbound] | None:
        """A task's occurrence is firing and its message to the model is in the inbox, in one transaction: the row and
        the message. None when another hand was quicker."""
        job, now = due.job, self._clock()
        with self._store.transaction() as db:
            row = due.occurrence.id if due.occurrence else self._begin(db, due, now)
            if row is None:
                return None
            _close(db, job.id)
            ((tries,),) = db.execute("SELECT tries FROM occurrences WHERE id = ?", (row,)).fetchall()
            address = Address(CHANNEL, str(job.id))
            inbound = Inbound(address, CHANNEL, f"{job.id}/{row}/{tries + 1}", UserMessage(text, now, "job"))
            inbox = put(db, inbound, now)
            if inbox is None:
                return None
            sql = (
                "UPDATE occurrences SET state = 'firing', fired = ?, late = ?, again = NULL, tries = tries + 1,"
                " inbox = ? WHERE id = ?"
            )
            late = max(0, int((now - due.due).total_seconds()))
            db.execute(sql, (stamp(now), late, inbox, row))
        return inbox, inbound

    def running(self, inbound: Inbound) -> tuple[Job, Occurrence] | None:
        """The task that a message to the model is, and its occurrence; None when it is no longer under way."""
        sql = (
            "SELECT occurrences.id FROM occurrences JOIN inbox ON inbox.id = occurrences.inbox"
            " WHERE inbox.channel = ? AND inbox.external_id = ? AND occurrences.state = 'firing'"
        )
        found = self._store.rows(sql, inbound.address.channel, inbound.external_id)
        if not found:
            return None
        (one,) = self._occurrences("id = ?", found[0][0])
        return self._jobs("id = ?", one.job)[0], one

    def ending(
        self,
        job: Job,
        occurrence: Occurrence,
        error: str,
        again: datetime | None,
        state: JobState,
        texts: Sequence[str],
        introduce: Callable[[str], Sequence[Message]],
        files: tuple[str, ...] = (),
    ) -> Ending:
        """How a task's turn ends: `texts` go to its target, each with the `files`, and into the history there. Without
        an `error` it has worked; `again` is when it is tried once more."""
        session = self._sessions.of(job.target)
        messages = [message for text in texts for message in introduce(text)]

        def write(db: sqlite3.Connection) -> None:
            now = self._clock()
            outbox = None
            for text in texts:
                outbox = insert(db, Outbound(job.target, text, files), now.isoformat(), None)
            ((inbox,),) = db.execute("SELECT inbox FROM occurrences WHERE id = ?", (occurrence.id,)).fetchall()
            values = ("failed" if error else "sent", error, _maybe(again), outbox, occurrence.id)
            db.execute("UPDATE occurrences SET state = ?, error = ?, again = ?, outbox = ? WHERE id = ?", values)
            sql = "UPDATE jobs SET failures = ?, state = ? WHERE id = ? AND state = 'active'"
            db.execute(sql, (job.failures + 1 if error else 0, state, job.id))
            if messages:
                session.tell(db, inbox, messages)

        return Ending(write=write, after=lambda: session.history.extend(messages))

    def say(self, job: Job, text: str, messages: Sequence[Message]) -> None:
        """Tell a job's conversation something about it."""
        session = self._sessions.of(job.target)
        with self._store.transaction() as db:
            self._say(db, session, Outbound(job.target, text), messages)
        session.history.extend(messages)

    def _say(self, db: sqlite3.Connection, session: Session, outbound: Outbound, messages: Sequence[Message]) -> int:
        """One message in the outbox and in the history, inside the caller's transaction: the row in the outbox."""
        now = self._clock()
        outbox = insert(db, outbound, now.isoformat(), None)
        said = Inbound(outbound.address, CHANNEL, f"{CHANNEL}:{outbox}", UserMessage(outbound.text, now, "job"))
        inbox = put(db, said, now, "done")
        assert inbox is not None
        session.tell(db, inbox, messages)
        return outbox

    def remember(self, inbound: Inbound, messages: Sequence[Message]) -> Ending:
        """What was said about a job becomes part of the conversation in which it was said."""
        session = self._sessions.of(inbound.address)

        def write(db: sqlite3.Connection) -> None:
            sql = "SELECT id FROM inbox WHERE channel = ? AND external_id = ?"
            ((row,),) = db.execute(sql, (inbound.address.channel, inbound.external_id)).fetchall()
            session.tell(db, row, messages)

        return Ending(write=write, after=lambda: session.history.extend(messages))

    def broken_off(self) -> list[tuple[Job, Occurrence]]:
        """Tasks that are under way in this table while their message has ended: something stopped them unheard."""
        sql = (
            "SELECT occurrences.id, job FROM occurrences JOIN inbox ON inbox.id = inbox"
            " WHERE occurrences.state = 'firing' AND inbox.state = 'done'"
        )
        found = self._store.rows(sql)
        return [(self._jobs("id = ?", job)[0], self._occurrences("id = ?", row)[0]) for row, job in found]

    def end(self, ending: Ending) -> None:
        with self._store.transaction() as db:
            ending.write(db)
        ending.after()

    # --- what the person answers -------------------------------------------------------------------------------------

    def open(self, quoted: tuple[str, str] | None = None) -> list[tuple[Occurrence, Job]]:
        """Reminders that have a number, the smallest first; of those a `quoted` message (channel, id) tells of."""
        where, values = "number IS NOT NULL ORDER BY number", ()
        if quoted:
            same = "instr(' ' || platform_id || ' ', ' ' || ? || ' ')"  # one of the parts that it was sent in
            where = f"outbox IN (SELECT id FROM outbox WHERE channel = ? AND {same}) AND {where}"
        found = self._occurrences(where, *(quoted or values))
        return [(one, self._jobs("id = ?", one.job)[0]) for one in found]

    def name_in(self, address: Address) -> str:
        """What the person who talks in a conversation calls themselves; '' where it is not known."""
        sql = "SELECT json_extract(body, '$.name') FROM inbox WHERE channel = ? AND chat = ? ORDER BY id DESC LIMIT 20"
        return next((name for (name,) in self._store.rows(sql, address.channel, address.chat) if name), "")

    def acknowledge(self, db: sqlite3.Connection, occurrences: Sequence[Occurrence], *, stop: bool = False) -> None:
        """Inside the caller's transaction. `stop`: their jobs do not fire again."""
        for one in occurrences:
            sql = (
                "UPDATE occurrences SET state = 'acknowledged', number = NULL, again = NULL, nags_left = 0 WHERE id = ?"
            )
            db.execute(sql, (one.id,))
            if stop:
                sql = "UPDATE jobs SET state = 'removed', next_due = NULL WHERE id = ? AND state <> 'done'"
                db.execute(sql, (one.job,))

    def snooze(self, db: sqlite3.Connection, occurrences: Sequence[Occurrence], until: datetime) -> None:
        """They come again, under the same numbers; inside the caller's transaction."""
        for one in occurrences:
            sql = "UPDATE occurrences SET again = ?, nags_left = max(nags_left, 1) WHERE id = ?"
            db.execute(sql, (stamp(until), one.id))

    # --- rows --------------------------------------------------------------------------------------------------------

    def _jobs(self, where: str, *values: object) -> list[Job]:
        return [_job(row) for row in self._store.rows(f"SELECT {_JOB} FROM jobs WHERE {where}", *values)]

    def _occurrences(self, where: str, *values: object) -> list[Occurrence]:
        sql = f"SELECT {_OCCURRENCE} FROM occurrences WHERE {where}"
        return [_occurrence(row) for row in self._store.rows(sql, *values)]


_JOB = (
    "id, kind, text, words, schedule, rule, zone, anchor, channel, chat, creator, on_miss, state, next_due,"
    " nag_seconds, nag_times, may_schedule, failures"
)
_OCCURRENCE = "id, job, due, state, number, fired, late, error, again, nags_left, tries"


def _job(row: Any) -> Job:
    id_, kind, text, words, schedule, rule, zone, anchor, channel, chat, creator, on_miss, state, next_due, *rest = row
    nag_seconds, nag_times, may_schedule, failures = rest
    return Job(
        *(kind, text, words, schedule, rule, zone, time(anchor), Address(channel, chat), creator),
        time(next_due) if next_due else None,
        *(on_miss, state, nag_seconds, nag_times, bool(may_schedule), failures, id_),
    )


def _occurrence(row: Any) -> Occurrence:
    id_, job, due, state, number, fired, late, error, again, nags_left, tries = row
    times = (time(fired) if fired else None, late, error, time(again) if again else None)
    return Occurrence(id_, job, time(due), state, number, *times, nags_left, tries)


def _going_on(target: Address | None) -> tuple[str, tuple[str, ...]]:
    """Which jobs are not over, and the values of that condition."""
    where = "state IN ('active', 'paused')"
    return (f"{where} AND channel = ? AND chat = ?", (target.channel, target.chat)) if target else (where, ())


def _advance(db: sqlite3.Connection, due: Due) -> bool:
    """The job goes on from this due time to its next; a reminder that has none is done."""
    over = due.next_due is None and due.job.kind == "reminder"
    sql = "UPDATE jobs SET next_due = ?, state = ? WHERE id = ? AND state = 'active' AND next_due = ?"
    values = (_maybe(due.next_due), "done" if over else "active", due.job.id, _maybe(due.job.next_due))
    return bool(db.execute(sql, values).rowcount)


def _close(db: sqlite3.Connection, job: int) -> None:
    """What the job sent before is no longer open, and nothing of it comes again."""
    sql = "UPDATE occurrences SET number = NULL, again = NULL WHERE job = ? AND (number IS NOT NULL OR again <> '')"
    db.execute(sql, (job,))


def _let_go(db: sqlite3.Connection, now: datetime) -> None:
    """What nobody answered for long is no longer open."""
    sql = "UPDATE occurrences SET number = NULL WHERE number IS NOT NULL AND again IS NULL AND fired < ?"
    db.execute(sql, (stamp(now - OPEN_FOR),))


def stamp(when: datetime) -> str:
    """A time as the tables hold it: in UTC and to the second, so that its text sorts as it does."""
    return when.astimezone(UTC).isoformat(timespec="seconds")


def _maybe(when: datetime | None) -> str | None:
    return stamp(when) if when else None


def time(text: str) -> datetime:
    return datetime.fromisoformat(text)
