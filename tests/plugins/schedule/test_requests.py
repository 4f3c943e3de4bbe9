"""Messages that plainly ask for a reminder are answered by code, also where it has to ask for the time first."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nanoclaw import time_words
from nanoclaw.core.errors import ProviderError
from nanoclaw.core.messages import AssistantMessage, Attachment, Inbound, UserMessage
from nanoclaw.plugins.schedule import requests
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.start.build import BUILT_IN
from tests.examples import examples
from tests.kills import dies_at, killed
from tests.program import GUEST, MAIN, NOON, FakeChannel, HandClock, Program, assert_legal, results, running
from tests.time_words.phrases import expected, lines

SAID = examples(__file__, "requests.jsonl")

FOLDER = Path(__file__).parent
NOW = datetime(2026, 11, 18, 10, tzinfo=ZoneInfo("Europe/Berlin"))
NIGHT = datetime(2026, 11, 24, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
ZONE = "Europe/Berlin"
EIGHT = "remind me tomorrow at 8:15 to call Anna"
ASKS = pytest.mark.skipif("approvals" not in BUILT_IN, reason="nobody asks without approvals")
PIZZA = "Remind me in 20 minutes to take the pizza out"
SET = "Job 1, a reminder, is set: Fri 6 Mar 2026, 12:20 Europe/Berlin, in 20 minutes. “take the pizza out”"
DOWN = ProviderError("no connection")


def meaning(asked: requests.Asked) -> object:
    found = time_words.read(asked.when, NOW, ZONE, asked.language)
    match found:
        case time_words.At():
            return found.when.astimezone(UTC)
        case time_words.Every():
            return "every", found.seconds
        case time_words.Cron():
            return "cron", found.expression
    raise AssertionError(found)


# --- which messages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "share"), [("requests.tsv", 1.0), ("requests_held_out.tsv", 0.95)])
def test_plain_requests_are_understood_and_none_of_them_wrongly(name: str, share: float) -> None:
    plain = right = 0
    for _, message, when, text in lines(name, FOLDER):
        asked = requests.read(message, NOW, ZONE)
        if when == "model":
            assert asked is None or asked.is_open, message
            continue
        plain += 1
        if asked:
            right += 1
            assert (meaning(asked), asked.text.casefold()) == (expected(when, NOW, ZONE), text.casefold()), message
    assert right / plain >= share


@pytest.mark.parametrize("name", ["requests_not.tsv", "requests_not_held_out.tsv"])
def test_no_other_sentence_with_a_time_in_it_is_caught(name: str) -> None:
    for _, message in lines(name, FOLDER):
        assert requests.read(message.replace("\\n", "\n"), NOW, ZONE) is None, message


@ASKS
@pytest.mark.parametrize(("name", "share"), [("requests_open.tsv", 1.0), ("requests_open_held_out.tsv", 0.95)])
async def test_what_leaves_its_time_open_is_asked_and_the_answer_taken_without_a_model(
    tmp_path: Path, name: str, share: float
) -> None:
    table, right = lines(name, FOLDER), 0
    for moment, now in (("night", NIGHT), ("day", NOW)):
        async with running(tmp_path / moment, ScriptedProvider(), clock=HandClock(now)) as program:
            for _, _, message, answer, when, text in (row for row in table if row[1] == moment):
                for said in (message, answer)[: 1 if answer == "-" else 2]:
                    await program.say(said)
                    await program.app.conversations.idle()
                sql = "SELECT text, schedule, rule FROM jobs ORDER BY id DESC LIMIT 1"
                found, schedule, rule = program.rows(sql)[0]
                due = ("cron", rule) if schedule == "cron" else datetime.fromisoformat(rule)
                right += (due, found) == (expected(when, now, ZONE), text)
    assert right / len(table) >= share


# --- what becomes of them --------------------------------------------------------------------------------------------


async def test_a_plain_request_is_answered_by_code_also_while_no_model_can_be_reached(tmp_path: Path) -> None:
    model = ScriptedProvider(DOWN)
    async with running(tmp_path, model) as program:
        assert await program.ask(PIZZA) == SET
        for thousands in ("/remind in 5000 years: smile", "remind me in 5000 years to smile"):
            assert "more than 50 years from now" in await program.ask(thousands)
        assert jobs(program) == [("take the pizza out", "2026-03-06T11:20:00+00:00", "terminal", "main")]
        assert not model.requests


@pytest.mark.parametrize(("said", "told"), SAID["it is said back in the language of the request"])
async def test_it_is_said_back_in_the_language_of_the_request(tmp_path: Path, said: str, told: str) -> None:
    async with running(tmp_path, ScriptedProvider(DOWN)) as program:
        assert (await program.ask(said)).startswith(told.format(ZONE) + ". “")


@pytest.mark.parametrize(("hour", "due"), SAID["half past six is the next that comes and said back whole"])
async def test_half_past_six_is_the_next_that_comes_and_said_back_whole(tmp_path: Path, hour: int, due: str) -> None:
    async with running(tmp_path, ScriptedProvider(DOWN), clock=HandClock(NOON.replace(hour=hour))) as program:
        assert f"is set: {due} Europe/Berlin, in " in await program.ask("remind me at half past six to eat")


@ASKS
async def test_just_after_midnight_two_buttons_ask_for_the_day_also_after_a_restart(tmp_path: Path) -> None:
    clock = HandClock(NIGHT)
    async with running(tmp_path, ScriptedProvider(), clock=clock) as program:
        await program.say(EIGHT)
        asked = await program.channel.sent.get()
        assert [one.label for one in asked.buttons] == ["Today, Tue 24 Nov 2026, 08:15", "Wed 25 Nov 2026, 08:15"]
        await program.app.conversations.idle()
        program.app.is_terminated = True
    clock.now += timedelta(minutes=20)
    async with running(tmp_path, ScriptedProvider(), clock=clock) as program:
        assert "OK: “" in await program.ask(asked.buttons[1].text)
        assert (await program.answer()).startswith("Job 1, a reminder, is set: Wed 25 Nov 2026, 08:15 Europe/Berlin")
        assert jobs(program) == [("call Anna", "2026-11-25T07:15:00+00:00", "terminal", "main")]
        assert "At what time on Tue 24 Nov 2026 or Wed" in await program.ask("remind me tomorrow to call Anna")
        assert "1. Today, Tue 24 Nov 2026, 09:30\n2. Wed 25 Nov 2026, 09:30" in await program.ask("half past nine")
        await program.ask("2")
        assert "is set: Wed 25 Nov 2026, 09:30" in await program.answer()


@ASKS
async def test_words_that_are_no_time_go_to_the_model_and_silence_sets_nothing(tmp_path: Path) -> None:
    clock = HandClock(NIGHT)
    model = ScriptedProvider("It rains.")
    async with running(tmp_path, model, clock=clock) as program:
        await program.ask(EIGHT)
        assert [await program.ask("how is the weather?"), await program.answer()] == [requests.CLOSED, "It rains."]
        seen = [one.text for one in model.requests[0].history if getattr(one, "origin", "") != "runtime"]
        assert seen == [requests.CLOSED, "how is the weather?"]
        assert f"you: {EIGHT}" in await program.ask("/history")
        assert_legal(program.history)
        await program.ask(EIGHT)
        assert await program.ask("/jobs") != ""
        assert await program.ask("remind me on friday to see the dentist") == requests.CLOSED
        assert (await program.answer()).startswith("At what time on Fri 27 Nov")
        assert "is set: Fri 27 Nov 2026, 09:00" in await program.ask("at 9")
        await program.ask("/jobs remove 1")
        await program.ask(EIGHT)
        clock.now += timedelta(hours=2)
        program.public("approvals").expire()
        assert "not answered in time" in await program.answer()
        assert (await program.answer()).startswith("Nothing was set, as nobody said")
        assert jobs(program) == []


@ASKS
@pytest.mark.parametrize(("hour", "said", "answer", "asked", "due"), SAID["the open day or hour is asked about"])
async def test_an_open_day_or_hour_is_asked_about_in_the_language_of_the_request_also_after_another_hour(
    tmp_path: Path, hour: int, said: str, answer: str, asked: str, due: str
) -> None:
    async with running(tmp_path, ScriptedProvider(), clock=HandClock(NIGHT.replace(hour=hour))) as program:
        told = [await program.ask(words) for words in (said, answer) if words]
        assert told[-1].startswith(f"{asked}\n") and not jobs(program)
        assert (await program.ask("2")).startswith("OK: “") and await program.answer()
        assert [next_due for _, next_due, *_ in jobs(program)] == [f"2026-{due}:00+00:00"]


async def test_where_nobody_can_be_asked_the_question_is_told(tmp_path: Path) -> None:
    chat, clock = FakeChannel("chat"), HandClock(NIGHT)
    async with running(tmp_path, ScriptedProvider(), others=[chat], without=["access"], clock=clock) as program:
        await program.write_from(GUEST, "777", EIGHT, role="guest")
        told = (await chat.sent.get()).text
        assert "Nothing was set yet. When is “tomorrow at 8:15”? (Today, Tue 24 Nov 2026, 08:15 or Wed 25 " in told
        await program.deliver(Inbound(MAIN, "me", "script", UserMessage(EIGHT, NIGHT), wait_limit=60.0))
        assert "nobody said which time it should be: “tomorrow at 8:15”. Do you mean" in await program.answer()


@ASKS
@pytest.mark.parametrize(("said", "when", "is_asked"), SAID["a models time that the persons words do not say is asked"])
async def test_a_models_time_that_the_persons_words_do_not_say_is_asked(
    tmp_path: Path, said: str, when: str, is_asked: bool
) -> None:
    model = ScriptedProvider(call("cron", {"action": "add", "when": when, "text": "x"}), "Well.")
    async with running(tmp_path, model, clock=HandClock(NIGHT)) as program:
        if not is_asked:
            assert await program.ask(said) == "Well."
            assert len(jobs(program)) == 1
            return
        assert "/answer 1" in await program.ask(said)
        await program.say("no")
        assert await program.answer_with("Well.")
        assert jobs(program) == []


@ASKS
async def test_another_wish_while_a_models_time_is_asked_about_is_a_message_of_its_own(tmp_path: Path) -> None:
    asks = Say(calls=(("cron", {"action": "add", "when": "tomorrow at 9", "text": "tea"}), ("list_dir", {"path": "."})))
    model = ScriptedProvider(asks, "Which things?")
    async with running(tmp_path, model, clock=HandClock(NIGHT)) as program:
        assert "/answer 1" in await program.ask("remember that I like tea")
        assert await program.ask("write a shopping list") == requests.CLOSED
        assert await program.answer_with("Which things?") and not jobs(program)
        said = [one.text for one in model.requests[-1].history if getattr(one, "origin", "") == "person"]
        assert said == ["remember that I like tea", "write a shopping list"]


async def test_a_small_model_removes_only_a_reminder_that_the_person_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedProvider, "cuts_history", True, raising=False)
    remove = call("cron", {"action": "remove", "id": 1})
    model = ScriptedProvider(*[lambda request: "Well?" if results(request.history[-1:]) else remove] * 6)
    async with running(tmp_path, model, clock=HandClock(NIGHT.replace(hour=12))) as program:
        await program.ask("remind me on friday at 9 to drink that tea")
        await program.ask("the wifi password is that of steam")
        assert jobs(program) and "the person named no reminder" in results(model.requests[1].history)[-1].text
        await program.ask("forget the tea")
        assert not jobs(program)


async def test_a_chat_lists_the_first_twenty_times_of_a_job_and_how_many_more(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as program:
        *lines, more = (await program.ask("/jobs next --cron '0 9 * * *' -n 50")).split("\n")
        assert (len(lines), more) == (20, "and 30 more")
        assert "more" not in await program.ask("/jobs next --cron '0 9 * * *' -n 20")


async def test_the_model_knows_later_what_code_has_set(tmp_path: Path) -> None:
    model = ScriptedProvider(call("cron", {"action": "remove", "id": 1}), "Removed.")
    async with running(tmp_path, model) as program:
        await program.ask(PIZZA)
        assert f" you: {PIZZA}\n" in await program.ask("/history")
        assert await program.ask("drop that one again") == "Removed."
        *_, remark, told, _, _ = model.requests[0].history
        assert isinstance(told, AssistantMessage) and told.text == SET
        assert f"The person said “{PIZZA}”, which the program answered." in remark.text
        assert jobs(program) == []
        assert_legal(program.history)


async def test_a_guest_in_a_chat_app_gets_a_reminder_of_their_own_conversation(tmp_path: Path) -> None:
    chat, model = FakeChannel("chat"), ScriptedProvider(DOWN)
    async with running(tmp_path, model, others=[chat], without=["access"]) as program:
        await program.write_from(GUEST, "777", PIZZA, role="guest")
        assert (await chat.sent.get()).text == SET
        assert jobs(program) == [("take the pizza out", "2026-03-06T11:20:00+00:00", "chat", "777")]
        for number in range(20):
            await program.write_from(GUEST, "777", f"remind me tomorrow at 9 to feed {'x' * number}z", role="guest")
        *_, last = [(await chat.sent.get()).text for _ in range(20)]
        assert last == "There are 20 jobs in this conversation: remove some first."
        assert not model.requests


async def test_what_is_forwarded_quoted_attached_edited_or_anothers_goes_to_the_model(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [
        {"quoted": "5", "quote": "Which pizza?"},
        {"attachments": (Attachment("", "pizza.txt", "text/plain", ref="x"),)},
        {"message": UserMessage(PIZZA, NOON, outside="a mail")},
        {"message": UserMessage(f"[forwarded from Tom] {PIZZA}", NOON)},
    ]
    channel = FakeChannel()
    channel.held["x"] = b"pizza"
    model = ScriptedProvider(*["Which pizza?"] * len(others))
    async with running(tmp_path, model, channel=channel) as program:
        for number, fields in enumerate(others):
            await program.deliver(Inbound(MAIN, "me", f"other-{number}", UserMessage(PIZZA, NOON))._replace(**fields))
            assert (await program.answer()).startswith("Which pizza?")
        assert jobs(program) == []


async def test_without_the_schedule_the_model_gets_all(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(*["Which pizza?"] * 2), without=["schedule"]) as program:
        assert (await program.ask(PIZZA)).startswith("Which pizza?")


def test_killed_at_any_statement_and_sent_again_there_is_one_job_and_one_reply(tmp_path: Path) -> None:
    for statement in range(1_000):
        root = tmp_path / str(statement)
        died = killed(_say(root, statement))
        assert asyncio.run(after(root)) == (1, 1), f"killed at statement {statement}"
        if not died:
            break
    assert 5 < statement < 999


async def _say(root: Path, statement: int) -> None:
    async with running(root, plugins=["schedule"]) as program:
        dies_at(statement)(program.app.store.db)
        await program.deliver(Inbound(MAIN, "me", "one", UserMessage(PIZZA, NOON)))
        program.app.store.db.set_trace_callback(None)


async def after(root: Path) -> tuple[int, int]:
    """Jobs and replies, once the platform has handed the same message in again."""
    async with running(root, plugins=["schedule"], clock=HandClock(NOON)) as program:
        await program.deliver(Inbound(MAIN, "me", "one", UserMessage(PIZZA, NOON)))
        told = [text for (text,) in program.rows("SELECT text FROM outbox")]
        assert set(told) == {SET}
        return len(jobs(program)), len(told)


def jobs(program: Program) -> list[Any]:
    sql = "SELECT text, next_due, channel, chat FROM jobs WHERE state = 'active' ORDER BY id"
    return [tuple(row) for row in program.rows(sql)]
