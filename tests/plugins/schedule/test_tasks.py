"""Tasks: an agent turn of their own, whose words go to the person who asked for it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import ProviderRefused, ProviderUnavailable
from nanoclaw.core.messages import Address, AssistantMessage
from nanoclaw.core.store.sessions import whole_history
from nanoclaw.core.tool import tool
from nanoclaw.plugins.schedule.job_service import Wish
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.core.house import MAIN, NOON, House, assert_legal, house
from tests.dial import Dial, story
from tests.plugins.schedule.test_schedule import job, sent, ticking

DOWN = ProviderUnavailable("the server does not answer")


def occurrences(home: House) -> list[tuple[str, str]]:
    return home.store.rows("SELECT state, error FROM occurrences ORDER BY id")


@story
async def test_a_task_is_a_turn_of_its_own_and_its_answer_goes_to_the_person(tmp_path: Path) -> None:
    dial = Dial()
    model = ScriptedProvider("Hello.", "Two mails, nothing urgent.", "Because of task 1.")
    async with ticking(tmp_path, dial, model) as home:
        assert await home.ask("hi there") == "Hello."
        home.desk.add(Wish("in 20 minutes", "Look at my mail", kind="task"), MAIN, "me")
        await dial.pass_(minutes=21)
        assert sent(home) == ["Two mails, nothing urgent."]
        request = model.requests[1]
        assert "[CRON:1] Look at my mail" in request.history[-1].text
        assert not any("hi there" in message.text for message in request.history)
        assert "# Your character" not in request.system.text
        assert "Two mails, nothing urgent." in [m.text for m in home.history if isinstance(m, AssistantMessage)]
        assert_legal(home.history)
        assert await home.ask("why do you say so?") == "Because of task 1."
        assert occurrences(home) == [("sent", "")]
        assert home.jobs.all() == []


@story
async def test_a_task_missed_while_off_runs_once_and_its_answer_says_how_late(tmp_path: Path) -> None:
    dial = Dial()
    async with house(tmp_path, clock=dial) as home:
        home.jobs.add(job("Look at my mail", NOON - timedelta(hours=3), kind="task"))
    async with ticking(tmp_path, dial, ScriptedProvider("Two mails.")) as home:
        await dial.pass_(minutes=1)
        assert sent(home) == ["Two mails.\n(was due 09:00, 3 h late)"]


@pytest.mark.parametrize(
    ("answer", "text", "told"),
    [
        ("Here it is.\nMEDIA:./chart.png", "Here it is.", "Here it is."),
        ("MEDIA:./chart.png", "", "(1 file without words)"),
        ("MEDIA:../secret.png", "MEDIA:../secret.png", "MEDIA:../secret.png"),
    ],
)
@story
async def test_a_task_brings_the_files_that_its_answer_names(tmp_path: Path, answer: str, text: str, told: str) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial, ScriptedProvider(answer)) as home:
        chart = home.workspace / "chart.png"
        chart.write_bytes(b"a chart")
        home.desk.add(Wish("in 20 minutes", "Send me the chart", kind="task"), MAIN, "me")
        await dial.pass_(minutes=21)
        files = [str(chart.resolve())] if told != answer else []
        assert home.store.rows("SELECT text, files FROM outbox") == [(text, json.dumps(files))]
        assert [m.text for m in home.history if isinstance(m, AssistantMessage)] == [told]
        assert_legal(home.history)


@pytest.mark.parametrize("silence", ["NO_REPLY", "**NO_REPLY**.", "[SILENT]"])
@story
async def test_a_task_with_nothing_to_say_says_nothing(tmp_path: Path, silence: str) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial, ScriptedProvider(silence)) as home:
        home.desk.add(Wish("in 20 minutes", "Look at my mail", kind="task"), MAIN, "me")
        await dial.pass_(minutes=21)
        assert sent(home) == []
        assert home.history == ()
        assert occurrences(home) == [("sent", "")]


@story
async def test_words_beside_a_token_of_silence_are_told(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial, ScriptedProvider("Mum's flight is cancelled. NO_REPLY")) as home:
        home.desk.add(Wish("in 20 minutes", "Watch the flight", kind="task"), MAIN, "me")
        await dial.pass_(minutes=21)
        assert sent(home) == ["Mum's flight is cancelled."]


@story
async def test_when_the_model_fails_the_person_gets_the_text_and_the_reason_and_it_is_tried_again(
    tmp_path: Path,
) -> None:
    dial = Dial()
    model = ScriptedProvider(DOWN, "Back: two mails.")
    async with ticking(tmp_path, dial, model) as home:
        home.desk.add(Wish("in 20 minutes", "Look at my mail", kind="task"), MAIN, "me")
        await dial.pass_(minutes=20, seconds=10)
        (text,) = sent(home)
        assert "the server does not answer" in text
        assert text.endswith("I try again in 30 s.\nIt was: Look at my mail")
        await dial.pass_(minutes=1)
        assert sent(home) == ["Back: two mails."]
        await dial.pass_(days=1)
        assert sent(home) == []


@story
async def test_a_failing_task_is_tried_less_and_less_often_told_of_twice_and_paused_after_ten(tmp_path: Path) -> None:
    dial = Dial()
    model = ScriptedProvider(*[DOWN] * 10, "It works.")
    async with ticking(tmp_path, dial, model) as home:
        home.desk.add(Wish("in 10 minutes", "Look at my mail", kind="task"), MAIN, "me")
        await dial.pass_(hours=8)
        first, second, last = sent(home)
        assert "did not work" in first
        assert "failed again" in second
        assert "failed 10 times and is paused" in last
        tried = [row[0] for row in home.store.rows("SELECT started FROM turns WHERE reason = 'failed' ORDER BY id")]
        assert len(tried) == 10
        assert [text[11:16] for text in tried[:7]] == ["12:10", "12:10", "12:11", "12:16", "12:31", "13:31", "14:31"]
        await home.say("/cron resume 1")
        await dial.pass_(minutes=1)
        assert sent(home)[-1] == "It works."
        assert home.jobs.all() == []


@story
async def test_a_repeated_task_that_fails_waits_before_its_next_times_too(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial, ScriptedProvider(*[DOWN] * 10)) as home:
        home.desk.add(Wish("every minute", "Look at my mail", kind="task"), MAIN, "me")
        await dial.pass_(hours=1)
        tried = home.store.rows("SELECT count(*) FROM turns WHERE reason = 'failed'")[0][0]
        assert 4 <= tried <= 6
        assert len(sent(home)) == 2


@story
async def test_a_task_that_acted_outside_before_it_failed_is_not_tried_again_by_itself(tmp_path: Path) -> None:
    async def pay() -> str:
        """Pays."""
        return "paid"

    dial = Dial()
    model = ScriptedProvider(call("pay", {}), ProviderRefused("no quota"), "never said")
    async with ticking(tmp_path, dial, model, tools=[tool(pay)]) as home:
        home.desk.add(Wish("in 20 minutes", "Pay the rent", kind="task"), MAIN, "me")
        await dial.pass_(hours=3)
        (text,) = sent(home)
        assert "no quota" in text
        assert "try again" not in text
        assert len(model.requests) == 2


@story
async def test_a_long_task_delays_no_reminder_and_no_other_task(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang, "Second.", "Chat.")) as home:
        home.jobs.add(job("slow", NOON + timedelta(minutes=1), kind="task"))
        home.jobs.add(job("quick", NOON + timedelta(minutes=2), kind="task"))
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=3)))
        await dial.pass_(minutes=4)
        assert [text.splitlines()[0] for text in sent(home)] == ["Second.", "Reminder 3: Call Anna"]
        assert await home.ask("hi") == "Chat."


@story
async def test_a_repeat_is_left_out_while_the_one_before_still_runs(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.desk.add(Wish("every minute", "slow", kind="task"), MAIN, "me")
        await dial.pass_(minutes=3)
        assert sorted(occurrences(home)) == [("firing", "")] + [("missed", "the one before was still running")] * 2


@pytest.mark.parametrize("allowed", [False, True])
@story
async def test_a_task_makes_jobs_only_where_the_person_allowed_it(tmp_path: Path, allowed: bool) -> None:
    dial = Dial()
    adds = call("cron", {"action": "add", "when": "in 3 hours", "text": "and again"})
    async with ticking(tmp_path, dial, ScriptedProvider(adds, "Done.")) as home:
        home.desk.add(Wish("in 5 minutes", "Go on", kind="task", may_schedule=allowed), MAIN, "me")
        await dial.pass_(minutes=6)
        assert [one.target for one in home.jobs.all()] == ([MAIN] if allowed else [])


@story
async def test_a_task_that_panic_stopped_has_ended_and_the_person_learns_of_it_after_resume(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.desk.add(Wish("in 5 minutes", "slow", kind="task"), MAIN, "me")
        await dial.pass_(minutes=6)
        await home.say("/panic")
        await dial.pass_(minutes=6)
        assert "Stopped: 1 running" in sent(home)[0]
        await home.say("/resume")
        await dial.pass_(seconds=5)
        assert any("Task 1 did not work. It was stopped." in text for text in sent(home))
        assert occurrences(home) == [("failed", "It was stopped.")]


@story
async def test_a_stop_ends_a_task_where_nothing_else_runs_and_names_it(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.desk.add(Wish("in 5 minutes", "slow", kind="task"), MAIN, "me")
        await dial.pass_(minutes=6)
        await hang.reached.wait()
        await home.say("/stop")
        await dial.pass_(seconds=5)
        assert sent(home) == ["Stopped: task 1.", "Task 1 did not work. It was stopped.\nIt was: slow"]
        assert await home.ask("/stop") == "Nothing is running."


@story
async def test_a_task_under_way_when_the_process_ends_goes_on_at_the_next_start(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.desk.add(Wish("in 5 minutes", "slow", kind="task"), MAIN, "me")
        await dial.pass_(minutes=6)
        await hang.reached.wait()
    async with ticking(tmp_path, dial, ScriptedProvider("Here it is.")) as home:
        await dial.pass_(minutes=1)
        assert sent(home) == ["Here it is."]
        assert occurrences(home) == [("sent", "")]
        assert whole_history(home.store, str(Address("job", "1")))


@story
async def test_an_old_run_of_a_task_is_not_shown_to_the_next(tmp_path: Path) -> None:
    dial = Dial()
    model = ScriptedProvider(*[Say(f"Answer {number}.") for number in range(3)])
    async with ticking(tmp_path, dial, model) as home:
        home.desk.add(Wish("every hour", "look", kind="task"), MAIN, "me")
        await dial.pass_(hours=3, minutes=1)
        assert sent(home) == ["Answer 0.", "Answer 1.", "Answer 2."]
        assert {len(request.history) for request in model.requests} == {2}
        await asyncio.sleep(0)
