"""Titles of conversations: first words by code, a model's only where one is named for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nanoclaw.core.host import PluginHost
from nanoclaw.core.store.history import list_sessions
from nanoclaw.plugins.forget.scrub import scrub
from nanoclaw.plugins.forget.words import words_of
from nanoclaw.plugins.titles.titles import titles
from nanoclaw.providers.scripted import ScriptedProvider
from tests.program import Program, running

NAMED = '[models]\ntitles = "scripted/titles"'


def titles_in(program: Program) -> dict[str, str]:
    return titles(program.app.store.rows, (one[:3] for one in list_sessions(program.app.store)))


async def title_of(program: Program) -> str:
    asked = [task for task in program.app._tasks if "Titles._make" in repr(task)]
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
        assert "Zanzibar" not in str(program.rows("SELECT * FROM titles_made"))
