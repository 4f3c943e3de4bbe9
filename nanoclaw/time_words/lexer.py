"""A phrase as a row of marks: numbers, clock times, dates, and the words of one language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nanoclaw.time_words.lexicon import LANGUAGES, Language, Mark, counted, folded, lexicon


class Unknown(Exception):
    """Its text is the first word of the phrase that the language has not."""


@dataclass(frozen=True, slots=True)
class Row:
    """`letters` has one letter for each mark, for the grammar's patterns; `values` what each stands for in the
    `language`."""

    letters: str
    values: tuple[str, ...]
    language: str

    def of(self, letters: str) -> list[str]:
        """The values of these letters, in order."""
        return [value for letter, value in zip(self.letters, self.values, strict=True) if letter in letters]

    def between(self, start: int, end: int) -> Row:
        return Row(self.letters[start:end], self.values[start:end], self.language)


def row(text: str, language: Language, zones: Mapping[str, str]) -> Row:
    """The marks of a folded phrase; `zones` maps the words in it that name a zone. Raises Unknown."""
    words = lexicon(language)
    if language.is_cjk:
        text = counted(text)
    marks: list[Mark] = []
    at = last = 0
    while at < len(text):
        if quiet := _silent(text, at):
            at += quiet
            continue
        step = _zone(text, at, zones, marks) or _glyphs(text, at, words, language, marks)
        step = step or _literal(text, at, language, marks) or _phrase(text, at, words, marks)
        if not step:
            raise Unknown(text[at:].split()[0])
        at, last = at + step, at
    said = [mark for mark in marks if mark[0] != "."]
    if said and (said[-1][0] in _LEADS_ON or said[0][0] == "&"):
        raise Unknown(text[0 if said[0][0] == "&" else last :].split()[0])
    if re.search("n,+n", "".join(letter for letter, _ in said)):  # "9 of 30" is no 9:30
        raise Unknown(text)
    said = [mark for mark in said if mark[0] != ","]
    return Row("".join(letter for letter, _ in said), tuple(value for _, value in said), language.name)


def spoken(text: str, zones: Mapping[str, str]) -> list[Language]:
    """The languages that have all words of a text; all of them where none has."""
    found = []
    for language in LANGUAGES:
        try:
            row(folded(text), language, zones)
            found.append(language)
        except Unknown:
            pass
    return found or list(LANGUAGES)


def opening(words: Sequence[str], languages: Sequence[Language]) -> str:
    """The letters of the longest phrase with which a text begins, in each of these languages."""
    letters = ""
    for language in languages:
        begun = [folded(" ".join(words[:count])).strip(",;.!?()") for count in range(min(6, len(words)), 0, -1)]
        known = lexicon(language)
        letters += next((known[phrase][0][0] for phrase in begun if phrase in known), "")
    return letters


_WORD = re.compile(r"[^\W\d_]+")
_GAP = re.compile(r"['.\-]? ?")
_MINUS = re.compile(r"(?<!\S)-\d")
_SILENT = re.compile(r"(?:[ ;!。、，()?]|[.,](?!\d)|(?<=[^\W\d])[.,]|(?<=[a-z])')+")
"""After a number ' and " are minutes, seconds or inches, and a point before one makes it a fraction."""
_LEADS_ON = ",a&j"
"""What cannot be the last word of a phrase."""
_COUNTS = "uUcp~"
"""What can be written without a space after a number."""


def _silent(text: str, at: int) -> int:
    found = _SILENT.match(text, at)
    return found.end() - at if found else 0


def _zone(text: str, at: int, zones: Mapping[str, str], marks: list[Mark]) -> int:
    for words, zone in zones.items():
        if text.startswith(words, at):
            marks.append(("z", zone))
            return len(words)
    return 0


def _glyphs(text: str, at: int, words: Mapping[str, tuple[Mark, ...]], language: Language, marks: list[Mark]) -> int:
    """The longest word that begins here, in a script without spaces."""
    if not language.is_cjk:
        return 0
    for length in range(min(9, len(text) - at), 0, -1):
        found = words.get(text[at : at + length])
        if found is not None and (length > 1 or not text[at].isascii()):
            marks.extend(found)
            return length
    return 0


def _phrase(text: str, at: int, words: Mapping[str, tuple[Mark, ...]], marks: list[Mark]) -> int:
    """The longest phrase of up to six words that begins here."""
    if text[at] == "-" and not _MINUS.match(text, at):
        marks.append(("r", "-"))
        return 1
    if text[at] in "@/&":
        marks.append(("a" if text[at] == "@" else "&", ""))
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
            marks.extend(words[phrase])
            return end - at
    return 0


def _stands(text: str, at: int, end: int, letter: str) -> bool:
    """Whether a word may be where it is: "1d" and "7a" are no numbers with a little word behind them."""
    single, after = end - at == 1, text[end : end + 1]
    if single and letter == ",":
        return after == "'"
    if text[at - 1 : at].isdigit() or (single and after.isdigit()):
        return letter in _COUNTS
    return letter != "w" or end - at > 2 or not text[: at - 1][-1:].isdigit()  # "7 mo"


def _literal(text: str, at: int, language: Language, marks: list[Mark]) -> int:
    for pattern, made in _LITERALS:
        found = pattern.match(text, at)
        if found and (mark := made(found, language)):
            marks.append(mark)
            return found.end() - at
    return 0


def _clock(found: re.Match[str], language: Language) -> Mark | None:
    return "C", f"{found[1]}:{found[2]}{_exact(found[1], language)}"


def _twelve(found: re.Match[str], language: Language) -> Mark | None:
    hour = int(found[1])
    if not 1 <= hour <= 12:
        return None
    return "C", f"{hour % 12 + 12 * (found[3] == 'p')}:{found[2] or '00'}!!"


def _dotted(found: re.Match[str], language: Language) -> Mark | None:
    return None if language.name == "en" else ("C", f"{found[1]}:{found[2]}{_exact(found[1], language)}")


def _exact(hour: str, language: Language) -> str:
    return "!" if language.name != "en" or hour.startswith("0") or int(hour) > 12 else ""


def _french(found: re.Match[str], language: Language) -> Mark | None:
    return "H", f"{found[1]}:{found[2] or '00'}"


def _ordered(found: re.Match[str], language: Language) -> Mark | None:
    return "D", f"{int(found[1])}-{int(found[2])}-{int(found[3])}"


def _day_first(found: re.Match[str], language: Language) -> Mark | None:
    return "D", f"{_year(found[3])}-{int(found[2])}-{int(found[1])}"


def _dubious(found: re.Match[str], language: Language) -> Mark | None:
    """12.5. alone is a day to one and an hour to another, which only the rest of the phrase tells."""
    return "D", f"?{int(found[2])}-{int(found[1])}"


def _slashed(found: re.Match[str], language: Language) -> Mark | None:
    first, second, year = int(found[1]), int(found[2]), _year(found[3])
    day_first, month_first = f"{year}-{second}-{first}", f"{year}-{first}-{second}"
    if language.is_cjk:
        return "D", month_first
    if language.name == "en" and first != second and first <= 12 and second <= 12:
        return "D", f"{day_first}|{month_first}"
    return "D", month_first if language.name == "en" and second > 12 else day_first


def _year(text: str | None) -> str:
    return "" if not text else text if len(text) == 4 else f"20{text}"


def _eastern(found: re.Match[str], language: Language) -> Mark | None:
    return "D", f"{found[1] or ''}-{int(found[2])}-{int(found[3])}"


_LITERALS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Language], Mark | None]], ...] = (
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
    (re.compile(r"(\d{1,2})\.(?= |$)"), lambda found, language: ("O", found[1]) if language.name == "de" else None),
    (re.compile(r"(\d{1,2})[日号號](?![後后間间おご前毎])"), lambda found, language: ("O", found[1])),
    (re.compile(r"(0\d)([0-5]\d)(?![\d:.,])"), _clock),
    (re.compile(r"([12]\d{3})(?![\d:]|[.,]\d)"), lambda found, language: ("Y", found[1])),
    (re.compile(r"(\d{1,6}[.,]\d{1,2})(?![\d.,:])"), lambda found, language: ("n", found[1].replace(",", "."))),
    (re.compile(r"(\d{1,6})(?![\d:])"), lambda found, language: ("n", found[1])),
)
