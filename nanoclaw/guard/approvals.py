"""One gate for what needs the owner's yes: it asks where the owner is, and no answer is a no."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from nanoclaw.messages import Address, Button, Outbound

SECONDS = 300.0
"""So long a question is open."""

YES = frozenset(
    {
        *("yes", "y", "yep", "yeah", "ja", "jo", "jawohl", "oui", "ouais", "sí", "si", "sì", "sim", "да", "tak"),
        *("ano", "evet", "はい", "是", "是的", "好", "好的", "可以", "نعم", "👍", "✅"),
    }
)
NO = frozenset(
    {
        *("no", "n", "nope", "nein", "nee", "non", "não", "nao", "нет", "nie", "hayır", "いいえ", "不", "不要"),
        *("不行", "否", "لا", "👎", "❌"),
    }
)


@dataclass(frozen=True, slots=True)
class Question:
    """One that waits for its answer, and where it was asked."""

    place: Address
    answer: asyncio.Future[bool]


class Approvals:
    def __init__(
        self,
        *,
        place: Callable[[Address], Address | None],
        say: Callable[[Outbound], None],
        number: Callable[[], int],
        seconds: float = SECONDS,
    ) -> None:
        """`place(address)` is where the owner can be asked about what goes on in a conversation, None for nowhere;
        `number` gives one that no earlier question had, not even before a restart."""
        self._place, self._say, self._number, self._seconds = place, say, number, seconds
        self._open: dict[int, Question] = {}

    async def ask(self, question: str, address: Address) -> bool:
        """Whether the owner says yes in time. Whoever is cancelled while waiting has no yes."""
        place = self._place(address)
        if place is None:
            return False
        number = self._number()
        self._open[number] = Question(place, asyncio.get_running_loop().create_future())
        try:
            how = f"(“/yes {number}” or “/no {number}” answers it, or just yes or no.)"
            buttons = (Button("Yes", f"/yes {number}"), Button("No", f"/no {number}"))
            self._say(Outbound(place, f"{question}\n\n{how}", buttons=buttons))
            async with asyncio.timeout(self._seconds):
                return await self._open[number].answer
        except TimeoutError:
            return False
        finally:
            del self._open[number]

    def answer(self, number: int, is_yes: bool) -> str:
        """The owner has answered a question; what is said of that."""
        question = self._open.get(number)
        if question is None or question.answer.done():
            return f"There is no open question {number}: it was answered, or is over. Ask again if it still matters."
        question.answer.set_result(is_yes)
        return "Yes: it goes on." if is_yes else "No: it is not done."

    def hear(self, text: str, place: Address) -> str | None:
        """A bare yes or no of the owner, said where exactly one question is open; None for any other words."""
        word = text.strip().rstrip(".!").casefold()
        if word not in YES and word not in NO:
            return None
        here = [number for number, one in self._open.items() if one.place == place and not one.answer.done()]
        return self.answer(here[0], word in YES) if len(here) == 1 else None
