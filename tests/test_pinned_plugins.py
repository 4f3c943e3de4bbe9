"""Plugins in the home are pinned: what its owner has not looked at as it is now is not loaded, and the rest starts."""

import importlib.util
import json
import os
import py_compile
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from nanoclaw.commands.greeting import urgent
from nanoclaw.core.errors import ConfigError
from nanoclaw.packages.pins import PinFile
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start import third_party
from nanoclaw.start.build import build, classes
from nanoclaw.start.config import Config
from tests.journeys.command import Home, Running, make_owner
from tests.program import config_of, running
from tests.test_plugins import ENABLED, WEATHER, put

EVIL = WEATHER.replace("import asyncio\n", 'import asyncio\n\nprint("evil ran")\n')
UNSEEN = "the plugin weather has not been reviewed, so it is not loaded."
CHANGED = "the plugin weather was changed since you reviewed it, so it is not loaded."

BIRDS = {
    "__init__.py": '"""Birds: a command."""\nfrom nanoclaw_plugin_birds.plugin import Birds\n',
    "plugin.py": """
import pkgutil
from nanoclaw.core.plugin import Command, Plugin
from .names import heron


class Birds(Plugin):
    name = "birds"

    def commands(self):
        return [Command("bird", "a bird", self._bird, cli=True)]

    def _bird(self, said, tx):
        from .deep.late import more
        return heron.NAME + " " + pkgutil.get_data(__package__, "data.txt").decode() + more()
""",
    "names/__init__.py": "",
    "names/heron.py": 'NAME = "heron"\n',
    "deep/__init__.py": "",
    "deep/late.py": 'def more():\n    return "late"\n',
    "data.txt": "data ",
}


def birds(folder: Path) -> Path:
    for name, text in BIRDS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def trust(root: Path, name: str) -> None:
    config = Config(root)
    path = third_party.place(config, name)
    assert path
    third_party.pins(config).set(name, third_party.read(path))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.root.mkdir(mode=0o700)
    (home.root / "config.toml").write_text(ENABLED)
    (home.root / "config.toml").chmod(0o600)
    return home


def test_one_that_nobody_looked_at_is_not_run_said_everywhere_and_the_rest_starts(home: Home) -> None:
    (home.root / "plugins").mkdir(parents=True)
    (home.root / "plugins" / "weather.py").write_text(EVIL)  # as an update finds it, or somebody else leaves it
    refused = home.run("frost", "Berlin", check=2)
    assert UNSEEN in refused.err and "there is no command 'frost'" in refused.err
    assert "plugins trust weather loads it as it is, from the next start on" in refused.err
    assert UNSEEN in home.run("frost", "--help", check=2).err
    status = home.run("-m", "/status")
    assert UNSEEN in status.err and UNSEEN in status.out and "evil" not in status.out
    (line,) = [one for one in home.run("plugins").out.splitlines() if one.startswith("weather")]
    assert "off" in line and UNSEEN in line
    doctor = json.loads(home.run("doctor", "--json", check=None).out)["findings"]
    assert any(one["state"] == "wrong" and UNSEEN in one["text"] for one in doctor)
    audit = json.loads(home.run("audit", "--json", check=None).out)["findings"]
    assert any(one["level"] == "warning" and UNSEEN in one["text"] for one in audit)
    assert not any("run with your rights" in one["text"] for one in audit)
    shown = home.run("plugins", "show", "weather").out
    assert 'print("evil ran")' in shown and "evil ran\n" not in shown, "it is shown and not run"


def test_a_look_loads_it_and_a_changed_byte_unloads_it(home: Home) -> None:
    put(home.root, "weather", WEATHER)
    assert home.run("frost", "Berlin").out == "I say when it freezes in Berlin.\n"
    path = home.root / "plugins" / "weather.py"
    path.write_text(EVIL)
    assert CHANGED in home.run("frost", "Berlin", check=2).err
    shown = home.run("plugins", "show", "weather").out
    assert '+print("evil ran")' in shown and "class Weather" not in shown, "only what was changed"
    wanted = shown.partition("plugins trust weather ")[2].split()[0]
    path.write_text(f"{EVIL}\n")
    assert "no longer what was shown" in home.run("plugins", "trust", "weather", wanted, check=2).err
    path.write_text(EVIL)
    trusted = home.run("plugins", "trust", "weather", wanted).out
    brings = "tools: weather; commands: /frost; sections: capabilities; hooks: tools, commands, sections, run."
    assert "is pinned as it is" in trusted and trusted.endswith(f"It was tried, and brings {brings}\n")
    assert "evil ran" in home.run("frost", "Berlin").out
    assert stat.S_IMODE((home.root / "plugins" / "pins.json").stat().st_mode) == 0o600


def test_trust_says_why_a_plugin_fails_also_before_it_is_enabled(home: Home) -> None:
    (home.root / "config.toml").write_text("")
    (home.root / "plugins").mkdir()
    path = home.root / "plugins" / "weather.py"
    for old, new, why in (
        (
            'reach="none"',
            'effect="none"',
            "it fails: tools: TypeError: tool() got an unexpected keyword argument 'effect'",
        ),
        ("import asyncio\n", "import nothere\n", "cannot be loaded: No module named 'nothere'"),
    ):
        path.write_text(WEATHER.replace(old, new))
        assert why in home.run("plugins", "trust", "weather", check=2).err


async def test_it_is_said_in_the_greeting_and_its_settings_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "weather.py").write_text(WEATHER)
    async with running(tmp_path, ScriptedProvider("hello"), settings=ENABLED) as program:
        assert any(UNSEEN in line for line in urgent(program.app))
        assert await program.ask("hi") == "hello"


def test_a_gateway_tells_the_owner_once_in_a_chat(home: Home) -> None:
    closed = '[channels.telegram]\ntoken = "1:x"\napi_base = "http://127.0.0.1:9"\n'
    (home.root / "config.toml").write_text(ENABLED + closed)
    put(home.root, "weather", WEATHER)
    make_owner(config_of(home.root), "telegram", "555")
    app = build(config_of(home.root), provider=())
    with app.transactions.open() as tx:
        tx.execute("INSERT INTO chats (channel, chat, sender) VALUES ('telegram', '555', '555')")
    app.store.close()
    (home.root / "plugins" / "weather.py").write_text(EVIL)
    for _ in range(2):
        gateway = Running(home, "gateway")
        try:
            assert CHANGED in " ".join(gateway.expect("serves").split())
        finally:
            gateway.close()
    app = build(config_of(home.root), provider=())
    told = [row.outbound.text for row in app.outbox.pending("telegram")]
    app.store.close()
    assert len(told) == 1 and CHANGED in told[0]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"weather": 1}', '{"weather": {"sha256": "x"}}', "[" * 100_000, '{"weather": null']
)
def test_a_damaged_list_of_pins_pins_nothing_until_one_look(tmp_path: Path, text: str) -> None:
    put(tmp_path, "weather", WEATHER)
    config, told = config_of(tmp_path, ENABLED), dict[str, str]()
    (tmp_path / "plugins" / "pins.json").write_text(text)
    assert "weather" not in {one.name for one in classes(config, tell=told.__setitem__)}
    assert "pins.json is damaged, so it is not loaded" in told["weather"]
    trust(tmp_path, "weather")
    assert "weather" in {one.name for one in classes(config)}


def test_adding_shows_all_asks_copies_pins_and_enables(tmp_path: Path, home: Home) -> None:
    source = birds(tmp_path / "somewhere")
    (home.root / "config.toml").write_text("# mine\n[limits]\nrounds = 3\n")
    asked = home.run("plugins", "add", str(source), check=1)
    assert (
        "The plugin birds, with the hooks commands\n" in asked.out
        and 'NAME = "heron"' in asked.out
        and "--yes" in asked.err
    )
    assert not (home.root / "plugins").exists()
    assert "is pinned as it is" in home.run("plugins", "add", str(source), "--yes").out
    assert (home.root / "config.toml").read_text() == '# mine\n[limits]\nrounds = 3\n\n[plugins]\nenabled = ["birds"]\n'
    assert home.run("bird").out == "heron data late\n"
    assert not list((home.root / "plugins").rglob("__pycache__"))
    assert "as you reviewed it" in home.run("plugins", "show", "birds").out
    (home.root / "plugins" / "birds.plugin" / "deep" / "late.py").write_text('def more():\n    return "evil"\n')
    assert "was changed since you reviewed it" in home.run("bird", check=2).err
    assert '-    return "late"\n+    return "evil"' in home.run("plugins", "show", "birds").out
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for name in BIRDS:
            archive.write(source / name, f"birds-1.0/{name}")
    assert "replace" in home.run("plugins", "add", str(tmp_path / "b.zip"), check=1).err
    home.run("plugins", "add", str(tmp_path / "b.zip"), "--yes")
    assert home.run("bird").out == "heron data late\n"
    (home.root / "plugins" / "birds").mkdir()
    assert "is deleted" in home.run("plugins", "remove", "birds").out
    assert "bird" not in (home.root / "config.toml").read_text()
    left = {path.name for path in (home.root / "plugins").iterdir()}
    assert left - {"memory"} == {"birds", "pins.json"}, "what it kept stays"
    assert PinFile(home.root / "plugins" / "pins.json").read() == {}


def test_a_single_file_is_added_and_is_a_single_file(tmp_path: Path, home: Home) -> None:
    (tmp_path / "my weather 2.py").write_text(WEATHER)
    terminal = Running(home, "plugins", "add", str(tmp_path / "my weather 2.py"))
    try:
        terminal.expect("yes or no: ")
        terminal.say("no")
        terminal.expect("Nothing was added.")
    finally:
        terminal.close()
    assert not (home.root / "plugins").exists()
    home.run("plugins", "add", str(tmp_path / "my weather 2.py"), "--yes")
    assert home.run("frost", "Berlin").out == "I say when it freezes in Berlin.\n"
    assert stat.S_IMODE((home.root / "plugins" / "weather.py").stat().st_mode) == 0o600


def test_a_path_that_leads_nowhere_is_named_once(tmp_path: Path, home: Home) -> None:
    assert home.run("plugins", "add", str(tmp_path / "none"), check=2).err.count(str(tmp_path / "none")) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "no class in it that is a Plugin"),
        ("def (", "is not readable Python"),
        (WEATHER.replace('"weather"', '"redact"'), "'redact' is a built-in plugin"),
        (WEATHER.replace('"weather"', '"../evil"'), "must be a word"),
    ],
)
def test_what_is_no_plugin_is_not_added(tmp_path: Path, home: Home, text: str, said: str) -> None:
    (tmp_path / "p.py").write_text(text)
    assert said in home.run("plugins", "add", str(tmp_path / "p.py"), "--yes", check=2).err
    assert not (home.root / "plugins").exists()


def test_bytes_that_lie_there_already_are_shown_too_when_they_are_added(tmp_path: Path, home: Home) -> None:
    """Somebody put them there, and the owner has not seen them."""
    (home.root / "plugins").mkdir()
    for path in (home.root / "plugins" / "weather.py", tmp_path / "weather.py"):
        path.write_text(f"{EVIL}X = 'a\u202e'\n")
    asked = home.run("plugins", "add", str(tmp_path / "weather.py"), check=1)
    assert 'print("evil ran")' in asked.out and "X = 'a⟨U+202E⟩'" in asked.out, "also what hides"
    assert "Nobody is here to answer" in asked.err
    assert not (home.root / "plugins" / "pins.json").exists()


@pytest.mark.parametrize("name", ["nothing", "sandbox", "../config"])
def test_what_is_no_plugin_of_the_home_is_told(home: Home, name: str) -> None:
    (home.root / "config.toml").write_text("")
    (home.root / "config.py").write_text("")
    said = {"sandbox": "is part of this program"}.get(name, f"there is no plugin {name!r}")
    for verb in ("show", "trust", "remove"):
        assert said in home.run("plugins", verb, name, check=2).err


async def test_compiled_files_beside_it_are_not_run(tmp_path: Path) -> None:
    """A .pyc whose stamps fit would be run by Python's own import in the place of the text."""
    folder = birds(tmp_path / "plugins" / "birds.plugin")
    for text in (folder / "plugin.py", folder / "names" / "heron.py"):
        good, stamp = text.read_bytes(), text.stat()
        text.write_bytes(b"raise SystemExit('evil')".ljust(len(good))[: len(good)])
        os.utime(text, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        py_compile.compile(str(text), importlib.util.cache_from_source(str(text)))
        text.write_bytes(good)
        os.utime(text, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    trust(tmp_path, "birds")
    async with running(tmp_path, settings='[plugins]\nenabled = ["birds"]\n') as program:
        assert await program.ask("/bird") == "heron data late"


async def test_what_is_swapped_after_it_was_read_is_not_run(tmp_path: Path) -> None:
    """Submodules come from what was hashed, also late ones: a file that is changed meanwhile isn't opened again."""
    folder = birds(tmp_path / "plugins" / "birds.plugin")
    swap = f"import pathlib\nfor one in pathlib.Path({str(folder)!r}).rglob('*.*'):\n    one.write_text('evil(')\n"
    (folder / "__init__.py").write_text(swap + BIRDS["__init__.py"])
    trust(tmp_path, "birds")
    async with running(tmp_path, settings='[plugins]\nenabled = ["birds"]\n') as program:
        assert await program.ask("/bird") == "heron data late"
        assert (folder / "names" / "heron.py").read_text() == "evil("
    assert sys.modules["nanoclaw_plugin_birds.names.heron"].NAME == "heron"


def test_a_folder_without_a_module_is_shown_and_told(home: Home) -> None:
    (home.root / "plugins" / "weather.plugin").mkdir(parents=True)
    for name in ("more.py", "other.py"):
        (home.root / "plugins" / "weather.plugin" / name).write_text("x = 1\n")
    assert "there is no __init__.py in it" in home.run("plugins", "show", "weather").out
    assert "cannot be loaded" in home.run("plugins", "trust", "weather", check=2).err
    assert "cannot be loaded" in home.run("frost", "Berlin", check=2).err


def test_a_link_in_its_folder_is_told_and_nothing_is_loaded(home: Home) -> None:
    folder = birds(home.root / "plugins" / "birds.plugin")
    trust(home.root, "birds")
    (home.root / "config.toml").write_text('[plugins]\nenabled = ["birds"]\n')
    (folder / "names" / "more.py").symlink_to("/etc/passwd")
    assert "is a link: replace it with a copy of its target" in home.run("bird", check=2).err


def test_a_plugin_that_guards_something_may_end_the_start(tmp_path: Path) -> None:
    put(tmp_path, "weather", WEATHER)
    config = config_of(tmp_path, ENABLED.replace("]\n[", ']\nunpinned = "stop"\n[', 1))
    assert "weather" in {one.name for one in classes(config)}
    (tmp_path / "plugins" / "weather.py").write_text(EVIL)
    with pytest.raises(ConfigError, match=r"was changed .* nanoclaw --without weather starts without it"):
        classes(config)
    assert "weather" not in {one.name for one in classes(config, without=frozenset({"weather"}))}


def test_who_writes_a_plugin_may_have_it_loaded_unpinned_and_audit_says_so(home: Home) -> None:
    (home.root / "config.toml").write_text(ENABLED.replace("]\n[", ']\nunpinned = "load"\n[', 1))
    (home.root / "plugins").mkdir()
    (home.root / "plugins" / "weather.py").write_text(WEATHER)
    assert home.run("frost", "Berlin").out == "I say when it freezes in Berlin.\n"
    found = json.loads(home.run("audit", "--json", check=None).out)["findings"]
    told = [one["text"] for one in found if one["level"] == "warning"]
    assert any('unpinned = "load"' in text for text in told)
    assert "third-party plugins run with your rights: weather" in told
