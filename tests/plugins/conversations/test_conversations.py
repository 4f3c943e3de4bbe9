"""Conversations: their titles (first words by code, a model's only where one is named for it), listing and deleting."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import ANY

from nanoclaw.core.messages import Address, AssistantMessage, Inbound, UserMessage
from nanoclaw.core.plugin import Said
from nanoclaw.core.store.history import list_sessions
from nanoclaw.plugins.conversations.titles import titled
from nanoclaw.plugins.forget.scrub import scrub
from nanoclaw.plugins.forget.words import words_of
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from nanoclaw.start.host import ConversationStore, PluginHost
from tests.core.store.test_db import filled
from tests.journeys.command import Home
from tests.program import BERLIN, MAIN, HandClock, Program, running

NAMED = '[models]\ntitles = "scripted/titles"'


def titles_in(program: Program) -> dict[str, str]:
    return {one["name"]: one["title"] for one in titled(program.app.store.rows, list_sessions(program.app.store))}


async def title_of(program: Program) -> str:
    asked = [task for task in program.app._tasks if "Conversations._make" in repr(task)]
    await asyncio.gather(*asked, return_exceptions=True)
    return titles_in(program).get("terminal:main", "nothing")


async def test_without_a_model_for_it_the_first_words_are_the_title_and_no_request_is_made(tmp_path: Path) -> None:
    model = ScriptedProvider("Sure.", "Fine.", "A new one.")
    async with running(tmp_path, model) as program:
        await program.ask("Where did I put\nthe Krakatau tickets, the ones for the boat from Carita on the third?")
        await program.ask("Never mind.")
        assert titles_in(program)["terminal:main"] == ("Where did I put the Krakatau tickets, the ones for the boat…")
        await program.ask("/new")
        assert titles_in(program)["terminal:main"] == ""
        await program.ask("Another matter")
        assert titles_in(program)["terminal:main"] == "Another matter"
    assert not [request for request in model.requests if request.purpose]


async def test_the_model_for_titles_is_asked_once_for_each_context_also_over_a_restart(tmp_path: Path) -> None:
    own = ScriptedProvider('**"Krakatau tickets"**\n', "Garden plan", model="scripted/titles")
    async with running(tmp_path, ScriptedProvider("In the drawer."), own, settings=NAMED) as program:
        await program.ask("Where are the Krakatau tickets?")
        assert await title_of(program) == "Krakatau tickets"
        assert "In the drawer." in own.requests[0].history[0].text and not own.requests[0].tools
    async with running(tmp_path, ScriptedProvider("Yes.", "Beans."), own, settings=NAMED) as program:
        await program.ask("Sure?")
        assert await title_of(program) == "Krakatau tickets"
        await program.ask("/new")
        assert await title_of(program) == ""
        await program.ask("What shall I plant?")
        assert await title_of(program) == "Garden plan"
        booked = program.rows("SELECT count(*) FROM usage WHERE model = 'scripted/titles'")
    assert booked == [(2,)]


async def test_a_model_that_names_nothing_leaves_the_first_words_and_is_asked_once(tmp_path: Path) -> None:
    failing = ScriptedProvider("\n", model="scripted/titles")
    main = ScriptedProvider("Yes.", "Yes.")
    async with running(tmp_path, main, failing, settings=NAMED) as program:
        await program.ask("Where are the tickets?")
        assert await title_of(program) == "Where are the tickets?"
        await program.ask("Again?")
    assert len(failing.requests) == 1


async def test_forgetting_takes_words_out_of_titles(tmp_path: Path) -> None:
    own = ScriptedProvider("Zanzibar surprise", model="scripted/titles")
    async with running(tmp_path, ScriptedProvider("Ok."), own, settings=NAMED) as program:
        await program.ask("Plan a trip")
        assert await title_of(program) == "Zanzibar surprise"
        scrub(PluginHost(program.app, "forget"), words_of((), ["Zanzibar"]))
        assert "Zanzibar" not in str(program.rows("SELECT * FROM conversations_titles"))


async def test_a_person_names_a_conversation_and_no_model_names_it_again(tmp_path: Path) -> None:
    own = ScriptedProvider("Garden plan", model="scripted/titles")
    async with running(tmp_path, ScriptedProvider("Ok.", "Ok."), own, settings=NAMED) as program:
        assert await program.ask("/rename  Trip to\nRome ") == "terminal:main is now called “Trip to Rome”."
        await program.ask("What shall I plant?")
        assert await title_of(program) == "Trip to Rome"
        assert "`terminal:main`: Trip to Rome (2026-03-06, just now, " in await program.ask("/sessions")
        assert "is now called “Beans”" in await program.ask("/sessions rename main Beans")
        assert "gives this conversation a title" in await program.ask("/rename")
        assert "there is no conversation 'nope Beans'" in await program.ask("/sessions rename nope Beans")
        for said in ("/sessions delete", "/sessions rename main", "/sessions eat grass"):
            assert "/sessions lists the conversations" in await program.ask(said)
    assert not own.requests


async def test_a_title_of_an_earlier_version_is_still_there(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Ok."), without=("conversations",)) as program:
        await program.ask("What shall I plant?")
        with program.app.transactions.open() as tx:
            tx.execute("CREATE TABLE titles_made (conversation TEXT PRIMARY KEY, context INTEGER, title TEXT) STRICT")
            tx.execute("INSERT INTO titles_made VALUES ('terminal:main', 1, 'Garden plan')")
    async with running(tmp_path, ScriptedProvider()) as program:
        assert "Garden plan" in await program.ask("/sessions")


async def test_a_deleted_conversation_is_gone_but_for_its_cost_and_what_it_did(tmp_path: Path) -> None:
    writes = call("write_file", {"path": "bird.txt", "content": "a pelican"})
    model = ScriptedProvider(writes, "The pelican is in bird.txt.", "What pelican?")
    async with running(tmp_path, model) as program:
        await program.ask("/rename Birds")
        await program.ask("Write the word pelican to bird.txt")
        cost = program.rows("SELECT count(*), sum(input_tokens) FROM usage")
        asked = await program.ask("/sessions delete main")
        assert asked == "`/sessions delete terminal:main yes` deletes terminal:main “Birds” for good."
        told = await program.ask("/sessions delete main yes")
        assert "Deleted: terminal:main “Birds”." in told and "`nanoclaw memory forget WORDS`" in told
        for table in ("inbox", "messages", "turns", "outbox"):
            assert "pelican" not in str(program.rows(f"SELECT * FROM {table}"))
        assert program.rows("SELECT count(*), sum(input_tokens) FROM usage") == cost
        assert program.rows("SELECT target, turn FROM ledger") == [("bird.txt", None)]
    async with running(tmp_path, model) as program:
        assert await program.ask("Which pelican?") == "What pelican?"


async def test_a_turn_that_runs_where_its_own_conversation_is_deleted_is_stopped_first(tmp_path: Path) -> None:
    hang = Hang("The first half")
    async with running(tmp_path, ScriptedProvider(hang, "Hello.")) as program:
        await program.say("Tell me about the pelican")
        await hang.reached.wait()
        await program.say("/sessions delete main yes")
        assert "Deleted: terminal:main" in await program.answer_with("Deleted")
        assert [one.reason for one in program.channel.ended][:1] == ["cancelled"]
        assert "pelican" not in str(program.rows("SELECT * FROM messages"))
        assert await program.ask("Are you there?") == "Hello."


async def test_a_deletion_that_waited_for_the_next_start_does_not_wait_for_itself(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Ok.")) as program:
        await program.ask("Tell me about the pelican")
        said = UserMessage("/sessions delete main yes", program.clock())
        await program.app.router.keep(Inbound(MAIN, "me", "left", said, role="owner"))
    async with running(tmp_path, ScriptedProvider()) as program:
        assert "Deleted: terminal:main" in await program.answer()


async def test_runs_that_no_person_talked_in_are_listed_only_when_all_are(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Ok.")) as program:
        now = program.clock()
        run = (UserMessage("Look around", now, "heartbeat"), AssistantMessage("All is well", now))
        with program.app.transactions.open() as tx:
            ConversationStore(program.app).add(Address("heartbeat", "main"), [run], tx)
        await program.ask("Hello")
        assert "heartbeat" not in await program.ask("/sessions")
        assert "`heartbeat:main`: no title" in await program.ask("/sessions list")


async def test_the_list_shows_the_day_of_the_person_and_how_long_ago_it_was(tmp_path: Path) -> None:
    clock = HandClock(datetime(2026, 3, 7, 0, 30, tzinfo=BERLIN).astimezone(UTC))  # for whom it is Saturday already
    async with running(tmp_path, ScriptedProvider("Ok."), clock=clock) as program:
        await program.ask("Good night")
        clock.now = datetime(2026, 3, 10, 0, 30, tzinfo=BERLIN)
        assert "(2026-03-07, 3 days ago, 2 messages)" in await program.ask("/sessions")


async def test_a_search_finds_words_in_every_conversation_and_names_the_message(tmp_path: Path) -> None:
    model = ScriptedProvider("In the drawer.", "Fine.", "ÄRGER mit 100% Öl.")
    async with running(tmp_path, model) as program:
        await program.ask("Where are the tickets?")
        await program.ask("/new")
        await program.ask("Good.")
        await program.ask("Was war gestern?", chat="work")
        found = await program.ask("/sessions DRAWER the")
        assert found.startswith("- `terminal:main` 1, ") and found.endswith(", just now, nanoclaw: In the drawer.")
        assert "`terminal:work` 1" in await program.ask("/sessions ärger 100% öl")
        for said in ("100_", "dra%er", "tickets drawer", "origin"):
            assert "Nothing was said about" in await program.ask(f"/sessions {said}")
        assert await program.ask("/rename Lost things") and await program.ask("/sessions lost")
        told = await program.app.commands.for_said("sessions", Said("gestern", MAIN, MAIN, "me", "owner"))
    assert told.data and told.data["found"][0] == {
        "conversation": "terminal:work",
        "message": 1,
        "row": ANY,
        "at": ANY,
        "who": "you",
        "excerpt": "Was war gestern?",
    }


def test_the_command_line_names_and_deletes_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    filled(home.root / "state.db", 2)
    assert "is now called “Greeting”" in home.run("sessions", "rename", "main", "Greeting").out
    assert "nanoclaw sessions delete terminal:main yes" in home.run("sessions", "delete", "main").out
    assert "Deleted: terminal:main “Greeting”" in home.run("sessions", "delete", "main", "yes").out
    assert "Greeting" not in home.run("sessions", "list").out
    assert "there is no conversation 'nope'" in home.run("sessions", "delete", "nope", check=1).err
