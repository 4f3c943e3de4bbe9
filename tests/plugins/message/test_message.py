"""The message tool: sent at once, known places only, with the owner's yes, and what the platform said."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.messages import Address, AssistantMessage, Outbound, ToolResult
from nanoclaw.core.store.inbox import TOOK_EFFECT
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.start.build import BUILT_IN
from nanoclaw.start.opening import open_store
from tests.program import MAIN, FakeChannel, HandClock, Program, assert_legal, results, running

ANNA, GUEST = Address("telegram", "555"), Address("telegram", "777")
RULES = '[channels.telegram]\nallow_from = ["777"]\n'
OPEN = f'{RULES}send_to = ["555"]\n'


def message(**arguments: Any) -> Say:
    return call("message", arguments)


@asynccontextmanager
async def writing(
    root: Path, *steps: Any, settings: str = RULES, chat: FakeChannel | None = None, **more: Any
) -> AsyncIterator[Program]:
    """A program at a terminal and on telegram, where somebody has talked to it before."""
    others = [chat or FakeChannel("telegram")]
    async with running(root, ScriptedProvider(*steps), settings=settings, others=others, **more) as home:
        home.app.sessions.of(ANNA)
        yield home


def last_result(home: Program) -> ToolResult:
    return results(home.history)[-1]


def rows(home: Program) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in home.rows("SELECT channel, text FROM outbox ORDER BY id")]


async def test_a_message_arrives_in_the_midst_of_the_turn_and_the_answer_after_it(tmp_path: Path) -> None:
    async with writing(tmp_path, message(text="I am looking."), "Found it.") as home:
        assert await home.ask("find it") == "I am looking."
        assert await home.answer() == "Found it."
        assert last_result(home).text == "Delivered to this chat (id id-1)."
        said = [one.text for one in home.history if isinstance(one, AssistantMessage)]
        assert said == ["", "Found it."]  # the call itself tells of the message
        assert home.rows("SELECT text FROM ledger") == [("sent a message here",)]


@pytest.mark.parametrize("answer", ["Here you are.", "**here you are**"])
async def test_what_a_message_has_said_here_the_answer_does_not_repeat(tmp_path: Path, answer: str) -> None:
    async with writing(tmp_path, message(text="Here you are."), answer, "Next.") as home:
        assert await home.ask("well?") == "Here you are."
        await home.app.conversations.idle()
        assert rows(home) == [("terminal", "Here you are.")]
        assert home.channel.ended[-1].answer == ""
        last = home.history[-1]
        assert isinstance(last, AssistantMessage) and last.text == answer
        assert await home.ask("go on") == "Next."


async def test_the_same_words_in_a_later_turn_are_sent(tmp_path: Path) -> None:
    async with writing(tmp_path, message(text="Hello."), "Hello.", "Hello.") as home:
        assert await home.ask("one") == "Hello."
        await home.app.conversations.idle()
        assert await home.ask("two") == "Hello."
        assert len(rows(home)) == 2


async def test_files_are_sent_by_their_path_in_the_workspace_and_no_others(tmp_path: Path) -> None:
    steps = (message(text="The chart.", files=["charts/may.png"]), message(text="And this.", files=["../state.db"]))
    async with writing(tmp_path, *steps, "Done.") as home:
        chart = home.workspace / "charts" / "may.png"
        chart.parent.mkdir()
        chart.write_bytes(b"png")
        await home.say("send both")
        while await home.answer() != "Done.":
            pass
        assert home.rows("SELECT text, files FROM outbox WHERE files <> '[]'") == [
            ("The chart.", json.dumps([str(chart.resolve())]))
        ]
        assert last_result(home).is_error
        assert "cannot be sent" in last_result(home).text


async def test_another_chat_hears_it_once_the_owner_says_yes_and_remembers_it(tmp_path: Path) -> None:
    chat = FakeChannel("telegram")
    step = message(text="The party is at 8.", to="telegram:555")
    async with writing(tmp_path, step, "Told her.", chat=chat) as home:
        await home.say("tell Anna when the party is")
        question = await home.channel.sent.get()
        exact = "```\ntext: The party is at 8.\nto: telegram:555\n```"
        assert question.text.startswith(f"Send this to telegram:555?\n\n{exact}\n\n1. Yes\n")
        assert [(label, text) for label, text in question.buttons] == [
            ("Yes", "/yes 1"),
            ("Yes for an hour", "/yes 1 hour"),
            ("Yes always", "/yes 1 always"),
            ("No", "/no 1"),
        ]
        assert chat.sent.empty()
        assert await home.ask("yes") == "OK, going ahead."
        assert (await chat.sent.get()).text == "The party is at 8."
        assert await home.answer() == "Told her."
        there = home.app.sessions.of(ANNA).history
        assert isinstance(there[-1], AssistantMessage) and there[-1].text == "The party is at 8."
        assert_legal(there)
        assert_legal(home.history)
        assert last_result(home).text == "Delivered to telegram:555 (id id-1)."


@pytest.mark.parametrize("word", ["no", "/no 1", "Nein.", "/stop"])
async def test_without_a_yes_nothing_is_sent(tmp_path: Path, word: str) -> None:
    chat = FakeChannel("telegram")
    async with writing(tmp_path, message(text="Secret.", to="telegram:555"), "You said no.", chat=chat) as home:
        await home.ask("tell Anna")
        await home.say(word)
        await home.app.conversations.idle()
        await home.ask("/yes 1")
        await home.app.conversations.idle()
        assert chat.sent.empty()
        assert [row for row in rows(home) if row[0] == "telegram"] == []
        assert list(home.app.sessions.of(ANNA).history) == []


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("telegram:778", "telegram:778 is not known"),
        ("sms:5", "there is no channel 'sms'"),
        ("Anna", "'Anna' is not an address"),
        ("telegram:", "'telegram:' is not an address"),
    ],
)
async def test_an_address_that_nobody_knows_is_told_and_not_written_to(tmp_path: Path, to: str, told: str) -> None:
    async with writing(tmp_path, message(text="Hello.", to=to), "I do not know her.") as home:
        assert await home.ask("tell Anna") == "I do not know her."
        assert told in last_result(home).text
        assert rows(home) == [("terminal", "I do not know her.")]


async def test_known_are_the_owners_chats_who_has_talked_and_who_is_listed(tmp_path: Path) -> None:
    """A chat of the owner's has no conversation of its own where one is shared with the terminal."""
    lists = '[channels.telegram]\nallow_from = ["2"]\nallow_groups = ["-3"]\nsend_to = ["4"]\n'
    places = ["telegram:1", "telegram:2", "telegram:-3", "telegram:4", "telegram:555", "telegram:6", "terminal:other"]
    steps = [message(text="Hello.", to=place) for place in places]
    shared = f'{lists}[session]\nowner = "shared"\n'
    async with writing(tmp_path, *steps, "Done.", "Done.", settings=shared) as home:
        home.link(Address("telegram", "1"))
        await home.say("tell all")
        while (said := await home.answer()) != "Done.":
            if "/no " in said:
                await home.say(f"/no {said.rpartition('/no ')[2].partition('”')[0]}")
        refused = [result.text for result in results(home.history)][: len(steps)]
        assert [("is not known" in text) for text in refused] == [False] * 5 + [True, True]


async def test_an_open_address_needs_no_yes(tmp_path: Path) -> None:
    chat = FakeChannel("telegram")
    async with writing(
        tmp_path, message(text="Hello.", to="telegram:555"), "Told her.", settings=OPEN, chat=chat
    ) as home:
        assert await home.ask("tell Anna") == "Told her."
        assert (await chat.sent.get()).text == "Hello."


async def test_what_is_sent_to_another_chat_of_the_same_conversation_is_in_it_once(tmp_path: Path) -> None:
    chat, shared = FakeChannel("telegram"), f'{RULES}[session]\nowner = "shared"\n'
    step = message(text="The chart.", to="telegram:1")
    async with writing(tmp_path, step, "Sent.", "Again.", settings=shared, chat=chat) as home:
        home.link(Address("telegram", "1"))
        assert await home.ask("send it to my phone") == "Sent."
        assert (await chat.sent.get()).text == "The chart."
        assert [one.text for one in home.history if isinstance(one, AssistantMessage)] == ["", "Sent."]
        assert_legal(home.history)
        assert await home.ask("and again") == "Again."


async def test_a_guest_may_only_write_to_their_own_chat(tmp_path: Path) -> None:
    chat = FakeChannel("telegram")
    steps = (
        message(text="Hello.", to="telegram:555"),
        message(text="Your file.", files=["MEMORY.md"]),
        message(text="One moment."),
    )
    async with writing(tmp_path, *steps, "Sorry.", chat=chat) as home:
        await home.write_from(GUEST, "777", "tell Anna")
        assert [(await chat.sent.get()).text for _ in range(2)] == ["One moment.", "Sorry."]
        refused = [result.text for result in results(home.app.sessions.of(GUEST).history)]
        assert ["only to this chat" in text for text in refused] == [True, True, False]
        assert {row[0] for row in home.rows("SELECT chat FROM outbox")} == {"777"}


async def test_a_guest_learns_from_no_refusal_who_else_is_known(tmp_path: Path) -> None:
    chat = FakeChannel("telegram")
    places = ("telegram:555", "telegram:556", "sms:5", "terminal:main", "Anna")
    steps = [message(text="Hello.", to=to) for to in places]
    async with writing(tmp_path, *steps, message(text="Hi.", to=str(GUEST)), "Sorry.", chat=chat) as home:
        await home.write_from(GUEST, "777", "tell Anna")
        assert [(await chat.sent.get()).text for _ in range(2)] == ["Hi.", "Sorry."]
        *refused, own = [result.text.splitlines()[0] for result in results(home.app.sessions.of(GUEST).history)]
        assert len(refused) == 5 and len(set(refused)) == 1
        assert own.startswith("Delivered to this chat")


async def test_the_messages_of_a_turn_are_bounded(tmp_path: Path) -> None:
    steps = [message(text=f"Number {number}.") for number in range(11)]
    async with writing(tmp_path, *steps, "Enough.") as home:
        await home.say("count")
        await home.app.conversations.idle()
        assert len(rows(home)) == 11
        assert "10 messages were sent in this turn already" in last_result(home).text


async def test_what_the_platform_refuses_is_told(tmp_path: Path) -> None:
    """A first failure is not waited for: the row is tried again by itself, and the model knows."""
    chat = FakeChannel("telegram")
    chat.broken = lambda outbound: True
    step = message(text="Hello.", to="telegram:555")
    async with writing(tmp_path, step, "She does not hear me yet.", settings=OPEN, chat=chat) as home:
        assert await home.ask("tell Anna") == "She does not hear me yet."
        assert "Not delivered to telegram:555 yet (the platform is down)" in last_result(home).text
        assert not last_result(home).is_error
        (row,) = home.app.outbox.pending("telegram")
        assert not row.is_reply  # so /panic holds it back


async def test_where_nobody_is_the_message_waits_and_the_turn_does_not(tmp_path: Path) -> None:
    chat = FakeChannel("telegram")
    chat.serves = lambda outbound: False  # type: ignore[method-assign]
    step = message(text="Hello.", to="telegram:555")
    async with writing(tmp_path, step, "It waits for her.", settings=OPEN, chat=chat) as home:
        assert await home.ask("tell Anna") == "It waits for her."
        assert "yet (nobody is there at the moment)" in last_result(home).text


@pytest.mark.parametrize("arguments", [{}, {"text": "  "}, {"text": "NO_REPLY"}])
async def test_nothing_is_no_message(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with writing(tmp_path, message(**arguments), "Ok.") as home:
        assert await home.ask("say nothing") == "Ok."
        assert "there is nothing to send" in last_result(home).text


@pytest.mark.skipif("schedule" not in BUILT_IN, reason="without schedule")
@pytest.mark.parametrize(
    ("answer", "arrives"), [("NO_REPLY", []), ("It rains.", []), ("It rains, take care.", ["It rains, take care."])]
)
async def test_a_task_sends_to_the_chat_that_it_reports_to_and_its_answer_does_not_repeat_it(
    tmp_path: Path, answer: str, arrives: list[str]
) -> None:
    clock = HandClock()
    async with writing(tmp_path, message(text="It **rains**"), answer, "Yes.", clock=clock) as home:
        assert "Job 1" in await home.ask("/cron add task in 1 minute: look at the sky")
        clock.now += timedelta(minutes=1)
        schedule: Any = next(one for one in home.app.plugins if one.name == "schedule")
        await schedule.public.loop.tick(clock())
        assert await home.answer() == "It **rains**"
        await home.app.conversations.idle()
        assert [text for (text,) in home.rows("SELECT text FROM outbox ORDER BY id")][2:] == arrives
        assert await home.ask("and now?") in ("Yes.", *arrives)
        assert "It **rains**" in [one.text for one in home.history if isinstance(one, AssistantMessage)]
        assert_legal(home.history)


class Slow(FakeChannel):
    """Takes a message, and does not say so until it may go on."""

    def __init__(self) -> None:
        super().__init__("telegram")
        self.taking, self.go_on = asyncio.Event(), asyncio.Event()

    async def send(self, outbound: Outbound) -> str:
        self.taking.set()
        await self.go_on.wait()
        raise ConnectionError("the line is dead")


async def test_after_a_crash_a_message_is_delivered_once_and_the_model_knows_that_it_was_sent(tmp_path: Path) -> None:
    """The process ends after the row was written and before the tool had its result."""
    slow, crashed = Slow(), tmp_path / "crashed"
    step = message(text="The party is at 8.", to="telegram:555")
    async with writing(tmp_path / "first", step, settings=OPEN, chat=slow) as home:
        await home.say("tell Anna")
        await slow.taking.wait()
        crashed.mkdir()
        copy(home, crashed / "state.db")
        slow.go_on.set()
    chat = FakeChannel("telegram")
    async with writing(crashed, "She knows.", chat=chat) as home:
        assert (await chat.sent.get()).text == "The party is at 8."
        assert (await home.answer()).startswith("I was interrupted while I worked on “tell Anna”.")
        assert last_result(home).text == TOOK_EFFECT
        assert not last_result(home).is_error
        assert await home.ask("go on") == "She knows."
        assert chat.sent.empty()
        assert_legal(home.history)


@pytest.mark.parametrize("is_changed", [False, True])
async def test_a_yes_is_to_the_file_as_it_was_when_it_was_asked_for(tmp_path: Path, is_changed: bool) -> None:
    chat = FakeChannel("telegram", Hints(files=1, file_bytes=1_000_000))
    step = message(files=["plan.txt"], to="telegram:555")
    async with writing(tmp_path, step, "Shall I ask again?" if is_changed else "Sent.", chat=chat) as home:
        (home.workspace / "plan.txt").write_text("harmless")
        await home.say("send Anna the plan")
        assert 'files: ["plan.txt"]\n' in (await home.channel.sent.get()).text
        (home.workspace / "plan.txt").write_text("secret!!" if is_changed else "harmless")
        assert await home.ask("yes") == "OK, going ahead."
        if not is_changed:
            assert (await chat.sent.get()).files[0].endswith("plan.txt")
        assert await home.answer() == ("Shall I ask again?" if is_changed else "Sent.")
        assert chat.sent.empty()
        assert ("is not what they said yes to" in last_result(home).text) is is_changed
        assert home.rows("SELECT * FROM message_asked") == []


def copy(home: Program, target: Path) -> None:
    """The store as a crash would leave it now."""
    home.app.store.db.execute("VACUUM INTO ?", (str(target),))
    open_store(target).close()


async def test_a_heartbeat_cannot_send(tmp_path: Path) -> None:
    async with writing(tmp_path) as home:
        open_to = [
            name
            for name, one in home.app.chain.profiles.items()
            if "message" in [tool.name for tool in home.app.chain.tools(one)]
        ]
        assert "heartbeat" not in open_to
        assert {"person", "job", "guest"} <= set(open_to)


async def test_without_access_there_is_nobody_but_the_terminal(tmp_path: Path) -> None:
    step = message(text="Hello.", to="telegram:555")
    async with writing(tmp_path, step, message(text="Here."), "Done.", without=["access", "media", "schedule"]) as home:
        await home.say("tell Anna")
        assert "/yes 1" in await home.answer()
        await home.ask("no")
        assert [await home.answer(), await home.answer()] == ["Here.", "Done."]
        await home.write_from(MAIN, "me", "/status")
