"""Sessions: one a conversation, few at once, none for longer than it is used."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from nanoclaw.core.messages import Address
from nanoclaw.core.records import Records
from nanoclaw.plugins.browse.sessions import BrowserSessions
from tests.program import NOON
from tests.virtual_time import passed, virtual_time

ANN, BOB, EVE = (Address("chat", name) for name in ("ann", "bob", "eve"))


class Opened:
    """In place of a browser's session."""

    def __init__(self) -> None:
        self.is_busy, self.is_alive, self.is_closed = False, True, False

    async def aclose(self) -> None:
        self.is_closed = True


class Owner:
    def __init__(self) -> None:
        self.contexts: dict[Address, int] = {}
        self.ended = 0
        self.records = Records(self.read)

    def now(self) -> datetime:
        return NOON + timedelta(seconds=passed())

    def read(self, sql: str, conversation: str) -> list[tuple[int]]:
        return [(context,) for key, context in self.contexts.items() if str(key) == conversation]

    async def all_closed(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoclaw.plugins.browse.sessions.MOST", 2)


def sessions() -> tuple[Any, Owner]:
    async def make() -> Any:
        return Opened()

    owner: Any = Owner()
    return BrowserSessions(owner, make, owner.all_closed), owner


@virtual_time
async def test_one_that_is_not_used_is_closed_and_the_browser_with_the_last() -> None:
    kept, owner = sessions()
    ann, bob = await kept.opened(ANN), await kept.opened(BOB)
    await asyncio.sleep(9 * 60)
    assert await kept.get(BOB) is bob
    await asyncio.sleep(2 * 60)
    assert (ann.is_closed, bob.is_closed, owner.ended) == (True, False, 0)
    assert kept.why_closed(ANN) == "it was not used for 10 minutes"
    await asyncio.sleep(10 * 60)
    assert (bob.is_closed, owner.ended) == (True, 1)
    assert await kept.get(ANN) is None
    await kept.aclose()


@virtual_time
async def test_one_that_is_busy_stays() -> None:
    kept, _ = sessions()
    ann = await kept.opened(ANN)
    ann.is_busy = True
    await asyncio.sleep(60 * 60)
    assert not ann.is_closed
    await kept.aclose()
    assert ann.is_closed


@virtual_time
async def test_the_one_unused_for_longest_makes_room_but_never_one_at_work() -> None:
    kept, _ = sessions()
    ann, bob = await kept.opened(ANN), await kept.opened(BOB)
    ann.is_busy = True
    await kept.opened(EVE)
    assert (ann.is_closed, bob.is_closed, len(kept)) == (False, True, 2)
    assert "needed its place" in kept.why_closed(BOB)
    await kept.aclose()


@virtual_time
async def test_a_conversation_that_begins_anew_and_a_crash_begin_with_an_empty_profile() -> None:
    kept, owner = sessions()
    ann = await kept.opened(ANN)
    owner.contexts[ANN] = 1
    await asyncio.sleep(31)
    assert ann.is_closed and "began anew" in kept.why_closed(ANN)
    again = await kept.opened(ANN)
    again.is_alive = False
    assert await kept.get(ANN) is None
    assert "crashed" in kept.why_closed(ANN)
    assert await kept.opened(ANN) is not again
    await kept.aclose()


@virtual_time
async def test_calls_at_the_same_time_share_one() -> None:
    kept, _ = sessions()
    first, second = await asyncio.gather(kept.opened(ANN), kept.opened(ANN))
    assert first is second
    await kept.aclose()
