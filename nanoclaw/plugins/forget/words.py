"""Words to be forgotten: found in any text, however it is written down, and removed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

GONE = "[forgotten]"
_SAME_THING = 0.75
"""A sentence with this share of a line's words says the same thing."""


@dataclass(frozen=True)
class Words:
    """Whole phrases; lines, which a sentence may repeat in other words; and `telling` words, which only those lines
    have: they go where a conversation is known to be about them (`closely`)."""

    phrases: tuple[str, ...]
    lines: tuple[frozenset[str], ...] = ()
    telling: frozenset[str] = frozenset()

    def without(self, text: str, *, closely: bool = False) -> str:
        """The text with the words removed; the same text when it has none of them."""
        folded = text.casefold()  # to look for plain pieces first is many times quicker than the patterns
        changed = self._pattern.sub(GONE, text) if any(piece in folded for piece in self._pieces) else text
        if any(sum(word in folded for word in line) >= _enough(line) for line in self.lines):
            changed = "".join(GONE if self._says_it(part) else part for part in _SENTENCE.split(changed))
        if closely and any(word in folded for word in self.telling):
            changed = _TOKEN.sub(lambda match: GONE if _bare(match[0]) in self.telling else match[0], changed)
        return text if changed == text else _SEVERAL.sub(GONE, changed)

    def stand_in(self, text: str) -> bool:
        return self.without(text) != text

    def without_any(self, text: str, *, closely: bool = False) -> str:
        """Like `without`, for a text that may be JSON; unchanged to the byte when nothing is removed."""
        return self._json(text, closely, self._record)

    def _json(self, text: str, closely: bool, change: Callable[[Any, bool], Any]) -> str:
        if text[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):  # cut off: its words stand in it all the same
                value = json.loads(text)
                changed = change(value, closely)
                return text if changed == value else json.dumps(changed)
        return self.without(text, closely=closely)

    def _record(self, value: Any, closely: bool) -> Any:
        """A JSON value that the program wrote: its own names and marks stay, even if they match a forgotten word."""
        match value:
            case str():
                return self._json(value, closely, self._argument)
            case list():
                return [self._item(item, closely) for item in value]
            case dict():
                changed = {key: item if key in _MARKS else self._record(item, closely) for key, item in value.items()}
                if changed.get("opaque") != value.get("opaque"):
                    del changed["opaque"]  # signed or sealed as a whole: a part of it is worth nothing
                return changed
        return value

    def _item(self, item: Any, closely: bool) -> Any:
        """One of a list; of [id, tool, arguments] and the like only the last is a text."""
        if isinstance(item, list) and item and all(isinstance(each, str) for each in item):
            return [*item[:-1], self._json(item[-1], closely, self._argument)]
        return self._record(item, closely)

    def _argument(self, value: Any, closely: bool) -> Any:
        """A text of a person, a model or a tool; arguments of a tool are JSON, in which any value may be the word."""
        match value:
            case str():
                return self.without(value, closely=closely)
            case list():
                return [self._argument(item, closely) for item in value]
            case dict():
                return {self.without(key): self._argument(item, closely) for key, item in value.items()}
            case int() | float() if not isinstance(value, bool) and self.stand_in(str(value)):
                return GONE
        return value

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted({*self.phrases}, key=len, reverse=True)
        return re.compile("|".join(map(_spelled, longest_first)) or r"(?!)", re.IGNORECASE)

    @cached_property
    def _pieces(self) -> frozenset[str]:
        """Of each phrase the longest run of plain letters: it is found in every spelling."""
        runs = (re.findall("[a-z0-9]+", phrase.casefold()) for phrase in self.phrases)
        return frozenset(max(found, key=len, default="") for found in runs)

    def _says_it(self, sentence: str) -> bool:
        found = set(tokens(sentence))
        return any(len(line & found) >= _enough(line) for line in self.lines)


def words_of(removed: Iterable[str], asked: Iterable[str] = (), kept: Iterable[str] = ()) -> Words:
    """Words of the removed lines and the phrases that were asked for; words of `kept` texts tell nothing."""
    removed = list(removed)
    texts = [text for line in removed if tokens(text := plain_text(re.sub(_COMMENT, "", line)))]
    asked = [*asked, *(words for line in removed for words in re.findall(_COMMENT, line))]
    short = {text for text in texts if len(tokens(text)) < 3}
    lines = tuple(frozenset(tokens(text)) for text in texts)
    telling = {word for line in lines for word in line if not word.isdigit() and (len(word) > 2 or not word.isascii())}
    codes = {code.strip(_EDGES) for text in texts for code in _CODE.findall(text) if len(code) > 3}
    for text in kept:
        folded = text.casefold()
        telling -= {word for word in telling if word in folded}
        codes -= {code for code in codes if code.casefold() in folded}
        texts = [each for each in texts if each not in short or each.casefold() not in folded]
    phrases = dict.fromkeys(phrase for text in (*texts, *asked, *codes) if len(phrase := text.strip(_EDGES)) > 1)
    return Words(tuple(phrases), tuple(line for line in lines if len(line) > 1), frozenset(telling))


def tokens(text: str) -> list[str]:
    """Its words as they are compared: bare, without the most common ones."""
    return [word for found in _TOKEN.findall(text) if (word := _bare(found)) not in _COMMON]


def plain_text(line: str) -> str:
    """Text of a line without its bullet, date, strike or end mark."""
    bare = re.sub(r"~~\s*\(\d{4}-\d\d-\d\d\)\s*$", "", line).replace("~~", "")
    return re.sub(_ENTRY_START, "", bare).strip(_EDGES)


def _enough(line: frozenset[str]) -> float:
    return max(2, _SAME_THING * len(line))


def _bare(word: str) -> str:
    word = re.sub("['’]s$", "", word.casefold())
    return word.removesuffix("s") if len(word) > 4 and not word.endswith("ss") else word


def _spelled(phrase: str) -> str:
    """A phrase as a pattern: any spaces, straight or curled quotes, JSON's escapes; short ones as whole words only."""
    pattern = r"\s+".join("".join(map(_sign, part)) for part in phrase.split())
    if len(phrase) > 4 and not phrase.isdigit():
        return pattern
    before = r"(?<!\w)" if _is_word(phrase[0]) else ""
    return before + pattern + (r"(?!\w)" if _is_word(phrase[-1]) else "")


def _is_word(sign: str) -> bool:
    return re.match(r"\w", sign) is not None and not re.match(_CJK, sign)


def _sign(sign: str) -> str:
    if sign in _QUOTES:
        return r"(?:\\?['\"’‘“”]|\\u201[89cd])"
    if sign.isascii():
        return re.escape(sign)
    units = sign.encode("utf-16-be", "surrogatepass")
    escaped = "".join(rf"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return f"(?:{re.escape(sign)}|{escaped})"


_MARK_NAMES = "at call channel chat date error file finish id kind mode model name origin role sender usage"
_MARKS = frozenset(_MARK_NAMES.split())
"""Keys of the program's own records whose values are no one's words."""
_COMMENT = r"\s*<!-- also: ([^<>]*?) ?-->"  # other words of an entry, which tell nothing by themselves
_ENTRY_START = r"^\s*[-*+]\s+(?:\d{4}-\d\d-\d\d:\s*|\d\d:\d\d\s+)?"
_QUOTES = "'\"’‘“”"
_EDGES = " \t.,;:!?*_~`…。，、！？"
_CJK = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
_TOKEN = re.compile(rf"{_CJK}|(?:(?!{_CJK})[^\W_])+(?:['’]s\b)?")
_CODE = re.compile(r"(?<!\S)(?=\S*[\d@])(?!(?:19|20)\d\d\b|\d\d?:\d\d\b)[\w@+][\w@.+/:#-]*\w")
"""Numbers of some length, addresses, passwords: what stands for one thing only. Years and times do not."""
_SENTENCE = re.compile(r"((?<=[.!?])\s+|(?<=[。！？])|\n)")
_SEVERAL = re.compile(r"\[forgotten\](?:[\s,;:'’-]*\[forgotten\])+")
_COMMON_WORDS = """
a about am an and any are as at be been but by can could did do does for forget from had has have he her hi him his how
i if in into is it its just me my no not note of ok on or our please remember she should so some than thank that the
their them then there these they thi this to up us wa was we were what when where which who why will with would yes you
your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
