"""What an answer says it has written, noted, set, sent or deleted: sentences in seven languages that tell of effects.

Plans, questions, negations, conditions, quotations and code are no claims. Where it is not certain, nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

Kind = Literal["file", "note", "reminder", "calendar", "mail", "deletion"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A effect that a sentence tells of. `names` are files that it names; `earlier` when it says that it was before;
    `is_word` when it is no more than "Noted.", which may only mean "I see", or "I'll remind you" and "I'll remember",
    which are true only of what is set or noted."""

    kind: Kind
    sentence: str
    names: tuple[str, ...] = ()
    earlier: bool = False
    is_word: bool = False


def claims(text: str) -> list[Claim]:
    """What an answer claims to have done, at most one claim for each sentence."""
    folded = text.casefold()
    languages = [
        number for number, (words, _) in enumerate(_LANGUAGES) if any(word in folded for word in words.split("|"))
    ]
    patterns = [pattern for number in languages for pattern in _compiled(number)]
    if not patterns:
        return []
    return [claim for sentence in _sentences(_spoken(text)) if (claim := _claim(sentence, patterns))]


def keeps_to(text: str, claim: Claim) -> bool:
    """Whether an answer that was sent back for a claim still tells of the effect, in whatever words: a sentence
    says yes or names the file, or what else it is about, and no word in it takes that back."""
    return any(
        re.search(_STILL, sentence, _I) or any(name in sentence for name in claim.names) or _is_about(sentence, claim)
        for sentence in _sentences(_spoken(text))
        if not re.search(rf"{_NOT}|{_ASKS}|[?？]", sentence, _I)
    )


def _is_about(sentence: str, claim: Claim) -> bool:
    about = _ABOUT.get(claim.kind)
    return not claim.names and about is not None and re.search(about, sentence, _I) is not None


def _claim(sentence: str, patterns: Sequence[re.Pattern[str]]) -> Claim | None:
    if "?" in sentence or "？" in sentence:
        return None
    for pattern in patterns:
        for told in pattern.finditer(sentence):
            if not _is_undone(sentence, told) and (kind := _kind(sentence, told["verb"].casefold())):
                names = tuple(re.findall(_NAME, sentence))
                earlier, is_word = re.search(_EARLIER, sentence, _I) is not None, "word" in pattern.groupindex
                return Claim(kind, sentence.strip(), names, earlier, is_word)
    return None


def _is_undone(sentence: str, told: re.Match[str]) -> bool:
    """Whether the words around a effect say that it did not happen, or may."""
    before, after = sentence[: told.start()], sentence[told.end() : told.end() + 14]
    return bool(
        re.search(_NOT, told[0], _I)
        or re.match(_NOTHING, after, _I)
        or re.search(_NOT_YET, before[-14:], _I)
        or re.search(_IF, before[-40:], _I)
    )


def _kind(sentence: str, verb: str) -> Kind | None:
    if re.fullmatch(_PROMISES, verb):
        return None if re.search(_ASKS, sentence, _I) else "reminder"
    if re.fullmatch(_REMEMBERS, verb):
        return None if re.search(_ASKS, sentence, _I) else "note"
    if re.fullmatch(_DELETES, verb):
        return "deletion"
    if re.fullmatch(_SENDS, verb):
        return "mail"
    if re.search(_NAME, sentence):
        return None if re.fullmatch(_SETS, verb) else "file"
    if re.search(_REMINDER, sentence, _I):
        return None if re.fullmatch(_NOTES, verb) else "reminder"
    if re.search(_CALENDAR, sentence, _I):
        return None if re.fullmatch(_NOTES, verb) else "calendar"
    if re.search(_FILE, sentence, _I):
        return "file"
    if re.fullmatch(_NOTES, verb) or (re.search(_NOTE, sentence, _I) and not re.fullmatch(_SETS, verb)):
        return "note"
    return "file" if re.fullmatch(_SAVES, verb) else None


# --- what is spoken --------------------------------------------------------------------------------------------------


def _spoken(text: str) -> str:
    """Without code, quotations and addresses of the web; names of files stay."""
    text = re.sub(r"(?ms)^ *(```|~~~).*?(?:^ *\1[^\n]*$|\Z)", "\n", text)
    text = re.sub(r"(?m)^ *>.*$", "", text)
    text = re.sub(r"https?://\S+", "", text)
    return re.sub(_QUOTED, _name_only, text).replace("**", "").replace("__", "")


def _name_only(quoted: re.Match[str]) -> str:
    inner = next(group for group in quoted.groups() if group is not None)
    return f" {inner} " if re.fullmatch(_NAME, inner.strip()) else " … "


def _sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for part in re.findall(r"[^。！？；]+[。！？；]?", line):
            yield from re.split(r"(?<=[.!?…])\s+|(?<=;)\s|\s[–—-]{1,2}\s", part)


_I = re.IGNORECASE
_QUOTED = (
    r"`([^`\n]*)`|“([^”\n]*)”|„([^“”\n]*)[“”]|«([^»\n]*)»|\"([^\"\n]*)\"|「([^」\n]*)」|『([^』\n]*)』"
    r"|(?<!\w)['‘](?=\S)((?:[^'‘’\n]|(?<=\w)['’](?=\w)){0,300})(?<=\S)['’](?!\w)"
)
_EXTENSIONS = (
    "md|txt|csv|tsv|json|toml|ya?ml|xml|html?|css|jsx?|tsx?|py|sh|sql|log|ini|cfg|conf|org|rst|tex|rtf|ics|pdf|docx?"
    "|xlsx?|pptx?|odt|png|jpe?g|gif|svg|c|h|cpp|java|go|rs|rb|zip"
)
_PATH = rf"(?:[A-Za-z0-9_À-ÿ.\-]+/)*[A-Za-z0-9_À-ÿ.\-]*[A-Za-z0-9_À-ÿ\-]\.(?:{_EXTENSIONS})(?![A-Za-z0-9_/])"
_NAME = rf"(?<![A-Za-z0-9_À-ÿ/.\-]){_PATH}"

# --- what is told of -------------------------------------------------------------------------------------------------

_REMINDER = (
    r"\breminders?\b|\balarms?\b|\berinnerung(?:en)?\b|\bwecker\b|\brappels?\b|\balarmes?\b|\brecordatorios?\b"
    r"|\balarmas?\b|\bpromemoria\b|\bsveglia\b|\blembretes?\b|提醒|闹钟"
)
_CALENDAR = (
    r"\b(?:to|in|into|on) (?:your|the|my) (?:\w+ )?calendar\b"
    r"|\bi[nm] (?:(?:den|deinen?|deinem|ihren?|ihrem) )?kalender\b"
    r"|\b(?:à|dans|sur) (?:ton|votre|le) calendrier\b|\b(?:al?|en) (?:(?:tu|su|el) )?calendario\b"
    r"|\b(?:al|nel|sul) (?:tuo )?calendario\b|\b(?:ao|no) (?:seu |teu )?calendário\b|日历|日程"
)
_FILE = (
    r"\bfiles?\b|\bdatei(?:en)?\b|\bfichiers?\b|\barchivos?\b|\bficheros?\b|\barquivos?\b|\bficheiros?\b|文件|文档"
    r"|\b(?:shopping|grocery|to-?do) list\b|\beinkaufsliste\b|\bliste de courses\b|\blista de (?:la compra|compras)\b"
    r"|\blista della spesa\b|购物清单|待办"
)
_NOTE = (
    r"\bnotes?\b|\bmemory\b|\bnotiz(?:en)?\b|\bgedächtnis\b|\bmémoire\b|\bnotas?\b|\bmemoria\b|\bappunt[oi]\b"
    r"|\bmemória\b|笔记|备忘|记忆"
)
_NOTES = (
    r"noted|jotted down|(?:wrote|written) (?:it|that|this|everything) down|made a note|taken a note|took a note"
    r"|noted down|memori[sz]ed|notiert|vermerkt|aufgeschrieben|gemerkt|festgehalten|noté\w*|mémorisé\w*|anotado"
    r"|apuntado|anoté|apunté|tomado nota|annotat\w|memorizzat\w|segnat\w|preso nota|anotei|memorizei"
    r"|记下\w*|记住|记录|备注"
)
_SETS = (
    r"set(?: up)?|scheduled|gestellt|gesetzt|programmé\w*|programado|programé|puesto|impostat\w|agendei|defini"
    r"|设置|设定|设好"
)
_DELETES = r"deleted|removed|erased|gelöscht|supprimée?s?|eliminad\w|borrad\w|eliminat\w|cancellat\w|apagad\w|删除|删掉"
_SENDS = (
    r"sent|forwarded|emailed|e-mailed|geschickt|gesendet|verschickt|abgeschickt|weitergeleitet|envoyée?s?|enviad\w|envié"
    r"|enviei|inviat\w|mandat\w|发送|发给|发出"
)
_PROMISES = r"remind(?:er)?|erinnere|erinnern|rappellerai|recordaré|ricorderò|lembrar(?:ei)?|提醒"
_REMEMBERS = (
    r"remember|keep (?:it|this|that) in mind|merke|merken|m['’]en souviendrai|me acordaré|me ne ricorderò"
    r"|(?:vou )?me lembrar(?:ei)?|记住|记得"
)
_ABOUT: dict[Kind, str] = {"file": _FILE, "note": _NOTE, "reminder": _REMINDER, "calendar": _CALENDAR}
_STILL = (
    r"^\W*(?:yes|ja|oui|s[íì]|sim|done|all set|erledigt|fertig|c['’]est fait|hecho|listo|fatto|feito|是的|完成|好了)"
    r"(?!\w)"
)
"""How an answer begins that stands by the one before it."""
_ASKS = (
    r"\b(?:if|once|when|whenever|unless|until|whether|should you|would you|let me know|just say|wenn|falls|sobald"
    r"|möchtest|si|quand|dès|voulez|veux|cuando|quieres|avísame|se|quando|vuoi|caso|quiser)\b|如果|要是|要不要|需要|吗|想"
)
"""What makes of a promise an offer."""
_SAVES = (
    r"saved|stored|gespeichert|abgespeichert|enregistré\w*|sauvegardé\w*|guardado|guardé|salvat\w|salvei|guardei"
    r"|gravei|保存|存"
)
_EARLIER = (
    r"\balready\b|\bearlier\b|\bbefore\b|\bpreviously\b|\byesterday\b|\bthis morning\b|\blast (?:week|time|month)\b"
    r"|\bschon\b|\bbereits\b|\bvorhin\b|\bgestern\b|\bheute (?:früh|morgen)\b|\bdéjà\b|\bhier\b|\btout à l['’]heure\b"
    r"|\bya\b|\bantes\b|\bayer\b|\bgià\b|\bieri\b|\bprima\b|\bjá\b|\bontem\b|之前|昨天|刚才|上次|早上|早就"
)

# --- when it is no effect --------------------------------------------------------------------------------------------

_NOT = (
    r"\b(?:can)?not\b|\bnever\b|n['’]t\b|\bnothing\b|\bnicht\b|\bnichts\b|\bkeine?\w*|\bnie\b|\bpas\b|\brien\b|\bjamais\b"
    r"|\baucun\w*|\bnada\b|\bnunca\b|\bniente\b|\bnulla\b|\bmai\b|没|未|不|无法|可以|能|会|将|想|要|如果|是否|请"
)
_NOTHING = r"\s*(?:nothing|nichts|keine?\w*|rien|aucun\w*|nada|niente|nulla|no (?:file|note|reminder))\b"
_NOT_YET = (
    r"\b(?:no|nunca|ni|non|não|nao|jamais|without|sin|senza|sem|keine?\w*|nicht)\s+"
    r"(?:(?:lo|la|le|te|me|se|l['’]|mi|ti|o|a)\s+)*$|没|未|不|别"
)
_IF = (
    r"\b(?:if|once|when|whenever|unless|until|whether|after|as soon as|in case|had|pretend|imagine"
    r"|you (?:said|asked|think)|wenn|falls|sobald|ob|als ob|bevor|nachdem|si|quand|lorsque|dès que|une fois que"
    r"|cuando|apenas|en cuanto|se|quando|appena|dopo che|assim que|caso)\b[^,.;:]*$|如果|要是|等我|一旦|假如|当我"
)


@cache
def _compiled(language: int) -> tuple[re.Pattern[str], ...]:
    """Compiled when a first answer has one of the words."""
    return tuple(re.compile(pattern, _I) for pattern in _LANGUAGES[language][1])


_JUST = (
    r"(?:['’]ve| have)?(?: (?:just|also|already|now|then|have|went ahead and|gone ahead and"
    r"|(?!near|hard|bare)\w+ly))*"
)
_OK = r"(?:(?:done|ok(?:ay)?|yes|got it|sure|all right)\W+)?"
_MAIL = r"(?:e-?mail|mail|text message|sms|invitation|invite)"
_W = r"[^\s,;:]*[^\s,;:.!]"
"""A word between others; a name of a file may have dots."""

# of each language the words without one of which there is no effect, and how effects are told
_LANGUAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (  # English: I have saved; saved to …; the reminder is set; reminder set
        "saved|stored|noted|wrote|written|created|added|record|remind|alarm|memori|jotted|updated|"
        "appended|scheduled|logged|exported|i put|ve put|have put|i made|ve made|have made|i set|ve set|"
        "have set|a note|note is|file is|now contains|now has|now holds|now includes|now lists|"
        "mail|sent|forwarded|deleted|removed|erased|remember|in mind",
        (
            rf"\bI{_JUST}"
            r" (?P<verb>saved|stored|noted(?! your (?:concern|point|feedback|question))|jotted down"
            r"|(?:wrote|written) (?:it|that|this|everything) down|made a note"
            r"|took a note"
            r"|taken a note|wrote|written|created|added|put|made|updated|appended|recorded|logged|memori[sz]ed"
            r"|set(?: up)?|scheduled|exported)\b",
            rf"^\W*{_OK}(?:all |it['’]s |it has been |that['’]s |this has been |everything is )?"
            r"(?:now )?"
            r"(?P<verb>saved|stored|written|added|created|noted down)(?=\W*$| (?:it |that |this )?(?:to|in|into|as"
            r"|under|for you)\b"
            rf"| {_PATH})",
            rf"\b(?:reminder|alarm|file(?: {_PATH})?|note)s?(?: for [^.,;]{{1,40}})? (?:is|are|has been|have been)"
            r"(?: now)? (?P<verb>set(?: up)?|scheduled|created|saved|written|stored|added)\b",
            rf"^\W*{_OK}{_PATH} (?:is|was|has been)(?: now)? (?P<verb>created|saved|written"
            r"|updated)\b",
            r"\b(?:is|are|was|were|has been|have been)(?: now)? (?P<verb>written|saved|added) (?:in)?to (?:the file )?"
            rf"{_PATH}",
            r"^\W*(?:ok(?:ay)?\W+|got it\W+|sure\W+|all right\W+)(?P<word>(?P<verb>noted)):",
            r"\bI(?:['’]ll| will| shall) (?:then |also )?(?P<word>(?P<verb>remind) you)\b"
            r"(?!:|,| (?:what|who|where|why|how|which|that)\b)",
            r"\bI(?:['’]ll| will| shall)(?: \w+)? (?P<word>(?P<verb>remember|keep (?:it|this|that) in mind))\b",
            r"\byou(?:['’]ll| will) (?:get|receive|have) (?P<word>(?:a|the|your) (?P<verb>reminder))\b",
            rf"^\W*{_OK}(?:reminder|alarm|file|note) (?P<verb>set|scheduled|created|saved|written"
            r"|added)\b",
            rf"(?:\bfile |^\W*{_OK}){_PATH} now (?P<verb>contains|has|holds|includes|lists)\b",
            rf"^\W*{_OK}(?P<word>(?P<verb>noted))\W*$",
            rf"\bI{_JUST} (?P<verb>sent|forwarded) (?:(?:him|her|them|you|[A-Z]\w+) )?"
            rf"(?:the|an?|your|this|that) (?:\w+ )?{_MAIL}\b",
            rf"\bI{_JUST} (?P<verb>e-?mailed) (?!you\b)",
            rf"^\W*{_OK}(?:(?:the|your) )?{_MAIL}(?: to [^.,;]{{1,40}})?"
            r" (?:(?:is|has been)(?: now)? )?(?P<verb>sent)(?=\W*$| to\b)",
            rf"\bI{_JUST} (?P<verb>deleted|removed|erased) (?:the )?(?:file )?{_PATH}(?=\W*$| )",
            rf"\bI{_JUST} (?P<verb>deleted|erased) (?:the|this|that|your) file\b",
            r"\bfile (?:(?:is|was|has been)(?: now)? )?(?P<verb>deleted|removed|erased)(?=\W*$|: )",
            rf"{_PATH} (?:is|was|has been)(?: now)? (?P<verb>deleted|removed|erased)\b",
            rf"^\W*{_OK}(?P<verb>deleted|removed|erased) (?:the )?(?:file )?{_PATH}",
        ),
    ),
    (  # German
        "speichert|notiert|schrieben|vermerkt|gehalten|angelegt|erstellt|gefügt|eingetragen|gemerkt|"
        "ergänzt|eingerichtet|gestellt|gesetzt|aktualisiert|enthält jetzt|enthält nun|mail|gelöscht|erinner|merke",
        (
            rf"\b(?:ich hab(?:e|['’]s)?|hab(?:e)? ich)\b(?: {_W}){{0,12}}? (?P<verb>gespeichert|abgespeichert|notiert"
            r"|aufgeschrieben|vermerkt"
            r"|festgehalten|angelegt|erstellt|geschrieben|hinzugefügt|eingetragen|gemerkt|ergänzt|eingerichtet|gestellt"
            r"|gesetzt|aktualisiert)\b",
            rf"\b(?:erinnerung|datei|notiz|wecker)\b(?: {_W}){{0,6}}? (?:(?:ist|wurde|sind|wurden)(?: {_W}){{0,4}}? )?"
            r"(?P<verb>gespeichert|angelegt|erstellt|gesetzt|gestellt|eingerichtet)\b",
            r"^\W*(?:erledigt\W+|ok(?:ay)?\W+|ist )?(?P<verb>gespeichert|abgespeichert)(?=\W*$| (?:in|unter|als)\b)",
            rf"^\W*(?:\w+\W+)?(?:datei )?{_PATH} (?:ist|wurde)(?: (?:jetzt|nun))? (?P<verb>geschrieben|gespeichert"
            r"|angelegt|erstellt|aktualisiert)\b",
            rf"\bdatei {_PATH} (?P<verb>enthält) (?:jetzt|nun)\b",
            r"^\W*(?:ok(?:ay)?\W+|ist )?(?P<word>(?P<verb>notiert|vermerkt))\W*$",
            rf"\b(?:ich hab(?:e)?|hab(?:e)? ich)\b(?: {_W}){{0,4}}? (?:e-?mail|mail|einladung)\b(?: {_W}){{0,6}}?"
            r" (?P<verb>geschickt|gesendet|verschickt|abgeschickt|weitergeleitet)\b",
            rf"\b(?:e-?mail|mail)\b(?: {_W}){{0,4}}? (?:ist|wurde) (?P<verb>geschickt|gesendet|verschickt)\b",
            rf"\b(?:ich hab(?:e)?|hab(?:e)? ich) (?:die datei )?(?:{_PATH}|die datei) (?P<verb>gelöscht)\b",
            rf"\bdatei (?:{_PATH} )?(?:(?:ist|wurde) )?(?P<verb>gelöscht)\b",
            r"\b(?:ich |dann |daran )(?P<word>(?P<verb>erinnere) (?:ich )?(?:dich|sie|euch))\b(?! nicht)",
            r"\b(?:ich |dann )?(?P<word>(?P<verb>merke) (?:ich )?(?:es |das )?mir)\b",
            r"\bich werde (?P<word>mir (?:das|es) (?P<verb>merken))\b",
            rf"\bich werde (?P<word>(?:dich|sie|euch)(?: {_W}){{0,8}}? (?P<verb>erinnern))\b",
        ),
    ),
    (  # French
        "enregistré|sauvegardé|noté|créé|ajouté|écrit|programmé|inscrit|mémorisé|rédigé|j'ai mis|j’ai mis|ai mis|"
        "envoyé|supprimé|rappellerai|souviendrai",
        (
            rf"\bj['’](?:ai|y ai)\b(?: {_W}){{0,4}}? (?P<verb>enregistré|sauvegardé|noté|créé|ajouté|écrit|programmé"
            r"|inscrit|mis|mémorisé|rédigé)e?s?\b",
            rf"\bje (?:l['’]|les |vous |t['’]|te )ai(?: {_W}){{0,4}}? (?P<verb>enregistré|sauvegardé|noté|créé|ajouté"
            r"|écrit|programmé|inscrit|mis|mémorisé)e?s?\b",
            rf"\b(?:rappel|alarme|fichier|note)\b(?: {_W}){{0,5}}? (?:(?:a été|est) )?(?:bien )?"
            r"(?P<verb>enregistré|créé|programmé|sauvegardé|ajouté)e?s?\b",
            r"\bj['’]ai(?: bien| déjà)? (?P<verb>envoyé) (?:l['’]|le |un |votre |ton )(?:e-?mail|mail|courriel)\b",
            rf"\bj['’]ai(?: bien| déjà)? (?P<verb>supprimé) (?:le fichier\b|{_PATH})",
            rf"\bfichier (?:{_PATH} )?(?:a été )(?P<verb>supprimé)\b",
            r"^\W*(?:ok\W+|d['’]accord\W+)?c['’]est (?P<word>(?P<verb>noté))\W*$",
            r"\bje (?:te |vous )(?:le |la |les )?(?P<word>(?P<verb>rappellerai))\b",
            r"\bje (?P<word>(?P<verb>m['’]en souviendrai))\b",
        ),
    ),
    (  # Spanish
        "guardad|anotad|apuntad|cread|añad|agreg|escri|registrad|programad|puesto|guardé|anoté|apunté|"
        "creé|programé|tomado nota|enviado|envié|eliminado|borrado|recordaré|acordaré",
        (
            r"\b(?:he|se ha|se han)(?: (?:ya|también|creado y))* (?P<verb>guardado|anotado|apuntado|creado|añadido"
            r"|agregado|escrito|registrado|programado|puesto|tomado nota)\b",
            r"(?<!\w)(?P<verb>guardé|anoté|apunté|creé|añadí|agregué|escribí|programé)(?!\w)",
            rf"\b(?:recordatorio|alarma|archivo|fichero|nota)\b(?: {_W}){{0,5}}? (?:(?:ha sido|está|queda|fue) )?"
            r"(?P<verb>guardad|cread|programad|añadid|anotad)[oa]s?\b",
            r"\bhe (?:ya )?(?P<verb>enviado) (?:el|un) (?:correo|e-?mail)\b",
            r"(?<!\w)(?P<verb>envié) (?:el|un) (?:correo|e-?mail)\b",
            rf"\bhe (?:ya )?(?P<verb>eliminado|borrado) (?:el (?:archivo|fichero)\b|{_PATH})",
            r"(?<!\w)(?:te|le|se) (?:lo )?(?P<word>(?P<verb>recordaré))(?!\w)",
            r"(?<!\w)(?P<word>(?P<verb>me acordaré))(?!\w)",
        ),
    ),
    (  # Italian
        "salvat|annotat|creat|aggiunt|scritt|registrat|impostat|memorizzat|segnat|preso nota|inviat|mandat|eliminat|"
        "ricorderò",
        (
            r"(?<!\w)ho(?: (?:già|anche|appena))* (?P<verb>salvato|annotato|creato|aggiunto|scritto|registrato"
            r"|impostato|memorizzato|segnato|preso nota)\b",
            r"(?<!\w)l['’]ho(?: (?:già|anche|appena))* (?P<verb>salvat\w|annotat\w|creat\w|aggiunt\w|scritt\w|segnat\w"
            r"|memorizzat\w)\b",
            rf"\b(?:promemoria|sveglia|file|nota)\b(?: {_W}){{0,5}}? (?:(?:è stat[oa]|è) )?"
            r"(?P<verb>salvat|creat|impostat|aggiunt)[oa]\b",
            r"(?<!\w)ho (?:già )?(?P<verb>inviato|mandato) (?:l['’]|la |un['’])(?:e-?mail|mail)\b",
            rf"(?<!\w)ho (?:già )?(?P<verb>eliminato|cancellato) (?:il file\b|{_PATH})",
            r"(?<!\w)(?:ti|te lo|glielo) (?P<word>(?P<verb>ricorderò))(?!\w)",
            r"(?<!\w)(?P<word>(?P<verb>me ne ricorderò))(?!\w)",
        ),
    ),
    (  # Portuguese
        "salv|guard|anotei|criei|adicion|escrevi|registr|registei|gravei|agend|defini|acrescentei|criad|enviei|lembrar",
        (
            r"(?<!\w)(?P<verb>salvei|guardei|anotei|criei|adicionei|escrevi|registrei|registei|gravei|agendei|defini"
            r"|acrescentei)(?!\w)",
            rf"\b(?:lembrete|alarme|arquivo|ficheiro|nota)\b(?: {_W}){{0,5}}? (?:(?:foi|está) )?"
            r"(?P<verb>salv|criad|agendad|guardad|adicionad|definid)[oa]\b",
            r"(?<!\w)(?P<verb>enviei) (?:o|um) e-?mail\b",
            r"\b(?:te |lhe |vou te |vou lhe )(?P<word>(?P<verb>lembrarei|lembrar))\b",
            r"\b(?P<word>(?P<verb>vou me lembrar|me lembrarei))\b",
        ),
    ),
    (  # Chinese
        "保存|记|写|创建|添加|加到|设|存|备注|邮件|删|提醒",
        (
            r"(?:已经?|刚刚|刚才)[^，。！；,]{0,14}?(?P<verb>保存|记下来?|记住|记录|写入|写到|写进|创建|添加|加到|设置|设定|设好|存|备注)",
            r"我[^，。！；,]{0,20}?(?P<verb>保存|记下来?|记住|记录|写入|写到|写进|创建|添加|加到|设置|设定|设好|存|备注)(?:好|完|到|在|进)?[^，。！；,]{0,2}?了",
            r"(?:已经?|我)[^，。！；,]{0,10}?邮件[^，。！；,]{0,4}?(?P<verb>发送|发给|发出)",
            r"邮件已经?(?P<verb>发送|发给|发出)",
            rf"(?:已经?|我)[^，。！；,]{{0,6}}?(?P<verb>删除|删掉)了? ?(?:文件|{_PATH})",
            r"(?<=会)[^，。！；,不]{0,14}?(?P<word>(?P<verb>提醒)(?:你|您))",
            r"(?<=会)[^，。！；,不]{0,4}?(?P<word>(?P<verb>记住|记得))",
        ),
    ),
)
