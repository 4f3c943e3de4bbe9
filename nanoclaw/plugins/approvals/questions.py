"""Questions to the owner: where and how they are asked, and which words answer them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from nanoclaw.core.events import Notice, Settled
from nanoclaw.core.messages import Address, Button, Outbound
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.yes_no import yes_or_no

MAIN = Address("terminal", "main")


class OwnerQuestions:
    """The core's asker: it keeps the questions, this asks them and hears the answers."""

    def __init__(self, host: Host) -> None:
        self._host, self._asks = host, host.get("core").asks

    # --- asking ------------------------------------------------------------------------------------------------------

    def place(self, about: Address) -> Address | None:
        """Find where the owner can be asked now: right there, else in a terminal or a chat of their own."""
        access, schedule = self._host.get("access"), self._host.get("schedule")
        own = schedule.target_of(about) if schedule else about
        places = [own, MAIN, *(access.owners_chats() if access else ())]
        return next((one for one in places if self._is_owners(one) and self._is_there(one)), None)

    def ask(self, tx: Tx, number: int, question: str, place: Address, about: Address) -> int:
        """Send the question; its row in the outbox."""
        origin = "" if place == about else f"\n\n(This comes from {about}, not from this chat.)"
        how = f"(“/yes {number}” or “/no {number}” answers it, or just yes or no right after it.)"
        buttons = (Button("Yes", f"/yes {number}"), Button("No", f"/no {number}"))
        row = tx.send(Outbound(place, f"{question}{origin}\n\n{how}", buttons=buttons), is_news=False)
        tx.after(lambda: self._tell_the_others(number, place, about))
        return row

    def settled(self, question: Any) -> None:
        """Take the buttons of a question away that is answered, or over."""
        rows = self._host.read("SELECT platform_id FROM outbox WHERE id = ?", question.outbox)
        if shown := rows[0][0].rpartition(" ")[2] if rows else "":
            self._host.show(question.place, Settled(shown))

    def _tell_the_others(self, number: int, place: Address, about: Address) -> None:
        if place != about or about.channel == MAIN.channel:  # `nanoclaw -m` shows what answers it, no more
            self._host.show(about, Notice(f"waiting for the owner's answer to question {number}, asked in {place}"))
        home = self._conversation(about)
        if home not in (about, place):
            self._host.show(home, Notice(f"question {number} waits in {place}: /yes {number} or /no {number}"))

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

    def answer(self, tx: Tx, number: int, is_yes: bool) -> str:
        """Note an answer of the owner's; what is said of that."""
        if self._asks.answer(number, is_yes) is None:
            over = "it was answered, its time is over, or the program was started anew"
            return f"There is no open question {number}: {over}. Ask again if it still matters."
        return "Yes: it goes on." if is_yes else "No: it is not done."

    def hear(self, tx: Tx, text: str, place: Address, quoted: str = "") -> str | None:
        """A bare yes or no of the owner: to the question that it quotes, else to the one that is open there and was the
        last thing said. None for any other words, and where it may be meant for something else."""
        is_yes, questions = yes_or_no(text), self._asks.open()
        if is_yes is None:
            return None
        here = [one for one in questions if one.place == place]
        if not here:  # its turn is of this conversation, where nobody else would hear the word
            return self.which(is_yes, place) if self._in_reach(place) else None
        meant = [one for one in here if (self._is_quoted(one, quoted) if quoted else self._is_last_said(one))]
        if meant and (quoted or len(here) == 1):
            return self.answer(tx, meant[0].number, is_yes)
        # where the chat's own turn waits for the answer, nobody else would hear the word
        return self.which(is_yes, place) if meant or any(one.about == place for one in here) else None

    def which(self, is_yes: bool, place: Address) -> str:
        """Ask back after a yes or no that does not tell which question it answers."""
        word = "yes" if is_yes else "no"
        named = " or ".join(f"/{word} {number}" for number in self._in_reach(place))
        return f"Which question? Say {named or f'/{word} and its number'}."

    def _in_reach(self, place: Address) -> list[int]:
        """The open questions that were asked there, or about what goes on in its conversation."""
        home = self._conversation(place)
        return [one.number for one in self._asks.open() if one.place == place or self._conversation(one.about) == home]

    def _is_quoted(self, question: Any, quoted: str) -> bool:
        rows = self._host.read("SELECT platform_id FROM outbox WHERE id = ?", question.outbox)
        return bool(rows) and quoted in rows[0][0].split()

    def _is_last_said(self, question: Any) -> bool:
        """Tells whether nothing was sent there since, and no turn begun."""
        place = question.place
        sql = "SELECT 1 FROM outbox WHERE channel = ? AND chat = ? AND id > ? LIMIT 1"
        if self._host.read(sql, place.channel, place.chat, question.outbox):
            return False
        sql = (
            "SELECT started FROM turns JOIN inbox ON inbox.id = turns.inbox WHERE channel = ? AND chat = ?"
            " ORDER BY turns.id DESC LIMIT 1"
        )
        begun = self._host.read(sql, place.channel, place.chat)
        return not begun or datetime.fromisoformat(begun[0][0]) <= question.asked
