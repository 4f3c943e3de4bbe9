"""Questions in a chat app: whose yes counts, where, how long, and for what."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.providers.scripted import Say
from tests.channels.telegram_program import Scene, scene
from tests.live.telegram_server import TelegramServer
from tests.plugins.approvals.test_grants import RAN, Git, git
from tests.program import MAIN

ASKED = "Run git push?"
NUMBERS = count(5_000)


async def asked(here: Scene, text: str = "push") -> Any:
    """The message with the question that a wish of Anna's leads to."""
    here.server.say(here.anna, text)
    message = await here.server.next(here.anna)
    assert message.text.startswith(ASKED), message.text
    return message


def program(root: Path, *steps: Any, **more: Any) -> Any:
    RAN.clear()
    return scene(root, *steps, extra=[Git], **more)


async def test_nobody_elses_yes_counts_wherever_it_is_said(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), Say("A guest's answer."), Say("Pushed.")) as here:
        question = await asked(here)
        assert await here.hears(here.bob, "/yes 1") == "Only the owner can do that."
        assert await here.hears(here.bob, "/answer 1") == "Only the owner can do that."
        await here.is_silent(here.cyd, "/yes 1")
        assert await here.hears(here.bob, "@nano_test_bot yes", here.garden) == "A guest's answer."
        assert await here.hears(here.cyd, "/yes@nano_test_bot 1", here.garden) == "Only the owner can do that."
        here.server.press(question, "Yes", here.bob)  # as if the buttons came to him
        await here.taken()
        assert RAN == [] and here.home.public("approvals").open()
        here.server.say(here.anna, "/yes 1")
        told = {(await here.server.next(here.anna)).text for _ in range(3)}
        assert told == {"Only the owner can do that.", "OK, going ahead.", "Pushed."}
        assert RAN == ["push"]


async def test_in_a_group_the_owner_neither_answers_nor_shows_what_was_asked(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), Say("Pushed.")) as here:
        await asked(here)
        for words in ("/yes@nano_test_bot 1", "/answer@nano_test_bot 1", "/no@nano_test_bot 1"):
            told = await here.hears(here.anna, words, here.garden)
            assert told == "Others can read this: ask me in private."
        assert RAN == [] and here.home.public("approvals").open()
        here.server.say(here.anna, "yes")
        await here.server.next(here.anna)


async def test_a_yes_after_its_time_is_none_by_word_button_or_number(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), Say("It was not done."), Say("Yes what?")) as here:
        question = await asked(here)
        here.clock.now += timedelta(minutes=15, seconds=1)
        here.server.press(question, "Yes", here.anna)
        told = {(await here.server.next(here.anna)).text for _ in range(2)}
        over = "There is no open question 1: its time was over, and “no” was taken. Ask again if it still matters."
        assert told == {over, "It was not done."}
        assert "its time was over" in await here.hears(here.anna, "/yes 1")
        assert await here.hears(here.anna, "yes") == "Yes what?"
        assert RAN == []


async def test_pressed_twice_it_runs_once_and_a_no_after_the_yes_changes_nothing(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), Say("Pushed.")) as here:
        question = await asked(here)
        here.server.press(question, "Yes", here.anna)
        here.server.press(question, "Yes", here.anna)
        here.server.press(question, "No", here.anna)
        told = sorted([(await here.server.next(here.anna)).text for _ in range(4)])
        assert told[0] == "OK, going ahead." and told[1] == "Pushed."
        assert told[2:] == ["There is no open question 1: it was answered: “yes”. Ask again if it still matters."] * 2
        assert RAN == ["push"]


async def test_words_that_are_not_the_owners_own_answer_nothing(tmp_path: Path) -> None:
    steps = [git("push"), *(Say(f"{number}.") for number in range(4)), Say("Pushed.")]
    async with program(tmp_path, *steps) as here:
        question = await asked(here)
        before = here.server.say(here.bob, "yes")  # a guest's
        assert (await here.server.next(here.bob)).text == "0."
        for fields in (
            {"forward_origin": {"type": "user", "date": 1, "sender_user": here.bob.fields()}},
            {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Anna"}},
            {"via_bot": {"id": 77, "is_bot": True, "first_name": "Gif", "username": "gif"}},
        ):
            for text in ("yes", "/yes 1", "1"):
                here.server.raw({"message": {**said(here, text), **fields}})
                await here.taken()
                assert here.home.public("approvals").open() and RAN == [], (fields, text)
        here.server.raw({"message": {**said(here, "yes"), "sender_chat": here.garden.fields()}})
        here.server.react(question, here.anna, "👍")
        await here.taken()
        here.server.edit(before, "/yes 1")
        await here.taken()
        assert here.home.public("approvals").open() and RAN == []


def said(here: Scene, text: str) -> dict[str, Any]:
    number = next(NUMBERS)
    chat, author = here.anna.chat.fields(), here.anna.fields()
    return {"message_id": number, "date": 1_772_794_800, "chat": chat, "from": author, "text": text}


async def test_an_edit_to_yes_of_words_that_were_said_before_is_no_answer(tmp_path: Path) -> None:
    async with program(tmp_path, Say("Hello."), git("push"), Say("Pushed.")) as here:
        message = here.server.say(here.anna, "hello")
        await here.server.next(here.anna)
        await asked(here)
        for text in ("yes", "/yes 1"):
            here.server.edit(message, text)
            await here.taken()
            assert here.home.public("approvals").open() and RAN == []
        assert await here.hears(here.anna, "/no 1") in ("OK, I won't do it.", "Pushed.")


async def test_of_two_open_questions_a_plain_yes_answers_none_and_a_reply_its_own(tmp_path: Path) -> None:
    async with program(tmp_path, git("rm a", "rm b"), Say("Done.")) as here:
        here.server.say(here.anna, "both")
        first, second = [await here.server.next(here.anna) for _ in range(2)]
        told = await here.hears(here.anna, "yes")
        assert told == "Which question? Say /yes 1 or /yes 2."
        assert await here.hears(here.anna, "yes", reply_to=second) == "OK, going ahead."
        assert RAN == []
        here.server.say(here.anna, "no", reply_to=first)
        assert {(await here.server.next(here.anna)).text for _ in range(2)} == {"OK, I won't do it.", "Done."}
        assert RAN == ["rm b"]


async def test_a_yes_in_the_terminal_counts_and_one_in_another_chat_of_the_owners_does_not(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), Say("Pushed.")) as here:
        await asked(here)
        other = here.server.person(1009, "Anna's other phone")
        accounts = here.home.public("access").accounts
        code = here.home.app.transactions.write_now(lambda tx: accounts.new_link(tx, "telegram"))
        await here.hears(other, code)
        assert (await here.hears(other, "/yes 1")).startswith("Question 1 was asked in telegram:1001: answer it there")
        assert RAN == []
        await here.home.write_from(MAIN, "me", "/yes 1")
        assert (await here.server.next(here.anna)).text == "Pushed."


async def helped(here: Scene) -> None:
    while not here.home.rows("SELECT 1 FROM delegate_helpers"):  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_helper_asks_in_the_chat_where_it_was_begun_wherever_the_owner_is_now(
    tmp_path: Path, restarts: bool
) -> None:
    from tests.plugins.delegate.talk import Cast, delegate

    model = Cast({"": [delegate("a"), "Fine.", "It is known."], "a": [git("push"), "A."]})
    model.gate.clear()
    async with TelegramServer() as server:
        async with program(tmp_path, model=model, server=server) as here:
            here.server.say(here.anna, "go")
            await helped(here)
            await here.home.write_from(MAIN, "me", "/status")  # the owner is in the terminal now
            model.gate.set()
            question = await here.server.next(here.anna)
            assert question.text.startswith(f"{ASKED}\n\npush\n\n(This comes from helper 1, which is to do: a.)")
            assert here.home.rows("SELECT channel FROM approvals_asks") == [("telegram",)]
            here.home.app.is_gateway = restarts
            if not restarts:
                here.server.say(here.anna, "yes")
                assert {(await here.server.next(here.anna)).text for _ in range(2)} == {"OK, going ahead.", "Fine."}
        if restarts:
            async with scene(tmp_path, model=model, server=server, extra=[Git], wakes=True) as here:
                assert RAN == []
                here.server.press(question, "Yes", here.anna)
                told = [(await here.server.next(here.anna)).text for _ in range(4)]
                interrupted = "(I was interrupted and continued.)\n\nFine."
                report = "Helper 1 (a) reports after 0 s:\n\nA."
                assert sorted(told) == sorted([interrupted, "OK, going ahead.", report, "It is known."])
    assert RAN == ["push"]


async def test_a_helper_of_the_terminal_asks_there_and_not_in_a_chat_that_was_used_since(tmp_path: Path) -> None:
    from tests.plugins.delegate.talk import Cast, delegate

    model = Cast({"": [delegate("a"), "Fine."], "a": [git("push"), "A."]})
    model.gate.clear()
    async with program(tmp_path, model=model) as here:
        await here.home.say("go")
        await helped(here)
        await here.hears(here.anna, "/status")
        before = len(here.server.posted)
        model.gate.set()
        assert (await here.home.answer()).startswith(ASKED)
        assert "asked in terminal:main" in await here.hears(here.anna, "/yes 1")
        assert len(here.server.posted) == before + 1 and RAN == []
        await here.home.say("yes")
        assert {await here.home.answer(), await here.home.answer()} == {"OK, going ahead.", "Fine."}
    assert RAN == ["push"]
