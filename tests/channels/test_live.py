"""An answer while it grows: what a chat shows, when, and what is left of it in the end."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nanoclaw.channels.live import SIGNS, TYPING_SECONDS, LiveAnswers, Timer
from nanoclaw.core import events
from nanoclaw.core.channel import Hints
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import StatusLines, TextDelta, ToolFinished, ToolProgress, ToolStarted, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Outbound, ToolCall

CHAT = Address("chat", "1")


class Time(Timer):
    """Passes only by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, next(self._order), woken))
        await woken

    async def passes(self, seconds: float) -> None:
        end = self.seconds + seconds
        await settled()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.seconds, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
                await settled()
        self.seconds = end
        await settled()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Chat:
    """A screen that remembers: `shown` are its messages by id, `done` what was asked of it and when."""

    def __init__(self, time: Time, pause: float) -> None:
        self.time, self.pause = time, pause
        self.stayed: list[tuple[str, str]] = []
        self.shown: dict[str, str] = {}
        self.done: list[tuple[float, str, str]] = []
        self.broken: Callable[[str], Exception | None] = lambda what: None
        self.gate: asyncio.Event | None = None
        self._ids = itertools.count(1)

    def pause_seconds(self, chat: str) -> float:
        return self.pause

    async def typing(self, chat: str) -> None:
        self._note("typing", chat)

    async def write(self, chat: str, text: str, before: str) -> str:
        if self.gate:
            await self.gate.wait()
        self._note("write", text)
        id_ = before or f"m{next(self._ids)}"
        self.shown[id_] = text
        return id_

    async def erase(self, chat: str, id: str) -> None:
        self._note("erase", id)
        del self.shown[id]

    async def stay(self, chat: str, id: str, text: str) -> None:
        self.stayed.append((id, text))

    def of(self, what: str) -> list[tuple[float, str]]:
        return [(at, text) for at, kind, text in self.done if kind == what]

    def _note(self, what: str, text: str) -> None:
        self.done.append((self.time.now(), what, text))
        if error := self.broken(what):
            raise error


class Stage:
    def __init__(self, pause_seconds: float = 1.0, **hints: Any) -> None:
        self.time = Time()
        self.chat = Chat(self.time, pause_seconds)
        self.live = LiveAnswers(self.chat, Hints(**{"edits": True, **hints}), self.time)

    async def show(self, *events: events.Event, seconds: float = 0.0) -> None:
        for event in events:
            self.live.show(CHAT, event)
        await self.time.passes(seconds)


@asynccontextmanager
async def stage(**options: Any) -> AsyncIterator[Stage]:
    """Ends with a look whether a task is left."""
    before = asyncio.all_tasks()
    made = Stage(**options)
    yield made
    await made.live.aclose()
    assert asyncio.all_tasks() == before


def started(name: str = "exec") -> ToolStarted:
    return ToolStarted(ToolCall("c1", name, '{"command": "make secret"}'))


def finished(name: str = "exec") -> ToolFinished:
    return ToolFinished(ToolCall("c1", name, "{}"), "done", False, 1.0)


def answer(text: str = "All of it.", reply_to: str = "in-1", key: str = "7.1", files: tuple[str, ...] = ()) -> Outbound:
    return Outbound(CHAT, text, files, reply_to, key)


async def test_typing_is_shown_at_once_and_again_while_the_turn_runs() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"))
        assert on.chat.done == [(0.0, "typing", "1")]
        await on.show(seconds=13)
        assert [at for at, _ in on.chat.of("typing")] == [0, TYPING_SECONDS, 2 * TYPING_SECONDS, 3 * TYPING_SECONDS]
        await on.show(TurnEnded("Done.", "answered"), seconds=60)
        assert len(on.chat.done) == 4


async def test_nobody_types_while_a_turn_waits_for_the_owner_and_it_goes_on_in_the_same_message() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("I ask first."), seconds=3)
        before = len(on.chat.done)
        await on.show(events.TurnPaused(), seconds=3600)
        assert len(on.chat.done) == before
        await on.show(TurnBegan("in-1"), TextDelta("Blue."), seconds=3)
        assert list(on.chat.shown.values()) == ["Blue."]
        await on.show(TurnEnded("Blue.", "answered"))


async def test_lines_of_a_status_stand_above_what_is_said_and_change_in_one_message() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), StatusLines("todo", "to do: 0 of 2"), seconds=2)
        await on.show(TextDelta("I read."), StatusLines("todo", "to do: 1 of 2"), seconds=2)
        assert on.chat.shown == {"m1": "to do: 1 of 2\n\nI read."}
        await on.show(StatusLines("todo", ""), seconds=2)
        assert [text for _, text in on.chat.of("write")][0::2] == ["to do: 0 of 2", "I read."]
        await on.show(TurnEnded("All of it.", "answered"))
        assert await on.live.hand_over(answer()) == "m1"


async def test_where_there_are_no_edits_only_typing_is_shown() -> None:
    async with stage(edits=False) as on:
        await on.show(TurnBegan("in-1"), TextDelta("A heron."), ToolStarted(ToolCall("1", "exec", "{}")), seconds=30)
        await on.show(StatusLines("todo", "to do: 0 of 2"), seconds=30)
        await on.show(TextDelta("It flew."), TurnEnded("", "cancelled"), seconds=30)
        assert {what for _, what, _ in on.chat.done} == {"typing"}


async def test_a_sign_is_given_beside_the_turn_and_one_that_fails_disturbs_nothing() -> None:
    async with stage() as on:
        given: list[str] = []

        async def sign(name: str, error: Exception | None = None) -> None:
            if error:
                raise error
            given.append(name)

        on.live.beside("1", sign("none", Undeliverable("no such sign")))
        on.live.beside("1", sign("seen"))
        await settled()
        on.live.beside("1", sign("none", ChannelError("slow down", 60)))
        await settled()
        on.live.beside("1", sign("while the platform wants to be left alone"))
        await on.show(TurnBegan("in-1"))
        assert given == ["seen"] and on.chat.done == []


async def test_the_answer_grows_in_one_message_at_a_humane_rate_and_is_handed_over() -> None:
    async with stage(pause_seconds=2.0) as on:
        await on.show(TurnBegan("in-1"))
        for number in range(50):
            await on.show(events.ReasoningDelta("hm"), TextDelta(f"{number} "), seconds=0.1)
        await on.show(seconds=2)
        assert [at for at, _ in on.chat.of("write")] == [2, 4, 6]
        assert on.chat.shown == {"m1": " ".join(map(str, range(50)))}
        await on.show(TurnEnded("All of it.", "answered"))
        assert await on.live.hand_over(answer()) == "m1"
        assert await on.live.hand_over(answer()) == "m1"  # it could not be sent, and is tried again
        assert await on.live.hand_over(answer(key="7.2")) == ""
        assert await on.live.hand_over(answer(reply_to="")) == ""
        assert await on.live.hand_over(answer(reply_to="in-2")) == ""


@pytest.mark.parametrize("silence", ["NO_REPLY", "**NO_REPLY**", "no_reply.", "`HEARTBEAT_OK`", "[SILENT]", " \n"])
async def test_what_may_still_be_silence_is_not_shown(silence: str) -> None:
    async with stage(pause_seconds=0.1) as on:
        await on.show(TurnBegan("in-1"))
        for sign in silence:
            await on.show(TextDelta(sign), seconds=1)
        await on.show(TurnEnded("", "answered"), seconds=60)
        assert on.chat.of("write") == []


async def test_words_that_only_begin_like_silence_are_shown() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("No"), seconds=2)
        assert on.chat.shown == {}
        await on.show(TextDelta(", it is not."), seconds=2)
        assert on.chat.shown == {"m1": "No, it is not."}
        await on.show(TextDelta("\n\nNO_RE"), seconds=2)
        assert on.chat.shown == {"m1": "No, it is not."}


async def test_what_was_shown_of_a_turn_that_says_nothing_in_the_end_is_erased() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("Let me look."), seconds=1)
        await on.show(started(), TextDelta("NO_REPLY"), seconds=1)
        await on.show(TurnEnded("NO_REPLY", "answered"), seconds=1)
        assert on.chat.shown == {}
        assert await on.live.hand_over(answer()) == ""


async def test_what_was_said_before_a_turn_was_stopped_stays() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("Herons"), seconds=1)
        await on.show(TextDelta(" stand"), TurnEnded("Stopped.", "cancelled"))
        assert await on.live.hand_over(answer("Stopped.")) == ""
        assert on.chat.shown == {"m1": "Herons stand"}
        assert on.chat.stayed == [("m1", "Herons stand")]


async def test_a_line_about_tools_gives_way_to_what_is_said_of_the_stop() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), started("exec"), seconds=21)
        await on.show(TurnEnded("Stopped.", "cancelled"))
        assert await on.live.hand_over(answer("Stopped.")) == "m1"


async def test_what_cannot_be_erased_is_tried_again() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("Let me look."), seconds=1)
        on.chat.broken = lambda what: ChannelError("wait", retry_after=30) if what == "erase" else None
        await on.show(TurnEnded("", "answered"), seconds=1)
        on.chat.broken = lambda what: None
        await on.show(seconds=60)
        assert on.chat.shown == {}
        assert [at for at, _ in on.chat.of("erase")] == [1, 31]


async def test_a_line_is_shown_when_tools_run_long_without_a_word() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), started("read_file"), finished("read_file"), seconds=10)
        await on.show(started("exec"), seconds=9)
        assert on.chat.shown == {}
        await on.show(seconds=2)
        assert on.chat.shown == {"m1": "working: exec … · 10 s"}
        for number in range(100):
            await on.show(started(f"tool_{number}"), seconds=0.5)
        assert [at for at, _ in on.chat.of("write")] == [20, 40, 60]
        await on.show(TextDelta("Found it."), seconds=2)
        assert on.chat.shown == {"m1": "Found it."}


async def test_tools_that_run_side_by_side_have_a_line_each_below_what_was_said() -> None:
    async with stage() as on:
        calls = [ToolCall(f"c{number}", "delegate", "{}") for number in range(2)]
        await on.show(TurnBegan("in-1"), TextDelta("I ask two."), *map(ToolStarted, calls), seconds=1)
        for number, call in enumerate(calls):
            await on.show(ToolProgress(call, f"helper {number + 1}: reads"), seconds=0.1)
        await on.show(seconds=20)
        lines = "- delegate … helper 1: reads · 20 s\n- delegate … helper 2: reads · 20 s"
        assert on.chat.shown == {"m1": f"I ask two.\n\nworking:\n{lines}"}
        await on.show(ToolFinished(calls[0], "A", False, 21.0), seconds=20)
        assert on.chat.shown == {"m1": "I ask two.\n\nworking: delegate … helper 2: reads · 40 s"}
        await on.show(ToolFinished(calls[1], "B", False, 42.0), TextDelta("Both are fine."), seconds=2)
        assert on.chat.shown == {"m1": "I ask two.\n\nBoth are fine."}


async def test_the_line_while_tools_run_says_what_the_running_one_shows_and_is_renewed_as_seldom() -> None:
    async with stage() as on:
        begun = started("exec")
        await on.show(TurnBegan("in-1"), begun, seconds=1)
        for number in range(600):
            await on.show(ToolProgress(begun.call, f"line {number - 1}\nline {number} {'x' * 300}"), seconds=0.1)
        assert [at for at, _ in on.chat.of("write")] == pytest.approx([20, 40, 60], abs=0.2)
        (text,) = on.chat.shown.values()
        assert text.startswith("working: exec … line 5") and len(text) < 130 and "\n" not in text
        await on.show(ToolProgress(begun.call, "", 0.5), seconds=20)
        assert on.chat.shown == {"m1": "working: exec … 50 % · 80 s"}
        await on.show(finished("exec"), started("look"), seconds=20)
        assert on.chat.shown == {"m1": "working: look … · 19 s"}


async def test_of_a_text_that_is_too_long_the_first_piece_is_shown() -> None:
    async with stage(length=50, units="utf-16") as on:
        await on.show(TurnBegan("in-1"), TextDelta("```py\n"))
        for number in range(200):
            await on.show(TextDelta(f"x{number} = {number}\n"), seconds=0.1)
        (text,) = on.chat.shown.values()
        assert text.startswith("```py\nx0 = 0\n")
        assert text.endswith("\n```")
        assert len(text) <= 50
        assert max(at for at, _ in on.chat.of("write")) < 5


async def test_errors_of_the_platform_go_no_further() -> None:
    async with stage() as on:
        on.chat.broken = lambda what: ValueError("it is down")
        await on.show(TurnBegan("in-1"))
        for _ in range(20):
            await on.show(TextDelta("word "), seconds=5)
        assert len(on.chat.done) == 3  # then it is left alone
        await on.show(TurnEnded("word", "answered"), TurnBegan("in-2"))
        assert len(on.chat.done) == 4


async def test_a_chat_that_takes_nothing_is_left_alone_at_once() -> None:
    async with stage() as on:
        on.chat.broken = lambda what: Undeliverable("blocked")
        await on.show(TurnBegan("in-1"), TextDelta("word "), seconds=60)
        assert len(on.chat.done) == 1


async def test_a_platform_that_asks_for_a_pause_gets_it_in_all_chats() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("one"), seconds=1)
        on.live.show(Address("chat", "2"), TurnBegan("in-2"))
        on.live.show(Address("chat", "2"), TextDelta("other"))
        await on.show(seconds=0.5)
        on.chat.broken = lambda what: ChannelError("too many requests", retry_after=30)
        await on.show(TextDelta(" two"), seconds=0.5)  # it is the second chat's turn to hear of it
        on.chat.broken, before = lambda what: None, len(on.chat.done)
        on.live.show(Address("chat", "3"), TurnBegan("in-3"))
        await on.show(TextDelta(" three"), seconds=60)
        assert [text for at, _, text in on.chat.done if at == 2] == ["one two"]
        assert min(at for at, _, _ in on.chat.done[before:]) == 32
        assert on.chat.shown == {"m1": "one two three", "m2": "other"}


async def test_a_message_that_is_being_written_when_the_answer_comes_is_still_replaced() -> None:
    async with stage() as on:
        on.chat.gate = asyncio.Event()
        await on.show(TurnBegan("in-1"), TextDelta("word"), seconds=1)
        await on.show(TurnEnded("word", "answered"))
        handing = asyncio.ensure_future(on.live.hand_over(answer()))
        await settled()
        assert not handing.done()
        on.chat.gate.set()
        assert await handing == "m1"


async def test_a_message_that_is_being_written_when_the_turn_falls_silent_is_erased() -> None:
    async with stage() as on:
        on.chat.gate = asyncio.Event()
        await on.show(TurnBegan("in-1"), TextDelta("word"), seconds=1)
        await on.show(TurnEnded("", "answered"))
        on.chat.gate.set()
        await settled()
        assert on.chat.of("erase") == [(1.0, "m1")]
        assert on.chat.shown == {}


async def test_a_file_takes_no_texts_place() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("Here:"), seconds=1)
        await on.show(TurnEnded("Here:", "answered"))
        assert await on.live.hand_over(answer(files=("/w/a.png",))) == ""
        assert on.chat.shown == {}


async def test_what_is_said_in_the_midst_of_a_turn_takes_what_is_shown_and_the_turn_goes_on() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("Here is the first part."), seconds=1)
        assert await on.live.hand_over(answer(key="7.1")) == "m1"
        await on.show(started(), TextDelta("And the second."), seconds=2)
        await on.show(TurnEnded("And the second.", "answered"))
        assert await on.live.hand_over(answer(key="8.1")) == "m2"
        assert on.chat.shown["m2"] == "And the second."


async def test_a_turn_that_waited_for_its_model_goes_on_with_its_message() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("I thi"), seconds=1)
        await on.show(TurnEnded("I can't reach the model.", "failed"))
        await on.show(TurnBegan("in-1"), TextDelta("I think so."), seconds=1)
        assert on.chat.shown == {"m1": "I think so."}


async def test_a_stream_that_is_begun_anew_and_a_turn_that_is_not_ended_break_nothing() -> None:
    async with stage() as on:
        await on.show(TextDelta("for nobody"), started(), TurnEnded("x", "answered"))
        await on.show(TurnBegan("in-1"), TextDelta("one"), events.Notice("asking again"), TextDelta("one"), seconds=1)
        await on.show(TurnBegan("in-2"), TextDelta("two"), seconds=1)
        assert on.chat.shown == {"m1": "one\none", "m2": "two"}
        await on.show(TurnEnded("two", "answered"))
        assert await on.live.hand_over(answer(reply_to="in-1")) == "m1"
        assert await on.live.hand_over(answer(reply_to="in-2", key="8.1")) == "m2"


async def test_a_connection_that_is_lost_and_found_goes_on_with_the_same_message() -> None:
    async with stage() as on:
        await on.show(TurnBegan("in-1"), TextDelta("one "), seconds=1)
        await on.live.aclose()
        await on.show(seconds=60)
        assert len(on.chat.of("write")) == 1
        await on.show(TextDelta("two"), seconds=2)
        assert on.chat.shown == {"m1": "one two"}


async def test_nothing_is_kept_of_ten_thousand_turns() -> None:
    async with stage() as on:
        for number in range(10_000):
            address = Address("chat", str(number))
            on.live.show(address, TurnBegan(f"in-{number}"))
            on.live.show(address, TextDelta("word " * 10))
            on.live.show(address, TurnEnded("word", "answered"))
        await settled()
        assert len(on.live._turns) == 0
        assert len(on.live._ended) <= 200
        assert len(on.live._tasks) == 0


async def test_signs_beyond_a_few_are_dropped_and_come_again_once_there_is_room() -> None:
    class Slow(Chat):
        async def typing(self, chat: str) -> None:
            self._note("typing", chat)
            await gate.wait()

    time, gate = Time(), asyncio.Event()
    screen = Slow(time, 1.0)
    live = LiveAnswers(screen, Hints(length=100, edits=True), time)
    for number in range(50):
        live.show(Address("chat", str(number)), TurnBegan(f"in-{number}"))
    await time.passes(30)
    assert len(screen.done) == SIGNS
    gate.set()
    await time.passes(TYPING_SECONDS)
    assert {chat for _, what, chat in screen.done if what == "typing"} == {str(number) for number in range(50)}
    await live.aclose()
