"""Questions to the owner: where and how they are asked, and which words answer them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nanoclaw.core.events import Notice, Settled
from nanoclaw.core.messages import Address, Button, CheckedCall, Inbound, Outbound
from nanoclaw.core.plugin import Ask, Host, Turn, Tx
from nanoclaw.escapes import one_line
from nanoclaw.exact_text import MOST, call_text, exactly, is_shown_whole
from nanoclaw.plugins.approvals.choices import listed, option_of, until
from nanoclaw.plugins.approvals.extents import buttons, extents, how, meaning
from nanoclaw.plugins.approvals.grants import OwnerGrants
from nanoclaw.yes_no import yes_or_no

MAIN = Address("terminal", "main")

SHORT, KEPT = 60, "#0"
"""Characters of a question that is only named; an answer that stands for the message that was kept last."""


class OwnerQuestions:
    """The core's asker: it keeps the questions, this asks them and hears the answers."""

    def __init__(self, host: Host, grants: OwnerGrants, is_allowed: Callable[..., bool]) -> None:
        self._host, self._grants, self._is_allowed = host, grants, is_allowed

    # --- asking ------------------------------------------------------------------------------------------------------

    def place(self, about: Address) -> Address | None:
        """Find where the owner can be asked now: right there, else in a terminal or a chat of their own."""
        access, schedule, delegate = map(self._host.get, ("access", "schedule", "delegate"))
        own = delegate.home_of(about) if delegate else about
        own = schedule.target_of(own) if schedule else own
        places = [own, MAIN, *(access.owners_chats() if access else ())]
        return next((one for one in places if self._is_owners(one) and self._is_there(one)), None)

    def worded(self, ask: Ask, call: CheckedCall | None, turn: Turn | None) -> Ask:
        """Name others' text that may have brought a yes/no question about, and show exactly what its yes is to."""
        if ask.options:
            return ask
        told = taint.warning(ask, call, turn) if call and turn and (taint := self._host.get("taint")) else ""
        exact = self._redacted(ask.exact or (call_text(call.arguments) if call else ""))
        shown = exactly(exact) if exact and not ask.for_all else ""
        return ask._replace(question="\n\n".join(filter(None, (ask.question, told, shown))), exact=exact)

    def ask(self, tx: Tx, question: Any) -> int:
        """Send the question, a yes/no to a call also to an open terminal; its row in the outbox."""
        number, options = question.number, question.ask.options
        if options:
            below = tuple(Button(one, f"/answer {number} #{index}") for index, one in enumerate(options, 1))
        else:
            below = buttons(question)
        is_also_there = question.turn and not options and question.place != MAIN and self._is_there(MAIN)
        rows = [
            (tx.send(Outbound(place, self._whole(question, place), buttons=below), is_news=False), place)
            for place in ([question.place, MAIN] if is_also_there else [question.place])
        ]
        for row, place in rows[1:]:
            sql = "INSERT INTO approvals_copies (outbox, ask, channel, chat) VALUES (?, ?, ?, ?)"
            tx.execute(sql, row, number, *place)
        tx.after(lambda: self._tell_the_others(question))
        return rows[0][0]

    def _shown(self, question: Any) -> dict[Address, int]:
        """By place, the row of the outbox that asked a question there."""
        sql = "SELECT channel, chat, outbox FROM approvals_copies WHERE ask = ?"
        copies = {Address(channel, chat): row for channel, chat, row in self._host.read(sql, question.number)}
        return {question.place: question.outbox, **copies}

    def _whole(self, question: Any, place: Address) -> str:
        """A question with all that belongs to it, as a place gets it."""
        about, options = question.about, question.ask.options
        delegate = self._host.get("delegate")
        who = (delegate.named(about) if delegate else "") or f"{about}, not from this chat"
        origin = "" if place == about else f"\n\n(This comes from {who}.)"
        told = f"{listed(options)}\n\n({self._how(question)})" if options else how(question)
        return self._redacted(f"{question.ask.question}{origin}\n\n{told}")

    def _redacted(self, text: str) -> str:
        return self._host.redact(text)

    def _how(self, question: Any) -> str:
        """Say in a line how a question with options is answered, and what happens otherwise."""
        own = " or your own words" if question.ask.is_free else ""
        own = ", or in a reply with your own words" if question.ask.asks_back else own
        at, default = until(question.expires, self._host.now()), question.ask.default
        then = f"At {at} I take “{default}”." if default else f"At {at} I go on without."
        return f"Answer with one of them{own}; “/answer {question.number} …” does it from anywhere. {then}"

    def still_open(self, question: Any) -> None:
        if told := self.reminder(question, question.place):
            self._host.show(question.place, Notice(told))

    def reminder(self, question: Any, place: Address) -> str:
        """Tell a terminal what its first words may be the answer to; '' while the question itself is still to come."""
        row = self._shown(question).get(place, 0)
        is_for = row or (place == MAIN and not question.ask.options)
        if not is_for or self._host.records.sent(row)[0] == "pending":
            return ""
        options = f" ({', '.join(question.ask.options)})" if question.ask.options else ""
        is_whole = _named(question) == question.ask.question
        whole = "" if is_whole else f", and /answer {question.number} shows all of it"
        waits = f"question {question.number} waits for your answer: “{_named(question)}”{options}"
        return f"{waits}: {_commands(question)}{whole}"

    def over(self, tx: Tx, question: Any) -> None:
        """Say what happens with a question whose time is over."""
        taken = question.answer.text
        then = f"so I take “{taken}”" if taken else "so I go on without an answer"
        text = f"Question {question.number} (“{_named(question)}”) was not answered in time, {then}."
        tx.send(Outbound(question.place, text), is_news=False)

    def settled(self, question: Any) -> None:
        """Take the buttons of a question away that is answered, or over, wherever it was asked."""
        shown = self._shown(question)
        for place, row in shown.items():
            if ids := self._host.records.sent(row)[2]:
                self._host.show(place, Settled(ids.split()[-1]))
        if len(shown) > 1:
            self._host.show(MAIN, Notice(_over(question, is_asked=False)))

    def covers(self, ask: Ask, call: CheckedCall, turn: Turn) -> bool:
        if ask.scope is None:
            return False
        is_granted = self._grants.covers(ask.scope, turn.sender, turn.conversation)
        return is_granted or self._is_allowed(call, turn, lifts_boundary=ask.scope.lifts_boundary)

    def _tell_the_others(self, question: Any) -> None:
        number, place, about = question.number, question.place, question.about
        is_shown = place == about and (about.channel != MAIN.channel or question.ask.options)
        if not is_shown:  # `nanoclaw -m` shows what answers it, no more
            self._host.show(about, Notice(f"waiting for the owner's answer to question {number}, asked in {place}"))
        home = self._conversation(about)
        if home not in (about, place):
            self._host.show(home, Notice(f"question {number} waits in {place}: {_commands(question)}"))

    def _is_owners(self, address: Address) -> bool:
        access = self._host.get("access")
        return access.is_owners(address) if access else address.channel == MAIN.channel

    def _is_there(self, address: Address) -> bool:
        channel = self._host.channel(address.channel)
        return channel is not None and channel.hints.stays and channel.serves(Outbound(address, ""))

    def _conversation(self, address: Address) -> Address:
        access = self._host.get("access")
        return (access.conversation_of(address) if access else None) or address

    # --- hearing -----------------------------------------------------------------------------------------------------

    def knows(self, number: int) -> bool:
        return self._host.questions.find(number) is not None

    def answer(self, tx: Tx, number: int, text: str, place: Address) -> str:
        """Note an answer of the owner's in their words, given at a place; what is said of that."""
        question = self._host.questions.find(number)
        if question is None or question.answer:
            return _over(question) if question else f"There is no open question {number}."
        if text == KEPT:
            text = self._host.records.take_kept(tx, place)
        if not text:
            return self._with_exact(question, place)
        answer = _meaning(question, text, is_said=True)
        if answer is None:
            wanted = " or ".join(question.ask.options or (one.label.lower() for one in extents(question)))
            return f"Question {number} (“{_named(question)}”) wants {wanted}: {_commands(question)}."
        if question.ask.options:
            self._host.questions.answer(number, answer)
            return f"“{answer}”: it goes on." if answer in question.ask.options else "Passed on in your words."
        if not self._may_answer(question, place):
            return f"Question {number} was asked in {question.place}: answer it there, or in a terminal."
        self._host.questions.answer(number, "no" if answer == "no" else "yes")
        if answer in ("yes", "no"):
            return "Yes: it goes on." if answer == "yes" else "No: it is not done."
        told = self._grants.give(tx, question, always=answer == "always")
        for other in self._host.questions.open():
            if _is_same(question, other):
                self._host.questions.answer(other.number, "yes")
        return f"Yes: it goes on. {told}"

    def _with_exact(self, question: Any, place: Address) -> str:
        exact = question.ask.exact
        return self._whole(question, place) + ("" if is_shown_whole(exact) else f"\n\n{exactly(exact, 10 * MOST)}")

    def _may_answer(self, question: Any, place: Address) -> bool:
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
        """Words of the owner to the question that they quote, else to the one that is open there: its options also
        when something else was said since, where a turn of this chat waits for them; a yes, a no and words of the
        owner's own only when it was the last thing said. None for words that may be meant for something else."""
        if not (asked := self._host.questions.open()):
            return None
        text, place, quoted = inbound.message.text.strip(), inbound.address, inbound.quoted
        here = [one for one in asked if place in self._shown(one)]
        if inbound.attachments:
            return self._queued(tx, here, inbound)
        replied = [one for one in here if quoted and self._is_quoted(one, quoted, place)]
        if replied and _meaning(replied[0], text, is_said=True) is not None:
            return self.answer(tx, replied[0].number, text, place)
        heard = [one for one in here if _meaning(one, text) is not None]
        if inbound.wait_limit:  # `nanoclaw -m`, which may be a script's
            heard = [one for one in heard if _meaning(one, text) in (one.ask.options or ("yes", "no"))]
        if not here:  # its turn is of this conversation, where nobody else would hear the word
            return self.which(text, place) if yes_or_no(text) is not None and self._in_reach(place) else None
        last = [] if quoted else [one for one in heard if self._is_last_said(one, place)]
        named = [] if quoted else [one for one in heard if one.ask.options and option_of(text, one.ask.options)]
        owns = [one for one in named if one.turn and one.about == place]
        if len(here) == 1 and (meant := last or owns):
            return self.answer(tx, meant[0].number, text, place)
        if len(named) == len(heard) == 1 and (last or owns):
            return self.answer(tx, named[0].number, text, place)
        # where the chat's own turn waits for the answer, nobody else would hear the word
        is_word = yes_or_no(text) is not None and any(one.about == place for one in heard)
        return self.which(text, place) if last or is_word else self._queued(tx, here, inbound)

    def which(self, text: str, place: Address) -> str:
        """Ask back after words that do not tell which question they answer."""
        reach = self._in_reach(place)
        fitting = [one for one in reach if _meaning(one, text) is not None] or reach
        named = " or ".join(_commands(one, text) for one in fitting)
        bare = {True: "/yes and its number", False: "/no and its number", None: "/answer, its number and the answer"}
        return f"Which question? Say {named or bare[yes_or_no(text)]}."

    def _queued(self, tx: Tx, here: list[Any], inbound: Inbound) -> str | None:
        """Say why a message is not answered yet: the turn of this chat waits for the owner."""
        one = next((one for one in here if one.turn and one.about == inbound.address), None)
        if one and not inbound.wait_limit:
            below = (Button("It is my answer", f"/answer {one.number} {KEPT}"),) if one.ask.is_free else ()
            told = Outbound(inbound.address, _kept(one), reply_to=inbound.external_id, buttons=below)
            tx.send(told, is_news=False)
        return None

    def _in_reach(self, place: Address) -> list[Any]:
        """The open questions that were asked there, or about what goes on in its conversation."""
        home = self._conversation(place)
        asked = self._host.questions.open()
        return [one for one in asked if place in self._shown(one) or self._conversation(one.about) == home]

    def _is_quoted(self, question: Any, quoted: str, place: Address) -> bool:
        return quoted in self._host.records.sent(self._shown(question).get(place, 0))[2].split()

    def _is_last_said(self, question: Any, place: Address) -> bool:
        """Tells whether nothing was sent there since it was asked there, except itself again, and no turn begun."""
        if not (row := self._shown(question).get(place)):
            return False
        itself = self._whole(question, place), self._with_exact(question, place), _kept(question)
        return self._host.records.is_last(place, row, itself, question.asked)


def _meaning(question: Any, text: str, *, is_said: bool = False) -> str | None:
    """The answer that some words are to a question, None for none. `is_said`: they are said to be one."""
    if not question.ask.options:
        return meaning(question, text)
    is_free = question.ask.is_free and (is_said or not question.ask.asks_back)
    return option_of(text, question.ask.options) or (text.strip() or None if is_free else None)


def _is_same(question: Any, other: Any) -> bool:
    """Tells whether a yes that continues for a time is one to another open question, too."""
    scope, about = question.ask.scope.key, (question.sender, question.conversation)
    return bool(other.ask.scope and other.ask.scope.key == scope and (other.sender, other.conversation) == about)


def _named(question: Any) -> str:
    """A question in short; a code span that is cut ends there."""
    text, fence = one_line(question.ask.question.partition("\n\n```")[0], SHORT), ""
    for run in re.findall("`+", text):
        fence = "" if run == fence else fence or run
    return text + fence


def _kept(question: Any) -> str:
    first = f"Kept. First I need your answer to question {question.number} (“{_named(question)}”)"
    this = f" If this is it: /answer {question.number} {KEPT}." if question.ask.is_free else ""
    return f"{first}: {_commands(question)}.{this} /stop drops the question and what is kept."


def _commands(question: Any, text: str = "") -> str:
    """Commands that answer a question; those that mean the same as some words."""
    number, is_yes = question.number, yes_or_no(text)
    if question.ask.options:
        return f"/answer {number} {one_line(text, SHORT) or '…'}"
    return f"/yes {number} or /no {number}" if is_yes is None else f"/{'yes' if is_yes else 'no'} {number}"


def _over(question: Any, *, is_asked: bool = True) -> str:
    """Say of a question that is not open any more what it came to."""
    text, by = question.answer
    came_to = f": “{one_line(text, SHORT)}”" if text else ""
    why = {
        "owner": f"it was answered{came_to}",
        "time": f"its time was over{came_to and f', and “{one_line(text, SHORT)}” was taken'}",
        "nobody": "what it was about has ended",
    }[by]
    if not is_asked:
        return f"question {question.number} (“{_named(question)}”) is over: {why}"
    return f"There is no open question {question.number}: {why}. Ask again if it still matters."
