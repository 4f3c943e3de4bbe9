"""Answer filters: silence tokens, and lines that name files."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nanoclaw.beneath.paths import Reach
from nanoclaw.core.errors import ToolError
from nanoclaw.core.events import Notice, TextDelta, TurnEnded
from nanoclaw.core.messages import AssistantMessage
from nanoclaw.core.runner import Stream
from nanoclaw.plugins.media.plugin import FileLineFilter, MediaFiles, attached
from nanoclaw.plugins.silence.plugin import SilenceFilter
from nanoclaw.providers.scripted import Say, ScriptedProvider
from tests.examples import examples
from tests.program import FakeChannel, Program, everybody_is, running

TEXTS = examples(__file__, "answers.jsonl")

MINE = ("media", "silence")


def notices(home: Program) -> list[str]:
    return [event.text for _, event in home.channel.events if isinstance(event, Notice)]


def put(home: Program, name: str, content: bytes = b"content") -> Path:
    path = home.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path.resolve()


def rows(home: Program) -> list[tuple[str, list[str]]]:
    """Text and files of what was to be sent."""
    return [(text, json.loads(files)) for text, files in home.rows("SELECT text, files FROM outbox ORDER BY id")]


@pytest.mark.parametrize("silence", ["NO_REPLY", "**no_reply**", "HEARTBEAT_OK.", "```\nNO_REPLY\n```"])
async def test_a_turn_may_end_with_nothing_to_say(tmp_path: Path, silence: str) -> None:
    async with running(tmp_path, ScriptedProvider(silence, "Here I am."), plugins=MINE) as home:
        await home.say("thanks")
        await home.app.conversations.idle()
        assert home.channel.ended == [TurnEnded("", "answered", home.channel.ended[0].usage)]
        assert not [event for _, event in home.channel.events if isinstance(event, TextDelta)]
        assert notices(home) == ["(nothing to say)"]
        assert await home.ask("are you there?") == "Here I am."
        assert [one.text for one in home.history if isinstance(one, AssistantMessage)] == [silence, "Here I am."]
        assert home.rows("SELECT count(*) FROM outbox") == [(1,)]


async def test_a_token_beside_words_is_taken_off_and_the_words_stay(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Well done. NO_REPLY"), plugins=MINE) as home:
        assert await home.ask("look") == "Well done."


async def test_a_line_that_names_a_file_becomes_the_file(tmp_path: Path) -> None:
    answer = "Here they are.\n\nMEDIA:./chart.png\nMEDIA: `./b/a b.pdf`\n\nAnything else?"
    async with running(tmp_path, ScriptedProvider(answer, "`MEDIA:./chart.png`"), plugins=MINE) as home:
        first, second = put(home, "chart.png"), put(home, "b/a b.pdf")
        await home.say("charts")
        assert str(first) in await home.answer()
        assert rows(home) == [("Here they are.\n\nAnything else?", [str(first), str(second)])]
        assert home.channel.ended[-1].answer == "Here they are.\n\nAnything else?"
        await home.say("only the first")
        await home.answer()
        assert rows(home)[1:] == [("", [str(first)])]
        assert home.channel.ended[-1].answer == "chart.png"


async def test_where_no_notices_are_shown_it_is_said_below_the_answer_why_a_file_is_not_there(tmp_path: Path) -> None:
    provider, chat = ScriptedProvider("Here:\nMEDIA:./none.png"), FakeChannel("chat")
    async with running(tmp_path, provider, channel=chat, plugins=(*MINE, everybody_is("owner"))) as home:
        first, line, _, reason = (await home.ask("send it")).splitlines()
        assert (first, line) == ("Here:", "MEDIA:./none.png")
        assert reason.startswith("(not attached: ") and "none.png" in reason
        assert notices(home) == []


@pytest.mark.parametrize("path", TEXTS["a file that may not leave is not attached and its line stays"])
async def test_a_file_that_may_not_leave_is_not_attached_and_its_line_stays(tmp_path: Path, path: str) -> None:
    answer = f"Here:\nMEDIA:{path}"
    async with running(tmp_path, ScriptedProvider(answer), plugins=MINE) as home:
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


@pytest.mark.parametrize("text", TEXTS["what is code or talk about it is no file"])
def test_what_is_code_or_talk_about_it_is_no_file(text: str) -> None:
    left = attached(text, lambda path: f"/workspace/{path}")
    assert (left.text, left.files, left.problems) == (text, (), ())


def test_after_a_fence_lines_name_files_again() -> None:
    left = attached("```\nMEDIA:./a.png\n```\nMEDIA:./b.png\r\nMEDIA:./b.png", lambda path: path)
    assert left.files == ("./b.png",)
    assert left.text == "```\nMEDIA:./a.png\n```"


def test_the_files_of_one_answer_are_bounded() -> None:
    left = attached("\n".join(f"MEDIA:./{number}.png" for number in range(12)), lambda path: path)
    assert len(left.files) == 10
    assert left.text == "MEDIA:./10.png\nMEDIA:./11.png"
    assert len(left.problems) == 2


def test_a_workspace_around_the_home_sends_nothing_of_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "telegram").mkdir(parents=True)
    for name in ("state.db", "notes.txt", "telegram/keys"):
        (home / name).write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    around = MediaFiles(Reach(tmp_path, closed=(home,)), 100).sendable
    assert around("notes.txt") == str((tmp_path / "notes.txt").resolve())
    for path in ("home/state.db", "home/notes.txt", "home/telegram/keys"):
        with pytest.raises(ToolError, match="belongs to the program"):
            around(path)


def streamed(*pieces: str) -> list[str]:
    filters, shown = [(None, FileLineFilter()), (None, SilenceFilter())], list[str]()
    turn = SimpleNamespace(show=lambda event: shown.append(event.text))
    stream: Any = Stream(turn, SimpleNamespace(filters=lambda turn: filters))  # type: ignore[arg-type]
    for piece in pieces:
        stream(TextDelta(piece))
    stream.end()
    return shown


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("said", "shown"), TEXTS["a stream never shows what is not said"])
def test_a_stream_never_shows_what_is_not_said(said: str, shown: str, size: int) -> None:
    assert "".join(streamed(*(said[start : start + size] for start in range(0, len(said), size)))) == shown


def test_the_text_of_a_long_line_streams_as_it_comes() -> None:
    assert streamed("It ", "is ", "five") == ["It ", "is ", "five"]


async def test_each_round_of_a_turn_has_a_filter_of_its_own(tmp_path: Path) -> None:
    calling = Say("Look:\nMEDIA:./a.png", (("nothing", {}),))
    async with running(tmp_path, ScriptedProvider(calling, "Look:\nMEDIA:./b.png\nNice."), plugins=MINE) as home:
        put(home, "b.png")
        assert (await home.ask("look")).startswith("Look:\nNice.")
        shown = "".join(event.text for _, event in home.channel.events if isinstance(event, TextDelta))
        assert shown == "Look:\nLook:\nNice."
