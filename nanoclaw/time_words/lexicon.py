"""The words of time in eight languages, each as the marks that the rules of `phrase` read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

# One letter for each kind of mark; the rules are written in these letters.
#   n number   A "an"      O ordinal  Y year   C time of day   H "17h30"    D date    w weekday  v "mondays"
#   W weekdays, weekends   E weekend  m month  u unit  U hour  d day from today  K week, N month from this one
#   p part of the day      z zone     i in     g from now      e every      x next    k coming   t this
#   l last     L last day of the month         B of the month  o other      a at      j the (before a day)
#   c o'clock  M midnight  r until    h half   q quarter       T three quarters       f and a half
#   Q and a quarter        R less a quarter    > past          < to         & and     ~ about    . says nothing
#   G each, said after it  F from     X what bounds a repeat   , says nothing, but something follows


@dataclass(frozen=True, slots=True)
class Language:
    """`entries` are marks and the phrases that stand for them; names are parted by "|", days begin with Monday."""

    name: str
    entries: str
    weekdays: str
    months: str
    numbers: tuple[str, ...]

    @property
    def is_cjk(self) -> bool:
        return self.name in ("zh", "ja")


Mark = tuple[str, str]
"""A letter and its value."""


@cache
def lexicon(language: Language) -> Mapping[str, tuple[Mark, ...]]:
    """Folded words or phrases, their words parted by one space, and the marks they stand for."""
    found: dict[str, tuple[Mark, ...]] = {}
    for number, names in enumerate(language.numbers):
        for name in names.split("|"):
            for spelling in _spellings(name):
                found.setdefault(spelling, (("n", str(number)),))
    for letter, table in (("w", language.weekdays), ("m", language.months)):
        for number, names in enumerate(table.split(), letter == "m"):
            for name in names.split("|"):
                found |= dict.fromkeys(_spellings(name.replace("_", " ")), ((letter, str(number)),))
    for line in language.entries.strip().splitlines():
        marks, _, phrases = line.strip().partition(" = ")
        value = tuple(_mark(one) for one in marks.split())
        for phrase in phrases.split("|"):
            for spelling in _spellings(counted(phrase.strip()) if language.is_cjk else phrase.strip()):
                found[spelling] = ((marks, spelling),) if marks in _BOUNDS else value
    if language.name == "zh":
        found |= _glued(found)
    if language.name == "de":
        found |= _glued_parts(found)
    return found


def _spellings(phrase: str) -> set[str]:
    """As it is folded, and as it is written where the keyboard has no umlauts."""
    return {phrase} if phrase.isascii() else {folded(phrase), phrase.translate(_TWO_LETTERS)}


_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


def folded(text: str) -> str:
    """Small letters, no accents, plain digits and spaces."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    text = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", text))
    return " ".join(text.replace("’", "'").split())


def _glued_parts(found: Mapping[str, tuple[Mark, ...]]) -> dict[str, tuple[Mark, ...]]:
    """Sonntagabend is one word."""
    parts = {"morgen": "morning", "vormittag": "morning", "nachmittag": "afternoon", "abend": "evening"}
    return {
        phrase + ending: (*marks, ("p", f"{part}s" if ending.endswith("s") else part))
        for phrase, marks in found.items()
        if marks[0][0] == "w" and len(phrase) > 2
        for word, part in parts.items()
        for ending in (word, word + "s", f" {word}")
    }


def _glued(found: Mapping[str, tuple[Mark, ...]]) -> dict[str, tuple[Mark, ...]]:
    """下周五 is one word, whose 周 belongs to both the week and the day."""
    weeks = {phrase: marks for phrase, marks in found.items() if phrase.endswith(("周", "星期", "礼拜", "週"))}
    return {
        phrase + day: (*(mark for mark in marks if mark != ("u", "w1")), ("w", str(number)))
        for phrase, marks in weeks.items()
        for number, names in enumerate(("一", "二", "三", "四", "五", "六", "日天"))
        for day in names
    }


_BOUNDS = ("r", "F", "X")
"""Marks that have their own word as value, which is told where they have no place."""


def _mark(text: str) -> Mark:
    return text[0], text[1:]


def _composed(ones: str, tens: str, joined: str, up_to_twenty: int = 20) -> tuple[str, ...]:
    """The names of 0 to 59: those below `up_to_twenty` are listed, the others put together of tens and ones."""
    names = ones.split()
    for number in range(up_to_twenty, 60):
        ten = tens.split()[number // 10 - 2]
        one = names[number % 10].split("|")[0]
        names.append(ten if number % 10 == 0 else joined.format(ten=ten, one=one))
    return tuple(name.replace("_", " ") for name in names)


ENGLISH = Language(
    "en",
    """
    i = in
    g = from now|from today|later|hence
    g- = ago
    e = every|each|every single
    e ud1 = daily|everyday
    e U = hourly
    e o = every second|each second
    e uw1 = weekly
    e uw2 = fortnightly
    e um1 = monthly
    e uy1 = yearly|annually
    d0 = today
    d1 = tomorrow|tmrw|tmr|tommorow|tommorrow|tomorow
    d2 = day after tomorrow|the day after tomorrow
    d-1 = yesterday
    d0 pnight = tonight|this night
    d0 pmorning = this morning
    d0 pafternoon = this afternoon
    d0 pevening = this evening
    d1 pnight = tomorrow night
    x = next
    k = coming|upcoming|this coming
    t = this
    l = last
    K0 = this week
    K1 = next week
    N0 = this month
    N1 = next month
    L = last day|last day of the month|last day of this month|last day of month|end of the month|end of month
    L e = last day of every month|last day of each month|end of every month|end of each month
    B = of the month|in the month
    B e = of every month|of each month|in every month
    h = half
    q = quarter|a quarter
    > = past|after
    < = to|before
    f = and a half
    & = and
    a = at
    j = on|the
    , = of
    . = please|sharp|exactly
    pmorning = morning|in the morning
    pmornings = mornings|in the mornings
    pafternoon = afternoon|in the afternoon
    pafternoons = afternoons|in the afternoons
    pevening = evening|in the evening
    pevenings = evenings|in the evenings
    pnight = night|at night|in the night
    pnights = nights
    e ud1 pnight = nightly
    pam = am|a m
    ppm = pm|p m
    C12:00 = noon|midday|12 noon
    M = midnight
    c = o clock|oclock
    ~ = or so|about|around|roughly|approximately|ish|circa|maybe|or something
    ~ = sometime|some time|some point|at some point
    us1 = second|seconds|sec|secs
    us60 = minute|minutes|min|mins|m
    U = hour|hours|hr|hrs|h
    ud1 = day|days
    uw1 = week|weeks
    uw2 = fortnight|fortnights
    um1 = month|months
    uy1 = year|years
    us1800 = half an hour|half hour|a half hour
    us900 = quarter of an hour|a quarter of an hour|quarter hour
    us2700 = three quarters of an hour
    o = other
    r = through|thru|till|until
    X = except|excluding|only|but not|for|for the next|starting|beginning|ending|since|between|during|without
    F = from
    W1-5 = weekday|weekdays|workday|workdays|work day|work days|working day|working days|business day|business days
    E6,0 = weekend
    W6,0 = weekends
    v0 = mondays
    v1 = tuesdays
    v2 = wednesdays
    v3 = thursdays
    v4 = fridays
    v5 = saturdays
    v6 = sundays
    A1 = a|an
    n2 = a couple of
    O1 = first
    O2 = second of|second day
    O3 = third
    O4 = fourth
    O5 = fifth
    O6 = sixth
    O7 = seventh
    O8 = eighth
    O9 = ninth
    O10 = tenth
    """,
    "monday|mon tuesday|tue|tues wednesday|wed thursday|thu|thurs friday|fri saturday|sat sunday|sun",
    "january|jan february|feb march|mar april|apr may june|jun july|jul august|aug september|sep|sept "
    "october|oct november|nov december|dec",
    _composed(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen",
        "twenty thirty forty fifty",
        "{ten} {one}",
    ),
)

GERMAN = Language(
    "de",
    """
    i = in
    g- = vor
    e = jeden|jede|jedes|jeder|alle
    e ud1 = täglich
    e ud1 pmorning = jeden morgen
    e U = stündlich
    e uw1 = wöchentlich
    e um1 = monatlich
    e uy1 = jährlich
    d0 = heute
    d1 = morgen
    d2 = übermorgen
    d-1 = gestern
    d0 pmorning = heute morgen|heute früh|heute vormittag
    d0 pafternoon = heute nachmittag
    d0 pevening = heute abend
    d0 pnight = heute nacht
    d1 pmorning = morgen früh|morgen vormittag
    pmorning = früh|am morgen|am vormittag|in der früh|vormittag
    pmornings = morgens|vormittags
    pnoons = mittags
    pafternoon = am nachmittag|nachmittag
    pafternoons = nachmittags
    pevening = am abend|abend
    pevenings = abends
    pnight = in der nacht|nacht
    pnights = nachts
    C12:00 = mittag|zu mittag
    M = mitternacht
    x = nächsten|nächste|nächster|nächstes
    k = kommenden|kommende|kommender
    t = diesen|diese|dieser|dieses
    l = letzten|letzte|letzter
    K0 = diese woche|dieser woche
    K1 = nächste woche|nächster woche|kommende woche
    N0 = diesen monat|dieses monats
    N1 = nächsten monat|nächster monat|nächsten monats|kommenden monat|kommenden monats
    L = letzten tag|letzter tag|letzten tag des monats|letzter tag des monats|letzten tag im monat|letzter tag im monat
    L = monatsletzten|monatsende|ende des monats
    L e = letzten tag jedes monats|letzten tag jeden monats
    B = des monats|im monat
    B e = jeden monats|jedes monats|jeden monat
    h = halb
    q = viertel
    T = dreiviertel
    > = nach
    < = vor
    & = und
    a = um
    j = am|an|den|dem|der
    , = die|das|des|im|von
    . = genau|punkt|bitte|dann
    c = uhr
    ~ = irgendwann|gegen|circa|ca|etwa|ungefähr|oder so|so gegen
    us1 = sekunde|sekunden
    us60 = minute|minuten|min
    U = stunde|stunden|std|h
    ud1 = tag|tage|tagen
    uw1 = woche|wochen
    um1 = monat|monate|monaten
    uy1 = jahr|jahre|jahren
    us1800 = halbe stunde|halben stunde|einer halben stunde|eine halbe stunde
    us900 = viertelstunde|einer viertelstunde|viertel stunde
    us2700 = dreiviertelstunde|einer dreiviertelstunde
    n1.5 = anderthalb|eineinhalb
    n2.5 = zweieinhalb
    n3.5 = dreieinhalb
    o = zweiten|zweite|zweiter
    r = bis
    X = außer|nur|ab|seit|ohne|nicht|während|zwischen
    W1-5 = werktag|werktags|arbeitstag|wochentag|wochentags|werktagen|werktage
    E6,0 = wochenende
    W6,0 = wochenenden
    v0 = montags
    v1 = dienstags
    v2 = mittwochs
    v3 = donnerstags
    v4 = freitags
    v5 = samstags|sonnabends
    v6 = sonntags
    A1 = ein|eine|einer|einem|einen
    O1 = ersten|erster
    O3 = dritten
    O4 = vierten
    """,
    "montag|mo dienstag mittwoch|mi donnerstag freitag|fr samstag|sonnabend|sa sonntag",
    "januar|jan|jänner februar|feb märz april|apr mai juni|jun juli|jul august|aug september|sep|sept oktober|okt "
    "november|nov dezember|dez",
    _composed(
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
        "siebzehn achtzehn neunzehn",
        "zwanzig dreißig|dreizig vierzig fünfzig",
        "{one}und{ten}",
    ),
)

FRENCH = Language(
    "fr",
    """
    i = dans|d ici
    g- = il y a
    e = tous les|toutes les|chaque|tous
    e ud1 = quotidiennement|tous les jours
    e uw1 = toutes les semaines|chaque semaine
    e um1 = tous les mois
    d0 = aujourd hui
    d1 = demain
    d2 = apres demain
    d-1 = hier
    d0 pmorning = ce matin
    d0 pafternoon = cet apres midi|cet aprem
    d0 pevening = ce soir
    d0 pnight = cette nuit
    pmorning = matin|du matin|le matin
    pmornings = matins
    pafternoon = apres midi|de l apres midi|l apres midi
    pevening = soir|du soir|le soir
    pevenings = soirs
    pnight = de la nuit|la nuit|nuit
    pnights = nuits
    C12:00 = midi
    M = minuit
    x = prochain|prochaine
    t = ce|cette
    l = dernier|derniere
    K0 = cette semaine
    K1 = semaine prochaine|la semaine prochaine
    N0 = ce mois ci
    N1 = mois prochain|du mois prochain
    L = dernier jour du mois|fin du mois
    L e = dernier jour de chaque mois
    B = du mois
    B e = de chaque mois|chaque mois
    f = et demie|et demi
    Q = et quart|un quart
    R = moins le quart|moins quart
    < = moins
    & = et
    a = a
    j = le
    , = l|la|les|de|d|du
    . = precises|pile|s il vous plait
    c = h
    ~ = vers|un de ces jours|environ|a peu pres|autour de
    us1 = seconde|secondes
    us60 = minute|minutes|min|mn
    U = heure|heures
    ud1 = jour|jours
    uw1 = semaine|semaines
    um1 = mois
    uy1 = an|ans|annee|annees
    us1800 = demi heure|une demi heure|demie heure|une demie heure|demi heures
    us900 = quart d heure|un quart d heure
    us2700 = trois quarts d heure
    o = deuxieme|autre
    r = au|jusqu au|jusqu a|jusqu en
    X = sauf|seulement|uniquement|pendant|a partir|depuis|excepte|hors|entre|pas
    W1-5 = jour ouvrable|jours ouvrables|jour de semaine|jours de semaine
    W1-5 = jour ouvre|jours ouvres|jours de la semaine|en semaine
    E6,0 = week end|weekend
    W6,0 = week ends|weekends
    e W1-5 = tous les jours ouvrables|tous les jours ouvres|tous les jours de semaine|tous les jours de la semaine
    v0 = lundis
    v1 = mardis
    v2 = mercredis
    v3 = jeudis
    v4 = vendredis
    v5 = samedis
    v6 = dimanches
    A1 = un|une
    O1 = premier|premiers|1er
    O3 = troisieme
    O4 = quatrieme
    """,
    "lundi|lun mardi mercredi|mer jeudi|jeu vendredi|ven samedi|sam dimanche|dim",
    "janvier|janv fevrier|fevr mars avril|avr mai juin juillet|juil aout septembre octobre|oct novembre|nov "
    "decembre|dec",
    _composed(
        "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix_sept "
        "dix_huit dix_neuf",
        "vingt trente quarante cinquante",
        "{ten} {one}",
    ),
)

SPANISH = Language(
    "es",
    """
    i = en|dentro de
    g- = hace
    e = cada|todos los|todas las|todos
    e ud1 = diariamente|a diario|todos los dias
    e ud1 pmorning = todas las mananas|cada manana
    e ud1 pnight = todas las noches|cada noche
    e ud1 pafternoon = todas las tardes|cada tarde
    e ud1 a = cada dia a|cada dia a las|cada dia a la
    e W1-5 = todos los dias laborables|todos los dias habiles
    e uw1 = todas las semanas|semanalmente
    e um1 = mensualmente|todos los meses
    d0 = hoy
    d1 = manana
    d2 = pasado manana
    d-1 = ayer
    d0 pmorning = esta manana
    d0 pafternoon = esta tarde
    d0 pnight = esta noche
    d1 pmorning = manana por la manana
    pmorning = de la manana|por la manana
    pmornings = por las mananas
    pafternoons = por las tardes
    pnights = por las noches
    pafternoon = de la tarde|por la tarde|tarde
    pnight = de la noche|por la noche|noche
    pdawn = de la madrugada|de madrugada
    C12:00 = mediodia|del mediodia|al mediodia
    M = medianoche
    x = proximo|proxima
    k = que viene|el proximo
    t = este|esta
    l = ultimo
    K0 = esta semana
    K1 = proxima semana|la proxima semana|la semana que viene|semana que viene
    N0 = este mes|de este mes
    N1 = proximo mes|el proximo mes|del proximo mes|mes que viene|el mes que viene|del mes que viene
    L = ultimo dia del mes|fin de mes|final de mes
    L e = ultimo dia de cada mes
    B = del mes
    B e = de cada mes|cada mes
    f = y media
    Q = y cuarto
    R = menos cuarto
    < = menos
    & = y
    a = a|a las|a la|las
    j = el|el dia|dia
    , = al|la|los|de|del
    . = en punto|por favor
    c = h
    ~ = en algun momento|sobre las|alrededor de|mas o menos|aproximadamente|hacia|sobre
    us1 = segundo|segundos
    us60 = minuto|minutos|min
    U = hora|horas
    ud1 = dias
    uw1 = semana|semanas
    um1 = mes|meses
    uy1 = ano|anos
    us1800 = media hora
    us900 = cuarto de hora|un cuarto de hora
    us2700 = tres cuartos de hora
    A1 = un|una
    r = hasta
    X = excepto|salvo|menos los|menos el|solo|solamente|durante|por|a partir|entre|no
    F = desde
    W1-5 = dia laborable|dias laborables|dia habil|dias habiles|entre semana
    E6,0 = fin de semana
    W6,0 = fines de semana
    v0 = los lunes
    v1 = los martes
    v2 = los miercoles
    v3 = los jueves
    v4 = los viernes
    v5 = los sabados|sabados
    v6 = los domingos|domingos
    e w5 = todos los sabados
    e w6 = todos los domingos
    O1 = primero|primer
    O3 = tercer|tercero
    """,
    "lunes|lun martes miercoles|mie jueves|jue viernes|vie sabado|sab domingo|dom",
    "enero|ene febrero|feb marzo abril|abr mayo junio|jun julio|jul agosto|ago septiembre|setiembre|sept octubre|oct "
    "noviembre|nov diciembre|dic",
    _composed(
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete "
        "dieciocho diecinueve veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete "
        "veintiocho veintinueve",
        "veinte treinta cuarenta cincuenta",
        "{ten} y {one}",
        30,
    ),
)

ITALIAN = Language(
    "it",
    """
    i = tra|fra
    g- = fa
    e = ogni|tutti i|tutte le
    e ud1 = quotidianamente|ogni giorno|tutti i giorni
    e W1-5 = tutti i giorni feriali|ogni giorno feriale
    d0 = oggi
    d1 = domani
    d2 = dopodomani
    d-1 = ieri
    d0 pmorning = stamattina|questa mattina
    d0 pafternoon = questo pomeriggio
    d0 pevening = stasera|questa sera
    d0 pnight = stanotte
    d1 pmorning = domattina|domani mattina
    pmorning = di mattina|del mattino|mattina|della mattina
    pafternoon = del pomeriggio|di pomeriggio|pomeriggio
    pevening = di sera|della sera|sera
    pnight = di notte|della notte|notte
    C12:00 = mezzogiorno|a mezzogiorno
    M = mezzanotte|a mezzanotte
    x = prossimo|prossima
    t = questo|questa
    l = ultimo
    N1 = prossimo mese|il prossimo mese|del prossimo mese|mese prossimo|del mese prossimo
    L = ultimo giorno del mese|fine mese
    L e = ultimo giorno di ogni mese
    B = del mese
    B e = di ogni mese|ogni mese
    f = e mezza|e mezzo
    Q = e un quarto|e quarto
    R = meno un quarto
    < = meno
    & = e
    a = a|alle|all|alle ore
    j = il
    , = di|l|del|la|i
    . = in punto
    ~ = verso|verso le|circa
    us1 = secondo|secondi
    us60 = minuto|minuti|min
    U = ora|ore
    ud1 = giorno|giorni
    uw1 = settimana|settimane
    um1 = mese|mesi
    uy1 = anno|anni
    us1800 = mezz ora|mezzora
    us900 = un quarto d ora|quarto d ora
    A1 = un|una
    r = al|fino a|fino al|fino alle
    X = tranne|eccetto|salvo|solo|soltanto|per|durante|a partire
    F = dal|da
    W1-5 = giorno feriale|giorni feriali|giorno lavorativo
    E6,0 = fine settimana
    """,
    "lunedi|lun martedi mercoledi|mer giovedi|gio venerdi|ven sabato|sab domenica|dom",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    _composed(
        "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici "
        "diciassette diciotto diciannove",
        "venti trenta quaranta cinquanta",
        "{ten}{one}",
    ),
)

PORTUGUESE = Language(
    "pt",
    """
    i = em|daqui a|dentro de
    g- = ha
    e = cada|todo|toda|todos os|todas as
    e ud1 = diariamente|todos os dias|todo dia
    e W1-5 = todos os dias uteis|todo dia util
    d0 = hoje
    d1 = amanha
    d2 = depois de amanha
    d-1 = ontem
    d0 pmorning = esta manha|hoje de manha
    d0 pafternoon = esta tarde|hoje a tarde
    d0 pnight = esta noite|hoje a noite
    d1 pmorning = amanha de manha
    pmorning = da manha|de manha|pela manha
    pafternoon = da tarde|a tarde|de tarde
    pnight = da noite|a noite|de noite
    pdawn = da madrugada
    C12:00 = meio dia|ao meio dia
    M = meia noite|a meia noite
    x = proximo|proxima
    k = que vem
    t = este|esta
    l = ultimo
    N1 = proximo mes|do proximo mes|no proximo mes|mes que vem|do mes que vem
    L = ultimo dia do mes|fim do mes
    L e = ultimo dia de cada mes
    B = do mes
    B e = de cada mes|cada mes
    f = e meia|e meio
    & = e
    a = as|a
    j = o|o dia|dia|no dia
    , = de|da|do|na|no
    . = em ponto
    c = h
    ~ = por volta das|cerca de|umas
    us1 = segundo|segundos
    us60 = minuto|minutos|min
    U = hora|horas
    ud1 = dias
    uw1 = semana|semanas
    um1 = mes|meses
    uy1 = ano|anos
    us1800 = meia hora
    A1 = um|uma
    n2 = duas
    r = ate
    X = exceto|menos|salvo|so|somente|apenas|por|durante|a partir
    F = desde
    W1-5 = dia util|dias uteis
    E6,0 = fim de semana
    W6,0 = fins de semana
    """,
    "segunda|segunda_feira terca|terca_feira quarta|quarta_feira quinta|quinta_feira sexta|sexta_feira sabado domingo",
    "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
    _composed(
        "zero um dois tres quatro cinco seis sete oito nove dez onze doze treze quatorze|catorze quinze dezesseis "
        "dezessete dezoito dezenove",
        "vinte trinta quarenta cinquenta",
        "{ten} e {one}",
    ),
)

CHINESE = Language(
    "zh",
    """
    g = 后|後|之后|之後|以后|以後
    g- = 前|之前|以前
    e = 每|每个|每個|每逢
    e~ = 每隔
    e ud1 = 每天|每日|天天
    e uw1 = 每周|每星期|每个星期|每礼拜|每週|每個星期
    e um1 = 每月|每个月|每個月
    e uy1 = 每年
    e U = 每小时|每个小时|每小時|每個小時
    e W1-5 = 每个工作日|每個工作日|每工作日
    d0 = 今天|今日
    d1 = 明天|明日
    d2 = 后天|後天
    d3 = 大后天|大後天
    d-1 = 昨天|昨日
    d0 pmorning = 今早|今晨
    d0 pevening = 今晚|今夜
    d1 pmorning = 明早|明晨
    d1 pevening = 明晚
    pdawn = 凌晨
    pmorning = 早上|上午|早晨|早|清晨
    pnoon = 中午
    pafternoon = 下午|午后
    pevening = 晚上|傍晚|晚|夜里|夜裡
    pnight = 半夜|深夜
    C12:00 = 正午
    M = 午夜
    K0 = 这周|这个星期|本周|这星期|這週|本週|这礼拜
    K1 = 下周|下个星期|下星期|下週|下個星期|下礼拜|下个礼拜
    K2 = 下下周|下下星期|下下个星期
    N0 = 这个月|本月|這個月
    N1 = 下个月|下月|下個月
    N1 L = 下个月底|下月底|下個月底|下个月最后一天|下個月最後一天
    k = 这|這
    L = 月底|本月最后一天|这个月最后一天|月末
    L e = 每月最后一天|每个月最后一天|每月底|每个月底|每月的最后一天|每个月的最后一天|每月最後一天
    h = 半
    f = 个半|個半
    q = 一刻
    T = 三刻
    < = 差
    c = 点|點|点钟|點鐘|时|時|点整|點整
    . = 的|在|于|於|整|请|，|、|。|再过|过
    & = 和|跟
    r = 到|至|直到|直至
    X = 除了|除|不包括|只|仅|仅在|持续|开始|開始
    F = 从|從
    ~ = 左右|大约|大約|大概|前后|约
    us1 = 秒|秒钟
    us60 = 分|分钟|分鐘
    U = 小时|个小时|小時|個小時|钟头|个钟头
    ud1 = 天
    uw1 = 周|星期|个星期|週|個星期|礼拜
    um1 = 个月|個月|月
    uy1 = 年
    us1800 = 半小时|半个小时|半小時|半個小時|半个钟头
    us900 = 一刻钟|一刻鐘
    us2700 = 三刻钟
    w6 = 星期天|周天|礼拜天|礼拜日|週日|星期日
    W1-5 = 工作日
    E6,0 = 周末|週末|这个周末|这周末|本周末|下周末|下个周末
    e W6,0 = 每个周末|每周末
    O1 = 第一个|第一個
    O2 = 第二个|第二個
    O3 = 第三个|第三個
    O4 = 第四个|第四個
    l = 最后一个|最後一個
    e ud2 = 隔天|每隔一天
    """,
    "星期一|周一|礼拜一|週一 星期二|周二|礼拜二|週二 星期三|周三|礼拜三|週三 星期四|周四|礼拜四|週四 "
    "星期五|周五|礼拜五|週五 星期六|周六|礼拜六|週六 星期日|周日|礼拜日",
    "",
    (),
)

JAPANESE = Language(
    "ja",
    """
    g = 後|後に|あと|あとに|たったら
    g- = 前
    e = 毎
    G = ごと|ごとに
    G~ = おき|おきに
    U G = 時間毎|時間毎に
    us60 G = 分毎|分毎に
    ud1 G = 日毎|日毎に
    e ud1 = 毎日|日々
    e ud1 pmorning = 毎朝
    e ud1 pevening = 毎晩
    e uw1 = 毎週
    e um1 = 毎月
    e uy1 = 毎年
    e U = 毎時|毎時間
    e W1-5 = 平日毎日|毎平日
    d0 = 今日|きょう|本日
    d1 = 明日|あした|あす
    d2 = 明後日|あさって
    d-1 = 昨日|きのう
    d0 pmorning = 今朝|けさ
    d0 pevening = 今晩|今夜
    d1 pmorning = 明朝
    d1 pevening = 明晩
    pdawn = 未明
    pmorning = 朝|午前|早朝|午前中
    pnoon = 昼|お昼
    pafternoon = 午後
    pevening = 夜|夕方|晩
    pnight = 深夜|真夜中
    C12:00 = 正午
    K0 = 今週
    K1 = 来週
    K2 = 再来週
    N0 = 今月
    N1 = 来月
    N1 L = 来月末|来月の最終日
    L = 月末|月の最終日|今月末|今月の最終日
    L e = 毎月末|毎月末日|毎月最終日|毎月の最終日|毎月の最後の日
    k = 次|今度
    h = 半
    c = 時|じ
    . = の|に|を|は|ちょうど|、|。|お願い|になったら
    & = と
    r = から|〜|まで
    X = 以外|だけ|のみ|除く|除いて|を除く|を除いて
    ~ = ごろ|頃|くらい|ぐらい|およそ|約
    us1 = 秒|秒間
    us60 = 分|分間
    U = 時間
    ud1 = 日間|日
    uw1 = 週間|週
    um1 = か月|ヶ月|カ月|ヵ月|ヶ月間|か月間
    uy1 = 年
    us1800 = 半時間
    W1-5 = 平日
    E6,0 = 週末|今週末|来週末
    W6,0 = 土日
    e W6,0 = 毎週末
    O1 = 第一|第1
    O2 = 第二|第2
    O3 = 第三|第3
    O4 = 第四|第4
    l = 最後の
    e ud2 = 一日おき|一日おきに|隔日
    e uw2 = 隔週
    """,
    "月曜日|月曜 火曜日|火曜 水曜日|水曜 木曜日|木曜 金曜日|金曜 土曜日|土曜 日曜日|日曜",
    "",
    (),
)

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, CHINESE, JAPANESE)


def counted(text: str) -> str:
    """Chinese numerals as digits where they count something, but not within a word such as 星期三."""
    return re.sub(_COUNTED, lambda found: str(_numeral(found[0])), text)


def _numeral(text: str) -> int:
    """The value of a run of numerals such as 二十五."""
    if not set(text) & set(_SCALES):
        return int("".join(str(_DIGITS[sign]) for sign in text))
    total = pending = 0
    for sign in text:
        if sign in _SCALES:
            total += (pending or 1) * _SCALES[sign]
            pending = 0
        else:
            pending = _DIGITS[sign]
    return total + pending


_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_SCALES = {"十": 10, "百": 100}
_NUMERALS = "".join(_DIGITS) + "".join(_SCALES)
_COUNTED = rf"(?<![周期拜週第])[{_NUMERALS}]+(?=[月日号號点點時时分秒刻小个個天周星週年かヶカヵ礼]|半小|半時)"
