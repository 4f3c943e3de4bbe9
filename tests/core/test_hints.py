"""What the model knows of the channel it talks through, and that it is told once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.core.sections import channel_line
from nanoclaw.core.token_estimate import estimate
from nanoclaw.providers.scripted import ScriptedProvider
from tests.core.house import NOON, FakeChannel, HandClock, builder_for, house, new_home

TELEGRAM = Hints(length=4096, units="utf-16", markup="markdown", buttons=True, threads=True, remark="It is read late.")
LINE = (
    "You talk through telegram: Markdown is shown; messages over 4,096 characters are split; reminders and approvals "
    "have buttons; each thread is a conversation of its own. It is read late. When nothing needs to be said, answer "
    "NO_REPLY alone."
)


def hints(channel: str) -> Hints | None:
    return {"telegram": TELEGRAM, "terminal": Hints(markup="markdown")}.get(channel)


def test_the_line_is_short_and_says_what_matters() -> None:
    assert channel_line("telegram", TELEGRAM) == LINE
    assert estimate(LINE) <= 60
    assert channel_line("sms", Hints(length=160, edits=True, reactions=True)) == (
        "You talk through sms: markup is not shown, so write plain text; messages over 160 characters are split. "
        "When nothing needs to be said, answer NO_REPLY alone."
    )


@pytest.mark.parametrize("found", [None, Hints(), Hints(markup="markdown"), Hints(stays=False)])
def test_of_a_terminal_there_is_nothing_to_say(found: Hints | None) -> None:
    assert channel_line("terminal", found) == ""


def test_the_channel_that_began_the_conversation_is_in_the_system_message(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock(NOON), hints=hints, capabilities=["Reminders can be set."])
    opening, _ = builder.reopen(None, "hello", (), channel="telegram")
    assert f"# In this run\n- Reminders can be set.\n- {LINE}" in builder.build_system_prompt("full", opening)
    assert builder.introduce(opening, "telegram") == (opening, "")
    (section,) = [one for one in builder.sections("full", opening) if one.id == "capabilities"]
    assert section.stable
    assert "You talk through" not in builder.build_system_prompt("full", builder.open("hello", channel="terminal"))
    assert "You talk through" not in builder.build_system_prompt("minimal", builder.open("", "minimal", "telegram"))


def test_another_channel_is_told_of_once_and_the_prefix_stays(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock(NOON), hints=hints)
    begun, _ = builder.reopen(None, "hello", (), channel="terminal")
    before = builder.build_system_prompt("full", begun)
    opening, _ = builder.reopen(begun.dump(), "hello", (), channel="telegram")
    opening, told = builder.introduce(opening, "telegram")
    assert told == LINE
    again, _ = builder.reopen(opening.dump(), "and", (), channel="terminal")
    for channel in ("terminal", "telegram", "terminal"):
        again, told = builder.introduce(again, channel)
        assert told == ""
    assert builder.build_system_prompt("full", again) == before


def test_a_conversation_from_before_there_were_hints_keeps_its_prefix(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock(NOON), hints=hints)
    old = builder.open("hello")
    opening, _ = builder.reopen(old.dump().replace(', "channels": []', ""), "and", (), channel="telegram")
    opening, told = builder.introduce(opening, "telegram")
    assert told == LINE
    assert builder.build_system_prompt("full", opening) == builder.build_system_prompt("full", old)


def test_an_edited_file_does_not_make_the_channel_forgotten(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock(NOON), hints=hints)
    begun = builder.open("hello", channel="telegram")
    (tmp_path / "workspace" / "SOUL.md").write_text("Be bold.")
    opening, _ = builder.reopen(begun.dump(), "and", (), channel="telegram")
    assert LINE in builder.build_system_prompt("full", opening)


def test_a_conversation_that_moves_to_a_chat_is_told_in_the_metadata(tmp_path: Path) -> None:
    async def scene() -> None:
        provider, telegram, chat = (
            ScriptedProvider("one", "two", "three"),
            FakeChannel("telegram"),
            Address("telegram", "5"),
        )
        telegram.hints = TELEGRAM
        async with house(tmp_path, provider, others=(telegram,), shared=True) as home:
            home.accounts.try_code(home.accounts.new_link("telegram"), chat, "5", "Me", may_link=True)
            home.accounts.meet(chat, "5")
            await home.ask("hello")
            for number in (1, 2):
                message = UserMessage(f"and {number}", home.clock())
                await home.assistant.deliver(Inbound(chat, "5", f"5:{number}", message))
                await telegram.sent.get()
            texts = [message.text for message in home.history if isinstance(message, UserMessage)]
            assert [LINE in text for text in texts] == [False, False, True, False, False, False]
            assert len({request.system.text for request in provider.requests}) == 1

    asyncio.run(scene())


def test_a_conversation_of_a_chat_has_its_channel_in_the_system_message(tmp_path: Path) -> None:
    async def scene() -> None:
        provider, telegram = ScriptedProvider("one"), FakeChannel()
        telegram.hints = Hints(length=4096, markup="markdown")
        async with house(tmp_path, provider, channel=telegram) as home:
            await home.ask("hello")
            assert (
                "You talk through terminal: Markdown is shown; messages over 4,096"
                in provider.requests[0].system.stable
            )
            assert "You talk through" not in home.history[0].text

    asyncio.run(scene())
