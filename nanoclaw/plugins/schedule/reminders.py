"""Reminders in words: what is sent, and what the person answers: done, snooze, stop."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from nanoclaw import time_words as words
from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, AssistantMessage, Button, Inbound, Message, UserMessage
from nanoclaw.core.store.inbox import Ending
from nanoclaw.plugins.schedule.jobs import Firing, Job, Jobs, Occurrence

RECENT = timedelta(minutes=15)
"""So long after a reminder a bare "done" means it."""

SNOOZE = timedelta(minutes=10)
"""For a "snooze" that says no time."""

Remark = Callable[[str], UserMessage]
"""Something that the program itself tells the model."""


# --- what is sent ----------------------------------------------------------------------------------------------------


def compose(firings: Sequence[Firing]) -> str:
    """The message for one reminder, or for several that come at once."""
    if len(firings) == 1:
        (one,) = firings
        again = " again" if one.is_again else ""
        text = f"Reminder {one.job.id}{again}: {one.job.text}"
        if lateness := was_due(one.due, one.late, one.job.zone):
            text += f"\n({lateness})"
        if one.is_first or one.job.nag_times:
            text += f"\n(“done {one.job.id}” or “snooze {one.job.id} 30m” answers it.)"
        return text
    first = firings[0].job.id
    lines = [f"- {one.job.id}: {one.job.text}{_in_brackets(one)}" for one in firings]
    how = f"(“done {first}” or “snooze {first} 30m” answers one.)"
    return "\n".join([f"{len(firings)} reminders came due:", *lines, how])


def press(firings: Sequence[Firing]) -> tuple[Button, ...]:
    """Below the message of one reminder: what is said most often."""
    if len(firings) != 1:
        return ()
    number = firings[0].job.id
    return Button("Done", f"done {number}"), Button("Snooze 1 h", f"snooze {number} 1h")


def _in_brackets(firing: Firing) -> str:
    lateness = was_due(firing.due, firing.late, firing.job.zone)
    return f" ({lateness})" if lateness else ""


def was_due(due: datetime, late: timedelta, zone: str) -> str:
    """Such as "was due 09:00, 3 h late"; '' for less than a minute. The day is named when it was another one."""
    if not (lateness := words.late(late)):
        return ""
    there = words.zone_named(zone)
    then, now = due.astimezone(there), (due + late).astimezone(there)
    day = "" if then.date() == now.date() else f"{then:%a} {then.day} {then:%b}, "
    return f"was due {day}{then:%H:%M}, {lateness}"


def introduce(remark: Remark, clock: Callable[[], datetime], what: str, text: str) -> Sequence[Message]:
    """What the history gets for a text that the program sent by itself: legal after any step of a turn."""
    return (remark(f"{what} Sent to the person as follows:"), AssistantMessage(text, clock()))


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


class Answers:
    """Recognises what a person says to a reminder. Anything else is for the model."""

    def __init__(self, jobs: Jobs, clock: Callable[[], datetime], changed: Callable[[], None]) -> None:
        """`changed` is called when something is due at another time than before."""
        self._jobs, self._clock, self._changed = jobs, clock, changed

    def to(self, inbound: Inbound) -> Ending | None:
        """What is done and said about the message, or None when it is about no open reminder."""
        found = _ANSWER.fullmatch(inbound.message.text.strip().rstrip(".!"))
        if found is None or inbound.message.origin != "person":
            return None
        verb, number, rest = found["verb"].lower(), found["number"], (found["rest"] or "").strip()
        if rest and verb != "snooze":
            return None
        if rest and length(f"{number} {rest}"):  # snooze 10 minutes
            number, rest = None, f"{number} {rest}"
        chosen = self._meant(inbound, number, bool(found["all"]))
        if not chosen:
            return Ending(self._not_theirs(number, inbound.address)) if number else None
        if len(chosen) > 1 and not found["all"]:
            listed = ", ".join(f"{one.number} ({_short(job.text)})" for one, job in chosen)
            return Ending(f"Which one? {listed}. Say “{verb} {chosen[0][0].number}{' ' + rest if rest else ''}”.")
        if verb == "snooze":
            return self._snooze(inbound, chosen, rest)
        return self._acknowledge(inbound, chosen, stop=verb == "stop")

    def _meant(self, inbound: Inbound, number: str | None, is_all: bool) -> list[tuple[Occurrence, Job]]:
        """By its number, by what was quoted, or by when it was sent; those of other chats only from the terminal."""
        here = inbound.address
        everywhere = here.channel == "terminal"
        near = [(one, job) for one, job in self._jobs.open() if everywhere or job.target == here]
        if number:  # in whichever thread of their chat they say it
            numbered = [(one, job) for one, job in self._jobs.open() if one.number == int(number)]
            return [(one, job) for one, job in numbered if everywhere or _person(job.target) == _person(here)]
        if inbound.quoted:
            told_of = self._jobs.open(quoted=(here.channel, inbound.quoted))
            return [(one, job) for one, job in told_of if everywhere or job.target == here]
        if is_all:
            return near
        since = self._clock() - RECENT
        recent = [(one, job) for one, job in near if one.fired and one.fired >= since]
        return [(one, job) for one, job in recent if job.nag_times or not one.again] or recent  # but the snoozed ones

    def _not_theirs(self, number: str, here: Address) -> str:
        """Why a number cannot be answered here: in a group all see the reminder of one of them."""
        place = Place.of(here.chat)
        for one, job in self._jobs.open():
            other = Place.of(job.target.chat)
            is_here = (job.target.channel, other.chat) == (here.channel, place.chat)
            if one.number == int(number) and is_here and other.person:
                whose = _short(self._jobs.name_in(job.target)) or "Somebody else"
                return f"Reminder {number} is not yours: {whose} asked for it, and answers it."
        return f"There is no open reminder {number}. /jobs lists them."

    def _acknowledge(self, inbound: Inbound, chosen: list[tuple[Occurrence, Job]], *, stop: bool) -> Ending:
        repeats = [job for _, job in chosen if job.state in ("active", "paused")]
        said = "; ".join(_short(job.text) for _, job in chosen)
        text = f"Stopped: {said}." if stop else f"Done: {said}."
        if stop and repeats:
            text += " It does not come again."
        return self._ending(inbound, text, lambda db: self._jobs.acknowledge(db, [one for one, _ in chosen], stop=stop))

    def _snooze(self, inbound: Inbound, chosen: list[tuple[Occurrence, Job]], rest: str) -> Ending:
        now, zone = self._clock(), chosen[0][1].zone
        try:
            until = _until(rest, now, zone)
        except words.TimeWordsError as error:
            return Ending(f"Not snoozed. {error}")
        if isinstance(until, str):
            return Ending(f"Not snoozed. {until}")
        said = "; ".join(f"{one.number}: {_short(job.text)}" for one, job in chosen)
        text = f"Again {words.in_words(until, now, zone)}: {said}"
        return self._ending(
            inbound, text, lambda db: self._jobs.snooze(db, [one for one, _ in chosen], until), changed=True
        )

    def _ending(
        self, inbound: Inbound, text: str, act: Callable[[sqlite3.Connection], object], *, changed: bool = False
    ) -> Ending:
        """What was said becomes part of the conversation, so that the model knows of it later."""
        told = self._jobs.remember(inbound, [inbound.message, AssistantMessage(text, self._clock())])

        def write(db: sqlite3.Connection) -> None:
            act(db)
            told.write(db)

        def after() -> None:
            told.after()
            if changed:
                self._changed()

        return Ending(text, write, after)


def _person(address: Address) -> tuple[str, str, str]:
    """Whose conversation it is, without its thread."""
    place = Place.of(address.chat)
    return address.channel, place.chat, place.person


def _until(rest: str, now: datetime, zone: str) -> datetime | str:
    """When a snooze ends, or the question that its words raise."""
    if not rest:
        return now + SNOOZE
    if (span := length(rest)) is not None:
        return now + span
    heard = words.read(rest.removeprefix("until ").removeprefix("till "), now, zone)
    if isinstance(heard, words.Unclear):
        return heard.question
    return heard.when if isinstance(heard, words.At) else "Say a time or a length, such as “snooze 2 30m”."


def important(jobs: Jobs) -> list[str]:
    """Nagging reminders that nobody has answered, a line each."""
    return [f"Reminder {one.number}: {job.text}" for one, job in jobs.open() if job.nag_times]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
