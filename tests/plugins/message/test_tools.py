"""The message tool: sent at once, known places only, with the owner's yes, and what the platform said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Address, AssistantMessage, ToolResult
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import NOT_SENT, SENT
from nanoclaw.core.store.outbox import Outbox
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.core.house import GUEST, LETS_IN, MAIN, FakeChannel, HandClock, House, assert_legal, house, results

ANNA = Address("chat", "555")


def message(**arguments: Any) -> Say:
    return call("message", arguments)


def met(home: House, address: Address = ANNA) -> None:
    """Somebody there has talked to the assistant before."""
    home.sessions.of(address)


def last_result(home: House) -> ToolResult:
    return results(home.history)[-1]


def rows(home: House) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in home.store.rows("SELECT channel, text FROM outbox ORDER BY id")]


def test_a_message_arrives_in_the_midst_of_the_turn_and_the_answer_after_it(tmp_path: Path) -> None:
    async def story() -> None:
        provider = ScriptedProvider(message(text="I am looking."), "Found it.")
        async with house(tmp_path, provider, messaging={}) as home:
            assert await home.ask("find it") == "I am looking."
            assert await home.answer() == "Found it."
            assert last_result(home).text == "Delivered to this chat (id id-1)."
            said = [one.text for one in home.history if isinstance(one, AssistantMessage)]
            assert said == ["", "Found it."]  # the call itself tells of the message
            assert "sent a message here" in await home.ask("/receipts")

    asyncio.run(story())


@pytest.mark.parametrize("answer", ["Here you are.", "**here you are**"])
def test_what_a_message_has_said_here_the_answer_does_not_repeat(tmp_path: Path, answer: str) -> None:
    async def story() -> None:
        provider = ScriptedProvider(message(text="Here you are."), answer, "Next.")
        async with house(tmp_path, provider, messaging={}) as home:
            assert await home.ask("well?") == "Here you are."
            await home.assistant.idle()
            assert rows(home) == [("terminal", "Here you are.")]
            assert home.channel.ended[-1].answer == ""
            last = home.history[-1]
            assert isinstance(last, AssistantMessage) and last.text == answer
            assert await home.ask("go on") == "Next."

    asyncio.run(story())


def test_the_same_words_in_a_later_turn_are_sent(tmp_path: Path) -> None:
    async def story() -> None:
        provider = ScriptedProvider(message(text="Hello."), "Hello.", "Hello.")
        async with house(tmp_path, provider, messaging={}) as home:
            assert await home.ask("one") == "Hello."
            await home.assistant.idle()
            assert await home.ask("two") == "Hello."
            assert len(rows(home)) == 2

    asyncio.run(story())


def test_files_are_sent_by_their_path_in_the_workspace_and_no_others(tmp_path: Path) -> None:
    async def story() -> None:
        provider = ScriptedProvider(
            message(text="The chart.", files=["charts/may.png"]),
            message(text="And this.", files=["../state.db"]),
            "Done.",
        )
        async with house(tmp_path, provider, messaging={}) as home:
            chart = home.workspace / "charts" / "may.png"
            chart.parent.mkdir()
            chart.write_bytes(b"png")
            await home.say("send both")
            while await home.answer() != "Done.":
                pass
            assert home.store.rows("SELECT text, files FROM outbox WHERE files <> '[]'") == [
                ("The chart.", json.dumps([str(chart.resolve())]))
            ]
            assert last_result(home).is_error
            assert "cannot be sent" in last_result(home).text

    asyncio.run(story())


def test_another_chat_hears_it_once_the_owner_says_yes_and_remembers_it(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(message(text="The party is at 8.", to="chat:555"), "Told her.")
        async with house(tmp_path, provider, others=(chat,), messaging={}) as home:
            met(home)
            question = await home.channel_question("tell Anna when the party is")
            assert "May I send this to chat:555?" in question.text
            assert "```\nThe party is at 8.\n```" in question.text
            assert [(button.label, button.text) for button in question.buttons] == [("Yes", "/yes 1"), ("No", "/no 1")]
            assert chat.sent.empty()
            assert await home.ask("yes") == "Yes: it goes on."
            assert (await chat.sent.get()).text == "The party is at 8."
            assert await home.answer() == "Told her."
            there = home.sessions.of(ANNA).history
            assert isinstance(there[-1], AssistantMessage) and there[-1].text == "The party is at 8."
            assert_legal(there)
            assert_legal(home.history)
            assert last_result(home).text == "Delivered to chat:555 (id id-1)."

    asyncio.run(story())


@pytest.mark.parametrize("word", ["no", "/no 1", "Nein.", "/stop"])
def test_without_a_yes_nothing_is_sent(tmp_path: Path, word: str) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(message(text="Secret.", to="chat:555"), "You said no.")
        async with house(tmp_path, provider, others=(chat,), messaging={}) as home:
            met(home)
            await home.channel_question("tell Anna")
            await home.say(word)
            await home.assistant.idle()
            assert chat.sent.empty()
            assert [row for row in rows(home) if row[0] == "chat"] == []
            assert home.sessions.of(ANNA).history == []
            assert await home.ask("/yes 1") or True
            assert [row for row in rows(home) if row[0] == "chat"] == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("chat:777", "chat:777 is not known"),
        ("sms:5", "there is no channel 'sms'"),
        ("Anna", "'Anna' is no address"),
        ("chat:", "'chat:' is no address"),
    ],
)
def test_an_address_that_nobody_knows_is_told_and_not_written_to(tmp_path: Path, to: str, told: str) -> None:
    async def story() -> None:
        provider = ScriptedProvider(message(text="Hello.", to=to), "I do not know her.")
        async with house(tmp_path, provider, others=(FakeChannel("chat"),), messaging={}) as home:
            assert await home.ask("tell Anna") == "I do not know her."
            assert told in last_result(home).text
            assert rows(home) == [("terminal", "I do not know her.")]

    asyncio.run(story())


def test_known_are_the_owners_chats_who_has_talked_and_who_is_listed(tmp_path: Path) -> None:
    """A chat of the owner's has no conversation of its own where one is shared with the terminal."""
    from nanoclaw.core.app import is_known
    from nanoclaw.core.config import load
    from nanoclaw.core.store.sessions import Sessions
    from nanoclaw.plugins.access.accounts import Accounts
    from nanoclaw.plugins.message.sent import Sent

    lists = 'allow_from = ["2"]\nallow_groups = ["-3"]\nsend_to = ["4"]'
    (tmp_path / "config.toml").write_text(f'[channels.telegram]\ntoken = "1:a"\n{lists}\n')
    config, clock = load({"NANOCLAW_HOME": str(tmp_path)}), HandClock()
    store = Store(tmp_path / "state.db")
    try:
        accounts, sessions = Accounts(store, clock), Sessions(store, clock)
        assert accounts.try_code(accounts.new_link("telegram"), Address("telegram", "1"), "1", "", may_link=True)
        accounts.meet(Address("telegram", "1"), "1")
        sessions.of(Address("telegram", "5"))
        sent = Sent(store, sessions, clock)
        chats = [Address("telegram", chat) for chat in ("1", "2", "-3", "4", "5", "6")]
        assert [is_known(config, accounts, sent, chat) for chat in chats] == [True] * 5 + [False]
        assert is_known(config, accounts, sent, MAIN)
        assert not is_known(config, accounts, sent, Address("terminal", "other"))
    finally:
        store.close()


def test_an_open_address_needs_no_yes(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(message(text="Hello.", to="chat:555"), "Told her.")
        messaging = {"is_known": lambda address: True, "is_open": lambda address: address == ANNA}
        async with house(tmp_path, provider, others=(chat,), messaging=messaging) as home:
            assert await home.ask("tell Anna") == "Told her."
            assert (await chat.sent.get()).text == "Hello."

    asyncio.run(story())


def test_what_is_sent_to_another_chat_of_the_same_conversation_is_in_it_once(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(message(text="The chart.", to="chat:1"), "Sent.", "Again.")
        messaging = {"is_known": lambda address: True, "is_open": lambda address: True}
        async with house(tmp_path, provider, others=(chat,), messaging=messaging, shared=True) as home:
            code = home.accounts.new_link("chat")
            assert home.accounts.try_code(code, Address("chat", "1"), "1", "", may_link=True) == "linked"
            home.accounts.meet(Address("chat", "1"), "1")
            assert await home.ask("send it to my phone") == "Sent."
            assert (await chat.sent.get()).text == "The chart."
            assert [one.text for one in home.history if isinstance(one, AssistantMessage)] == ["", "Sent."]
            assert_legal(home.history)
            assert await home.ask("and again") == "Again."

    asyncio.run(story())


def test_what_was_sent_is_not_doubted(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(message(text="Hello.", to="chat:555"), "I've sent the email to Anna.")
        async with house(tmp_path, provider, others=(chat,), messaging={"is_open": lambda address: True}) as home:
            met(home)
            assert await home.ask("Send Anna an email that says hello") == "I've sent the email to Anna."

    asyncio.run(story())


def test_a_guest_may_only_write_to_their_own_chat(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(
            message(text="Hello.", to="chat:555"),
            message(text="Your file.", files=["MEMORY.md"]),
            message(text="One moment."),
            "Sorry.",
        )
        async with house(tmp_path, provider, others=(chat,), messaging={}, rules=LETS_IN) as home:
            met(home)
            await home.guest_says("tell Anna")
            assert [(await chat.sent.get()).text for _ in range(2)] == ["One moment.", "Sorry."]
            refused = [result.text for result in results(home.sessions.of(GUEST).history)]
            assert ["only to this chat" in text for text in refused] == [True, True, False]
            assert {row[0] for row in home.store.rows("SELECT chat FROM outbox")} == {"777"}

    asyncio.run(story())


def test_a_guest_learns_from_no_refusal_who_else_is_known(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        steps = [message(text="Hello.", to=to) for to in ("chat:555", "chat:556", "sms:5", "terminal:main", "Anna")]
        provider = ScriptedProvider(*steps, message(text="Hi.", to=str(GUEST)), "Sorry.")
        async with house(tmp_path, provider, others=(chat,), messaging={}, rules=LETS_IN) as home:
            met(home)
            await home.guest_says("tell Anna")
            assert [(await chat.sent.get()).text for _ in range(2)] == ["Hi.", "Sorry."]
            *refused, own = [result.text.splitlines()[0] for result in results(home.sessions.of(GUEST).history)]
            assert len(refused) == 5 and len(set(refused)) == 1
            assert own.startswith("Delivered to this chat")

    asyncio.run(story())


def test_the_messages_of_a_turn_are_bounded(tmp_path: Path) -> None:
    async def story() -> None:
        steps = [message(text=f"Number {number}.") for number in range(11)]
        async with house(tmp_path, ScriptedProvider(*steps, "Enough."), messaging={}) as home:
            await home.say("count")
            await home.assistant.idle()
            assert len(rows(home)) == 11
            assert "10 messages were sent in this turn already" in last_result(home).text

    asyncio.run(story())


def test_what_the_platform_refuses_is_told(tmp_path: Path) -> None:
    """A first failure is not waited for: the row is tried again by itself, and the model knows."""

    async def story() -> None:
        chat = FakeChannel("chat")
        chat.broken = lambda outbound: True
        provider = ScriptedProvider(message(text="Hello.", to="chat:555"), "She does not hear me yet.")
        messaging = {"is_open": lambda address: True}
        async with house(tmp_path, provider, others=(chat,), messaging=messaging) as home:
            met(home)
            assert await home.ask("tell Anna") == "She does not hear me yet."
            assert "Not delivered to chat:555 yet (the platform is down)" in last_result(home).text
            assert not last_result(home).is_error

    asyncio.run(story())


def test_where_nobody_is_the_message_waits_and_the_turn_does_not(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        chat.broken = lambda outbound: True
        provider = ScriptedProvider(message(text="Hello.", to="chat:555"), "It waits for her.")
        messaging = {"is_open": lambda address: True, "is_served": lambda outbound: False, "wake": lambda name: None}
        async with house(tmp_path, provider, others=(chat,), messaging=messaging) as home:
            met(home)
            assert await home.ask("tell Anna") == "It waits for her."
            assert "yet (nobody is there at the moment)" in last_result(home).text

    asyncio.run(story())


@pytest.mark.parametrize("arguments", [{}, {"text": "  "}, {"text": "NO_REPLY"}])
def test_nothing_is_no_message(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider(message(**arguments), "Ok."), messaging={}) as home:
            assert await home.ask("say nothing") == "Ok."
            assert "there is nothing to send" in last_result(home).text

    asyncio.run(story())


def test_a_task_sends_to_the_chat_that_it_reports_to(tmp_path: Path) -> None:
    async def story() -> None:
        clock = HandClock()
        provider = ScriptedProvider(message(text="It rains."), "NO_REPLY", "Take an umbrella.")
        async with house(tmp_path, provider, clock=clock, waking={}, messaging={}) as home:
            home.desk.wish("in 1 minute", "look at the sky", "task", "", "once", "", MAIN, "owner")
            clock.now = next(minutes(clock))
            await home.schedule.tick(clock())
            assert await home.answer() == "It rains."
            await home.assistant.idle()
            last = home.history[-1]
            assert isinstance(last, AssistantMessage) and last.text == "It rains."
            assert await home.ask("and now?") == "Take an umbrella."
            assert_legal(home.history)

    asyncio.run(story())


@pytest.mark.parametrize(("answer", "arrives"), [("It rains.", []), ("It rains, take care.", ["It rains, take care."])])
def test_what_a_task_has_sent_its_answer_does_not_repeat(tmp_path: Path, answer: str, arrives: list[str]) -> None:
    async def story() -> None:
        clock = HandClock()
        provider = ScriptedProvider(message(text="It **rains**"), answer)
        async with house(tmp_path, provider, clock=clock, waking={}, messaging={}) as home:
            home.desk.wish("in 1 minute", "look at the sky", "task", "", "once", "", MAIN, "owner")
            clock.now = next(minutes(clock))
            await home.schedule.tick(clock())
            assert await home.answer() == "It **rains**"
            await home.assistant.idle()
            assert [text for (text,) in home.store.rows("SELECT text FROM outbox ORDER BY id")][1:] == arrives

    asyncio.run(story())


def minutes(clock: HandClock) -> Iterator[Any]:
    from datetime import timedelta

    while True:
        yield clock() + timedelta(minutes=1)


def test_after_a_crash_a_message_is_delivered_once_and_the_model_knows_that_it_was_sent(tmp_path: Path) -> None:
    """The process ends after the row was written and before the tool had its result."""

    async def story() -> None:
        chat = FakeChannel("chat")
        written = asyncio.Event()

        def wake(name: str) -> None:
            written.set()

        provider = ScriptedProvider(message(text="The party is at 8.", to="chat:555"))
        messaging = {"is_open": lambda address: True, "wake": wake}
        async with house(tmp_path, provider, others=(chat,), messaging=messaging) as home:
            met(home)
            await home.say("tell Anna")
            await written.wait()
            crashed = tmp_path / "crashed"
            crashed.mkdir()
            copy(home, crashed / "state.db")
        chat = FakeChannel("chat")
        async with house(crashed, ScriptedProvider("She knows."), others=(chat,), messaging={}) as home:
            assert (await chat.sent.get()).text == "The party is at 8."
            asked = await home.answer()
            assert asked.startswith("I was interrupted while I worked on “tell Anna”.")
            assert last_result(home).text == SENT
            assert not last_result(home).is_error
            assert await home.ask("go on") == "She knows."
            assert chat.sent.empty()
            assert_legal(home.history)

    asyncio.run(story())


@pytest.mark.parametrize("end", ["killed", "told to end"])
def test_what_waited_for_a_yes_when_the_program_ended_was_not_sent_and_is_asked_anew(tmp_path: Path, end: str) -> None:
    async def story() -> None:
        root = tmp_path
        step = message(text="The party is at 8.", to="chat:555")
        async with house(root, ScriptedProvider(step), others=(FakeChannel("chat"),), messaging={}) as home:
            met(home)
            assert "/yes 1" in (await home.channel_question("tell Anna")).text
            if end == "killed":
                root = tmp_path / "killed"
                root.mkdir()
                copy(home, root / "state.db")
            else:
                await home.assistant.close(leave=True)
        chat, provider = FakeChannel("chat"), ScriptedProvider(step, "Told her.")
        async with house(root, provider, others=(chat,), messaging={}) as home:
            while "/yes 2" not in (await home.answer()):  # the first one may be there again
                pass
            assert provider.requests[0].history[-1].text == NOT_SENT
            await home.say("/yes 2")
            assert (await chat.sent.get()).text == "The party is at 8."
            await home.assistant.idle()
            assert_legal(home.history)
            assert chat.sent.empty()

    asyncio.run(story())


def copy(home: House, target: Path) -> None:
    """The store as a crash would leave it now."""
    home.store.db.execute("VACUUM INTO ?", (str(target),))
    Store(target).close()


def test_a_heartbeat_cannot_send(tmp_path: Path) -> None:
    from nanoclaw.core.app import App
    from nanoclaw.core.config import load

    (tmp_path / "config.toml").write_text('[model]\nname = "openai/gpt-5"\napi_key = "k"\n')
    app = App(load({"NANOCLAW_HOME": str(tmp_path)}), None, "openai/gpt-5")
    try:
        boxes = app.assistant._toolboxes
        assert "message" not in [spec.name for spec in boxes["heartbeat"].specs]
        assert "message" in [spec.name for spec in boxes["guest"].specs]
    finally:
        asyncio.run(app.aclose())


def test_outbox_rows_of_messages_are_no_replies(tmp_path: Path) -> None:
    """So /panic holds them back."""

    async def story() -> None:
        chat = FakeChannel("chat")
        chat.broken = lambda outbound: True
        provider = ScriptedProvider(message(text="Hello.", to="chat:555"), "Sent.")
        async with house(tmp_path, provider, others=(chat,), messaging={"is_open": lambda address: True}) as home:
            met(home)
            await home.ask("tell Anna")
            (row,) = Outbox(home.store, home.clock, lambda: 1.0).pending("chat")
            assert not row.is_reply

    asyncio.run(story())
