"""What needs the owner's yes: asked where the owner is, answered by nobody else, and no answer is a no."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from nanoclaw.agent.approving import approval_reaction
from nanoclaw.guard.approvals import Approvals
from nanoclaw.messages import Address, Inbound, Outbound, UserMessage
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.agent.house import LETS_IN, MAIN, NOON, FakeChannel, house


class Gate:
    """An owner at one place, and what is asked there."""

    def __init__(self, place: Address | None = MAIN, seconds: float = 60.0) -> None:
        self.said: asyncio.Queue[Outbound] = asyncio.Queue()
        self._number = 6
        self.approvals = Approvals(
            place=lambda address: place, say=self.said.put_nowait, number=self._next, seconds=seconds
        )

    def _next(self) -> int:
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


def test_where_two_questions_are_open_a_bare_word_is_not_enough() -> None:
    async def story() -> None:
        gate = Gate()
        first, _ = await gate.ask()
        second, _ = await gate.ask()
        assert gate.approvals.hear("yes", MAIN) is None
        gate.approvals.answer(8, True)
        gate.approvals.answer(7, False)
        assert (await first, await second) == (False, True)

    asyncio.run(story())


def test_nobody_there_and_no_answer_in_time_are_a_no() -> None:
    async def story() -> None:
        nowhere, hasty = Gate(place=None), Gate(seconds=0.0)
        assert await nowhere.approvals.ask("May I?", MAIN) is False
        assert nowhere.said.empty()
        task, _ = await hasty.ask()
        assert await task is False
        assert "no open question 7" in hasty.approvals.answer(7, True)

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
            assert "I was interrupted" in await home.answer()
            assert "no open question 1" in await home.ask("/yes 1")
            assert (await home.channel_question("go on")).buttons[0].text == "/yes 2"
            assert "no open question 1" in await home.ask("/yes 1")
            assert await home.ask("/no 2") == "No: it is not done."
            assert await home.answer() == "Not sent."
            assert chat.sent.empty()

    asyncio.run(story())


@pytest.mark.parametrize("words", ["/yes", "/yes please", "/no -1", "/yes ١"])
def test_a_command_without_a_number_asks_for_it(tmp_path: Path, words: str) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            assert "Which question?" in await home.ask(words)

    asyncio.run(story())
