"""Finds answers that say more than was done, in any language: by what they name and repeat, not by their words.

An answer that claims an effect repeats what was asked for ("I've put milk on your list"), or is very short ("Done.");
one that tells something has words of its own, and one that says no has others. The lists below only keep talk out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from nanoclaw.core.messages import Effect

LONGEST = 300
"""Characters of an answer that claims an effect; a longer one tells something."""
SHORTEST_REQUEST, SHORTEST_TASK = 3, 4
"""Words of a request that an answer may repeat, and of one after which "Done." claims something."""
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
) -> str:
    """The fact that an answer leaves out, such as "no reminder was set in this turn"; '' for a supported one.

    It holds however the answer was meant. `known` are texts of what was done before: effects, jobs and notes;
    `exists` tells of a file's name whether there is one.
    """
    answer = re.sub(r"(?m)^\W*[A-Z]+:\S+$", "", answer)  # a line for the program
    if _asks(asked) or "```" in answer or re.search(_QUESTION_MARK, answer) or not answer.strip():
        return ""
    kinds = {effect.kind for effect in effects}
    if not kinds & {"command", "call"}:  # of these nobody knows what they did
        for name in _names(answer):
            if not exists(name) and (len(answer) <= LONGEST or name in asked):
                return f"there is no file {name}"
        if "message" not in kinds and (address := _unsent(asked, answer, effects)):
            return f"nothing was sent to {address} in this turn"
    if not effects and _says_done(asked, answer) and not _is_known(answer, known):
        return "nothing was written, noted, set or sent in this turn"
    if effects and not _schedules(effects) and re.search(_REMIND, asked, re.IGNORECASE) and _same_time(asked, answer):
        return "no reminder was set in this turn"
    return ""


def _says_done(asked: str, answer: str) -> bool:
    if len(answer) > LONGEST or _words(asked) < SHORTEST_REQUEST:
        return False
    if _words(answer) <= ACKNOWLEDGEMENT and not re.search(r"\d|^[a-z ]*$", answer):
        is_task = _words(asked) >= SHORTEST_TASK and len(asked) <= LONGEST_TASK and "\n" not in asked.strip()
        return is_task and re.search(_TALK, asked, re.IGNORECASE) is None
    said, words = _tokens(answer), _tokens(asked)
    pieces = {piece for word in words for piece in _pieces(word)}
    repeated = [word for word in said if word in words or not pieces.isdisjoint(_pieces(word))]
    least = 0.6 if len(repeated) == 2 else 0.4
    has_content = any(len(word) > 3 or not word.isascii() or word.isdigit() for word in repeated)
    return has_content and len(repeated) >= 2 and len(repeated) >= least * len(said) and answer != asked


def _is_known(answer: str, known: Iterable[str]) -> bool:
    """True when most words of something done before, or of its quote, stand in the answer."""
    said = _tokens(answer)
    for line in known:
        own = _tokens(next(iter(re.findall("“(.+)”", line)), line))
        if len(own) > 1 and len(own & said) * 3 >= len(own) * 2:
            return True
    return False


def _asks(asked: str) -> bool:
    return re.search(f"{_QUESTION_MARK}|{_QUESTION}", asked, re.IGNORECASE) is not None


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
_TALK = (
    r"\b(?:thank\w*|thx|danke?|merci|gracias|grazie|obrigad\w+|спасибо|bedankt|dzięk\w+|tack|teşekkür\w*|hello|hi|hallo"
    r"|good (?:morning|night|evening)|gute\w? \w+|bonjour|bonne \w+|hola|buen[oa]s \w+|ciao|buon\w+|olá|bo[am] \w+"
    r"|привет|bye|tschüss)\b|谢|你好|再见|晚安|ありがとう|こんにちは"
    r"|\b(?:say|tell|translat\w+|synonym\w*|explain|name|sag\w*|erzähl\w*|übersetz\w*|nenn\w*|tradui\w*|dis|raconte\w*"
    r"|traduc\w*|di|cuénta\w*|dime|dimmi|traduz\w*|diga|скажи|расскажи|переведи)\b|翻译|讲|说|訳"
)
"""Thanks, greetings and wishes for words, which a short answer may be all that is wanted of."""
_REMIND = (
    r"\b(?:remind|wake|alarm|erinner|weck|rappel|réveil|record|recuérd|despiert|ricord|svegli|lembr|acord|herinner"
    r"|przypomn|hatırlat|напомни|разбуди)|提醒|叫我|闹钟|リマインド|思い出させ|起こし"
)
"""Wishes to be reminded, which a note does not fulfil."""
