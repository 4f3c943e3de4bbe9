"""Finds answers that say more than was done: clauses that report or promise, held against the effects of the turn.

A request only excuses: one that words fulfil (a question, a text, a saying) makes no answer a claim. After one that
only a tool fulfils each clause that does not ask, deny or put off is one; after others it has to say plainly that it
was done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from nanoclaw.core.messages import Effect
from nanoclaw.plugins.claims import lexicon

LONGEST_TASK = 1000
"""Characters of a request; of a longer one the end of its last paragraph is looked at, all else is an attached text."""
LONGEST = 300
"""Characters of an answer that claims by what it is about; a longer one has to say plainly that it was done."""
LONGEST_ANSWER = 4000
SHORTEST, SHORT = 4, 9
"""Words of a clause that only says that it was done, and of one that a participle alone makes a report."""

NOTHING = "nothing was changed, set, sent or run for this"


class Request(NamedTuple):
    """`orders` are the kinds of tools that it takes: run, send, remind, change. `has_things`: perhaps one, as it speaks
    of a thing that tools change. `asks`: a question. `wants_words`: no tool, an answer will do."""

    orders: frozenset[str]
    has_things: bool
    asks: bool
    wants_words: bool


def unsupported(
    asked: str,
    answer: str,
    effects: Collection[Effect],
    known: Iterable[str] = (),
    exists: Callable[[str], bool] = lambda name: True,
    said_before: str = "",
) -> str:
    """The fact that an answer leaves out, such as "no reminder was set in this turn"; '' for a supported one.

    It holds however the answer was meant. `known` are texts of what was done before: effects, jobs and notes;
    `exists` tells of a file's name whether there is one; `said_before` is what the talk was about.
    """
    answer = re.sub(r"(?m)^\W*[A-Z]+:\S+$", "", answer[:LONGEST_ANSWER])  # a line for the program
    request = understand(asked)
    if request.wants_words or _is_echo(asked, answer) or "```" in answer or not answer.strip():
        return ""
    done = [effect for effect in effects if effect.state != "failed"]
    kinds = {effect.kind for effect in done}
    is_anything = bool(kinds & {"command", "call"})  # of these nobody knows what they did
    if not (claims := list(_claims(request, answer))):
        return ""
    if not is_anything:
        missing = (name for name in _names(answer) if (name in asked or len(answer) <= LONGEST) and not exists(name))
        if (name := next(missing, "")) and not any(name.endswith(one.target) for one in done if one.target):
            return f"there is no file {name}"
        if "message" not in kinds and (address := _unsent(asked, answer, done)):
            return f"nothing was sent to {address} in this turn"
    if not done:
        if _is_known(answer, known):
            return ""
        if effects and not _has(lexicon.NEGATED, answer):
            return "the command that was run failed"
        return "" if effects else NOTHING
    if is_anything:
        return ""
    wanted = (
        request.orders
        | ({"remind"} if request.orders and _has(_REMINDERS, asked) else set())
        | {kind for clause in claims for kind in _told(clause)}
    )
    if "run" in wanted:
        return "no command was run in this turn"
    if "send" in wanted and "message" not in kinds:
        return "nothing was sent in this turn"
    if "remind" in wanted and not _schedules(done):
        return "no reminder was set in this turn"
    if kinds & {"message", "forgetting"} or _is_about(asked, answer, done, said_before):
        return ""
    return f"all that this turn did is: {_in_words(done)}"


# --- requests --------------------------------------------------------------------------------------------------------


@lru_cache(2)
def understand(asked: str) -> Request:
    """The request's clauses by their verbs; what stands in quotes, or behind a verb and a colon, is a text."""
    text = asked.strip().lower()
    text = text if len(asked) <= LONGEST_TASK else text.rpartition("\n\n")[2][-LONGEST_ANSWER:]
    if text.rstrip(" .!") in _GREETINGS or ((given := re.match(lexicon.REWORDS, text)) and not _names(given[0])):
        return Request(frozenset(), False, False, True)
    orders, asks, wants_words, has_things = set[str](), False, False, False
    for sentence in re.split(r"(?<=[.!?。！？])\s+|\n", _without_texts(text)):
        is_asking = re.search("[?？]", sentence) is not None or _has(lexicon.QUESTION, sentence)
        frame = re.search(lexicon.FRAME, sentence)
        if _has(lexicon.LANGUAGE, sentence) and not _names(sentence):
            wants_words = True
        elif is_asking and not frame:
            asks = True
            wants_words |= re.search(_ADDRESSED, sentence) is not None
        else:
            found = {_order(clause, is_framed=bool(frame)) for clause in re.split(_CLAUSE, sentence)} - {""}
            orders |= found - {"words"}
            wants_words |= "words" in found or _has(lexicon.TOPICS, sentence)
            is_thing = _names(sentence) or any(map(_is_thing, re.findall(_WORD, sentence)))
            has_things |= bool(is_thing) and " " in sentence.strip() and not re.match(_OWN_DEED, sentence)
    return Request(frozenset(orders), has_things and not asks, asks, wants_words and not orders)


def _order(clause: str, *, is_framed: bool) -> str:
    """The kind of tool that a clause asks for, "words" for none, '' for no request."""
    if found := re.search(_CJK_ORDER, clause):
        return next(kind for kind, part in found.groupdict().items() if part)
    if re.search(_NOT_MEANT, clause):
        return "words"
    if re.search(_WATCH, clause):
        return "remind"
    if re.search(_PLAIN, clause):
        return "change"
    words = re.findall(_WORD, clause)
    while words and words[0] in _OPENINGS:
        words = words[1:]
    if len(words) < 2 and not _names(clause):
        return "words" if words and lexicon.WORDS_WANTED.has(words[0]) else ""
    if words[0] in _ALARMS and re.search(r"\d", clause):
        return "remind"
    at = range(len(words)) if is_framed else [0, len(words) - 1] if words[-1].endswith(_LAST) else [0]
    for place in at:
        behind = words[place + 1 :] or [word for word in words[:place] if word not in _ASKED]  # in German it ends
        if kind := _kind(words[place], behind, clause):
            return kind
    if is_framed and any(map(_is_thing, words)) and re.search(_NEED, clause):
        return "change"
    return ""


def _kind(verb: str, behind: list[str], clause: str) -> str:
    """The kind of tool that a verb asks for; of an unclear one by what it is done to, or to whom it goes."""
    bases = [verb]
    if verb.endswith("ing"):  # "would you mind adding"
        bases += [verb[:-3], f"{verb[:-3]}e", verb[:-4]]
    kind = next((kind for kind, listed in lexicon.ORDERS.items() if any(map(listed.has, bases))), "")
    if verb == "update" and behind[:1] == ["me"]:
        return "words"
    if kind == "change" and any(map(lexicon.TEXTS.has, behind)) and not _names(clause):
        return "" if any(map(_is_thing, behind)) else "words"
    if not any(map(lexicon.UNCLEAR.has, bases)):
        return kind or ("words" if lexicon.WORDS_WANTED.has(verb) else "")
    is_told = verb.startswith(_TELLS)
    is_definite = bool(behind) and behind[0] in _ARTICLES and not is_told and not any(map(lexicon.TEXTS.has, behind))
    is_thing = bool(behind) and behind[0] not in _SELF and any(map(_is_thing, behind))
    if verb in _SAYS or not (_names(clause) or is_thing or is_definite):
        is_to = behind[:1] == ["a"] and verb.startswith(_TO)
        if is_told and behind and (behind[0] not in _HEARERS or is_to):
            if verb in _SAYS:
                return "send"
            if behind[0] not in _ARTICLES | _POINTERS:
                return "change"
        return "" if behind and behind[0] in _POINTERS else "words"
    return "send" if "@" in clause and is_told else "change" if kind in ("", "send", "run") else kind


def _is_thing(word: str) -> bool:
    return lexicon.THINGS.has(word) or word.endswith(_COMPOUNDS)


def _is_echo(asked: str, answer: str) -> bool:
    """True for an answer that the request spelt out."""
    said = answer.strip(" .!。！\"'“”«»„").lower()
    return (
        re.search(rf"[:：\"'“„«「]\s*{re.escape(said)}\W*(?:$|[\"'”“»」])", asked.lower()) is not None
        if len(said) < LONGEST
        else False
    )


def _without_texts(text: str) -> str:
    text = re.sub(r"[\"“„«「『‘].*?[\"”“»」』’]|(?<!\w)'[^'\n]*'(?!\w)", " ", text, flags=re.DOTALL)
    before, colon, behind = (
        re.split(r"([:：](?=\s|$)|：)", text, maxsplit=1) if re.search(r"[:：](?=\s|$)|：", text) else (text, "", "")
    )
    if not colon:
        return text
    is_framed = re.search(lexicon.FRAME, before) is not None
    has_verb = any(_order(clause, is_framed=is_framed) for clause in re.split(_CLAUSE, before))
    return before if has_verb or _has(lexicon.TOPICS, before) else f"{before}. {behind}"


# --- answers ---------------------------------------------------------------------------------------------------------


def _claims(request: Request, answer: str) -> Iterator[str]:
    """The clauses of an answer that say or promise that something was done."""
    sentences = [
        one
        for one in re.split(r"(?<=[.!?。！？✅])\s+|(?<=[。！？])|\n", re.sub(_QUOTE, "", answer.lower()))
        if one.strip()
    ]
    told = [one for one in sentences if not re.search("[?？]", one)]
    is_offer = any(not _has(_ELSE, one) for one in sentences if one not in told)
    is_denied = any(_has(_SORRY, one) for one in sentences)
    for number, sentence in enumerate(told):
        if number == 0 and not request.asks and (re.match(rf"\W*(?:{lexicon.COMPLETE})", sentence)):
            yield sentence
            continue
        clauses = [
            one
            for one in re.split(r"[,;:](?!\d)|[，；：、—–]|\bbut\b|\baber\b|\bmais\b|\bpero\b", sentence)
            if one.strip()
        ]
        plain = [one for one in clauses if not _has(lexicon.NEGATED, one)]
        is_order = bool(request.orders) and not _has(_SORRY, sentence)
        is_thing = request.has_things and not _has(_SORRY, sentence)
        reports = [
            one
            for one in plain
            if _reports(one, is_order=is_order, is_thing=is_thing, asks=request.asks and not request.orders)
        ]
        if reports:
            yield reports[0]
        elif (
            request.orders
            and not (is_denied or is_offer or len(answer) > LONGEST)
            and not _has(lexicon.NEGATED, sentence)
            and not _has(lexicon.DEFERRED, sentence)
            and _is_done(sentence, request)
        ):
            yield sentence


def _reports(clause: str, *, is_order: bool, is_thing: bool, asks: bool) -> bool:
    """True where the answerer did it or will do it, or where a participle leads; after a question only the first."""
    words = re.findall(_WORD, clause)
    while words and words[0] in _OPENINGS:
        words = words[1:]
    has_deed = any(_is_past(word) for word in words) or re.search(_CJK_ORDER, clause) is not None
    if re.search(_JUST_DID, clause) or (
        has_deed and _has(lexicon.FIRST, clause) and not re.search(_ONLY_WISHED, clause)
    ):
        return True
    if asks or not (words or re.search(f"[{_CJK}]", clause)):
        return False
    if (
        _has(lexicon.PROMISE, clause)
        and (is_order or _has(lexicon.KEEPS, clause))
        and not _has(lexicon.DEFERRED, clause)
    ):
        return True
    if not has_deed:
        return (is_order or is_thing) and re.search(_NOW, clause) is not None
    is_order = is_order or is_thing
    if words and _is_past(words[0]) and not re.search(_BY, clause) and (is_order or _length(clause) <= SHORT):
        return True
    if re.search(_AUXILIARY, clause):
        if re.search(_TELLS_OF, clause):
            return False
        return is_order or re.search(r"\b(?:has|have) been\b", clause) is not None
    return is_order or (bool(words) and words[0] in _REPORTED and any(_is_past(word) for word in words[:3]))


def _is_done(sentence: str, request: Request) -> bool:
    """True after an order where a sentence is very short, or says what state something is in, or what came of a run."""
    if not re.search(r"[^\W\d_]|[✅✔👍]", sentence) or re.match(
        r"\W*(?:i see|i found|there (?:are|is)|ich sehe|es gibt|je vois|il y a|veo|hay|vedo|ci sono)\b", sentence
    ):
        return False
    return (
        _length(sentence) <= SHORTEST
        or _has(lexicon.STATE, sentence)
        or _has(lexicon.RESULT, sentence)
        or sentence.startswith(("voilà", "you "))
    )


def _is_past(word: str) -> bool:
    return re.match(lexicon.PAST, word) is not None


def _told(clause: str) -> Iterator[str]:
    """The kinds of tools that a report says were used."""
    for kind, pattern in _TOLD.items():
        if re.search(pattern, clause):
            yield kind


# --- effects ---------------------------------------------------------------------------------------------------------


def _is_about(asked: str, answer: str, effects: Collection[Effect], said_before: str) -> bool:
    """True where what was done has to do with what was asked for, or where the answer says what it was. What cannot be
    compared is: the contents of a file, and what a job says that was made."""
    if names := _names(asked):
        is_note = _has(_TO_NOTE, asked) and not _names(answer)
        done = [(effect.target, effect.text if is_note else "") for effect in effects]
        return any(name in target or target in name or name in text for name in names for target, text in done)
    quotes = [quote for effect in effects for quote in re.findall("“(.+?)”", effect.text)]
    wanted = _forms(asked)
    if len(quotes) < len(effects) or not wanted or re.search(_POINTS, asked, re.IGNORECASE):
        return True
    return not _forms(" ".join(quotes)).isdisjoint(wanted | _forms(answer) | _forms(said_before))


def _forms(text: str) -> set[str]:
    """Beginnings that words have in common with their other forms; not those that all such texts have."""
    words = {word for word in _tokens(text) if not re.fullmatch(_OF_ALL, word)}
    return {word[:5] if word.isascii() or len(word) > 3 else word for word in words}


def _in_words(effects: Iterable[Effect]) -> str:
    return "; ".join(dict.fromkeys(effect.text for effect in effects))


def _is_known(answer: str, known: Iterable[str]) -> bool:
    """True when most words of something done before, or of its quote, stand in the answer."""
    said = _tokens(answer)
    for line in known:
        own = _tokens(next(iter(re.findall("“(.+)”", line)), line))
        if len(own) > 1 and len(own & said) * 3 >= len(own) * 2:
            return True
    return False


def _unsent(asked: str, answer: str, effects: Iterable[Effect]) -> str:
    """An address that the answer names and the request too, with which no effect has to do."""
    done = " ".join(f"{effect.target} {effect.text}" for effect in effects)
    return next((one for one in _runs(answer) if one.find("@") > 0 and one in asked and one not in done), "")


def _schedules(effects: Iterable[Effect]) -> bool:
    """True for a job, and for a line in the heartbeat's checklist, which comes up by itself as a job does."""
    return any(effect.kind not in ("note", "fact", "file") or effect.target == "HEARTBEAT.md" for effect in effects)


# --- words -----------------------------------------------------------------------------------------------------------


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _length(text: str) -> float:
    """Words; of a language without blanks two characters are one."""
    return len(re.findall(f"[{_CJK}]", text)) / 2 + len(re.findall(_WORD, re.sub(f"[{_CJK}]", " ", text)))


def _tokens(text: str) -> set[str]:
    folded, found = text.casefold(), set[str]()
    for run in re.findall(rf"[{_CJK}]+", folded):
        found |= {run[at : at + 2] for at in range(len(run) - 1)}
    return found | {word for word in re.findall(rf"[^\W_{_CJK}]+", folded) if len(word) > 2 or word.isdigit()}


def _names(answer: str) -> list[str]:
    """Names of files, but for those in addresses of the web."""
    return [word for word in _runs(re.sub(r"\w{1,12}://\S+", "", answer)) if re.search(_FILE, word) and "@" not in word]


def _runs(text: str) -> list[str]:
    """Runs of signs that may be paths or addresses."""
    return [run.strip("./-") for run in re.findall(r"[\w./@+-]+", text) if len(run) < 200]


_TO_NOTE = r"\b(?:note|jot|remember|notier\w*|merk\w*|retiens|anota|recuerda|segna|запиши|запомни|not al)\b|记"
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_QUOTE = r"\"[^\"]*\"|“[^”]*”|„[^“]*“|«[^»]*»"
_WORD = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
_CLAUSE = r"[,;，；、]\s*|\.(?=\s|$)|\s(?:and|then|und|dann|et|puis|y|luego|e|poi|i|и|en|och|ve)\s"
_OPENINGS = lexicon.words(
    "please pls plz hey hi hello ok okay now then just also and so kindly next first finally nanoclaw actually"
    " quick quickly yes"
    " oh well great bitte mal dann jetzt und ja okay hallo puis et alors maintenant ensuite oui stp svp"
    " por favor ahora luego y sí per poi ora agora depois sim пожалуйста alstublieft proszę só vite all me te lo tu"
).whole
_GREETINGS = lexicon.words(
    "hi hello hey hallo salut bonjour hola ciao olá 你好 thanks danke merci gracias grazie"
).whole
_ALARMS = lexicon.words(
    "timer alarm reminder wecker erinnerung rappel minuteur recordatorio alarma promemoria sveglia lembrete"
).whole
_REPORTED = lexicon.words(
    "reminder message timer alarm note file mail email task backup event alert rappel message fichier promemoria"
    " lembrete"
    " recordatorio mensaje correo archivo nachricht erinnerung termin messaggio mensagem meeting entry item"
).whole
_LAST = (
    "laufen",
    "tellen",
    "etzen",
    "schen",
    "chern",
    "ügen",
    "ragen",
    "ühren",
    "ieren",
    "icken",
    "enden",
    "egen",
    "ekle",
    "sil",
    "hatırlat",
    "kaydet",
)
_TELLS = (
    "tell",
    "write",
    "schreib",
    "sag",
    "dis",
    "écri",
    "escri",
    "escrí",
    "scriv",
    "dile",
    "text",
    "reply",
    "напиши",
    "napisz",
)
_TO = ("di", "escr", "scri")
_ASKED = lexicon.words("can could would you kannst könntest würdest du bitte mal können könnten sie").whole
_SAYS = lexicon.words("tell sag sage dis dile dites скажи").whole
_SELF = lexicon.words("me us mir uns moi nous nos mi").whole
_POINTERS = lexicon.words("it that this them es das ça cela eso lo quello").whole
_ARTICLES = lexicon.words("the this that my your der die das den dem le la les el los il lo").whole
_HEARERS = (
    _SELF
    | lexicon.words(
        "a an one two three some something what why if whether when how ein eine einen was wie warum etwas zwei drei"
        " un une deux trois"
        " comment ce una dos tres unos algo que uno with in only just mit avec con auf en again more truth lies"
    ).whole
)
_NEED = r"\b(?:need|want|like|brauche|möchte|besoin|necesito|quiero)\b"
_NOT_MEANT = (
    r"\bforget (?:it|that|about it)\b|\b(?:add|subtract|divide|füge|adiciona|agrega) \d|\bset the table"
    r"|\bfill in the|\bnever ?mind\b|^\W*(?:don['’]?t|do not|never|no,|nicht|ne|nunca|non) "
    r"|\b(?:remind|tell|rappelle-moi|erinner\w* mich|recuérdame|ricordami|lembra-me)(?: (?:me"
    r"|us))? (?:of )?(?:what|who|how|where|which|why|when did|was|wer|wie|welche|ce que|qui|qué|quién|cosa|chi"
    r"|o que)\b"
    r"|\bstop (?:saying|talking|answering|being|using)\b|\bma(?:ke|ch) (?:it|this|that|es|das) (?:\w+er|more|less"
    r"|sound)\b"
    r"|^\W*(?:keep|be|bleib|reste) (?:it )?(?:short|brief|concise|kurz)"
)
_PLAIN = (
    r"\b(?:back up|turn (?:\w+ ){0,3}(?:on|off|up|down)|get rid of|keep in mind|(?:make|take) (?:a )?note|en tête"
    r"|en cuenta|tieni a mente|im kopf)\b"
)
_WATCH = (
    r"\b(?:let me know|tell me|notify me|alert me|sag mir bescheid|sag bescheid|dis-moi|préviens-moi|avísame"
    r"|avvisami|avisa-me) (?:at\b|in \d|tomorrow|when|if|once|as soon|wenn|sobald|falls|si\b|quand|s['’]|cuando"
    r"|quando|se\b).*"
    r"|\b(?:watch|monitor|keep an eye on|im auge|überwach\w*|surveille|vigila|sorveglia)\b"
)
_CJK_ORDER = (
    r"(?P<remind>提醒|叫我|闹钟|リマイン|思い出させ|起こし)|(?P<run>运行|跑(?:一下)?|执行|安装|重启|実行|インストール|再起動)|(?P<send>发(?:邮|消|给|个|送)"
    r"|告诉(?!我)|通知|送って|送信|送り|伝えて)"
    r"|(?P<change>删|消し|加到|添加|加上|保存|记(?:住|下|录|好)|创建|新建|重命名|改(?:名|成|到|为)|移(?:动|到)|取消|追加|削除|設定|変更|変えて|作成|作って|登録"
    r"|メモ(?!に「.*どこ)|覚えて|移動)"
)
_ONLY_WISHED = (
    r"\b(?:to|would|could|can|will|want|wanted|noticed|assume|think|guess|see|know)\b.*|\bich .*\b(?:will|würde"
    r"|möchte)\b"
)
_AUXILIARY = (
    r"\b(?:is|are|was|were|be|by|been|who|that|he|she|they|it|to|wurden?|ist|sind|war|waren|wird|werden|est|sont"
    r"|était|fut|a été|ont|es|son|fue|fueron|era|está|están|ha|han|se|è|sono|fu|stat[oaie]|foi|foram|é|são)\b"
    r"|['’](?:s|re)\b"
)
_BY = r"\b(?:by|von|par|por|da)\b"
_ELSE = r"\b(?:else|next|further|more|too|also|noch|sonst|autre|más|algo más|altro|mais)\b|还"
_COMPOUNDS = ("liste", "ordner", "datei", "zettel", "kalender", "skript", "server", "termin")
_ADDRESSED = r"\b(?:you|your|du|dein\w*|hast|tu|as-tu|avez-vous|vous|borraste|has|hai|você)\b|\w+(?:aste|iste)\b|[你您]"
_OWN_DEED = r"\W*(?:i|we|ich|wir|j['’]ai|on|nous|he|hemos|ho|abbiamo|eu|mi sono)\b|\W*(?:ya )?\w+é\b"
_TELLS_OF = r"\b(?:says?|states?|reads|mentions?|according|laut|dit que|selon|dice que|según)\b"
_JUST_DID = r"\b(?:acabo de \w+r|je viens d|ho appena|acabei de|i(?:['’]ve)? let\b.*\bknow)"
_NOW = (
    r"\b(?:is|are|has|ist|sind|steht|stehen|liegt|lautet|est|sont|está|están|è|sono) (?:\w+ )?(?:now|jetzt|nun"
    r"|maintenant|désormais|ahora|ya|ora|agora|already|bereits|schon)\b|\bnow (?:is|has|contains|on|in)\b"
)
_SORRY = (
    r"\b(?:sorry|unable|afraid|unfortunately|can['’]?t|cannot|no way|have no|couldn['’]t|leider|désolée?|impossible"
    r"|lo siento|no puedo|non posso|não (?:posso|consigo))\b|抱歉|无法|不能|申し訳|できません"
)
_TOLD = {
    "run": (
        r"\b(?:i|we)\b.*\b(?:ran|executed|installed|restarted|deployed|compiled)\b|^ran\b|\b(?:ausgeführt"
        r"|laufen lassen|j['’]ai (?:lancé|exécuté)|he (?:ejecutado)|ejecuté|ho eseguito|executei)\b|运行了|実行しました"
    ),
    "send": (
        r"\b(?:i|we)\b.*\b(?:sent|emailed|mailed|texted|messaged|forwarded|notified|told)\b|\bsent\b|\b(?:verschickt"
        r"|gesendet|geschickt|j['’]ai (?:envoyé|prévenu)|he (?:enviado|avisado)|envié|ho (?:inviato|mandato)|enviei"
        r"|mandei)\b"
    ),
    "remind": (
        r"\b(?:remind|alert|ping|wake|notify)(?:er)?\b.*\b(?:set|you)\b|\bset\b.*\b(?:reminder|alarm|timer)\b"
        r"|\b(?:erinnere dich|rappellerai|recordaré|ricorderò)\b"
    ),
}
_REMINDERS = (
    r"\b(?:remind|alarm|erinner|weck|rappel|réveil|record[ae]|recuérd|despert|promemoria|svegli|lembr|напомн|herinner"
    r"|przypomn|hatırlat)|提醒|闹钟|リマイン"
)
_FILE = (
    r"[\w-]\.(?:md|txt|csv|tsv|json|toml|ya?ml|xml|html?|py|js|ts|sh|sql|log|ini|org|tex|rtf|ics|pdf|docx?|xlsx?"
    r"|pptx?|odt"
    r"|png|jpe?g|gif|svg|zip|db)$"
)
_OF_ALL = (
    r"reminders?|tasks?|jobs?|notes?|files?|the|and|for|that|this|ones?|them|both|all|first|second|third|last"
    r"|please|delete|remove"
    r"|cancel|put|add|der|die|das|den|erinnerung\w*|aufgabe|bitte|diese\w*|erste\w*|zweite\w*|letzte\w*|rappels?"
    r"|les|tâche|cela"
    r"|lösch\w*|entfern\w*|streich\w*|supprim\w*|annul\w*|enl[eè]v\w*|borra\w*|elimin\w*|cancel\w*|quita\w*|apag\w*"
    r"|yes|okay|now|oui|celui|premier|dernier|recordatorios?|tarea|del|ese|eso|primer\w*|último|promemoria|lembrete"
)
"""Words of requests that say nothing of what they are about."""
_POINTS = (
    r"\d|\b(?:it|that(?=\W*$| one)|this|them|those|these|ones?|es|dies\w*|ça|cela|ceci|celui|celle|eso|esto|ese|quello"
    r"|isso)\b"
)
"""Words, or a number, that point to what was spoken of."""
