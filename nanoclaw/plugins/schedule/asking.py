"""Times that only the person knows: what code asks about them, and what the answer means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.messages import OwnersAnswer, ToolResult
from nanoclaw.core.plugin import Ask, Refuse, Turn, Verdict
from nanoclaw.plugins.schedule.jobs import Job
from nanoclaw.plugins.schedule.requests import NOT_A_TIME, STILL_OPEN, dated, is_late, is_persons, reply_words
from nanoclaw.time_words import At, Reading, TimeWordsError, Unclear, briefly, phrases, read, read_known, same, upcoming
from nanoclaw.yes_no import yes_or_no

USUAL, AT_ANY_TIME = ("9:00", "13:00", "18:00", "20:00"), ("13:00", "18:00", "tomorrow 9:00")
"""Times that are offered where only the hour is open, and where all is."""

NO, TODAY = "No", "Today, "
SECONDS, MOST_OPTIONS, MESSAGES = 3600.0, 6, 3
"""So long a question is open; so many of the person's last messages are looked at for the words of a time."""


def judge(when: str, turn: Turn, zone: str, *, language: str = "", is_task: bool = False) -> Verdict:
    """Ask before a reminder is set, by code in the `language` of the request, or for a model's time that the person
    didn't say. None: nothing."""
    now, texts = turn.now(), reply_words(language) or {"when": "When is “{}”?", "no_time": "When shall I remind you?"}
    question = texts["when" if when else "no_time"].format(when)
    try:
        heard = read(when, now, zone) if when else None
    except TimeWordsError:  # which the tool says, too
        return None
    if language or isinstance(heard, Unclear | None):
        if isinstance(heard, Unclear) and not heard.readings and not reply_words(language):
            question = heard.question
        options = list(_options(when, now, zone, language))
    else:
        options = [_label(one, now, zone) for one in _if_not_said(heard, turn, zone, is_task=is_task)]
        if len(options) == 1:
            question, options = f"I read “{when}” as this time. Is it right?", [*options, NO]
    if options and (turn.role != "owner" or turn.is_group):  # the question would be the owner's
        return Refuse(f"Nothing was set yet. {question} ({' or '.join(options)}) Give the day and the time in full.")
    return Ask(question, tuple(options), seconds=SECONDS, is_free=True) if options else None


def judge_removal(job: Job | None, turn: Turn) -> Verdict:
    """Refuse to remove a job that the person's last words don't name, by its number or a word: a small model does that
    with what it can't do otherwise."""
    from nanoclaw.tokenizer import STOP_WORDS

    said = " ".join([message.text for message in turn.history if is_persons(message)][-MESSAGES:]).casefold()
    names = {str(job.id), *re.findall(r"\w+", job.text.casefold())} - STOP_WORDS if job else ()
    whole = set(re.findall(r"\w+", said))
    is_named = any(name in (said if len(name.encode()) > 3 else whole) for name in names)
    return None if is_named else Refuse(_NONE_NAMED)


_NONE_NAMED = (
    "Nothing was removed: the person named no reminder by its number or a word of it. memory_add keeps what they want "
    "remembered. A new reminder needs their words with a day and a time: “remind me tomorrow at 9 to call Anna”."
)


def chosen(when: str, answer: OwnersAnswer, now: datetime, zone: str, language: str) -> str:
    """The time that the person chose, in words with one meaning. Raises ScheduleError, a sentence for the model."""
    said, heard = answer.text.removeprefix(TODAY), read_known(when, now, zone)
    if yes_or_no(said) is False:
        raise ScheduleError("The answer was no, so nothing was set.")
    if answer.by != "owner":
        open_still = f" {heard.question}" if isinstance(heard, Unclear) else ""
        raise ScheduleError(f"Nothing was set, as nobody said which time it should be: “{when}”.{open_still}")
    options = _options(when, now, zone, language)
    named = [words for words in options.values() if _names(said, words, now, zone)]
    if answer.text in options or len(named) == 1:
        return options.get(answer.text) or named[0]
    may_be = heard.readings if isinstance(heard, Unclear) else ()
    moved = _moved(when, said, now, zone, language)
    for words in filter(None, (f"{when} {said}".strip(), f"{said} {when}".strip(), moved, said)):
        found = [] if words.isdecimal() else _readings(words, now, zone, language)
        is_new = words in (moved, said) or not may_be
        if len(found) > 1 and is_new:
            raise ScheduleError(f"{STILL_OPEN}{words}”. Nothing was set yet: add it with these words.")
        if found and (is_new or any(same(found[0], one) for one in may_be)):
            return words
    raise ScheduleError(f"{NOT_A_TIME}{answer.text}”. Nothing was set.")


def _names(said: str, label: str, now: datetime, zone: str) -> bool:
    """True for "wednesday 25" or "tomorrow", said the day before, of "Wed 25 Nov 2026, 09:00"."""
    parts = label.casefold().replace(",", "").split()
    if all(any(word.startswith(part) for part in parts) for word in said.casefold().replace(",", "").split()):
        return True
    words = f"{said} {label.rpartition(' ')[2]}"
    found, at_noon = read_known(words, now, zone), read_known(words, now.replace(hour=12), zone)
    is_clear = isinstance(found, Unclear) or same(found, at_noon)  # the dates that are offered say which day is today
    return is_clear and same(at_noon, read_known(label, now, zone))


def _moved(when: str, said: str, now: datetime, zone: str, language: str) -> str:
    """The words "tomorrow at 9" for "at 9" where "tomorrow at 8:15" was asked about; '' for words of another day."""
    parts, blank = (when.split(), " ") if " " in when else (list(when), "")

    def days(words: str) -> set[date]:
        return {one.when.date() for one in _readings(words, now, zone, language) if isinstance(one, At)}

    kept = (part for end in range(len(parts) + 1) for part in (parts[:end], parts[len(parts) - end :]))
    each = [f"{blank.join(part)} {said}".strip() for part in kept] if days(when) else []
    return next((words for words in each if not words.isdecimal() and days(words) == days(when)), "")


def _options(when: str, now: datetime, zone: str, language: str = "") -> dict[str, str]:
    """Each time that is offered, as it is shown, with words that mean it and nothing else."""
    found = [(one, "") for one in _readings(when, now, zone, language)]
    for time in () if found else USUAL if when else AT_ANY_TIME:
        found += [(one, f"{when} {time}") for one in _readings(f"{when} {time}", now, zone)]
    options = dict[str, str]()
    for one, words in sorted(found, key=lambda pair: upcoming(pair[0], now)):
        if same(read_known(meant := briefly(one, now, zone), now, zone), one) and len(options) < MOST_OPTIONS:
            options.setdefault(_label(one, now, zone, language, words), meant)
    return options


def _readings(words: str, now: datetime, zone: str, language: str = "") -> list[Reading]:
    """All that some words may mean; in a request that code has read also what `is_late` knows of."""
    heard = read_known(words, now, zone)
    if isinstance(heard, Unclear | None):
        return list(heard.readings) if heard else []
    is_twice = language and is_late(words, heard, language, now, zone)  # "wake me at 7", in the evening
    return [heard, *_readings(words, now + timedelta(hours=12), zone)] if is_twice else [heard]


def _label(one: Reading, now: datetime, zone: str, language: str = "", words: str = "") -> str:
    is_today = isinstance(one, At) and one.when.date() == now.astimezone(one.when.tzinfo).date()
    if (texts := reply_words(language)) and (isinstance(one, At) or words):
        return f"{texts['today'] * is_today}{dated(texts, one.when, zone)}" if isinstance(one, At) else words
    return f"{TODAY if is_today else ''}{briefly(one, now, zone)}"


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
