"""What is missing for a configured chat app is said before anything is served."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from nanoclaw.core.chats import chat_channels, rules
from nanoclaw.core.parts import person_clock, secrets

from nanoclaw.core import channels
from nanoclaw.core.channel import ChannelSpec
from nanoclaw.core.config import load
from nanoclaw.core.errors import ConfigError

MATRIX = '[channels.matrix]\nhomeserver = "http://127.0.0.1:1"\nuser = "@a:b"\npassword = "secret12"\n'
EMAIL = (
    '[channels.email]\naddress = "a@b.test"\nimap_host = "localhost"\nsmtp_host = "localhost"\npassword = "secret12"\n'
)


def made(home: Path, text: str) -> list[str]:
    (home / "config.toml").write_text(text)
    config = load({"NANOCLAW_HOME": str(home)})
    return [channel.name for channel in chat_channels(config, person_clock(config))]


def test_all_that_is_configured_is_served(tmp_path: Path) -> None:
    telegram = '[channels.telegram]\ntoken = "123456:abcdefghijklmnopqrstuvwxyz"\n'
    assert made(tmp_path, telegram + MATRIX + EMAIL) == ["telegram", "matrix", "email"]


def test_what_a_channel_may_do_is_read_from_its_table(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[channels.telegram]\ntoken = "1:a"\nreactions = false\nper_hour = 5\n')
    found = load({"NANOCLAW_HOME": str(tmp_path)})
    (telegram,) = chat_channels(found, person_clock(found))
    assert not telegram.hints.reactions
    assert (rules(found)["telegram"].per_hour, rules(found)["matrix"].per_hour) == (5, 60)
    config.write_text('[channels.telegram]\nsend_to = ["telegram:5"]\n')
    with pytest.raises(ConfigError, match=r"send_to takes chats such as 555 or -100200, not 'telegram:5'"):
        rules(load({"NANOCLAW_HOME": str(tmp_path)}))
    config.write_text("[channels.email]\nper_hour = -1\n")
    with pytest.raises(ConfigError, match=r"channels\.email\.per_hour must be a number of messages, 0 for no limit"):
        rules(load({"NANOCLAW_HOME": str(tmp_path)}))


@pytest.mark.parametrize(
    ("text", "library", "extra"), [(MATRIX, "nio", "matrix"), (EMAIL, "imap_tools", "email")], ids=["matrix", "email"]
)
def test_a_chat_app_whose_libraries_are_not_installed_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as Python marks what cannot be imported
    with pytest.raises(ConfigError, match=rf"pip install 'nanoclaw-assistant\[{extra}\]'"):
        made(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (MATRIX.replace("user", "#"), "user"),
        (EMAIL.replace("imap_host", "#"), "imap_host"),
        (EMAIL.replace("password", "#"), "NANOCLAW_EMAIL_PASSWORD"),
    ],
)
def test_a_key_that_a_chat_app_needs_is_named(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        made(tmp_path, text)


def test_no_secret_of_a_channel_shows_also_of_one_that_a_package_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ChannelSpec(lambda settings, host: None, Brought, needed=("place",), secrets=("pin",))  # type: ignore[arg-type, return-value]
    points = {"brought": SimpleNamespace(load=lambda: spec), "plain": SimpleNamespace(load=lambda: len)}
    monkeypatch.setattr(channels, "_installed", lambda: points)
    (tmp_path / "config.toml").write_text(
        f'{MATRIX}[channels.brought]\nplace = "here"\n[channels.plain]\nbot_token = "plain-secret"\nplace = "open"\n'
    )
    config = load({"NANOCLAW_HOME": str(tmp_path), "NANOCLAW_BROUGHT_PIN": "brought-secret"})
    assert set(secrets(config)) == {"secret12", "brought-secret", "plain-secret"}
    assert config.channels["brought"].settings == Brought("here", "brought-secret")


class Brought(NamedTuple):
    place: str = ""
    pin: str = ""
