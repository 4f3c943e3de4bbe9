"""Messages that come while a turn runs, models that are down, and the great stop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import ProviderRefused, ProviderUnavailable
from nanoclaw.core.events import Joined, Notice, Queued
from nanoclaw.core.messages import Attachment, Inbound, UserMessage
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.tool import Tool, tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.core.house import MAIN, HandClock, House, assert_legal, house

DOWN = ProviderUnavailable("the model cannot be reached")
KEPT = "I can't reach the model. Your message is kept, and I answer when it is back; /stop drops it."


class Gate:
    """A tool that waits until it is opened."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    def tools(self) -> list[Tool]:
        async def wait() -> str:
            """Waits."""
            self.reached.set()
            await self.open.wait()
            return "waited"

        return [tool(wait)]


def said(home: House) -> list[str]:
    """What the person said, as the model is sent it."""
    return [item.text for item in home.history if isinstance(item, UserMessage) and item.origin == "person"]


# -- steering


def test_what_comes_while_tools_run_reaches_the_model_after_them_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        gate = Gate()
        with ScriptedProvider(call("wait"), "Done, with both.") as model:
            async with house(tmp_path, model, tools=gate.tools()) as home:
                await home.say("begin")
                await gate.reached.wait()
                await home.say("and this")
                await home.say("and that")
                gate.open.set()
                assert await home.answer() == "Done, with both."
                await home.assistant.idle()
                assert said(home) == ["begin", "and this", "and that"]
                assert model.requests[1].history[-1].text == "and that"
                assert_legal(home.history)
                (joined,) = [event for _, event in home.channel.events if isinstance(event, Joined)]
                waited = tuple(event.external_id for _, event in home.channel.events if isinstance(event, Queued))
                assert joined.external_ids == waited and len(waited) == 2
                assert Inbox(home.store, home.clock).waiting() == []
                assert home.channel.sent.empty()

    asyncio.run(story())


def test_a_message_that_waits_reaches_the_model_as_it_was_changed_and_one_that_was_begun_as_it_was(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        gate = Gate()
        with ScriptedProvider(call("wait"), "Done.") as model:
            async with house(tmp_path, model, tools=gate.tools()) as home:
                await home.say("begin")
                await gate.reached.wait()
                await home.say("by bread")
                inbox = Inbox(home.store, home.clock)
                (begun,), ((_, second),) = inbox.open_turns(), inbox.waiting()
                first = begun.inbound
                for one, text in ((first, "/stop"), (second, "buy bread")):
                    message = replace(one.message, text=text)
                    await home.assistant.deliver(replace(one, message=message, is_edit=True))
                gate.open.set()
                assert await home.answer() == "Done."
                assert said(home) == ["begin", "buy bread"]
                assert model.requests[1].history[-1].text == "buy bread"

    asyncio.run(story())


@pytest.mark.parametrize("word", ["Stop!", "/stop now"])
def test_a_message_that_is_changed_to_a_stop_while_it_waits_is_one(tmp_path: Path, word: str) -> None:
    """What is not begun is named as it reads now."""

    async def story() -> None:
        gate = Gate()
        with ScriptedProvider(call("wait")) as model:
            async with house(tmp_path, model, tools=gate.tools()) as home:
                await home.say("begin")
                await gate.reached.wait()
                for text in ("make a file", "by bread"):
                    await home.say(text)
                (_, first), (_, second) = Inbox(home.store, home.clock).waiting()
                for one, text in ((second, "buy bread"), (first, word)):
                    message = replace(one.message, text=text)
                    await home.assistant.deliver(replace(one, message=message, is_edit=True))
                assert await home.answer() == "Stopped. Not begun: buy bread."
                await home.assistant.idle()
                assert said(home) == ["begin"]
                assert Inbox(home.store, home.clock).waiting() == []

    asyncio.run(story())


def test_a_stop_that_an_earlier_process_kept_drops_what_was_said_before_it(tmp_path: Path) -> None:
    """So it is with what comes while `nanoclaw link` alone is there."""

    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            inbox = Inbox(home.store, home.clock)
            for number, text in enumerate(("make a file", "stop", "hello")):
                inbox.accept(Inbound(MAIN, "me", f"m{number}", UserMessage(text, home.clock())))
        with ScriptedProvider("Hi.") as model:
            async with house(tmp_path, model) as home:
                assert await home.answer() == "Nothing is running. Not begun: make a file."
                assert await home.answer() == "Hi."
                assert said(home) == ["hello"]

    asyncio.run(story())


def test_a_message_that_is_changed_to_a_command_while_it_waits_is_carried_out(tmp_path: Path) -> None:
    async def story() -> None:
        gate = Gate()
        with ScriptedProvider(call("wait"), "Done.") as model:
            async with house(tmp_path, model, tools=gate.tools()) as home:
                await home.say("begin")
                await gate.reached.wait()
                await home.say("new")
                ((_, waits),) = Inbox(home.store, home.clock).waiting()
                await home.assistant.deliver(replace(waits, message=replace(waits.message, text="/new"), is_edit=True))
                gate.open.set()
                assert await home.answer() == "Done."
                assert (await home.answer()).startswith("A new conversation.")

    asyncio.run(story())


def test_after_a_restart_a_message_that_waited_says_what_it_was_changed_to(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider(Hang())) as home:
            await home.say("by bread")
            inbox = Inbox(home.store, home.clock)
            ((_, waits),) = inbox.waiting()
            file = Attachment("", "list.txt", "text/plain", "r1", 7)
            changed = replace(waits, message=replace(waits.message, text="buy bread"), attachments=(file,))
            await home.assistant.deliver(replace(changed, is_edit=True))
            await home.assistant.deliver(replace(changed, external_id="unheard of", is_edit=True))
            assert [one for _, one in inbox.waiting()] == [changed]

    asyncio.run(story())


def test_what_comes_while_the_last_answer_is_written_has_an_answer_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider("One.", "Two.", "Three.") as model:
            async with house(tmp_path, model) as home:
                for text in ("first", "second", "third"):
                    await home.say(text)
                assert [await home.answer() for _ in range(3)] == ["One.", "Two.", "Three."]

    asyncio.run(story())


def test_what_was_written_while_the_program_was_off_is_not_mixed_into_a_turn(tmp_path: Path) -> None:
    async def story() -> None:
        clock, gate = HandClock(), Gate()
        with ScriptedProvider(call("wait"), "One.", "Two.") as model:
            async with house(tmp_path, model, tools=gate.tools(), clock=clock) as home:
                await home.say("first")
                clock.now -= timedelta(minutes=5)
                await home.say("written five minutes ago")
                clock.now += timedelta(minutes=5)
                gate.open.set()
                assert [await home.answer() for _ in range(2)] == ["One.", "Two."]

    asyncio.run(story())


def test_fifty_messages_that_came_while_the_program_was_off_are_answered_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            inbox, clock = Inbox(home.store, home.clock), home.clock
            for number in range(50):
                inbox.accept(Inbound(MAIN, "me", str(number), UserMessage(f"question {number}", clock())))
        with ScriptedProvider(*(f"answer {number}" for number in range(50))) as model:
            async with house(tmp_path, model) as home:
                assert [await home.answer() for _ in range(50)] == [f"answer {number}" for number in range(50)]
                assert said(home) == [f"question {number}" for number in range(50)]

    asyncio.run(story())


def test_with_followup_all_that_came_meanwhile_is_answered_by_one_next_turn(tmp_path: Path) -> None:
    async def story() -> None:
        gate = Gate()
        with ScriptedProvider(call("wait"), "One.", "Both.") as model:
            async with house(tmp_path, model, tools=gate.tools(), queue="followup") as home:
                await home.say("begin")
                await gate.reached.wait()
                await home.say("and this")
                await home.say("and that")
                gate.open.set()
                assert [await home.answer() for _ in range(2)] == ["One.", "Both."]
                await home.assistant.idle()
                assert said(home) == ["begin", "and this", "and that"]
                assert home.channel.sent.empty()

    asyncio.run(story())


def test_a_stop_while_messages_have_joined_ends_the_turn_for_all_of_them(tmp_path: Path) -> None:
    async def story() -> None:
        gate, hang = Gate(), Hang("now")
        with ScriptedProvider(call("wait"), hang) as model:
            async with house(tmp_path, model, tools=gate.tools()) as home:
                await home.say("begin")
                await gate.reached.wait()
                await home.say("joins")
                gate.open.set()
                await hang.reached.wait()
                await home.say("waits")
                assert await home.ask("/stop") == "Stopped. Not begun: waits."
                assert Inbox(home.store, home.clock).open_turns() == []
                assert Inbox(home.store, home.clock).waiting() == []
                assert_legal(home.history)

    asyncio.run(story())


# -- a model that is down


def test_a_message_is_kept_acknowledged_once_and_answered_when_the_model_is_back(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN, DOWN, DOWN, "Here I am again.") as model:
            async with house(tmp_path, model, knock_seconds=(0,)) as home:
                assert await home.ask("hello?") == KEPT
                assert await home.answer() == "Here I am again."
                assert said(home) == ["hello?"]
                assert Inbox(home.store, home.clock).open_turns() == []

    asyncio.run(story())


def test_a_kept_message_is_answered_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN) as model:
            async with house(tmp_path, model) as home:
                assert await home.ask("hello?") == KEPT
        with ScriptedProvider(DOWN, "Back.") as model:
            async with house(tmp_path, model, knock_seconds=(0,)) as home:
                assert await home.answer() == "Back."
                assert said(home) == ["hello?"]

    asyncio.run(story())


def test_the_next_message_asks_the_model_at_once_and_is_answered_with_the_kept_one(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN, "Both.") as model:
            async with house(tmp_path, model) as home:
                assert await home.ask("first") == KEPT
                assert await home.ask("second") == "Both."
                assert said(home) == ["first", "second"]
                assert_legal(home.history)

    asyncio.run(story())


def test_a_model_that_goes_away_between_rounds_keeps_what_the_tools_did_and_repeats_none_of_it(tmp_path: Path) -> None:
    async def story() -> None:
        done = []

        async def act() -> str:
            """Acts."""
            done.append(1)
            return "acted"

        with ScriptedProvider(call("act"), DOWN, "All done.") as model:
            async with house(tmp_path, model, tools=[tool(act)], knock_seconds=(0,)) as home:
                assert await home.ask("act") == KEPT
                assert await home.answer() == "All done."
                assert done == [1]

    asyncio.run(story())


def test_a_stop_drops_what_waits_for_the_model(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN, "Fine.") as model:
            async with house(tmp_path, model) as home:
                assert await home.ask("hello?") == KEPT
                assert await home.ask("/stop") == "Nothing is running. Not begun: hello?."
                assert await home.ask("and now?") == "Fine."

    asyncio.run(story())


def test_a_new_conversation_says_what_it_leaves_unanswered(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN, "Fine.") as model:
            async with house(tmp_path, model) as home:
                await home.ask("hello?")
                assert (await home.ask("/new")).endswith("Not answered: hello?.")
                assert await home.ask("and now?") == "Fine."
                assert said(home) == ["and now?"]

    asyncio.run(story())


def test_a_refusal_is_told_and_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(ProviderRefused("the key is wrong")) as model:
            async with house(tmp_path, model) as home:
                assert await home.ask("hello?") == "The model gave no answer: the key is wrong"
                assert Inbox(home.store, home.clock).open_turns() == []

    asyncio.run(story())


def test_where_nobody_waits_for_a_late_answer_the_failure_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN) as model:
            async with house(tmp_path, model, waits=lambda address: False) as home:
                assert await home.ask("hello?") == "The model gave no answer: the model cannot be reached"

    asyncio.run(story())


@pytest.mark.parametrize("command", ["/help", "/status", "/context", "/why", "/model", "/skill"])
def test_commands_work_while_the_model_is_down(tmp_path: Path, command: str) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN) as model:
            async with house(tmp_path, model) as home:
                assert await home.ask("hello?") == KEPT
                assert "went wrong" not in await home.ask(command)

    asyncio.run(story())


# -- the process is told to end


def test_a_turn_that_is_left_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async def story() -> None:
        hang = Hang("I was going to say")
        with ScriptedProvider(Say(calls=(("write_file", {"path": "a.txt", "content": "a"}),)), hang) as model:
            async with house(tmp_path, model) as home:
                await home.say("write it")
                await hang.reached.wait()
                await home.assistant.close(leave=True)
                assert home.channel.sent.empty()
        with ScriptedProvider("Written.") as model:
            async with house(tmp_path, model) as home:
                assert (await home.answer()).endswith("\n\nWritten.")
                assert said(home) == ["write it"]
                assert_legal(home.history)

    asyncio.run(story())


def test_what_ran_when_the_program_was_told_to_end_is_named_at_the_next_start(tmp_path: Path) -> None:
    async def story() -> None:
        gate = Gate()
        with ScriptedProvider(call("wait")) as model:
            async with house(tmp_path, model, tools=gate.tools()) as home:
                await home.say("wait for it")
                await gate.reached.wait()
                await home.assistant.close(leave=True)
        async with house(tmp_path, ScriptedProvider()) as home:
            assert await home.answer() == (
                "I was interrupted while I worked on “wait for it”. This was running and may have been done in part: "
                "`wait`. I did not repeat it. Shall I go on?"
            )
            assert_legal(home.history)

    asyncio.run(story())


# -- panic


def test_panic_stops_everything_and_holds_what_comes_until_resume_over_restarts(tmp_path: Path) -> None:
    async def story() -> None:
        hang = Hang("long")
        with ScriptedProvider(hang) as model:
            async with house(tmp_path, model) as home:
                await home.say("work", chat="other")
                await hang.reached.wait()
                await home.say("/panic")
                texts = {await home.answer(), await home.answer()}
                frozen = "Everything is frozen: nothing is sent or started until /resume, also after a restart."
                assert texts == {"Stopped.", f"{frozen} Stopped: 1 running."}
                kept = "Everything is frozen by /panic. This is kept until /resume."
                assert await home.ask("are you there?") == kept
        with ScriptedProvider("I am.") as model:
            async with house(tmp_path, model) as home:
                await home.assistant.idle()
                assert "under test" in await home.ask("/status")
                assert model.requests == []
                await home.say("/resume")
                assert {await home.answer(), await home.answer()} == {
                    "Going on. What waited is sent and answered now.",
                    "I am.",
                }
                assert await home.ask("/resume") == "Nothing is frozen."

    asyncio.run(story())


def test_panic_holds_what_was_to_be_sent(tmp_path: Path) -> None:
    async def story() -> None:
        clock = HandClock()
        with ScriptedProvider("Sent too late.") as model:
            async with house(tmp_path, model, clock=clock) as home:
                home.channel.broken = lambda outbound: outbound.text == "Sent too late."
                await home.say("hi")
                await home.assistant.idle()
                home.channel.broken = lambda outbound: False
                assert (await home.ask("/panic")).startswith("Everything is frozen")
                clock.now += timedelta(hours=1)
                await home.delivery.flush("terminal")
                assert home.channel.sent.empty()
                await home.say("/resume")
                assert {await home.answer(), await home.answer()} == {
                    "Sent too late.",
                    "Going on. What waited is sent and answered now.",
                }

    asyncio.run(story())


def test_a_turn_that_goes_on_says_so_on_the_screen(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(DOWN) as model:
            async with house(tmp_path, model) as home:
                await home.ask("hello?")
        with ScriptedProvider("Back.") as model:
            async with house(tmp_path, model) as home:
                await home.answer()
                notices = [event.text for _, event in home.channel.events if isinstance(event, Notice)]
                assert "going on with: “hello?”" in notices

    asyncio.run(story())
