"""Requests for reminders in a person's own words: code sets them, and asks where one leaves its time open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from nanoclaw.core.messages import AssistantMessage, Inbound, Message, ToolCall, ToolResult, UserMessage
from nanoclaw.core.plugin import NamedTuple
from nanoclaw.plugins.schedule.tables import BY_CODE

LONGEST = 240  # characters; whoever writes more wants more than a reminder

_STEMS = {
    "en": "remi remn remo reme remai rmi wake get~me~up timer countdown alarm forget "
    "ping~me alert~me notify~me tell~me nudge~me buzz~me",
    "de": "erin erri weck timer alarm vergess bescheid",
    "fr": "rappel réveil reveil minuteur timer rebours alarme penser oublier préviens previens avertis",
    "es": "cuerd cuérd recorda acordar olvidar avís avis despiért despiert despert temporizador timer cron alarma",
    "it": "ricord dimenticare svegli svégli timer promemoria avvis",
    "pt": "lembr recor esquecer acord timer temporizador cron alarme despertador avis",
    "zh": "提醒 忘 叫 计时 定时 闹钟",
    "ja": "リマイン 思い出 知らせ 通知 教えて 言って 伝えて 起こして タイマー アラーム 目覚まし",
}
"""A message that has none of them is not a request; ~ is a space."""

_NOT_PLAIN = r"""[`<>{}|\\\n]|^["'“„«»「『(\[]|[!?？！]\s*\S|[;。；…]\s*\S|\.\.|https?:"""
_NAME = r"(?i)(?:@\w+|nano(?:claw)?\b)[\s,.!:]*"
_SENTENCE_END = r"(\w+)\.\s+(?=\w)"
_ABBREVIATED = r"(?i)\d+|[a-z]|dr|mrs?|ms|st|am|pm|prof|vs|no|nr|ca|sra?|sta|mme|mlle|bzw|tel|min|std|approx"

NOT_A_TIME, STILL_OPEN = "No time: “", "More than one time is meant by “"
CLOSED = "The reminder is not set: ask again, with its time, if you still want it."


class Asked(NamedTuple):
    """A reminder that is plainly asked for; the time of one that is open is for the person to say."""

    when: str
    text: str
    language: str
    is_open: bool = False


class _Words(NamedTuple):
    """One language's part of request_words.toml, compiled."""

    language: str
    span: str
    ways: tuple[_Way, ...]
    head: re.Pattern[str]
    question: re.Pattern[str]
    tail: re.Pattern[str]
    open: re.Pattern[str]
    begins: re.Pattern[str]
    joins: re.Pattern[str]
    clause: re.Pattern[str]


class _Way(NamedTuple):
    """One way to ask."""

    pattern: re.Pattern[str]
    to: re.Pattern[str]
    label: str
    first: bool
    bare: bool
    early: bool


def may_ask(inbound: Inbound) -> bool:
    """True for a person's own new words alone, nothing forwarded or attached, which have a stem of a request."""
    message, is_to_us = inbound.message, inbound.is_mention or not inbound.is_group
    others = message.outside or inbound.attachments or inbound.quoted or inbound.quote or inbound.is_edit
    is_own = message.origin == "person" and not (others or message.text.startswith("/"))
    return is_to_us and is_own and bool(_languages(" ".join(message.text.split())))


def instead(history: Sequence[Message], now: datetime, zone: str) -> AssistantMessage | None:
    """The call for a reminder with an open time, or again with the words that leave it open; then the result."""
    earlier, called, last = (None, None, *history)[-3:]
    if last and isinstance(called, AssistantMessage) and (words := re.match(f"{STILL_OPEN}(.*?)”", last.text)):
        (call,) = called.tool_calls
        arguments = json.dumps({**json.loads(call.arguments), "when": words[1]}, ensure_ascii=False)
        return called._replace(at=now, tool_calls=(call._replace(id=f"{call.id}-again", arguments=arguments),))
    if isinstance(last, ToolResult):
        return AssistantMessage(last.text, now)
    if last is None or is_persons(earlier) or not (asked := read(last.text, now, zone)):
        return None
    arguments = json.dumps({"action": "add", "when": asked.when, "text": asked.text}, ensure_ascii=False)
    call = ToolCall(f"{BY_CODE}{asked.language}-{len(history)}", "cron", arguments)
    return AssistantMessage("", now, (call,), finish="tool_calls")


def is_persons(message: Message | None) -> bool:
    return isinstance(message, UserMessage) and message.origin == "person"


def read(said: str, now: datetime, zone: str) -> Asked | None:
    """The reminder that a message plainly asks for, said at `now` by a person in `zone`; None for any other message."""
    said = " ".join(said.replace("’", "'").split()) if "\n" not in said.strip() else "\n"
    languages = _languages(said)
    if not languages or len(said) > LONGEST:
        return None
    for language in languages:
        words = _words(language)
        bare = _bare(said, words)
        if bare is None or _is_more(bare):
            continue
        for way in words.ways:
            found = way.pattern.fullmatch(bare)
            if found and (understood := _understood(found, way, words, now, zone)):
                return understood
    return None


def said_back(language: str, words: str, number: int, heard: Any, now: datetime, zone: str) -> str:
    """The sentence that a reminder is set, in the language of these words for its time; '' in English and for none."""
    from nanoclaw import time_words

    spoken_in = time_words.spoken_in(words) if language else []
    language = language if language in spoken_in else "".join(spoken_in[:1])
    if not (reply := reply_words(language)):
        return ""
    due = time_words.upcoming(heard, now)
    units, names = iter(reply["units"].split()), ("second", "minute", "hour", "day")
    forms = {name: (next(units), next(units)) for name in names}
    counted = re.findall(r"(\d+) (second|minute|hour|day)", time_words.distance(time_words.apart(due, now)))
    length = " ".join(reply["count"].format(number, forms[unit][number != "1"]) for number, unit in counted)
    when = dated(reply, due, zone, f" {zone}", _all()[language]["in"].format(length))
    when = when if isinstance(heard, time_words.At) else reply["again"].format(words, when)
    return str(reply["set"].format(number, when))


def reply_words(language: str) -> dict[str, str]:
    """The texts of code's replies and questions; {} in English."""
    return dict(_all().get(language, {}).get("reply", {}))


def dated(reply: dict[str, str], due: datetime, zone: str, after: str = "", length: str = "") -> str:
    from nanoclaw import time_words

    due = due.astimezone(time_words.zone_named(zone))
    day = reply["weekdays"].split()[due.weekday()], due.day, due.month, due.year
    time = f"{due:{'%H:%M:%S' if due.second else '%H:%M'}}"
    return reply["date"].format(*day, time + after, length).rstrip(" ,，、")


def _languages(said: str) -> list[str]:
    """The languages in which a message may be a request."""
    folded = said.casefold()
    return [name for name, stems in _STEMS.items() if any(one.replace("~", " ") in folded for one in stems.split())]


def _is_more(said: str) -> bool:
    """True for what has more than one sentence, is quoted or is code."""
    if re.search(_NOT_PLAIN, said):
        return True
    return any(not re.fullmatch(_ABBREVIATED, found[1]) for found in re.finditer(_SENTENCE_END, said))


def _bare(said: str, words: _Words) -> str | None:
    """The message without polite words around it; None for a question that asks for something else."""
    is_question = said.rstrip().endswith(("?", "？"))
    said = said.rstrip(" .!?？！。…~")
    while found := words.tail.search(said):
        said = said[: found.start()].rstrip(" ,.!")
    while begun := words.head.match(said) or re.match(_NAME, said):
        if not begun.end():
            break
        said = said[begun.end() :]
    asked = words.question.match(said)
    if is_question and not asked:
        return None
    return said[asked.end() :] if asked else said


def _understood(found: re.Match[str], way: _Way, words: _Words, now: datetime, zone: str) -> Asked | None:
    from nanoclaw import time_words

    parts = {name: (part or "").strip() for name, part in found.groupdict().items()}
    text, is_last, rest = parts.get("text", ""), False, parts.get("rest", "")
    before = words.tail.sub("", parts.get("before", "")).rstrip(" ,，、")
    if span := parts.get("span"):
        when = words.span.format(span.replace("-", " "))
        if not text and words.span.endswith("{}") and _reading(when, words.language, now, zone) is None:
            when, text = time_words.split(when, now, zone, way.to) or (when, text)
            is_last = True
    elif rest:
        lead, is_clear = way.to.match(rest), isinstance(_reading(before, words.language, now, zone), time_words.Reading)
        when, text, is_last = ("", "", True) if is_clear else _split(rest, way, words, now, zone)
        if not text:
            is_vague = not lead and words.language not in ("zh", "ja")
            if not before and (is_vague or time_words.mentions(rest, now, zone, is_whole=False)):
                return None
            text = rest[lead.end() if lead else 0 :]
        when = f"{before} {when}".strip()
    else:
        when = parts["when"]
    reading, text = _reading(when, words.language, now, zone), text.strip(" .,;:!：，、。").removeprefix("- ").strip()
    is_more = _is_open(text, is_last, words, now, zone) if text else not way.label
    if is_more or (when and reading is None):
        return None
    is_open = not isinstance(reading, time_words.Reading) or (
        way.early and is_late(when, reading, words.language, now, zone)
    )
    return Asked(when, text or way.label, words.language, is_open)


def _split(rest: str, way: _Way, words: _Words, now: datetime, zone: str) -> tuple[str, str, bool]:
    """The words for the time, the text, and whether the text came first; '' if they cannot be told apart."""
    from nanoclaw import time_words

    text_first = bool(way.to.match(rest))
    if text_first and (way.first or words.joins.match(rest.lstrip())):
        return "", "", False
    parts = time_words.split(rest, now, zone, way.to)
    if not parts and way.bare:
        parts = time_words.split(f": {rest}", now, zone, way.to)
        text_first = text_first or bool(parts)
    if not parts:
        return "", "", False
    return parts[0].strip(" ,"), parts[1], text_first


def _reading(when: str, language: str, now: datetime, zone: str) -> Any:
    """None for words that name no time to come."""
    from nanoclaw import time_words

    return None if when.isdecimal() or not when else time_words.read_known(when, now, zone, language)


def _is_open(text: str, is_last: bool, words: _Words, now: datetime, zone: str) -> bool:
    """True for a text that may have more in it than what the reminder is to say."""
    from nanoclaw import time_words

    if words.begins.match(text) or words.open.search(text):
        return True
    return (is_last and bool(words.clause.search(text))) or time_words.mentions(text, now, zone)


def is_late(when: str, reading: Any, language: str, now: datetime, zone: str) -> bool:
    """True for somebody who is woken at seven, in the evening: the next time that a clock's face shows it."""
    from nanoclaw import time_words

    half_a_day = timedelta(hours=12)
    later, same = (_reading(when, language, now + after, zone) for after in (half_a_day, timedelta(minutes=1)))
    if not (isinstance(reading, time_words.At) and isinstance(later, time_words.At) and same == reading):
        return False
    return reading.when.hour >= 12 and time_words.apart(later.when, reading.when) == half_a_day


@cache
def _all() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("request_words.toml").read_text(encoding="utf-8"))


@cache
def _words(language: str) -> _Words:
    data = _all()[language]

    def pattern(text: str) -> re.Pattern[str]:
        return re.compile(text.replace("(VERB)", f"(?:{data['verb']})"), re.IGNORECASE)

    def ways() -> Iterator[_Way]:
        for way in data["asks"]:
            flags = (bool(way.get(name)) for name in ("first", "bare", "early"))
            yield _Way(pattern(way["is"]), pattern(way.get("to", data["to"])), way.get("label", ""), *flags)

    texts = {"joins": r"(?!)", "clause": r"(?!)", **data, "tail": rf"(?:{data['tail']})$"}
    return _Words(language, data["in"], tuple(ways()), *(pattern(texts[name]) for name in _Words._fields[3:]))
