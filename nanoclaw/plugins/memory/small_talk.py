"""Words of a message that say nothing in its language: function words, and those to greet, thank and agree with."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from nanoclaw.tokenizer import STOP_WORDS, fold, is_cjk, stem

LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt", "ru", "sv", "tr", "uk", "zh")
_LONGEST_CJK = 6  # characters of a word of the Chinese lists


class Wording:
    """The languages that most words of a message belong to, several where they are equal, and their common words."""

    def __init__(self, said: Sequence[str]) -> None:
        lists = _lists()
        count = {
            name: sum(word in each.function or word in each.phatic for word in said) for name, each in lists.items()
        }
        if count["en"] and all(map(str.isascii, said)):  # "do I" is Polish, too
            count["en"] += 1
        most = max(count.values())
        names = {name for name in lists if most and count[name] == most} | {"zh" for word in said if is_cjk(word)}
        self.is_english = "en" in names or (not names and all(map(str.isascii, said)))
        self._lists = [lists[name] for name in sorted(names)]

    def is_function(self, word: str) -> bool:
        """Tell a function word of all these languages; those of English are the stop words."""
        if self.is_english:
            return word in STOP_WORDS or stem(word) in FRAME
        return bool(self._lists) and all(word in each.function for each in self._lists)

    def telling(self, said: Sequence[str]) -> list[str]:
        """The words without function words; those of English have no terms anyway."""
        return [word for word in said if self.is_english or is_cjk(word) or not self.is_function(word)]

    def is_empty(self, word: str) -> bool:
        """Tell a word that says nothing, one of such parts ("d'accord"), and a run of Chinese characters of such."""
        if is_cjk(word):
            return _is_made_of(word, [each.function | each.phatic for each in self._lists])
        parts = [word, *(part for part in word.split("'") if "'" in word and len(part) > 2)]
        return any(self._is_empty(each) for each in parts)

    def _is_empty(self, word: str) -> bool:
        if self.is_function(word) or _LAUGHTER.fullmatch(word):
            return True
        return any(word in each.phatic or (word in each.function and not self.is_english) for each in self._lists)


class _Lists(NamedTuple):
    function: frozenset[str]
    phatic: frozenset[str]


def _is_made_of(run: str, lists: Sequence[frozenset[str]]) -> bool:
    """Tell whether a run of characters can be split into words of the lists."""
    ends = {0}
    for end in range(1, len(run) + 1):
        begins = ends & {*range(end - _LONGEST_CJK, end)}
        if any(run[begin:end] in words for begin in begins for words in lists):
            ends.add(end)
    return len(run) in ends


@cache
def _lists() -> dict[str, _Lists]:
    package = find_spec("stopwordsiso")  # its data alone: to import it takes five times as long
    assert package and package.origin
    function = json.loads(Path(package.origin).with_name("stopwords-iso.json").read_text("utf-8"))
    own = json.loads(Path(__file__).with_name("small_talk.json").read_text("utf-8"))
    return {
        name: _Lists(
            STOP_WORDS.union(_FRAME.split()) if name == "en" else frozenset(map(fold, function[name])),
            frozenset(fold(own.get(name, "")).split()),
        )
        for name in LANGUAGES
    }


_LAUGHTER = re.compile(r"(?:(?:h|j|x|ch|х)?[aeiuаеи]+h*){2,}|h+m+|m+h+m*|[ao]h+|w+o+w+|ha+|o+h*|a+h*|[аоэ]+х*|м+")
_FRAME = """
anything diary note notes everything ask asked call called conversation describe described discuss discussed example
example explain explained happen happened happening kind kinds many mention mentioned much name names named often old
remember remind say says said sort sorts talk talked talking tell told type types according certain various different
specific particular list order give information likely might may would current currently recent recently ever usually
typically after again against before below between both down during each few further here himself herself itself now
once only other same such time themselves through under until yourself above
"""
FRAME = frozenset(stem(word) for word in _FRAME.split())
"""Words that ask rather than say what about."""
