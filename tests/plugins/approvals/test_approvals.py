"""What needs the owner's yes: asked where the owner is, answered by nobody else, and no answer is a no."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nanoclaw.core.events import Event, Notice, Settled
from nanoclaw.core.messages import Address, Inbound, Outbound, UserMessage
from nanoclaw.markdown.text import to_telegram
from nanoclaw.plugins.approvals.approvals import Approvals, exactly
from nanoclaw.plugins.approvals.commands import approval_reaction
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.core.house import LETS_IN, MAIN, NOON, FakeChannel, house


class Numbering(FakeChannel):
    """Gives each message an id of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    async def send(self, outbound: Outbound) -> str:
        await super().send(outbound)
        self._count += 1
        return f"message-{self._count}"


class Gate:
    """An owner at one place, and what is asked there."""

    def __init__(self, place: Address | None = MAIN, seconds: float = 60.0) -> None:
        self.said: asyncio.Queue[Outbound] = asyncio.Queue()
        self.shown: list[tuple[Address, Event]] = []
        self.noted: list[Sequence[tuple[Address, int]]] = []
        self.homes: dict[Address, Address] = {}
        self._number = 6
        self.turn = 1  # the newest one at the place
        self.approvals = Approvals(
            place=lambda address: place,
            say=self.said.put_nowait,
            number=self._next,
            last=lambda address: (self._number, self.turn),
            message=lambda address, id: int(id),
            show=lambda address, event: self.shown.append((address, event)),
            home=lambda address: self.homes.get(address, address),
            sent_as=lambda message: f"sent-{message}",
            note=self.noted.append,
            seconds=seconds,
        )

    def _next(self) -> int:
        """Of a question, and of the message that asks it."""
        self._number += 1
        return self._number

    async def ask(self) -> tuple[asyncio.Task[bool], Outbound]:
        task = asyncio.create_task(self.approvals.ask("May I?", Address("chat", "1")))
        return task, await self.said.get()


def test_a_question_names_its_number_on_its_buttons_and_in_words() -> None:
    async def story() -> None:
        gate = Gate()
        task, question = await gate.ask()
        assert question.address == MAIN
        assert question.text.startswith("May I?\n\n") and "/yes 7" in question.text
        assert [(one.label, one.text) for one in question.buttons] == [("Yes", "/yes 7"), ("No", "/no 7")]
        assert gate.approvals.answer(7, True) == "Yes: it goes on."
        assert await task is True

    asyncio.run(story())


def test_what_is_open_is_noted_and_its_buttons_go_in_a_later_process() -> None:
    async def story() -> None:
        gate = Gate()
        first, _ = await gate.ask()
        second, _ = await gate.ask()
        gate.approvals.answer(7, True)
        await first
        assert gate.noted == [[(MAIN, 7)], [(MAIN, 7), (MAIN, 8)], [(MAIN, 8)]]
        second.cancel()
        later = Gate()
        for place, message in gate.noted[-1]:
            later.approvals.settle(place, message)
        assert later.shown == [(MAIN, Settled("sent-8"))]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("words", "is_yes"),
    [
        *((word, True) for word in ("yes", "Ja.", "oui!", "sí", "да", "是", "👍")),
        *((word, False) for word in ("No", "nein", "non", "нет", "否")),
    ],
)
def test_a_bare_word_answers_the_one_question_that_is_open_there(words: str, is_yes: bool) -> None:
    async def story() -> None:
        gate = Gate()
        task, _ = await gate.ask()
        assert gate.approvals.hear(words, Address("terminal", "other")) is None
        assert gate.approvals.hear(words, MAIN)
        assert await task is is_yes
        assert gate.approvals.hear(words, MAIN) is None

    asyncio.run(story())


@pytest.mark.parametrize("words", ["yes please send it", "no idea", "ok", "", "yesterday"])
def test_other_words_answer_nothing(words: str) -> None:
    async def story() -> None:
        gate = Gate()
        task, _ = await gate.ask()
        assert gate.approvals.hear(words, MAIN) is None
        assert not task.done()
        task.cancel()

    asyncio.run(story())


def test_where_two_questions_are_open_a_bare_word_is_told_to_name_one() -> None:
    async def story() -> None:
        gate = Gate()
        first, _ = await gate.ask()
        second, _ = await gate.ask()
        assert gate.approvals.hear("yes", MAIN) == "Which question? Say /yes 7 or /yes 8."
        assert gate.approvals.hear("No, thanks!", MAIN) == "Which question? Say /no 7 or /no 8."
        assert not first.done() and not second.done()
        gate.approvals.answer(8, True)
        gate.approvals.answer(7, False)
        assert (await first, await second) == (False, True)

    asyncio.run(story())


def test_a_bare_word_goes_elsewhere_once_a_turn_has_begun_there_and_a_quote_still_answers() -> None:
    async def story() -> None:
        gate = Gate()
        task, _ = await gate.ask()
        gate.turn += 1
        assert gate.approvals.hear("yes", MAIN) is None
        assert gate.approvals.hear("yes", MAIN, "6") is None
        assert not task.done()
        assert gate.approvals.hear("yes", MAIN, "7") == "Yes: it goes on."
        assert await task is True

    asyncio.run(story())


def test_a_yes_to_what_was_said_after_a_question_reaches_the_model(tmp_path: Path) -> None:
    """The question came from elsewhere, and says so."""

    async def story() -> None:
        chat = FakeChannel("chat")
        to_anna = call("message", {"text": "Hello.", "to": "chat:555"})
        provider = ScriptedProvider(to_anna, "Shall I water the plants?", "Watered.", "Which one?", "Not sent.")
        async with house(tmp_path, provider, channel=Numbering(), others=(chat,), messaging={}) as home:
            home.sessions.of(Address("chat", "555"))
            await home.say("tell Anna", chat="other")
            question = await home.channel.sent.get()
            assert question.address == MAIN
            assert "(This comes from terminal:other, not from this chat.)" in question.text
            assert await home.ask("hello") == "Shall I water the plants?"
            assert await home.ask("yes") == "Watered."
            assert chat.sent.empty()
            assert await home.ask("/yes") == "Which question? Say /yes 1."
            await home.say("no", quoted="message-2")
            assert await home.answer() == "Which one?"
            await home.say("no", quoted="message-1")
            assert {await home.answer(), await home.answer()} == {"No: it is not done.", "Not sent."}
            assert chat.sent.empty()

    asyncio.run(story())


def test_any_message_after_a_question_ends_what_a_bare_word_means(tmp_path: Path) -> None:
    """In the chat whose own turn waits for the answer a word is told to name the question: nobody else hears it."""

    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(call("message", {"text": "Hello.", "to": "chat:555"}), "Sent.")
        async with house(tmp_path, provider, others=(chat,), messaging={}) as home:
            home.sessions.of(Address("chat", "555"))
            assert "This comes from" not in (await home.channel_question("tell Anna")).text
            assert "nanoclaw under test" in await home.ask("/status")
            assert await home.ask("Yes, please!") == "Which question? Say /yes 1."
            assert chat.sent.empty()
            assert await home.ask("/yes 1") == "Yes: it goes on."
            assert (await chat.sent.get()).text == "Hello."
            assert await home.answer() == "Sent."

    asyncio.run(story())


def test_whoever_waits_for_an_answer_elsewhere_sees_where_it_was_asked() -> None:
    """In the chat that asked and is asked, the question itself is seen; but a terminal may be `nanoclaw -m`."""

    async def story() -> None:
        gate = Gate()
        task, _ = await gate.ask()
        waits = Notice("waiting for the owner's answer to question 7, asked in terminal:main")
        await asyncio.sleep(0)
        assert gate.shown == [(Address("chat", "1"), waits)]
        task.cancel()
        here = Gate(place=Address("chat", "1"))
        task, _ = await here.ask()
        await asyncio.sleep(0)
        assert here.shown == []
        task.cancel()

    asyncio.run(story())


HARMLESS = "second [bank.com](http://evil.example/x) **bold** https://a.example <b>x</b>"


@pytest.mark.parametrize(
    "text", [HARMLESS, f"```\n```\n{HARMLESS}\n`````", f"~~~\n> {HARMLESS}\n    - x\n\n\n{HARMLESS}"]
)
def test_the_text_to_be_judged_is_shown_letter_by_letter(text: str) -> None:
    shown, entities = to_telegram(f"May I?\n\n{exactly(text)}\n\n(so)")
    assert text in shown
    assert [entity["type"] for entity in entities] == ["pre"]


def test_of_a_long_text_both_ends_are_shown_and_how_much_is_not() -> None:
    shown = exactly("a" * 5_000 + "`" * 4 + "z" * 7_346)
    assert "(12,350 characters in all; 9,350 of them are not shown here)" in shown
    assert shown.startswith("```\n" + "a" * 2_000 + "\n```\n")
    assert shown.endswith("\n```\n" + "z" * 1_000 + "\n```")


def test_nobody_there_and_no_answer_in_time_are_a_no() -> None:
    async def story() -> None:
        nowhere, hasty = Gate(place=None), Gate(seconds=0.0)
        assert await nowhere.approvals.ask("May I?", MAIN) is False
        assert nowhere.said.empty()
        task, _ = await hasty.ask()
        assert await task is False
        assert "no open question 7" in hasty.approvals.answer(7, True)

    asyncio.run(story())


def test_the_buttons_of_a_question_go_when_it_is_over_however_it_ends() -> None:
    async def story() -> None:
        gate, hasty = Gate(), Gate(seconds=0.02)
        answered, _ = await gate.ask()
        assert gate.shown.count((MAIN, Settled("sent-7"))) == 0
        assert gate.approvals.hear("yes", MAIN) == "Yes: it goes on."
        stopped, _ = await gate.ask()
        stopped.cancel()
        too_late, _ = await hasty.ask()
        await asyncio.gather(answered, stopped, too_late, return_exceptions=True)
        assert [shown for shown in gate.shown if isinstance(shown[1], Settled)] == [
            (MAIN, Settled("sent-7")),
            (MAIN, Settled("sent-8")),
        ]
        assert (MAIN, Settled("sent-7")) in hasty.shown

    asyncio.run(story())


def test_a_second_answer_and_one_after_a_stop_change_nothing() -> None:
    async def story() -> None:
        gate = Gate()
        task, _ = await gate.ask()
        gate.approvals.answer(7, False)
        assert "no open question 7" in gate.approvals.answer(7, True)
        assert await task is False
        task, _ = await gate.ask()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert "no open question 8" in gate.approvals.answer(8, True)

    asyncio.run(story())


def test_a_guest_cannot_answer(tmp_path: Path) -> None:
    """Neither with the command of the button nor with a word."""

    async def story() -> None:
        chat = FakeChannel("chat")
        provider = ScriptedProvider(
            call("message", {"text": "Hello.", "to": "chat:555"}), "What do you mean?", "Not sent."
        )
        async with house(tmp_path, provider, others=(chat,), messaging={}, rules=LETS_IN) as home:
            home.sessions.of(Address("chat", "555"))
            await home.channel_question("tell Anna")
            await home.guest_says("/yes 1")
            assert (await chat.sent.get()).text == "Only the owner can do that."
            await home.guest_says("yes")
            assert (await chat.sent.get()).text == "What do you mean?"
            assert await home.ask("no") == "No: it is not done."
            assert await home.answer() == "Not sent."
            assert chat.sent.empty()

    asyncio.run(story())


def test_a_word_of_somebody_else_at_the_owners_address_answers_nothing() -> None:
    """Such as in an e-mail with a forged sender."""

    async def story() -> None:
        gate = Gate()
        task, _ = await gate.ask()
        react = approval_reaction(gate.approvals, lambda inbound: inbound.sender == "owner")
        said = Inbound(MAIN, "somebody", "1", UserMessage("yes", NOON))
        assert react(said) is None
        assert not task.done()
        assert react(replace(said, sender="owner", message=replace(said.message, origin="job"))) is None
        assert react(replace(said, sender="owner"))
        assert await task is True

    asyncio.run(story())


def test_the_button_of_a_question_from_before_a_restart_says_that_it_is_over(tmp_path: Path) -> None:
    """And its number is never given to another question."""

    async def story() -> None:
        chat = FakeChannel("chat")
        to_anna = call("message", {"text": "Hello.", "to": "chat:555"})
        async with house(tmp_path, ScriptedProvider(to_anna), others=(chat,), messaging={}) as home:
            home.sessions.of(Address("chat", "555"))
            assert (await home.channel_question("tell Anna")).buttons[0].text == "/yes 1"
            await home.assistant.close(leave=True)
        async with house(tmp_path, ScriptedProvider(to_anna, "Not sent."), others=(chat,), messaging={}) as home:
            assert (await home.channel.sent.get()).buttons[0].text == "/yes 2"
            assert "no open question 1" in await home.ask("/yes 1")
            assert await home.ask("/no 2") == "No: it is not done."
            assert (await home.answer()).endswith("\n\nNot sent.")
            assert chat.sent.empty()

    asyncio.run(story())


@pytest.mark.parametrize("words", ["/yes", "/yes please", "/no -1", "/yes ١"])
def test_a_command_without_a_number_asks_for_it(tmp_path: Path, words: str) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            assert "Which question?" in await home.ask(words)

    asyncio.run(story())


def test_in_a_shared_conversation_a_bare_word_said_elsewhere_is_told_which_question_waits() -> None:
    async def story() -> None:
        gate = Gate(place=Address("chat", "1"))
        gate.homes[Address("chat", "1")] = MAIN
        task, _ = await gate.ask()
        assert gate.approvals.hear("yes", MAIN) == "Which question? Say /yes 7."
        assert gate.approvals.hear("what?", MAIN) is None
        assert (MAIN, Notice("question 7 waits in chat:1: /yes 7 or /no 7")) in gate.shown
        gate.approvals.answer(7, True)
        assert await task

    asyncio.run(story())
