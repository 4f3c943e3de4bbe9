"""The calendar on a real Radicale: looking, adding, moving one of a series, conflicts, undo, and what is malformed."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import Inbound, ToolCall, ToolResult, UserMessage
from nanoclaw.core.turn import RunningTurn
from nanoclaw.plugins.calendar.dav import StoredEvent
from nanoclaw.plugins.calendar.events import MOST, occurrences, rule_of
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.time_words import read
from tests.examples import examples
from tests.plugins.calendar.conftest import Server
from tests.program import MAIN, NOON, Program, running

EXAMPLES = examples(__file__, "calendar.jsonl")

ZONE = ZoneInfo("Europe/Berlin")
SERIES = (
    "SUMMARY:Chess",
    "LOCATION:Room 3",
    "DTSTART;TZID=Europe/Berlin:20260303T180000",
    "DTEND;TZID=Europe/Berlin:20260303T190000",
    "RRULE:FREQ=WEEKLY",
)


@asynccontextmanager
async def program(root: Path, server: Server) -> AsyncIterator[Program]:
    async with running(root / "home", ScriptedProvider(), settings=server.settings) as made:
        yield made


async def use(made: Program, tool: str, **arguments: Any) -> ToolResult:
    """Call a tool as the owner's turn would."""
    inbound = Inbound(MAIN, "me", "", UserMessage("", NOON), role="owner")
    turn = RunningTurn(made.app.runner.parts, 0, inbound, MAIN, made.app.sessions.of(MAIN))
    result = await made.app.toolbox.call(ToolCall("1", tool, json.dumps(arguments)), turn)
    await turn.journal.change(lambda tx: None)
    return result


async def ids(made: Program, title: str) -> list[str]:
    text = (await use(made, "agenda", days=30)).text
    return re.findall(rf"{title}.*\[(\w+)\]", text)


async def test_the_agenda_shows_series_and_whole_days_as_text_of_others(tmp_path: Path, server: Server) -> None:
    server.put("a", *SERIES)
    server.put("b", "SUMMARY:Trip\x1b[31m", "DTSTART;VALUE=DATE:20260307", "DTEND;VALUE=DATE:20260309")
    async with program(tmp_path, server) as made:
        shown = await made.ask("/agenda 5")
        assert shown.splitlines()[0] == "Sat 07 Mar 2026" and "- until Sun 08 Mar Trip" in shown and "\x1b" not in shown
        assert shown.endswith("Tue 10 Mar 2026\n- 18:00–19:00 Chess @ Room 3")
        assert await made.ask("/agenda 2026-03-12") == "Nothing is in the calendar then."
        assert "Chess" in await made.ask("/agenda next tuesday")
        seen = await use(made, "agenda", days=5)
        assert "information by others" in seen.text and re.search(
            r"Chess @ Room 3 \(of a series\) \[\w{6}\]", seen.text
        )
        free = (await use(made, "agenda", days=5, free_in="09:00-20:00")).text
        assert "Fri 06 Mar 2026: 12:00–20:00" in free and "Tue 10 Mar 2026: 09:00–18:00, 19:00–20:00" in free
        assert "(all day: Trip" in free
        assert "days must be 1 to 366" in (await use(made, "agenda", days=1000)).text


async def test_one_of_a_series_is_moved_and_removed_and_undo_puts_it_back(tmp_path: Path, server: Server) -> None:
    server.put("a", *SERIES)
    before = server.call("GET", "a.ics").text
    async with program(tmp_path, server) as made:
        _, second, _, _ = await ids(made, "Chess")
        told = (await use(made, "change_event", event=second, when="18 March at 20:00")).text
        assert told == "Changed “Chess”, now Wed 18 Mar 2026, 20:00 Europe/Berlin, in 12 days (this date alone)."
        shown = await made.ask("/agenda 30")
        assert "Wed 18 Mar 2026\n- 20:00–21:00 Chess" in shown and "Tue 17 Mar" not in shown and "Tue 24 Mar" in shown
        third = (await ids(made, "Chess"))[2]
        assert "Removed “Chess” of Tue 24 Mar" in (await use(made, "change_event", event=third, remove=True)).text
        assert "Tue 24 Mar" not in await made.ask("/agenda 30")
        assert (
            "single dates"
            in (await use(made, "change_event", event=(await ids(made, "Chess"))[0], minutes=5, whole_series=True)).text
        )
        assert "Taking back" in await made.ask("/undo 2")
        await settled(made)
        assert server.call("GET", "a.ics").text == before
        one = (await ids(made, "Chess"))[0]
        assert "(the whole series)" in (await use(made, "change_event", event=one, remove=True, whole_series=True)).text
        assert server.call("GET", "a.ics").status_code == 404


async def settled(made: Program) -> None:
    """Wait for what /undo has begun."""
    import asyncio

    await asyncio.gather(*(task for task in made.app._tasks if "_put_back" in repr(task)))


async def test_an_event_is_added_with_the_echo_of_its_time_and_undone(tmp_path: Path, server: Server) -> None:
    async with program(tmp_path, server) as made:
        told = (await use(made, "add_event", title="Dentist", when="Monday at 10", minutes=45, place="Main St 1")).text
        assert told == "Added “Dentist”, Mon 9 Mar 2026, 10:00 Europe/Berlin, in 2 days, until 10:45."
        assert "Mon 09 Mar 2026\n- 10:00–10:45 Dentist @ Main St 1" in await made.ask("/agenda")
        assert (
            "every Tuesday at 18:00" in (await use(made, "add_event", title="Yoga", when="every tuesday at 18:00")).text
        )
        assert (
            "Sat 07 Mar 2026, all day"
            in (await use(made, "add_event", title="Trip", when="tomorrow", all_day=True)).text
        )
        for day in ("Thursday", "Thursday at 15:00"):
            told = (await use(made, "change_event", event=(await ids(made, "Trip"))[0], when=day)).text
            assert told == "Changed “Trip”, now Thu 12 Mar 2026."
            assert "Thu 12 Mar 2026\n- all day Trip" in await made.ask("/agenda 30")
        assert len(await ids(made, "Yoga")) == 4
        for wrong in ("yesterday at 9", "every 20 minutes", "soonish"):
            assert (await use(made, "add_event", title="x", when=wrong)).is_error
        (dentist,) = await ids(made, "Dentist")
        assert (await use(made, "change_event", event=dentist, title="Dr. Dentist", place="Main St 2")).text.startswith(
            "Changed"
        )
        assert "added “Dentist”" in await made.ask("/receipts")
        await made.ask("/undo 6")
        await settled(made)
        assert await made.ask("/agenda 30") == "Nothing is in the calendar then."
        assert "there is no event 'nope'" in (await use(made, "change_event", event="nope", remove=True)).text


async def test_a_conflict_says_what_somebody_else_has_changed(tmp_path: Path, server: Server) -> None:
    server.put("a", *SERIES)
    async with program(tmp_path, server) as made:
        one, *_ = await ids(made, "Chess")
        server.put("a", *SERIES[:1], "LOCATION:Room 4", *SERIES[2:])
        told = await use(made, "change_event", event=one, title="Go")
        assert told.is_error and "LOCATION:Room 3 → LOCATION:Room 4" in told.text and "Nothing was changed" in told.text
        one, *_ = await ids(made, "Chess")
        await use(made, "change_event", event=one, title="Go")
        server.put("a", *SERIES)
        await made.ask("/undo")
        assert "could not be taken back in the calendar: changed “Go”" in await made.answer()
        one, *_ = await ids(made, "Chess")
        server.call("DELETE", "a.ics")
        assert "somebody else has deleted it" in (await use(made, "change_event", event=one, title="Go")).text


async def test_the_owner_is_asked_before_invited_people_hear_of_it(tmp_path: Path, server: Server) -> None:
    server.put("a", *SERIES, "ATTENDEE:mailto:bob@example.org")
    async with program(tmp_path, server) as made:
        one, *_ = await ids(made, "Chess")
        assert "to which 1 people are invited" in (await use(made, "change_event", event=one, remove=True)).text
        assert len(await ids(made, "Chess")) == 4


@pytest.mark.parametrize(("url", "password", "told"), EXAMPLES["what is wrong is one sentence"])
async def test_what_is_wrong_is_a_sentence(tmp_path: Path, server: Server, url: str, password: str, told: str) -> None:
    settings = f'[calendar]\nurl = "{url or server.url}"\nuser = "anna"\npassword = "{password}"\n'
    async with running(tmp_path / "home", ScriptedProvider(), settings=settings) as made:
        assert told in await made.ask("/agenda")
        assert told in (await use(made, "add_event", title="x", when="tomorrow at 9")).text


async def test_without_a_calendar_there_are_no_tools(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(), settings="[calendar]\n") as made:
        assert "write url, user and password into [calendar]" in await made.ask("/agenda")
        assert "agenda" not in {one.name for one in made.app.chain.tools()}
    async with running(tmp_path / "none", ScriptedProvider()) as made:
        assert await made.ask("/agenda") == "There is no command /agenda; a table [calendar] in config.toml brings it."


def stored(*lines: str) -> list[StoredEvent]:
    body = "\n".join(("BEGIN:VEVENT", "UID:a", "SUMMARY:Bomb", *lines, "END:VEVENT"))
    return [StoredEvent("/a.ics", "", f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{body}\nEND:VCALENDAR\n")]


@pytest.mark.parametrize("rule", EXAMPLES["a bomb is one date and a word about it"])
def test_a_bomb_is_one_date_and_a_word_about_it(rule: str) -> None:
    pytest.importorskip("recurring_ical_events")
    now = datetime(2014, 3, 6, 12, tzinfo=ZONE)
    found, problems = occurrences(stored("DTSTART:20140306T120000Z", f"RRULE:{rule}"), now, now + timedelta(days=9))
    assert len(found) == 1 and problems == ["“Bomb” repeats too often: only its first date counts"]


def test_too_many_dates_are_cut_and_damage_is_told() -> None:
    pytest.importorskip("recurring_ical_events")
    now = datetime(2026, 3, 6, tzinfo=ZONE)
    found, problems = occurrences(
        stored("DTSTART:20260306T120000Z", "RRULE:FREQ=HOURLY"), now, now + timedelta(days=99)
    )
    assert len(found) == MOST and "the first 500 are shown" in problems[0]
    for lines in (["DTSTART:tomorrow"], [], ["DTSTART:20260306T120000Z", "RRULE:FREQ=BANANA"]):
        found, problems = occurrences(stored(*lines), now, now + timedelta(days=9))
        assert not found and len(problems) == 1 and "a.ics cannot be read" in problems[0]
    for text in ("", "hello", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR", "x" * 2_000_000):
        assert len(occurrences([StoredEvent("/a.ics", "", text)], now, now + timedelta(days=9))[1]) == 1


@pytest.mark.parametrize(("words", "rule"), EXAMPLES["repeats in words are rules"])
def test_repeats_in_words_are_rules(words: str, rule: dict[str, Any]) -> None:
    found = read(words, NOON, ZONE)
    assert rule_of(found) == rule  # type: ignore[arg-type]


def test_a_repeat_that_a_calendar_lacks_is_refused() -> None:
    with pytest.raises(ToolError):
        rule_of(read("every 20 minutes", NOON, ZONE))  # type: ignore[arg-type]
