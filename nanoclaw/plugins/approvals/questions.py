"""Answers to questions: which words of the owner mean which."""

from __future__ import annotations

from collections.abc import Callable

from nanoclaw.core.messages import Address, Button, CheckedCall, Inbound, Outbound
from nanoclaw.core.plugin import Ask, Host, Turn, Tx
from nanoclaw.exact_text import MOST, exactly, is_shown_whole
from nanoclaw.plugins.approvals.asks import MAIN, Asks, Question, came_to, commands, named
from nanoclaw.plugins.approvals.choices import extents, meaning, option_of
from nanoclaw.plugins.approvals.grants import OwnerGrants
from nanoclaw.yes_no import yes_or_no

KEPT, ANOTHER = "#0", "(with another message, which follows)"  # answers: the message kept last, and none
NOTED = "OK."


class OwnerQuestions(Asks):
    """Hears the answers."""

    def __init__(self, host: Host, grants: OwnerGrants, covers: Callable[[Ask, CheckedCall, Turn], bool]) -> None:
        super().__init__(host, covers)
        self._grants = grants

    def answer(self, tx: Tx, number: int, text: str, place: Address) -> str:
        """Note an answer of the owner's in their words, given at a place; what is said of that."""
        question = self.find(number)
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
            self.note(number, answer)
            return f"OK: “{answer}”." if answer in question.ask.options else NOTED
        if not self._may_answer(question, place):
            return f"Question {number} was asked in {question.place}: answer it there, or in a terminal."
        self.note(number, "no" if answer == "no" else "yes")
        if answer in ("yes", "no"):
            return "OK, going ahead." if answer == "yes" else "OK, I won't do it."
        told = self._grants.give(tx, question, always=answer == "always")
        for other in [one for one in self.open() if _is_same(question, one)]:
            self.note(other.number, "yes")
        return f"OK, going ahead. {told}"

    def _with_exact(self, question: Question, place: Address) -> str:
        exact = question.ask.exact
        return self._whole(question, place) + ("" if is_shown_whole(exact) else f"\n\n{exactly(exact, 10 * MOST)}")

    def _may_answer(self, question: Question, place: Address) -> bool:
        """Tells whether a yes or no may come from there: from where it was asked, from its conversation, or from a
        terminal of the machine."""
        home = self._conversation(place)
        return (
            place.channel == MAIN.channel
            or place in (question.place, question.about)
            or home in (self._conversation(question.place), self._conversation(question.about))
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
        if not (asked := self.open()):
            return None
        text, place, quoted = inbound.message.text.strip(), inbound.address, inbound.quoted
        here = [one for one in asked if place in self._shown(one)]
        if inbound.attachments:
            return self._queued(tx, here, inbound)
        ids = ((one, self._host.records.sent(self._shown(one).get(place, 0))[2]) for one in here if quoted)
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
        reach = self._in_reach(place) or self.open()
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
            self.note(one.number, ANOTHER)
        elif one and not inbound.wait_limit:
            below = (Button("It is my answer", f"/answer {one.number} {KEPT}"),) if one.ask.is_free else ()
            told = Outbound(inbound.address, _kept(one), reply_to=inbound.external_id, buttons=below)
            tx.send(told, is_news=False)
        return None

    def _in_reach(self, place: Address) -> list[Question]:
        """The open questions that were asked there, or about what goes on in its conversation."""
        home = self._conversation(place)
        return [one for one in self.open() if place in self._shown(one) or self._conversation(one.about) == home]

    def _is_last_said(self, question: Question, place: Address) -> bool:
        """Tells whether nothing was sent there since it was asked there, except itself again, and no turn begun."""
        row = self._shown(question).get(place, 0)
        itself = self._whole(question, place), self._with_exact(question, place), _kept(question), self.which("", place)
        return bool(row) and self._host.records.is_last(place, row, itself, question.asked)


def _meaning(question: Question, text: str, *, is_said: bool = False) -> str | None:
    """The answer that some words are to a question, None for none. `is_said`: they are said to be one."""
    if not question.ask.options:
        return meaning(question, text)
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
