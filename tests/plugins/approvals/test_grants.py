"""Yeses that go on: for an hour or for a place, in one conversation, until they end or are taken back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Address, CheckedCall
from nanoclaw.core.plugin import Ask, Host, Plugin, Scope, Tool, Turn, Verdict
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Say, ScriptedProvider
from tests.journeys.command import Home
from tests.plugins.approvals.test_approvals import GUEST, Numbering
from tests.program import MAIN, FakeChannel, HandClock, Program, results, running
from tests.virtual_time import virtual_time

OWN = Address("telegram", "1")
PUSH, PULL = "commands like `git push …`", "commands like `git pull …`"
RAN: list[str] = []


class Git(Plugin):
    """A tool whose commands ask, each with the scope of its shape; `rm` asks without one, `cd` names a place, `send`
    asks while it runs."""

    name = "git"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def tools(self) -> Iterable[Tool]:
        async def git(command: str) -> str:
            """Runs git."""
            RAN.append(command)
            ask = Ask("Send it?", scope=Scope("send", "sending"))
            if command != "send":
                return "done"
            call, turn = self._judged
            return (await self._host.asker.ask(ask, MAIN, turn, call)).by

        yield tool(git)

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        self._judged = call, turn
        if call.name != "git" or call.arguments["command"] == "send":
            return None
        command = str(call.arguments["command"])
        shape = command.split()[0]
        scope = Scope(f"git:{shape}", f"commands like `git {shape} …`", is_place=shape == "cd")
        return Ask(f"Run git {shape}?", exact=command, scope=None if shape == "rm" else scope)


def git(*commands: str) -> Say:
    return Say(calls=tuple(("git", {"command": one}) for one in commands))


class Both:
    """A program whose owner has a terminal and a chat beside it."""

    def __init__(self, home: Program, chat: FakeChannel, hand: HandClock) -> None:
        self.home, self.chat, self.hand = home, chat, hand

    def __getattr__(self, name: str) -> Any:
        return getattr(self.home, name)


@asynccontextmanager
async def program(root: Path, *steps: Any, clock: HandClock | None = None, **more: Any) -> Any:
    RAN.clear()
    own, chat = Numbering(), Numbering("telegram")
    settings = '[channels.telegram]\nallow_from = ["777"]\n'
    provider = ScriptedProvider(*steps)
    clock = clock or HandClock()
    async with running(
        root, provider, settings=settings, channel=own, others=[chat], clock=clock, extra=[Git], **more
    ) as home:
        yield Both(home, chat, clock)
        await home.app.conversations.idle()


async def said(home: Both, text: str, count: int = 2) -> set[str]:
    """Say something that is answered more than once."""
    await home.say(text)
    return {await home.answer() for _ in range(count)}


async def test_a_question_with_a_scope_offers_how_far_its_yes_reaches(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), git("cd /x"), "Done.") as home:
        await home.say("push")
        question = await home.channel.sent.get()
        assert question.text == (
            f"Run git push?\n\n```\npush\n```\n\n1. Yes\n2. Yes for an hour: {PUSH}\n3. No\n\n(“/yes 1”, “/yes 1 hour”"
            " or “/no 1” answers it; right after it a number or the words do.)"
        )
        assert [(one.label, one.text) for one in question.buttons] == [
            ("Yes", "/yes 1"),
            ("Yes for an hour", "/yes 1 hour"),
            ("No", "/no 1"),
        ]
        assert await home.ask("/answer 1") == question.text
        await home.say("yes")
        assert await home.answer() == "OK, going ahead."
        assert "3. Yes always: commands like `git cd …`" in await home.answer()
        await home.ask("no")
        assert await home.answer() == "Done."
        assert RAN == ["push"]


@pytest.mark.parametrize(
    "words", ["2", "Yes for an hour", "hour", "yes hour", "/yes 1 hour", "/answer 1 2", "/yes hour"]
)
async def test_for_an_hour_calls_of_the_same_scope_are_not_asked_about(tmp_path: Path, words: str) -> None:
    steps = git("push a"), "One.", git("push b"), "Two.", git("pull"), "Three.", git("push c"), "You said no."
    async with program(tmp_path, *steps) as home:
        await home.ask("push a")
        told = f"OK, going ahead. Until 13:00 I don't ask about {PUSH} here; /grants takes that back."
        assert await said(home, words) == {told, "One."}
        assert await home.ask("push b") == "Two."
        assert (await home.ask("pull")).startswith("Run git pull?")
        assert await said(home, "no") == {"OK, I won't do it.", "Three."}
        home.hand.now += timedelta(hours=1)
        assert (await home.ask("push c")).startswith("Run git push?")
        assert await said(home, "no") == {"OK, I won't do it.", "You said no."}
        assert RAN == ["push a", "push b"]


async def test_a_yes_that_is_given_amid_a_call_goes_on_too_and_a_restart_gives_its_question_up(tmp_path: Path) -> None:
    async with program(tmp_path, git("send"), "One.", git("send"), "Two.") as home:
        assert "2. Yes for an hour: sending\n" in await home.ask("send")
        assert "One." in await said(home, "hour")
        assert await home.ask("send") == "Two."
        assert [one.text for one in results(home.history)] == ["owner", "owner"]
        home.hand.now += timedelta(hours=1)
        home.app.store.db.execute("UPDATE approvals_asks SET answer = '', by = ''")  # it was killed then
    async with program(tmp_path) as home:
        assert home.rows("SELECT by FROM approvals_asks") == [("nobody",)]


async def test_always_is_offered_for_a_place_alone_and_holds_until_it_is_revoked(tmp_path: Path) -> None:
    async with program(tmp_path, git("cd a"), "One.", git("cd b"), "Two.", git("cd c"), "Three.") as home:
        await home.ask("go")
        assert "From now on I don't ask" in next(iter(await said(home, "/yes 1 always") - {"One."}))
        home.hand.now += timedelta(days=100)
        assert await home.ask("go on") == "Two."
        assert "1. commands like `git cd …`, in terminal:main, until you revoke it" in await home.ask("/grants")
        assert await home.ask("/grants revoke 1") == "Revoked: commands like `git cd …`. I ask again."
        assert (await home.ask("go on")).startswith("Run git cd?")
        assert await said(home, "no") == {"OK, I won't do it.", "Three."}


async def test_always_is_no_answer_where_it_is_not_offered(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), git("rm x"), "Done.") as home:
        await home.ask("go")
        wants = "Question 1 (“Run git push?”) wants yes or yes for an hour or no: /yes 1 or /no 1."
        assert await home.ask("/yes 1 always") == wants
        await home.say("/yes 1")
        assert {await home.answer(), (await home.answer())[:11]} == {"OK, going ahead.", "Run git rm?"}
        assert await home.ask("/yes 2 hour") == "Question 2 (“Run git rm?”) wants yes or no: /yes 2 or /no 2."
        assert await said(home, "/no 2") == {"OK, I won't do it.", "Done."}
        assert home.rows("SELECT * FROM approvals_grants") == []


async def test_a_yes_for_an_hour_is_one_to_the_other_calls_that_wait_with_the_same_scope(tmp_path: Path) -> None:
    async with program(tmp_path, git("push a", "push b", "pull"), "Done.") as home:
        await home.say("go")
        assert [(await home.answer())[:13] for _ in range(3)] == ["Run git push?", "Run git push?", "Run git pull?"]
        await home.ask("/yes 1 hour")
        assert [one.number for one in home.public("approvals").open()] == [3]
        assert await said(home, "/no 3") == {"OK, I won't do it.", "Done."}
        assert RAN == ["push a", "push b"]


async def test_a_grant_is_for_one_conversation(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "One.", git("push"), "Two.") as home:
        await home.ask("push")
        await said(home, "/yes 1 hour")
        assert (await home.ask("push", chat="other")).startswith("Run git push?")
        await home.say("/no 2", chat="other")


async def test_a_grant_outlives_a_restart_and_ends_at_its_time(tmp_path: Path) -> None:
    clock = HandClock()
    async with program(tmp_path, git("push"), "One.", clock=clock) as home:
        await home.ask("push")
        await said(home, "/yes 1 hour")
    clock.now += timedelta(minutes=59)
    async with program(tmp_path, git("push"), "Two.", git("push"), "Three.", clock=clock) as home:
        assert await home.ask("push") == "Two."
        clock.now += timedelta(minutes=1)
        assert (await home.ask("push")).startswith("Run git push?")
        await said(home, "no")


async def test_grants_are_listed_and_revoked_by_number_or_all(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), git("pull"), "Done.") as home:
        assert await home.ask("/grants") == "There are no grants: whatever needs your yes asks for it."
        await home.ask("go")
        await said(home, "/yes 1 hour")
        await said(home, "/yes 2 hour")
        listed = (
            f"Not asked about:\n1. {PUSH}, in terminal:main, until 13:00\n2. {PULL}, in terminal:main, until 13:00\n\n"
            "/grants revoke NUMBER takes one back, /grants revoke all takes back all."
        )
        assert await home.ask("/grants") == listed
        assert await home.ask("/grants revoke 9") == "There is no grant 9; /grants lists them."
        assert "Say /grants" in await home.ask("/grants off")
        assert await home.ask("/grants revoke all") == f"Revoked: {PUSH}; {PULL}. I ask again."
        assert await home.ask("/grants revoke all") == "There are no grants."


@virtual_time
async def test_the_end_of_an_hour_is_said_where_it_held(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "One.", clock=None, wakes=True, seconds=9_000) as home:
        await home.ask("push")
        await said(home, "/yes 1 hour")
        home.hand.now += timedelta(hours=1)
        over = (MAIN, Notice(f"the hour for {PUSH} is over: I ask again"))
        await until(lambda: over in home.channel.events)
        assert home.rows("SELECT * FROM approvals_grants") == []


# --- where it is asked and answered ----------------------------------------------------------------------------------


async def test_a_question_from_a_chat_is_asked_there_and_in_the_terminal_and_settled_in_both(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "Pushed.", git("push"), "Not pushed.") as home:
        home.home.link(OWN)
        await home.write_from(OWN, "1", "push")
        there, here = await home.chat.sent.get(), await home.channel.sent.get()
        assert there.text.startswith("Run git push?\n\n```\npush\n```\n\n1. Yes") and there.buttons == here.buttons
        assert "(This comes from telegram:1, not from this chat.)" in here.text
        assert await home.ask("yes") == "OK, going ahead."
        assert (await home.chat.sent.get()).text == "Pushed."
        settled = {(address, event.id) for address, event in home.chat.events if type(event).__name__ == "Settled"}
        assert settled == {(OWN, "message-1")}
        await home.write_from(OWN, "1", "push again")
        await home.chat.sent.get()
        await home.channel.sent.get()
        await home.write_from(OWN, "1", "no")
        assert {(await home.chat.sent.get()).text for _ in range(2)} == {"OK, I won't do it.", "Not pushed."}
        assert (MAIN, Notice("question 2 (“Run git push?”) is over: it was answered: “no”")) in home.channel.events
        assert "no open question 2" in await home.ask("/yes 2")
        assert RAN == ["push"]


async def test_another_chat_of_the_owners_cannot_answer_for_this_one(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "Not pushed.") as home:
        home.home.link(OWN)
        other = Address("telegram", "2")
        home.home.link(other)
        await home.write_from(OWN, "1", "push")
        await home.chat.sent.get()
        await home.write_from(other, "2", "/yes 1")
        told = "Question 1 was asked in telegram:1: answer it there, or in a terminal."
        assert (await home.chat.sent.get()).text == told
        await home.write_from(GUEST, "777", "/yes 1")
        assert (await home.chat.sent.get()).text == "Only the owner can do that."
        await home.write_from(OWN, "1", "/no 1")
        assert {(await home.chat.sent.get()).text for _ in range(2)} == {"OK, I won't do it.", "Not pushed."}
        assert RAN == []


async def test_a_terminal_that_is_opened_later_is_told_what_waits_elsewhere(tmp_path: Path) -> None:
    async with program(tmp_path, git("push"), "Done.") as home:
        home.channel.serves = lambda outbound: False
        home.home.link(OWN)
        await home.write_from(OWN, "1", "push")
        await home.chat.sent.get()
        assert home.public("approvals").reminders(MAIN) == [
            "question 1 waits for your answer: “Run git push?”: /yes 1 or /no 1, and /answer 1 shows all of it"
        ]
        await home.write_from(OWN, "1", "no")
        await home.chat.sent.get()


# --- the exact bytes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["push b", "push a ", "push\u200b a", "push\u00a0a", "Push a"])
async def test_a_yes_to_one_call_is_none_to_another_that_looks_the_same(tmp_path: Path, other: str) -> None:
    async with program(tmp_path, git("push a")) as home:
        await home.ask("go")
        home.app.is_terminated = True
    async with program(tmp_path, "Not done.") as home:
        home.app.store.db.execute("UPDATE turns SET running = replace(running, 'push a', ?)", (other,))
        assert other in home.rows("SELECT running FROM turns")[0][0]
        assert await said(home, "/yes 1") == {"OK, going ahead.", "Not done."}
        assert RAN == []
        assert results(home.history)[-1].is_error


async def until(is_so: Any) -> None:
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(1)


def test_grants_are_listed_and_revoked_in_a_shell(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert json.loads(home.run("grants", "--json").out) == {"grants": []}
    assert "There is no grant 9" in home.run("grants", "revoke", "9", check=1).err
