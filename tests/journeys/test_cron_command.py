"""`nanoclaw cron …` as a person types it: on the store when nothing runs, and through the process that does."""

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nanoclaw.installation import start_command
from tests.journeys.command import SECONDS, Home, Running
from tests.model_server import ModelServer, call_delta, delta, events, says

OFF = f"(Reminders and tasks come while `{start_command()} gateway`, or a chat, runs.)"


@pytest.fixture(autouse=True)
def zone(home: Home) -> None:
    home.environment["TZ"] = "Europe/Berlin"


def test_jobs_are_made_listed_and_changed_while_nothing_runs(home: Home) -> None:
    assert home.run("cron").out.startswith("No jobs.")
    made = home.run("cron", "add", "every weekday at 7:30", "stand", "up", "--zone", "America/New_York")
    assert re.match(r"Job 1, a reminder, is set: every weekday at 07:30 America/New_York, next: ", made.out)
    assert made.err == f"{OFF}\n"
    listed = home.run("cron", "list")
    (job,) = json.loads(home.run("cron", "list", "--json").out)["jobs"]
    assert (job["id"], job["rule"], job["target"]) == (1, "30 7 * * 1-5", "terminal:main")
    assert "- 1: reminder “stand up”, every weekday at 07:30 America/New_York" in listed.out
    assert listed.err == ""
    assert "paused" in home.run("cron", "pause", "1").out.lower()
    assert "Removed" in home.run("cron", "remove", "1").out
    assert "There is no job 1" in home.run("cron", "remove", "1", check=1).err
    assert "No jobs." in home.run("cron", "list").out


def test_who_leaves_a_chat_hears_that_what_is_due_needs_a_process(home: Home) -> None:
    home.run("cron", "add", "every weekday at 7:30", "stand up")
    with closing(Running(home)) as chat:
        chat.expect("> ")
        chat.say("/exit")
        chat.match(rf"{re.escape(OFF[:-1])} Next: reminder 1 for \w{{3}} .*, 07:30\.\)")


def test_hints_in_a_shell_are_what_a_shell_takes_and_a_job_that_nobody_runs_waits(home: Home) -> None:
    home.run("cron", "add", "every weekday at 7:30", "read /jobs")
    said = [home.run("cron", *one.split(), check=None) for one in ("pause 1", "run 1", "list", "remove 99", "remove x")]
    paused, runs, listed, *refused = [one.out + one.err for one in said]
    assert f"{start_command()} jobs resume 1 continues it" in paused
    assert "Runs as soon as a gateway or a chat runs, besides its schedule" in runs
    assert "“read /jobs”" in listed
    assert all(f"{start_command()} jobs lists them" in one and "/jobs" not in one for one in refused)
    home.run("cron", "remove", "1")
    assert f"No jobs. {start_command()} remind tomorrow at 9: TEXT sets a reminder." in home.run("cron", "list").out


@pytest.mark.parametrize(
    "said",
    [
        ("every weekday at 7:30: stand up",),
        ("every weekday at 7:30 to stand up",),
        ("every", "weekday", "at", "7:30:", "stand", "up"),
        ("every weekday at 7:30", "stand up"),
    ],
)
def test_a_job_is_said_as_in_the_chat_or_as_time_and_text(home: Home, said: tuple[str, ...]) -> None:
    assert "every weekday at 07:30" in home.run("cron", "add", *said).out
    assert "reminder “stand up”" in home.run("cron", "list").out


def test_the_next_times_of_a_job(home: Home) -> None:
    assert "There is no job 1" in home.run("cron", "next", "1", check=1).err
    home.run("cron", "add", "0 9 1 1 *", "happy new year")
    assert home.run("cron", "next", "1", "-n", "2").out.count("1 Jan 20") == 2
    there = home.run("cron", "next", "1", "--tz", "Asia/Tokyo", "--from", "2030-01-01", "-n", "1").out
    assert there.startswith("2030-01-01T") and there.count("\n") == 1
    home.run("cron", "add", "every 400 weeks", "look at the roof")
    last = home.run("cron", "next", "2", "--from", "9990-01-01").out
    assert last.startswith("999") and last.count("\n") < 5


def test_the_next_times_of_a_cron_expression_over_the_change_of_clocks(home: Home) -> None:
    asked = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T00:00", "-n", "3")
    times = ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert json.loads(home.run("cron", "next", *asked, "--json").out) == {"times": times}
    assert [line.split()[0] for line in home.run("cron", "next", *asked).out.splitlines()] == times


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ((), "number of a job, or an expression"),
        (("1", "--cron", "0 9 * * *"), "number of a job, or an expression"),
        (("--cron", "61 2 * * *"), "61 is not a minute"),
        (("--cron", "0 9 30 2 *"), "never comes"),
        (("--cron", "0 9 * * *", "--tz", "Mars/X"), "Unknown time zone 'Mars/X'"),
        (("--cron", "0 9 * * *", "--from", "yesterday"), "Not an ISO time: 'yesterday'"),
        (("--cron", "0 9 * * *", "--tz", "Asia/Tokyo", "--from", "0001-01-01"), "Not an ISO time: '0001-01-01'"),
        (("--cron", "0 9 * * *", "-n", "some"), "how many times are wanted, such as -n 10, not 'some'"),
        (("--cron", "0 9 * * *", "-n", "0"), "not '0'"),
    ],
)
def test_next_times_that_cannot_be_told(home: Home, asked: tuple[str, ...], refused: str) -> None:
    assert refused in home.run("cron", "next", *asked, check=1).err


def kept(home: Home) -> dict[str, list[Any]]:
    """Rows that a home holds of jobs, of what they said, and of what it cost."""
    with closing(sqlite3.connect(home.root / "state.db")) as db:
        return {
            table: db.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("jobs", "occurrences", "inbox", "outbox", "sessions", "messages", "usage")
        }


def test_a_rehearsal_shows_what_would_be_sent_changes_nothing_and_is_accounted_for(
    home: Home, server: ModelServer
) -> None:
    home.run("cron", "add", "every day at 8", "take the pills")
    shown = home.run("cron", "rehearse", "1", "--at", "Mon 08:00").out
    assert "Mon " in shown
    assert "08:00 Europe/Berlin (nothing is sent or changed):" in shown
    assert "Reminder 1: take the pills" in shown
    assert server.asked == []
    home.run("cron", "add", "every day at 8", "write the report", "--task")
    later = json.dumps({"action": "remove", "id": 1})
    server.script(events(call_delta(0, "c1", "cron", later), delta("tool_calls")), says("The report is written."))
    before = kept(home)
    shown = home.run("cron", "rehearse", "2", "--at", "Mon 08:00").out
    assert "The report is written." in shown
    assert "Not done, as this is a rehearsal:\n- cron action='remove', id=1" in shown
    assert "2 model calls" in shown
    assert "08:00 (Monday)" in server.asked[0].body.decode()
    after = kept(home)
    assert len(after.pop("usage")) == len(before.pop("usage")) + 2
    assert after == before
    server.script(says("By the other model."))
    assert "By the other model." in home.run("--model", "openai/other", "-m", "/rehearse 2").out
    assert server.asked[-1].json["model"] == "other", "the model that runs is not loaded twice"


def test_a_rehearsal_that_comes_to_no_answer_is_an_error_to_a_script(home: Home) -> None:
    home.configure("http://127.0.0.1:9")
    home.run("cron", "add", "every day at 8", "write the report", "--task")
    failed = home.run("cron", "rehearse", "1", check=1)
    assert "(It failed: The model gave no answer" in failed.err and failed.out == ""


def test_with_a_gateway_it_talks_to_that_and_run_fires_at_once(home: Home) -> None:
    with closing(Running(home, "gateway")) as gateway:
        gateway.expect("serves")
        made = home.run("cron", "add", "in 3 days", "call mum")
        assert made.out.startswith("Job 1, a reminder, is set: ")
        assert OFF not in made.err
        with closing(Running(home)) as terminal:
            terminal.expect("attached")
            day = datetime.now(UTC) + timedelta(days=5)  # "tomorrow" is asked back when it is night
            terminal.say(f"/cron rehearse 1 {day:%Y-%m-%d} 09:00")
            terminal.expect("09:00")
            terminal.expect("nothing is sent or changed")
            assert "Reminder 1: call mum" in home.run("cron", "rehearse", "1").out
            assert "Runs now" in home.run("cron", "run", "1").out
            terminal.expect("Reminder 1: call mum")
            terminal.say("done 1")
            terminal.expect("Done: call mum.")
        assert "last done" in home.run("cron", "list").out


def test_a_refusal_of_the_process_that_runs_is_an_error_to_a_script(home: Home) -> None:
    with closing(Running(home, "gateway")) as gateway:
        gateway.expect("serves")
        for arguments, why in (
            (("add", "blah: x"), "'blah'"),
            (("remove", "99"), "no job 99"),
            (("add", "--to", "telegram:5", "in 3 days", "x"), "telegram:5"),
            (("add", "--zone", "Mars/X", "in 3 days", "x"), "Mars/X"),
        ):
            refused = home.run("cron", *arguments, check=1)
            assert refused.out == ""
            assert why in refused.err


def test_the_command_line_is_not_shown_in_peoples_terminals(home: Home) -> None:
    with closing(Running(home, "gateway")) as gateway:
        gateway.expect("serves")
        with closing(Running(home)) as terminal:
            terminal.expect("attached")
            home.run("cron", "add", "in 3 days", "call", "mum")
            home.run("cron", "remove", "99", check=1)
            terminal.say("/jobs")
            shown = terminal.expect("- 1: reminder “call mum”")
            assert "is set" not in shown
            assert "no job 99" not in shown
            assert "/cron" not in shown


def test_several_at_once_on_a_new_home_all_set_their_reminder(home: Home) -> None:
    adding = [home.start("cron", "add", "in 3 days", f"thing {number}") for number in range(4)]
    ended = [process.communicate(timeout=SECONDS) for process in adding]
    assert [process.returncode for process in adding] == [0] * 4, ended
    listed = home.run("cron", "list").out
    assert all(f"“thing {number}”" in listed for number in range(4))


def test_an_important_reminder_that_nobody_answered_is_shown_at_the_next_start(home: Home) -> None:
    home.run("cron", "add", "in 3 days", "take the pills", "--nag", "10m x3")
    home.run("cron", "run", "1")
    with closing(Running(home)) as terminal:
        terminal.expect("Reminder 1: take the pills")
        terminal.say("/quit")
    with closing(Running(home)) as terminal:
        terminal.expect("Reminder 1: take the pills")


def test_a_chat_app_that_is_configured_can_be_reminded_of_while_nothing_runs(home: Home) -> None:
    home.root.mkdir(exist_ok=True)
    (home.root / "config.toml").write_text('[channels.telegram]\ntoken = "1:a"\n')
    assert "is set" in home.run("cron", "add", "in 3 days", "call mum", "--to", "telegram:5").out


def test_one_answer_that_sets_a_reminder_says_what_has_to_run_until_it_is_due(home: Home) -> None:
    made = home.run("-m", "Remind me in 20 minutes to take the pizza out")
    assert made.out.startswith("Job 1, a reminder, is set: ")
    assert OFF in made.err
    assert OFF not in home.run("-m", "/jobs").err
    assert OFF not in home.run("-m", "/cron remove 1").err
