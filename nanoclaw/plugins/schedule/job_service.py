"""The job service: makes, lists and changes jobs, for the tool, the commands and the command line alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from nanoclaw import time_words
from nanoclaw.clock import short_time
from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, Reply, Tx
from nanoclaw.escapes import BLANKS, one_line
from nanoclaw.plugins.schedule import jobs as rows
from nanoclaw.plugins.schedule.jobs import Job, Jobs, JobState, Kind, Occurrence, OnMiss, Repeat
from nanoclaw.plugins.schedule.loop import JobLoop
from nanoclaw.plugins.schedule.reminders import length
from nanoclaw.plugins.schedule.requests import said_back
from nanoclaw.plugins.schedule.tables import BY_CODE, CHANNEL

LONGEST_TEXT = 4_000
MOST_JOBS, LISTED, RUNS = 10_000, 100, 20
MOST_OF_ONE_CONVERSATION = 20  # jobs of somebody who may only make them for the own conversation
_NAG = re.compile(r"(.+?)(?:\s*[x×*]\s*(\d{1,3})|\s+(\d{1,3})\s+times)?", re.IGNORECASE)
NAG_TIMES, MOST_NAGS = 6, 100

NO_TEXT = "There is no text: say what the reminder is to say, or the task to do."
NO_JOBS = "No jobs. /remind tomorrow at 9: TEXT sets a reminder."


class JobRequest(NamedTuple):
    """A job that somebody wants. `meant` are other words for the time, with one meaning; `nag` such as "10m x6"; `zone`
    '' is the person's; `language` '' is any."""

    when: str
    text: str
    kind: Kind = "reminder"
    meant: str = ""
    on_miss: OnMiss = "once"
    nag: str = ""
    zone: str = ""
    language: str = ""
    may_schedule: bool = False
    plans: bool = False


class JobService:
    """The service that the plugin makes public. Methods return a sentence or a table for the person, or raise
    ScheduleError with one; those that change something are given the transaction."""

    request, by_code = JobRequest, BY_CODE

    def __init__(self, host: Host) -> None:
        """`loop` is notified when a due time changes."""
        self._host, self.jobs = host, Jobs(host)
        self.loop = JobLoop(host, self.jobs)
        self._only: Address | None = None

    def within(self, address: Address) -> JobService:
        """The same for somebody who may only have jobs of this conversation, and not many."""
        narrow = copy(self)
        narrow._only = address
        return narrow

    # --- making one --------------------------------------------------------------------------------------------------

    def add(self, tx: Tx, asked: JobRequest, target: Address, creator: str) -> tuple[Job, str]:
        """The new job, and when it is due in words."""
        self._check(asked, target)
        nag_seconds, nag_times = _nag(asked)
        zone, now = asked.zone or self.zone, self._host.now()
        with time_refusals():
            time_words.zone_named(zone)
            heard = time_words.read(asked.meant or asked.when, now, zone, "" if asked.meant else asked.language)
            if isinstance(heard, time_words.Unclear):
                raise ScheduleError(f"Nothing was set yet. {heard.question}")
        schedule, rule, zone, anchor = _stored(heard, zone, now)
        due = time_words.upcoming(heard, now).astimezone(UTC)
        job = Job(asked.kind, asked.text.strip(), asked.when, schedule, rule, zone, anchor, target, creator, due)
        job = job._replace(on_miss=asked.on_miss, may_schedule=asked.may_schedule, plans=asked.plans)
        job = rows.insert(tx, job._replace(nag_seconds=nag_seconds, nag_times=nag_times))
        tx.after(self.loop.changed)
        note = f" ({heard.note})" if heard.note else ""
        nags = f", and again every {nag_seconds // 60} min up to {nag_times} times" if nag_times else ""
        made = said_back(asked.language, asked.when, job.id, heard, now, job.zone)
        made = made or f"Job {job.id}, a {job.kind}, is set: {_when(job, now)}"
        return job, f"{made}{note}{nags}. “{job.short}”"

    def _check(self, asked: JobRequest, target: Address) -> None:
        if not (text := asked.text.strip(BLANKS)):
            raise ScheduleError(NO_TEXT)
        if len(text) > LONGEST_TEXT:
            raise ScheduleError(f"The text has {len(text):,} characters, and {LONGEST_TEXT:,} is the limit.")
        if self._only and (target != self._only or asked.may_schedule):
            raise ScheduleError("Only the owner can do that: here jobs are for this conversation. Nothing was set.")
        if self._only and asked.kind == "task":
            raise ScheduleError("Tasks are for the owner alone, and not in a group; a reminder can be set.")
        if self._only and self.jobs.count(self._only) >= MOST_OF_ONE_CONVERSATION:
            raise ScheduleError(f"There are {MOST_OF_ONE_CONVERSATION} jobs in this conversation: remove some first.")
        if not self._is_known(target):
            raise ScheduleError(f"Nothing can be sent to {target}, so nothing was set.")
        if self.jobs.count() >= MOST_JOBS:
            raise ScheduleError(f"There are {MOST_JOBS:,} jobs, and no more fit: remove some first.")
        if asked.may_schedule and asked.kind == "reminder":
            raise ScheduleError("A reminder makes no jobs; a task can, with --task --may-schedule.")
        if asked.plans and asked.kind == "reminder":
            raise ScheduleError("A reminder has no plan; a task can show one first, with --task --plan.")
        if asked.plans and self._host.get("plan") is None:
            raise ScheduleError("A task shows a plan first only with the plugin plan, which is off. Nothing was set.")

    def _is_known(self, target: Address) -> bool:
        """The terminal is opened again some time; a chat app has to be served, or where none is, to be configured."""
        name, channel = target.channel, self._host.channel
        is_there = name == "terminal" or channel(name) is not None
        return is_there or (channel("terminal") is None and self._host.setting(f"channels.{name}") is not None)

    @property
    def zone(self) -> str:
        """The person's zone as jobs keep it; a machine's whose zone has no name counts in UTC."""
        return getattr(self._host.now().tzinfo, "key", None) or "UTC"

    # --- looking at them ---------------------------------------------------------------------------------------------

    def in_short(self, job: Job) -> str:
        """Such as "reminder 3 for Mon 23 Nov 2026, 09:00"."""
        assert job.next_due
        return f"{job.kind} {job.id} for {time_words.date_and_time(job.next_due, job.zone)}"

    def table(self) -> str:
        """A line for each job, the next one first, and for each reminder that nobody has answered."""
        now = self._host.now()
        opened = {job.id: (one, job) for one, job in self.jobs.open() if self._is_shown(job)}
        listed = self.jobs.all(LISTED, self._only)
        lines = [_line(job, self.jobs.last(job.id), now) + _open(opened.pop(job.id, None), now) for job in listed]
        for one, job in opened.values():
            if job.state == "done":
                lines.append(f"- {job.id}: {job.kind} “{job.short}”{_open((one, job), now)}")
        if (more := self.jobs.count(self._only) - len(listed)) > 0:
            lines.append(f"- and {more:,} later ones")
        return "\n".join(lines) or NO_JOBS

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        return {"jobs": [_as_data(job) for job in self.jobs.all(LISTED, self._only)]}

    def runs(self, id_: int | None) -> Reply:
        """The newest runs of a task, or of all tasks, with what came of each."""
        found, lines, now = list[dict[str, Any]](), list[str](), self._host.now()
        for one, job in self.jobs.runs(id_ and self.job(id_, or_over=True).id, RUNS):
            state, at = {"firing": "running", "sent": "done"}.get(one.state, one.state), one.fired or one.due
            result = one_line(one.error or (self._host.records.sent(one.outbox)[4] if one.outbox else ""), 400)
            run = {"job": job.id, "text": job.text, "at": at.isoformat(), "state": state, "result": result}
            found.append({**run, "took": one.took, "target": str(job.target)})
            told = "".join(filter(None, (one.took and f" ({one.took})", result and f": {result}")))
            lines.append(f"- {short_time(at, now)}, {_name(job)}, {state}{told}")
        return Reply("\n".join(lines) or "No task has run yet.", {"runs": found})

    def upcoming(self, reading: time_words.Reading, zone: str, start: str, count: int) -> Reply:
        """The next times after now, or after `start`, an ISO time: a line each, in the zone."""
        times, lines, now = list[str](), list[str](), self._host.now()
        with time_refusals(), suppress(OverflowError):  # the calendar ends before
            there = time_words.zone_named(zone)
            after = _moment(start, there) if start else now.astimezone(UTC)
            while len(times) < count and (due := time_words.upcoming(reading, after)) > after:
                times, after = [*times, due.astimezone(there).isoformat(timespec="seconds")], due
                lines.append(f"{times[-1]}  {time_words.in_words(due, now, there)}")
        return Reply("\n".join(lines) or "It does not come again.", {"times": times})

    def job(self, id_: int, *, or_over: bool = False) -> Job:
        """Raises ScheduleError for one that is not there, or over; a task can begin again when it is."""
        job = self.jobs.get(id_)
        job = job if job and self._is_shown(job) else None
        if job is None or (job.state == "done" and not (or_over and job.kind == "task")):
            raise ScheduleError(f"There is no job {id_}{', it is over' if job else ''}. /jobs lists them.")
        return job

    def target_of(self, address: Address) -> Address:
        """Chat of the person of a conversation: for a task's own, the chat that it reports to."""
        job = self.jobs.get(int(address.chat)) if address.channel == CHANNEL else None
        return job.target if job else address

    def important(self) -> list[str]:
        """Nagging reminders that nobody has answered, a line each."""
        return [f"Reminder {one.number}: {job.text}" for one, job in self.jobs.open() if job.nag_times]

    def needs_another_process(self) -> bool:
        """True if jobs were changed in this process, which fires none, and some are due later."""
        return self.loop.has_unread_news and self.jobs.count() > 0

    # --- changing them -----------------------------------------------------------------------------------------------

    def remove(self, tx: Tx, id_: int) -> str:
        """Also one that has fired, and waits for an answer."""
        answerable = {job.id: job for _, job in self.jobs.open() if self._is_shown(job)}
        job = answerable.get(id_) or self.job(id_)
        rows.remove(tx, job.id)
        tx.after(self.loop.changed)
        return f"Removed: {_name(job)}."

    def bring_back(self, tx: Tx, id_: int) -> str:
        """Undo `remove`. What was due meanwhile of a job that comes again is left out."""
        now, job = self._host.now(), self.jobs.removed(id_)
        if job is None:
            raise ScheduleError(f"There is no job {id_} that was removed.")
        with time_refusals():
            reading = job.reading
            due = reading.when if isinstance(reading, time_words.At) else time_words.upcoming(reading, now)
        state = rows.bring_back(tx, job, due, now)
        tx.after(self.loop.changed)
        when = {"done": "not answered yet", "paused": "paused"}.get(state) or _when(job, now)
        return f"Back again: {_name(job)}, {when}."

    def remove_all_of(self, tx: Tx, creator: str) -> int:
        """End the jobs of somebody who is not let in any more; how many."""
        theirs = [job for job in self.jobs.all() if job.creator == creator]
        for job in theirs:
            rows.remove(tx, job.id)
        return len(theirs)

    def pause(self, tx: Tx, id_: int) -> str:
        job = self.job(id_)
        if job.state == "paused":
            return f"{_name(job)} is paused already."
        self._set(tx, job, "paused", job.next_due)
        return f"Paused: {_name(job)}. /jobs resume {job.id} continues it."

    def resume(self, tx: Tx, id_: int) -> str:
        job, now = self.job(id_), self._host.now()
        if job.state == "active" and not job.failures:
            return f"{_name(job)} is not paused: {_when(job, now)}."
        with time_refusals():
            due = job.next_due if job.schedule == "at" else time_words.upcoming(job.reading, now)
        is_late = due is None or due <= now
        self._set(tx, job, "active", due)
        if due is None:  # it failed until it was paused
            rows.plan(tx, job.id, now)
        return f"Goes on: {_name(job)}, {'now' if is_late else _when(job, now)}."

    def run(self, tx: Tx, id_: int) -> str:
        job = self.job(id_, or_over=True)
        if self.jobs.is_running(job.id):
            raise ScheduleError(f"{_name(job)} is running already.")
        rows.plan(tx, job.id, self._host.now())
        tx.after(self.loop.changed)
        when = "now" if self.loop.silent_for is not None else "as soon as a gateway or a chat runs"
        return f"Runs {when}, besides its schedule: {_name(job)}."

    def _set(self, tx: Tx, job: Job, state: JobState, next_due: datetime | None) -> None:
        rows.set_state(tx, job.id, state, next_due)
        tx.after(self.loop.changed)

    def _is_shown(self, job: Job) -> bool:
        return self._only in (None, job.target)


def creator(host: Host, address: Address, sender: str) -> str:
    """The sender, as a job keeps them."""
    access = host.get("access")
    return str(access.creator(address, sender)) if access else "owner"


@contextmanager
def time_refusals() -> Iterator[None]:
    """Say what the time words refuse as our own."""
    try:
        yield
    except time_words.TimeWordsError as error:
        raise ScheduleError(str(error)) from None


def _moment(iso: str, zone: tzinfo) -> datetime:
    try:
        read = datetime.fromisoformat(iso)
        return (read if read.tzinfo else read.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ScheduleError(f"Not an ISO time: {iso!r}. Write it like 2026-11-27T17:05+01:00.") from None


def _stored(heard: time_words.Reading, zone: str, now: datetime) -> tuple[Repeat, str, str, datetime]:
    """Columns in which a reading is stored: kind of schedule, rule, zone, anchor."""
    match heard:
        case time_words.At():
            return "at", heard.when.astimezone(UTC).isoformat(timespec="seconds"), zone, now
        case time_words.Every(zone=there) if there:
            return "every", f"{heard.seconds // time_words.DAY}d", str(there), heard.start
        case time_words.Every():
            return "every", str(heard.seconds), zone, heard.start
        case time_words.Cron():
            return "cron", heard.expression, str(heard.zone), now


def _nag(asked: JobRequest) -> tuple[int, int]:
    """Seconds and times."""
    if not asked.nag.strip():
        return 0, 0
    if asked.kind == "task":
        raise ScheduleError("A task cannot nag; a reminder can.")
    found = _NAG.fullmatch(asked.nag.strip().removeprefix("every "))
    span = length(found[1]) if found else None
    times = int(found[2] or found[3] or NAG_TIMES) if found else 0
    if span is None or span < timedelta(minutes=1) or not 0 < times <= MOST_NAGS:
        raise ScheduleError(f"Not a way to nag: {asked.nag!r}. Write it like '10m x6': every 10 minutes, 6 times.")
    return int(span.total_seconds()), times


# --- in words --------------------------------------------------------------------------------------------------------


def _when(job: Job, now: datetime) -> str:
    reading = job.reading
    if isinstance(reading, time_words.At):
        return time_words.in_words(reading.when, now, job.zone)
    return time_words.repeat_in_words(reading, now, job.zone)


def _line(job: Job, last: Occurrence | None, now: datetime) -> str:
    if job.state == "paused":
        once = job.next_due if job.schedule == "at" else None
        when = f"paused ({time_words.date_and_time(once, job.zone) if once else job.words})"
    elif last and last.again and last.state == "failed":
        when = f"tried again {time_words.in_words(last.again, now, job.zone)}"
    elif job.next_due is None:
        when = "running"
    elif job.next_due <= now.astimezone(UTC):
        when = f"due {time_words.in_words(job.next_due, now, job.zone)}"
    else:
        when = _when(job, now)
    outcome = f"; last {_outcome(last)}" if last else ""
    skips = ", skipped when missed" if job.on_miss == "skip" else ""
    nags = f", again every {job.nag_seconds // 60} min until done" if job.nag_times else ""
    plans = ", shows its plan first" if job.plans else ""
    where = f" for {job.target}" if job.target.channel != "terminal" else ""
    return f"- {job.id}: {job.kind} “{job.short}”{where}, {when}{nags}{skips}{plans}{outcome}"


def _as_data(job: Job) -> dict[str, Any]:
    due = job.next_due.isoformat() if job.next_due else None
    same = ("id", "kind", "text", "state", "schedule", "rule", "zone", "plans")
    return {**{name: getattr(job, name) for name in same}, "due": due, "target": str(job.target)}


def _open(opened: tuple[Occurrence, Job] | None, now: datetime) -> str:
    """Words about a reminder that is not answered yet; '' for any other."""
    if opened is None:
        return ""
    one, job = opened
    again = f", comes again {time_words.in_words(one.again, now, job.zone)}" if one.again else ""
    return f", not answered yet{again}"


def _outcome(last: Occurrence) -> str:
    late = time_words.late(timedelta(seconds=last.late)) if last.state in ("sent", "acknowledged") else ""
    said = {"acknowledged": "done", "firing": "running", "sent": "sent" if last.outbox else "time nothing to tell"}
    return f"{said.get(last.state, last.state)}{last.error and ': ' + one_line(last.error)}{late and ', ' + late}"


def _name(job: Job) -> str:
    return f"{job.kind} {job.id} “{job.short}”"
