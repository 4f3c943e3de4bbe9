"""Finds facts that cannot both be true: one attribute of one subject with two values, or a sentence and its negation.

The words of languages are data (contradictions.json). A false alarm costs the model one more call, a miss leaves two
birthdays side by side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence, Set
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal, NamedTuple

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.memory.notes import entry_text
from nanoclaw.tokenizer import tokens

Kind = Literal["number", "text", "verb"]

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"\d+[月日年号]?|[^\W\d_{_CJK}]*@?\w[\w.+-]*@[\w.-]+|[{_CJK}]+|[^\W_{_CJK}]+")
_PARTICLES = re.compile("先生|です|さん|现在|目前|用户|今は|[的在是于はがにでのを、，。也你您我他她]+")
MOST_WORDS = 25  # a longer fact has more than one attribute


class Contradiction(WorkspaceError):
    """A fact is not written yet: `standing` are lines of MEMORY.md, each with its number, that it contradicts."""

    def __init__(self, standing: Sequence[tuple[int, str]]) -> None:
        self.standing = standing
        self.listed = "\n".join(f"MEMORY.md:{number}: {line}" for number, line in standing)
        words = entry_text(standing[0][1])
        super().__init__(
            f"not noted yet: it contradicts what is there.\n{self.listed}\nIf that is no longer true, call again with "
            f"replaces={words!r}; if both hold, with keep_both=true; if you can't tell, ask the person."
        )


class Claim(NamedTuple):
    """One attribute of a subject, and its value."""

    attribute: str
    kind: Kind
    subject: frozenset[str]
    value: tuple[str, ...]


def contradict(one: str, other: str) -> bool:
    """True for two facts that cannot both be true."""
    folded = _folded(one), _folded(other)
    words = [_words(text) for text in folded]
    if not all(0 < len(each) <= MOST_WORDS for each in words):
        return False
    if _is_negated(*folded, *words):
        return True
    theirs = _claims(folded[1])
    return any(_conflict(mine, other) for mine in _claims(folded[0]) for other in theirs)


def moves(text: str) -> Set[str]:
    """Terms by which a move is found, for a fact that tells where somebody lives: the two may share no other word."""
    return _data().moved if any(each.attribute == "residence" for each in _claims(_folded(text))) else frozenset()


# --- attributes ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1_000)
def _claims(text: str) -> list[Claim]:
    found = list[Claim]()
    for attribute, kind, pattern in _data().attributes:
        if match := pattern.search(text):
            kept = [group for group in match.groups() if group]
            if claim := _claim(attribute, kind, text[: match.start()], text[match.end() :], kept):
                found.append(claim)
    names = {each.attribute for each in found}
    if "wedding" in names:  # "anniversaire de mariage"
        found = [each for each in found if each.attribute != "birthday"]
    if "phone" in names:
        found = [each for each in found if each.attribute != "number"]
    if not names & {"name", "favourite"} and (role := _role(text)):
        found.append(role)
    return found


def _claim(attribute: str, kind: Kind, before: str, after: str, kept: Sequence[str]) -> Claim | None:
    if kind == "number":
        words = [*_words(before), *_words(after)]
        value = tuple(word for word in words if _is_number(word))
        subject = [*kept, *(word for word in words if not _is_number(word))]
    elif kind == "verb":
        head, tail = _telling(before), _telling(after)
        if head and (not tail or after[:1] == ","):  # the verb stands last, its object before it
            head, tail = head[:-1], head[-1:]
        value, subject = tuple(tail), [*kept, *head]
    else:
        copula = _data().copula.search(after)
        middle = after[: copula.start()] if copula else ""
        rest = after[copula.end() :] if copula else after
        if copula is None and (earlier := _data().copula.search(before)):  # "Tom is Anna's boss"
            if ":" in earlier[0]:
                return None
            before, rest = before[earlier.end() :], before[: earlier.start()]
        value, subject = tuple(_telling(rest)), [*kept, *_telling(before), *_telling(middle)]
    told = frozenset(_spelled(word) for word in subject if word not in _data().silent and word not in _data().copulas)
    return Claim(attribute, kind, told, value) if value and len(told) <= 4 else None


def _role(text: str) -> Claim | None:
    """“Her boss is Mr Klein” as the name of her boss."""
    copula = _data().copula.search(text)
    if copula is None:
        return None
    left, right = _telling(text[: copula.start()]), _telling(text[copula.end() :])
    if not any(_data().roles.fullmatch(word) for word in left):
        return None
    return Claim("name", "verb", frozenset(map(_spelled, left)), tuple(right)) if right else None


def _conflict(one: Claim, other: Claim) -> bool:
    same = (any(_same(word, known) for known in other.subject) for word in one.subject)
    if one.attribute != other.attribute or len(one.subject) != len(other.subject) or not all(same):
        return False
    mine, theirs = set(one.value), set(other.value)
    if one.kind == "number":
        return _are_other_numbers(mine, theirs)
    shared = sum(any(_same(word, known) for known in theirs) for word in mine)
    return shared * 2 <= min(len(mine), len(theirs)) and not mine & _data().negations


def _same(one: str, other: str) -> bool:
    """The same word, or two forms of it: a genitive's “s”, the endings of Russian."""
    if one == other or one + "s" == other or other + "s" == one:
        return True
    if not ("а" <= one[0] <= "я" and "а" <= other[0] <= "я"):
        return False
    least = max(3, max(len(one), len(other)) - 2)
    return one[:least] == other[:least]


# --- without an attribute --------------------------------------------------------------------------------------------


def _is_negated(one: str, other: str, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Two sentences of the same words, of which one is negated."""
    negated = [_negations(text, words) for text, words in ((one, mine), (other, theirs))]
    if negated[0][0] == negated[1][0]:
        return False
    (_, left), (_, right) = negated
    return bool(left) and left == right


def _negations(text: str, words: Sequence[str]) -> tuple[bool, list[str]]:
    """True for a negated sentence; its other words."""
    data, found, is_negated = _data(), list[str](), False
    for word in words:
        if re.match(f"[{_CJK}]", word):
            bare = data.cjk_negation.sub("", word)
            is_negated ^= bare != word
            found.append(bare)
        elif word in data.negations:
            is_negated = True
        elif word in data.opposites:
            is_negated ^= word not in ("loves", "love")
            found.append(_spelled(data.opposites[word]))
        elif word not in data.silent:
            found.append(_spelled(word))
    return is_negated, sorted(word.removesuffix("s") for word in found if word)


# --- words -----------------------------------------------------------------------------------------------------------


def _folded(text: str) -> str:
    return " ".join(text.replace("İ", "i").casefold().replace("’", "'").replace("n't", " not").split())


def _words(text: str) -> list[str]:
    months = _data().months
    found = list[str]()
    for word in _WORD.findall(re.sub(r"(?<=\w\w)'(?:s|[a-zıü]{1,4})\b", " ", text)):
        if re.match(f"[{_CJK}]", word):
            found += [part for part in _PARTICLES.split(word) if part]
        elif word[0].isdigit():
            bare = word.rstrip("月日年号").lstrip("0") or "0"
            found.append(f"month {bare}" if word.endswith("月") else bare if bare.isdigit() else word)
        elif word in months:
            found.append(f"month {months[word]}")
        else:
            found.append(word)
    return found


def _telling(text: str) -> list[str]:
    return [word for word in _words(text) if word not in _data().silent]


def _spelled(word: str) -> str:
    return word.replace("our", "or")


def _is_number(word: str) -> bool:
    return word.startswith("month ") or any(sign.isdigit() for sign in word)


def _are_other_numbers(one: set[str], other: set[str]) -> bool:
    """Neither says the other more exactly; months are numbers where one of the two writes them so."""
    if len({any(word.startswith("month ") for word in each) for each in (one, other)}) == 2:
        one, other = ({word.removeprefix("month ") for word in each} for each in (one, other))
    return not (one <= other or other <= one)


class _Data(NamedTuple):
    attributes: list[tuple[str, Kind, re.Pattern[str]]]
    roles: re.Pattern[str]
    copula: re.Pattern[str]
    copulas: frozenset[str]
    negations: frozenset[str]
    cjk_negation: re.Pattern[str]
    opposites: dict[str, str]
    months: dict[str, int]
    silent: frozenset[str]
    moved: frozenset[str]


@cache
def _data() -> _Data:
    text = resources.files(__package__).joinpath("contradictions.json").read_text("utf-8")
    read: dict[str, Any] = json.loads(text.casefold())
    attributes: list[tuple[str, Kind, re.Pattern[str]]] = [
        (name, each["value"], _any_of(each["words"])) for name, each in read["attributes"].items()
    ]
    return _Data(
        attributes,
        re.compile("|".join(read["roles"])),
        _any_of(read["copulas"]),
        frozenset(read["copulas"]),
        frozenset(read["negations"]),
        re.compile("|".join(word for word in read["negations"] if re.match(f"[{_CJK}]", word))),
        read["opposites"],
        {name: number for number, names in enumerate(read["months"], 1) for name in names},
        frozenset(read["silent"]),
        frozenset(term for word in read["moved"] for term in tokens(word)[-1:]),
    )


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Whole words where they are written with spaces between them."""
    return re.compile("|".join(word if re.search(f"^[{_CJK}:=]", word) else rf"(?<!\w){word}(?!\w)" for word in words))
