"""Reminders in words: what is sent, and what the person answers: done, snooze, stop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from nanoclaw import time_words
from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, Button, Inbound
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.escapes import one_line
from nanoclaw.plugins.schedule import jobs as rows
from nanoclaw.plugins.schedule.jobs import Firing, Job, Jobs, Occurrence

RECENT = timedelta(minutes=15)  # after a reminder: a bare "done" means it
SNOOZE = timedelta(minutes=10)  # for a "snooze" that says no time


# --- what is sent ----------------------------------------------------------------------------------------------------


def compose(firings: Sequence[Firing]) -> str:
    """The message for one reminder, or for several that come at once."""
    if len(firings) == 1:
        (one,) = firings
        again = " again" if one.is_again else ""
        text = f"Reminder {one.job.id}{again}: {one.job.text}"
        if lateness := time_words.was_due(one.due, one.late, one.job.zone):
            text += f"\n({lateness})"
        if one.is_first or one.job.nag_times:
            text += f"\n(“done {one.job.id}” or “snooze {one.job.id} 30m” answers it.)"
        return text
    first, said = firings[0].job.id, [(one, time_words.was_due(one.due, one.late, one.job.zone)) for one in firings]
    lines = [f"- {one.job.id}: {one.job.text}{lateness and f' ({lateness})'}" for one, lateness in said]
    how = f"(“done {first}” or “snooze {first} 30m” answers one.)"
    return "\n".join([f"{len(firings)} reminders came due:", *lines, how])


def buttons(firings: Sequence[Firing]) -> tuple[Button, ...]:
    """Below the message of one reminder: what is said most often."""
    if len(firings) != 1:
        return ()
    number = firings[0].job.id
    return Button("Done", f"done {number}"), Button("Snooze 1 h", f"snooze {number} 1h")


# --- what is answered ------------------------------------------------------------------------------------------------

_ANSWER = re.compile(
    r"(?P<verb>done|snooze|stop)(?:\s+(?:#?(?P<number>\d{1,6})|(?P<all>all))(?=\s|$))?(?:\s+(?P<rest>\S.*))?",
    re.IGNORECASE | re.DOTALL,
)
_LENGTH = re.compile(r"(?:for\s+|in\s+)?(\d{1,4})\s*(m|min|mins|minutes?|h|hours?|hrs?|d|days?)", re.IGNORECASE)
_UNITS = {"m": 60, "h": 3600, "d": 86400}


def length(text: str) -> timedelta | None:
    """ "30m", "2 hours", "1 d"; None for anything else."""
    found = _LENGTH.fullmatch(text.strip())
    return timedelta(seconds=int(found[1]) * _UNITS[found[2][0].lower()]) if found else None


class Answered(NamedTuple):
    """A reply to somebody who answered a reminder, and the jobs that do not come again."""

    text: str
    stopped: tuple[Job, ...] = ()


def answer(inbound: Inbound, tx: Tx, jobs: Jobs, host: Host) -> Answered | None:
    """Do what a message says to a reminder; None for anything else. A bare stop is for a turn that began since then."""
    found = _ANSWER.fullmatch(inbound.message.text.strip().rstrip(".!"))
    if found is None or (found["rest"] and found["verb"].lower() != "snooze"):
        return None
    verb, number, rest, now = found["verb"].lower(), found["number"], (found["rest"] or "").strip(), host.now()
    if rest and length(f"{number} {rest}"):  # snooze 10 minutes
        number, rest = None, f"{number} {rest}"
    chosen = _meant(jobs, inbound, number, bool(found["all"]), now)
    if verb == "stop" and not (number or found["all"] or inbound.quoted):
        chosen = [one for one in chosen if host.records.is_last(inbound.address, 2**62, at=one[0].fired)]
    if not chosen:
        return Answered(_not_theirs(jobs, number, inbound.address, host)) if number else None
    if len(chosen) > 1 and not found["all"]:
        listed = ", ".join(f"{one.number} ({job.short})" for one, job in chosen)
        return Answered(f"Which one? {listed}. Say “{verb} {chosen[0][0].number}{' ' + rest if rest else ''}”.")
    if verb == "snooze":
        return Answered(_snooze(tx, chosen, rest, now))
    return _acknowledge(tx, chosen, stop=verb == "stop")


def _meant(
    jobs: Jobs, inbound: Inbound, number: str | None, is_all: bool, now: datetime
) -> list[tuple[Occurrence, Job]]:
    """By its number, by what was quoted, or by when it was sent; those of other chats only from the terminal."""
    here = inbound.address
    everywhere = here.channel == "terminal"
    near = [(one, job) for one, job in jobs.open() if everywhere or job.target == here]
    if number:  # in whichever thread of their chat they say it
        numbered = [(one, job) for one, job in jobs.open() if one.number == int(number)]
        return [(one, job) for one, job in numbered if everywhere or _person(job.target) == _person(here)]
    if inbound.quoted:
        told_of = jobs.open(quoted=(here.channel, inbound.quoted))
        return [(one, job) for one, job in told_of if everywhere or job.target == here]
    if is_all:
        return near
    recent = [(one, job) for one, job in near if one.fired and one.fired >= now - RECENT]
    return [(one, job) for one, job in recent if job.nag_times or not one.again] or recent  # but the snoozed ones


def _not_theirs(jobs: Jobs, number: str, here: Address, host: Host) -> str:
    """Why a number cannot be answered here: in a group all see the reminder of one of them."""
    place = Place.of(here.chat)
    for one, job in jobs.open():
        other = Place.of(job.target.chat)
        is_here = (job.target.channel, other.chat) == (here.channel, place.chat)
        if one.number == int(number) and is_here and other.person:
            whose = one_line(host.records.name_in(job.target)) or "Somebody else"
            return f"Reminder {number} is not yours: only {whose} can answer it."
    return f"There is no open reminder {number}. /jobs lists them."


def _snooze(tx: Tx, chosen: list[tuple[Occurrence, Job]], rest: str, now: datetime) -> str:
    zone = chosen[0][1].zone
    try:
        until = _until(rest, now, zone)
    except time_words.TimeWordsError as error:
        return f"Not snoozed. {error}"
    rows.snooze(tx, [one for one, _ in chosen], until)
    said = "; ".join(f"{one.number}: {job.short}" for one, job in chosen)
    return f"Again {time_words.in_words(until, now, zone)}: {said}"


def _acknowledge(tx: Tx, chosen: list[tuple[Occurrence, Job]], *, stop: bool) -> Answered:
    rows.acknowledge(tx, [one for one, _ in chosen])
    said = "; ".join(job.short for _, job in chosen)
    if not stop:
        return Answered(f"Done: {said}.")
    stopped = tuple(job for _, job in chosen if job.state in ("active", "paused"))
    for job in stopped:
        rows.remove(tx, job.id)
    return Answered(f"Stopped: {said}.{' It does not come again.' if stopped else ''}", stopped)


def _person(address: Address) -> tuple[str, str, str]:
    """Whose conversation it is, without its thread."""
    place = Place.of(address.chat)
    return address.channel, place.chat, place.person


def _until(rest: str, now: datetime, zone: str) -> datetime:
    """When a snooze ends. Raises TimeWordsError, also with the question that its words raise."""
    if not rest:
        return now + SNOOZE
    if (span := length(rest)) is not None:
        return now + span
    heard = time_words.read(rest.removeprefix("until ").removeprefix("till "), now, zone)
    if isinstance(heard, time_words.At):
        return heard.when
    how = "Say a time or a length, such as “snooze 2 30m”."
    raise time_words.TimeWordsError(heard.question if isinstance(heard, time_words.Unclear) else how)
