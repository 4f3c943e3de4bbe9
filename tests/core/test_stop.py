"""Stopping: at once, with a legal history, and with word of what was not begun."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import AssistantMessage, Attachment, Image, UserMessage
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.tool import Tool, tool
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.shell.tools import shell_tools
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.core.house import assert_legal, house, results


class Slow:
    """A tool that waits for ever, and says when it has begun and when it was cancelled."""

    def __init__(self) -> None:
        self.begun, self.cancelled, self.cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.stubborn = False

    def tools(self) -> list[Tool]:
        async def wait() -> str:
            """Waits."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
                if self.stubborn:
                    await self.cleaned.wait()
            return "never"

        async def count(number: int) -> str:
            """Ends at once."""
            return f"counted {number}"

        return [tool(wait), tool(count)]


@pytest.mark.parametrize("word", ["/stop", "stop", " /STOP ", "Stop!!", "/stop now please"])
def test_a_stop_during_the_stream_keeps_what_was_said(tmp_path: Path, word: str) -> None:
    async def story() -> None:
        hang = Hang("The first half")
        async with house(tmp_path, ScriptedProvider(hang)) as home:
            await home.say("tell me")
            await hang.reached.wait()
            started = time.monotonic()
            assert await home.ask(word) == "Stopped."
            assert time.monotonic() - started < 20
            last = home.history[-1]
            assert isinstance(last, AssistantMessage)
            assert last.text == "The first half"
            assert home.channel.ended == [TurnEnded("Stopped.", "cancelled")]

    asyncio.run(story())


def test_a_stop_before_the_first_word_leaves_no_empty_answer(tmp_path: Path) -> None:
    async def story() -> None:
        hang = Hang()
        with ScriptedProvider(hang, "Good.") as model:
            async with house(tmp_path, model) as home:
                await home.say("tell me")
                await hang.reached.wait()
                await home.ask("/stop")
                assert [type(message) for message in home.history] == [UserMessage, UserMessage]
                assert await home.ask("again") == "Good."

    asyncio.run(story())


def test_a_stop_during_a_tool_tells_the_model_what_ended_what_broke_off_and_what_never_began(tmp_path: Path) -> None:
    async def story() -> None:
        slow = Slow()
        three = Say("I count.", calls=(("count", {"number": 1}), ("wait", {}), ("count", {"number": 3})))
        with ScriptedProvider(three, "Went on.") as model:
            async with house(tmp_path, model, tools=slow.tools()) as home:
                await home.say("count")
                await slow.begun.wait()
                assert await home.ask("/stop") == "Stopped."
                assert slow.cancelled.is_set()
                assert_legal(home.history)
                texts = [result.text for result in results(home.history)]
                assert texts[0] == "counted 1"
                assert "may have been done in part" in texts[1]
                assert "not begun" in texts[2]
                assert await home.ask("go on") == "Went on."
                assert_legal(model.requests[1].history)

    asyncio.run(story())


def test_a_second_stop_while_a_tool_tidies_up_loses_nothing_of_the_record(tmp_path: Path) -> None:
    async def story() -> None:
        slow = Slow()
        slow.stubborn = True
        two = Say(calls=(("count", {"number": 1}), ("wait", {})))
        async with house(tmp_path, ScriptedProvider(two), tools=slow.tools()) as home:
            await home.say("count")
            await slow.begun.wait()
            await home.say("/stop")
            await slow.cancelled.wait()
            await home.say("/stop")
            assert await home.answer() == "Stopped."
            assert_legal(home.history)
            assert results(home.history)[0].text == "counted 1"
            slow.cleaned.set()

    asyncio.run(story())


def test_a_stop_ends_a_running_command_within_a_second(tmp_path: Path) -> None:
    async def story() -> None:
        shell = shell_tools(Workspace(tmp_path / "workspace"), {"PATH": "/usr/bin:/bin"})
        step = call("exec", {"command": "mkfifo gate; echo > begun; cat gate", "timeout_seconds": 60})
        async with house(tmp_path, ScriptedProvider(step), tools=shell) as home:
            await home.say("sleep")
            while not (home.workspace / "begun").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.01)
            started = time.monotonic()
            assert await home.ask("/stop") == "Stopped."
            assert time.monotonic() - started < 20
            assert_legal(home.history)
            assert [result.is_error for result in results(home.history)] == [True]

    asyncio.run(story())


@pytest.mark.parametrize("word", ["/stop", "stop", "/panic"])
def test_a_stop_that_cannot_be_kept_on_a_full_disk_ends_what_runs_all_the_same(tmp_path: Path, word: str) -> None:
    async def story() -> None:
        slow = Slow()
        with ScriptedProvider(call("wait"), "Good.") as model:
            async with house(tmp_path, model, tools=slow.tools()) as home:
                await home.say("go")
                await slow.begun.wait()
                home.store.db.execute("PRAGMA query_only = ON")
                with pytest.raises(StoreError, match="could not be saved"):
                    await home.say(word)
                await slow.cancelled.wait()
                await home.assistant.idle()
                home.store.db.execute("PRAGMA query_only = OFF")
                assert [ended.reason for ended in home.channel.ended] == ["failed"]
                assert await home.ask("and now?") == "Good."
                assert_legal(model.requests[1].history)

    asyncio.run(story())


def test_a_stop_drops_the_queue_and_says_what_was_not_begun(tmp_path: Path) -> None:
    async def story() -> None:
        hang = Hang()
        with ScriptedProvider(hang, "Fresh.") as model:
            async with house(tmp_path, model) as home:
                await home.say("first")
                await hang.reached.wait()
                await home.say("second")
                await home.say("third, which is " + "very " * 40 + "long")
                answer = await home.ask("/stop")
                assert answer.startswith("Stopped. Not begun: second; third, which is very")
                assert len(answer) < 120
                assert Inbox(home.store, home.clock).waiting() == []
                assert await home.ask("new") == "Fresh."
                assert not any("second" in message.text for message in home.history)

    asyncio.run(story())


def test_a_stop_before_the_first_message_was_begun_names_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            await home.say("first")
            await home.say("/stop")
            assert "Not begun: first." in await home.answer()

    asyncio.run(story())


def test_a_stop_while_a_picture_is_opened_ends_that_message_for_good(tmp_path: Path) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        opening = asyncio.Event()
        import threading

        shut = threading.Event()

        def slow_picture(source: bytes | Path, name: str) -> Image:
            loop.call_soon_threadsafe(opening.set)
            shut.wait(10)
            return Image("image/png", b"", name)

        (tmp_path / "a.png").write_bytes(b"x")
        picture = Attachment(str(tmp_path / "a.png"), "a.png", "image/png")
        async with house(tmp_path, ScriptedProvider(), open_picture=slow_picture) as home:
            await home.say("see", files=(picture,))
            await opening.wait()
            await home.say("/stop")
            try:
                assert (await home.answer()).startswith("Stopped.")
                assert Inbox(home.store, home.clock).waiting() == []
            finally:
                shut.set()

    asyncio.run(story())


def test_with_nothing_to_stop_it_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            assert await home.ask("/stop") == "Nothing is running."
            assert home.history == ()

    asyncio.run(story())


def test_a_stop_in_one_chat_leaves_the_other_alone(tmp_path: Path) -> None:
    async def story() -> None:
        one, go = Hang(), asyncio.Event()

        async def wait() -> str:
            """Waits for the story."""
            await go.wait()
            return "waited"

        with ScriptedProvider(one, call("wait"), "Done.") as model:
            async with house(tmp_path, model, tools=[tool(wait)]) as home:
                await home.say("a", chat="one")
                await one.reached.wait()
                await home.say("b", chat="two")
                await home.ask("/stop", chat="one")
                go.set()
                assert await home.answer() == "Done."

    asyncio.run(story())


def test_closing_the_program_ends_the_turn_legally_and_keeps_what_waits(tmp_path: Path) -> None:
    async def story() -> None:
        slow = Slow()
        async with house(tmp_path, ScriptedProvider(call("wait")), tools=slow.tools()) as home:
            await home.say("first")
            await slow.begun.wait()
            await home.say("second")
        assert home.channel.ended == [TurnEnded("Stopped.", "cancelled")]
        async with house(tmp_path, ScriptedProvider("Second it is.")) as home:
            assert await home.answer() == "Second it is."
            assert_legal(home.history)

    asyncio.run(story())
