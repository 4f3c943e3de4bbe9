"""The lexer: a phrase as tokens, such as numbers, clock times, dates, and the words of one language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from nanoclaw.time_words.errors import TimeWordsError, shown
from nanoclaw.time_words.lexicon import LANGUAGES, UNSPACED, Token, folded, lexicon, with_digits


class UnknownWord(Exception):
    """Its text is the first word of the phrase that the language doesn't know."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A row of tokens: `letters` has the kind of each, for the parser's patterns; `values` are theirs."""

    letters: str
    values: tuple[str, ...]
    language: str

    def of(self, letters: str) -> list[str]:
        """The values of these letters, in order."""
        return [value for letter, value in zip(self.letters, self.values, strict=True) if letter in letters]

    def between(self, start: int, end: int) -> Tokens:
        return Tokens(self.letters[start:end], self.values[start:end], self.language)


def tokenize(text: str, language: str, zones: Mapping[str, str]) -> Tokens:
    """The tokens of a folded phrase; `zones` maps the words in it that name a zone. Raises UnknownWord."""
    words = lexicon(language)
    if language in UNSPACED:
        text = with_digits(text)
    tokens: list[Token] = []
    at = last = 0
    while at < len(text):
        if quiet := _SILENT.match(text, at):
            at = quiet.end()
            continue
        step = _zone(text, at, zones, tokens) or _glyphs(text, at, words, language, tokens)
        step = step or _literal(text, at, language, tokens) or _phrase(text, at, words, tokens)
        if not step:
            raise UnknownWord(text[at:].split()[0])
        at, last = at + step, at
    said = [token for token in tokens if token[0] != "."]
    if said and (said[-1][0] in _LEADS_ON or said[0][0] == "&"):
        raise UnknownWord(text[0 if said[0][0] == "&" else last :].split()[0])
    if re.search("n,+n", "".join(letter for letter, _ in said)):  # "9 of 30" is no 9:30
        raise UnknownWord(text)
    said = [token for token in said if token[0] != ","]
    return Tokens("".join(letter for letter, _ in said), tuple(value for _, value in said), language)


def spoken_in(text: str) -> list[str]:
    """The languages that have all words of a text; all of them where none has."""
    text = folded(text)
    zones, found = zones_in(text), []
    for language in LANGUAGES:
        try:
            tokenize(text, language, zones)
            found.append(language)
        except UnknownWord:
            pass
    return found or list(LANGUAGES)


def leading_kinds(words: Sequence[str], languages: Sequence[str]) -> str:
    """The kind of the longest phrase with which a text begins, in each of these languages."""
    letters = ""
    for language in languages:
        begun = [folded(" ".join(words[:count])).strip(",;.!?()") for count in range(min(6, len(words)), 0, -1)]
        known = lexicon(language)
        letters += next((known[phrase][0][0] for phrase in begun if phrase in known), "")
    return letters


def zones_in(text: str) -> Mapping[str, str]:
    """The words of a folded text that name a zone, such as "london time", and that zone's name."""
    zones: dict[str, str] = {}
    for found in _CITY.finditer(text):
        names = [name for name in found.groups() if name]
        if found[5]:
            whole = f"{found[4] or ''}{found[5]}"
            for city, words in ((whole, found[0]), (found[5], found[0].removeprefix(found[4] or ""))):
                if zone := _city(city) or _city(f"{city}er"):
                    zones[words] = zone
                    break
            continue
        for name in names:
            words = found[0]
            zone = _city(name)
            if zone is None and " " in name:
                name = name.split()[0]
                zone = _city(name)
                words = words[: words.index(name) + len(name)]
            if zone:
                zones[words] = zone
            elif name.partition("/")[0] in _AREAS:
                raise TimeWordsError(f"Unknown time zone {shown(name)}. Write it like 'Europe/Berlin'.")
    return zones


_WORD = re.compile(r"[^\W\d_]+")
_GAP = re.compile(r"['.\-]? ?")
_MINUS = re.compile(r"(?<!\S)-\d")
_SILENT = re.compile(r"(?:[ ;!。、，()?]|[.,](?!\d)|(?<=[^\W\d])[.,]|(?<=[a-z])')+")
"""After a number ' and " are minutes, seconds or inches, and a point before one makes it a fraction."""
_LEADS_ON = ",a&j"  # words that cannot be the last one of a phrase
_COUNTS = "uUcp~"  # words that can follow a number without a space


def _zone(text: str, at: int, zones: Mapping[str, str], tokens: list[Token]) -> int:
    for words, zone in zones.items():
        if text.startswith(words, at):
            tokens.append(("z", zone))
            return len(words)
    return 0


def _glyphs(text: str, at: int, words: Mapping[str, tuple[Token, ...]], language: str, tokens: list[Token]) -> int:
    """The longest word that begins here, in a script without spaces."""
    if language not in UNSPACED:
        return 0
    for length in range(min(9, len(text) - at), 0, -1):
        found = words.get(text[at : at + length])
        if found is not None and (length > 1 or not text[at].isascii()):
            tokens.extend(found)
            return length
    return 0


def _phrase(text: str, at: int, words: Mapping[str, tuple[Token, ...]], tokens: list[Token]) -> int:
    """The longest phrase of up to six words that begins here."""
    if text[at] == "-" and not _MINUS.match(text, at):
        tokens.append(("r", "-"))
        return 1
    if text[at] in "@/&":
        tokens.append(("a" if text[at] == "@" else "&", ""))
        return 1
    ends: list[tuple[str, int]] = []
    phrase, end = "", at
    while len(ends) < 6 and (word := _WORD.match(text, end)):
        phrase = f"{phrase} {word[0]}" if phrase else word[0]
        ends.append((phrase, word.end()))
        gap = _GAP.match(text, word.end())
        end = gap.end() if gap else word.end()
    for phrase, end in reversed(ends):
        if phrase in words and _stands(text, at, end, words[phrase][0][0]):
            tokens.extend(words[phrase])
            return end - at
    return 0


def _stands(text: str, at: int, end: int, letter: str) -> bool:
    """True for a word that may be where it is: "1d" and "7a" are no numbers with a little word behind them."""
    single, after = end - at == 1, text[end : end + 1]
    if single and letter == ",":
        return after == "'"
    if text[at - 1 : at].isdigit() or (single and after.isdigit()):
        return letter in _COUNTS
    return letter != "w" or end - at > 2 or not text[: at - 1][-1:].isdigit()  # "7 mo"


def _literal(text: str, at: int, language: str, tokens: list[Token]) -> int:
    for pattern, made in _LITERALS:
        found = pattern.match(text, at)
        if found and (token := made(found, language)):
            tokens.append(token)
            return found.end() - at
    return 0


def _clock(found: re.Match[str], language: str) -> Token | None:
    return "C", f"{found[1]}:{found[2]}{_exact(found[1], language)}"


def _twelve(found: re.Match[str], language: str) -> Token | None:
    hour = int(found[1])
    if not 1 <= hour <= 12:
        return None
    return "C", f"{hour % 12 + 12 * (found[3] == 'p')}:{found[2] or '00'}!!"


def _dotted(found: re.Match[str], language: str) -> Token | None:
    return None if language == "en" else ("C", f"{found[1]}:{found[2]}{_exact(found[1], language)}")


def _exact(hour: str, language: str) -> str:
    return "!" if language != "en" or hour.startswith("0") or int(hour) > 12 else ""


def _french(found: re.Match[str], language: str) -> Token | None:
    return "H", f"{found[1]}:{found[2] or '00'}"


def _ordered(found: re.Match[str], language: str) -> Token | None:
    return "D", f"{int(found[1])}-{int(found[2])}-{int(found[3])}"


def _day_first(found: re.Match[str], language: str) -> Token | None:
    return "D", f"{_year(found[3])}-{int(found[2])}-{int(found[1])}"


def _dubious(found: re.Match[str], language: str) -> Token | None:
    """12.5. alone is a day to one and an hour to another, which only the rest of the phrase tells. Among English words
    it is also the 5th of December."""
    first, second = int(found[1]), int(found[2])
    if language == "en" and first != second and max(first, second) <= 12 and re.search("[a-z]", found.string):
        return "D", f"?{second}-{first}|{first}-{second}"
    return "D", f"?{second}-{first}"


def _slashed(found: re.Match[str], language: str) -> Token | None:
    first, second, year = int(found[1]), int(found[2]), _year(found[3])
    day_first, month_first = f"{year}-{second}-{first}", f"{year}-{first}-{second}"
    if language in UNSPACED:
        return "D", month_first
    if language == "en" and first != second and first <= 12 and second <= 12:
        return "D", f"{day_first}|{month_first}"
    return "D", month_first if language == "en" and second > 12 else day_first


def _year(text: str | None) -> str:
    return "" if not text else text if len(text) == 4 else f"20{text}"


def _eastern(found: re.Match[str], language: str) -> Token | None:
    return "D", f"{found[1] or ''}-{int(found[2])}-{int(found[3])}"


_LITERALS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Token | None]], ...] = (
    (re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)t?"), _ordered),
    (re.compile(r"(\d{1,2})[.-](\d{1,2})[.-](\d{4}|\d\d)(?![\d:])"), _day_first),
    (re.compile(r"(\d{1,2})\. ?(\d{1,2})\.(?!\d)"), _dubious),
    (re.compile(r"(\d{1,2})/(\d{1,2})(?:/(\d{4}|\d\d))?(?![\d:/])"), _slashed),
    (re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号號]?"), _eastern),
    (re.compile(r"(\d{1,2})(?:[:.]([0-5]\d))? ?([ap])\.? ?m\b\.?"), _twelve),
    (re.compile(r"(\d{1,2}):(\d\d)(?::00)?(?: ?h\b)?(?![\d:])"), _clock),
    (re.compile(r"(\d{1,2})\.([0-5]\d)(?= ?(?:uhr|h\b))"), _dotted),
    (re.compile(r"(\d{1,2}) ?h(?: ?([0-5]\d)(?: ?m(?:in)?\b)?)?(?![a-z\d])"), _french),
    (re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|re|º)\b"), lambda found, language: ("O", found[1])),
    (re.compile(r"(\d{1,2})\.(?= |$)"), lambda found, language: ("O", found[1]) if language == "de" else None),
    (re.compile(r"(\d{1,2})[日号號](?![後后間间おご前毎])"), lambda found, language: ("O", found[1])),
    (re.compile(r"(0\d)([0-5]\d)(?![\d:.,])"), _clock),
    (re.compile(r"([12]\d{3})(?![\d:]|[.,]\d)"), lambda found, language: ("Y", found[1])),
    (re.compile(r"(\d{1,6}[.,]\d{1,2})(?![\d.,:])"), lambda found, language: ("n", found[1].replace(",", "."))),
    (re.compile(r"(\d{1,6})(?![\d:])"), lambda found, language: ("n", found[1])),
)


_CITY = re.compile(
    r"([a-z]+(?:/[a-z_]+)+)|\b(utc|gmt)\b(?![+-]?\d)|"
    r"\b(?:heure de|hora de|ora di) ([a-z]+(?: [a-z]+)?)|\b([a-z]+ )?([a-z]+?)(?:er)?(?: time| zeit)\b|"
    r"(北京|上海|中国|东京|東京|日本|伦敦|ロンドン|纽约|紐約|ニューヨーク)(?:时间|時間)(?:的)?"
)
_AREAS = ("africa", "america", "antarctica", "arctic", "asia", "atlantic", "australia", "europe", "indian", "pacific")
_CITIES = {
    "北京": "Asia/Shanghai",
    "上海": "Asia/Shanghai",
    "中国": "Asia/Shanghai",
    "东京": "Asia/Tokyo",
    "東京": "Asia/Tokyo",
    "日本": "Asia/Tokyo",
    "伦敦": "Europe/London",
    "ロンドン": "Europe/London",
    "纽约": "America/New_York",
    "紐約": "America/New_York",
    "ニューヨーク": "America/New_York",
    "londres": "Europe/London",
    "londra": "Europe/London",
    "nueva york": "America/New_York",
    "utc": "UTC",
    "gmt": "UTC",
}


def _city(name: str) -> str | None:
    return _CITIES.get(name) or _all_cities().get(name.replace("_", " "))


@cache
def _all_cities() -> Mapping[str, str]:
    import zoneinfo

    found: dict[str, str] = {}
    for zone in sorted(zoneinfo.available_timezones(), reverse=True):
        place, _, city = zone.rpartition("/")
        if place and not place.startswith("Etc"):
            found[city.casefold().replace("_", " ")] = zone
            found[zone.casefold().replace("_", " ")] = zone
    return found
