"""Words of dates in German, French, Spanish, Italian, Portuguese, Russian and Turkish, folded: what `dates` knows of
them is English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MONTHS = (
    "januar jänner janvier enero gennaio janeiro ocak января январе январь",
    "februar février febrero febbraio fevereiro şubat февраля феврале февраль",
    "märz mars marzo março mart марта марте март",
    "april avril abril aprile nisan апреля апреле апрель",
    "mai mayo maggio maio mayıs мая мае май",
    "juni juin junio giugno junho haziran июня июне июнь",
    "juli juillet julio luglio julho temmuz июля июле июль",
    "august août agosto ağustos августа августе август",
    "september septembre septiembre settembre setembro eylül сентября сентябре сентябрь",
    "oktober octobre octubre ottobre outubro ekim октября октябре октябрь",
    "november novembre noviembre novembro kasım ноября ноябре ноябрь",
    "dezember décembre diciembre dicembre dezembro aralık декабря декабре декабрь",
)
MONTHS = {word: number for number, words in enumerate(_MONTHS, 1) for word in words.split()}
MONTHS |= {"jan": 1, "feb": 2, "mär": 3, "apr": 4, "aug": 8, "sept": 9, "okt": 10, "nov": 11, "dez": 12}

UNITS = {
    word: unit
    for unit, words in {
        "day": "tag tage tagen jour jours día días giorno giorni dia dias день дня дней gün",
        "week": "woche wochen semaine semaines semana semanas settimana settimane неделя неделю недели недель неделе "
        "hafta",
        "month": "monat monate monaten monats mois mes meses mese mesi mês месяц месяца месяцев месяце ay",
        "year": "jahr jahre jahren jahres an ans année années año años anno anni ano anos год года лет году yıl sene",
        "weekend": "wochenende week-end выходные выходных",
    }.items()
    for word in words.split()
}

NUMBERS = {
    word: number
    for number, words in {
        1: "ein eine einen einem einer un une una uno um uma один одну bir",
        2: "zwei deux dos due dois duas два две iki",
        3: "drei trois tres tre três три üç",
        4: "vier quatre cuatro quattro quatro четыре dört",
        5: "fünf cinq cinco cinque пять beş",
        6: "sechs six seis sei шесть altı",
        7: "sieben sept siete sette sete семь yedi",
        8: "acht huit ocho otto oito восемь sekiz",
        9: "neun neuf nueve nove девять dokuz",
        10: "zehn dix diez dieci dez десять on",
    }.items()
    for word in words.split()
}

SEASONS = {
    word: 3 * number
    for number, words in enumerate(
        (
            "frühling frühjahr printemps primavera весной ilkbaharda baharda",
            "sommer été verano estate verão летом yazın",
            "herbst automne otoño autunno outono осенью sonbaharda",
            "winter hiver invierno inverno зимой kışın",
        ),
        1,
    )
    for word in words.split()
}

DAYS = {
    **dict.fromkeys(("heute", "aujourd'hui", "hoy", "oggi", "hoje", "сегодня", "bugün"), 0),
    **dict.fromkeys(("gestern", "hier soir", "hier matin", "ayer", "ieri", "ontem", "вчера", "dün"), 1),
    **dict.fromkeys(("vorgestern", "avant-hier", "anteayer", "anteontem", "позавчера"), 2),
    **dict.fromkeys(("demain", "domani", "amanhã", "завтра", "yarın"), -1),
    **dict.fromkeys(("übermorgen", "après-demain", "pasado mañana", "dopodomani", "послезавтра"), -2),
}

_LAST, _THIS, _NEXT = (
    frozenset(words.split(","))
    for words in (
        "letzte,letzten,letztes,letzter,letztem,vergangene,vergangenen,vergangenes,vorige,voriges,vorigen,dernière,"
        "dernier,pasada,pasado,scorsa,scorso,passada,passado,прошлой,прошлом,geçen",
        "diese,diesen,dieses,diesem,dieser,cette,ce,cet,esta,este,questa,questo,этой,этом,bu",
        "nächste,nächsten,nächstes,nächster,nächstem,kommende,kommenden,kommendes,prochaine,prochain,próxima,próximo,"
        "prossima,prossimo,следующей,следующем,gelecek,önümüzdeki",
    )
)
_TWICE = frozenset({"vorletzte", "vorletzten", "vorletztes"})
BACK = dict.fromkeys(_LAST, 1) | dict.fromkeys(_THIS, 0) | dict.fromkeys(_NEXT, -1) | dict.fromkeys(_TWICE, 2)
"""Weeks, months or years back by word."""


def _any(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_COUNT = rf"({_any(NUMBERS)}|\d{{1,3}})"
_UNIT = rf"({_any(UNITS)})"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_MONTH = rf"(?P<month>{_any(MONTHS)})(?:'?(?:ta|te|da|de|tan|dan))?(?!\w)\.?"

DAY_MONTH = (
    r"\b(?:(?:am|den|le|el|il|no dia) )?(?P<day>\d{1,2})(?:\.|er|º|°|-го)? ?(?:de |di |d')?"
    rf"{_MONTH}(?: (?:de |del )?{_YEAR})?"
)
NUMERIC_DAY = (
    r"\b(?:am|vom|zum|bis|seit|den) (?P<day>\d{1,2})\."
    r"(?P<month>1[0-2]|0?[1-9])\.(?:(?P<year>(?:19|20)\d\d))?"
)
IN_MONTH = rf"\b(?:im|seit|en|in|em|au mois de|в) {_MONTH}(?: (?:de )?{_YEAR})?"
AGO = (
    rf"\b(?:vor|il y a|hace|há) {_COUNT} {_UNIT}\b",
    rf"\b{_COUNT} {_UNIT} (?:fa|atrás|назад|önce)\b",
    rf"\b(){_UNIT} назад\b",
)
AHEAD = (
    rf"\b(?:in|dans|dentro de|en|tra|fra|daqui a|через) {_COUNT} {_UNIT}\b",
    rf"\b(?:через)() {_UNIT}\b",
    rf"\b{_COUNT} {_UNIT} sonra\b",
)
WHICH_UNIT = rf"\b(?P<which>{_any(BACK)}) (?P<unit>{_any(UNITS)})\b"
UNIT_WHICH = rf"\b(?P<unit>{_any(UNITS)}) (?P<which>{_any(_LAST | _NEXT)})\b"
SEASON = (
    rf"\b(?:im|au|en|in|no|na|cet|diesen|in diesem|la|l') ?(?P<which>)(?P<season>{_any(SEASONS)})\b"
    rf"(?: (?:de )?{_YEAR})?",
    rf"(?<!\w)(?P<which>)(?P<season>весной|летом|осенью|зимой|(?:ilk|son)?baharda|yazın|kışın)\b(?: {_YEAR})?",
)
NEAR_DAY = rf"(?<!bis )(?<!à )(?<!até )(?<!до )(?<!\w)(?:{_any(DAYS)})(?!\w)"
_GREETS = ("bis", r"\bam", "guten", "schönen", "jeden", "den", "der", "tag", "heute", "gestern")
MORGEN = "".join(f"(?<!{word} )" for word in _GREETS) + r"\bmorgen(?= (?!zusammen|allerseits)\w)"
_RARE = {word for words in (MONTHS, DAYS, UNITS, SEASONS, BACK) for each in words for word in re.findall(r"\w+", each)}
TELLING = (_RARE | {"il", "morgen"}) - {"an", "week", "end"}
"""Words of which a text that names a day has one."""
