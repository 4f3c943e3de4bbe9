"""An elevated while: what the policy would ask is done unasked, in one conversation, until it ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nanoclaw.core.events import StatusLines
from tests.plugins.approvals.test_approvals import GUEST
from tests.plugins.approvals.test_grants import OWN, RAN, Both, git, program, until
from tests.program import HandClock
from tests.virtual_time import virtual_time

BEGUN = "Elevated until 12:30, in this conversation alone; /elevated off ends it."


def lines(home: Both) -> Iterator[str]:
    """The line that stands in the terminal, each time that it changes."""
    return (event.text for _, event in home.channel.events if isinstance(event, StatusLines))


async def test_it_says_what_it_opens_and_takes_the_policys_questions_as_yes(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "One.", git("rm x"), "Two.", git("push"), "You said no.") as home:
        told = await home.ask("/elevated 30m")
        assert told.startswith(f"{BEGUN}\n\nWhile it is on, what would ask here and offer a yes for an hour, ")
        assert "Still asked: " in told and "guests" in told
        assert await home.ask("push") == "One."
        assert (await home.ask("rm")).startswith("Run git rm?"), "what has no scope is asked all the same"
        await home.say("/yes 1")
        assert {await home.answer(), await home.answer()} == {"OK, going ahead.", "Two."}
        assert (await home.ask("/elevated")).startswith("Elevated until 12:30; /elevated off ends it.")
        assert await home.ask("/elevated off") == "Elevated is off: I ask again."
        assert await home.ask("/elevated off") == "Elevated is not on here."
        assert (await home.ask("/elevated")).startswith("Elevated is off here: I ask. /elevated 30m switches it on, ")
        assert (await home.ask("push")).startswith("Run git push?")
        await home.say("/no 2")
        assert {await home.answer(), await home.answer()} == {"OK, I won't do it.", "You said no."}
        assert RAN == ["push", "rm x"]
        assert list(lines(home)) == ["elevated until 12:30: asks less (/elevated off)", ""]


@pytest.mark.parametrize(
    ("words", "ends"),
    [("on", "12:30"), ("30m", "12:30"), ("45 min", "12:45"), ("5", "12:05"), ("1h", "13:00"), ("60 minutes", "13:00")],
)
async def test_its_time_is_said_in_words(tmp_path: Path, words: str, ends: str) -> None:
    async with program(tmp_path) as home:
        assert (await home.ask(f"/elevated {words}")).startswith(f"Elevated until {ends}, ")


@pytest.mark.parametrize(
    ("words", "said"),
    [*((one, "an hour at most") for one in ("2h", "61m", "0")), ("soon", "'soon': say /elevated 30m")],
)
async def test_more_than_an_hour_and_what_is_no_time_are_refused(tmp_path: Path, words: str, said: str) -> None:
    async with program(tmp_path) as home:
        assert said in await home.ask(f"/elevated {words}")
        assert home.rows("SELECT * FROM approvals_grants") == []


async def test_it_holds_in_its_conversation_alone_and_no_guest_can_ask_for_it(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "You said no.") as home:
        await home.ask("/elevated 30m")
        assert (await home.ask("push", chat="other")).startswith("Run git push?")
        await home.say("/no 1", chat="other")
        await home.answer()
        await home.write_from(GUEST, "777", "/elevated 30m")
        assert (await home.chat.sent.get()).text == "Only the owner can do that."
        assert len(home.rows("SELECT * FROM approvals_grants")) == 1


async def test_it_is_the_owners_in_a_chat_of_their_own_too(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "One.") as home:
        home.home.link(OWN)
        await home.write_from(OWN, "1", "/elevated 10m")
        assert (await home.chat.sent.get()).text.startswith("Elevated until 12:10")
        await home.write_from(OWN, "1", "push")
        assert (await home.chat.sent.get()).text == "One."


@virtual_time
async def test_it_outlives_a_restart_with_its_end(tmp_path: Path) -> None:
    clock = HandClock()
    async with program(tmp_path, clock=clock) as home:
        await home.ask("/elevated 30m")
    clock.now += timedelta(minutes=29)
    async with program(
        tmp_path, git("push"), "One.", git("push"), "You said no.", clock=clock, wakes=True, seconds=9_000
    ) as home:
        assert await home.ask("push") == "One."
        assert list(lines(home)) == ["elevated until 12:30: asks less (/elevated off)"]
        clock.now += timedelta(minutes=1)
        await home.say("push")
        told = {(await home.answer())[:13] for _ in range(2)}
        assert told == {"Run git push?", "Elevated has "}


@virtual_time
async def test_it_ends_by_itself_and_says_so(tmp_path: Path) -> None:
    async with program(tmp_path, wakes=True, seconds=9_000) as home:
        await home.ask("/elevated 30m")
        home.hand.now += timedelta(minutes=30)
        assert await home.answer() == "Elevated has ended: I ask again."
        await until(lambda: list(lines(home))[-1] == "")
        assert home.rows("SELECT * FROM approvals_grants") == []


async def test_what_ended_while_the_program_was_off_is_said_at_the_start(tmp_path: Path) -> None:
    clock = HandClock()
    async with program(tmp_path, clock=clock) as home:
        await home.ask("/elevated 30m")
    clock.now += timedelta(hours=2)
    async with program(tmp_path, clock=clock, wakes=True) as home:
        assert await home.answer() == "Elevated has ended: I ask again."


async def test_it_is_in_status_until_when_and_no_more_when_it_is_over(tmp_path: Path) -> None:
    async with program(tmp_path) as home:
        assert "Elevated" not in await home.ask("/status")
        await home.ask("/elevated 30m")
        assert "\nElevated, asks less: terminal:main until 12:30\n" in await home.ask("/status")
        home.hand.now += timedelta(minutes=31)
        assert "Elevated" not in await home.ask("/status")


@virtual_time
@pytest.mark.parametrize("step", [timedelta(hours=8), timedelta(hours=-2), timedelta(days=-400)])
async def test_a_sleep_or_a_clock_that_jumps_makes_it_no_longer_and_its_end_is_told_once(
    tmp_path: Path, step: timedelta
) -> None:
    clock = HandClock()
    async with program(tmp_path, git("push"), "You said no.", clock=clock) as home:
        await home.ask("/elevated 30m")
        clock.now += step
        assert (await home.ask("push")).startswith("Run git push?")
        await home.say("/no 1")
        await home.answer(), await home.answer()
    for _ in range(2):
        async with program(tmp_path, clock=clock, wakes=True) as home:
            await home.app.conversations.idle()
            await home.say("/status")
            await until(lambda: not home.rows("SELECT 1 FROM approvals_grants"))
            assert home.rows("SELECT count(*) FROM outbox WHERE text LIKE 'Elevated has ended%'") == [(1,)]


async def test_in_another_zone_it_ends_at_the_same_moment_in_words_of_there(tmp_path: Path) -> None:
    clock = HandClock()
    async with program(tmp_path, clock=clock) as home:
        await home.ask("/elevated 30m")
        clock.now = (clock.now + timedelta(minutes=5)).astimezone(ZoneInfo("Asia/Tokyo"))
        assert (await home.ask("/elevated")).startswith("Elevated until 20:30; ")
        clock.now += timedelta(minutes=25)
        assert await home.ask("/elevated off") == "Elevated is not on here."
