"""Messages that may not be from whom they say: they wait until the owner says, elsewhere, that they are theirs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from nanoclaw.core.channel import UNPROVEN, Place
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.providers.scripted import Say
from tests.plugins.access.test_gatekeeper import OWNER, STRANGER, Chat, content, story
from tests.program import MAIN, FakeChannel


async def write(chat: Chat, sender: str, text: str, id: str = "", **more: Any) -> None:
    """Under the address of `sender`, which the platform's word does not settle."""
    place = Address("telegram", str(Place(sender, "", "unverified")))
    message = UserMessage(text, chat.clock())
    inbound = Inbound(place, f"{UNPROVEN}{sender}", id or text, message)
    await chat.home.deliver(inbound._replace(**more))


def terminal(chat: Chat) -> FakeChannel:
    found = chat.home.app.channels.get(MAIN.channel)
    assert isinstance(found, FakeChannel)
    return found


async def say(chat: Chat, text: str) -> str:
    """The answer in the terminal."""
    await chat.home.write_from(MAIN, "me", text)
    return (await terminal(chat).sent.get()).text


async def test_it_waits_for_the_owners_yes_in_the_terminal_and_is_theirs_then(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, OWNER, "Good day", quote="the old one", quote_from="a forwarded mail")
        await write(chat, OWNER, "Good day", quote="the old one")  # the same once more
        await write(chat, OWNER, "and another")
        assert chat.home.rows("SELECT count(*) FROM inbox")[0][0] == 0
        asked = chat.home.rows("SELECT channel, text FROM outbox")
        assert [channel for channel, _ in asked] == [MAIN.channel]
        await terminal(chat).sent.get()
        assert f"says that it is from {OWNER}, and I can't be sure: “Good day”. /held yes 1" in asked[0][1]
        listed = await say(chat, "/held")
        assert "- 1: telegram, says it is from 1" in listed
        assert "and another" in listed
        assert await say(chat, "/held no 2") == "Message 2 is thrown away."
        assert await say(chat, "/held yes 1") == "Message 1 is taken as one of 1."
        assert await chat.answer() == "Good morning."
        assert await say(chat, "/held yes 1") == "No message 1 waits; /held lists those that do."
        assert await say(chat, "/held yes ²") == "Say /held yes 3, /held no 3, or /held alone for what waits."

    model = await story(tmp_path, play, Say("Good morning."))
    assert "Good day" in content(model.requests[0])
    assert "the old one" in content(model.requests[0])


async def test_it_has_no_say_itself_and_what_nobody_answers_ends_after_a_week(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, OWNER, "first")
        await write(chat, OWNER, "/held yes 1")
        await write(chat, STRANGER, "hello")
        assert chat.home.rows("SELECT count(*) FROM held")[0][0] == 2
        await terminal(chat).sent.get()
        assert chat.home.rows("SELECT count(*) FROM inbox")[0][0] == 0
        chat.clock.now += timedelta(days=8)
        assert await say(chat, "/held") == "No message waits for your word that you sent it."

    await story(tmp_path, play)


async def test_the_code_links_whoever_knows_it_and_their_next_message_waits(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, "5", chat.new_link())
        assert "You are linked" in await chat.answer()
        await write(chat, "5", "now do it")
        await terminal(chat).sent.get()
        assert "now do it" in await say(chat, "/held")

    await story(tmp_path, play)
