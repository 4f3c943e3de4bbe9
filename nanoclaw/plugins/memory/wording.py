"""The wording of a message: its languages, how frequent its words are in them, and who is spoken of.

The frequencies are data of the package wordfreq (frequent_words.txt says how that file is made, and its licence).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from nanoclaw.tokenizer import STOP_WORDS, is_cjk, stem, stemmer_of, tokens

LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt", "ru", "sv", "tr", "uk", "zh")
BANDS = (5.75, 5.3, 4.75, 4.25)  # Zipf frequencies (logarithm of uses in 10⁹ words); above the first are function words
RARE = 3.0
_TELLING = (0.0, 0.5, 1.0, 2.0, RARE)
"""Values of a word that a note shares: of the bands from the most frequent on, and of none."""
_OF_PHRASES = frozenset(["a", "an", "the", "of", "for", "in", "on", "at", "to", "with", "from"])
_NUMBER = 1.0
_MOST_CACHED = 16_384  # words and languages whose frequency is remembered: 2 MB
_SAMPLE = 40  # words of a message that tell its language
_LONGEST_CJK = 4  # characters of a word of the list


Says = dict[str, tuple[str, float]]
"""Word, and how much that says where a note has it, by term: several terms may be of one word."""


class Wording:
    """The languages that most words of a message belong to, several where they are equal."""

    def __init__(self, said: Sequence[str]) -> None:
        is_ascii = all(map(str.isascii, said))
        parts = [part for word in said[:_SAMPLE] for part in word.split("'")]
        count = {name: 2 * sum(part in _function(name) for part in parts) for name in LANGUAGES}
        best = max(count.values())
        for name in [name for name in LANGUAGES if count[name] == best]:
            count[name] += sum(_band(name, part) < len(BANDS) for part in parts)
        most = max(count.values())
        self.languages = [name for name in LANGUAGES if most and count[name] == most]
        self.is_english = self.languages == ["en"] or (is_ascii and ("en" in self.languages or not self.languages))
        if any(map(is_cjk, said)):
            self.languages.append("zh")
        self._read = self.languages or LANGUAGES

    def is_function(self, word: str) -> bool:
        """Tell a function word of all these languages; those of English are the stop words."""
        if self.is_english:
            return word in STOP_WORDS or stem(word) in FRAME or word.partition("'")[0] in STOP_WORDS
        return bool(self.languages) and all(word in _function(name) for name in self.languages)

    def content(self, said: Sequence[str]) -> list[str]:
        """The words without function words; those of English have no terms anyway."""
        if self.is_english:
            return [word for word in said if "'" not in word or word.partition("'")[0] not in STOP_WORDS]
        return [word for word in said if is_cjk(word) or not self.is_function(word)]

    def says(self, said: Sequence[str]) -> Says:
        """Values of the terms of the words, from 0 for the most common ones to 3 for rare ones and names."""
        says: Says = {}
        for word in said:
            for part in self._parts(word) if is_cjk(word) else (word,):
                for term in tokens(part):
                    is_part = is_cjk(term) and len(term) == 1 < len(part)
                    rarity = min(self.rarity(part), self.rarity(term)) / 2 if is_part else self.rarity(part)
                    says.setdefault(term, (part, rarity))
        return says

    def rarity(self, word: str) -> float:
        """Value of a word that a note shares, from 0 to 3."""
        if word in STOP_WORDS:
            return 0.0
        if word.isdigit():
            return _NUMBER
        if "'" not in word:
            return _TELLING[self._band(word)]
        return min(_TELLING[self._band(form)] for form in (word, *word.split("'")) if len(form) > 2)

    def is_first_person(self, text: str) -> bool:
        return any(_person("first", name).search(text) for name in self.languages)

    def is_second_person(self, text: str) -> bool:
        return any(_person("second", name).search(text) for name in self.languages)

    def is_phrase(self, said: Sequence[str], text: str) -> bool:
        """Tell what may be a name for something, and no sentence of one side to the other."""
        if self.is_english and any(word in STOP_WORDS and word not in _OF_PHRASES for word in said):
            return False
        return not self.is_first_person(text) and not self.is_second_person(text)

    def _band(self, word: str) -> int:
        return min(_band(name, word) for name in self._read)

    def _parts(self, run: str) -> list[str]:
        """Words of a run of Chinese characters, the longest first; characters of none side by side are one, too."""
        parts, is_strange = list[str](), False
        while run:
            sizes = range(min(_LONGEST_CJK, len(run)), 0, -1)
            known = next((size for size in sizes if self._band(run[:size]) < len(BANDS)), 0)
            if is_strange and not known:
                parts[-1] += run[0]
            else:
                parts.append(run[: known or 1])
            run, is_strange = run[known or 1 :], not known
        return parts


@cache
def _lines() -> dict[tuple[str, str], str]:
    text = Path(__file__).with_name("frequent_words.txt").read_text("utf-8")
    lines = [line.split(" ", 2) for line in text.splitlines() if not line.startswith("#")]
    return {(language, zipf): words for language, zipf, words in lines}


@cache
def _function(language: str) -> frozenset[str]:
    return frozenset(_lines()[language, str(BANDS[0])].split())


@cache
def _bands(language: str) -> dict[str, int]:
    """Numbers of bands by word, and by stem those of its most frequent form."""
    bands = {word: number for number, zipf in enumerate(BANDS) for word in _lines()[language, str(zipf)].split()}
    if stemmer := stemmer_of(language):
        stems = dict(zip(reversed(stemmer.stemWords([*bands])), reversed(bands.values()), strict=True))
        return stems | bands
    return bands


@lru_cache(_MOST_CACHED)
def _band(language: str, word: str) -> int:
    bands, stemmer = _bands(language), stemmer_of(language)
    band = bands.get(word, len(BANDS))
    return min(band, bands.get(stemmer.stemWord(word), len(BANDS))) if stemmer else band


@cache
def _person(person: str, language: str) -> re.Pattern[str]:
    """Compile the words of the first or second person in a language (persons.txt)."""
    begins, text = f"{person} {language} ", Path(__file__).with_name("persons.txt").read_text("utf-8")
    (words,) = (line.removeprefix(begins) for line in text.splitlines() if line.startswith(begins))
    return re.compile(words if language == "zh" else rf"\b(?:{words})\b")


_ASKING = r"""
who what(?!\san?\b) when where which why how whose whats whens wheres whos hows
wer wen wem wessen wann wo woher wohin womit wogegen warum wie welche[rsnm]?
qui quand où c'est\squoi c'était\squoi quel(?:le)?s? combien quién(?:es)? qué cuándo dónde cuál(?:es)? cuánt[oa]s? cómo
chi quando dove quale quanto quem onde qual quanto wie waar wanneer welke hoe vem när var hur vilke[nt]
kto kiedy gdzie ile który кто кого кому кем когда где куда сколько котор\w+ хто коли де куди скільки
kim kime kimin kimde kimdi kimindi nerede nerde nereye nereden neredeydi nerdeydi hangi kaç\w* ne\skadar ne\szaman neydi
"""
_OPENING = r"""
do does did is are was were has have(?!\san?\b|\sfun\b) had can could will would should tell remind show list find any
anything was(?!\sfür\sein) wieviel que pourquoi comment (?:a|de)\s?dónde che perché come como waarom vad co jak
что как(?:ой|ая|ое|ие)? почему що як nasıl
"""
_BEFORE = (
    "and|for|in|to|at|with|by|bei|mit|von|aus|an|auf|für|seit|bis|um|und|à|de|pour|avec|chez|et|a|con|en|por|para|y|di|da|"
    "per|e|с|в|во|на|у|о|к|от|до|и|а|ve"
)
_INTERROGATIVES = "|".join(_ASKING.split())
_BARE = "como|cuando|cual(?:es)?|quien(?:es)?|donde|cuant[oa]s?"  # as many write them; they ask after a comma only
_MARK = re.compile(r"[?？吗呢]|什么|怎么|哪|谁|啥|几|多少|多久|多长|多大|多高|多宽|\bm[ıiuü]\b")
_BEGIN = re.compile(rf"\s*(?:(?:{_BEFORE})\s(?:{_INTERROGATIVES})|{_INTERROGATIVES}|{'|'.join(_OPENING.split())})\b")
_END = re.compile(rf", (?:\w+ )?(?:{_INTERROGATIVES}|{_BARE})\b|\b(?:{_INTERROGATIVES})(?:\s\w+){{0,2}}\s*$")
_LAST = 60  # characters in which a question may come last


def asks(text: str) -> bool:
    """Tell a question, also without its mark, and with the word that asks at its end."""
    return bool(_MARK.search(text) or _BEGIN.match(text) or _END.search(text, max(0, len(text) - _LAST)))


RECALLS = re.compile(
    r"\b(?:know|remember|recall|find|look|tell me (?:when|where|who|what|which|how)|wei(?:ß|ss)t|erinner|kennst|"
    r"sais|savez|souvi|rappelle|sabes|sabe|recuerd|acuerd|biliyor|hatırl|зна|помн|sai|ricord|lembra|weet|wiesz|pamięta|vet|minns|"
    r"пам'ята)|知道|记得|告诉|查"
)
"""Asks the assistant for what it knows."""

_FRAME = """
anything diary note notes everything ask asked call called conversation describe described discuss discussed example
example explain explained happen happened happening kind kinds many mention mentioned much name names named often old
remember remind say says said sort sorts talk talked talking tell told type types according certain various different
specific particular list order give information likely might may would current currently recent recently ever usually
typically after again against before below between both down during each few further here himself herself itself now
once only other same such time themselves through under until yourself above
"""
FRAME = frozenset(stem(word) for word in _FRAME.split())  # words that ask rather than say what about
