"""Words as recall compares them: folded, stemmed, without the commonest; CJK text as characters and pairs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache


def tokens(text: str) -> Iterator[str]:
    """The terms of a text in order. A run of CJK characters gives each character and each pair."""
    for word in words(text):
        if word[0] < _CJK_FIRST or not _CJK.match(word):
            if word not in STOP_WORDS:
                yield stem(word)
        else:
            yield from (character for character in word if character not in _CJK_STOP)
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
    """An English word without its ending, an irregular one as its root; words of other languages mostly as they are."""
    word = word.removesuffix("'s").replace("'", "")
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if not word.isascii() or len(word) < 4 or not word.isalpha():
        return word
    root = _without_plural(word)
    for ending in _ENDINGS:
        if root.endswith(ending) and _has_vowel(root[: -len(ending)]):
            root = _undoubled(root[: -len(ending)])
            break
    root = _IRREGULAR.get(root, root)
    if len(root) > 4:
        match = _DERIVED_ENDING.search(root, 4)
        if match:
            return root[: match.start()] + _DERIVED[match[0]]
    if len(root) > 3:
        root = root[:-1] + "i" if root.endswith("y") else root.removesuffix("e")
    return root


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _undoubled(root: str) -> str:
    if root.endswith("i") and len(root) > 2:
        return root[:-1] + "y"
    return root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] in "bdgmnprt" else root


def _has_vowel(root: str) -> bool:
    return len(root) >= 3 and not _VOWELS.isdisjoint(root)


_VOWELS = frozenset("aeiouy")
_ENDINGS = ("ingly", "edly", "ings", "ing", "ed")
_SUFFIXES = """
fulness: ousness: iveness: ization: ational:at ation:at fully: ously: ments: ment: ness: tion:t sion:s ful: ily:y ly:
ious: ous: ive: able: ible: ally: al: ance: ence: ist: ism: ers: er: ors: or:
"""
_DERIVED = {ending: other for ending, _, other in (pair.partition(":") for pair in _SUFFIXES.split())}
_DERIVED_ENDING = re.compile(f"(?:{'|'.join(_DERIVED)})$")
_CJK_FIRST = "\u3040"
_CJK = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+)")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_CJK_STOP = frozenset("的了是我你他她它们在有和就不都也很吗呢啊吧么这那个着过到去说要会对没为什怎哪谁几多")
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
lose lost|send sent|spend spent|build built|lend lent|say said|pay paid|lie lay lain|hear heard|stand stood|
understand understood|win won|fall fell fallen|fly flew flown|grow grew grown|know knew known|throw threw thrown|
draw drew drawn|show shown|read|come came|become became|sit sat|get got gotten|forget forgot forgotten|fight fought|
seek sought|light lit|shoot shot|steal stole stolen|wake woke woken|rise rose risen|hide hid hidden|bite bit bitten|
sew sewn|mean meant|lead led|feed fed|bleed bled|breed bred|hang hung|stick stuck|strike struck|swing swung|dig dug|
sink sank sunk|shrink shrank shrunk|ring rang rung|blow blew blown|tear tore torn|bear bore born|freeze froze frozen|
child children|person people|man men|woman women|foot feet|tooth teeth|mouse mice|goose geese|wife wives|life lives|
knife knives|leaf leaves|shelf shelves|wolf wolves|loaf loaves|half halves|die died dying dies|
mother mom mum mommy mummy moms mums|father dad daddy dads|photo photograph picture pic photos pics pictures|
television tv|bicycle bike bikes|movie film movies films|grandmother grandma|grandfather grandpa|
"""
_IRREGULAR = {form: group.split()[0] for group in _ROOTS.replace("\n", "").split("|") for form in group.split()}

_FRAME = """
anything diary note notes everything ask asked call called conversation describe described discuss discussed example
example explain explained happen happened happening kind kinds many mention mentioned much name names named often old
remember remind say says said sort sorts talk talked talking tell told type types according certain various different
specific particular list order give information likely might may would current currently recent recently ever usually
typically
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

_SAME = """
begin start launch|buy purchase get acquire|job work career profession occupation employ|kid child|
doctor physician medic|car vehicle auto|trip travel journey vacation holiday visit tour|home house apartment flat|
hobby pastime interest passion leisur|pet animal|dog puppy pup doggy|cat kitten kitty|exercise workout gym fit train|
friend buddy pal|happy glad joy delight|sad upset unhappy|afraid scare fear anxious nervous|angry mad furious|
ill sick disease illness|money cash fund financ|cost price pay|shop store boutique|film movie cinema|
picture photo image|song music tune|book novel read|school class course lesson|college university|
teacher professor instructor|exam test quiz|meal dinner lunch breakfast food eat|cook bake recipe|dish meal|
sport game match|win victory award prize|competition contest tournament|present gift|party celebrate|
marry wedding bride groom spouse|husband wife partner spouse|girlfriend boyfriend partner date|parent mother father|
sibling brother sister|grandparent grandmother grandfather|move relocate|live reside|plan intend goal aim|
want wish hope desire|like enjoy love favorit prefer|hate dislike|help support assist aid|
advice tip suggest recommend|problem issue trouble difficulty challeng|idea concept|big large huge|small little tiny|
fast quick speedy|stress anxiety tension destress|relax unwind calm|art paint draw|paper article|script screenplay|
write author|computer laptop|phone mobile cell call|accident crash|storm hurricane|city town|country nation|
road street|flower plant garden|volunteer charity|church faith relig|bank loan|boss manager|
employee colleague coworker|company business firm startup|meet encounter|end finish complet|stop quit|fix repair|
learn study|teach educat|allergy allergic|medicine medication drug pill|drink beverag|clothes cloth outfit dress wear|
"""


def _same() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for group in _SAME.replace("\n", "").split("|"):
        stems = {stem(word) for word in group.split()}
        for each in stems:
            found.setdefault(each, set()).update(stems - {each})
    return {word: frozenset(others) for word, others in found.items()}


SAME = _same()
"""Everyday words for the same thing, by their stems."""
