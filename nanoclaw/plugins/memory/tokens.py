"""Words as recall compares them: folded, stemmed, without the commonest; CJK text as characters and pairs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType


def tokens(text: str) -> Iterator[str]:
    """The terms of a text in order. A run of CJK characters gives each character and each pair."""
    for word in words(text):
        if word[0] < _CJK_FIRST or not _CJK.match(word):
            if word not in STOP_WORDS:
                yield stem(word)
        else:
            yield from (character for character in word if character not in STOP_CHARACTERS)
            yield from (word[at : at + 2] for at in range(len(word) - 1))


def words(text: str) -> Iterator[str]:
    """Folded words in order, stop words too; a run of CJK characters is one word."""
    for word in _WORD.findall(fold(text)):
        if word.isascii() or not _CJK.search(word):
            yield word
        else:
            yield from filter(None, _CJK.split(word))


def fold(text: str) -> str:
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return folded.replace("’", "'")


def is_cjk(term: str) -> bool:
    return term[:1] >= _CJK_FIRST and bool(_CJK.match(term))


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """An English word's stem (Porter's second stemmer, an irregular form as its root); other words as they are."""
    word = word.removesuffix("'s").replace("'", "")
    word = _IRREGULAR.get(word, word)
    if len(word) < 3 or not word.isascii() or not word.isalpha() or word in _KEPT:
        return word
    word = _CONSONANT_Y.sub("Y", word)
    if match := _PREFIX.match(word) or _REGION.match(word):
        first = match.end()
        second = again.end() if (again := _REGION.match(word, first)) else len(word)
    else:
        first = second = len(word)
    word = _without_plural(word)
    if word not in _KEPT_SINGULAR:
        word = _without_tense(word, first)
        word = _Y_AT_END.sub("i", word)
        word = _without_suffix(word, first, second)
    return word.lower()


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _VOWEL.search(word, 0, len(word) - 2):
        return word[:-1]
    return word


def _without_tense(word: str, first: int) -> str:
    match = _TENSE.search(word)
    if not match:
        return word
    if match[0].startswith("eed"):
        return word[: match.start() + 2] if match.start() >= first else word
    root = word[: match.start()]
    if not _VOWEL.search(root):
        return word
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _DOUBLE.search(root):
        return root[:-1]
    return root + "e" if first >= len(root) and _SHORT.search(root) else root


def _without_suffix(word: str, first: int, second: int) -> str:
    for endings, pattern in _STEPS:
        if (match := pattern.search(word)) and match.start() >= first:
            word = word[: match.start()] + endings[match[0]]
    if word.endswith("ative") and len(word) - 5 >= second:
        word = word[:-5]
    if (match := _LAST.search(word)) and match.start() >= second:
        word = word[: match.start()]
    end = len(word) - 1
    if word.endswith("e") and (end >= second or (end >= first and not _SHORT.search(word, 0, end))):
        return word[:-1]
    return word[:-1] if word.endswith("ll") and end >= second else word


_CONSONANT_Y = re.compile(r"^y|(?<=[aeiouy])y")
_PREFIX = re.compile("gener|commun|arsen|univers|emerg|organ|inter")  # would run into words of another meaning
_REGION = re.compile("[^aeiouy]*[aeiouy]+[^aeiouy]")
_VOWEL = re.compile("[aeiouy]")
_TENSE = re.compile("(?:eedly|eed|ingly|edly|ing|ed)$")
_DOUBLE = re.compile("(?<=..)(?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$")
_SHORT = re.compile("(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$")
_Y_AT_END = re.compile("(?<=.[^aeiouy])[yY]$")
_KEPT = frozenset(["sky", "news", "howe", "atlas", "cosmos", "bias", "andes", "early", "only"])
_KEPT_SINGULAR = frozenset(
    ["inning", "outing", "canning", "herring", "earring", "evening", "proceed", "exceed", "succeed"]
)


def _step(endings: str, after: Mapping[str, str] = MappingProxyType({})) -> tuple[dict[str, str], re.Pattern[str]]:
    """Endings with what takes their place; `after` are patterns of those that only count after certain letters."""
    pairs = dict(ending.partition(":")[::2] for ending in endings.split())
    longest_first = sorted(pairs, key=len, reverse=True)
    return pairs, re.compile(f"(?:{'|'.join(after.get(ending, ending) for ending in longest_first)})$")


_STEPS = (
    _step(
        "tional:tion enci:ence anci:ance abli:able entli:ent izer:ize ization:ize ational:ate ation:ate ator:ate "
        "alism:al aliti:al alli:al fulness:ful ousli:ous ousness:ous iveness:ive iviti:ive biliti:ble bli:ble "
        "fulli:ful lessli:less li: ogi:og",
        {"li": "(?<=[cdeghkmnrt])li", "ogi": "(?<=l)ogi"},
    ),
    _step("tional:tion ational:ate alize:al icate:ic iciti:ic ical:ic ful: ness:"),
)
_LAST = re.compile("(?:ance|ence|able|ible|ement|ment|ant|ent|ism|ate|iti|ous|ive|ize|(?<=[st])ion|al|er|ic)$")
_CJK_FIRST = "\u3040"
_CJK = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+)")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
STOP_CHARACTERS = frozenset("的了是我你他她它们在有和就不都也很吗呢啊吧么这那个着过到去说要会对没为什怎哪谁几多")
_COMMON = """
a about all also am an and any are as at be because been being but by can cannot can't could couldn't did didn't do
does doesn't doing don't for from get gets getting got had has hasn't have haven't having he hello her hers hey hi him
his how i i'd i'll i'm i've if in into is isn't it it's its just know let let's like lot me mine more most much
my myself no not of off oh ok okay on one or our ours out over own please really she should so some than thank thanks
that that's the their theirs them then there there's these they thing things this those to too up us very was wasn't
we were what what's when where which while who whom whose why will with won't would wow yeah yes you you're your yours
"""
STOP_WORDS = frozenset(_COMMON.split())
_ROOTS = """
go went gone goes going|see saw seen|buy bought|bring brought|think thought|teach taught|catch caught|find found|
eat ate eaten|drink drank drunk|drive drove driven|write wrote written|ride rode ridden|run ran|swim swam swum|
begin began begun|sing sang sung|give gave given|take took taken|make made|speak spoke spoken|break broke broken|
choose chose chosen|wear wore worn|tell told|sell sold|hold held|meet met|feel felt|keep kept|sleep slept|leave left|
lose lost|send sent|spend spent|build built|lend lent|say said|pay paid|lie lay lain lying|hear heard|stand stood|
understand understood|win won|fall fell fallen|fly flew flown|grow grew grown|know knew known|throw threw thrown|
draw drew drawn|show shown|read|come came|become became|sit sat|get got gotten|forget forgot forgotten|fight fought|
seek sought|light lit|shoot shot|steal stole stolen|wake woke woken|rise rose risen|hide hid hidden|bite bit bitten|
sew sewn|mean meant|lead led|feed fed|bleed bled|breed bred|hang hung|stick stuck|strike struck|swing swung|dig dug|
sink sank sunk|shrink shrank shrunk|ring rang rung|blow blew blown|tear tore torn|bear bore born|freeze froze frozen|
child children|person people|man men|woman women|foot feet|tooth teeth|mouse mice|goose geese|wife wives|life lives|
knife knives|leaf leaves|shelf shelves|tie tying|wolf wolves|loaf loaves|half halves|die died dying dies|
mother mom mum mommy mummy moms mums|father dad daddy dads|photo photograph picture pic photos pics pictures|
television tv|bike bicycle bicycles bikes|movie film movies films|grandmother grandma|grandfather grandpa|
"""
_IRREGULAR = {form: group.split()[0] for group in _ROOTS.replace("\n", "").split("|") for form in group.split()}

_FRAME = """
anything diary note notes everything ask asked call called conversation describe described discuss discussed example
example explain explained happen happened happening kind kinds many mention mentioned much name names named often old
remember remind say says said sort sorts talk talked talking tell told type types according certain various different
specific particular list order give information likely might may would current currently recent recently ever usually
typically after again against before below between both down during each few further here himself herself itself now
once only other same such themselves through under until yourself above
"""
FRAME = frozenset(stem(word) for word in _FRAME.split())
"""Words that ask rather than say what about."""
_PHATIC = """
afternoon agree agreed alright amazing awesome bored boring brilliant bye care cheers clear continue cool correct day
definitely evening exactly excellent fair fantastic fine forget forgot friend funny go going goodbye good gotcha great
haha hehe help hmm indeed interesting job joke later let lol lovely mind mistake moment morning much nah never nice
night nope perfect problem really right second see send sleep sorry sound sounds soon stop super sure surely talk tell
think tomorrow true try understand understood very wait want way weekend welcome well wonderful work works worries
worry bit best later minute time today long back again still just need something nothing maybe guess bad feel feeling
happy sad tired
"""
PHATIC = frozenset(stem(word) for word in _PHATIC.split())
"""Words to greet, thank, agree and wait with: a message of nothing else is small talk."""
