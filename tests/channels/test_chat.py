"""Answers that the terminal awaits, without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanoclaw.channels.terminal.chat import OWN_COMMANDS, OpenMessages, Terminal
from nanoclaw.channels.terminal.relay import Relay
from nanoclaw.core.channel import Channel
from nanoclaw.core.events import Event, Notice, TextDelta, ToolStarted, TurnBegan, TurnEnded, TurnPaused
from nanoclaw.core.messages import Address, Inbound, Outbound, ToolCall

HERE = Address("terminal", "main")


def reply(text: str = "yes", reply_to: str = "") -> Outbound:
    return Outbound(HERE, text, reply_to=reply_to)


def waiting(*ids: str) -> OpenMessages:
    waiting = OpenMessages()
    for one in ids:
        waiting.add(one)
    return waiting


def test_a_reply_alone_is_an_answer() -> None:
    one = waiting("a", "b")
    one.sent(reply(reply_to="a"))
    assert one.busy
    one.sent(reply(reply_to="b"))
    assert not one.busy


def test_a_turn_is_over_with_its_answer() -> None:
    one = waiting("a")
    one.saw(TextDelta("yes"))
    one.sent(reply("from a tool"))
    one.saw(TurnEnded("yes", "answered"))
    assert one.busy
    one.sent(reply())
    assert not one.busy


def test_while_a_turn_waits_for_the_owner_nothing_is_busy() -> None:
    one = waiting("a")
    one.saw(TextDelta("I ask first"))
    one.saw(TurnPaused())
    assert not one.busy
    one.add("answer")
    one.sent(reply(reply_to="answer"))
    one.saw(TurnBegan("a"))
    assert one.busy
    one.saw(TurnEnded("Blue.", "answered"))
    one.sent(reply(reply_to="a"))
    assert not one.busy


def test_what_came_before_a_message_that_begins_is_no_longer_awaited() -> None:
    one = waiting("a")
    one.saw(TurnBegan("a"))
    one.saw(TurnPaused())
    one.add("/panic")
    one.sent(reply("Stopped."))
    one.sent(reply("Everything is frozen.", reply_to="/panic"))
    one.add("b")
    one.saw(TurnBegan("b"))
    one.saw(TurnEnded("Hello.", "answered"))
    one.sent(reply("Hello.", reply_to="b"))
    assert not one.busy


def test_an_answer_to_an_older_message_ends_no_wait() -> None:
    one = waiting("a")
    one.saw(TurnEnded("yes", "answered"))
    one.sent(reply(reply_to="from the last run"))
    assert one.busy


def test_an_answer_that_does_not_come_is_given_up() -> None:
    one = waiting("a", "b")
    one.saw(TurnEnded("the disk is full", "failed"))
    one.give_up()
    one.give_up()
    assert one.busy
    one.sent(reply(reply_to="b"))
    assert not one.busy


def test_a_stop_drops_what_was_queued() -> None:
    one = waiting("a", "b", "/stop")
    one.saw(TextDelta("ye"))
    one.saw(TurnEnded("Stopped.", "cancelled"))
    one.sent(reply("Stopped.", reply_to="a"))
    assert not one.busy


@pytest.mark.parametrize("said", ["Nothing is running.", "I was done.\n\nStopped."])
def test_nothing_waits_after_a_stop_that_came_too_late(said: str) -> None:
    one = waiting("a", "/stop")
    one.stop()
    one.saw(TurnEnded(said, "answered"))
    one.sent(reply(said, reply_to="a"))
    assert not one.busy


def test_what_is_typed_after_a_stop_is_still_awaited() -> None:
    one = waiting("a", "b", "/stop")
    one.stop()
    one.add("c")
    one.saw(TurnEnded("Stopped.", "cancelled"))
    one.sent(reply("Stopped.", reply_to="a"))
    assert one.busy
    one.sent(reply(reply_to="c"))
    assert not one.busy


def test_a_notice_and_a_reminder_begin_nothing() -> None:
    one = waiting()
    one.saw(Notice("loading"))
    one.sent(reply("tea"))
    assert not one.busy


def test_a_turn_with_nothing_to_say_leaves_no_answer_to_wait_for() -> None:
    one = OpenMessages()
    one.add("1")
    one.add("2")
    one.saw(TextDelta("…"))
    one.saw(TurnEnded("", "answered"))
    assert one.busy
    one.saw(TextDelta("…"))
    one.saw(TurnEnded("", "answered"))
    assert not one.busy


class FakeView:
    def __init__(self) -> None:
        self.seen: list[object] = []
        self.ready, self.left = asyncio.Event(), asyncio.Event()

    async def run(self, submit: Callable[..., str], interrupt: Callable[[], None]) -> None:
        self.submit, self.interrupt = submit, interrupt
        self.ready.set()
        await self.left.wait()

    def show(self, event: Event) -> None:
        self.seen.append(event)

    def say(self, text: str, reply_to: str = "") -> None:
        self.seen.append(text)

    def note(self, line: str) -> None:
        self.seen.append(line)

    def busy(self, busy: bool) -> None:
        self.is_busy = busy

    def stopping(self) -> None:
        self.seen.append("drop what waits")

    def cut_off(self) -> None:
        self.seen.append("cut off")

    def type(self, text: str) -> bool:
        return True

    def leave(self) -> None:
        self.left.set()


def terminal(view: FakeView, folder: Path) -> Terminal:
    return Terminal("main", history_file=folder / "history", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC), view=view)


async def test_the_terminal_is_a_channel(tmp_path: Path) -> None:
    channel: Channel = terminal(FakeView(), tmp_path)
    assert (channel.name, channel.hints.markup) == ("terminal", "markdown")


async def test_a_process_that_ends_leaves_no_tool_running_and_no_turn_to_wait_for(tmp_path: Path) -> None:
    view, heard = FakeView(), asyncio.Queue[Inbound]()
    sitting = terminal(view, tmp_path)
    relay = Relay(sitting)
    first = asyncio.create_task(relay.run(heard.put))
    await view.ready.wait()
    view.submit("hi")
    inbound = await heard.get()
    relay.show(HERE, ToolStarted(ToolCall("1", "exec", "{}")))
    first.cancel()
    await asyncio.wait([first])
    assert view.seen[-1] == "cut off" and view.is_busy, "its message has no answer yet"
    await relay.send(Outbound(HERE, "I was interrupted.", reply_to=inbound.external_id))
    assert not view.is_busy
    view.left.set()
    second = asyncio.create_task(relay.run(heard.put))
    await second
    assert view.seen.count("cut off") == 1, "whoever leaves is not cut off"


async def test_a_typed_line_is_handed_in_with_a_name_of_its_own_and_without_control_bytes(tmp_path: Path) -> None:
    view, heard = FakeView(), asyncio.Queue[Inbound]()
    running = asyncio.create_task(terminal(view, tmp_path).run(heard.put))
    await view.ready.wait()
    view.submit(" hi\x1b[2J\n")
    view.submit("   ")
    view.submit("hi")
    first, second = await heard.get(), await heard.get()
    assert (first.address, first.sender, first.message.text) == (HERE, "owner", "hi[2J")
    assert second.message.text == "hi" and first.external_id != second.external_id
    view.submit("/exit")
    await running
    assert heard.empty()


async def test_events_of_another_chat_are_not_shown(tmp_path: Path) -> None:
    view = FakeView()
    terminal(view, tmp_path).show(Address("telegram", "1"), TextDelta("x"))
    assert view.seen == []


async def test_an_unforeseen_error_of_deliver_ends_the_chat(tmp_path: Path) -> None:
    async def broken(inbound: Inbound) -> None:
        raise RuntimeError("bug")

    view = FakeView()
    running = asyncio.create_task(terminal(view, tmp_path).run(broken))
    await view.ready.wait()
    view.submit("hi")
    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], RuntimeError)


async def test_two_ctrl_c_during_a_turn_stop_and_leave(tmp_path: Path) -> None:
    view, heard = FakeView(), asyncio.Queue[Inbound]()
    running = asyncio.create_task(terminal(view, tmp_path).run(heard.put))
    await view.ready.wait()
    view.submit("hi")
    view.interrupt()
    assert [(await heard.get()).message.text, (await heard.get()).message.text] == ["hi", "/stop"]
    view.interrupt()
    await running


async def test_a_stop_tells_the_face_that_nothing_waits(tmp_path: Path) -> None:
    view, heard = FakeView(), asyncio.Queue[Inbound]()
    running = asyncio.create_task(terminal(view, tmp_path).run(heard.put))
    await view.ready.wait()
    for text in ("hi", "/stop", "Stop"):
        view.submit(text)
    assert view.seen == ["drop what waits"] * 2
    view.leave()
    await running


async def test_help_names_the_terminals_own_commands(tmp_path: Path) -> None:
    view, heard = FakeView(), asyncio.Queue[Inbound]()
    here = terminal(view, tmp_path)
    running = asyncio.create_task(here.run(heard.put))
    await view.ready.wait()
    view.submit("/help")
    question = await heard.get()
    await here.send(reply("a reminder"))
    await here.send(reply("- `/new`: start over", question.external_id))
    reminder, told = view.seen
    assert reminder == "a reminder" and "Alt-Up fetches" in str(told)
    assert str(told).startswith(f"- `/new`: start over\n- `/exit`: {OWN_COMMANDS['/exit']}")
    view.leave()
    await running


async def test_a_message_that_comes_again_under_its_key_is_shown_once(tmp_path: Path) -> None:
    """Its process was killed between the showing and the note of it; another text under that key is another message:
    the store was put back meanwhile."""
    view = FakeView()
    channel = terminal(view, tmp_path)
    for text, key in (("tea", "7.1"), ("tea", "7.1"), ("tea", "8.1"), ("milk", "7.1"), ("tea", "")):
        assert await channel.send(Outbound(HERE, text, key=key))
    assert view.seen == ["tea", "tea", "milk", "tea"]


async def test_what_nobody_took_in_is_named_when_the_person_leaves(tmp_path: Path) -> None:
    view = FakeView()
    running = asyncio.create_task(terminal(view, tmp_path).run(lambda inbound: asyncio.Event().wait()))  # type: ignore[arg-type, return-value]
    await view.ready.wait()
    view.submit("buy milk")
    view.submit("and tea")
    await asyncio.sleep(0)
    view.leave()
    await running
    assert view.seen == ["✗ not sent: buy milk", "✗ not sent: and tea"]
