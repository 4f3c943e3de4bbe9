"""What waits for an answer: messages in their lanes, turns whose model cannot be reached, and what a stop dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from nanoclaw.core.lanes import Lane, Lanes
from nanoclaw.core.messages import Address, Inbound
from nanoclaw.core.store.inbox import OpenTurn

KNOCK_SECONDS = (30, 60, 120, 300)
"""Pauses before a model that cannot be reached is asked again; the last one for ever."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message, its row in the inbox, and the conversation that it is part of."""

    row: int
    inbound: Inbound
    conversation: Address

    @property
    def address(self) -> Address:
        return self.inbound.address

    @property
    def written(self) -> datetime:
        return self.inbound.message.at


@dataclass(frozen=True, slots=True)
class GoOn:
    """An open turn that is to be taken up again."""

    turn: OpenTurn
    conversation: Address

    @property
    def written(self) -> datetime:
        return self.turn.inbound.message.at

    @property
    def address(self) -> Address:
        return self.turn.address


Item = Accepted | GoOn
"""What stands in a lane."""


class Held(NamedTuple):
    """A turn that waits for a model that cannot be reached; `knocks` counts how often it was asked. `behind` came from
    elsewhere meanwhile, and has turns of its own after it."""

    turn: OpenTurn
    knocks: int
    timer: asyncio.TimerHandle | None = None
    behind: tuple[Accepted, ...] = ()


Dropped = Sequence[tuple[int, str]]
"""Rows of the inbox that a stop dropped, with their texts."""


class Waiting:
    """One lane for each conversation, and beside it at most one turn that is held until its model answers again."""

    def __init__(
        self,
        handle: Callable[[Item], Awaitable[None]],
        on_error: Callable[[Item, Exception], None],
        words: Callable[[Accepted], str],
        knock_seconds: Sequence[float],
    ) -> None:
        """`words(item)` is what a message that waits says now, '' for one that need not be named."""
        self._lanes: Lanes[Item] = Lanes(handle, on_error)
        self._held: dict[Address, Held] = {}
        self._dropped: dict[Address, list[tuple[int, str]]] = {}  # until it is told
        self._words, self._knock_seconds = words, tuple(knock_seconds)

    def put(self, item: Item) -> None:
        self._lanes.of(item.conversation).put(item)

    def lane(self, conversation: Address) -> Lane[Item]:
        return self._lanes.of(conversation)

    async def idle(self) -> None:
        await self._lanes.idle()

    async def close(self) -> None:
        """Cancel what runs and keep what waits for another time."""
        for held in self._held.values():
            if held.timer:
                held.timer.cancel()
        await self._lanes.close()

    # --- turns whose model cannot be reached -------------------------------------------------------------------------

    def hold(self, conversation: Address, turn: OpenTurn, knocks: int) -> float:
        """Keep a turn for which the model was asked in vain once more; the seconds until it is asked again."""
        pause = self._knock_seconds[min(knocks, len(self._knock_seconds) - 1)]
        timer = asyncio.get_running_loop().call_later(pause, self._knock, conversation)
        self._held[conversation] = Held(turn, knocks + 1, timer)
        return pause

    def take_up(self, conversation: Address, turn: OpenTurn) -> None:
        """Ask again for a turn that an earlier process held."""
        self._held[conversation] = Held(turn, 1)
        self.put(GoOn(turn, conversation))

    def is_held_elsewhere(self, conversation: Address, address: Address) -> bool:
        """Whether a turn that was asked for at another address holds its conversation up."""
        held = self._held.get(conversation)
        return held is not None and held.turn.address != address

    def put_behind(self, conversation: Address, batch: Sequence[Accepted]) -> None:
        """Have messages wait for the turn that is held there."""
        held = self._held[conversation]
        self._held[conversation] = held._replace(behind=(*held.behind, *batch))

    def let_go(self, conversation: Address) -> Held | None:
        """The turn of a conversation that waits for its model, to go on or to end now; what came behind follows."""
        held = self._held.pop(conversation, None)
        if held and held.timer:
            held.timer.cancel()
        for item in held.behind if held else ():
            self.put(item)
        return held

    def _knock(self, conversation: Address) -> None:
        """Ask the model again; what came behind follows."""
        held = self._held[conversation]
        self._held[conversation] = held._replace(behind=())
        self.put(GoOn(held.turn, conversation))
        for item in held.behind:
            self.put(item)

    # --- stops -------------------------------------------------------------------------------------------------------

    def halt(self, conversation: Address, row: int | None = None) -> bool:
        """End what runs in a conversation and drop what waits there, which is on record until it is told. Whether
        something ran: then its turn tells, and ends the `row` of who asked for it too."""
        lane, held = self.lane(conversation), self.let_go(conversation)
        dropped = self._dropped.setdefault(conversation, [])
        for waiting in lane.drain():
            if isinstance(waiting, Accepted):
                dropped.append((waiting.row, self._words(waiting)))
            else:
                dropped.append((waiting.turn.inbox, "; ".join(waiting.turn.texts)))
        if held:
            dropped.append((held.turn.inbox, "; ".join(held.turn.texts)))
        ran = lane.cancel()
        if ran and row is not None:
            dropped.append((row, ""))
        return ran

    def halt_all(self) -> dict[Address, bool]:
        """The same for every conversation: where something ran."""
        return {address: self.halt(address) for address in self._lanes.addresses()}

    def unasked(self) -> list[Address]:
        """Conversations in which something runs that no person asked for just now: a heartbeat, a task."""
        return [address for address in self._lanes.addresses() if _is_unasked(self.lane(address).at_work_on)]

    def dropped(self, conversation: Address) -> Dropped:
        """What stops dropped there, to be told now."""
        return self._dropped.pop(conversation, [])


def _is_unasked(item: Item | None) -> bool:
    inbound = item.turn.inbound if isinstance(item, GoOn) else item and item.inbound
    return bool(inbound and inbound.message.origin != "person")
