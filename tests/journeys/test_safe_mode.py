"""A broken config.toml: the chat and the gateway start with the last good copy and say what is wrong."""

import os
import stat
from datetime import UTC, datetime

import pytest

from nanoclaw.core.delivery import Outbox
from nanoclaw.core.store.db import Transactions
from nanoclaw.start.build import build
from nanoclaw.start.opening import read_store
from tests.journeys.command import Home, Running, make_owner
from tests.model_server import ModelServer, says
from tests.program import config_of

BROKEN = {
    "syntax": ("[model\n", "is not valid TOML"),
    "emptied": ("", "is empty, and config.last-good.toml is not"),
    "no such tool": ('[model]\nname = "openai/x"\n[tools]\ndeny = ["tuudu"]\n', "there is no tool 'tuudu'"),
    "key": ('[model]\nnmae = "openai/x"\n', "unknown key 'model.nmae'"),
    "value": ("[limits]\nrounds = 0\n", "'limits.rounds' must be more than 0"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_starts_the_last_good_copy(home: Home, server: ModelServer, kind: str) -> None:
    text, said = BROKEN[kind]
    file, copy = home.root / "config.toml", home.root / "config.last-good.toml"
    good = file.read_bytes()
    _ = home.run("-m", "/help") if kind == "key" else _talk(home, "gateway", "serves")
    assert (copy.read_bytes(), stat.S_IMODE(copy.stat().st_mode)) == (good, 0o600)
    file.write_text(text)
    server.script(says("A stork."))
    answered = home.run("-m", "which bird?", stdin="long legs")
    assert (answered.out, said in answered.err) == ("A stork.\n", True)
    assert b"which bird?\\n\\nlong legs" in server.asked[-1].body
    looked = home.run("doctor", check=None)
    assert (looked.status != 0, said in looked.out + looked.err) == (True, True)
    assert said in _talk(home, "gateway", "serves")
    server.script(says("A heron."))
    chat = Running(home)
    try:
        assert said in chat.expect("> ")
        chat.say("/status")
        chat.expect(said, 2)
        chat.say("which bird?")
        chat.expect("A heron.")
    finally:
        chat.close()
    assert (file.read_text(), copy.read_bytes()) == (text, good)


@pytest.mark.parametrize("kind", ["pipe", "link to nothing", "link into a closed folder", "folder", "device"])
def test_what_is_no_file_starts_the_last_good_copy(home: Home, kind: str) -> None:
    file, copy = home.root / "config.toml", home.root / "config.last-good.toml"
    good = file.read_bytes()
    copy.write_bytes(good)
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        (closed := home.root / "closed").mkdir(
            mode=0o000 if "closed" in kind else 0o700
        )  # root may enter it all the same
        file.symlink_to("/dev/zero" if kind == "device" else closed / "config.toml")
    assert f"Safe mode: {file}" in home.run("-m", "/help").err
    assert "Safe mode" in _talk(home, "gateway", "serves")
    assert copy.read_bytes() == good


def test_a_file_that_somebody_deleted_is_none(home: Home, server: ModelServer) -> None:
    _talk(home, "gateway", "serves")
    (home.root / "config.toml").unlink()
    assert "none, defaults" in home.run("doctor", check=None).out


def test_without_a_copy_a_broken_file_ends_the_start(home: Home) -> None:
    (home.root / "config.toml").write_text("[model\n")
    assert "is not valid TOML" in home.run("gateway", check=2).err


def test_the_owner_is_told_once_in_a_chat_of_their_own(home: Home, server: ModelServer) -> None:
    closed = 'token = "1:x"\napi_base = "http://127.0.0.1:9"\n'
    home.configure(server.base, more=f"[channels.telegram]\n{closed}")
    _talk(home, "gateway", "serves")
    make_owner(config_of(home.root), "telegram", "555")
    app = build(config_of(home.root), provider=())
    with app.transactions.open() as tx:
        tx.execute("INSERT INTO chats (channel, chat, sender) VALUES ('telegram', '555', '555')")
    app.store.close()
    (home.root / "config.toml").write_text("[limits]\nrounds = 0\n")
    for _ in range(2):
        _talk(home, "gateway", "serves")
    store = read_store(home.root / "state.db")
    told = [row.outbound.text for row in Outbox(Transactions(store, lambda: datetime.now(UTC))).pending("telegram")]
    store.close()
    assert len(told) == 1
    assert "'limits.rounds' must be more than 0" in told[0]


def _talk(home: Home, command: str, until: str) -> str:
    running = Running(home, command)
    try:
        return running.expect(until)
    finally:
        running.close()
