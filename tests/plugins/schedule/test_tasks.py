"""Tasks: an agent turn of their own, whose words go to the person who asked for it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import ProviderRefused, ProviderUnavailable
from nanoclaw.core.messages import Address, AssistantMessage
from nanoclaw.core.plugin import Answer, Plugin, Turn
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.dial import Dial
from tests.plugins.schedule.clockwork import Clockwork, job, ticking
from tests.program import MAIN, NOON, FakeChannel, assert_legal, running, tools_plugin


class Attaches(Plugin):
    """Takes a file out of an answer, as that of attachments does."""

    name = "attaches"

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer | None:
        words = answer.text.removesuffix("chart.png")
        return None if words == answer.text else Answer(words.strip(), ("chart.png",))


DOWN = ProviderUnavailable("the server does not answer")


async def test_a_task_is_a_turn_of_its_own_and_its_answer_goes_to_the_person(tmp_path: Path, dial: Dial) -> None:
    model = ScriptedProvider("Hello.", "Two mails, nothing urgent.", "Because of task 1.")
    async with ticking(tmp_path, dial, model) as home:
        assert await home.program.ask("hi there") == "Hello."
        home.ask_for("in 20 minutes", "Look at my mail", kind="task")
        await dial.pass_(minutes=21)
        assert home.sent() == ["Two mails, nothing urgent."]
        request = model.requests[1]
        assert "[CRON:1] Look at my mail" in request.history[-1].text
        assert not any("hi there" in message.text for message in request.history)
        assert "# Your character" not in request.system.text
        assert "Two mails, nothing urgent." in [m.text for m in home.program.history if isinstance(m, AssistantMessage)]
        assert_legal(home.program.history)
        assert await home.program.ask("why do you say so?") == "Because of task 1."
        assert home.occurrences() == [("sent", "")]
        assert home.jobs.all() == []


async def test_a_task_missed_while_off_runs_once_and_its_answer_says_how_late(tmp_path: Path, dial: Dial) -> None:
    async with running(tmp_path, clock=dial) as program:
        home = Clockwork(program)
        home.add(job("Look at my mail", NOON - timedelta(hours=3), kind="task"))
    async with ticking(tmp_path, dial, ScriptedProvider("Two mails.")) as home:
        await dial.pass_(minutes=1)
        assert home.sent() == ["Two mails.\n(was due 09:00, 3 h late)"]


@pytest.mark.parametrize(
    ("answer", "text", "told"),
    [("Here it is.\nchart.png", "Here it is.", "Here it is."), ("chart.png", "", "(1 file without words)")],
)
async def test_a_task_brings_the_files_that_its_answer_names(tmp_path: Path, answer: str, text: str, told: str) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial, ScriptedProvider(answer), extra=[Attaches]) as home:
        home.ask_for("in 20 minutes", "Send me the chart", kind="task")
        await dial.pass_(minutes=21)
        assert home.program.rows("SELECT text, files FROM outbox") == [(text, json.dumps(["chart.png"]))]
        assert [m.text for m in home.program.history if isinstance(m, AssistantMessage)] == [told]
        assert_legal(home.program.history)


@pytest.mark.parametrize("silence", ["NO_REPLY", "**NO_REPLY**.", "[SILENT]"])
async def test_a_task_with_nothing_to_say_says_nothing(tmp_path: Path, silence: str, dial: Dial) -> None:
    async with ticking(tmp_path, dial, ScriptedProvider(silence)) as home:
        home.ask_for("every 20 minutes", "Look at my mail", kind="task")
        await dial.pass_(minutes=21)
        assert home.sent() == [] and home.program.history == () and home.occurrences() == [("sent", "")]
        assert "; last time nothing to tell" in await home.program.ask("/jobs")


async def test_when_the_model_fails_the_person_gets_the_text_and_the_reason_and_it_is_tried_again(
    tmp_path: Path,
) -> None:
    dial = Dial()
    model = ScriptedProvider(DOWN, "Back: two mails.")
    async with ticking(tmp_path, dial, model) as home:
        home.ask_for("in 20 minutes", "Look at my mail", kind="task")
        await dial.pass_(minutes=20, seconds=10)
        (text,) = home.sent()
        assert "the server does not answer" in text
        assert text.endswith("I try again in 30 s.\nIt was: Look at my mail")
        await dial.pass_(minutes=1)
        assert home.sent() == ["Back: two mails."]
        await dial.pass_(days=1)
        assert home.sent() == []


async def test_a_failing_task_is_tried_less_and_less_often_told_of_twice_and_paused_after_ten(tmp_path: Path) -> None:
    dial = Dial()
    model = ScriptedProvider(*[DOWN] * 10, "It works.")
    async with ticking(tmp_path, dial, model) as home:
        home.ask_for("in 10 minutes", "Look at my mail", kind="task")
        await dial.pass_(hours=8)
        first, second, last = home.sent()
        assert "did not work" in first and "failed again" in second
        assert "failed 10 times and is paused" in last
        tried = [row[0] for row in home.program.rows("SELECT started FROM turns WHERE reason = 'failed' ORDER BY id")]
        assert len(tried) == 10
        assert [text[11:16] for text in tried[:7]] == ["12:10", "12:10", "12:11", "12:16", "12:31", "13:31", "14:31"]
        await home.program.say("/cron resume 1")
        await dial.pass_(minutes=1)
        assert home.sent()[-1] == "It works."
        assert home.jobs.all() == []


async def test_a_repeated_task_that_fails_waits_before_its_next_times_too(tmp_path: Path, dial: Dial) -> None:
    async with ticking(tmp_path, dial, ScriptedProvider(*[DOWN] * 10)) as home:
        home.ask_for("every minute", "Look at my mail", kind="task")
        await dial.pass_(hours=1)
        tried = home.program.rows("SELECT count(*) FROM turns WHERE reason = 'failed'")[0][0]
        assert 4 <= tried <= 6
        assert len(home.sent()) == 2


async def test_a_task_that_acted_outside_before_it_failed_is_not_tried_again_by_itself(tmp_path: Path) -> None:
    async def pay() -> str:
        """Pays."""
        return "paid"

    dial = Dial()
    model = ScriptedProvider(call("pay", {}), ProviderRefused("no quota"), "It is paid.")
    async with ticking(tmp_path, dial, model, extra=[tools_plugin(tool(pay))]) as home:
        home.ask_for("in 20 minutes", "Pay the rent", kind="task")
        await dial.pass_(hours=3)
        (text,) = home.sent()
        assert "no quota" in text and "try again" not in text and len(model.requests) == 2
        assert await home.program.ask("/jobs run 1") == "Runs now, besides its schedule: task 1 “Pay the rent”."
        await dial.pass_(minutes=1)
        assert home.sent() == ["It is paid."]
        worked, failed = (await home.program.ask("/jobs runs")).splitlines()
        assert worked == "- 15:00, task 1 “Pay the rent”, done (0 s, $0): It is paid."
        assert failed.startswith("- 12:20, task 1 “Pay the rent”, failed (0 s, $0): ") and "no quota" in failed


async def test_a_long_task_delays_no_reminder_and_no_other_task(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang, "Second.", "Chat.")) as home:
        home.add(job("slow", NOON + timedelta(minutes=1), kind="task"))
        home.add(job("quick", NOON + timedelta(minutes=2), kind="task"))
        home.add(job("Call Anna", NOON + timedelta(minutes=3)))
        await dial.pass_(minutes=4)
        assert [text.splitlines()[0] for text in home.sent()] == ["Second.", "Reminder 3: Call Anna"]
        assert await home.program.ask("hi") == "Chat."


async def test_a_repeat_is_left_out_while_the_one_before_still_runs(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.ask_for("every minute", "slow", kind="task")
        await dial.pass_(minutes=3)
        assert sorted(home.occurrences()) == [("firing", "")] + [("missed", "the one before was still running")] * 2


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_task_makes_jobs_only_where_the_person_allowed_it(tmp_path: Path, allowed: bool, dial: Dial) -> None:
    adds = call("cron", {"action": "add", "when": "in 3 hours", "text": "and again"})
    async with ticking(tmp_path, dial, ScriptedProvider(adds, "Done.")) as home:
        home.ask_for("in 5 minutes", "Go on", kind="task", may_schedule=allowed)
        await dial.pass_(minutes=6)
        assert [one.target for one in home.jobs.all()] == ([MAIN] if allowed else [])


async def test_a_task_that_panic_stopped_has_ended_and_the_person_learns_of_it_after_resume(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.ask_for("in 5 minutes", "slow", kind="task")
        await dial.pass_(minutes=6)
        await home.program.say("/panic")
        await dial.pass_(minutes=6)
        assert "I stopped what was running (1)" in home.sent()[0]
        await home.program.say("/resume")
        await dial.pass_(seconds=5)
        assert any("Task 1 did not work. It was stopped." in text for text in home.sent())
        assert home.occurrences() == [("failed", "It was stopped.")]


async def test_a_stop_ends_a_task_where_nothing_else_runs_and_names_it(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.ask_for("in 5 minutes", "slow", kind="task")
        await dial.pass_(minutes=6)
        await hang.reached.wait()
        await home.program.say("/stop")
        await dial.pass_(seconds=5)
        assert home.sent() == ["Stopped: task 1.", "Task 1 did not work. It was stopped.\nIt was: slow"]
        assert await home.program.ask("/stop") == "Nothing is running."


async def test_a_task_under_way_when_the_process_ends_goes_on_at_the_next_start(tmp_path: Path) -> None:
    dial, hang = Dial(), Hang("")
    async with ticking(tmp_path, dial, ScriptedProvider(hang)) as home:
        home.ask_for("in 5 minutes", "slow", kind="task")
        await dial.pass_(minutes=6)
        await hang.reached.wait()
    async with ticking(tmp_path, dial, ScriptedProvider("Here it is.")) as home:
        await dial.pass_(minutes=1)
        assert home.sent() == ["Here it is."] and home.occurrences() == [("sent", "")]
        assert home.program.app.sessions.of(Address("job", "1")).whole()


async def test_an_old_run_of_a_task_is_not_shown_to_the_next(tmp_path: Path, dial: Dial) -> None:
    model = ScriptedProvider(*[Say(f"Answer {number}.") for number in range(3)])
    async with ticking(tmp_path, dial, model) as home:
        home.ask_for("every hour", "look", kind="task")
        await dial.pass_(hours=3, minutes=1)
        assert home.sent() == ["Answer 0.", "Answer 1.", "Answer 2."]
        assert {len(request.history) for request in model.requests} == {2}


async def test_a_task_for_a_group_is_a_guests_and_begins_anew_each_time(tmp_path: Path) -> None:
    dial, chat = Dial(), FakeChannel("chat")
    model = ScriptedProvider(call("cron", {"action": "list"}), "One.", "Two.")
    async with ticking(tmp_path, dial, model, others=[chat]) as home:
        home.add(job("mine", NOON + timedelta(days=1)))
        due = NOON + timedelta(minutes=1)
        home.add(job("look", due, kind="task", schedule="every", rule="3600", target=Address("chat", "-5//anna")))
        await dial.pass_(hours=1, minutes=2)
        assert [chat.sent.get_nowait().text for _ in range(2)] == ["One.", "Two."]
        assert "mine" not in model.requests[1].history[-1].text, "it sees jobs of the group alone"
        assert len(model.requests[2].history) == 2
