"""Somebody else's plugins: the example of docs/plugins.md as a file of the home and as an installed package, and one of
every kind of thing that a plugin may bring."""

import inspect
import json
import os
import re
import subprocess
import sys
import sysconfig
import textwrap
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from nanoclaw.core.chain import HOOKS
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Outbound
from nanoclaw.core.plugin import Plugin
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start import third_party
from nanoclaw.start.build import BUILT_IN, build
from nanoclaw.start.config import Config
from tests.examples import examples
from tests.plugins.compaction.test_compaction import Model
from tests.program import MAIN, NOON, REPOSITORY, HandClock, config_of, results, running

EXAMPLES = examples(__file__, "plugins.jsonl")

DOCS = (REPOSITORY / "docs" / "plugins.md").read_text(encoding="utf-8")
WEATHER, MANNERS, DAYS, QUIET = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
ENABLED = '[plugins]\nenabled = ["weather"]\n[plugins.weather]\nevery = 600.0\nkey = "secret-of-the-service"\n'

EVERYTHING = """
import asyncio
from nanoclaw.core.channel import Hints
from nanoclaw.core.messages import AssistantMessage
from nanoclaw.core.plugin import Answer, Plugin

SENT = []


class Postbox:
    name = "postbox"
    hints = Hints(bursts=False)
    alive = None

    async def run(self, deliver):
        await asyncio.Event().wait()

    def serves(self, outbound):
        return True

    async def send(self, outbound):
        SENT.append(outbound.text)
        return "1"

    def show(self, address, event):
        pass


class Parrot:
    supports_vision = False

    def __init__(self, model):
        self.model = model

    async def complete(self, request, on_event):
        return AssistantMessage(f"{self.model} says: {request.history[-1].text}", request.history[-1].at)

    async def aclose(self):
        pass


class Everything(Plugin):
    name = "everything"

    def channels(self):
        return [Postbox()]

    def providers(self):
        return {"parrot": Parrot}

    async def before_answer(self, answer, turn):
        return Answer(answer.text + " (checked)")
"""


def put(root: Path, name: str, code: str) -> None:
    """A plugin that is one file of the home, as its owner looked at it."""
    path = root / "plugins" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    third_party.pins(Config(root)).set(name, third_party.read(path))


def test_the_page_has_each_hook_with_its_parameters_and_each_attribute_of_the_seam() -> None:
    hooks = {name: one for name, one in vars(Plugin).items() if inspect.isfunction(one) and name[0] != "_"}
    told = dict(re.findall(r"`(\w+)\(([^`)]*)\)`", "\n".join(re.findall(r"^\| (`.+?) \|", DOCS, re.MULTILINE))))
    assert told == {name: ", ".join([*inspect.signature(one).parameters][1:]) for name, one in hooks.items()}
    attributes = set(Plugin.__annotations__)
    assert {name for name in attributes if f"`{name}`" not in DOCS} == set()


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_plugin_names_its_hooks_in_its_readme(name: str) -> None:
    module, _, kind = BUILT_IN[name].partition(":")
    own, text = getattr(import_module(module), kind), (REPOSITORY / "nanoclaw" / "plugins" / name / "README.md")
    hooks = [one for one in (*HOOKS, "check", "audit", "run") if getattr(own, one) is not getattr(Plugin, one)]
    assert [one for one in hooks if f"`{one}" not in text.read_text(encoding="utf-8")] == []


def test_the_example_has_less_than_sixty_lines() -> None:
    assert WEATHER.count("\n") < 60


async def test_a_file_in_the_home_brings_five_things_and_outlives_a_restart(tmp_path: Path) -> None:
    put(tmp_path, "weather", WEATHER)
    provider = ScriptedProvider(call("weather", {"city": "Rome"}), "It is warm.")
    async with running(tmp_path, provider, settings=ENABLED, wakes=True) as program:
        assert await program.ask("How warm is it in Rome?") == "It is warm."
        assert [result.text for result in results(program.history)] == ["14.0 °C in Rome"]
        assert "Weather: look it up with `weather`" in provider.requests[0].system.text
        assert await program.ask("/frost Berlin") == "I say when it freezes in Berlin."
    async with running(tmp_path, wakes=True) as program:  # its background work runs with what the table has
        assert await program.answer() == "It freezes in Berlin: -3 °C."
        assert program.rows("SELECT last FROM weather_watched") == [(-3.0,)]
        assert program.history[-1].text == "It freezes in Berlin: -3 °C."


async def test_what_a_plugin_calls_secret_never_shows(tmp_path: Path) -> None:
    put(tmp_path, "weather", WEATHER.replace('f"{DEGREES[city]:.1f} °C in {city}"', "self._settings.key"))
    provider = ScriptedProvider(call("weather", {"city": "Rome"}), "The key is secret-of-the-service.")
    async with running(tmp_path, provider, settings=ENABLED) as program:
        assert "secret-of-the-service" not in await program.ask("How warm is it?")
        assert "secret-of-the-service" not in results(program.history)[0].text


async def test_hooks_refuse_change_and_ask_anew(tmp_path: Path) -> None:
    put(tmp_path, "manners", MANNERS)
    put(tmp_path, "weather", WEATHER.replace('reach="none"', 'reach="outside"'))
    both = ENABLED.replace('["weather"]', '["weather", "manners"]')
    provider = ScriptedProvider("No.", "Still no.")
    async with running(tmp_path, provider, settings=both) as program:
        assert await program.ask("Be polite") == "Still no.\n\n(It would not say please.)"
        assert "Say please once." in provider.requests[1].history[-1].text
    sunday = NOON.replace(day=8)
    provider = ScriptedProvider(call("weather", {"city": "Rome"}), "please ask tomorrow")
    async with running(tmp_path, provider, clock=lambda: sunday) as program:
        assert await program.ask("How warm is it?") == "please ask tomorrow"
        assert [result.text for result in results(program.history)] == ["not on Sundays"]


async def test_another_way_to_make_room_keeps_the_newest_turns_and_a_line_for_each_earlier_day(tmp_path: Path) -> None:
    put(tmp_path, "days", DAYS)
    settings = '[plugins]\nenabled = ["days"]\noff = ["compaction"]\n'
    clock, model = HandClock(), Model(call("todo", {"steps": ["Buy seeds"]}), summary="", window=60_000)
    async with running(tmp_path, model, settings=settings, clock=clock) as program:
        for number in range(80):
            clock.now = NOON + timedelta(number // 4)
            assert await program.ask(f"message {number} {'of the garden ' * 500}") == "ok"
        lines, *newest = history = program.history
        begin, *days = lines.text.partition("\nTo-do list")[0].splitlines()
        assert begin == "[Earlier, one line for each day]" and "Buy seeds" in lines.text and len(days) > 9
        for at, day in enumerate(days):
            assert day.startswith(f"{NOON + timedelta(at):%Y-%m-%d}: 'message {at * 4} of the garden")
        assert tuple(newest) == tuple(program.app.sessions.of(MAIN).whole()[-len(newest) :])
        assert program.app.chain.faults == {}
    assert model.refused == 1, "the first refusal tells the window"
    async with running(tmp_path, model) as program:
        assert program.history == history


async def test_quiet_hours_hold_what_nobody_asked_for_until_the_morning_over_a_restart(tmp_path: Path) -> None:
    assert QUIET.count("\n") <= 60
    put(tmp_path, "quiet", QUIET)
    settings, clock = '[plugins]\nenabled = ["quiet"]\n', HandClock(NOON.replace(hour=23, minute=30))
    async with running(tmp_path, ScriptedProvider("Good night."), settings=settings, clock=clock) as program:
        await program.app.transactions.write(lambda tx: tx.send(Outbound(MAIN, "A task has ended.")))
        assert await program.ask("Are you there?") == "Good night."
        await program.app.transactions.write(lambda tx: tx.send(Outbound(MAIN, "Take the pills.", at=clock.now)))
        assert await program.answer() == "Take the pills."
        assert program.rows("SELECT state FROM outbox ORDER BY id") == [("pending",), ("delivered",), ("delivered",)]
    clock.now += timedelta(hours=7, minutes=29)
    async with running(tmp_path, ScriptedProvider("It is early."), clock=clock) as program:
        assert await program.ask("And now?") == "It is early."
        clock.now += timedelta(minutes=1)
        program.app.delivery.wake()
        assert await program.answer() == "A task has ended."


async def test_what_a_plugin_drops_counts_as_not_sent_and_a_time_that_is_none_holds_nothing(tmp_path: Path) -> None:
    said = '{"Psst.": "drop", "Soon.": Later(0)}.get(outbound.text, Later(now.replace(year=3000, tzinfo=None)))'
    put(tmp_path, "quiet", QUIET.replace("Later(morning + timedelta(days=now.hour >= 23))", said))
    settings, clock = '[plugins]\nenabled = ["quiet"]\n', HandClock(NOON.replace(hour=23))
    async with running(tmp_path, ScriptedProvider(), settings=settings, clock=clock) as program:
        for text in ("In ten centuries.", "Psst.", "Soon."):
            await program.app.transactions.write(lambda tx, text=text: tx.send(Outbound(MAIN, text)))  # type: ignore[misc]
        assert await program.answer() == "Soon."
        assert "astimezone" in program.app.chain.faults["quiet"]
        rows = program.rows("SELECT error FROM outbox ORDER BY id LIMIT 2")
        assert rows == [("",), ("the plugin quiet held it back",)]


async def test_a_channel_and_a_provider_of_a_plugin_serve(tmp_path: Path) -> None:
    put(tmp_path, "everything", EVERYTHING)
    settings = '[plugins]\nenabled = ["everything"]\n[model]\nname = "parrot/green"\n'
    app = build(config_of(tmp_path, settings), model="parrot/green")
    try:
        assert app.channels.get("postbox") is not None
        assert app.models.of("parrot/red").model == "parrot/red"
        assert app.models.of("").model == "parrot/green"
    finally:
        await app.aclose()


async def test_a_model_that_no_plugin_brings_is_told(tmp_path: Path) -> None:
    app = build(config_of(tmp_path, '[plugins]\noff = ["services"]\n'), model="openai/gpt-5")
    try:
        with pytest.raises(ConfigError, match="no plugin that is on brings the model 'openai/gpt-5'"):
            app.models.of("")
    finally:
        await app.aclose()


@pytest.mark.parametrize(("code", "said"), EXAMPLES["one that cannot be loaded stops the start"])
async def test_one_that_cannot_be_loaded_stops_the_start_and_without_it_all_works(
    tmp_path: Path, code: str, said: str
) -> None:
    put(tmp_path, "p", code)
    config = config_of(tmp_path, '[plugins]\nenabled = ["p"]\n')
    with pytest.raises(ConfigError) as raised:
        build(config)
    assert said in str(raised.value)
    assert "--without p" in str(raised.value)
    await build(config, without=["p"]).aclose()


FOREIGN = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "nanoclaw-weather"
version = "1.0"

[project.entry-points."nanoclaw.plugins"]
weather = "nanoclaw_weather:Weather"
everything = "nanoclaw_weather.everything:Everything"
"""

TALK = """
import asyncio, json, sys
from pathlib import Path
from tests.program import running
from nanoclaw.providers.scripted import ScriptedProvider, call

async def main() -> None:
    provider = ScriptedProvider(call("weather", {"city": "Rome"}), "It is warm.")
    async with running(Path(sys.argv[1]), provider, wakes=True) as program:
        said = [await program.ask("How warm?"), await program.ask("/frost Berlin")]
    async with running(Path(sys.argv[1]), wakes=True) as program:
        said.append(await program.answer())
        print(json.dumps([said, program.app.channels.get("postbox") is not None, sorted(program.app.chain.faults)]))

asyncio.run(main())
"""


def test_a_package_that_pip_installs_into_a_fresh_environment_is_a_plugin(tmp_path: Path) -> None:
    package, environment, home = tmp_path / "package", tmp_path / "environment", tmp_path / "home"
    (package / "nanoclaw_weather").mkdir(parents=True)
    (package / "pyproject.toml").write_text(FOREIGN)
    (package / "nanoclaw_weather" / "__init__.py").write_text(WEATHER)
    (package / "nanoclaw_weather" / "everything.py").write_text(EVERYTHING)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    # nanoclaw's own libraries come from here, so that nothing need be fetched
    (site / "nanoclaw.pth").write_text(f"{REPOSITORY}\n{sysconfig.get_path('purelib')}\n")
    python = environment / "bin" / "python"
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, str(package)], check=True, env=variables, cwd=tmp_path)
    home.mkdir()
    enabled = ENABLED.replace('["weather"]', '["weather", "everything"]')
    (home / "config.toml").write_text(enabled)
    (tmp_path / "talk.py").write_text(textwrap.dedent(TALK))
    done = subprocess.run(
        [str(python), str(tmp_path / "talk.py"), str(home)],
        capture_output=True,
        text=True,
        env={**variables, "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    said, has_channel, faults = json.loads(done.stdout)
    assert said == ["It is warm. (checked)", "I say when it freezes in Berlin.", "It freezes in Berlin: -3 °C."]
    assert has_channel
    assert faults == []


async def test_it_is_listed_with_its_hooks(tmp_path: Path) -> None:
    from nanoclaw.commands.arguments import parsed
    from nanoclaw.commands.plugin_files import listed

    put(tmp_path, "weather", WEATHER)
    told = listed(config_of(tmp_path, ENABLED), parsed(["plugins"])).text
    line = next(line for line in told.splitlines() if line.startswith("weather"))
    assert "on" in line and "weather.py" in line and "sections" in line and "run" in line
