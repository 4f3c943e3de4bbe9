"""The desk where jobs are made, listed and changed, for every face alike: tool, commands, command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from nanoclaw import time_words as words
from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.messages import Address
from nanoclaw.plugins.schedule.jobs import Job, Jobs, Kind, Occurrence, OnMiss, Schedule
from nanoclaw.plugins.schedule.reminders import length
from nanoclaw.plugins.schedule.schedule import reading_of

LONGEST_TEXT = 4_000
MOST_JOBS, LISTED = 10_000, 100
MOST_OF_A_GUEST = 20
"""Jobs of one conversation that is not the owner's."""
_NAG = re.compile(r"(.+?)(?:\s*[x×*]\s*(\d{1,3})|\s+(\d{1,3})\s+times)?", re.IGNORECASE)
NAG_TIMES, MOST_NAGS = 6, 100


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to happen later. `at` is a model's own reading of the words, as an ISO time; `nag` such as
    "10m x6"; `zone` '' is the person's."""

    when: str
    text: str
    kind: Kind = "reminder"
    at: str = ""
    on_miss: OnMiss = "once"
    nag: str = ""
    zone: str = ""
    may_schedule: bool = False


class Desk:
    """Every method returns a sentence or a table for the person, or raises ScheduleError with one."""

    def __init__(
        self,
        jobs: Jobs,
        clock: Callable[[], datetime],
        zone: str,
        is_known: Callable[[Address], bool] = lambda address: True,
        changed: Callable[[], None] = lambda: None,
        note: str = "",
    ) -> None:
        """`note` is added where the first job was made; `zone` is the person's; `is_known` tells whether an address can
        be reached; `changed` is called when something is due at another time than before."""
        self._jobs, self._clock, self._zone, self._is_known, self._changed = jobs, clock, zone, is_known, changed
        self._note = f"\n{note}" if note else ""
        self._only: Address | None = None

    def within(self, address: Address) -> Desk:
        """The same desk for somebody who is not the owner: only jobs of this conversation, and not many."""
        narrow = copy(self)
        narrow._only = address
        return narrow

    def add(self, wish: Wish, target: Address, creator: str) -> tuple[Job, str]:
        """The new job, and when it is due in words."""
        text = wish.text.strip()
        if not text:
            raise ScheduleError(_NO_TEXT)
        if len(text) > LONGEST_TEXT:
            raise ScheduleError(f"The text has {len(text):,} characters, and {LONGEST_TEXT:,} are the most.")
        if self._only and (target != self._only or wish.may_schedule):
            raise ScheduleError("Only the owner can do that: here jobs are for this conversation. Nothing was set.")
        if self._only and wish.kind == "task":
            raise ScheduleError(
                "Tasks, which ask the model, are for the owner alone, and not in a group; a reminder can be set."
            )
        if self._only and self._jobs.count(self._only) >= MOST_OF_A_GUEST:
            raise ScheduleError(f"There are {MOST_OF_A_GUEST} jobs in this conversation: remove some first.")
        if not self._is_known(target):
            raise ScheduleError(f"Nothing can be sent to {target}, so nothing was set.")
        if self._jobs.count() >= MOST_JOBS:
            raise ScheduleError(f"There are {MOST_JOBS:,} jobs, and no more fit: remove some first.")
        if wish.may_schedule and wish.kind == "reminder":
            raise ScheduleError("A reminder makes no jobs; a task can, with --task --may-schedule.")
        nag_seconds, nag_times = _nag(wish)
        zone, now = wish.zone or self._zone, self._clock()
        with time_refusals():
            words.zone_named(zone)
            heard = words.read(wish.when, now, zone)
            asked = words.agree(heard, wish.at, now, zone) if wish.at and not isinstance(heard, words.Unclear) else ""
        if isinstance(heard, words.Unclear):
            raise ScheduleError(f"Nothing was set yet. {heard.question}")
        if asked:
            raise ScheduleError(f"Nothing was set yet. {asked}")
        schedule, rule, zone, anchor = _kept(heard, zone, now)
        due = words.upcoming(heard, now).astimezone(UTC)
        job = self._jobs.add(
            Job(
                *(wish.kind, text, wish.when, schedule, rule, zone, anchor, target, creator, due),
                on_miss=wish.on_miss,
                nag_seconds=nag_seconds,
                nag_times=nag_times,
                may_schedule=wish.may_schedule,
            )
        )
        self._changed()
        note = f" ({heard.note})" if heard.note else ""
        note_once = self._note if job.id == 1 else ""
        nags = f", and again every {nag_seconds // 60} min up to {nag_times} times" if nag_times else ""
        return job, f"Job {job.id}, a {job.kind}, is set: {_when(job, now)}{note}{nags}. “{_short(text)}”{note_once}"

    def wish(
        self, when: str, text: str, kind: Kind, at: str, on_miss: OnMiss, nag: str, target: Address, creator: str
    ) -> tuple[Job, str]:
        """The same, word for word as the tool takes it."""
        return self.add(Wish(when, text, kind, at, on_miss, nag), target, creator)

    def parted(self, said: str, zone: str) -> list[str]:
        """The words for the time and the text of "me tomorrow at 9 to call Anna", "me to call Anna tomorrow at 9" or
        "0 9 * * 1-5 look at my mail"; [] where they cannot be told apart."""
        return words.split(_ME.sub("", said), self._clock(), zone or self._zone)

    def in_short(self, job: Job) -> str:
        """Such as "reminder 3 for Mon 23 Nov 2026, 09:00"."""
        assert job.next_due
        return f"{job.kind} {job.id} for {words.date_and_time(job.next_due, job.zone)}"

    def table(self) -> str:
        """A line for each job, the next one first, and for each reminder that nobody has answered."""
        now = self._clock()
        opened = {job.id: (one, job) for one, job in self._jobs.open() if self._is_shown(job)}
        listed = self._jobs.all(LISTED, self._only)
        lines = [_line(job, self._jobs.last(job.id), now) + _open(opened.pop(job.id, None), now) for job in listed]
        for one, job in opened.values():
            if job.state == "done":
                lines.append(f"- {job.id}: {job.kind} “{_short(job.text)}”{_open((one, job), now)}")
        if (more := self._jobs.count(self._only) - len(listed)) > 0:
            lines.append(f"- and {more:,} later ones")
        return "\n".join(lines) or "No jobs. /remind tomorrow at 9: TEXT sets a reminder."

    def remove(self, id_: int) -> str:
        """Also one that has fired, and waits for an answer."""
        answerable = {job.id: job for _, job in self._jobs.open() if self._is_shown(job)}
        job = answerable.get(id_) or self.job(id_)
        self._jobs.set_state(job.id, "removed", None)
        self._changed()
        return f"Removed: {_name(job)}."

    def pause(self, id_: int) -> str:
        job = self.job(id_)
        if job.state == "paused":
            return f"{_name(job)} is paused already."
        self._jobs.set_state(job.id, "paused", job.next_due)
        return f"Paused: {_name(job)}. /cron resume {job.id} goes on."

    def resume(self, id_: int) -> str:
        job, now = self.job(id_), self._clock()
        if job.state == "active" and not job.failures:
            return f"{_name(job)} is not paused: {_when(job, now)}."
        due = job.next_due if job.schedule == "at" else words.upcoming(reading_of(job), now)
        is_late = due is None or due <= now
        self._jobs.set_state(job.id, "active", due)
        if due is None:  # it failed until it was paused
            self._jobs.plan(job.id)
        self._changed()
        return f"Goes on: {_name(job)}, {'now' if is_late else _when(job, now)}."

    def run(self, id_: int) -> str:
        job = self.job(id_)
        if self._jobs.is_running(job.id):
            raise ScheduleError(f"{_name(job)} is running already.")
        self._jobs.plan(job.id)
        self._changed()
        return f"Runs now, besides its schedule: {_name(job)}."

    def upcoming(self, id_: int, count: int) -> str:
        """The next times of a job, a line each."""
        job, now = self.job(id_), self._clock()
        times = upcoming(reading_of(job), now, count)
        return "\n".join(f"- {words.in_words(when, now, job.zone)}" for when in times) or "It does not come again."

    def job(self, id_: int) -> Job:
        """Raises ScheduleError for one that is not there, or over."""
        job = self._jobs.get(id_)
        job = job if job and self._is_shown(job) else None
        if job is None or job.state == "done":
            raise ScheduleError(f"There is no job {id_}{', it is over' if job else ''}. /jobs lists them.")
        return job

    def _is_shown(self, job: Job) -> bool:
        return self._only in (None, job.target)


class Commands:
    """/remind, /jobs and /cron, from what stands after the name."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def remind(self, argument: str, address: Address, sender: str) -> str:
        return self._add(argument, "/remind tomorrow at 9: call Anna", address, sender)

    def jobs(self, argument: str, address: Address, sender: str) -> str:
        return self._desk.table()

    def cron(self, argument: str, address: Address, sender: str) -> str:
        action, _, rest = argument.partition(" ")
        rest = rest.strip()
        if action in ("", "list"):
            return self._desk.table()
        if action == "add":
            return self._add(rest, "/cron add every weekday at 7:30: stand up, or /cron add task …", address, sender)
        if action == "next":
            what, _, count = rest.partition(" -n ")
            return self._desk.upcoming(number(what), min(50, number(count or "5")))
        acts = {
            "remove": self._desk.remove,
            "pause": self._desk.pause,
            "resume": self._desk.resume,
            "run": self._desk.run,
        }
        if action not in acts:
            raise ScheduleError(f"/cron list, add, next, remove, pause, resume, run or rehearse ID: not {action!r}")
        return acts[action](number(rest))

    def _add(self, argument: str, example: str, address: Address, sender: str) -> str:
        """`[task] [--skip] [--nag 10m x6] [--zone Z] [--to CHANNEL:CHAT] [--may-schedule] WHEN: TEXT`"""
        wish, target = Wish("", ""), address
        rest = argument.strip()
        while found := _FLAG.match(rest):
            rest = rest[found.end() :]
            flag, value = (found[1] or found[2]).lower(), found[3]
            match flag:
                case "task" | "--task":
                    wish = replace(wish, kind="task")
                case "--skip":
                    wish = replace(wish, on_miss="skip")
                case "--may-schedule":
                    wish = replace(wish, may_schedule=True)
                case "--zone":
                    wish = replace(wish, zone=value)
                case "--nag":
                    wish = replace(wish, nag=value)
                case _:
                    target = address_of(value)
        if rest.endswith(":") and not _COLON.search(rest):
            raise ScheduleError(_NO_TEXT)
        parts = [part.strip() for part in _COLON.split(_ME.sub("", rest), maxsplit=1)]
        if len(parts) == 1 or _ME.match(rest):
            parts = self._desk.parted(rest, wish.zone) or parts
        if len(parts) == 1:
            parts = [part.strip() for part in _TIGHT_COLON.split(rest, maxsplit=1)]
        if len(parts) != 2 or not all(parts):
            raise ScheduleError(f"Say when, a colon and a text, such as {example}")
        when, text = parts
        if found := _FLAG_AT_END.search(text):
            raise ScheduleError(f"Put {found[1]} before the time: all after the colon is the text. Nothing was set.")
        if not wish.nag and (nag := _NAG_AT_END.search(text)):
            wish, text = replace(wish, nag=nag[1]), text[: nag.start()].strip()
        return self._desk.add(replace(wish, when=when, text=text), target, sender)[1]


_NO_TEXT = "There is no text: say what the reminder is to say, or the task to do."
_FLAG = re.compile(
    r"(task|--task|--skip|--may-schedule)\s+|(--zone|--to|--nag)[ =](\S+(?:\s*[x×]\s*\d+(?=\s))?)\s+", re.IGNORECASE
)
_COLON, _TIGHT_COLON = re.compile(r"[:：](?=\s)"), re.compile(r"[:：](?!\d)")
_FLAG_AT_END = re.compile(r"\s(--task|--skip|--may-schedule|--(?:zone|to)[ =]\S+)$", re.IGNORECASE)
_ME = re.compile(r"^me\s+", re.IGNORECASE)
_NAG_AT_END = re.compile(
    r"[\s,;-]*\bnag(?:\s+every)?\s+(\d+\s*\w+(?:\s*[x×]\s*\d+|\s+\d+\s+times)?)\s*$", re.IGNORECASE
)


def next_times(desk: Desk | None, what: str, zone: str, start: str, now: datetime, count: int) -> list[str]:
    """The next times of a job, or without a desk of a cron expression, as ISO texts in its zone; `start` is ISO, in
    that zone where it names none."""
    reading: words.Reading
    if desk is None:
        with time_refusals():
            words.check_cron(what)
            there, reading = words.zone_named(zone), words.Cron(what, zone)
    else:
        job = desk.job(number(what))
        with time_refusals():
            there, reading = words.zone_named(zone or job.zone), reading_of(job)
    if start:
        try:
            now = datetime.fromisoformat(start)
        except ValueError:
            raise ScheduleError(f"Not an ISO time: {start!r}. Write it like '2026-11-27T17:05+01:00'.") from None
        now = now if now.tzinfo else now.replace(tzinfo=there)
    return [when.astimezone(there).isoformat(timespec="seconds") for when in upcoming(reading, now, count)]


def upcoming(reading: words.Reading, now: datetime, count: int) -> list[datetime]:
    now = now.astimezone(UTC)
    if isinstance(reading, words.At):
        return [reading.when] if reading.when > now else []
    found = []
    for _ in range(count):
        now = words.upcoming(reading, now)
        found.append(now)
    return found


@contextmanager
def time_refusals() -> Iterator[None]:
    """Say the library's refusals as our own."""
    try:
        yield
    except words.TimeWordsError as error:
        raise ScheduleError(str(error)) from None


def number(text: str) -> int:
    """A job's number, as it is shown."""
    bare = text.strip().removeprefix("job ").lstrip("#")
    if not (bare.isascii() and bare.isdecimal() and len(bare) < 10):
        raise ScheduleError(f"Give the number of a job, as /jobs lists them, not {text.strip()!r}.")
    return int(bare)


def address_of(text: str) -> Address:
    channel, colon, chat = text.partition(":")
    if not (channel and colon and chat):
        raise ScheduleError(f"Not an address: {text!r}. Write it like terminal:main.")
    return Address(channel, chat)


def _kept(heard: words.Reading, zone: str, now: datetime) -> tuple[Schedule, str, str, datetime]:
    """How a reading is stored: kind of schedule, rule, zone, anchor."""
    match heard:
        case words.At():
            return "at", heard.when.astimezone(UTC).isoformat(timespec="seconds"), zone, now
        case words.Every(zone=there) if there:
            return "every", f"{heard.seconds // words.DAY}d", str(there), heard.start
        case words.Every():
            return "every", str(heard.seconds), zone, heard.start
        case words.Cron():
            return "cron", heard.expression, str(heard.zone), now


def _nag(wish: Wish) -> tuple[int, int]:
    """Seconds and times."""
    if not wish.nag.strip():
        return 0, 0
    if wish.kind == "task":
        raise ScheduleError("A task cannot nag; a reminder can.")
    found = _NAG.fullmatch(wish.nag.strip().removeprefix("every "))
    span = length(found[1]) if found else None
    times = int(found[2] or found[3] or NAG_TIMES) if found else 0
    if span is None or span < timedelta(minutes=1) or not 0 < times <= MOST_NAGS:
        raise ScheduleError(f"Not a way to nag: {wish.nag!r}. Write it like '10m x6': every 10 minutes, up to 6 times.")
    return int(span.total_seconds()), times


def _when(job: Job, now: datetime) -> str:
    reading = reading_of(job)
    if isinstance(reading, words.At):
        return words.in_words(reading.when, now, job.zone)
    return words.repeat_in_words(reading, now, job.zone)


def _line(job: Job, last: Occurrence | None, now: datetime) -> str:
    if job.state == "paused":
        once = job.next_due if job.schedule == "at" else None
        when = f"paused ({words.date_and_time(once, job.zone) if once else job.words})"
    elif last and last.again and last.state == "failed":
        when = f"tried again {words.in_words(last.again, now, job.zone)}"
    elif job.next_due is None:
        when = "running"
    elif job.next_due <= now.astimezone(UTC):
        when = f"due {words.in_words(job.next_due, now, job.zone)}"
    else:
        when = _when(job, now)
    outcome = f"; last {_outcome(last)}" if last else ""
    skips = ", skipped when missed" if job.on_miss == "skip" else ""
    nags = f", again every {job.nag_seconds // 60} min until done" if job.nag_times else ""
    where = f" for {job.target}" if job.target.channel != "terminal" else ""
    return f"- {job.id}: {job.kind} “{_short(job.text)}”{where}, {when}{nags}{skips}{outcome}"


def _open(opened: tuple[Occurrence, Job] | None, now: datetime) -> str:
    """What a reminder that nobody has answered waits for."""
    if opened is None:
        return ""
    one, job = opened
    again = f", comes again {words.in_words(one.again, now, job.zone)}" if one.again else ""
    return f", not answered yet{again}"


def _outcome(last: Occurrence) -> str:
    late = words.late(timedelta(seconds=last.late)) if last.state in ("sent", "acknowledged") else ""
    said = {"acknowledged": "done", "firing": "running"}.get(last.state, last.state)
    return f"{said}{': ' + _short(last.error) if last.error else ''}{', ' + late if late else ''}"


def _name(job: Job) -> str:
    return f"{job.kind} {job.id} “{_short(job.text)}”"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
