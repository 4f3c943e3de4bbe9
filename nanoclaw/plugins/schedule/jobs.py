"""Jobs and their occurrences in the store: a firing is a row unique by (job, due time), written with what it sends.

What reads asks the host; what writes is a plain function with a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, cast

from nanoclaw import time_words
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.escapes import one_line
from nanoclaw.plugins.schedule.tables import CHANNEL

Kind = Literal["reminder", "task"]
Repeat = Literal["at", "every", "cron"]
OnMiss = Literal["once", "skip"]
JobState = Literal["active", "paused", "done", "removed"]

OPEN_FOR = timedelta(days=7)  # so long a reminder can be answered, unless it nags


class Job(NamedTuple):
    """`rule` is a time, seconds, days such as "14d", or a cron expression; `anchor` is what "every" counts from;
    `words` are the person's.

    With `nag_seconds` a reminder is repeated at that interval, up to `nag_times`. A task may make jobs if it
    `may_schedule`; one that `plans` acts only once the owner has approved its plan.
    """

    kind: Kind
    text: str
    words: str
    schedule: Repeat
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
    plans: bool = False
    id: int = 0

    @property
    def name(self) -> str:
        """Such as "Task 3"."""
        return f"{self.kind.capitalize()} {self.id}"

    @property
    def short(self) -> str:
        """Its text in one short line."""
        return one_line(self.text)

    @property
    def reading(self) -> time_words.Reading:
        """When it is due, as words were read. Times are in UTC, so that differences are true ones."""
        if self.schedule == "at":
            return time_words.At(datetime.fromisoformat(self.rule))
        if self.schedule == "every":
            anchor = self.anchor.astimezone(UTC)
            if self.rule.endswith("d"):
                return time_words.Every(int(self.rule[:-1]) * time_words.DAY, anchor, zone=self.zone)
            return time_words.Every(int(self.rule), anchor)
        return time_words.Cron(self.rule, self.zone)


class Occurrence(NamedTuple):
    """`number` is the job's, while the person may answer; `again` is when it comes next; `late` is in seconds; `took`
    is what a task took that has ended, in words."""

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
    outbox: int | None
    took: str


class Due(NamedTuple):
    """An occurrence to fire: a job's due time with the one after it, or an `occurrence` that comes again."""

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
    """The rows of the two tables. Nothing of them is kept in memory."""

    def __init__(self, source: Host) -> None:
        self._source = source

    def get(self, id_: int) -> Job | None:
        """None for an unknown one and for one that was removed."""
        return next(iter(self._jobs("id = ? AND state <> 'removed'", id_)), None)

    def removed(self, id_: int) -> Job | None:
        """One that was removed and can be brought back."""
        return next(iter(self._jobs("id = ? AND state = 'removed' AND removed_from IS NOT NULL", id_)), None)

    def all(self, limit: int = -1, target: Address | None = None) -> list[Job]:
        """Those that are not over, of one conversation or of all, the next one first."""
        where, values = _going_on(target)
        return self._jobs(f"{where} ORDER BY next_due IS NULL, next_due, id LIMIT ?", *values, limit)

    def count(self, target: Address | None = None) -> int:
        where, values = _going_on(target)
        return int(self._source.read(f"SELECT count(*) FROM jobs WHERE {where}", *values)[0][0])

    def last(self, job: int) -> Occurrence | None:
        """The newest occurrence that has fired, or failed to."""
        return next(iter(self._occurrences("job = ? AND state <> 'planned' ORDER BY due DESC LIMIT 1", job)), None)

    def runs(self, job: int | None, limit: int) -> list[tuple[Occurrence, Job]]:
        """The newest runs of a task, or of all tasks."""
        where = "fired IS NOT NULL AND job IN (SELECT id FROM jobs WHERE kind = 'task' AND coalesce(?, id) = id)"
        found = self._occurrences(f"{where} ORDER BY fired DESC, id DESC LIMIT ?", job, limit)
        return [(one, self._job(one.job)) for one in found]

    def last_try(self, job: int) -> datetime | None:
        """When it fired last, well or not."""
        ((fired,),) = self._source.read("SELECT max(fired) FROM occurrences WHERE job = ?", job)
        return moment(fired) if fired else None

    def is_running(self, job: int) -> bool:
        return bool(self._source.read("SELECT 1 FROM occurrences WHERE job = ? AND state = 'firing'", job))

    def task(self, external_id: str) -> tuple[Job, Occurrence] | None:
        """The task that a message to the model is, and its occurrence; None when it is no longer under way."""
        row, _, tries = external_id.partition("/")[2].partition("/")
        found = self._occurrences("id = ? AND tries = ? AND state = 'firing'", row, tries)
        return (self._job(found[0].job), found[0]) if found else None

    # --- what is due -------------------------------------------------------------------------------------------------

    def targets(self, now: datetime) -> list[Address]:
        """Conversations that something is due for."""
        sql = "SELECT DISTINCT channel, chat FROM jobs WHERE state = 'active' AND next_due <= ? ORDER BY next_due"
        return [Address(*row) for row in self._source.read(sql, stamp(now))]

    def due(self, now: datetime, target: Address) -> list[Job]:
        sql = "state = 'active' AND next_due <= ? AND channel = ? AND chat = ? ORDER BY next_due, id"
        return self._jobs(sql, stamp(now), target.channel, target.chat)

    def again(self, now: datetime) -> list[Due]:
        """Occurrences that are to be sent or tried once more, or now for the first time."""
        found = self._occurrences("again <= ? ORDER BY again, id", stamp(now))
        return [Due(self._job(one.job), one.due, occurrence=one) for one in found]

    def next_wake(self, now: datetime) -> datetime | None:
        """When something is due that was not yet due."""
        sql = (
            "SELECT (SELECT min(next_due) FROM jobs WHERE state = 'active' AND next_due > ?1),"
            " (SELECT min(again) FROM occurrences WHERE again > ?1)"
        )
        return min((moment(text) for text in self._source.read(sql, stamp(now))[0] if text), default=None)

    def broken_off(self) -> list[tuple[Job, Occurrence]]:
        """Tasks that are under way in this table while their message has ended, with this plugin not there to hear."""
        firing, waits = self._occurrences("state = 'firing'"), self._source.records.is_waiting
        return [(self._job(one.job), one) for one in firing if not waits(Address(CHANNEL, str(one.job)))]

    # --- what the person may answer ----------------------------------------------------------------------------------

    def open(self, quoted: tuple[str, str] | None = None) -> list[tuple[Occurrence, Job]]:
        """Reminders that have a number, the smallest first; of those a `quoted` message (channel, id) tells of."""
        where = "number IS NOT NULL"
        if quoted:
            where += f" AND outbox IN ({', '.join(map(str, self._source.records.sent_as(*quoted)))})"
        return [(one, self._job(one.job)) for one in self._occurrences(f"{where} ORDER BY number")]

    # --- rows --------------------------------------------------------------------------------------------------------

    def _job(self, id_: int) -> Job:
        return self._jobs("id = ?", id_)[0]

    def _jobs(self, where: str, *values: object) -> list[Job]:
        return [_job(row) for row in self._source.read(f"SELECT {_JOB} FROM jobs WHERE {where}", *values)]

    def _occurrences(self, where: str, *values: object) -> list[Occurrence]:
        sql = f"SELECT {_OCCURRENCE} FROM occurrences WHERE {where}"
        return [_occurrence(row) for row in self._source.read(sql, *values)]


# --- changes ---------------------------------------------------------------------------------------------------------


def insert(tx: Tx, job: Job) -> Job:
    """Keep a new one; it comes back with its number."""
    given = {**job._asdict(), **job.target._asdict(), "anchor": stamp(job.anchor), "next_due": _maybe(job.next_due)}
    del given["target"], given["id"]
    sql = f"INSERT INTO jobs ({', '.join(given)}) VALUES ({', '.join('?' * len(given))}) RETURNING id"
    ((id_,),) = tx.execute(sql, *given.values())
    return job._replace(id=id_)


def set_state(tx: Tx, id_: int, state: JobState, next_due: datetime | None) -> None:
    """Let a job continue, wait or end; what was to come again of it doesn't, unless it continues."""
    sql = "UPDATE jobs SET state = ?, next_due = ?, failures = 0 WHERE id = ?"
    tx.execute(sql, state, _maybe(next_due), id_)
    if state != "active":
        _close(tx, id_)


def remove(tx: Tx, id_: int) -> None:
    """End a job for good; only `bring_back` restores it."""
    sql = "UPDATE jobs SET removed_from = state, state = 'removed', next_due = NULL, failures = 0 WHERE id = ?"
    tx.execute(sql, id_)
    _close(tx, id_)


def bring_back(tx: Tx, job: Job, next_due: datetime, now: datetime) -> JobState:
    """Put a removed job back, due then; its state. A reminder that came for the last time can be answered again."""
    ((state,),) = tx.execute("UPDATE jobs SET state = removed_from WHERE id = ? RETURNING state", job.id)
    if state != "done":
        tx.execute("UPDATE jobs SET next_due = ? WHERE id = ?", stamp(next_due), job.id)
        return cast(JobState, state)
    nag = stamp(now + timedelta(seconds=job.nag_seconds))
    sql = (
        "UPDATE occurrences SET number = job, again = CASE WHEN nags_left > 0 THEN ? END WHERE id ="
        " (SELECT max(id) FROM occurrences WHERE job = ? AND state = 'sent')"
    )
    tx.execute(sql, nag, job.id)
    return "done"


def postpone(tx: Tx, id_: int, next_due: datetime) -> None:
    """Let it be due earlier than was thought."""
    tx.execute("UPDATE jobs SET next_due = ? WHERE id = ? AND state = 'active'", stamp(next_due), id_)


def plan(tx: Tx, job: int, now: datetime) -> None:
    """Let it fire now, besides its schedule."""
    sql = "INSERT INTO occurrences (job, due, state, again) VALUES (?, ?, 'planned', ?) ON CONFLICT DO NOTHING"
    tx.execute(sql, job, stamp(now), stamp(now))


def begin(tx: Tx, due: Due) -> int | None:
    """The row of what fires, as the job continues to its next time; None when another hand was quicker."""
    if due.occurrence:
        return due.occurrence.id
    over = due.next_due is None and due.job.kind == "reminder"
    sql = "UPDATE jobs SET next_due = ?, state = ? WHERE id = ? AND state = 'active' AND next_due = ? RETURNING id"
    state, before = "done" if over else "active", _maybe(due.job.next_due)
    if not tx.execute(sql, _maybe(due.next_due), state, due.job.id, before):
        return None
    sql = "INSERT INTO occurrences (job, due, state) VALUES (?, ?, 'planned') ON CONFLICT DO NOTHING RETURNING id"
    found = tx.execute(sql, due.job.id, stamp(due.due))
    return int(found[0][0]) if found else None


def fire(tx: Tx, due: Due, now: datetime, *, is_first: bool) -> tuple[int, Firing] | None:
    """Mark a reminder as sent: its row, and what is sent; None for one that was changed or fired meanwhile."""
    job, again = due.job, due.occurrence
    if again and again.number is not None:  # it comes again
        nags = max(0, again.nags_left - 1)
        next_nag = stamp(now + timedelta(seconds=job.nag_seconds)) if nags and job.nag_seconds else None
        sql = "UPDATE occurrences SET again = ?, nags_left = ?, fired = ? WHERE id = ? AND again = ? RETURNING id"
        if not tx.execute(sql, next_nag, nags, stamp(now), again.id, _maybe(again.again)):
            return None
        planned = again.again or now
        return again.id, Firing(job, planned, max(timedelta(), now - planned), is_again=True)
    if (row := begin(tx, due)) is None:
        return None
    _close(tx, job.id)
    sql = "UPDATE occurrences SET number = NULL WHERE number IS NOT NULL AND again IS NULL AND fired < ?"
    tx.execute(sql, stamp(now - OPEN_FOR))
    first_nag = stamp(now + timedelta(seconds=job.nag_seconds)) if job.nag_times else None
    late = max(timedelta(), now - due.due)
    sql = (
        "UPDATE occurrences SET state = 'sent', number = ?, fired = ?, late = ?, again = ?, nags_left = ?,"
        " tries = tries + 1 WHERE id = ?"
    )
    tx.execute(sql, job.id, stamp(now), int(late.total_seconds()), first_nag, job.nag_times, row)
    return row, Firing(job, due.due, late, is_first=is_first)


def set_message(tx: Tx, rows: Sequence[int], outbox: int) -> None:
    """Note which message tells of occurrences."""
    for row in rows:
        tx.execute("UPDATE occurrences SET outbox = ? WHERE id = ?", outbox, row)


def miss(tx: Tx, due: Due, now: datetime, error: str) -> None:
    """Let it not fire at that time; only the list of jobs says so."""
    if (row := begin(tx, due)) is not None:
        sql = "UPDATE occurrences SET state = 'missed', error = ?, late = ? WHERE id = ?"
        tx.execute(sql, error, max(0, int((now - due.due).total_seconds())), row)


def claim(tx: Tx, due: Due) -> str | None:
    """Let a task begin: the id of its message to the model; None when another hand was quicker."""
    if (row := begin(tx, due)) is None:
        return None
    _close(tx, due.job.id)
    ((tries,),) = tx.execute("SELECT tries FROM occurrences WHERE id = ?", row)
    return f"{due.job.id}/{row}/{tries + 1}"


def claimed(tx: Tx, due: Due, external_id: str, inbox: int, now: datetime) -> None:
    """Note that a task runs, with its message in the inbox."""
    late = max(0, int((now - due.due).total_seconds()))
    sql = (
        "UPDATE occurrences SET state = 'firing', fired = ?, late = ?, again = NULL, tries = tries + 1,"
        " inbox = ? WHERE id = ?"
    )
    tx.execute(sql, stamp(now), late, inbox, external_id.split("/")[1])


def end_task(
    tx: Tx,
    job: Job,
    row: int,
    state: JobState,
    error: str = "",
    again: datetime | None = None,
    outbox: int | None = None,
    took: str = "",
) -> None:
    """Note how a task has ended. Without an `error` it has worked; `again` is when it is tried once more."""
    sql = "UPDATE occurrences SET state = ?, error = ?, again = ?, outbox = ?, took = ? WHERE id = ?"
    tx.execute(sql, "failed" if error else "sent", error, _maybe(again), outbox, took, row)
    sql = "UPDATE jobs SET failures = ?, state = ? WHERE id = ? AND state = 'active'"
    tx.execute(sql, job.failures + 1 if error else 0, state, job.id)


def acknowledge(tx: Tx, occurrences: Sequence[Occurrence]) -> None:
    """Close reminders."""
    for one in occurrences:
        sql = "UPDATE occurrences SET state = 'acknowledged', number = NULL, again = NULL, nags_left = 0 WHERE id = ?"
        tx.execute(sql, one.id)


def snooze(tx: Tx, occurrences: Sequence[Occurrence], until: datetime) -> None:
    """Let reminders come again, under the same numbers."""
    for one in occurrences:
        sql = "UPDATE occurrences SET again = ?, nags_left = max(nags_left, 1) WHERE id = ?"
        tx.execute(sql, stamp(until), one.id)


def _close(tx: Tx, job: int) -> None:
    """Close what the job sent before, so that nothing of it comes again."""
    sql = "UPDATE occurrences SET number = NULL, again = NULL WHERE job = ? AND (number IS NOT NULL OR again <> '')"
    tx.execute(sql, job)


# --- rows and times --------------------------------------------------------------------------------------------------

_JOB = (
    "kind, text, words, schedule, rule, zone, anchor, channel, chat, creator, next_due, on_miss, state,"
    " nag_seconds, nag_times, may_schedule, failures, plans, id"
)
_OCCURRENCE = "id, job, due, state, number, fired, late, error, again, nags_left, tries, outbox, took"


def _job(row: Any) -> Job:
    *words, anchor, channel, chat, creator, next_due = row[:11]
    times = (moment(anchor), Address(channel, chat), creator, next_due and moment(next_due))
    job = Job._make((*words, *times, *row[11:]))
    return job._replace(may_schedule=bool(job.may_schedule), plans=bool(job.plans))


def _occurrence(row: Any) -> Occurrence:
    id_, job, due, state, number, fired, late, error, again, *rest = row
    times = (fired and moment(fired), late, error, again and moment(again))
    return Occurrence(id_, job, moment(due), state, number, *times, *rest)


def _going_on(target: Address | None) -> tuple[str, tuple[str, ...]]:
    """The SQL condition for jobs that are not over, and its values."""
    where = "state IN ('active', 'paused')"
    return (f"{where} AND channel = ? AND chat = ?", (target.channel, target.chat)) if target else (where, ())


def stamp(when: datetime) -> str:
    """A time as the tables hold it: in UTC and to the second, so that its text sorts as it does."""
    return when.astimezone(UTC).isoformat(timespec="seconds")


def _maybe(when: datetime | None) -> str | None:
    return stamp(when) if when else None


moment = datetime.fromisoformat
