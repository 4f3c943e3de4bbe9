"""What a job would send, in words for the person who tries it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from nanoclaw import time_words as words
from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.silence_token import spoken
from nanoclaw.plugins.schedule.job_service import number, time_refusals
from nanoclaw.plugins.schedule.jobs import Firing, Job
from nanoclaw.plugins.schedule.reminders import compose


def asked(argument: str) -> tuple[int, str]:
    """A job's number and the words for a time, of "3", "3 Mon 08:00" or "3 --at Mon 08:00". Raises ScheduleError."""
    id_, _, at = argument.strip().partition(" ")
    return number(id_), at.strip().removeprefix("--at").strip()


def moment(job: Job, at: str, now: datetime) -> datetime:
    """When it is played: `at` in words, or its next time. Raises ScheduleError."""
    if not at:
        return job.next_due or now
    with time_refusals():
        heard = words.read(at, now, job.zone)
    if isinstance(heard, words.Unclear):
        raise ScheduleError(heard.question)
    return words.upcoming(heard, now)


def of_reminder(job: Job, when: datetime) -> str:
    text = compose([Firing(job, when, timedelta())])
    return f"{_head(job, when)}\n\n{text}\n\nNo model is called: it costs nothing."


def of_task(
    job: Job, when: datetime, answer: str, failed: str, refused: Sequence[str], requests: int, cost: str
) -> str:
    """`failed` says why it did not come to an answer, '' when it did; `refused` are calls with effects."""
    said = f"(It failed: {failed})" if failed else spoken(answer) or "(Nothing: it kept silent.)"
    blocked = ["", "Not done, as this is a rehearsal:", *(f"- {call}" for call in refused)] if refused else []
    calls = f"{requests} call{'' if requests == 1 else 's'} of the model, {cost}."
    return "\n".join([_head(job, when), "", said, *blocked, "", calls])


def _head(job: Job, when: datetime) -> str:
    there = words.in_words(when, when, job.zone).rpartition(",")[0]
    return f"To {job.target}, as if it were {there} (nothing is sent or changed):"
