"""What nobody waits for is told together at the hours that were chosen, once; all else goes out at once."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nanoclaw.core.errors import ConfigError, Undeliverable
from nanoclaw.core.messages import Button, Outbound
from nanoclaw.providers.scripted import Hang, ScriptedProvider, Step, call
from nanoclaw.start import build
from tests.channels.telegram_program import RULES, scene
from tests.dial import Dial
from tests.plugins.delegate.talk import Cast, delegate
from tests.plugins.heartbeat.test_heartbeat import beating, news
from tests.plugins.send.test_hooks import deliver
from tests.program import MAIN, NOON, FakeChannel, HandClock, Program, config_of, running
from tests.virtual_time import skip

HOURS = '[attention]\nhours = ["18:00", "8:00"]\n'
HOOK = '[hooks.door]\nsecret = "a secret of mine"\nkind = "bearer"\n'
SETTINGS = HOURS + HOOK
EVENING = NOON.replace(hour=18)


async def ring(program: Program, *texts: str) -> None:
    for text in texts:
        key = {"Authorization": "Bearer a secret of mine", "Idempotency_Key": text}
        assert (await deliver(program, "door", text, **key))[0] == 202


async def looked(program: Program) -> list[str]:
    """All that has been sent, once nothing more goes out."""
    await program.app.delivery.flush(program.channel.name)
    return [program.channel.sent.get_nowait().text for _ in range(program.channel.sent.qsize())]


async def test_what_can_wait_comes_in_one_message_at_the_hour_and_all_else_at_once(tmp_path: Path) -> None:
    clock = HandClock()
    async with running(tmp_path, ScriptedProvider("Hello."), settings=SETTINGS, clock=clock) as program:
        await ring(program, "Anna")
        clock.now += timedelta(minutes=65)
        await ring(program, "Bob")
        assert await program.ask("Hi") == "Hello."
        for sent in ({"at": clock.now}, {"buttons": (Button("Yes", "/yes"),)}, {}):
            await program.app.transactions.write(lambda tx, of=sent: tx.send(Outbound(MAIN, str(len(of)), **of)))  # type: ignore[misc]
        assert await looked(program) == ["1", "1", "0"]
        waits = "2 messages wait for the digest at 18:00"
        shown = "**1 · 12:00**\ndoor: Anna\n\n**2 · 13:05**\ndoor: Bob"
        assert await program.ask("/inbox") == f"{waits}.\n\n{shown}"
        assert f"{waits}: /inbox" in await program.ask("/status")
        clock.now = EVENING - timedelta(seconds=1)
        assert await looked(program) == []
        clock.now = EVENING
        assert await looked(program) == [digest := f"2 messages that could wait:\n\n{shown}"]
        assert await program.ask("/inbox") == f"Nothing waits for a digest.\n\nIn the last digest:\n\n{shown}"
        remark, said = program.history[-2:]
        assert said.text == digest and getattr(remark, "outside", "") == "what was collected"
        clock.now += timedelta(days=2)
        assert await looked(program) == []


@pytest.mark.parametrize("broken", [ConnectionError("down"), Undeliverable("no such chat")])
async def test_what_could_not_be_sent_stays(tmp_path: Path, broken: Exception) -> None:
    """One alone is itself; it is not held again while it is tried again."""
    clock, channel = HandClock(), FakeChannel()

    def fail(outbound: Outbound) -> bool:
        raise broken

    async with running(tmp_path, ScriptedProvider(), settings=SETTINGS, clock=clock, channel=channel) as program:
        works, channel.broken = channel.broken, fail
        await ring(program, "Anna")
        clock.now = EVENING
        assert await looked(program) == []
        channel.broken = works
        clock.now += timedelta(minutes=1)
        if isinstance(broken, Undeliverable):
            await ring(program, "Bob")
            assert "2 messages wait until your chat can be reached, or for" in await program.ask("/inbox")
            clock.now += timedelta(days=1)
            assert [one.count("door: ") for one in await looked(program)] == [2]
        else:
            assert await looked(program) == ["door: Anna"]


async def test_a_long_digest_is_cut_and_inbox_shows_all_of_it(tmp_path: Path) -> None:
    clock, long = HandClock(), "see\n```\n" + "a line\n" * 60 + "```"
    async with running(tmp_path, ScriptedProvider(), settings=SETTINGS, clock=clock) as program:
        await ring(program, long, *map(str, range(20)))
        clock.now = EVENING
        (told,) = await looked(program)
        assert len(told) < 1_000 and "a line\n```\n…\n\n**2 · 12:00**\ndoor: 0\n" in told
        assert told.endswith("**10 · 12:00**\ndoor: 8\n\n(12 of them cut or left out: /inbox shows all.)")
        shown = await program.ask("/inbox")
        assert long in shown and shown.endswith("door: 18\n\n(1 more: /inbox 21)")
        assert (await program.ask("/inbox 21")).endswith("\n\n**21 · 12:00**\ndoor: 19")


async def test_the_hours_are_those_of_the_persons_zone_and_one_missed_is_made_up_for(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(), settings=SETTINGS) as program:
        await ring(program, "Anna", "Bob")
        assert await looked(program) == []
    clock = HandClock(datetime(2026, 3, 6, 7, 59, tzinfo=ZoneInfo("America/New_York")))
    async with running(tmp_path, ScriptedProvider(), clock=clock) as program:
        assert await looked(program) == []
    clock.now += timedelta(hours=3)
    async with running(tmp_path, ScriptedProvider(), clock=clock) as program:
        assert "**1 · 06:00**\ndoor: Anna" in await program.answer()


async def test_the_digest_comes_within_a_minute_of_its_hour_where_the_machine_has_slept(tmp_path: Path) -> None:
    clock = HandClock()
    async with running(tmp_path, ScriptedProvider(), settings=SETTINGS, clock=clock) as program:
        await ring(program, "Anna")
        assert await looked(program) == []
        clock.now = EVENING
        skip(60)  # the loop's own clock stood still until then
        assert (await program.channel.sent.get()).text == "door: Anna"


async def test_what_waited_goes_out_plainly_without_the_plugin(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(), settings=SETTINGS) as program:
        await ring(program, "Anna", "Bob")
        assert await looked(program) == []
    async with running(tmp_path, ScriptedProvider(), settings=HOOK) as program:
        assert [await program.answer(), await program.answer()] == ["door: Anna", "door: Bob"]
        await ring(program, "Cyd")
        assert await program.answer() == "door: Cyd"


@pytest.mark.parametrize("hours", ['["25:00"]', '["8"]', '["noon", "18:00"]'])
def test_wrong_hours_get_a_sentence(tmp_path: Path, hours: str) -> None:
    with pytest.raises(ConfigError, match=r' attention.hours are times of day such as "8:00" and "18:00", not .*\.$'):
        build.checked(config_of(tmp_path, f"[attention]\nhours = {hours}\n"))


async def test_the_heartbeats_news_waits_unless_it_was_asked_for(tmp_path: Path) -> None:
    dial, model = Dial(NOON), ScriptedProvider(news("Rain."), news("Storm."))
    async with beating(tmp_path, dial, model, checklist="- [ ] Look outside: every 30m\n", more=HOURS) as program:
        assert "its report will follow" in await program.ask("/heartbeat")
        assert await program.answer() == "Rain."
        await program.app.conversations.idle()
        await dial.pass_(minutes=31)
        await program.app.conversations.idle()
        assert "Storm." in await program.ask("/inbox")


async def test_a_finished_helper_and_what_the_model_says_of_it_wait_and_nothing_of_it_is_shown(tmp_path: Path) -> None:
    said: list[Step] = [delegate("look", background=True), "I have begun.", "It was found."]
    model = Cast({"": said, "look": ["Under the bed."]})
    model.gate.clear()
    async with scene(tmp_path, model=model, rules=f"{RULES}\n{HOURS}", wakes=True) as there:
        server, program = there.server, there.home
        assert await there.hears(there.anna, "Have it looked for") == "I have begun."
        model.gate.set()
        while program.rows("SELECT 1 FROM delegate_helpers WHERE state != 'told'"):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await program.app.conversations.idle()
        await program.app.delivery.flush("telegram")
        assert [one.text for one in server.posted][-1] == "I have begun."
        there.clock.now = EVENING
        program.app.delivery.wake()
        digest = (await there.last()).text
        assert "2 messages that could wait" in digest and "Under the bed." in digest and "It was found." in digest


async def test_the_end_of_a_background_process_waits_with_what_the_model_says_of_it(tmp_path: Path) -> None:
    begun = call("exec", {"command": "mkfifo gate; read go < gate; echo built", "background": True})
    model, clock = ScriptedProvider(begun, "It runs.", "Tell them: built."), HandClock()
    async with running(tmp_path, model, settings=HOURS, clock=clock, wakes=True) as program:
        assert await program.ask("Build it") == "It runs."
        while not (program.workspace / "gate").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        (program.workspace / "gate").write_text("go\n")
        while len(model.requests) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await program.app.conversations.idle()
        assert await looked(program) == []
        clock.now = EVENING
        program.app.delivery.wake()
        digest = await program.answer()
        assert "2 messages that could wait" in digest and "exit status 0" in digest and "Tell them: built." in digest


async def test_what_the_model_says_of_a_webhook_comes_at_once_where_the_person_has_spoken_meanwhile(
    tmp_path: Path,
) -> None:
    asks, clock, hang = SETTINGS + 'do = "ask"\n', HandClock(), Hang("Oh")
    async with running(tmp_path, ScriptedProvider(hang, "Anna is at the door."), settings=asks, clock=clock) as program:
        await ring(program, "Anna")
        await hang.reached.wait()
        clock.now += timedelta(seconds=9)
        await program.say("Who is there?")
        assert await program.answer() == "Anna is at the door."
        assert "door: Anna" in await program.ask("/inbox")
