"""Finds the sentence of an answer in which the assistant promises to do something at a later time.

A promise has the first person's form for what is to come (forms.json) and words for a time; what is asked, offered,
quoted or written for somebody else doesn't count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

_QUOTED = (
    r"```.*?(?:```|$)|`[^`\n]*`|(?m:^\s*>.*$)|“[^”]*”|„[^“”]*[“”]|«[^»]*»|\"[^\"\n]*\"|「[^」]*」|(?s:‘[^’]{9,}?’)"
)
_LETTER = r"(?im)^\W*(?:dear|subject|betreff|liebe[rs]?|sehr geehrte|chère?|objet|estimad[oa]|asunto|gentile|oggetto)\b"
_WRITES = (
    r"(?i)^\W*(?:\w+\W+){0,4}?(?:write|draft|translate|rephrase|reword|proofread|compose|schreib\w*|formulier\w*|übersetz\w*"
    r"|entwirf|écri[st]\w*|rédige\w*|tradui\w*|reformule\w*|escribe|redacta|traduce|scrivi|traduci|escreve|traduz)\b"
    r"|翻译|写|訳|書いて"
)
"""Requests for a text, whose words are not the assistant's own."""


def promised(asked: str, answer: str, now: datetime) -> str:
    """The sentence with which an answer to `asked` promises something for later, '' if there is none."""
    folded = answer.casefold().replace("’", "'")
    # the languages in which it may promise something: patterns of no other are made
    hinted = [name for name, one in _data().items() if any(hint in folded for hint in one["hints"])]
    if not hinted or re.search(_WRITES, asked) or re.search(_LETTER, answer):
        return ""
    own = re.sub(_QUOTED, " … ", answer, flags=re.DOTALL).replace("’", "'")
    from nanoclaw import time_words

    found = (one for one in _sentences(own) if _is_promise(one, hinted))
    return next((one for one in found if time_words.mentions(one, now, now.tzinfo or UTC, is_whole=False)), "")


def days(sentence: str, now: datetime, zone: str) -> set[date]:
    """The days that a sentence names."""
    from nanoclaw import time_words

    found = set[date]()
    for phrase in time_words.phrases(sentence, now, zone):
        for said in (phrase, f"{phrase} 9:00"):
            reading = time_words.read_known(said, now, zone)
            if isinstance(reading, time_words.At | time_words.Every | time_words.Cron):
                found.add(time_words.upcoming(reading, now).astimezone(now.tzinfo).date())
    return found


def _sentences(text: str) -> Iterator[str]:
    yield from (one.strip() for one in re.split(r"(?<=[!?。！？])|(?<=[^\d]\.)\s+|\n+", text) if one.strip())


def _is_promise(sentence: str, languages: Sequence[str]) -> bool:
    folded = sentence.casefold()
    if folded.endswith(("?", "？")) or "…" in folded:
        return False
    return any(form.search(folded) and not open_.search(folded) for form, open_ in map(_forms, languages))


@cache
def _forms(language: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The form of a promise, and what makes it an offer, a condition or a refusal."""
    one = _data()[language]
    return re.compile("|".join(one["forms"])), re.compile(one["open"])


@cache
def _data() -> dict[str, Any]:
    text = Path(__file__).with_name("forms.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
