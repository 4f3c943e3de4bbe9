"""What becomes of an answer: silence, files that its lines name, or its text."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from nanoclaw.core.errors import ToolError
from nanoclaw.core.events import Event, Notice, TextDelta, ToolStarted, TurnEnded
from nanoclaw.core.messages import AssistantMessage, ToolCall
from nanoclaw.plugins.media.replies import Hushed, leaving
from nanoclaw.providers.scripted import ScriptedProvider
from tests.core.house import LETS_IN, FakeChannel, House, house


def notices(home: House) -> list[str]:
    return [event.text for _, event in home.channel.events if isinstance(event, Notice)]


def put(home: House, name: str, content: bytes = b"content") -> Path:
    path = home.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path.resolve()


def rows(home: House) -> list[tuple[str, list[str]]]:
    """Text and files of what was to be sent."""
    return [(text, json.loads(files)) for text, files in home.store.rows("SELECT text, files FROM outbox ORDER BY id")]


@pytest.mark.parametrize("silence", ["NO_REPLY", "**no_reply**", "HEARTBEAT_OK.", "```\nNO_REPLY\n```"])
def test_a_turn_may_end_with_nothing_to_say(tmp_path: Path, silence: str) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider(silence, "Here I am.")) as home:
            await home.say("thanks")
            await home.assistant.idle()
            assert home.channel.ended == [TurnEnded("", "answered", home.channel.ended[0].usage)]
            assert not [event for _, event in home.channel.events if isinstance(event, TextDelta)]
            assert notices(home) == ["(nothing to say)"]
            assert await home.ask("are you there?") == "Here I am."
            assert [one.text for one in home.history if isinstance(one, AssistantMessage)] == [silence, "Here I am."]
            assert home.store.rows("SELECT count(*) FROM outbox") == [(1,)]

    asyncio.run(story())


def test_a_token_beside_words_is_taken_off_and_the_words_stay(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider("Well done. NO_REPLY")) as home:
            assert await home.ask("look") == "Well done."

    asyncio.run(story())


def test_a_line_that_names_a_file_becomes_the_file(tmp_path: Path) -> None:
    async def story() -> None:
        answer = "Here they are.\n\nMEDIA:./chart.png\nMEDIA: `./b/a b.pdf`\n\nAnything else?"
        async with house(tmp_path, ScriptedProvider(answer, "`MEDIA:./chart.png`")) as home:
            first, second = put(home, "chart.png"), put(home, "b/a b.pdf")
            await home.say("charts")
            assert str(first) in await home.answer()
            assert rows(home) == [("Here they are.\n\nAnything else?", [str(first), str(second)])]
            assert home.channel.ended[-1].answer == "Here they are.\n\nAnything else?"
            await home.say("only the first")
            await home.answer()
            assert rows(home)[1:] == [("", [str(first)])]
            assert home.channel.ended[-1].answer == "chart.png"

    asyncio.run(story())


def test_where_no_notices_are_shown_it_is_said_below_the_answer_why_a_file_is_not_there(tmp_path: Path) -> None:
    async def story() -> None:
        provider = ScriptedProvider("Here:\nMEDIA:./none.png")
        async with house(tmp_path, provider, shows_notices=lambda address: False) as home:
            first, line, _, reason = (await home.ask("send it")).splitlines()
            assert (first, line) == ("Here:", "MEDIA:./none.png")
            assert reason.startswith("(not attached: ") and "none.png" in reason
            assert notices(home) == []

    asyncio.run(story())


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "../state.db",
        "./notes/../../state.db",
        "./out.png",
        "./folder-out/secret.txt",
        "http://127.0.0.1/a.png",
        "file:///etc/passwd",
        "./missing.png",
        "./empty.png",
        "./large.png",
        "./pipe",
        "./memory",
        "./linked.toml",
    ],
)
def test_a_file_that_may_not_leave_is_not_attached_and_its_line_stays(tmp_path: Path, path: str) -> None:
    async def story() -> None:
        answer = f"Here:\nMEDIA:{path}"
        async with house(tmp_path, ScriptedProvider(answer)) as home:
            (tmp_path / "secret.txt").write_text("secret")
            (tmp_path / "config.toml").write_text("[model]")
            (home.workspace / "linked.toml").hardlink_to(tmp_path / "config.toml")
            (home.workspace / "out.png").symlink_to(tmp_path / "secret.txt")
            (home.workspace / "folder-out").symlink_to(tmp_path)
            os.mkfifo(home.workspace / "pipe")
            put(home, "empty.png", b"")
            put(home, "large.png", b"x" * 1_000_001)
            await home.say("send it")
            assert await home.answer() == answer
            assert rows(home) == [(answer, [])]
            assert [text for text in notices(home) if text.startswith("not attached: ")]

    asyncio.run(story())


@pytest.mark.parametrize(
    "text",
    [
        "```\nMEDIA:./a.png\n```",
        "~~~~ text\n```\nMEDIA:./a.png\n~~~\nMEDIA:./a.png\n~~~~",
        "- so:\n  ```\n  MEDIA:./a.png\n  ```",
        "> ```\nMEDIA:./a.png",
        "    MEDIA:./a.png",
        "write MEDIA:./a.png on a line",
        "MEDIA:",
    ],
)
def test_what_is_code_or_talk_about_it_is_no_file(text: str) -> None:
    left = leaving(text, lambda path: f"/workspace/{path}")
    assert (left.text, left.files, left.problems) == (text, (), ())


def test_after_a_fence_lines_name_files_again() -> None:
    left = leaving("```\nMEDIA:./a.png\n```\nMEDIA:./b.png\r\nMEDIA:./b.png", lambda path: path)
    assert left.files == ("./b.png",)
    assert left.text == "```\nMEDIA:./a.png\n```"


def test_the_files_of_one_answer_are_bounded() -> None:
    left = leaving("\n".join(f"MEDIA:./{number}.png" for number in range(12)), lambda path: path)
    assert len(left.files) == 10
    assert left.text == "MEDIA:./10.png\nMEDIA:./11.png"
    assert len(left.problems) == 2


def test_a_workspace_around_the_home_sends_nothing_of_the_home(tmp_path: Path) -> None:
    from nanoclaw.plugins.media.sending import Sendable

    home = tmp_path / "home"
    home.mkdir()
    for name in ("state.db", "notes.txt"):
        (home / name).write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    around, same = Sendable(tmp_path, home, 100), Sendable(home, home, 100)
    assert around("notes.txt") == str((tmp_path / "notes.txt").resolve())
    assert same("notes.txt") == str((home / "notes.txt").resolve())
    for check, path in ((around, "home/state.db"), (around, "home/notes.txt"), (same, "state.db")):
        with pytest.raises(ToolError, match="the program's own file"):
            check(path)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("NO_REPLY", ""),
        ("No, thanks.", "No, thanks."),
        ("Nope", "Nope"),
        ("NO", "NO"),
        ("Look:\nMEDIA:./a.png\nNice.", "Look:\nNice."),
        ("MEDIA:./a.png", ""),
        ("```\nMEDIA:./a.png\n```", "```\nMEDIA:./a.png\n```"),
        ("MEDIAN is a word\n**MEDIA** too", "MEDIAN is a word\n**MEDIA** too"),
    ],
)
def test_a_stream_never_shows_what_is_not_said(said: str, shown: str, size: int) -> None:
    events = list[Event]()
    hushed = Hushed(events.append)
    for _ in range(2):  # a round that calls a tool, and the one after it
        for start in range(0, len(said), size):
            hushed(TextDelta(said[start : start + size]))
        hushed(ToolStarted(ToolCall("1", "exec", "{}")))
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert text == shown
        events.clear()


def test_the_text_of_a_long_line_streams_as_it_comes() -> None:
    events = list[Event]()
    hushed = Hushed(events.append)
    for piece in ("It ", "is ", "five"):
        hushed(TextDelta(piece))
    assert events == [TextDelta("It "), TextDelta("is "), TextDelta("five")]


def test_a_guest_is_sent_no_file_of_the_owner(tmp_path: Path) -> None:
    async def story() -> None:
        chat = FakeChannel("chat")
        async with house(tmp_path, ScriptedProvider("MEDIA:./MEMORY.md"), others=(chat,), rules=LETS_IN) as home:
            put(home, "MEMORY.md", b"- The code of the door is 1234")
            await home.guest_says("send me the memory file")
            assert (await chat.sent.get()).text == "MEDIA:./MEMORY.md"
            assert rows(home) == [("MEDIA:./MEMORY.md", [])]

    asyncio.run(story())
