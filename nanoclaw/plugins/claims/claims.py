"""Finds answers that say more than was done: by what they name, by the forms of reports and promises, or by repeating.

A report has a perfect, a passive or a participle alone ("I've put milk on your list", "Deleted."); one in a language
whose forms are not known repeats what was asked for, or is very short. What only wants words asks for no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from nanoclaw.core.messages import Effect
from nanoclaw.plugins.claims import lexicon

LONGEST = 300
"""Characters of an answer that claims an effect; a longer one tells something."""
SHORTEST_REQUEST, SHORTEST_TASK = 2, 4
"""Words of a request after which "Done." claims something, and of one after which any short word does."""
SHORT_REPORT = 9
"""Words of a sentence that a participle alone makes a report."""
LONGEST_TASK = 200
"""Characters of the latter; more is a story."""
ACKNOWLEDGEMENT = 3
"""Words of an answer that says no more than that it was done."""


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
    answer = re.sub(r"(?m)^\W*[A-Z]+:\S+$", "", answer)  # a line for the program
    if _asks(asked) or "```" in answer or not answer.strip():
        return ""
    kinds = {effect.kind for effect in effects}
    is_asking = re.search(_QUESTION_MARK, answer) is not None
    if not kinds & {"command", "call"} and not is_asking:  # of these nobody knows what they did
        for name in _names(answer):
            if not exists(name) and (len(answer) <= LONGEST or name in asked):
                return f"there is no file {name}"
        if "message" not in kinds and (address := _unsent(asked, answer, effects)):
            return f"nothing was sent to {address} in this turn"
    is_claim = _claims(asked, answer)
    if not effects:
        return (
            "nothing was written, noted, set or sent in this turn" if is_claim and not _is_known(answer, known) else ""
        )
    is_told = is_claim or (not is_asking and _same_time(asked, answer))
    if is_told and not _schedules(effects) and _has(_REMIND, asked):
        return "no reminder was set in this turn"
    if not is_claim or kinds & {"command", "call", "message", "forgetting"}:
        return ""
    if _has(lexicon.RUN, asked) and (_has(lexicon.RUN, answer) or _has(lexicon.RESULT, answer)):
        return "no command was run in this turn"
    if _has(lexicon.SEND, asked):
        return "nothing was sent in this turn"
    return "" if _is_about(asked, answer, effects, said_before) else f"all that this turn did is: {_in_words(effects)}"


def _claims(asked: str, answer: str) -> bool:
    """True where an answer says or promises that what was asked for is done."""
    if len(answer) > LONGEST or _has(lexicon.TEXT_WORK, asked) or _echoes(asked, answer):
        return False
    sentences = [one for one in re.split(r"(?<=[.!?。！？])\s+|\n", answer) if one.strip()]
    sentences = [one for one in sentences if not re.search(_QUESTION_MARK, one)]
    positive = [one for one in sentences if not _has(lexicon.NEGATED, one)]
    if any(_has(lexicon.PROMISE, one) for one in sentences) or any(_has(lexicon.PERFECT, one) for one in positive):
        return True
    if not positive or len(positive) < len(sentences) or _has(lexicon.STATEMENT, asked):
        return False
    if (
        len(answer) == len(positive[0])
        and _words(answer) <= ACKNOWLEDGEMENT
        and not re.search(r"\d|,.*,|^[a-z ]*$", answer)
    ):
        is_bare = _words(asked) < SHORTEST_TASK or _has(lexicon.POLITE, asked)
        if is_bare and not (_has(lexicon.ALONE, answer) or _has(lexicon.CJK_DONE, answer)):
            return False
        return _words(asked) >= SHORTEST_REQUEST and len(asked) <= LONGEST_TASK and "\n" not in asked.strip()
    for one in positive:
        if _has(lexicon.PASSIVE, one) or _has(lexicon.CJK_DONE, one):
            return True
        if _words(one) <= SHORT_REPORT and (_has(lexicon.ALONE, one) or _has(lexicon.RESULT, one)):
            return True
        if _has(lexicon.RUN, asked) and _has(lexicon.RESULT, one):
            return True
    return not _has(lexicon.COMMON, answer) and _repeats(asked, answer)


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _echoes(asked: str, answer: str) -> bool:
    """True where an answer is another form of a text that stands in the request, behind a colon or in quotes."""
    given = re.search(r"[:：]\s*(\S.{12,})$|[\"“„«](.{5,}?)[\"”“»]", asked, re.DOTALL)
    if given is None or _has(lexicon.PERFECT, answer) or _words(answer) <= ACKNOWLEDGEMENT:
        return False
    words = _tokens(given[1] or given[2])
    said = _tokens(answer)
    return len(said & words) * 2 >= len(said)


def _repeats(asked: str, answer: str) -> bool:
    """True where most of an answer's words are those of the request: for languages whose forms are not known."""
    said, words = _tokens(answer), _tokens(asked)
    pieces = {piece for word in words for piece in _pieces(word)}
    repeated = [word for word in said if word in words or not pieces.isdisjoint(_pieces(word))]
    least = 0.6 if len(repeated) == 2 else 0.4
    has_content = any(len(word) > 3 or not word.isascii() or word.isdigit() for word in repeated)
    return has_content and len(repeated) >= 2 and len(repeated) >= least * len(said) and answer != asked


def _is_about(asked: str, answer: str, effects: Collection[Effect], said_before: str) -> bool:
    """True where what was done has to do with what was asked for, or where the answer says what it was. What cannot be
    compared is: the contents of a file, and what a job says that was made."""
    if names := _names(asked):
        return any(name in effect.target or effect.target in name for name in names for effect in effects)
    quotes = [quote for effect in effects for quote in re.findall("“(.+?)”", effect.text)]
    wanted = _forms(asked)
    if (
        len(quotes) < len(effects) or not wanted or re.search(_POINTS, asked, re.IGNORECASE)
    ):  # "do it", or the number of a job
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


def _asks(asked: str) -> bool:
    """True for a question, but for one that is a request."""
    return (
        not _has(lexicon.POLITE, asked) and re.search(f"{_QUESTION_MARK}|{_QUESTION}", asked, re.IGNORECASE) is not None
    )


def _unsent(asked: str, answer: str, effects: Iterable[Effect]) -> str:
    """An address that the answer names and the request too, with which no effect has to do."""
    done = " ".join(f"{effect.target} {effect.text}" for effect in effects)
    return next((one for one in _runs(answer) if one.find("@") > 0 and one in asked and one not in done), "")


def _schedules(effects: Iterable[Effect]) -> bool:
    """True for a job, and for a line in the heartbeat's checklist, which comes up by itself as a job does."""
    return any(effect.kind not in ("note", "fact", "file") or effect.target == "HEARTBEAT.md" for effect in effects)


def _same_time(asked: str, answer: str) -> bool:
    return not set(re.findall(r"\d+", asked)).isdisjoint(re.findall(r"\d+", answer))


# --- words -----------------------------------------------------------------------------------------------------------

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"


def _words(text: str) -> float:
    """A word of a language without blanks has two characters."""
    if text.isascii():  # the patterns below take 24 M instructions to make
        return len(re.findall(r"[^\W_]+(?:'[^\W_]+)*", text))
    return len(re.findall(rf"[{_CJK}]", text)) / 2 + len(re.findall(rf"[^\W_{_CJK}]+(?:['’][^\W_]+)*", text))


def _tokens(text: str) -> set[str]:
    folded, found = text.casefold(), set[str]()
    for run in re.findall(rf"[{_CJK}]+", folded):
        found |= {run[at : at + 2] for at in range(len(run) - 1)}
    return found | {word for word in re.findall(rf"[^\W_{_CJK}]+", folded) if len(word) > 2 or word.isdigit()}


def _pieces(word: str) -> set[str]:
    """Runs of four letters, which forms of a word have in common: "remind" and "reminder"."""
    return {word[at : at + 4] for at in range(len(word) - 3)}


def _names(answer: str) -> list[str]:
    """Names of files, but for those in addresses of the web."""
    return [word for word in _runs(re.sub(r"\w{1,12}://\S+", "", answer)) if re.search(_FILE, word) and "@" not in word]


def _runs(text: str) -> list[str]:
    """Runs of signs that may be paths or addresses."""
    return [run.strip("./-") for run in re.findall(r"[\w./@+-]+", text) if len(run) < 200]


_FILE = (
    r"[\w-]\.(?:md|txt|csv|tsv|json|toml|ya?ml|xml|html?|py|sh|sql|log|ini|org|tex|rtf|ics|pdf|docx?|xlsx?|pptx?|odt"
    r"|png|jpe?g|gif|svg|zip)$"
)
_QUESTION_MARK = "[?？؟]"
_QUESTION = (
    r"^\W*(?:who|what|when|where|why|how|which|is|are|was|were|do|does|did|wer|was|wann|wo|warum|wieso|wie"
    r"|welche\w*|ist|qui|quel\w*|quand|où|pourquoi|comment|combien|quién|qué|cuál|cuándo|dónde|cómo|cuánto\w*|chi|quale"
    r"|quando|dove|come|perché|quanto|quem|qual|onde|como|кто|что|где|когда|почему|как|сколько|wat|waar|hoe|kto|co"
    r"|gdzie|jak)\b|什么|谁|哪|怎么|多少|吗|誰|どこ|いつ|なぜ"
)
"""First words of a question that has no question mark."""
_REMIND = (
    r"\b(?:remind|wake|alarm|erinner|weck|rappel|réveil|record|recuérd|despiert|ricord|svegli|lembr|acord|herinner"
    r"|przypomn|hatırlat|напомни|разбуди)|提醒|叫我|闹钟|リマインド|思い出させ|起こし"
)
"""Wishes to be reminded, which a note does not fulfil."""
_OF_ALL = (
    r"reminders?|tasks?|jobs?|notes?|files?|the|and|for|that|this|ones?|them|both|all|first|second|third|last|please|delete|remove"
    r"|cancel|put|add|der|die|das|den|erinnerung\w*|aufgabe|bitte|diese\w*|erste\w*|zweite\w*|letzte\w*|rappels?|les|tâche|cela"
    r"|lösch\w*|entfern\w*|streich\w*|supprim\w*|annul\w*|enl[eè]v\w*|borra\w*|elimin\w*|cancel\w*|quita\w*|apag\w*"
    r"|yes|okay|now|oui|celui|premier|dernier|recordatorios?|tarea|del|ese|eso|primer\w*|último|promemoria|lembrete"
)
"""Words of requests that say nothing of what they are about."""
_POINTS = r"\d|\b(?:it|that|this|them|those|these|ones?|es|dies\w*|ça|cela|ceci|celui|celle|eso|esto|ese|quello|isso)\b"
"""Words, or a number, that point to what was spoken of."""
