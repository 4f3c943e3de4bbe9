"""Answers to questions: how one is given, and which words of the owner mean which option, or which extent of a yes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from nanoclaw.clock import short_time
from nanoclaw.core.channel import MAIN
from nanoclaw.core.messages import Address, Button, Inbound, Outbound
from nanoclaw.core.plugin import Host, NamedTuple, Said, Tx
from nanoclaw.exact_text import MOST, exactly, is_shown_whole
from nanoclaw.plugins.approvals.asks import NOTED, Asks, Question, came_to, commands, named
from nanoclaw.plugins.approvals.grants import OwnerGrants
from nanoclaw.yes_no import yes_or_no

KEPT, ANOTHER = "#0", "(with another message, which follows)"  # answers: the message kept last, and none


class OwnersAnswers:
    """Hears the answers to what was asked."""

    def __init__(self, host: Host, asks: Asks, grants: OwnerGrants) -> None:
        self._host, self._asks, self._grants = host, asks, grants

    def said(self, tx: Tx, said: Said, word: str) -> str:
        """An answer that names its question, or that only one can mean. `word` is that of /yes and /no."""
        argument = said.argument.strip().removeprefix("#").replace(":", " ", 1)
        number, _, rest = argument.partition(" ")
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        rest = " ".join((rest if is_number else argument).split())
        is_extent = word == "yes" and rest.casefold() in EXTENT_WORDS
        if is_number and (not rest or is_extent if word else self._asks.find(int(number))):
            return self.answer(tx, int(number), f"{word} {rest}".strip(), said.address)
        return self.answer_the_one(tx, f"{word} {said.argument}".strip(), said.address)

    def answer(self, tx: Tx, number: int, text: str, place: Address) -> str:
        """Note an answer of the owner's in their words, given at a place; what is said of that."""
        question = self._asks.find(number)
        if question is None or question.answer:
            return came_to(question) if question else f"There is no open question {number}."
        if text == KEPT:
            text = self._host.records.take_kept(tx, place)
        if not text:
            return self._with_exact(question, place)
        answer = _meaning(question, text, is_said=True)
        if answer is None:
            wanted = " or ".join(question.ask.options or (one.label.lower() for one in extents(question)))
            return f"Question {number} (“{named(question)}”) wants {wanted}: {commands(question)}."
        if question.ask.options:
            self._asks.note(number, answer)
            return f"OK: “{answer}”." if answer in question.ask.options else NOTED
        if not self._may_answer(question, place):
            return f"Question {number} was asked in {question.place}: answer it there, or in a terminal."
        self._asks.note(number, "no" if answer == "no" else "yes")
        if answer in ("yes", "no"):
            return "OK, going ahead." if answer == "yes" else "OK, I won't do it."
        told = self._grants.give(tx, question, always=answer == "always")
        for other in [one for one in self._asks.open() if _is_same(question, one)]:
            self._asks.note(other.number, "yes")
        return f"OK, going ahead. {told}"

    def _with_exact(self, question: Question, place: Address) -> str:
        exact = question.ask.exact
        return self._asks.whole(question, place) + ("" if is_shown_whole(exact) else f"\n\n{exactly(exact, 10 * MOST)}")

    def _may_answer(self, question: Question, place: Address) -> bool:
        """Tells whether a yes or no may come from there: from where it was asked, from its conversation, or from a
        terminal of the machine."""
        home = self._asks.conversation(place)
        return (
            place.channel == MAIN.channel
            or place in (question.place, question.about)
            or home in (self._asks.conversation(question.place), self._asks.conversation(question.about))
        )

    def answer_the_one(self, tx: Tx, text: str, place: Address) -> str:
        """An answer that names no question: to the only one that it can be meant for, else ask back."""
        reach = [one for one in self._in_reach(place) if _meaning(one, text, is_said=True) is not None]
        sure = [one for one in reach if one.ask.options or self._is_last_said(one, place)]
        return self.answer(tx, sure[0].number, text, place) if len(reach) == len(sure) == 1 else self.which(text, place)

    def match_answer(self, tx: Tx, inbound: Inbound) -> str | None:
        """Words of the owner to the question that they quote, else to the one that is open there: its options
        where a turn of this chat waits for them, any words where those end it, others if it was the last thing said.
        None for words that may be meant for something else."""
        if not (asked := self._asks.open()):
            return None
        text, place, quoted = inbound.message.text.strip(), inbound.address, inbound.quoted
        here = [one for one in asked if place in self._asks.shown(one)]
        if inbound.attachments:
            return self._queued(tx, here, inbound)
        ids = ((one, self._host.records.sent(self._asks.shown(one).get(place, 0))[2]) for one in here if quoted)
        replied = [one for one, sent in ids if quoted in sent.split()]
        if replied and _meaning(replied[0], text, is_said=True) is not None:
            return self.answer(tx, replied[0].number, text, place)
        heard = [one for one in here if _meaning(one, text) is not None]
        if inbound.wait_limit:  # `nanoclaw -m`, which may be a script's
            heard = [one for one in heard if _meaning(one, text) in (one.ask.options or ("yes", "no"))]
        if not here:  # its turn is of this conversation, where nobody else would hear the word
            return self.which(text, place) if yes_or_no(text) is not None and self._in_reach(place) else None
        last = [] if quoted else [one for one in heard if _hears_all(one, place) or self._is_last_said(one, place)]
        named = [] if quoted else [one for one in heard if one.ask.options and option_of(text, one.ask.options)]
        owns = [one for one in named if one.turn and one.about == place]
        one_named = named if len(named) == len(heard) == 1 else []
        if (last or owns) and (meant := (last or owns) if len(here) == 1 else one_named):
            return self.answer(tx, meant[0].number, text, place)
        is_word = yes_or_no(text) is not None and any(one.about == place for one in heard)
        is_unclear = len(here) == 1 and not (quoted or inbound.wait_limit) and _may_mean(here[0], text, place)
        return self.which(text, place) if last or is_word or is_unclear else self._queued(tx, here, inbound)

    def which(self, text: str, place: Address) -> str:
        """Ask back after words that do not tell which question they answer, or what the answer is."""
        reach = self._in_reach(place) or self._asks.open()
        fitting = [one for one in reach if _meaning(one, text) is not None] or reach
        said = " or ".join(commands(one, text) for one in fitting)
        if len(fitting) != 1:
            return f"Which question? Say {said}." if said else "No question is open."
        asked = f"question {fitting[0].number} (“{named(fitting[0])}”)"
        return f"Is that your answer to {asked}? Then say {said}. If it is something else, say it again after that."

    def _queued(self, tx: Tx, here: list[Question], inbound: Inbound) -> str | None:
        """Say why a message is not answered yet: the turn of this chat waits for the owner, unless this ends it."""
        one = next((one for one in here if (one.turn or one.ask.options) and one.about == inbound.address), None)
        if one and not inbound.wait_limit and _hears_all(one, inbound.address):
            self._asks.note(one.number, ANOTHER)
        elif one and not inbound.wait_limit:
            below = (Button("It is my answer", f"/answer {one.number} {KEPT}"),) if one.ask.is_free else ()
            told = Outbound(inbound.address, _kept(one), reply_to=inbound.external_id, buttons=below)
            tx.send(told, is_news=False)
        return None

    def _in_reach(self, place: Address) -> list[Question]:
        """The open questions that were asked there, or about what goes on in its conversation."""
        home = self._asks.conversation(place)
        return [
            one
            for one in self._asks.open()
            if place in self._asks.shown(one) or self._asks.conversation(one.about) == home
        ]

    def _is_last_said(self, question: Question, place: Address) -> bool:
        """Tells whether nothing was sent there since it was asked there, except itself again, and no turn begun."""
        row = self._asks.shown(question).get(place, 0)
        itself = (
            self._asks.whole(question, place),
            self._with_exact(question, place),
            _kept(question),
            self.which("", place),
        )
        return bool(row) and self._host.records.is_last(place, row, itself, question.asked)


def _meaning(question: Question, text: str, *, is_said: bool = False) -> str | None:
    """The answer that some words are to a question, None for none. `is_said`: they are said to be one."""
    if not question.ask.options:
        return _extent(question, text)
    is_free = question.ask.is_free and (is_said or not question.ask.asks_back)
    return option_of(text, question.ask.options) or (text.strip() or None if is_free else None)


def _may_mean(question: Question, text: str, place: Address) -> bool:
    """True for few words to a yes/no question for which a turn of this chat waits: they may be an answer."""
    is_waited_for = bool(question.turn) and question.about == place and not question.ask.options
    return is_waited_for and len(text) <= 40 and len(text.split()) <= 6


def _hears_all(question: Question, place: Address) -> bool:
    """True for a question of this chat without a default that takes any words: those that are no answer end it."""
    return question.ask.is_free and not question.ask.asks_back and not question.ask.default and question.about == place


def _is_same(question: Question, other: Question) -> bool:
    """Tells whether a yes that continues for a time is one to another open question, too."""
    about = [(one.ask.scope and one.ask.scope.key, one.sender, one.conversation) for one in (question, other)]
    return about[0] == about[1]


def _kept(question: Question) -> str:
    first = f"Kept. First I need your answer to question {question.number} (“{named(question)}”)"
    this = f" If this is it: /answer {question.number} {KEPT}." if question.ask.is_free else ""
    return f"{first}: {commands(question)}.{this} /stop drops the question and what is kept."


def are_numbered(options: Sequence[str]) -> bool:
    """True where a number can mean nothing but an option."""
    return len(options) > 1 and not any(_folded(one).isdigit() for one in options)


def option_of(text: str, options: Sequence[str]) -> str | None:
    """The option that is meant by its words in any case, the beginning of them, its number (“#2” is that always), or a
    yes or no that one of two options is."""
    said = _folded(text)
    number = said.removeprefix("#")
    is_number = number.isascii() and number.isdigit() and 0 < int(number[:3]) <= len(options)
    if is_number and said.startswith("#"):
        return options[int(number[:3]) - 1]
    if exact := [one for one in options if _folded(one) == said]:
        return exact[0]
    if is_number and are_numbered(options):
        return options[int(number[:3]) - 1]
    if len(begun := [one for one in options if said and _folded(one).startswith(said)]) == 1:
        return begun[0]
    return _by_yes_or_no(text, options)


def _by_yes_or_no(text: str, options: Sequence[str]) -> str | None:
    if (is_yes := yes_or_no(text)) is None:
        return None
    meanings = [yes_or_no(one) for one in options]
    if is_yes in meanings:
        return options[meanings.index(is_yes)]
    return options[meanings.index(None)] if len(options) == 2 and (not is_yes) in meanings else None


def _folded(text: str) -> str:
    return " ".join(text.split()).rstrip(".!").casefold()


Answer = Literal["yes", "hour", "always", "no"]

EXTENT_WORDS: dict[str, Answer] = {
    **dict.fromkeys(("hour", "1h", "an hour", "for an hour", "for 1 hour"), "hour"),
    **dict.fromkeys(("always", "for good"), "always"),
}
"""Words that may follow a yes, or replace it."""


class Extent(NamedTuple):
    """One answer to a yes/no question: what is said of it on a button, and what gives it from anywhere."""

    said: Answer
    label: str
    command: str


def extents(question: Question) -> tuple[Extent, ...]:
    """The answers that a yes/no question has. One that no turn waits for is about itself alone."""
    number, scope = question.number, question.ask.scope if question.turn else None
    longer = [Extent("hour", "Yes for an hour", f"/yes {number} hour")] if scope else []
    if scope and scope.is_place:
        longer.append(Extent("always", "Yes always", f"/yes {number} always"))
    return Extent("yes", "Yes", f"/yes {number}"), *longer, Extent("no", "No", f"/no {number}")


def buttons(question: Question) -> tuple[Button, ...]:
    if options := question.ask.options:
        return tuple(Button(one, f"/answer {question.number} #{index}") for index, one in enumerate(options, 1))
    unfold = () if is_shown_whole(question.ask.exact) else (Button("Show all", f"/answer {question.number}"),)
    return (*(Button(one.label, one.command) for one in extents(question)), *unfold)


def how(question: Question, now: datetime) -> str:
    """Say what answers a question; of one with options also what happens otherwise."""
    number, ask, offered = question.number, question.ask, extents(question)
    if ask.options:
        numbered = are_numbered(ask.options)
        lines = [f"{index}. {one}" if numbered else f"- {one}" for index, one in enumerate(ask.options, 1)]
        options = f"1–{len(lines)}" if numbered else "with one of them"
        words = f", or “/answer {number} …” in your own words" if ask.is_free else ""
        otherwise = f"take “{ask.default}”" if ask.default else "go on without an answer"
        told = f"Reply {options}{words}. At {short_time(question.expires, now)} I {otherwise}."
        return "\n".join([*lines, f"\n({told})"])
    show = "" if is_shown_whole(ask.exact) else f" “/answer {number}” shows all of it."
    if len(offered) == 2:
        return f"(“/yes {number}” or “/no {number}” answers it, or just yes or no right after it.{show})"
    about = {one: f": {ask.scope.words}" for one in ("hour", "always") if ask.scope}  # what it is for
    lines = [f"{index}. {one.label}{about.get(one.said, '')}" for index, one in enumerate(offered, 1)]
    commands = ", ".join(f"“{one.command}”" for one in offered[:-1])
    answers = f"{commands} or “{offered[-1].command}” answers it; right after it a number or the words do"
    return "\n".join([*lines, f"\n({answers}.{show})"])


def _extent(question: Question, text: str) -> Answer | None:
    """The answer that some words are, None for none."""
    offered = extents(question)
    if len(offered) > 2:
        said = " ".join(text.split()).rstrip(".!").casefold()
        longer = EXTENT_WORDS.get(said.removeprefix("yes").strip(" ,"))
        if any(one.said == longer for one in offered):
            return longer
        label = option_of(text, [one.label for one in offered])
        return next((one.said for one in offered if one.label == label), None)
    is_yes = yes_or_no(text)
    return None if is_yes is None else "yes" if is_yes else "no"
