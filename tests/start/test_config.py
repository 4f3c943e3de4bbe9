"""config.toml and the environment: what is wrong is told with the key and what to do; nothing is guessed."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from nanoclaw.channels import table as channels
from nanoclaw.core.errors import ConfigError
from nanoclaw.start import config
from nanoclaw.start.build import build, checked

CONTRACT = """
[model]
name = "openai/gpt-5"
api_base = "http://127.0.0.1:8901/v1"
api_key = "sk-test"
fallback = ["anthropic/claude-sonnet-4-5", "ollama/qwen3"]
[person]
timezone = "Europe/Berlin"
[heartbeat]
every = "30m"
active = "08:00-22:00"
[limits]
rounds = 32
day_usd = 0
[channels.telegram]
token = "123:abc"
api_base = "https://api.telegram.org"
allow_from = ["anna", 42]
"""


def load(home: Path, text: str | bytes | None = None, environ: Mapping[str, str] | None = None) -> config.Config:
    if text is not None:
        data = text if isinstance(text, bytes) else text.encode()
        (home / "config.toml").write_bytes(data)
        (home / "config.toml").chmod(0o600)
    return config.load({"NANOCLAW_HOME": str(home), **(environ or {})})


def test_every_key_of_the_contract_is_read(tmp_path: Path) -> None:
    loaded = load(tmp_path, CONTRACT)
    assert loaded.model.name == "openai/gpt-5"
    assert loaded.model.api_base == "http://127.0.0.1:8901/v1"
    assert loaded.model.api_key == "sk-test"
    assert loaded.model.fallback == ("anthropic/claude-sonnet-4-5", "ollama/qwen3")
    assert loaded.person.timezone == "Europe/Berlin"
    assert (loaded.get("heartbeat.every"), loaded.get("heartbeat.active")) == ("30m", "08:00-22:00")
    assert (loaded.limits.rounds, loaded.get("limits.day_usd")) == (32, 0)
    assert channels.tables(loaded)["telegram"].settings.token == "123:abc"
    assert loaded.warnings == ()


def test_private_places_are_opened_by_name(tmp_path: Path) -> None:
    entries = '["127.0.0.1:8080", "intranet.lan", "[::1]:80"]'
    assert load(tmp_path, f"[net]\nallow = {entries}").net.allow == ("127.0.0.1:8080", "intranet.lan", "[::1]:80")


@pytest.mark.parametrize(
    "entry", ["http://intranet.lan/", "a b", "", "a:99999", "[a]", "a@b", "a:", "*", "*.lan", "10.0.0.0/8"]
)
def test_what_cannot_be_a_private_place_is_said(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ConfigError, match=r'net.allow: .* is not a name .*; write it as "intranet.lan"'):
        load(tmp_path, f"[net]\nallow = ['{entry}']")


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    loaded = load(tmp_path / "not there")
    assert loaded.model.name == ""
    assert loaded.limits.rounds == 32
    assert loaded.workspace_path == tmp_path / "not there" / "workspace"
    assert not (tmp_path / "not there").exists()


def test_the_home_is_in_the_persons_folder_unless_nanoclaw_home_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config.load({}).home == tmp_path / ".nanoclaw"
    assert config.load({"NANOCLAW_HOME": ""}).home == tmp_path / ".nanoclaw"
    assert config.load({"NANOCLAW_HOME": "~/claw"}).home == tmp_path / "claw"
    monkeypatch.chdir(tmp_path)
    assert config.load({"NANOCLAW_HOME": "here"}).home == tmp_path / "here"


def test_a_workspace_may_lie_elsewhere(tmp_path: Path) -> None:
    assert load(tmp_path, '[workspace]\npath = "/srv/notes"').workspace_path == Path("/srv/notes")
    assert load(tmp_path, '[workspace]\npath = "notes"').workspace_path == tmp_path / "notes"
    assert load(tmp_path, '[workspace]\npath = "~/notes"').workspace_path == Path("~/notes").expanduser()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[model]\nnmae = "x"', "did you mean 'model.name'"),
        ("[limit]\nrounds = 3", "did you mean 'limits.rounds'"),
        ('[channels.telegrm]\ntoken = "x"', "did you mean 'channels.telegram'"),
        ("[limits]\nxyzzy = 3", "known: .*limits.rounds"),
        ("[plugins.heartbeat]\nevery = 3", r"heartbeat is a built-in plugin: its settings are in \[heartbeat\]"),
        ("home = 3\nwarnings = []", "'home', 'warnings'; known: .*calendar.*channels.*knowledge.*mailbox.*plugins"),
        ("environment = {}\n[limit]\nrounds = 3", "unknown key 'environment'; .* Also 'limit.rounds'; did you mean"),
        ("[channels.fax]\n[model]\nnmae = 3", "'channels.fax'; known: .*channels.slack.* Also 'model.nmae'; did you"),
        ('model = "openai/gpt-5"', r"write \[model\]"),
        ('[[model]]\nname = "x"', r"write \[model\]"),
        ("[model]\nname = 5", "'model.name' must be text in quotes"),
        ('[model]\nfallback = "openai/gpt-5"', "must be a list"),
        ("[model]\nfallback = [1]", r"'model.fallback' must be a list of texts in quotes, such as .* not \[1\]"),
        ("[channels.telegram]\nallow_from = [1.5]", "'channels.telegram.allow_from' must be a list"),
        ('[model]\napi_key = ["sk-hidden"]', "'model.api_key' must be text in quotes.$"),
        ('[model]\ntool_mode = "maybe"', "must be one of auto, native, json"),
        ("[model]\ntool_mode = []", "must be one of"),
        ('[limits]\nrounds = "32"', "must be a whole number"),
        ("[limits]\nrounds = 3.5", "must be a whole number"),
        ("[limits]\nrounds = true", "must be a whole number"),
        ("[limits]\nrounds = 0", "'limits.rounds' must be more than 0"),
        ("[model]\nwindow_tokens = -5", "'model.window_tokens' must be 0 or more"),
        ("[limits]\nday_usd = true", "must be a number"),
        ("[limits]\nday_usd = -1", "'limits.day_usd' must be 0 or more, not -1"),
        ("[limits]\nmonth_usd = nan", "'limits.month_usd' must be 0 or more, not nan"),
        ("[limits]\nheartbeat_share = 20", "heartbeat_share must be a share from 0 to 1"),
        ("[model]\ntimeout_seconds = nan", "'model.timeout_seconds' must be more than 0"),
        ("[model]\noutput_tokens = 0", "'model.output_tokens' must be more than 0"),
        ("[model\nname = 1", "not valid TOML"),
        ("a" + ".a" * 3_000 + " = 1", "nested too deeply"),
        ('[model]\nname = "a"\nname = "b"', "not valid TOML"),
        ("[limits]\nrounds = " + "9" * 5000, "not valid TOML"),
        ("a = " + "[" * 100_000, "not valid TOML"),
        (b'[model]\nname = "caf\xe9"', "not UTF-8"),
        (b"\0\0\0\0", "not valid TOML"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_told_with_the_file_the_key_and_what_to_do(
    tmp_path: Path, text: str | bytes, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        build(load(tmp_path, text))
    assert str(tmp_path / "config.toml") in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_a_file_saved_with_a_mark_at_its_start_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, b'\xef\xbb\xbf[model]\r\nname = "ollama/x"\r\n').model.name == "ollama/x"


def test_a_config_that_is_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


# -- secrets


def secrets(home: Path, text: str | bytes, mode: int = 0o600) -> None:
    (home / "secrets.env").write_bytes(text if isinstance(text, bytes) else text.encode())
    (home / "secrets.env").chmod(mode)


def test_secrets_come_from_a_file_of_their_own(tmp_path: Path) -> None:
    secrets(tmp_path, "# keys\n\nOPENAI_API_KEY=sk-1\nexport ANTHROPIC_API_KEY = 'sk=2'\n")
    environment = load(tmp_path).environment
    assert environment["OPENAI_API_KEY"] == "sk-1"
    assert environment["ANTHROPIC_API_KEY"] == "sk=2"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_every_file_with_a_key_that_others_can_read_is_warned_of_alike(tmp_path: Path, mode: int) -> None:
    secrets(tmp_path, "OPENAI_API_KEY=sk-1", mode)
    load(tmp_path, '[channels.telegram]\ntoken = "123:abc"\n')
    (tmp_path / "config.toml").chmod(mode)
    loaded = load(tmp_path)
    assert loaded.environment["OPENAI_API_KEY"] == "sk-1"
    paths = [tmp_path / "secrets.env", tmp_path / "config.toml"]
    said = [f"{path} holds keys and can be read by others: run chmod 600 {path}" for path in paths]
    assert list(loaded.warnings) == said


@pytest.mark.parametrize("text", ["just words", "=x", "A B=c", "A_KEY=words\0", b"\xff\xfe"])
def test_a_secrets_file_with_a_wrong_line_is_told_without_showing_it(tmp_path: Path, text: str | bytes) -> None:
    secrets(tmp_path, text)
    with pytest.raises(ConfigError, match=r"secrets\.env") as raised:
        load(tmp_path)
    assert "words" not in str(raised.value)


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfA_KEY=abcdefgh\n", b"A_KEY=abcdefgh\r\n"])
def test_a_secrets_file_that_another_editor_saved_is_read(tmp_path: Path, text: bytes) -> None:
    secrets(tmp_path, text)
    assert load(tmp_path).environment["A_KEY"] == "abcdefgh"


@pytest.mark.parametrize("name", ["secrets.env", "config.toml"])
def test_a_pipe_and_a_link_to_nothing_are_told_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match=f"{name} cannot be read: it is not a plain file"):
        load(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match=f"{name} is a link to .*gone, and nothing is there"):
        load(tmp_path)


def test_an_endless_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.toml").open("wb") as file:
        file.truncate(10_000_001)  # a hole: it takes no room
    with pytest.raises(ConfigError, match="of at most 10"):
        load(tmp_path)


def test_a_home_that_is_no_folder_is_told_in_words() -> None:
    with pytest.raises(ConfigError) as caught:
        config.load({"NANOCLAW_HOME": "/dev/null"})
    assert (
        str(caught.value) == "/dev/null is not a folder, so it cannot be the home: set NANOCLAW_HOME to another path."
    )


def test_the_environment_wins_over_the_files(tmp_path: Path) -> None:
    secrets(tmp_path, "OPENAI_API_KEY=from-file\nNANOCLAW_TELEGRAM_TOKEN=from-file")
    loaded = load(tmp_path, CONTRACT, {"OPENAI_API_KEY": "from-env", "NANOCLAW_TELEGRAM_TOKEN": "from-env"})
    assert loaded.environment["OPENAI_API_KEY"] == "from-env"
    assert channels.tables(loaded)["telegram"].settings.token == "from-env"


def test_a_config_without_keys_may_be_read_by_others(tmp_path: Path) -> None:
    load(tmp_path, "[model]\noutput_tokens = 100\n")
    (tmp_path / "config.toml").chmod(0o644)
    assert load(tmp_path).warnings == ()


def test_secrets_do_not_show_when_the_config_is_printed(tmp_path: Path) -> None:
    loaded = load(tmp_path, CONTRACT, {"OPENAI_API_KEY": "sk-env"})
    assert not any(secret in repr(loaded) for secret in ("sk-test", "sk-env", "123:abc"))


def test_a_config_cut_at_any_byte_is_read_or_told_with_its_line_and_left_alone(tmp_path: Path) -> None:
    whole = CONTRACT.replace("Europe/Berlin", "Europe/Zürich").encode()
    told = 0
    for cut in range(len(whole) + 1):
        try:
            load(tmp_path, whole[:cut])
        except ConfigError as error:
            told += 1
            assert str(tmp_path / "config.toml") in str(error)
        assert (tmp_path / "config.toml").read_bytes() == whole[:cut]
    assert told > len(whole) / 2
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_secrets_cut_at_any_byte_are_read_or_told_without_being_shown(tmp_path: Path) -> None:
    whole = "# keys für mich\nOPENAI_API_KEY=sk-canary-1\nexport ANTHROPIC_API_KEY='sk-canary-2'\n".encode()
    for cut in range(len(whole) + 1):
        secrets(tmp_path, whole[:cut])
        try:
            load(tmp_path)
        except ConfigError as error:
            assert str(tmp_path / "secrets.env") in str(error)
            assert "canary" not in str(error)
        assert (tmp_path / "secrets.env").read_bytes() == whole[:cut]


@pytest.mark.parametrize("key", ["undo.days", "channels.email.imap_port", "channels.slack.per_hour", "guests.persona"])
def test_a_key_of_an_earlier_version_is_read_over_and_told(tmp_path: Path, key: str) -> None:
    table, _, name = key.rpartition(".")
    checked(found := load(tmp_path, f"[{table}]\n{name} = 10\n"))
    assert [f"{key} has no effect any more" in one for one in found.warnings] == [True]
