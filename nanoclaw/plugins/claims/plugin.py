"""Answers that say more than was done, or promise what nothing wakes the assistant for, are sent back once, then shown
with a note from the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path

from nanoclaw.core.messages import Effect, ToolResult, UserMessage
from nanoclaw.core.plugin import Answer, Filter, Host, Plugin, TryAgain, Turn
from nanoclaw.outside_text import own_words

LONGEST_TASK = 1000
"""Characters of a request; of a longer one the end of its last paragraph is looked at, all else is an attached text."""
LONGEST = 4000  # characters of an answer, and of the end of a long request
LONG = 12  # words of a sentence that says no more than that something is done

NOTHING = "nothing was changed, set, sent or run for this"


def unsupported(
    asked: str, answer: str, effects: Collection[Effect], *, has_looked: bool = False, known: Iterable[str] = ()
) -> str:
    """The fact that an answer leaves out, such as "no reminder was set in this turn"; '' for one that is acceptable.

    It holds however the answer was meant. `has_looked` tells of calls without an effect, such as reading, and `known`
    are texts of what was done before: effects, jobs and notes.
    """
    done = [effect for effect in effects if effect.state != "failed"]
    kinds = {effect.kind for effect in done}
    if not (wish := wanted(asked)) or kinds & {"command", "call"}:
        return ""
    has_job = any(one.kind.startswith("job") or one.target == "HEARTBEAT.md" for one in done)
    lacks_job = bool(done) and not has_job and _has("remind", re.findall(_WORD, asked[-LONGEST:].lower()))
    has_looked = (has_looked or bool(done)) and not lacks_job
    echoed = frozenset(word for word in re.findall(_WORD, asked[-LONGEST:].lower()) if not _has("same", [word]))
    claimed = set(_claimed(answer[:LONGEST], echoed, is_order=wish == "order", has_looked=has_looked))
    if not claimed or (not done and _is_known(answer, known)):
        return ""
    if not done:
        return "the command that was run failed" if effects else NOTHING
    if has_job:
        return ""  # which may send, or run, at its time
    if lacks_job or "reminder" in claimed:
        return "no reminder was set in this turn"
    if "sent" in claimed and "message" not in kinds:
        return "nothing was sent in this turn"
    return "no command was run in this turn" if "ran" in claimed else ""


@lru_cache(2)
def wanted(asked: str) -> str:
    """Kind of what a message asks for: an "order" takes a tool, "other" may take one, '' is fulfilled by words."""
    text = asked.strip() if len(asked) <= LONGEST_TASK else asked.strip().rpartition("\n\n")[2][-LONGEST:]
    if _has("words", [text.lower().rstrip(" .!")]):
        return ""  # a greeting, which costs no pattern
    found = set[str]()
    for sentence in _sentences(re.sub(_QUOTED, " ", text)):
        before, colon, behind = sentence.partition(":")
        words = re.findall(_WORD, sentence)
        if not _leads("polite", words) and (sentence.endswith(("?", "？")) or _leads("question", words)):
            found.add("words")
        elif colon and (_asks_for(before) == "words" or _has("words", [behind.strip(" .!")])):
            found.add("words")
            break  # what stands behind the colon is a text; “cancel culture: explain” has it before
        else:
            found |= {_asks_for(clause) for clause in re.split(_CLAUSE, sentence)}
    return "order" if "order" in found else "" if "words" in found else "other"


def _asks_for(clause: str) -> str:
    words = _unopened(re.findall(_WORD, clause))
    is_text = _has("either", words[:1]) and _has("text", words[1:2]) and not _has("thing", words)
    if _leads("words", words) or _has("language", words) or (is_text and not re.search(_FILE, clause)):
        return "words"
    if words[1:] and (_leads("order", words) or (words[-1].endswith(("en", "ekle")) and _has("order", words[-1:]))):
        return "order"
    return "order" if _has("order", re.findall(rf"\w*[{_CJK}]\w*", clause)) else ""


def _claimed(answer: str, echoed: Collection[str], *, is_order: bool, has_looked: bool) -> Iterator[str]:
    """Kinds of what the answer says or promises that it did: "reminder", "sent", "ran" or "done"."""
    asks = any(one.endswith(("?", "？")) and not _has("else", re.findall(_WORD, one)) for one in _sentences(answer))
    is_first, is_plain = True, is_order and not has_looked and not asks
    for sentence in _sentences(re.sub(_QUOTED, " ", answer)):
        words = _unopened(_without(re.findall(_WORD, sentence), echoed))
        if not words or sentence.endswith(("?", "？")):
            continue
        for clause in re.split(_PART, sentence):
            said = _without(re.findall(_WORD, clause), echoed)
            if _has("not", said) or _has("look", said):
                continue
            if _is_own_deed(said):
                yield _kind(said)
            if _has("promise", said):
                yield "reminder"
            if is_order and _has("keep", said):
                yield "done"
        if is_first and not _has("not", words):
            led = words[1:] if _has("same", words[:1]) else words
            is_report = len(words) <= LONG and not (_has("modal", words) or _has("look", words))
            is_bare = is_order and not has_looked and _has("bare", re.findall(_WORD, sentence)[:4])
            if is_report and (_has("did", led) if is_order else _has("did", led[:1]) and not _is_cjk(sentence)):
                yield _kind(words)
            elif is_bare or (is_plain and is_report and _has("state", words)):
                yield "done"
        is_first = is_first and len(words) < 3 and not _is_cjk(sentence)


def _unopened(words: list[str]) -> list[str]:
    """Words without "please", "can you", "okay" and the like at the beginning."""
    while words and _leads("opening", words):
        words = words[1:]
    return words


def _without(words: list[str], echoed: Collection[str]) -> list[str]:
    """Words of an answer; a participle that is in the request too doesn't count, as it may come from there."""
    return ["…" if word in echoed and _has("did", [word]) else word for word in words]


def _is_own_deed(words: Sequence[str]) -> bool:
    """True for “I've added” and “gelöscht habe ich”; not for “I can see what was added”."""
    if _has("alone", words):
        return True
    for at, word in enumerate(words):
        for language in _LANGUAGES:
            if _has(f"first.{language}", [word]) and not _has("modal", words[:at]):
                behind = words[at + 1 : at + 5] if language == "en" else words
                return _has(f"did.{language}", behind) and not _has("modal", behind)
    return False


def _kind(words: Sequence[str]) -> str:
    return next((kind for kind in ("reminder", "sent", "ran") if _has(kind, words)), "done")


def _is_known(answer: str, known: Iterable[str]) -> bool:
    """True when most words of something done before, or of its quote, are in the answer."""
    said = _tokens(answer)
    owns = (_tokens(next(iter(re.findall("“(.+)”", line)), line)) for line in known)
    return any(len(own) > 1 and len(own & said) * 3 >= len(own) * 2 for own in owns)


def _tokens(text: str) -> set[str]:
    folded, found = text.casefold(), set[str]()
    for run in re.findall(rf"[{_CJK}]+", folded):
        found |= {run[at : at + 2] for at in range(len(run) - 1)}
    return found | {word for word in re.findall(rf"[^\W_{_CJK}]+", folded) if len(word) > 2 or word.isdigit()}


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n", text.lower().replace("’", "'"))
    return [part.strip() for part in parts if part.strip()]


def _is_cjk(text: str) -> bool:
    return re.search(f"[{_CJK}]", text) is not None


def _has(group: str, words: Sequence[str]) -> bool:
    """True if one of the words, or two or three in a row, belong to a group of words.txt."""
    whole, parts = _group(group)
    rows = ["_".join(words[at : at + count]) for at in range(len(words)) for count in (2, 3)]
    if not whole.isdisjoint(words) or not whole.isdisjoint(rows):
        return True
    text = f" {' '.join(words)}"
    return any(part in text for part in parts)


def _leads(group: str, words: list[str]) -> bool:
    """True if the first word belongs to a group, or the first two or three as one."""
    return _has(group, words[:1]) or not _group(group)[0].isdisjoint(["_".join(words[:2]), "_".join(words[:3])])


@cache
def _group(name: str) -> tuple[set[str], list[str]]:
    """The words of a group: whole ones, and beginnings of words together with what is written without spaces."""
    words = list[str]()
    for line in Path(__file__).with_name("words.txt").read_text("utf-8").splitlines():
        group, _, text = line.partition(" ")
        words += text.split() if name in (group, group.partition(".")[0]) else ()
    return set(words), [f" {w[:-1]}" if w[-1] == "-" else w for w in words if w[-1] == "-" or w >= "\u3000"]


_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = r"[^\W\d_]+(?:['-][^\W\d_]+)*"
_QUOTED = r"```.*?(?:```|$)|`[^`\n]*`|\"[^\"]*\"|“[^”]*”|„[^“]*“|«[^»]*»|「[^」]*」"
_CLAUSE = r"[,;:，；、：]\s*|\s(?:and|then|und|dann|et|puis|y|luego|e|poi|i|и|en|och|ve)\s"
_PART = r"[,;:](?!\d)|[，；：、—–]|\b(?:so|but|aber|mais|pero|ma|mas)\b"
_FILE = r"\w\.\w{2,5}\b"


HELPER, EARLIER = "delegate", 500
"""The tool whose report says what was run; effects of a conversation that are looked at for what may be told again."""

REMARK = (
    "{fact}. If your answer says or promises that it was done, do it now with a tool, or tell the person that it was "
    "not done. If it says nothing of the kind, give the same answer again."
)
PROMISE = (
    "Your answer promises “{}”, but nothing wakes you then: no job was made. Set one with cron now (a reminder, or a "
    "task that does the work), or answer without that promise. If it promises nothing, give the same answer again."
)


_MAY_PROMISE = re.compile(
    "(?i)['’](?:ll|m|re)|will |shall |going|let me|from me|ich |von mir|je |voy a|t[ei] |lhe |vos |vou "
    "|[aei]r(?:[éò]|ei)|我|ます"
)
"""A quick look: all hints of forms.json, and more."""


class Claims(Plugin):
    name = "claims"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def stream(self, turn: Turn) -> Filter | None:
        """Holds back the answer to a request that takes a tool until one had an effect, and one that claims an effect
        about which the person is yet to be asked: the model answers again after that."""
        if turn.origin != "person" or not turn.profile.acts:
            return None
        asked, last = _asked(turn)
        if last and last.refused == "later":
            return _HeldBack(lambda text: not unsupported(asked, text, ()))
        if wanted(asked) != "order":
            return None
        is_over = turn.effects or self._is_planned(turn)
        return None if is_over else _HeldBack(lambda text: not self._fact(text, turn))

    async def before_answer(self, answer: Answer, turn: Turn) -> TryAgain | None:
        if turn.origin != "person" or not turn.profile.acts or not answer.text.strip() or answer.files:
            return None
        if fact := self._fact(answer.text, turn):
            said: TryAgain | None = TryAgain(REMARK.format(fact=f"{fact[0].upper()}{fact[1:]}"), f"(nanoclaw: {fact}.)")
        elif turn.role == "owner" and _MAY_PROMISE.search(answer.text):
            said = self._promises(answer.text, turn)
        else:
            return None
        return None if self._is_planned(turn) else said

    def _promises(self, answer: str, turn: Turn) -> TryAgain | None:
        from nanoclaw.plugins.claims.promises import promised

        sentence = promised(_asked(turn)[0], answer, self._host.now())
        if not sentence or self._has_job(sentence, turn):
            return None
        return TryAgain(PROMISE.format(sentence), f"(nanoclaw: nothing was set for “{sentence}”.)")

    def _is_planned(self, turn: Turn) -> bool:
        """In plan mode the answer is a plan, and the person reads below it that nothing is changed."""
        plan = self._host.get("plan")
        return plan is not None and plan.is_on(turn.conversation)

    def _fact(self, answer: str, turn: Turn) -> str:
        asked, last = _asked(turn)
        failed = last.name if last and last.is_error else ""
        if not wanted(asked):
            return ""
        effects = [one for one in turn.effects if one.state in ("begun", "done") or one.kind == "command"]
        if [one.state for one in turn.effects if one.kind == "page"][-1:] == ["failed"]:  # what was typed was not sent
            effects = [one for one in effects if one.kind != "page"]
        effects += [Effect(one.name, "call", "", "") for one in turn.calls if one.name == HELPER]
        tool = self._host.tools(turn.profile).get(failed) if failed else None
        is_vain = bool(failed) and (tool is None or tool.reach != "none")  # a look is one also where it finds nothing
        known = () if is_vain else self._known(turn)
        fact = unsupported(asked, answer, effects, has_looked=bool(turn.calls) and not is_vain, known=known)
        return "no tool was used for this, and nothing was changed" if fact == NOTHING and not turn.calls else fact

    def _known(self, turn: Turn) -> Iterator[str]:
        """Texts of earlier effects in this conversation, of jobs, and of the prompt."""
        earlier = self._host.records.effects(turn.conversation, EARLIER)
        yield from (one.text for one in earlier if one.state in ("begun", "done"))
        if schedule := self._host.get("schedule"):
            yield from schedule.table().splitlines()
        yield from turn.system.splitlines()

    def _has_job(self, sentence: str, turn: Turn) -> bool:
        """True if the turn changed a job or the heartbeat's checklist, a job is due on a day that is named, or none can
        be made."""
        from nanoclaw.plugins.claims.promises import days

        targets = (one.target for one in turn.effects if one.state in ("begun", "done"))
        schedule, now = self._host.get("schedule"), self._host.now()
        if schedule is None or any(target.startswith("job ") or target == "HEARTBEAT.md" for target in targets):
            return True
        dues = [job["due"] for job in schedule.data()["jobs"] if job["due"] and job["state"] == "active"]
        set_for = {datetime.fromisoformat(due).astimezone(now.tzinfo).date() for due in dues}
        is_told = bool(set_for) and not set_for.isdisjoint(days(sentence, now, schedule.zone))
        return is_told or "cron" not in self._host.tools(turn.profile)


class _HeldBack:
    """A stream of which only an answer that `is_right` is shown, at its end: any other comes once, with the outbox."""

    def __init__(self, is_right: Callable[[str], bool]) -> None:
        self._is_right, self._text = is_right, ""

    def feed(self, text: str) -> str:
        self._text += text
        return ""

    def end(self) -> str:
        return self._text if self._is_right(self._text) else ""


def _asked(turn: Turn) -> tuple[str, ToolResult | None]:
    """The person's last words, and the last result since."""
    last: ToolResult | None = None
    for one in reversed(turn.history):
        if isinstance(one, ToolResult):
            last = last or one
        elif isinstance(one, UserMessage) and one.origin == "person":
            return own_words(one.text) if "[outside " in one.text else one.text, last
    return "", None
