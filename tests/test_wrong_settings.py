"""Each setting of a wrong type: one sentence with the file, the key and what to write, before anything runs."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest

from nanoclaw import cli
from nanoclaw.channels import table as channels
from nanoclaw.core.channel import Ids
from nanoclaw.start import config
from nanoclaw.start.build import classes, prefix_of
from tests.journeys.command import Home
from tests.program import REPOSITORY
from tests.test_plugins import ENABLED, WEATHER, put

WRONG: dict[Any, tuple[str, ...]] = {
    str: ("5", "true", '["a"]', "2026-03-06"),
    int: ('"3"', "1.5", "true", "[3]"),
    float: ('"3"', "true"),
    bool: ('"yes"', "1"),
    tuple: ('"a"', "[1]", '[["a"]]', "true"),
    Ids: ('"a"', "555", "[1.5]", "[true]"),
    dict: ("5", '{ soul = "no" }', "{ soul = 1 }"),
    "one of": ('"xyzzy"', "5", "[]"),
}


def kinds_of(settings: Any, prefix: str, places: Any = ()) -> Iterator[tuple[str, Any]]:
    """The dotted keys of settings, each with its type."""
    hints = get_type_hints(settings, include_extras=True)
    for name, given in hints.items():
        hint: Any = origin if (origin := getattr(given, "__origin__", None)) in WRONG else given
        kind = hint if hint in WRONG else {tuple: tuple, dict: dict}.get(get_origin(hint), "one of")
        yield dict(places).get(name, f"{prefix}.{name}"), kind


def settings_of_the_program() -> dict[str, Any]:
    found: dict[str, Any] = {"models.*": dict}  # tests/test_models.py has them
    for name in config._TYPES:
        found |= kinds_of(config._TYPES[name], name)
    plugins = classes(config.Config(Path("/nowhere")))
    for one in plugins:
        if one.settings:  # a whole table ("mcp.*") has tests of its own
            found |= {key: kind for key, kind in kinds_of(one.settings, prefix_of(one), one.keys) if key not in found}
    for name in channels.BUILT_IN:
        spec = channels.find(name)
        assert spec
        found |= kinds_of(spec.settings, f"channels.{name}")
        for one in plugins:
            if one.channel_settings:
                found |= kinds_of(one.channel_settings, f"channels.{name}")
    return found


SETTINGS = settings_of_the_program()


def as_toml(key: str, value: str) -> str:
    table, _, name = key.rpartition(".")
    return f"[{table}]\n{name} = {value}\n"


def said_of(
    home: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    monkeypatch.setenv("NANOCLAW_HOME", str(home))
    (home / "config.toml").write_text(text)
    (home / "config.toml").chmod(0o600)
    status = cli.run(["status"])
    return status, capsys.readouterr().err


@pytest.mark.parametrize("key", [key for key in SETTINGS if not key.endswith(".*")])
def test_a_value_of_another_type_is_told_in_a_sentence(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in WRONG[SETTINGS[key]]:
        status, told = said_of(tmp_path, as_toml(key, value), monkeypatch, capsys)
        assert status == 2, (value, told)
        assert re.fullmatch(rf"nanoclaw: {re.escape(str(tmp_path))}/config\.toml: '{key}' must be [^\n]+\.\n", told), (
            told
        )


def test_a_plugin_of_somebody_else_is_given_no_value_of_another_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "weather", WEATHER)
    wrong = '[plugins]\nenabled = ["weather"]\n[plugins.weather]\nevery = "often"\n'
    status, told = said_of(tmp_path, wrong, monkeypatch, capsys)
    said = f"nanoclaw: {tmp_path}/config.toml: 'plugins.weather.every' must be a number, not 'often'.\n"
    assert (status, told) == (2, said)
    status, told = said_of(tmp_path, wrong.replace("every", "evry"), monkeypatch, capsys)
    assert (status, "did you mean 'plugins.weather.every'?" in told) == (2, True)


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [('places = ["Rome"]', 0, ""), ("every = 0.5", 2, "config.toml: plugins.picky.every must be at least 1, not 0.5.")],
)
def test_settings_of_a_plugin_say_themselves_what_cannot_be_meant(
    tmp_path: Path,
    line: str,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(tmp_path, "picky", PICKY)
    ended, told = said_of(tmp_path, f'[plugins]\nenabled = ["picky"]\n[plugins.picky]\n{line}\n', monkeypatch, capsys)
    assert (ended, told.rpartition("/")[2].strip()) == (status, said)


PICKY = """
from typing import NamedTuple
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Plugin


class Settings(NamedTuple):
    every: float = 60.0
    places: list[str] | None = None

    def check(self):
        if self.every < 1:
            raise ConfigError(f"plugins.picky.every must be at least 1, not {self.every}.")


class Picky(Plugin):
    name = "picky"
    settings = Settings
"""


def leaves(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        if f"{prefix}{name}.*" in SETTINGS:
            yield f"{prefix}{name}.*"
        elif isinstance(value, dict) and f"{prefix}{name}" not in SETTINGS:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_setting_that_a_page_shows_is_one() -> None:
    for page in (REPOSITORY / "docs").glob("*.md"):
        text = page.read_text()
        for table in re.findall(r"^```toml\n(.*?)^```$|^(\[channels\.\w+\]\n.*?)^END$", text, re.DOTALL | re.MULTILINE):
            shown = {*leaves(tomllib.loads("".join(table)))}
            own = {key for key in shown if key.startswith(("project.", "plugins.weather.", "channels.folder."))}
            assert shown - own <= {*SETTINGS}, page.name


def test_a_list_of_ids_takes_numbers(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[channels.telegram]\nallow_from = ["anna", 42]\n')
    loaded = config.load({"NANOCLAW_HOME": str(tmp_path)})
    (access,) = (one for one in classes(loaded) if one.name == "access")
    assert access.channel_settings
    assert loaded.settings(access.channel_settings, "channels.telegram").allow_from == ("anna", "42")


# --- before the model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[model]\nnmae = "openai/gpt-5"\n', "unknown key 'model.nmae'; did you mean 'model.name'?"),
        ("[limits]\nrounds = 0\n", "'limits.rounds' must be more than 0, not 0."),
        ('[heartbeat]\nevery = "soon"\n', "heartbeat.every is 'soon': write a time such as '30m' or '2h'"),
        ('[channels.telegram]\nallow_from = ["@ann"]\n', "channels.telegram.allow_from and allow_groups take numbers"),
    ],
)
def test_a_wrong_setting_is_told_before_a_model_is_looked_for(tmp_path: Path, text: str, said: str) -> None:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    (home.root / "config.toml").write_text(text)
    for command in (("-m", "hi"), ("status",), ("gateway",), ()):
        ended = home.run(*command, check=2)
        assert ended.err.startswith(f"nanoclaw: {home.root}/config.toml: {said}"), ended
        assert "no model" not in ended.err
    assert [path.name for path in home.root.iterdir()] == ["config.toml"]


# --- plugins that do not run -----------------------------------------------------------------------------------------


def test_the_table_of_a_plugin_that_does_not_run_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "weather", WEATHER)
    table = "[plugins.weather]\nevery = 600.0\n"
    status, told = said_of(tmp_path, table, monkeypatch, capsys)
    assert status == 0
    assert told == (
        f"nanoclaw: {tmp_path}/config.toml: [plugins.weather] has no effect, as weather is not enabled: add it to "
        "enabled in [plugins], or take the table out.\n"
    )
    status, told = said_of(tmp_path, ENABLED.replace("plugins.weather", "plugins.wether"), monkeypatch, capsys)
    assert (status, told.splitlines()[-1]) == (
        2,
        f"nanoclaw: {tmp_path}/config.toml: unknown key 'plugins.wether'; did you mean 'plugins.weather'?",
    )
