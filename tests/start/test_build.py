"""The program as `build` makes it: a typed line, a model, a tool, a saved answer, with nothing but the core."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import AssistantMessage, CheckedCall, Outbound
from nanoclaw.core.plugin import Command, Plugin, Refuse, Said, Tool, Turn, Tx, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start.build import bring_up
from nanoclaw.start.opening import open_store
from tests.program import MAIN, assert_legal, results, running


class Weather(Plugin):
    name = "weather"
    migrations = ("CREATE TABLE weather_seen (city TEXT PRIMARY KEY) STRICT",)

    def tools(self) -> Iterable[Tool]:
        return [tool(self._weather)]

    def commands(self) -> Iterable[Command]:
        return [Command("frost", "say when it freezes", self._frost)]

    async def _weather(self, context: ToolContext, city: str) -> str:
        """The temperature of a city."""
        await context.write(lambda tx: tx.execute("INSERT INTO weather_seen VALUES (?)", city))
        return f"12 °C in {city}"

    def _frost(self, said: Said, tx: Tx) -> str:
        tx.send(Outbound(said.address, "It freezes."), "From the weather watch.")
        return "Watched."

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        return Refuse("not Paris") if call.arguments.get("city") == "Paris" else None


async def test_a_line_a_tool_and_an_answer_are_kept(tmp_path: Path) -> None:
    provider = ScriptedProvider(call("weather", {"city": "Berlin"}), "It is 12 °C.")
    async with running(tmp_path, provider, plugins=[Weather]) as program:
        assert await program.ask("How warm is it?") == "It is 12 °C."
        assert [result.text for result in results(program.history)] == ["12 °C in Berlin"]
        assert program.rows("SELECT city FROM weather_seen") == [("Berlin",)]
    async with running(tmp_path, plugins=[Weather]) as program:
        assert_legal(program.history)
        assert isinstance(program.history[-1], AssistantMessage) and program.history[-1].text == "It is 12 °C."


async def test_a_plugin_whose_tables_cannot_be_made_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    class Torn(Plugin):
        name = "torn"
        migrations = ("CREATE TABLE torn_seen (city TEXT)", "ALTER TABLE torn_sene ADD COLUMN at TEXT")

    with pytest.raises(ConfigError) as told:
        async with running(tmp_path, plugins=[Torn]):
            pass
    assert str(told.value) == (
        "step 2 of the tables of the plugin torn cannot be made: no such table: torn_sene. "
        "nanoclaw --without torn starts without it."
    )
    async with running(tmp_path, plugins=[Weather]) as program:
        assert program.rows("SELECT version FROM plugins WHERE name = 'torn'") == [(1,)]


def test_a_first_start_makes_the_tables_of_all_plugins_in_one_transaction(tmp_path: Path) -> None:
    class Tides(Plugin):
        name = "tides"
        migrations = ("CREATE TABLE tides_seen (at TEXT)", "ALTER TABLE tides_seen ADD COLUMN height REAL")

    store, statements = open_store(tmp_path / "state.db"), list[str]()
    store.db.set_trace_callback(statements.append)
    bring_up(store, [Weather, Tides])
    assert store.rows("SELECT name, version FROM plugins") == [("weather", 1), ("tides", 2)]
    bring_up(store, [Weather, Tides])
    store.close()
    assert [one for one in statements if one in ("BEGIN IMMEDIATE", "COMMIT")] == ["BEGIN IMMEDIATE", "COMMIT"]


async def test_a_refused_call_is_not_run(tmp_path: Path) -> None:
    provider = ScriptedProvider(call("weather", {"city": "Paris"}), "I may not look.")
    async with running(tmp_path, provider, plugins=[Weather]) as program:
        assert await program.ask("And Paris?") == "I may not look."
        assert [result.text for result in results(program.history)] == ["not Paris"]
        assert program.rows("SELECT city FROM weather_seen") == []


async def test_a_command_writes_and_sends_in_one_transaction(tmp_path: Path) -> None:
    async with running(tmp_path, plugins=[Weather]) as program:
        await program.say("/frost")
        assert sorted([await program.answer(), await program.answer()]) == ["It freezes.", "Watched."]
        assert [message.text for message in program.app.sessions.of(MAIN).history][-1] == "It freezes."


async def test_nobody_else_can_put_a_plugin_into_the_home(tmp_path: Path) -> None:
    """Also where the home was made by hand, and new files are open to all."""
    before = os.umask(0)
    try:
        async with running(tmp_path / "home", ScriptedProvider("Hello.")) as home:
            assert await home.ask("hi") == "Hello."
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "home/plugins").stat().st_mode) == 0o700
