"""One gate for what needs the owner's yes: it asks where the owner is, and no answer is a no."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import Event, Notice, Settled
from nanoclaw.core.messages import Address, Button, Outbound

SECONDS = 300.0
"""So long a question is open."""

HEAD, TAIL = 2_000, 1_000
"""Of a longer text so many characters are shown to be judged."""

YES = frozenset(
    {
        *("yes", "y", "yep", "yeah", "ja", "jo", "jawohl", "oui", "ouais", "sí", "si", "sì", "sim", "да", "tak"),
        *("ano", "evet", "はい", "是", "是的", "好", "好的", "可以", "نعم", "👍", "✅", "yes please", "ja bitte"),
    }
)
NO = frozenset(
    {
        *("no", "n", "nope", "nein", "nee", "non", "não", "nao", "нет", "nie", "hayır", "いいえ", "不", "不要"),
        *("不行", "否", "لا", "👎", "❌", "no thanks", "nein danke"),
    }
)

Mark = tuple[int, int]
"""The newest message to a chat and the newest turn begun there, by their numbers."""


class Question(NamedTuple):
    """One that waits for its answer: for a turn at `asker`, asked at `place`, where it was the last thing said as long
    as `mark` holds; its first number is the question's own."""

    asker: Address
    place: Address
    mark: Mark
    answer: asyncio.Future[bool]


class Approvals:
    def __init__(
        self,
        *,
        place: Callable[[Address], Address | None],
        say: Callable[[Outbound], None],
        number: Callable[[], int],
        last: Callable[[Address], Mark],
        message: Callable[[Address, str], int | None],
        show: Callable[[Address, Event], None],
        home: Callable[[Address], Address] = lambda address: address,
        sent_as: Callable[[int], str] = lambda message: "",
        note: Callable[[Sequence[tuple[Address, int]]], None] = lambda asked: None,
        seconds: float = SECONDS,
    ) -> None:
        """`place(address)` is where the owner can be asked about what goes on at an address, None for nowhere;
        `number` gives one that no earlier question had, not even before a restart; `last(address)` tells what was said
        and begun there last, and `message(address, id)` which message to it has the platform's id.
        `home(address)` is the conversation of an address, which it may share with others; `sent_as(message)` is the
        platform's id of a message of ours, '' before it has one. `note(asked)` keeps which messages ask what is open,
        each with its place, for a later process to `settle`."""
        self._place, self._say, self._number, self._seconds = place, say, number, seconds
        self._last, self._message, self._show, self._home, self._sent_as = last, message, show, home, sent_as
        self._note = note
        self._open: dict[int, Question] = {}

    async def ask(self, text: str, address: Address) -> bool:
        """Whether the owner says yes in time to a question. Whoever is cancelled while waiting has no yes."""
        place = self._place(address)
        if place is None:
            return False
        number = self._number()
        origin = "" if place == address else f"\n\n(This comes from {address}, not from this chat.)"
        how = f"(“/yes {number}” or “/no {number}” answers it, or just yes or no right after it.)"
        buttons = (Button("Yes", f"/yes {number}"), Button("No", f"/no {number}"))
        self._say(Outbound(place, f"{text}{origin}\n\n{how}", buttons=buttons))
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._open[number] = Question(address, place, self._last(place), answer)
        try:
            self._note_open()
            if place != address or address.channel == "terminal":  # `nanoclaw -m` shows what answers it, no more
                waiting = f"waiting for the owner's answer to question {number}, asked in {place}"
                self._show(address, Notice(waiting))
            if self._home(address) not in (address, place):
                self._show(
                    self._home(address), Notice(f"question {number} waits in {place}: /yes {number} or /no {number}")
                )
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:
            return False
        finally:
            question = self._open.pop(number)
            self.settle(place, question.mark[0])
            with suppress(StoreError):
                self._note_open()

    def settle(self, place: Address, message: int) -> None:
        """What a message of ours asked there is over."""
        if shown := self._sent_as(message):
            self._show(place, Settled(shown))

    def _note_open(self) -> None:
        self._note([(one.place, one.mark[0]) for one in self._open.values()])

    def answer(self, number: int, is_yes: bool) -> str:
        """The owner has answered a question; what is said of that."""
        question = self._open.get(number)
        if question is None or question.answer.done():
            over = "it was answered, its time is over, or the program was started anew"
            return f"There is no open question {number}: {over}. Ask again if it still matters."
        question.answer.set_result(is_yes)
        return "Yes: it goes on." if is_yes else "No: it is not done."

    def hear(self, text: str, place: Address, quoted: str = "") -> str | None:
        """A bare yes or no of the owner: to the question that it quotes, else to the one that is open there and was the
        last thing said. None for any other words, and where it may be meant for something else."""
        word = " ".join(text.replace(",", " ").split()).rstrip(".!").casefold()
        if word not in YES and word not in NO:
            return None
        is_yes = word in YES
        here = {number: one for number, one in self._open.items() if one.place == place and not one.answer.done()}
        if not here:  # its turn is of this conversation, where nobody else would hear the word
            return self.which(is_yes, place) if self._in_reach(place) else None
        mark, message = (self._last(place), None) if not quoted else (None, self._message(place, quoted))
        meant = [number for number, one in here.items() if one.mark == mark or one.mark[0] == message]
        if meant and (quoted or len(here) == 1):
            return self.answer(meant[0], is_yes)
        # where the chat's own turn waits for the answer, nobody else would hear the word
        return self.which(is_yes, place) if meant or any(one.asker == place for one in here.values()) else None

    def which(self, is_yes: bool, place: Address) -> str:
        """What is said to a yes or no that does not tell which question it answers."""
        word = "yes" if is_yes else "no"
        named = " or ".join(f"/{word} {number}" for number in self._in_reach(place))
        return f"Which question? Say {named or f'/{word} and its number'}."

    def _in_reach(self, place: Address) -> list[int]:
        """The open questions that were asked there, or about what goes on in its conversation."""
        home = self._home(place)
        return [
            number
            for number, one in self._open.items()
            if not one.answer.done() and (one.place == place or self._home(one.asker) == home)
        ]


def exactly(text: str) -> str:
    """A text for the owner to judge: a code block, so that none of its Markdown is rendered and no link hides. How long
    it is, and that its middle is left out, is said of one that is too long."""
    if len(text) <= HEAD + TAIL:
        return _block(text)
    left_out = f"({len(text):,} characters in all; {len(text) - HEAD - TAIL:,} of them are not shown here)"
    return "\n\n".join([_block(text[:HEAD]), left_out, _block(text[-TAIL:])])


def _block(text: str) -> str:
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}\n{text}\n{fence}"
