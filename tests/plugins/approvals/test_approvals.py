"""What needs the owner's yes: asked where the owner is, answered by nobody else, and no answer is a no."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.events import Notice, Settled
from nanoclaw.core.messages import Address, Outbound, OwnersAnswer
from nanoclaw.core.plugin import Ask
from nanoclaw.plugins.approvals import asks
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start.host import PluginHost
from nanoclaw.yes_no import yes_or_no
from tests.program import MAIN, FakeChannel, HandClock, Program, results, running

ANNA, GUEST = Address("telegram", "555"), Address("telegram", "777")
RULES = '[channels.telegram]\nallow_from = ["777"]\n'
TO_ANNA = call("message", {"text": "Hello.", "to": "telegram:555"})


class Numbering(FakeChannel):
    """Gives each message an id of its own."""

    def __init__(self, name: str = "terminal") -> None:
        super().__init__(name, Hints(buttons=True, bursts=False))
        self._count = 0

    async def send(self, outbound: Outbound) -> str:
        await super().send(outbound)
        self._count += 1
        return f"message-{self._count}"


class Gate:
    """A program whose owner is at the terminal, with a chat beside it."""

    def __init__(self, home: Program, chat: FakeChannel, clock: HandClock) -> None:
        self.home, self.chat, self.clock = home, chat, clock
        home.app.sessions.of(ANNA)

    async def ask(self, about: Address = ANNA) -> tuple[asyncio.Task[OwnersAnswer], Outbound]:
        host = PluginHost(self.home.app, "test")
        task = asyncio.create_task(host.asker.ask(Ask("May I?"), about))
        return task, await self.home.channel.sent.get()

    async def settled(self) -> list[Any]:
        await asyncio.sleep(0)
        return [event for _, event in self.home.channel.events if isinstance(event, Settled)]


@asynccontextmanager
async def gate(
    root: Path, *steps: Any, settings: str = RULES, channel: FakeChannel | None = None, **more: Any
) -> AsyncIterator[Gate]:
    chat, clock = Numbering("telegram"), HandClock()
    provider = ScriptedProvider(*steps)
    own = channel or Numbering()
    async with running(root, provider, settings=settings, channel=own, others=[chat], clock=clock, **more) as home:
        yield Gate(home, chat, clock)
        await home.app.conversations.idle()


async def test_a_question_names_its_number_on_its_buttons_and_in_words(tmp_path: Path) -> None:
    async with gate(tmp_path) as here:
        task, question = await here.ask()
        assert question.address == MAIN
        assert question.text.startswith("May I?\n\n") and "/yes 1" in question.text
        assert "(This comes from telegram:555, not from this chat.)" in question.text
        assert [(one.label, one.text) for one in question.buttons] == [("Yes", "/yes 1"), ("No", "/no 1")]
        assert await here.home.ask("/yes 1") == "OK, going ahead."
        assert (await task).is_yes


async def test_a_late_yes_to_a_question_of_a_deleted_conversation_answers_no_other_question(tmp_path: Path) -> None:
    asks = call("write_file", {"path": ".envrc", "content": "a"})
    async with running(tmp_path, ScriptedProvider(asks, asks), channel=Numbering()) as home:
        await home.say("Write it")
        assert "/yes 1" in (await home.channel.sent.get()).text
        assert "Deleted" in await home.ask("/sessions delete main yes")
        await home.say("Write it")
        assert "/yes 2" in (await home.channel.sent.get()).text
        assert await home.ask("/yes 1") == "There is no open question 1."
        assert home.rows("SELECT id, by FROM approvals_asks") == [(2, "")]


def test_answers_of_others_are_read_and_requests_are_left() -> None:
    """The halves were parted by lot from answers to other people's assistants; "unseen" was put away."""
    lines = Path(__file__).with_name("answers.tsv").read_text("utf-8").splitlines()
    wrong = [one for one in (line.split("\t") for line in lines) if str(yes_or_no(one[2])) != one[1]]
    assert len(wrong) < len(lines) / 40 and not any(meant == "None" for _, meant, _ in wrong), wrong


@pytest.mark.parametrize(
    ("words", "is_yes"),
    [
        *((word, True) for word in ("yes", "Ja.", "oui!", "sí", "да", "是", "👍", "sure", "yes please")),
        *((word, False) for word in ("No", "nein", "non", "нет", "否", "no wait, forget it", "nope, don't")),
    ],
)
async def test_a_bare_word_answers_the_one_question_open_there(tmp_path: Path, words: str, is_yes: bool) -> None:
    async with gate(tmp_path, "What?", "And now?") as here:
        task, _ = await here.ask()
        assert await here.home.ask(words, chat="other") == "What?"
        assert await here.home.ask(words) in ("OK, going ahead.", "OK, I won't do it.")
        assert (await task).is_yes is is_yes
        assert await here.home.ask(words) == "And now?"


@pytest.mark.parametrize("words", ["yes please send it", "no idea", "ok", "yesterday"])
async def test_other_words_answer_nothing(tmp_path: Path, words: str) -> None:
    async with gate(tmp_path, "What?") as here:
        task, _ = await here.ask()
        assert await here.home.ask(words) == "What?"
        assert not task.done()
        task.cancel()


@pytest.mark.parametrize(("words", "named"), [("yes", "/yes 1 or /yes 2"), ("No, thanks!", "/no 1 or /no 2")])
async def test_where_two_questions_are_open_a_bare_word_is_told_to_name_one(
    tmp_path: Path, words: str, named: str
) -> None:
    async with gate(tmp_path) as here:
        first, _ = await here.ask()
        second, _ = await here.ask()
        assert await here.home.ask(words) == f"Which question? Say {named}."
        assert not first.done() and not second.done()
        await here.home.ask("/yes 2")
        await here.home.ask("/no 1")
        assert ((await first).is_yes, (await second).is_yes) == (False, True)


async def test_a_bare_word_goes_elsewhere_once_something_was_said_and_a_quote_still_answers(tmp_path: Path) -> None:
    async with gate(tmp_path, "Tea or coffee?", "Which of them?", "Which one?") as here:
        task, _ = await here.ask()
        assert await here.home.ask("hello") == "Tea or coffee?"
        assert await here.home.ask("yes") == "Which of them?"
        await here.home.say("yes", quoted="message-2")
        assert await here.home.answer() == "Which one?"
        assert not task.done()
        await here.home.say("yes", quoted="message-1")
        assert await here.home.answer() == "OK, going ahead."
        assert (await task).is_yes


async def test_any_message_after_a_question_ends_what_a_bare_word_means(tmp_path: Path) -> None:
    """In the chat whose own turn waits for the answer a word is told to name the question: nobody else hears it."""
    async with gate(tmp_path, TO_ANNA, "Sent.") as here:
        assert "This comes from" not in await here.home.ask("tell Anna")
        assert "Workspace: " in await here.home.ask("/status")
        told = await here.home.ask("Yes, please!")
        assert told.startswith("Is that your answer to question 1 (“Send this to telegram:555?”)? Then say /yes 1. If")
        assert here.chat.sent.empty()
        assert await here.home.ask("/yes 1") == "OK, going ahead."
        assert (await here.chat.sent.get()).text == "Hello."
        assert await here.home.answer() == "Sent."


async def test_what_is_said_while_a_call_waits_for_a_yes_is_kept_and_a_bare_yes_still_answers(tmp_path: Path) -> None:
    async with gate(tmp_path, TO_ANNA, "Sent and built.") as here:
        await here.home.say("greet Anna")
        assert "/yes 1" in await here.home.answer()
        for words in (
            "nah leave those alone",
            "yep, off it goes",
            "build",
        ):  # nobody guesses which of them are an answer
            assert "Then say /yes 1 or /no 1. If it is something else" in await here.home.ask(words)
        told = await here.home.ask("build it all, and tell Bob when it is built")
        assert told.startswith("Kept. First I need your answer to question 1 (“")
        assert await here.home.ask("yes") == "OK, going ahead."
        assert await here.home.answer() == "Sent and built."


async def test_whoever_waits_for_an_answer_elsewhere_sees_where_it_was_asked(tmp_path: Path) -> None:
    """In the chat that asked and is asked, the question itself is seen; but a terminal may be `nanoclaw -m`."""
    async with gate(tmp_path) as here:
        task, _ = await here.ask()
        waits = Notice("waiting for the owner's answer to question 1, asked in terminal:main")
        assert here.chat.events == [(ANNA, waits)]
        task.cancel()


async def test_in_a_chat_of_the_owners_the_question_itself_is_enough(tmp_path: Path) -> None:
    async with gate(tmp_path) as here:
        own = Address("telegram", "1")
        here.home.link(own)
        task = asyncio.create_task(PluginHost(here.home.app, "test").asker.ask(Ask("May I?"), own))
        assert (await here.chat.sent.get()).address == own
        assert here.chat.events == []
        await here.home.write_from(own, "1", "yes")
        assert (await task).is_yes


async def test_nobody_there_and_no_answer_in_time_are_a_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asks, "SECONDS", 0.05)
    async with gate(tmp_path) as here:
        task, _ = await here.ask()
        assert not (await task).is_yes
        assert "no open question 1" in await here.home.ask("/yes 1")
        assert await here.settled() == [Settled("message-1")]
    gone = FakeChannel("terminal")
    gone.serves = lambda outbound: False  # type: ignore[method-assign]
    async with gate(tmp_path / "alone", channel=gone) as here:
        assert not (await PluginHost(here.home.app, "test").asker.ask(Ask("May I?"), MAIN)).is_yes


async def test_the_buttons_of_a_question_go_when_it_is_over_and_an_answer_after_that_changes_nothing(
    tmp_path: Path,
) -> None:
    async with gate(tmp_path) as here:
        answered, _ = await here.ask()
        assert await here.settled() == []
        await here.home.ask("/no 1")
        assert "no open question 1" in await here.home.ask("/yes 1")
        assert not (await answered).is_yes
        stopped, _ = await here.ask()
        await here.home.app.delivery.flush("terminal")
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        assert "no open question 2" in await here.home.ask("/yes 2")
        assert await here.settled() == [Settled("message-1"), Settled("message-4")]


async def test_a_guest_cannot_answer(tmp_path: Path) -> None:
    """Neither with the command of the button nor with a word."""
    async with gate(tmp_path, TO_ANNA, "What do you mean?", "Not sent.") as here:
        await here.home.ask("tell Anna")
        await here.home.write_from(GUEST, "777", "/yes 1")
        assert (await here.chat.sent.get()).text == "Only the owner can do that."
        await here.home.write_from(GUEST, "777", "yes")
        assert (await here.chat.sent.get()).text == "What do you mean?"
        assert await here.home.ask("no") == "OK, I won't do it."
        assert await here.home.answer() == "Not sent."
        assert here.chat.sent.empty()


async def test_a_word_of_somebody_else_at_the_owners_address_answers_nothing(tmp_path: Path) -> None:
    """Such as in an e-mail with a forged sender."""
    async with gate(tmp_path, "What do you mean?", settings='[channels.telegram]\npolicy = "open"\n') as here:
        own = Address("telegram", "1")
        here.home.link(own)
        task = asyncio.create_task(PluginHost(here.home.app, "test").asker.ask(Ask("May I?"), own))
        await here.chat.sent.get()
        await here.home.write_from(own, "somebody", "yes")
        assert (await here.chat.sent.get()).text == "What do you mean?"
        await here.home.write_from(own, "somebody", "/yes 1")
        assert (await here.chat.sent.get()).text == "Only the owner can do that."
        assert not task.done()
        await here.home.write_from(own, "1", "/yes 1")
        assert (await task).is_yes


@pytest.mark.parametrize("answer", ["/yes 1", "yes"])
async def test_a_question_waits_over_a_restart_and_the_yes_is_to_exactly_that_call(tmp_path: Path, answer: str) -> None:
    async with gate(tmp_path, TO_ANNA) as here:
        assert "/yes 1" in await here.home.ask("tell Anna")
        here.home.app.is_terminated = True
    async with gate(tmp_path, "Sent.") as here:
        assert here.chat.sent.empty()
        assert await here.home.ask(answer) == "OK, going ahead."
        assert (await here.chat.sent.get()).text == "Hello."
        assert await here.home.answer() == "Sent."
        assert not results(here.home.history)[-1].is_error


@pytest.mark.parametrize("words", ["/yes", "/yes please", "/no -1", "/yes ١", "/answer"])
async def test_an_answer_where_nothing_was_asked_is_told_so(tmp_path: Path, words: str) -> None:
    async with gate(tmp_path) as here:
        assert await here.home.ask(words) == "No question is open."


async def test_in_a_shared_conversation_a_bare_word_said_elsewhere_is_told_which_question_waits(tmp_path: Path) -> None:
    async with gate(tmp_path, "What?", settings=f'{RULES}[session]\nowner = "shared"\n') as here:
        own = Address("telegram", "1")
        here.home.link(own)
        task = asyncio.create_task(PluginHost(here.home.app, "test").asker.ask(Ask("May I?"), own))
        await here.chat.sent.get()
        assert (MAIN, Notice("question 1 waits in telegram:1: /yes 1 or /no 1")) in here.home.channel.events
        assert "Then say /yes 1. If it" in await here.home.ask("yes")
        assert await here.home.ask("what?") == "What?"
        await here.home.ask("/yes 1")
        assert (await task).is_yes


async def test_without_the_plugin_whatever_would_ask_is_refused(tmp_path: Path) -> None:
    async with gate(tmp_path, TO_ANNA, "I may not.", without=["approvals"]) as here:
        assert await here.home.ask("tell Anna") == "I may not."
        assert "nobody is there to be asked" in results(here.home.history)[-1].text
        assert here.chat.sent.empty()
