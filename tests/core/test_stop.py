"""Stopping: at once, with a legal history, and with word of what was not begun."""

import asyncio
from pathlib import Path

import pytest

from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import AssistantMessage, UserMessage
from nanoclaw.core.plugin import Draft, Plugin, Tool, Turn
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.program import Gate, assert_legal, bare, results


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
async def test_a_stop_during_the_stream_keeps_what_was_said(tmp_path: Path, word: str) -> None:
    hang = Hang("The first half")
    async with bare(tmp_path, ScriptedProvider(hang)) as program:
        await program.say("tell me")
        await hang.reached.wait()
        assert await program.ask(word) == "Stopped."
        last = program.history[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == "The first half"
        assert program.channel.ended == [TurnEnded("Stopped.", "cancelled")]


async def test_a_stop_before_the_first_word_leaves_no_empty_answer(tmp_path: Path) -> None:
    hang = Hang()
    with ScriptedProvider(hang, "Good.") as model:
        async with bare(tmp_path, model) as program:
            await program.say("tell me")
            await hang.reached.wait()
            await program.ask("/stop")
            assert [type(message) for message in program.history] == [UserMessage, UserMessage]
            assert await program.ask("again") == "Good."


async def test_a_stop_during_a_tool_tells_the_model_what_ended_what_broke_off_and_what_never_began(
    tmp_path: Path,
) -> None:
    slow = Slow()
    three = Say("I count.", calls=(("count", {"number": 1}), ("wait", {}), ("count", {"number": 3})))
    with ScriptedProvider(three, "Went on.") as model:
        async with bare(tmp_path, model, tools=slow.tools()) as program:
            await program.say("count")
            await slow.begun.wait()
            assert await program.ask("/stop") == "Stopped."
            assert slow.cancelled.is_set()
            assert_legal(program.history)
            texts = [result.text for result in results(program.history)]
            assert texts[0] == "counted 1"
            assert "may have been partly done" in texts[1]
            assert "not started" in texts[2]
            assert await program.ask("go on") == "Went on."
            assert_legal(model.requests[1].history)


async def test_a_second_stop_while_a_tool_tidies_up_loses_nothing_of_the_record(tmp_path: Path) -> None:
    slow = Slow()
    slow.stubborn = True
    two = Say(calls=(("count", {"number": 1}), ("wait", {})))
    async with bare(tmp_path, ScriptedProvider(two), tools=slow.tools()) as program:
        await program.say("count")
        await slow.begun.wait()
        await program.say("/stop")
        await slow.cancelled.wait()
        await program.say("/stop")
        assert await program.answer() == "Stopped."
        assert_legal(program.history)
        assert results(program.history)[0].text == "counted 1"
        slow.cleaned.set()


@pytest.mark.parametrize("word", ["/stop", "stop", "/panic"])
async def test_a_stop_that_cannot_be_kept_on_a_full_disk_ends_what_runs_all_the_same(tmp_path: Path, word: str) -> None:
    slow = Slow()
    with ScriptedProvider(call("wait"), "Good.") as model:
        async with bare(tmp_path, model, tools=slow.tools()) as program:
            await program.say("go")
            await slow.begun.wait()
            program.app.store.db.execute("PRAGMA query_only = ON")
            with pytest.raises(StoreError, match="could not be saved"):
                await program.say(word)
            await slow.cancelled.wait()
            await program.app.conversations.idle()
            program.app.store.db.execute("PRAGMA query_only = OFF")
            assert [ended.reason for ended in program.channel.ended] == ["failed"]
            assert await program.ask("and now?") == "Good."
            assert_legal(model.requests[1].history)


async def test_a_stop_drops_the_queue_and_says_what_was_not_begun(tmp_path: Path) -> None:
    hang = Hang("I begin")
    with ScriptedProvider(hang, "Fresh.") as model:
        async with bare(tmp_path, model) as program:
            await program.say("first")
            await hang.reached.wait()
            await program.say("second")
            await program.say("third, which is " + "very " * 40 + "long")
            answer = await program.ask("/stop")
            assert answer.startswith("Stopped. Not begun: second; third, which is very")
            assert len(answer) < 120
            assert program.app.inbox.waiting() == []
            assert await program.ask("new") == "Fresh."
            assert not any("second" in message.text for message in program.history)


async def test_a_stop_before_the_first_message_was_begun_names_it(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider()) as program:
        await program.say("first")
        await program.say("/stop")
        assert "Not begun: first." in await program.answer()


async def test_a_stop_while_what_came_with_a_message_is_fetched_ends_that_message_for_good(tmp_path: Path) -> None:
    fetching = asyncio.Event()

    class Fetching(Plugin):
        name = "fetching"

        async def before_turn(self, draft: Draft, turn: Turn) -> None:
            fetching.set()
            await asyncio.Event().wait()

    async with bare(tmp_path, ScriptedProvider(), plugins=[Fetching]) as program:
        await program.say("see")
        await fetching.wait()
        assert await program.ask("/stop") == "Stopped."
        assert program.app.inbox.waiting() == []


async def test_a_stop_in_one_chat_leaves_the_other_alone(tmp_path: Path) -> None:
    one, gate = Hang(), Gate()
    with ScriptedProvider(one, call("wait"), "Done.") as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("a", chat="one")
            await one.reached.wait()
            await program.say("b", chat="two")
            await program.ask("/stop", chat="one")
            gate.open.set()
            assert await program.answer() == "Done."


async def test_closing_the_program_ends_the_turn_legally_and_keeps_what_waits(tmp_path: Path) -> None:
    slow = Slow()
    async with bare(tmp_path, ScriptedProvider(call("wait")), tools=slow.tools()) as program:
        await program.say("first")
        await slow.begun.wait()
        await program.say("second")
    assert program.channel.ended == [TurnEnded("Stopped.", "cancelled")]
    async with bare(tmp_path, ScriptedProvider("Second it is.")) as program:
        assert await program.answer() == "Second it is."
        assert_legal(program.history)
