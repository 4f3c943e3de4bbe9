"""Times that only the person knows: what code asks about them, and what the answer means."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.messages import OwnersAnswer, ToolResult
from nanoclaw.core.plugin import Ask, Refuse, Turn, Verdict
from nanoclaw.plugins.schedule.requests import NOT_A_TIME, STILL_OPEN, is_persons
from nanoclaw.time_words import At, Reading, TimeWordsError, Unclear, briefly, phrases, read, read_known, same, upcoming
from nanoclaw.yes_no import yes_or_no

USUAL, AT_ANY_TIME = ("9:00", "13:00", "18:00", "20:00"), ("13:00", "18:00", "tomorrow 9:00")
"""Times that are offered where only the hour is open, and where all is."""

NO, TODAY = "No", "Today, "
SECONDS, MOST_OPTIONS, MESSAGES = 3600.0, 6, 3
"""So long a question is open; so many of the person's last messages are looked at for the words of a time."""


def judge(when: str, turn: Turn, zone: str, *, is_by_code: bool = False, is_task: bool = False) -> Verdict:
    """Ask before a reminder is set for `when`, also about a model's time that the person didn't say. None: nothing."""
    now, question = turn.now(), f"When is “{when}”?" if when else "When shall I remind you?"
    try:
        heard = read(when, now, zone) if when else None
    except TimeWordsError:  # which the tool says, too
        return None
    if isinstance(heard, Unclear | None):
        question = heard.question if isinstance(heard, Unclear) and not heard.readings else question
        options = _options(when, now, zone)
    else:
        later = read_known(when, now + timedelta(hours=12), zone)  # "wake me at 7", in the evening
        may_be = (heard, later) if is_by_code else _if_not_said(heard, turn, zone, is_task=is_task)
        options = list(dict.fromkeys(_label(one, now, zone) for one in may_be if isinstance(one, Reading)))
        if len(options) == 1:
            question, options = f"I read “{when}” as this time. Is it right?", [*options, NO]
    if options and (turn.role != "owner" or turn.is_group):  # the question would be the owner's
        return Refuse(f"Nothing was set yet. {question} ({' or '.join(options)}) Give the day and the time in full.")
    return Ask(question, tuple(options), seconds=SECONDS, is_free=True) if options else None


def chosen(when: str, answer: OwnersAnswer, now: datetime, zone: str) -> str:
    """The time that the person chose, in words with one meaning. Raises ScheduleError, a sentence for the model."""
    said, heard = answer.text.removeprefix(TODAY), read_known(when, now, zone)
    may_be = heard.readings if isinstance(heard, Unclear) else ()
    if yes_or_no(said) is False:
        raise ScheduleError("The answer was no, so nothing was set.")
    if answer.by != "owner":
        open_still = f" {heard.question}" if isinstance(heard, Unclear) else ""
        raise ScheduleError(f"Nothing was set, as nobody said which time it should be: “{when}”.{open_still}")
    labels = [one for one in _options(when, now, zone) if _names(said, one, now, zone)]
    for words in [*(labels if len(labels) == 1 else []), f"{when} {said}", f"{said} {when}", said]:
        found = None if words.isdecimal() else read_known(words.removeprefix(TODAY), now, zone)
        if isinstance(found, Unclear) and len(found.readings) > 1 and not may_be:
            raise ScheduleError(f"{STILL_OPEN}{words}”. Nothing was set yet: add it with these words.")
        is_one = words == said or not may_be or any(same(found, one) for one in may_be)
        if isinstance(found, Reading) and is_one:
            return words.removeprefix(TODAY)
    raise ScheduleError(f"{NOT_A_TIME} “{answer.text}”, which names no time. Nothing was set.")


def _names(said: str, label: str, now: datetime, zone: str) -> bool:
    """True for "wednesday 25" or "tomorrow", said the day before, of "Wed 25 Nov 2026, 09:00"."""
    parts, label = label.casefold().replace(",", "").split(), label.removeprefix(TODAY)
    if all(any(word.startswith(part) for part in parts) for word in said.casefold().replace(",", "").split()):
        return True
    words = f"{said} {label.rpartition(' ')[2]}"
    found, at_noon = read_known(words, now, zone), read_known(words, now.replace(hour=12), zone)
    is_clear = isinstance(found, Unclear) or same(found, at_noon)  # the dates that are offered say which day is today
    return is_clear and same(at_noon, read_known(label, now, zone))


def _options(when: str, now: datetime, zone: str) -> list[str]:
    """Each time that is offered, in words that mean it and nothing else."""
    found = _readings(when, now, zone)
    for time in () if found else USUAL if when else AT_ANY_TIME:
        found += _readings(f"{when} {time}", now, zone)
    labels = {_label(one, now, zone): one for one in sorted(found, key=lambda one: upcoming(one, now))}
    is_clear = (said for said, one in labels.items() if same(read_known(said.removeprefix(TODAY), now, zone), one))
    return list(is_clear)[:MOST_OPTIONS]


def _readings(words: str, now: datetime, zone: str) -> list[Reading]:
    """All that some words may mean."""
    heard = read_known(words, now, zone)
    return list(heard.readings) if isinstance(heard, Unclear) else [heard] if heard else []


def _label(reading: Reading, now: datetime, zone: str) -> str:
    is_today = isinstance(reading, At) and reading.when.date() == now.astimezone(reading.when.tzinfo).date()
    return f"{TODAY if is_today else ''}{briefly(reading, now, zone)}"


def _if_not_said(heard: Reading, turn: Turn, zone: str, *, is_task: bool) -> tuple[Reading, ...]:
    """() if the person's last words, or what was read for them, say this time; else all that they may mean. A task is
    the model's own idea where they say none."""
    for phrase in _phrases(turn, zone):
        found = _readings(phrase, turn.now(), zone)
        if any(same(one, heard) for one in found):
            return tuple(found) if len(found) > 1 else ()
        is_task = is_task and not found
    return () if is_task else (heard,)


def _phrases(turn: Turn, zone: str) -> Iterator[str]:
    """The words for times of the last messages, and any two of them together."""
    at = [number for number, message in enumerate(turn.history) if is_persons(message)][-MESSAGES:]
    own = [found for number in at for found in phrases(turn.history[number].text, turn.now(), zone)]
    yield from own
    yield from (f"{one} {other}" for one in own for other in own if one != other)
    read = (message for message in turn.history[at[-1] if at else 0 :] if isinstance(message, ToolResult))
    yield from (found for message in read for found in phrases(message.text, turn.now(), zone))
