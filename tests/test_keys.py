"""Keys in the keyring of the system: set, listed, deleted and read, never shown; one that fails is told."""

import json
import re
from pathlib import Path
from threading import Event

import pytest

from nanoclaw import system_keyring
from nanoclaw.start.config import load
from tests.journeys.command import Home
from tests.model_server import ModelServer, failing, says

VALUE = "sk-canary-keyring-77ab41"
FILE_KEYRING = "keyrings.alt.file.PlaintextKeyring"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", {"TZ": "Europe/Berlin", "XDG_DATA_HOME": str(tmp_path / "data")})


@pytest.fixture
def with_keyring(home: Home) -> Home:
    """A home on a machine whose keyring is a file."""
    pytest.importorskip("keyrings.alt.file", reason="the extra keyring, and keyrings.alt, are not installed")
    home.environment["PYTHON_KEYRING_BACKEND"] = FILE_KEYRING
    return home


CALENDAR = '[calendar]\nurl = "http://x.test"\npassword = '


def files_with(folder: Path, text: str) -> list[str]:
    """Names of the files below a folder that hold a text."""
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_key_goes_from_a_pipe_into_the_keyring_and_from_there_to_the_model(
    with_keyring: Home, server: ModelServer, tmp_path: Path
) -> None:
    home = with_keyring
    home.configure(server.base, key=False)
    told = home.run("keys", "set", "OPENAI_API_KEY", stdin=f"{VALUE}\n")
    assert told.out.startswith("OPENAI_API_KEY is kept in the keyring; ")
    assert (home.root / "secrets.env").read_text() == "OPENAI_API_KEY=keyring:OPENAI_API_KEY\n"
    assert (home.root / "secrets.env").stat().st_mode & 0o777 == 0o600
    server.script(says("hello"))
    assert home.run("-m", "hi").out == "hello\n"
    assert server.asked[-1].headers["authorization"] == f"Bearer {VALUE}"
    shown = [home.run("keys", *more) for more in ((), ("list",), ("list", "--json"))]
    shown += [home.run("status"), home.run("status", "--json"), home.run("doctor", check=None)]
    assert all("OPENAI_API_KEY" in one.out and "set (keyring)" in one.out for one in shown)
    assert not [one for one in (told, *shown) if VALUE in one.out + one.err]
    assert not files_with(home.root, VALUE)
    assert home.run("keys", "delete", "OPENAI_API_KEY").out == "OPENAI_API_KEY is deleted.\n"
    assert not files_with(tmp_path, VALUE) and (home.root / "secrets.env").read_text() == ""
    gone = home.run("keys", "delete", "OPENAI_API_KEY", check=2)
    assert "there is no key OPENAI_API_KEY in the keyring or in secrets.env" in gone.err


def test_a_setting_names_an_entry_of_the_keyring_and_a_plugins_secret_is_shown_as_set(with_keyring: Home) -> None:
    home = with_keyring
    home.run("keys", "set", "SEARCH", stdin=VALUE)
    (home.root / "config.toml").write_text(f'{CALENDAR}"keyring:SEARCH"\n[channels.telegram]\n')
    home.environment["BRAVE_API_KEY"] = "env-canary-1f2e3d4c"
    shown = json.loads(home.run("keys", "list", "--json").out)["keys"]
    assert shown["calendar.password"] == "set (keyring)"
    assert shown["BRAVE_API_KEY"] == "set (environment)"
    assert shown["channels.telegram.token"] == shown["model.api_key"] == "not set"
    plugins = {one["name"]: one for one in json.loads(home.run("plugins", "--json").out)["plugins"]}
    assert plugins["calendar"]["secrets"] == {"calendar.password": "set (keyring)"}
    assert re.search(r"^calendar .*; calendar\.password set \(keyring\)$", home.run("plugins").out, re.MULTILINE)


def test_an_entry_that_is_not_there_costs_only_that_key_and_is_told(with_keyring: Home) -> None:
    home = with_keyring
    home.root.mkdir()
    (home.root / "config.toml").write_text(f'{CALENDAR}"keyring:NOWHERE"\n')
    told = home.run("keys", "list")
    assert (
        "the key NOWHERE could not be read from the keyring, so it counts as not set: it has no such entry" in told.err
    )
    assert re.search(r"^calendar\.password +not set$", told.out, re.MULTILINE)
    doctor = home.run("doctor", check=1)
    assert "wrong keys: the key NOWHERE could not be read" in doctor.out


def test_a_backup_says_which_keys_are_in_it_and_which_are_not(with_keyring: Home, tmp_path: Path) -> None:
    home = with_keyring
    home.run("keys", "set", "OPENAI_API_KEY", stdin=VALUE)
    home.run("keys", "set", "BRAVE_API_KEY", "--file", stdin="brave-canary-5577")
    (home.root / "config.toml").write_text('[model]\napi_key = "config-canary-9911"\n')
    told = home.run("backup", str(tmp_path / "a.tar.gz")).err
    assert "a.tar.gz (model.api_key): keep it where only you can read it\n" in told
    assert "a.tar.gz are OPENAI_API_KEY (keyring): set them again where it is restored" in told
    assert "(model.api_key, BRAVE_API_KEY)" in home.run("backup", str(tmp_path / "b.tar.gz"), "--with-secrets").err


def test_without_a_keyring_one_sentence_says_so_and_a_file_keeps_the_key(home: Home) -> None:
    pytest.importorskip("keyring", reason="the extra keyring is not installed")
    home.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    told = home.run("keys", "set", "OPENAI_API_KEY", stdin=VALUE, check=2)
    assert told.err.count("\n") == 1 and VALUE not in told.err
    assert (
        "the keyring can't be used: this machine has none" in told.err and "OPENAI_API_KEY --file keeps it" in told.err
    )
    assert not (home.root / "secrets.env").exists()
    kept = home.run("keys", "set", "OPENAI_API_KEY", "--file", stdin=VALUE)
    assert "which only you can read" in kept.out
    assert (home.root / "secrets.env").read_text() == f"OPENAI_API_KEY={VALUE}\n"
    assert re.search(r"^OPENAI_API_KEY +set \(file\)$", home.run("keys").out, re.MULTILINE)
    home.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"  # keyring --disable
    assert "it keeps nothing" in home.run("keys", "set", "OPENAI_API_KEY", stdin=VALUE, check=2).err
    assert files_with(home.root, VALUE) == ["secrets.env"], "what was there stays"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("model.api_key", VALUE, "'model.api_key' can't be the name of a key: give the variable"),
        ("OPENAI_API_KEY", "  \n", "no key was given. Nothing was saved."),
        ("OPENAI_API_KEY", "two\nlines", "a key is one line without control characters. Nothing was saved."),
    ],
)
def test_what_cannot_be_a_key_is_refused(home: Home, name: str, value: str, why: str) -> None:
    assert why in home.run("keys", "set", name, "--file", stdin=value, check=2).err


def test_a_keyring_that_hangs_or_is_locked_is_waited_for_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = pytest.importorskip("keyring.core", reason="the extra keyring is not installed")
    backend, errors = pytest.importorskip("keyring.backend"), pytest.importorskip("keyring.errors")

    class Hanging(backend.KeyringBackend):  # type: ignore[name-defined,misc]
        priority = 1

        def get_password(self, service: str, name: str) -> str | None:
            if name == "FIRST":
                return VALUE
            if name == "LOCKED":
                raise errors.KeyringLocked("Failed to unlock the collection!")
            Event().wait()  # for a prompt that nobody sees
            return None

        set_password = delete_password = get_password

    monkeypatch.setattr(core, "_keyring_backend", Hanging())
    monkeypatch.setattr(system_keyring, "SECONDS", 0.05)
    (tmp_path / "secrets.env").write_text("A_KEY=keyring:SECOND\nB_KEY=keyring:THIRD\nC=plain\n")
    (tmp_path / "config.toml").write_text('[model]\napi_key = "keyring:FIRST"\nname = "openai/x"\n')
    (tmp_path / "secrets.env").chmod(0o600)
    config = load({"NANOCLAW_HOME": str(tmp_path)})
    assert dict(config.environment, NANOCLAW_HOME="") == {"NANOCLAW_HOME": "", "C": "plain"}
    assert (config.model.api_key, config.model.name) == (VALUE, "openai/x")
    assert [one.partition(",")[0] for one in config.warnings] == [
        f"the key {name} could not be read from the keyring" for name in ("SECOND", "THIRD")
    ]
    assert all("it did not answer within" in one for one in config.warnings)
    (tmp_path / "secrets.env").write_text("A_KEY=keyring:LOCKED\n")
    assert "it is locked: unlock it" in load({"NANOCLAW_HOME": str(tmp_path)}).warnings[0]


def test_without_the_extra_a_reference_says_how_it_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [one for one in sys.modules if one.partition(".")[0] == "keyring"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "keyring", None)
    (tmp_path / "config.toml").write_text('[model]\napi_key = "keyring:X"\n')
    (told,) = load({"NANOCLAW_HOME": str(tmp_path)}).warnings
    assert "the library for it is not installed" in told and "keyring" in told.rpartition("installed. ")[2]


def test_a_broken_secrets_file_is_not_written_over(home: Home) -> None:
    home.root.mkdir()
    (home.root / "secrets.env").write_text("what is this\n")
    assert "write it as NAME=value" in home.run("keys", "set", "A_KEY", "--file", stdin=VALUE, check=2).err
    assert (home.root / "secrets.env").read_text() == "what is this\n"


def test_no_key_is_in_words_about_the_settings() -> None:
    from nanoclaw.start.secrets_file import SecretSetting

    assert str(SecretSetting("web.key", "file", VALUE)) == repr([SecretSetting("web.key", "file", VALUE)])[1:-1]
    assert VALUE not in f"{SecretSetting('web.key', 'file', VALUE)}"


def test_what_is_shown_and_exported_of_a_conversation_has_no_known_key(home: Home, server: ModelServer) -> None:
    home.configure(server.base)
    home.environment["WEATHER_API_KEY"] = "weather-0c4d2e7f91"
    server.script(says("It is weather-0c4d2e7f91."))
    home.run("-m", "which key?")
    shown, exported = home.run("sessions", "show", "main").out, home.run("sessions", "export", "main").out
    assert "It is [secret]." in shown and "It is [secret]." in json.dumps(json.loads(exported))
    assert "weather-0c4d2e7f91" not in shown + exported


def test_a_password_in_an_address_of_the_settings_is_a_known_key(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more='[web]\nsearxng = "https://me:search%2F0c4d2e7f91@search.example"')
    server.script(says("They are search%2F0c4d2e7f91 and search/0c4d2e7f91."))
    assert "They are [secret] and [secret]." in home.run("-m", "which passwords?").out


def test_a_key_in_the_query_of_an_address_is_a_known_key(home: Home, server: ModelServer) -> None:
    home.configure(f"{server.base}?key=search%2B0c4d2e7f91&v=2026-03-01-preview")
    server.script(*[failing(404, {})] * 3)
    for command in (["-m", "hi"], ["doctor"], ["doctor", "--json"]):
        said = home.run(*command, check=1)
        assert "?key=[secret]&v=2026-03-01-preview" in said.out + said.err
        assert "0c4d2e7f91" not in said.out + said.err
    home.configure(
        server.base, more='[mcp.lists]\ncommand = "x"\nargs = ["--at=http://x.example/#token=list-0c4d2e7f91"]'
    )
    server.script(says("They are list-0c4d2e7f91 and search+0c4d2e7f91."))
    assert "They are [secret] and search+0c4d2e7f91." in home.run("-m", "which keys?").out
