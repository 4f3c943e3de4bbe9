"""The ticking loop: everything fires once, on time, or late and told so."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.plugins.schedule.loop import catch_up
from tests.dial import Dial
from tests.plugins.schedule.clockwork import Clockwork, job, ticking
from tests.program import BERLIN, MAIN, NOON, running


async def test_a_one_off_missed_while_off_fires_once_and_says_how_late(tmp_path: Path, dial: Dial) -> None:
    async with running(tmp_path, clock=dial) as program:
        home = Clockwork(program)
        home.add(job("Call Anna", NOON - timedelta(hours=3)))
    for expected in (
        ["Reminder 1: Call Anna\n(was due 09:00, 3 h late)\n(“done 1” or “snooze 1 30m” answers it.)"],
        [],
    ):
        async with ticking(tmp_path, dial) as home:
            await dial.pass_(minutes=5)
            assert home.sent() == expected


async def test_what_is_said_most_often_can_be_pressed_below_a_reminder(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        home.add(job("Call Anna", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=1)
        done, snooze = home.program.channel.sent.get_nowait().buttons
        assert (done.label, snooze.label) == ("Done", "Snooze 1 h")
        assert (await home.program.ask(snooze.text)).startswith("Again Fri 6 Mar 2026, 13:01 Europe/Berlin, in 1 hour")
        await dial.pass_(hours=1)
        again = home.program.channel.sent.get_nowait()
        assert again.text.startswith("Reminder 1 again: Call Anna")
        assert await home.program.ask(again.buttons[0].text) == "Done: Call Anna."


@pytest.mark.parametrize("count", [1, 4])
async def test_snoozed_reminders_that_fell_due_while_off_say_how_late_they_are(tmp_path: Path, count: int) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        for number in range(count):
            home.add(job(f"Call {number}", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=1)
        await home.program.ask("snooze all 1h")
        home.sent()
    dial.set(hours=3)
    async with ticking(tmp_path, dial) as home:
        await dial.pass_(seconds=1)
        (text,) = home.sent()
        assert text.count("was due 13:01, 2 h late") == count
        assert text.startswith("Reminder 1 again: Call 0" if count == 1 else "4 reminders came due:")


async def test_the_day_is_named_when_it_was_due_on_another(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        home.add(job("Call Anna", NOON - timedelta(days=3)))
        home.loop.changed()
        await dial.pass_(seconds=1)
        assert "(was due Tue 3 Mar, 12:00, 3 days late)" in home.sent()[0]


@pytest.mark.parametrize("on_miss", ["once", "skip"])
async def test_a_repeat_missed_while_off_does_as_its_job_says(tmp_path: Path, on_miss: str) -> None:
    """Its newest time counts, and it goes on as before."""
    dial = Dial()
    async with running(tmp_path, clock=dial) as program:
        home = Clockwork(program)
        first = NOON - timedelta(days=3, hours=3)
        home.add(job("Stand up", first, schedule="cron", rule="0 9 * * *", on_miss=on_miss))
    async with ticking(tmp_path, dial) as home:
        await dial.pass_(minutes=5)
        (told,) = home.sent() or [home.service.table()]
        assert ("(was due 09:00, 3 h late)" if on_miss == "once" else "last missed: nanoclaw was not running") in told
        await dial.pass_(days=1)
        assert [text.partition("\n")[0] for text in home.sent()] == ["Reminder 1: Stand up"]


async def test_more_than_three_overdue_at_once_arrive_as_one_list(tmp_path: Path, dial: Dial) -> None:
    async with running(tmp_path, clock=dial) as program:
        home = Clockwork(program)
        for number in range(40):
            home.add(job(f"thing {number}", NOON - timedelta(hours=2, minutes=number)))
    async with ticking(tmp_path, dial) as home:
        await dial.pass_(minutes=5)
        text = (listed := home.program.channel.sent.get_nowait()).text
        assert listed.buttons == () and home.sent() == []
        assert text.startswith("40 reminders came due:\n- 40: thing 39 (was due 09:21, 2 h 39 min late)\n- 39: ")
        assert "(“done 40” or “snooze 40 30m” answers one.)" in text
        bobs = UserMessage("done all", NOON, outside="a message of Bob (telegram:5)")
        await home.program.deliver(Inbound(MAIN, "me", "handed-on", bobs))
        await dial.settle()
        assert len(home.jobs.open()) == 40 and all("Done" not in one for one in home.sent())
        await home.program.say("done all")
        assert home.sent() == []
        await dial.settle()
        assert home.jobs.open() == []


async def test_repeats_go_on_at_the_right_time_after_a_clock_that_was_ahead_is_set_right(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.ask_for("every hour", "walk")
        dial.set(days=365)
        await dial.pass_(minutes=1)
        assert len(home.sent()) == 1
    dial.set(days=-365)
    async with ticking(tmp_path, dial) as home:  # it was off while it was set
        await dial.pass_(hours=1)
        assert len(home.sent()) == 1
        dial.set(days=3)
        await dial.pass_(minutes=1)
        home.sent()
        dial.set(days=-2)
        await dial.pass_(hours=2)
        assert len(home.sent()) == 2
        ((twice,),) = home.program.rows("SELECT count(*) - count(DISTINCT due) FROM occurrences")
        assert twice == 0


async def test_a_clock_set_back_fires_nothing_twice_and_one_set_forward_loses_nothing(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.add(job("daily", NOON + timedelta(hours=1), schedule="cron", rule="0 13 * * *"))
        home.add(job("once", NOON + timedelta(days=1, hours=2)))
        await dial.pass_(hours=2)
        assert len(home.sent()) == 1
        dial.set(days=-1)
        await dial.pass_(hours=23)  # the same 13:00 again by the wall clock
        assert home.sent() == []
        dial.set(days=2)
        await dial.pass_(minutes=1)
        assert [text.splitlines()[0] for text in home.sent()] == ["Reminder 1: daily", "Reminder 2: once"]
        dial.set(hours=-3)
        await dial.pass_(hours=4)
        assert home.sent() == []


@pytest.mark.parametrize("day", [(2026, 3, 28), (2026, 10, 24)])
async def test_a_daily_job_at_half_past_two_fires_once_on_days_with_a_gap_and_an_overlap(
    tmp_path: Path, day: tuple[int, int, int]
) -> None:
    dial = Dial(datetime(*day, 2, 0, tzinfo=BERLIN))
    async with ticking(tmp_path, dial) as home:
        home.ask_for("30 2 * * *", "night watch")
        await dial.pass_(hours=27)
        assert len(home.sent()) == 2
        rows = home.program.rows("SELECT date(fired), count(*) FROM occurrences GROUP BY date(due)")
        assert [count for _, count in rows] == [1, 1]


async def test_an_interval_keeps_its_phase_over_restarts(tmp_path: Path, dial: Dial) -> None:
    async with running(tmp_path, clock=dial) as program:
        home = Clockwork(program)
        home.ask_for("every 30 minutes", "drink")
    fired: list[str] = []
    for _ in range(4):
        dial.set(minutes=7)
        async with ticking(tmp_path, dial) as home:
            await dial.pass_(minutes=25)
            fired += [due for (due,) in home.program.rows("SELECT due FROM occurrences ORDER BY due")]
    assert {due[14:16] for due in fired} == {"00", "30"}
    assert len(set(fired)) == 4


async def test_a_job_of_every_second_week_fires_at_nine_in_summer_and_winter(tmp_path: Path) -> None:
    dial = Dial(datetime(2026, 3, 27, 8, tzinfo=BERLIN))  # two days before the clocks change
    async with ticking(tmp_path, dial) as home:
        home.ask_for("every 2 weeks on friday at 9", "bins")
        for _ in range(3):
            await dial.pass_(hours=2)
            dial.set(days=14, hours=-2)
        dues = [datetime.fromisoformat(due) for (due,) in home.program.rows("SELECT due FROM occurrences")]
    fired = [f"{due.astimezone(BERLIN):%a %d %b %H:%M}" for due in dues]
    assert fired == ["Fri 27 Mar 09:00", "Fri 10 Apr 09:00", "Fri 24 Apr 09:00"]


async def test_nothing_fires_while_all_is_frozen_and_what_was_due_comes_late_after_resume(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.add(job("Call Anna", NOON + timedelta(minutes=10)))
        await home.program.say("/panic")
        await dial.pass_(minutes=70)
        assert home.loop.silent_for is None, "what is frozen is not looked at"
        assert [text.partition(":")[0] for text in home.sent()] == ["Everything is frozen"]
    async with ticking(tmp_path, dial) as home:  # also after a restart
        await dial.pass_(minutes=1)
        assert home.sent() == []
        await home.program.say("/resume")
        await dial.settle()  # at once
        assert any("Reminder 1: Call Anna\n(was due 12:10, 1 h 1 min late)" in text for text in home.sent())


async def test_a_loop_that_dies_or_hangs_is_replaced(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        tick = home.loop.tick
        home.add(job("Call Anna", NOON + timedelta(minutes=10)))

        async def die(now: datetime) -> None:
            home.loop.tick = tick  # type: ignore[method-assign]
            raise RuntimeError("broken")

        async def hang(now: datetime) -> None:
            home.loop.tick = tick  # type: ignore[method-assign]
            await asyncio.Event().wait()

        for breakage in (die, hang):
            home.loop.tick = breakage  # type: ignore[method-assign]
            await dial.pass_(minutes=4)
        await dial.pass_(minutes=2)
        assert len(home.sent()) == 1
        assert (home.loop.silent_for or 0) <= 30


async def test_one_job_that_cannot_fire_keeps_no_other_from_firing(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        home.add(job("lost", NOON + timedelta(minutes=1), schedule="cron", rule="0 9 * * *", zone="Moon/Base"))
        home.add(job("Call Anna", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=2)
        texts = home.sent()
        assert "Reminder 1 can never be due again and is paused" in texts[0]
        assert texts[1].startswith("Reminder 2: Call Anna")
        assert "paused" in home.service.table()


async def test_adding_and_removing_while_others_run_makes_nothing_run_twice(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        for number in range(5):
            home.add(job(f"thing {number}", NOON + timedelta(minutes=number + 1)))
        for _ in range(10):
            home.ask_for("in 3 days", "far")
            await dial.pass_(seconds=30)
            home.remove(max(one.id for one in home.jobs.all()))
            home.loop.changed()
        texts = [text.splitlines()[0] for text in home.sent()]
        assert texts == [f"Reminder {number + 1}: thing {number}" for number in range(5)]
        dial.set(days=4)
        await dial.pass_(minutes=1)
        assert home.sent() == []
        assert home.jobs.all() == []


async def test_listing_writes_nothing(tmp_path: Path, dial: Dial) -> None:
    async with running(tmp_path, clock=dial) as program:
        home = Clockwork(program)
        home.add(job("overdue", NOON - timedelta(hours=1)))
        before = program.app.store.db.total_changes
        assert "overdue" in home.service.table()
        assert home.jobs.due(NOON, MAIN)
        assert program.app.store.db.total_changes == before


async def test_jobs_of_a_conversation_that_nobody_serves_stay_due(tmp_path: Path) -> None:
    dial, served = Dial(), False
    async with ticking(tmp_path, dial, serves=lambda target: served) as home:
        home.add(job("Call Anna", NOON + timedelta(minutes=1)))
        await dial.pass_(hours=2)
        assert home.sent() == []
        served = True
        await dial.pass_(minutes=1)
        assert "(was due 12:01, 1 h 59 min late)" in home.sent()[0]


def test_the_newest_missed_time_is_found_quickly_even_after_years() -> None:
    due = datetime(2020, 1, 1, tzinfo=UTC)
    for schedule, rule in (("every", "60"), ("cron", "* * * * *"), ("cron", "0 9 1 1 *")):
        found = catch_up(job("x", due, schedule=schedule, rule=rule), NOON)
        assert found.next_due
        assert found.due <= NOON < found.next_due
    assert found.due.year == 2026


async def test_reminders_that_are_due_together_do_not_wait_for_busy_chats_one_by_one(tmp_path: Path) -> None:
    dial, turns = Dial(), 0

    async def busy() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running(tmp_path, clock=dial) as program:
        home = Clockwork(program)
        home.loop.monotonic = dial.monotonic
        for number in range(20):
            home.add(job("water", NOON, target=Address("terminal", str(number))))
        others = asyncio.create_task(busy())
        await dial.settle()
        before = turns
        await home.loop.tick(dial())
        assert (turns - before, home.jobs.targets(dial())) == (0, [])
        others.cancel()


async def test_the_check_says_when_it_ticked_last_and_nothing_where_it_does_not_run(tmp_path: Path, dial: Dial) -> None:
    async with running(tmp_path, clock=dial) as program:
        assert await Clockwork(program).plugin.check(False) == []
    async with ticking(tmp_path, dial) as home:
        await dial.pass_(minutes=1)
        (found,) = await home.plugin.check(False)
        assert (found.is_well, found.text) == (True, "the schedule ticked 0 s ago")
        dial.ran += 100
        (found,) = await home.plugin.check(False)
        assert not found.is_well
        assert "has not checked its jobs for 100 s" in found.text


async def test_jobs_of_somebody_who_is_not_let_in_any_more_are_removed_together(tmp_path: Path) -> None:
    async with running(tmp_path) as program:
        home = Clockwork(program)
        for text, creator in (("one", "chat:7"), ("two", "owner"), ("three", "chat:7")):
            home.add(job(text, NOON + timedelta(days=1), creator=creator))
        assert program.app.transactions.write_now(lambda tx: home.service.remove_all_of(tx, "chat:7")) == 2
        assert [one.text for one in home.jobs.all()] == ["two"]


async def test_a_tasks_own_conversation_stands_for_the_chat_that_it_reports_to(tmp_path: Path) -> None:
    async with running(tmp_path) as program:
        home = Clockwork(program)
        home.add(job("look", NOON + timedelta(days=1), kind="task", target=Address("chat", "7")))
        assert home.service.target_of(Address("job", "1")) == Address("chat", "7")
        assert home.service.target_of(MAIN) == MAIN
