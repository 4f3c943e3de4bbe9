"""The life of a reminder: set in words, sent with a number, answered, put off, nagging, stopped; told by code."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.events import Receipt
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from nanoclaw.start.build import BUILT_IN
from tests.dial import Dial
from tests.examples import examples
from tests.plugins.schedule.clockwork import Clockwork, job, ticking
from tests.program import NOON, FakeChannel, assert_legal, results

SAID = examples(__file__, "reminders.jsonl")
NEEDS_UNDO = pytest.mark.skipif("undo" not in BUILT_IN, reason="receipts are of the plugin undo")


async def heard(home: Clockwork, dial: Dial, text: str, quoted: str = "") -> str:
    """The answer that comes at once to what the person says."""
    await home.program.say(text, quoted=quoted)
    await dial.settle()
    return "\n".join(home.sent())


def firsts(home: Clockwork) -> list[str]:
    return [text.splitlines()[0] for text in home.sent()]


async def test_a_reminder_in_words_is_read_back_sent_and_done(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        assert await heard(home, dial, "/remind tomorrow at 9: call Anna") == (
            "Job 1, a reminder, is set: Sat 7 Mar 2026, 09:00 Europe/Berlin, in 21 hours. “call Anna”"
        )
        assert "- 1: reminder “call Anna”, Sat 7 Mar 2026, 09:00 Europe/Berlin" in await heard(home, dial, "/jobs")
        await dial.pass_(hours=22)
        assert firsts(home) == ["Reminder 1: call Anna"]
        assert await heard(home, dial, "Done 1.") == "Done: call Anna."
        assert await heard(home, dial, "/jobs") == "No jobs. /remind tomorrow at 9: TEXT sets a reminder."
        *_, remark, answer = home.program.history
        assert "The person said “Done 1.”" in remark.text
        assert answer.text == "Done: call Anna."
        assert_legal(home.program.history)


async def test_done_means_the_only_reminder_of_the_last_quarter_of_an_hour(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial, ScriptedProvider("What is done?", "And what now?")) as home:
        assert await heard(home, dial, "done") == "What is done?"
        for minutes, text in ((1, "one"), (40, "two"), (41, "three")):
            home.add(job(text, NOON + timedelta(minutes=minutes)))
        home.loop.changed()
        await dial.pass_(minutes=2)
        assert (
            await heard(home, dial, "done") == "Reminder 1: one\n(“done 1” or “snooze 1 30m” answers it.)\nDone: one."
        )
        await dial.pass_(minutes=40)
        home.sent()
        assert await heard(home, dial, "done") == "Which one? 2 (two), 3 (three). Say “done 2”."
        assert await heard(home, dial, "done 3") == "Done: three."
        await dial.pass_(minutes=15)
        assert await heard(home, dial, "done") == "And what now?"
        assert [one.number for one, _ in home.jobs.open()] == [2]


async def test_a_number_that_is_not_open_is_answered_by_code_and_other_words_by_the_model(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial, ScriptedProvider("I see.")) as home:
        home.add(job("one", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=2)
        home.sent()
        for words in ("done 7", "stop 7", "snooze 7 10m"):
            assert await heard(home, dial, words) == "There is no open reminder 7. /jobs lists them."
        assert await heard(home, dial, "done and dusted") == "I see."


async def test_a_snoozed_reminder_comes_again_under_its_number(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        home.add(job("call Anna", NOON + timedelta(minutes=1)))
        home.add(job("water", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=2)
        home.sent()
        answer = await heard(home, dial, "snooze 2 10m")
        assert answer == "Again Fri 6 Mar 2026, 12:12 Europe/Berlin, in 10 minutes: 2: water"
        await dial.pass_(minutes=9, seconds=59)
        assert home.sent() == []
        await dial.pass_(seconds=1)
        assert firsts(home) == ["Reminder 2 again: water"]
        await dial.pass_(days=1)
        assert home.sent() == []
        assert "Not snoozed." in await heard(home, dial, "snooze 2 blue")
        assert "in 2 hours: 2: water" in await heard(home, dial, "snooze 2 2 hours")
        assert "Sun 8 Mar 2026, 09:00" in await heard(home, dial, "snooze 2 until tomorrow at 9")


@pytest.mark.parametrize("said", ["snooze 10 minutes", "snooze for 10 minutes", "Snooze 10m", "snooze"])
async def test_a_length_after_snooze_is_no_number_of_a_reminder(tmp_path: Path, said: str, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        home.add(job("call Anna", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=2)
        home.sent()
        answer = await heard(home, dial, said)
        assert answer == "Again Fri 6 Mar 2026, 12:12 Europe/Berlin, in 10 minutes: 1: call Anna"


async def test_in_a_group_a_reminder_is_answered_by_whom_it_is_for_and_others_hear_whose_it_is(tmp_path: Path) -> None:
    dial = Dial()

    async def says(home: Clockwork, name: str, text: str, group: str = "-5", topic: str = "") -> str:
        address, number = Address("chat", f"{group}/{topic}/{name.lower()}"), str(len(chat.fetched))
        chat.fetched.append(text)
        message = UserMessage(text, dial())
        await home.program.deliver(
            Inbound(address, name.lower(), number, message, name=name, is_group=True, role="guest")
        )
        await dial.settle()
        return chat.sent.get_nowait().text

    chat = FakeChannel("chat")
    async with ticking(tmp_path, dial, others=(chat,), plugins=["schedule"]) as home:
        await says(home, "Anna", "/remind in 5 minutes: water the plants")
        await dial.pass_(minutes=6)
        assert chat.sent.get_nowait().text.startswith("Reminder 1: water the plants")
        assert await says(home, "Bob", "done 1") == "Reminder 1 is not yours: only Anna can answer it."
        assert await says(home, "Bob", "done 1", "-6") == "There is no open reminder 1. /jobs lists them."
        assert await says(home, "Anna", "done 1", topic="8") == "Done: water the plants."


async def test_a_nagging_reminder_comes_again_until_done_and_is_shown_as_important(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        assert "again every 10 min up to 3 times" in await heard(home, dial, "/remind in 5 minutes: pills nag 10m x3")
        await heard(home, dial, "/remind in 5 minutes: keys, nag 10m x3")
        await dial.pass_(minutes=6)
        assert len(home.sent()) == 2
        await dial.pass_(minutes=10)
        assert firsts(home) == ["Reminder 1 again: pills", "Reminder 2 again: keys"]
        await heard(home, dial, "done 2")
        await dial.pass_(hours=3)
        assert firsts(home) == ["Reminder 1 again: pills"] * 2
        assert home.service.important() == ["Reminder 1: pills"]
        await heard(home, dial, "done 1")
        assert home.service.important() == []


async def test_stop_ends_a_repeat_and_done_does_not_and_a_bare_stop_is_for_a_later_turn(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.ask_for("every day at 13:00", "walk")
        await dial.pass_(hours=1)
        assert (await heard(home, dial, "done 1")).endswith("\nDone: walk.")
        await dial.pass_(days=1, minutes=1)
        assert firsts(home) == ["Reminder 1: walk"]
        await home.program.say("write me a long story")
        await hang.reached.wait()
        assert await heard(home, dial, "stop") == "Stopped."
        assert await heard(home, dial, "stop 1") == "Stopped: walk. It does not come again."
        dial.set(days=3)
        await dial.pass_(minutes=1)
        assert home.sent() == []


async def test_a_repeat_that_nobody_answers_keeps_its_number(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        home.ask_for("every hour", "walk")
        home.ask_for("every hour", "drink")
        await dial.pass_(hours=5)
        assert len(home.jobs.open()) == 2
        assert {one.number for one, _ in home.jobs.open()} == {1, 2}


async def test_a_quoted_reply_says_which_one_is_meant(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        for minutes in (1, 2):
            home.add(job(f"thing {minutes}", NOON + timedelta(minutes=minutes)))
        await dial.pass_(hours=2)
        (first, second) = home.program.rows("SELECT platform_id FROM outbox ORDER BY id")
        assert first != second
        home.sent()
        assert await heard(home, dial, "done", quoted=first[0]) == "Done: thing 1."
        assert "thing 2" in await heard(home, dial, "snooze 1h", quoted=second[0])


async def test_a_later_yes_has_its_object(tmp_path: Path, dial: Dial) -> None:
    model = ScriptedProvider("What shall I tell her?")
    async with ticking(tmp_path, dial, model) as home:
        home.add(job("Shall I call Anna?", NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=2)
        home.sent()
        assert await heard(home, dial, "yes") == "What shall I tell her?"
        assert any("Shall I call Anna?" in message.text for message in model.requests[0].history)


async def test_the_model_sets_a_reminder_and_the_answer_says_the_date(tmp_path: Path, dial: Dial) -> None:
    model = ScriptedProvider(call("cron", {"action": "add", "when": "tomorrow at 9", "text": "Call Anna"}), "Set.")
    async with ticking(tmp_path, dial, model) as home:
        assert await heard(home, dial, "I must call Anna tomorrow at 9, remind me") == "Set."
        (result,) = results(home.program.history)
        assert not result.is_error
        assert "Sat 7 Mar 2026, 09:00 Europe/Berlin, in 21 hours" in result.text
        await dial.pass_(hours=22)
        assert firsts(home) == ["Reminder 1: Call Anna"]


@NEEDS_UNDO
async def test_undo_takes_back_a_reminder_that_the_model_set(tmp_path: Path, dial: Dial) -> None:
    model = ScriptedProvider(call("cron", {"action": "add", "when": "tomorrow at 9", "text": "Call Anna"}), "Set.")
    async with ticking(tmp_path, dial, model) as home:
        await heard(home, dial, "I must call Anna tomorrow at 9, remind me")
        receipts = [event.text for _, event in home.program.channel.events if isinstance(event, Receipt)]
        assert receipts == ["set reminder 1 for Sat 7 Mar 2026, 09:00"]
        assert await heard(home, dial, "/undo") == "Removed: reminder 1 “Call Anna”."
        assert home.jobs.all() == []
        assert "nothing to undo" in await heard(home, dial, "/undo")


@NEEDS_UNDO
async def test_undo_brings_back_a_job_that_the_model_removed(tmp_path: Path, dial: Dial) -> None:
    model = ScriptedProvider(call("cron", {"action": "remove", "id": 1}), "Removed.")
    async with ticking(tmp_path, dial, model) as home:
        await heard(home, dial, "/remind tomorrow at 9: call Anna")
        await heard(home, dial, "forget about the call")
        assert home.jobs.all() == []
        assert await heard(home, dial, "/undo") == (
            "Back again: reminder 1 “call Anna”, Sat 7 Mar 2026, 09:00 Europe/Berlin, in 21 hours."
        )
        await dial.pass_(hours=22)
        assert firsts(home) == ["Reminder 1: call Anna"]


@NEEDS_UNDO
async def test_undo_takes_back_what_the_person_told_the_schedule_by_commands(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        await heard(home, dial, "/cron add every day at 9: pills")
        await heard(home, dial, "/cron pause 1")
        await heard(home, dial, "/cron remove 1")
        assert await heard(home, dial, "/undo") == "Back again: reminder 1 “pills”, paused."
        assert "paused" in await heard(home, dial, "/jobs")  # as it was when it was removed
        assert await heard(home, dial, "/undo") == "Removed: reminder 1 “pills”."
        assert home.jobs.all() == []


@NEEDS_UNDO
async def test_a_reminder_that_was_stopped_or_removed_after_it_came_comes_again_after_undo(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        await heard(home, dial, "/remind in 5 minutes: take the pizza out nag 10m x3")
        await heard(home, dial, "/cron add every 6 minutes: water")
        await dial.pass_(minutes=6)
        home.sent()
        await heard(home, dial, "/cron remove 1")
        assert await heard(home, dial, "stop 2") == "Stopped: water. It does not come again."
        assert await heard(home, dial, "/undo 2") == (
            "Back again: reminder 2 “water”, every 6 minutes, "
            "next: Fri 6 Mar 2026, 12:12 Europe/Berlin, in 6 minutes.\n"
            "Back again: reminder 1 “take the pizza out”, not answered yet."
        )
        await dial.pass_(minutes=11)
        assert firsts(home) == ["Reminder 2: water", "Reminder 1 again: take the pizza out"]
        assert await heard(home, dial, "done 1") == "Done: take the pizza out."


async def test_removing_needs_the_number_of_a_job_that_is_there(tmp_path: Path, dial: Dial) -> None:
    model = ScriptedProvider(call("cron", {"action": "remove"}), call("cron", {"action": "remove", "id": 9}), "Sorry.")
    async with ticking(tmp_path, dial, model) as home:
        await heard(home, dial, "remove it")
        first, second = results(home.program.history)
        assert "needs the job's id" in first.text
        assert "There is no job 9" in second.text


@pytest.mark.parametrize(("arguments", "why"), SAID["what cannot be set is refused with the reason"])
async def test_what_cannot_be_set_is_refused_with_the_reason_and_nothing_is_stored(
    tmp_path: Path, arguments: dict[str, str], why: str
) -> None:
    dial = Dial()
    model = ScriptedProvider(call("cron", {"action": "add", "text": "x", **arguments}), "I could not.")
    async with ticking(tmp_path, dial, model) as home:
        await heard(home, dial, f"please, {arguments['when']}")
        (result,) = results(home.program.history)
        assert result.is_error
        assert why in result.text
        assert home.jobs.all() == []


async def test_a_target_that_nothing_reaches_is_refused_when_the_job_is_made(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        assert "Nothing can be sent to nowhere:x" in await heard(home, dial, "/remind --to nowhere:x tomorrow at 9: x")
        assert home.jobs.all() == []


async def test_jobs_are_listed_paused_resumed_run_and_removed_by_number(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        await heard(home, dial, "/cron add --zone America/New_York 30 7 * * 1-5: stand up")
        assert "07:30 America/New_York" in await heard(home, dial, "/cron list")
        assert "Runs now, besides its schedule: reminder 1 “stand up”.\nReminder 1: stand up" in (
            await heard(home, dial, "/cron run 1")
        )
        assert "Paused" in await heard(home, dial, "/cron pause 1")
        dial.set(days=1)
        await dial.pass_(minutes=1)
        assert home.sent() == []
        assert "Goes on" in await heard(home, dial, "/cron resume 1")
        dial.set(days=3)
        await dial.pass_(minutes=1)
        assert firsts(home) == ["Reminder 1: stand up"]
        assert "Give the number of a job" in await heard(home, dial, "/cron remove stand")
        assert await heard(home, dial, "/cron remove 1") == "Removed: reminder 1 “stand up”."
        dial.set(days=3)
        await dial.pass_(minutes=1)
        assert home.sent() == []
        assert "There is no job 1" in await heard(home, dial, "/cron remove 1")
        assert "no job 1" in await heard(home, dial, "/cron next 1")
        assert "- Sat 7 Mar 2026, 09:00" not in await heard(home, dial, "/cron frob")


async def test_the_number_of_a_reminder_is_its_jobs_and_means_the_same_everywhere(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        for when, text in (("in 3 days", "far"), ("in 3 days", "farther"), ("in 10 minutes", "call Anna")):
            await heard(home, dial, f"/remind {when}: {text}")
        await dial.pass_(minutes=11)
        assert firsts(home) == ["Reminder 3: call Anna"]
        assert "- 3: reminder “call Anna”, not answered yet" in await heard(home, dial, "/jobs")
        await heard(home, dial, "snooze 3 20m")
        await dial.pass_(minutes=21)
        assert firsts(home) == ["Reminder 3 again: call Anna"]
        assert await heard(home, dial, "/cron remove 3") == "Removed: reminder 3 “call Anna”."
        assert await heard(home, dial, "done 3") == "There is no open reminder 3. /jobs lists them."
        assert "call Anna" not in await heard(home, dial, "/jobs")


async def test_jobs_lists_what_is_snoozed_with_its_time_and_what_nobody_answered(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        await heard(home, dial, "/remind in 5 minutes: call mum")
        await heard(home, dial, "/remind every day at 12:05: walk")
        await dial.pass_(minutes=6)
        await heard(home, dial, "snooze 1 10m")
        listed = await heard(home, dial, "/jobs")
        again = "comes again Fri 6 Mar 2026, 12:16 Europe/Berlin, in 10 minutes"
        assert f"- 1: reminder “call mum”, not answered yet, {again}" in listed
        assert re.search(r"- 2: reminder “walk”, every day at 12:05 .*, not answered yet", listed)
        await heard(home, dial, "done all")
        assert "not answered" not in await heard(home, dial, "/jobs")


async def test_a_reminder_without_a_text_is_refused_with_that_reason(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        for text in ("", " \u200b", " \u3164\ufe0f"):
            assert (await heard(home, dial, f"/remind tomorrow at 9:{text}")).startswith("There is no text")
        assert "a colon and a text" in await heard(home, dial, "/remind tomorrow at 9")


async def test_a_reminder_can_be_said_with_any_colon_or_none(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        for said, text in SAID["said with any colon or none"]:
            answer = await heard(home, dial, f"/remind {said}")
            assert ("09:00" in answer, f"“{text}”" in answer) == (True, True), answer
        for unclear in SAID["unclear"]:
            assert "a colon and a text" in await heard(home, dial, f"/remind {unclear}")


async def test_without_a_colon_nothing_that_may_belong_to_the_time_becomes_the_text(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        for said in SAID["the text may belong to the time"]:
            assert "a colon and a text" in await heard(home, dial, f"/remind {said}"), said
        assert home.jobs.all() == []


async def test_flags_after_the_text_are_not_part_of_it(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        assert "“tea”" in await heard(home, dial, "/cron add every day at 9: tea --skip --zone America/New_York")
        assert [job.on_miss for job in home.jobs.all()] == ["skip"]
        assert "“pills”" in await heard(home, dial, "/cron add every day at 9: pills --nag 10m")
        assert "pills”, every day at 09:00" in (listed := await heard(home, dial, "/jobs"))
        assert ", again every 10 min until done" in listed
        refused = "/cron add --may-schedule every day at 9: pills"
        assert "A reminder makes no jobs" in await heard(home, dial, refused)


async def test_done_does_not_mean_what_was_just_put_off(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        for text in ("one", "two"):
            home.add(job(text, NOON + timedelta(minutes=1)))
        await dial.pass_(minutes=2)
        await heard(home, dial, "snooze 2 30m")
        assert await heard(home, dial, "done") == "Done: one."


async def test_what_was_paused_past_its_time_comes_now(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial) as home:
        await heard(home, dial, "/remind in 5 minutes: tea")
        await heard(home, dial, "/cron pause 1")
        assert "paused (Fri 6 Mar 2026, 12:05)" in await heard(home, dial, "/jobs")
        await dial.pass_(hours=1)
        assert (await heard(home, dial, "/cron resume 1")).startswith("Goes on: reminder 1 “tea”, now.")
