"""Reminders of events on real CalDAV servers: each is told once, moves with its event, and goes with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.plugins.attention import plugin
from nanoclaw.providers.scripted import ScriptedProvider
from tests.plugins.attention.test_attention import looked
from tests.plugins.calendar.conftest import Server, server
from tests.plugins.calendar.test_calendar import SERIES, ids, use
from tests.program import NOON, HandClock, Program, running

__all__ = ["server"]

LUNCH = ("SUMMARY:Lunch", "LOCATION:Room 3", "DTSTART;TZID=Europe/Berlin:20260306T130000")


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "LOOK_SECONDS", 0.01)


@asynccontextmanager
async def reminding(root: Path, server: Server, clock: HandClock, settings: str = "") -> AsyncIterator[Program]:
    settings = f"{server.settings}[attention]\n{settings}"
    async with running(root / "home", ScriptedProvider("Hello."), settings=settings, clock=clock, wakes=True) as made:
        assert await made.ask("Hi") == "Hello."  # so that it is known where the person is
        yield made


async def known(made: Program, *events: tuple[str, int]) -> None:
    """Wait until these words of events, told or not, are what is known."""
    sql = "SELECT words, is_told FROM attention_events ORDER BY starts"
    async with asyncio.timeout(60):
        while [tuple(row) for row in made.rows(sql)] != [*events]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_an_event_is_told_once_ten_minutes_before_it_begins(tmp_path: Path, server: Server) -> None:
    server.put("a", *LUNCH)
    server.put("b", "SUMMARY:Trip", "DTSTART;VALUE=DATE:20260307")  # of whole days none is told
    clock = HandClock()
    async with reminding(tmp_path, server, clock) as made:
        await known(made, ("Lunch @ Room 3", 0))
        clock.now = NOON + timedelta(minutes=49)
        assert await looked(made) == []
        clock.now = NOON + timedelta(minutes=50)
        assert await made.answer() == "At 13:00: Lunch @ Room 3"
        assert getattr(made.history[-2], "outside", "") == "calendar"
        clock.now = NOON + timedelta(minutes=56)  # looked at again
        await known(made, ("Lunch @ Room 3", 1))
        assert await looked(made) == []


async def test_a_moved_event_moves_its_reminder_and_a_removed_one_takes_it_away(tmp_path: Path, server: Server) -> None:
    server.put("a", *LUNCH)
    server.put("b", "SUMMARY:Call", "DTSTART;TZID=Europe/Berlin:20260306T133000")
    clock = HandClock()
    async with reminding(tmp_path, server, clock) as made:
        await known(made, ("Lunch @ Room 3", 0), ("Call", 0))
        clock.now = NOON + timedelta(minutes=50)
        assert await made.answer() == "At 13:00: Lunch @ Room 3"
        server.put("a", *LUNCH[:2], "DTSTART;TZID=Europe/Berlin:20260306T160000")
        server.call("DELETE", "b.ics")
        clock.now = NOON + timedelta(minutes=56)
        await known(made, ("Lunch @ Room 3", 0))
        clock.now = NOON + timedelta(minutes=90)
        assert await looked(made) == []
        clock.now = NOON + timedelta(minutes=230)
        assert await made.answer() == "At 16:00: Lunch @ Room 3"


async def test_one_of_a_series_is_moved_and_the_others_stay(tmp_path: Path, server: Server) -> None:
    server.put("a", *SERIES, "EXDATE;TZID=Europe/Berlin:20260303T180000")
    clock = HandClock(NOON + timedelta(days=2))  # Sunday; it is on Tuesdays
    async with reminding(tmp_path, server, clock) as made:
        await known(made, ("Chess @ Room 3", 0))
        (one, *_) = await ids(made, "Chess")
        assert "Changed" in (await use(made, "change_event", event=one, when="tomorrow at 9")).text
        clock.now += timedelta(minutes=6)
        clock.now = NOON.replace(day=9, hour=8, minute=50)
        assert await made.answer() == "At 09:00: Chess @ Room 3"
        clock.now = NOON.replace(day=10, hour=18)
        assert await looked(made) == []


async def test_after_a_sleep_what_has_begun_lately_is_told_and_the_rest_is_not(tmp_path: Path, server: Server) -> None:
    server.put("a", *LUNCH)
    server.put("b", "SUMMARY:Call", "DTSTART;TZID=Europe/Berlin:20260306T140000", "DURATION:PT2H")
    clock = HandClock()
    async with reminding(tmp_path, server, clock) as made:
        await known(made, ("Lunch @ Room 3", 0), ("Call", 0))
        server.call("DELETE", "")  # and the calendar is gone: what is known is told all the same
        clock.now = NOON + timedelta(minutes=125)
        assert await made.answer() == "Since 14:00: Call"
        await known(made, ("Lunch @ Room 3", 1), ("Call", 1))
        assert await looked(made) == []


async def test_nothing_is_told_where_no_minutes_are_set(tmp_path: Path, server: Server) -> None:
    server.put("a", *LUNCH)
    clock = HandClock(NOON + timedelta(minutes=55))
    async with reminding(tmp_path, server, clock, "remind_minutes = 0\n") as made:
        assert await looked(made) == [] and made.rows("SELECT * FROM attention_events") == []
