"""Commands need no model: they work where none is configured, where its key is missing, and where it is down."""

import json
from pathlib import Path

import pytest

from tests.journeys.command import Home, Running
from tests.model_server import ModelServer, says

DEAD = "http://127.0.0.1:9/v1"


@pytest.fixture
def bare(tmp_path: Path) -> Home:
    """A home whose model can never be asked: its key is missing."""
    home = Home(tmp_path / "home")
    home.root.mkdir()
    (home.root / "config.toml").write_text('[model]\nname = "openai/gpt-5"\n')
    return home


def test_a_note_is_kept_without_any_model(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", {"OPENAI_API_KEY": ""})
    home.root.mkdir()
    (home.root / "config.toml").write_text(f'[model]\napi_base = "{DEAD}"\n')  # none is chosen, and none is looked for
    assert "Noted in memory/" in home.run("-m", "/note The plumber came").out
    assert "The plumber came" in home.run("-m", "/search plumber").out
    assert "add name" in home.run("-m", "hello", check=2).err


def test_a_terminal_starts_without_any_model_and_says_how_to_get_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", {"OPENAI_API_KEY": ""})
    home.root.mkdir()
    (home.root / "config.toml").write_text(f'[model]\napi_base = "{DEAD}"\n')  # none is chosen, and none is looked for
    chat = Running(home)
    try:
        assert "· no model ·" in chat.expect("has model.api_base but no model.name")
        chat.say("hello")
        chat.expect("no model is configured, and none runs on this machine.")
        chat.say("Remind me in 20 minutes to take the pizza out")
        chat.expect("a reminder, is set: ")
        chat.say("/exit")
        assert chat.ended() == 0
    finally:
        chat.close()


def test_commands_work_without_a_key(bare: Home) -> None:
    assert "Noted in memory/" in bare.run("-m", "/note milk is out").out
    assert json.loads(bare.run("-m", "/search milk", "--json").out)["reason"] == "answered"
    assert "needs a key" in bare.run("-m", "/status").out
    assert "Pinned as rule 1" in bare.run("-m", "/pin Never run `git push`").out
    assert "1. Never run `git push` (for the model to follow;" in bare.run("-m", "/pins").out
    assert "Standing rules" in bare.run("context").out
    assert "needs a key" in bare.run("-m", "hello", check=2).err


def test_a_server_on_this_machine_costs_nothing_whatever_the_model_is_called(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more="[limits]\nday_usd = 0.001\n")
    config = home.root / "config.toml"
    config.write_text(config.read_text().replace("openai/scripted", "openai/gpt-4o"))
    server.script(*(says("Hi.", usage={"prompt_tokens": 10**6, "completion_tokens": 3}) for _ in range(2)))
    for _ in range(2):
        assert "Hi." in home.run("-m", "hello").out
    assert "Today: $0 spent of $0.0010." in home.run("-m", "/budget").out
    total = json.loads(home.run("usage", "--json").out)["total"]
    assert (total["calls"], total["cost_usd"]) == (2, 0)
    assert "; $0" in home.run("-m", "/why").out
