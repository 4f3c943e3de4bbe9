"""A setting that a configured chat app lacks is named before anything is served."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from nanoclaw.channels import table as channels
from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec
from nanoclaw.core.errors import ConfigError
from nanoclaw.start.build import build
from tests.program import FakeChannel, config_of

MATRIX = '[channels.matrix]\nhomeserver = "http://127.0.0.1:1"\nuser = "@a:b"\npassword = "secret12"\n'
EMAIL = (
    '[channels.email]\naddress = "a@b.test"\nimap_host = "localhost"\nsmtp_host = "localhost"\npassword = "secret12"\n'
)


async def made(home: Path, text: str) -> list[Channel]:
    """The chat apps of a gateway with this configuration."""
    app = build(config_of(home, text), channels=None)
    await app.aclose()
    return app.channels.all()


async def test_all_that_is_configured_is_served(tmp_path: Path) -> None:
    telegram = '[channels.telegram]\ntoken = "123456:abcdefghijklmnopqrstuvwxyz"\n'
    served = await made(tmp_path, telegram + MATRIX + EMAIL)
    assert [channel.name for channel in served] == ["telegram", "matrix", "email"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[channels.telegram]\nallow_from = ["@ann"]\n', "not '@ann': a name can be taken over by somebody else"),
        ('[channels.telegram]\nsend_to = ["telegram:5"]\n', "send_to takes chats such as 555 or -100200"),
    ],
)
async def test_who_is_let_in_must_be_meant(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await made(tmp_path, text)


async def test_every_channel_says_who_is_let_in_(tmp_path: Path) -> None:
    text = '[channels.email]\nallow_from = ["Ann@Lab.test"]\n'
    app = build(config_of(tmp_path, text, NANOCLAW_MATRIX_PASSWORD="x"))
    await app.aclose()
    rules = {name: app.public("access").rules(name) for name in ("telegram", "matrix", "email")}
    assert rules["email"].allow_from == ("ann@lab.test",)


@pytest.mark.parametrize(
    ("text", "library", "extra"), [(MATRIX, "nio", "matrix"), (EMAIL, "imap_tools", "email")], ids=["matrix", "email"]
)
async def test_a_chat_app_whose_libraries_are_not_installed_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as Python marks what cannot be imported
    with pytest.raises(ConfigError, match=rf"install .*\[.*{extra}.*\]"):
        await made(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (MATRIX.replace("user", "#"), "user"),
        (EMAIL.replace("imap_host", "#"), "imap_host"),
        (EMAIL.replace("password", "#"), "NANOCLAW_EMAIL_PASSWORD"),
    ],
)
async def test_a_key_that_a_chat_app_needs_is_named(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        await made(tmp_path, text)


async def test_no_secret_of_a_channel_shows_also_of_one_that_a_package_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ChannelSpec(BroughtChannel, Brought, needed=("place",), secrets=("pin",))
    points = {"brought": SimpleNamespace(load=lambda: spec), "plain": SimpleNamespace(load=lambda: plain_channel)}
    monkeypatch.setattr(channels, "_installed", lambda: points)
    config = config_of(
        tmp_path,
        f'{MATRIX}[channels.brought]\nplace = "here"\n[channels.plain]\nbot_token = "plain-secret"\nplace = "open"\n',
        NANOCLAW_BROUGHT_PIN="brought-secret",
    )
    app = build(config, channels=None)
    await app.aclose()
    assert set(app.redact.values) == {"secret12", "brought-secret", "plain-secret"}
    brought = app.channels.get("brought")
    assert isinstance(brought, BroughtChannel)
    assert (brought.settings, brought.host.folder) == (Brought("here", "brought-secret"), tmp_path / "brought")
    assert app.channels.get("plain")


class Brought(NamedTuple):
    place: str = ""
    pin: str = ""


class BroughtChannel(FakeChannel):
    def __init__(self, settings: Brought, host: ChannelHost) -> None:
        super().__init__("brought")
        self.settings, self.host = settings, host


def plain_channel(table: Mapping[str, Any], home: Path, clock: object) -> FakeChannel:
    assert (home / "state.db").exists()
    return FakeChannel("plain")
