"""The ticking loop: everything fires once, on time, or late and told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Address, AssistantMessage
from nanoclaw.core.provider import Provider
from nanoclaw.plugins.schedule.job_service import Wish
from nanoclaw.plugins.schedule.jobs import Job
from nanoclaw.plugins.schedule.schedule import catch_up
from tests.core.house import BERLIN, MAIN, NOON, House, assert_legal, house
from tests.dial import Dial, story


def job(text: str, due: datetime, **values: Any) -> Job:
    """A reminder for once, unless told otherwise."""
    utc = due.astimezone(UTC)
    made = Job("reminder", text, "as asked", "at", utc.isoformat(), "Europe/Berlin", utc, MAIN, "me", utc)
    return made._replace(**values)


@asynccontextmanager
async def ticking(root: Path, dial: Dial, *providers: Provider, **options: Any) -> AsyncIterator[House]:
    """A house whose schedule runs on the dial."""
    waking = {"sleep": dial.sleep, "monotonic": dial.monotonic, **options.pop("waking", {})}
    async with house(root, *providers, clock=dial, waking=waking, **options) as home:
        running = asyncio.create_task(home.schedule.run())
        try:
            yield home
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def sent(home: House) -> list[str]:
    return [home.channel.sent.get_nowait().text for _ in range(home.channel.sent.qsize())]


@story
async def test_a_reminder_is_sent_on_time_without_a_model_and_is_remembered(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=20)))
        await dial.pass_(minutes=19, seconds=59)
        assert sent(home) == []
        await dial.pass_(seconds=1)
        assert sent(home) == ["Reminder 1: Call Anna\n(“done 1” or “snooze 1 30m” answers it.)"]
        dial.set(days=2)
        await dial.pass_(minutes=1)
        assert sent(home) == []
        assert "Reminder 1: Call Anna" in next(said.text for said in home.history if isinstance(said, AssistantMessage))
        assert_legal(home.history)


@story
async def test_a_one_off_missed_while_off_fires_once_and_says_how_late(tmp_path: Path) -> None:
    dial = Dial()
    async with house(tmp_path, clock=dial) as home:
        home.jobs.add(job("Call Anna", NOON - timedelta(hours=3)))
    for expected in (
        ["Reminder 1: Call Anna\n(was due 09:00, 3 h late)\n(“done 1” or “snooze 1 30m” answers it.)"],
        [],
    ):
        async with ticking(tmp_path, dial) as home:
            await dial.pass_(minutes=5)
            assert sent(home) == expected


@story
async def test_what_is_said_most_often_can_be_pressed_below_a_reminder(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=1)
        done, snooze = home.channel.sent.get_nowait().buttons
        assert (done.label, snooze.label) == ("Done", "Snooze 1 h")
        assert (await home.ask(snooze.text)).startswith("Again Fri 6 Mar 2026, 13:01 Europe/Berlin, in 1 hour")
        await dial.pass_(hours=1)
        again = home.channel.sent.get_nowait()
        assert again.text.startswith("Reminder 1 again: Call Anna")
        assert await home.ask(again.buttons[0].text) == "Done: Call Anna."


@pytest.mark.parametrize("count", [1, 4])
@story
async def test_snoozed_reminders_that_fell_due_while_off_say_how_late_they_are(tmp_path: Path, count: int) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        for number in range(count):
            home.jobs.add(job(f"Call {number}", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=1)
        await home.ask("snooze all 1h")
        sent(home)
    dial.set(hours=3)
    async with ticking(tmp_path, dial) as home:
        await dial.pass_(seconds=1)
        (text,) = sent(home)
        assert text.count("was due 13:01, 2 h late") == count
        assert text.startswith("Reminder 1 again: Call 0" if count == 1 else "4 reminders came due:")


@story
async def test_many_reminders_in_one_message_have_nothing_to_press(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        for number in range(5):
            home.jobs.add(job(f"Call {number}", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=1)
        assert home.channel.sent.get_nowait().buttons == ()


@story
async def test_the_day_is_named_when_it_was_due_on_another(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.jobs.add(job("Call Anna", NOON - timedelta(days=3)))
        home.schedule.changed()
        await dial.pass_(seconds=1)
        assert "(was due Tue 3 Mar, 12:00, 3 days late)" in sent(home)[0]


@pytest.mark.parametrize("on_miss", ["once", "skip"])
@story
async def test_a_repeat_missed_while_off_does_as_its_job_says(tmp_path: Path, on_miss: str) -> None:
    """Its newest time counts, and it goes on as before."""
    dial = Dial()
    async with house(tmp_path, clock=dial) as home:
        first = NOON - timedelta(days=3, hours=3)
        home.jobs.add(job("Stand up", first, schedule="cron", rule="0 9 * * *", on_miss=on_miss))
    async with ticking(tmp_path, dial) as home:
        await dial.pass_(minutes=5)
        if on_miss == "once":
            (late,) = sent(home)
            assert "(was due 09:00, 3 h late)" in late
        else:
            assert sent(home) == []
            assert "last missed: nanoclaw was not running" in home.desk.table()
        await dial.pass_(days=1)
        assert [text.partition("\n")[0] for text in sent(home)] == ["Reminder 1: Stand up"]


@story
async def test_more_than_three_overdue_at_once_arrive_as_one_list(tmp_path: Path) -> None:
    dial = Dial()
    async with house(tmp_path, clock=dial) as home:
        for number in range(40):
            home.jobs.add(job(f"thing {number}", NOON - timedelta(hours=2, minutes=number)))
    async with ticking(tmp_path, dial) as home:
        await dial.pass_(minutes=5)
        (text,) = sent(home)
        assert text.startswith(
            "40 reminders came due:\n- 40: thing 39 (was due 09:21, 2 h 39 min late)\n- 39: thing 38"
        )
        assert "(“done 40” or “snooze 40 30m” answers one.)" in text
        await home.say("done all")
        assert sent(home) == []
        await dial.settle()
        assert home.jobs.open() == []


@story
async def test_repeats_go_on_at_the_right_time_after_a_clock_that_was_ahead_is_set_right(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.desk.add(Wish("every hour", "walk"), MAIN, "me")
        dial.set(days=365)
        await dial.pass_(minutes=1)
        assert len(sent(home)) == 1
    dial.set(days=-365)
    async with ticking(tmp_path, dial) as home:  # it was off while it was set
        await dial.pass_(hours=1)
        assert len(sent(home)) == 1
        dial.set(days=3)
        await dial.pass_(minutes=1)
        sent(home)
        dial.set(days=-2)
        await dial.pass_(hours=2)
        assert len(sent(home)) == 2
        ((twice,),) = home.store.rows("SELECT count(*) - count(DISTINCT due) FROM occurrences")
        assert twice == 0


@story
async def test_a_clock_set_back_fires_nothing_twice_and_one_set_forward_loses_nothing(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.jobs.add(job("daily", NOON + timedelta(hours=1), schedule="cron", rule="0 13 * * *"))
        home.jobs.add(job("once", NOON + timedelta(days=1, hours=2)))
        await dial.pass_(hours=2)
        assert len(sent(home)) == 1
        dial.set(days=-1)
        await dial.pass_(hours=23)  # the same 13:00 again by the wall clock
        assert sent(home) == []
        dial.set(days=2)
        await dial.pass_(minutes=1)
        assert [text.splitlines()[0] for text in sent(home)] == ["Reminder 1: daily", "Reminder 2: once"]
        dial.set(hours=-3)
        await dial.pass_(hours=4)
        assert sent(home) == []


@pytest.mark.parametrize("day", [(2026, 3, 28), (2026, 10, 24)])
@story
async def test_a_daily_job_at_half_past_two_fires_once_on_days_with_a_gap_and_an_overlap(
    tmp_path: Path, day: tuple[int, int, int]
) -> None:
    dial = Dial(datetime(*day, 0, 0, tzinfo=BERLIN))
    async with ticking(tmp_path, dial) as home:
        home.desk.add(Wish("30 2 * * *", "night watch"), MAIN, "me")
        await dial.pass_(days=2)
        assert len(sent(home)) == 2
        rows = home.store.rows("SELECT date(fired), count(*) FROM occurrences GROUP BY date(due)")
        assert [count for _, count in rows] == [1, 1]


@story
async def test_an_interval_keeps_its_phase_over_restarts(tmp_path: Path) -> None:
    dial = Dial()
    async with house(tmp_path, clock=dial, waking={}) as home:
        home.desk.add(Wish("every 30 minutes", "drink"), MAIN, "me")
    fired: list[str] = []
    for _ in range(4):
        dial.set(minutes=7)
        async with ticking(tmp_path, dial) as home:
            await dial.pass_(minutes=25)
            fired += [due for (due,) in home.store.rows("SELECT due FROM occurrences ORDER BY due")]
    assert {due[14:16] for due in fired} == {"00", "30"}
    assert len(set(fired)) == 4


@story
async def test_a_job_of_every_second_week_fires_at_nine_in_summer_and_winter(tmp_path: Path) -> None:
    dial = Dial(datetime(2026, 3, 27, 8, tzinfo=BERLIN))  # two days before the clocks change
    async with ticking(tmp_path, dial) as home:
        home.desk.add(Wish("every 2 weeks on friday at 9", "bins"), MAIN, "me")
        for _ in range(3):
            await dial.pass_(hours=2)
            dial.set(days=14, hours=-2)
        dues = [datetime.fromisoformat(due) for (due,) in home.store.rows("SELECT due FROM occurrences")]
    fired = [f"{due.astimezone(BERLIN):%a %d %b %H:%M}" for due in dues]
    assert fired == ["Fri 27 Mar 09:00", "Fri 10 Apr 09:00", "Fri 24 Apr 09:00"]


@story
async def test_nothing_fires_while_all_is_frozen_and_what_was_due_comes_late_after_resume(tmp_path: Path) -> None:
    dial, ticks = Dial(), list[float]()
    async with ticking(tmp_path, dial, waking={"ticked": lambda: ticks.append(dial.ran)}) as home:
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=10)))
        await home.say("/panic")
        await dial.pass_(minutes=70)
        assert len(ticks) <= 2 * 70 + 1, "what is frozen is not looked at again and again"
        assert [text.partition(":")[0] for text in sent(home)] == ["Everything is frozen"]
    async with ticking(tmp_path, dial) as home:  # also after a restart
        await dial.pass_(minutes=1)
        assert sent(home) == []
        await home.say("/resume")
        await dial.settle()  # at once
        assert any("Reminder 1: Call Anna\n(was due 12:10, 1 h 1 min late)" in text for text in sent(home))


@story
async def test_a_loop_that_dies_or_hangs_is_replaced(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        tick = home.schedule.tick
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=10)))

        async def die(now: datetime) -> None:
            home.schedule.tick = tick  # type: ignore[method-assign]
            raise RuntimeError("broken")

        async def hang(now: datetime) -> None:
            home.schedule.tick = tick  # type: ignore[method-assign]
            await asyncio.Event().wait()

        for breakage in (die, hang):
            home.schedule.tick = breakage  # type: ignore[method-assign]
            await dial.pass_(minutes=4)
        await dial.pass_(minutes=2)
        assert len(sent(home)) == 1
        assert home.schedule.silent_for <= 30


@story
async def test_one_job_that_cannot_fire_keeps_no_other_from_firing(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.jobs.add(job("lost", NOON + timedelta(minutes=1), schedule="cron", rule="0 9 * * *", zone="Moon/Base"))
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=2)
        texts = sent(home)
        assert "Reminder 1 cannot be due any more and is paused" in texts[0]
        assert texts[1].startswith("Reminder 2: Call Anna")
        assert "paused" in home.desk.table()


@story
async def test_adding_and_removing_while_others_run_makes_nothing_run_twice(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        for number in range(5):
            home.jobs.add(job(f"thing {number}", NOON + timedelta(minutes=number + 1)))
        for _ in range(10):
            home.desk.add(Wish("in 3 days", "far"), MAIN, "me")
            await dial.pass_(seconds=30)
            home.desk.remove(max(one.id for one in home.jobs.all()))
            home.schedule.changed()
        texts = [text.splitlines()[0] for text in sent(home)]
        assert texts == [f"Reminder {number + 1}: thing {number}" for number in range(5)]
        dial.set(days=4)
        await dial.pass_(minutes=1)
        assert sent(home) == []
        assert home.jobs.all() == []


@story
async def test_listing_writes_nothing(tmp_path: Path) -> None:
    dial = Dial()
    async with house(tmp_path, clock=dial, waking={}) as home:
        home.jobs.add(job("overdue", NOON - timedelta(hours=1)))
        before = home.store.db.total_changes
        assert "overdue" in home.desk.table()
        assert home.jobs.due(NOON, MAIN)
        assert home.store.db.total_changes == before


@story
async def test_jobs_of_a_conversation_that_nobody_serves_stay_due(tmp_path: Path) -> None:
    dial, served = Dial(), False
    async with ticking(tmp_path, dial, waking={"is_served": lambda address: served}) as home:
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=1)))
        await dial.pass_(hours=2)
        assert sent(home) == []
        served = True
        await dial.pass_(minutes=1)
        assert "(was due 12:01, 1 h 59 min late)" in sent(home)[0]


def test_the_newest_missed_time_is_found_quickly_even_after_years() -> None:
    due = datetime(2020, 1, 1, tzinfo=UTC)
    for schedule, rule in (("every", "60"), ("cron", "* * * * *"), ("cron", "0 9 1 1 *")):
        found = catch_up(job("x", due, schedule=schedule, rule=rule), NOON)
        assert found.next_due
        assert found.due <= NOON < found.next_due
    assert found.due.year == 2026


@story
async def test_reminders_that_are_due_together_do_not_wait_for_busy_chats_one_by_one(tmp_path: Path) -> None:
    dial, turns = Dial(), 0

    async def busy() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with house(tmp_path, clock=dial, waking={"sleep": dial.sleep, "monotonic": dial.monotonic}) as home:
        for number in range(20):
            home.jobs.add(job("water", NOON, target=Address("terminal", str(number))))
        others = asyncio.create_task(busy())
        await dial.settle()
        before = turns
        await home.schedule.tick(dial())
        assert (turns - before, home.jobs.targets(dial())) == (0, [])
        others.cancel()
