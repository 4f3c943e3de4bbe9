"""Making room when a conversation outgrows the model's window: one way, whoever asks for it.

Long results of tools are shortened first. Where that is not enough, plugins keep what is worth it of the older part,
and a summary takes the older part's place; its newest part stays word for word. Where the model writes none, a line for
each of the oldest turns is there until it does. Everything stays in the store: only what is sent changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from nanoclaw.core.errors import ContextTooLong, NanoclawError
from nanoclaw.core.plugin import EVERYBODY, Command, Host, Plugin, Said, Turn
from nanoclaw.core.provider import estimate_request

RESERVE_TOKENS = 16_000
"""Tokens left free for the answer, or a quarter of a small window."""


class Compaction(Plugin):
    name = "compaction"
    seconds: ClassVar[float] = float("inf")  # a turn has its own limit, and a person can stop it

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def commands(self) -> Sequence[Command]:
        shorten = "sum up the older part, to make room; /compact TEXT keeps details about TEXT"
        return (Command("compact", shorten, self._compact, "talk", EVERYBODY, waits=True),)

    async def make_room(self, turn: Turn, error: ContextTooLong | None) -> bool:
        asked = self._host.model_of(turn)
        window = asked.window or (error.window if error else None)
        if window is None:
            return False
        before = round(estimate_request(turn.request, asked.name) * asked.factor)
        room = min(room_of(window), room_of(before)) if error else room_of(window)
        if before <= room:
            return False
        from nanoclaw.plugins.compaction.shrink import Shrink

        return await Shrink(self._host, turn).make_room(window, room, before)

    async def _compact(self, said: Said) -> str:
        """Sum the conversation up; it stays as it is where the model fails or the person stops it."""
        from nanoclaw.plugins.compaction.shrink import Shrink

        try:
            async with self._host.beside(said) as turn:
                return await Shrink(self._host, turn).by_hand(said.argument)
        except NanoclawError as error:
            why = "I can't do that just now." if said.profile == "guest" else error
            return f"Not summed up: {why} The conversation is as it was."


def room_of(window: int) -> int:
    """Tokens that a request may have, so that there is room for the answer."""
    return window - min(RESERVE_TOKENS, window // 4)
