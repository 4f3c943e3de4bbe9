"""Tokenizer of notes and queries: case folding, stop words, stemming; CJK text as characters and bigrams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from Stemmer import Stemmer  # two million instructions to import


def tokens(text: str) -> list[str]:
    """The terms of a text in order. A run of CJK characters gives each character and each pair."""
    if text.isascii():
        return [term for word in text.lower().translate(_BLANKS).split() if (term := _TERMS[word])]
    found: list[str] = []
    for word in words(text):
        if word[0] < _CJK_FIRST or not _CJK.match(word):
            if term := _TERMS[word]:
                found.append(term)
        else:
            found += [character for character in word if character not in STOP_CHARACTERS]
            found += [word[at : at + 2] for at in range(len(word) - 1)]
    return found


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


class _Terms(dict[str, str]):
    """Stems by word, '' for a stop word; an lru_cache would take half as much time again to build an index."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _MOST_TERMS:
            self.clear()
        bare = word.strip("'")
        self[word] = term = "" if bare in STOP_WORDS else stem(bare)
        return term


_TERMS = _Terms()
_BLANKS = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) != "'"}
_MOST_TERMS = 50_000  # 5 MB


def stem(word: str) -> str:
    """The stem of an English word, for an irregular form that of its root; other words as they are.

    An apostrophe ends a name ("Anna's", "Porto'daki") or a short word before the one that counts ("l'hôtel").
    """
    if "'" in word:
        first, _, rest = word.partition("'")
        word = rest.replace("'", "") if len(first) <= 2 and len(rest) > 1 else first
    word = _IRREGULAR.get(word, word)
    if len(word) < 3 or not word.isascii() or not word.isalpha():
        return word
    stemmed: str = _STEMMER.stemWord(word)
    return _SPELLINGS.get(stemmed, stemmed)


@cache
def stemmer_of(language: str) -> Stemmer | None:
    """The stemmer of a language, by its code; None if there is none."""
    try:
        return Stemmer(language, 0)
    except KeyError:
        return None


_STEMMER = Stemmer("english", 0)  # _TERMS is the cache
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
child children kid kids|person people|man men|woman women|foot feet|tooth teeth|mouse mice|goose geese|wife wives|
knife knives|leaf leaves|shelf shelves|tie tying|wolf wolves|loaf loaves|half halves|die died dying dies|
mother mom mum mommy mummy moms mums|father dad daddy dads|photo photograph picture pic photos pics pictures|
television tv|bike bicycle bicycles bikes|movie film movies films|grandmother grandma|grandfather grandpa|
airplane plane planes aeroplane aeroplanes airplanes|holiday holidays vacation vacations|
telephone phone phones telephones|refrigerator fridge fridges refrigerators|university uni universities|
advertisement advert ad ads adverts|laboratory lab labs laboratories|exam exams examination examinations|
truck trucks lorry lorries|aunt aunts auntie aunty|mathematics math maths|veterinarian vet vets|trash garbage rubbish|
apartment apartments|sweater sweaters jumper jumpers|
"""
_IRREGULAR = {form: group.split()[0] for group in _ROOTS.replace("\n", "").split("|") for form in group.split()}

# stems of British spellings with those of the American ones, after the pairs of VarCon (SCOWL, wordlist.aspell.net)
_SPELLED = """
colour:color favour:favor favourit:favorit flavour:flavor neighbour:neighbor neighbourhood:neighborhood
behaviour:behavior honour:honor humour:humor labour:labor rumour:rumor harbour:harbor vapour:vapor armour:armor
parlour:parlor savour:savor odour:odor vigour:vigor tumour:tumor endeavour:endeavor centr:center theatr:theater
metr:meter litr:liter kilometr:kilomet centimetr:centimet millimetr:millimet fibr:fiber calibr:calib sombr:somber
organis:organiz realis:realiz recognis:recogn apologis:apolog memoris:memor specialis:special summaris:summar
prioritis:priorit finalis:final customis:custom optimis:optim minimis:minim maximis:maxim socialis:social
analys:analyz paralys:paralyz criticis:critic emphasis:emphas defenc:defens offenc:offens licenc:licens
practis:practic pretenc:pretens jewelleri:jewelri counsellor:counselor woollen:woolen skil:skill dialogu:dialog
catalogu:catalog analogu:analog programm:program chequ:check grey:gray tyre:tire kerb:curb plough:plow draught:draft
sceptic:skeptic cosi:cozi pyjama:pajama mould:mold moustach:mustach moult:molt smoulder:smolder aeroplan:airplan
aluminium:aluminum anaesthet:anesthet anaemia:anemia paediatrician:pediatrician orthopaed:orthoped
gynaecolog:gynecolog haemoglobin:hemoglobin leukaemia:leukemia diarrhoea:diarrhea oestrogen:estrogen manoeuvr:maneuv
encyclopaedia:encyclopedia doughnut:donut yoghurt:yogurt whiski:whiskey omelett:omelet
"""
_SPELLINGS = dict(pair.split(":") for pair in _SPELLED.split())
