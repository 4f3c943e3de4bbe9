"""The connection to Telegram: polls, conflicts, tokens, failures and what they say."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.channels.telegram import channel as module
from nanoclaw.channels.telegram.api import _result
from nanoclaw.channels.telegram.channel import Telegram
from nanoclaw.channels.telegram.settings import TelegramSettings
from nanoclaw.channels.web_api import WebReply
from nanoclaw.core.channel import ChannelAccess, ChannelHost
from nanoclaw.core.errors import ChannelError
from nanoclaw.log import logger
from tests.channels.telegram_talk import Talk, opened, talking


@talking
async def test_a_poll_stays_open_and_a_message_ends_it_at_once(talk: Talk) -> None:
    await talk.server.until(lambda: talk.server.asked("getUpdates"))
    poll = talk.server.asked("getUpdates")[0].parameters
    assert (poll["timeout"], "offset" in poll) == (30, False)
    assert poll["allowed_updates"] == ["message", "edited_message", "callback_query", "stopped_message_generation"]
    assert (await talk.said("hello")).message.text == "hello"
    await talk.server.until(lambda: len(talk.server.asked("getUpdates")) == 2)
    assert not talk.server.unconfirmed


class Owns(ChannelAccess):
    """The owner's chats."""

    def __init__(self, *chats: str) -> None:
        self.chats = list(chats)

    def owners_chats(self) -> list[str]:
        return self.chats


def shown_in(talk: Talk) -> dict[int, list[str]]:
    """The commands in the menu of each chat, 0 for everybody."""
    return {
        json.loads(scope).get("chat_id", 0): [one["command"] for one in menu]
        for scope, menu in talk.server.commands.items()
    }


async def test_the_menu_is_shown_in_the_owners_chats_from_their_link_on_until_it_ends(tmp_path: Path) -> None:
    owns, folder = Owns(), tmp_path / "telegram"
    async with opened(access=owns, folder=folder) as talk:
        talk.server.commands['{"type": "default"}'] = [{"command": "panic", "description": "of an earlier version"}]
        async with talk.running():
            await talk.said("/link ABCD2345")
            assert shown_in(talk) == {}
            owns.chats = [str(talk.anna.id), "-100", "-100//5"]
            await talk.said("hello")
            await talk.server.until(lambda: shown_in(talk))
            assert shown_in(talk) == {talk.anna.id: ["help"]}
            await talk.said("hello")
            assert len(talk.server.asked("setMyCommands")) == 1
            owns.chats = []
            await talk.said("hello")
            await talk.server.until(lambda: not shown_in(talk))
            owns.chats = [str(talk.anna.id)]
            await talk.said("hello")
            await talk.server.until(lambda: shown_in(talk))
        owns.chats = []  # while nobody ran
        again = Telegram(
            TelegramSettings(talk.server.token, talk.server.api_base),
            ChannelHost(folder, lambda: datetime.now(UTC), access=owns),
        )
        async with Talk(talk.server, again).running():
            await talk.server.until(lambda: not shown_in(talk))
        await again.aclose()


async def test_commands_that_telegram_does_not_take_are_left_out_of_the_menu(tmp_path: Path) -> None:
    menu = {"help": "x" * 300, "no-go": "x", "a" * 33: "x", "New": "x", "über": "x", "a_1": "", "": "x"}
    async with opened(menu=menu, access=Owns("7"), folder=tmp_path) as talk, talk.running():
        await talk.server.until(lambda: talk.server.asked("getUpdates"))
        [told] = talk.server.commands.values()
        assert told == [{"command": "help", "description": "x" * 256}, {"command": "a_1", "description": "a_1"}]


async def test_a_menu_that_is_refused_keeps_nobody_from_talking(tmp_path: Path) -> None:
    async with opened(access=Owns("7"), folder=tmp_path) as talk:
        talk.server.fail("setMyCommands", how=403)
        async with talk.running():
            assert (await talk.said("hello")).message.text == "hello"


@pytest.mark.parametrize(
    "token", ["7352041968:AAF3kQm0zv9Wn2XyR8sLbT1uJcEoPdGhIaX", "7352041968:short", "x", "", "1:a\nb", "1:a/../b"]
)
async def test_a_token_that_telegram_does_not_know_says_what_to_do(token: str) -> None:
    async with opened(token=token or " ") as talk:
        error = await talk.run()
        assert isinstance(error, ChannelError)
        assert "BotFather" in str(error)
        assert "NANOCLAW_TELEGRAM_TOKEN" in str(error)
        assert len(token) < 2 or token not in str(error)


async def test_a_token_that_is_revoked_while_it_runs_says_what_to_do() -> None:
    async with opened() as talk:
        running = asyncio.create_task(talk.run())
        await talk.server.until(lambda: talk.server.asked("getUpdates"))
        talk.server.fail("*", how=401)
        assert "BotFather" in str(await running)


async def test_a_second_program_that_polls_ends_it_with_what_to_do() -> None:
    async with opened() as talk, opened(talk.server.token, api_base=talk.server.api_base) as other:
        running = asyncio.create_task(talk.run())
        await talk.server.until(lambda: talk.server.asked("getUpdates"))
        async with other.running():
            error = await running
            assert isinstance(error, ChannelError)
            assert "another program polls this bot" in str(error)
            assert "/revoke" in str(error)


async def test_a_webhook_is_removed_and_what_waited_comes() -> None:
    async with opened() as talk:
        talk.server.webhook = "https://example.org/hook"
        talk.server.say(talk.anna, "hello")
        async with talk.running():
            assert (await talk.next()).message.text == "hello"
        assert talk.server.webhook == ""


@pytest.mark.parametrize("how", [429, 500, 502, "reset"])
async def test_a_poll_that_fails_breaks_off_and_nothing_is_lost(how: Any) -> None:
    async with opened() as talk:
        talk.server.fail("getUpdates", how=how, retry_after=30)
        talk.server.say(talk.anna, "one")
        error = await talk.run()
        assert isinstance(error, ChannelError)
        assert talk.server.token not in str(error)
        assert not str(error).endswith("..")
        assert error.retry_after == (30 if how == 429 else None)
        talk.server.say(talk.anna, "two")
        async with talk.running():
            assert [(await talk.next()).message.text for _ in range(2)] == ["one", "two"]


async def test_a_connection_that_is_dead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll may stay open for 30 s and 10 more; here these are shorter."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0)
    monkeypatch.setattr(module, "POLL_GRACE_SECONDS", 0.2)
    async with opened() as talk:
        talk.server.fail("getUpdates", how="hang")
        assert "did not answer" in str(await talk.run())


@talking
async def test_alive_is_the_last_completed_poll(talk: Talk) -> None:
    await talk.said("hello")
    await talk.server.until(lambda: len(talk.server.asked("getUpdates")) == 2)
    before = talk.channel.alive
    assert isinstance(before, datetime)
    await talk.said("hello again")
    await talk.server.until(lambda: len(talk.server.asked("getUpdates")) == 3)
    assert isinstance(talk.channel.alive, datetime)
    assert talk.channel.alive > before


async def test_something_else_than_telegram_at_the_address_says_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, opened(api_base=f"http://127.0.0.1:{port}/") as talk:
        assert "status 200" in str(await talk.run())


def test_of_a_broken_update_the_log_tells_the_reason_and_none_of_its_words() -> None:
    lines: list[str] = []

    @talking
    async def story(talk: Talk) -> None:
        await talk.after({"message": {"text": "my secret", "chat": {"id": 5, "type": "private"}}})

    sink = logger.add(lines.append, format="{message}")
    try:
        story()
    finally:
        logger.remove(sink)
    assert len(lines) == 1
    assert "'id' is missing" in lines[0]
    assert "secret" not in lines[0]


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"7", b'{"ok": 1}', b'{"ok": false, "description": "\\udfff"}', b"\xff"]
)
def test_what_is_no_answer_of_telegram_is_told(body: bytes) -> None:
    with pytest.raises(ChannelError) as caught:
        _result("getUpdates", WebReply.of(200, {}, body))
    assert str(caught.value).encode()
