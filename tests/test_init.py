"""`nanoclaw init` asks in a terminal, `nanoclaw model` changes the default, and config.toml has one writer."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.start.host import PluginHost
from tests.journeys.command import KEY, Home, Running
from tests.model_server import ModelServer, says
from tests.program import running


def test_three_questions_whose_answers_are_checked_and_kept(tmp_path: Path, server: ModelServer) -> None:
    home = Home(tmp_path / "home", {"TZ": "Europe/Berlin", "HTTP_PROXY": server.base.removesuffix("/v1")})
    home.configure("http://models.example/v1", more="# mine\n[limits]\nrounds = 7  # few\n", key=False)
    server.script(says("Hello."))
    with closing(Running(home, "init")) as asked:
        asked.expect("[openai/scripted]: ")
        assert max(map(len, asked.text.partition("1. Model")[2].splitlines())) < 50  # no terminal breaks a word
        asked.say("gpt5")
        asked.expect("[openai/scripted]: ", times=2)
        asked.say("")
        asked.expect("OPENAI_API_KEY (it is not shown")
        asked.say(KEY)
        asked.expect("openai/scripted answers: 'Hello.'")
        asked.expect("[Europe/Berlin]: ")
        asked.say("Europe/Atlantis")
        asked.expect("[Europe/Berlin]: ", times=2)
        asked.say("Europe/Lisbon")
        asked.expect("Done.")
        assert asked.ended() == 0
        assert KEY not in asked.text
    assert f"OPENAI_API_KEY={KEY}" in (home.root / "secrets.env").read_text()
    assert (home.root / "secrets.env").stat().st_mode & 0o077 == 0
    written = (home.root / "config.toml").read_text()
    assert "# mine\n[limits]\nrounds = 7  # few\n" in written
    assert 'timezone = "Europe/Lisbon"' in written
    before = written
    server.script(says("Hello again."))
    with closing(Running(home, "init")) as again:
        again.expect("[openai/scripted]: ")
        again.say("")
        again.expect("OPENAI_API_KEY is set.")
        again.expect("Hello again.")
        again.expect("[Europe/Lisbon]: ")
        again.say("")
        assert again.ended() == 0
    assert (home.root / "config.toml").read_text() == before


def test_a_key_that_no_server_takes_is_asked_for_again_and_ctrl_d_ends(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", {"HTTP_PROXY": "http://127.0.0.1:9"})
    home.configure("http://models.example/v1", key=False)
    with closing(Running(home, "init")) as asked:
        asked.expect("[openai/scripted]: ")
        asked.say("")
        asked.expect("it is not shown")
        asked.say(KEY)
        asked.expect("all the same? [no]: ")
        asked.say("")
        asked.expect("it is not shown", times=2)
        asked.say("")
        asked.expect("keys set OPENAI_API_KEY --file")
        asked.expect("3. Time zone")
        asked.say("\x04")
        assert asked.ended() == 2
        assert "what was answered is kept" in asked.text
    assert not (home.root / "secrets.env").exists()


def test_a_key_is_kept_where_ctrl_c_ends_its_check(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        home = Home(tmp_path / "home", {"HTTP_PROXY": f"http://127.0.0.1:{silent.getsockname()[1]}"})
        home.configure("http://models.example/v1", key=False)
        with closing(Running(home, "init")) as asked:
            asked.expect("[openai/scripted]: ")
            asked.say("")
            asked.expect("it is not shown")
            asked.say(KEY)
            asked.expect("for one word …")
            silent.accept()
            asked.press_ctrl_c()
            asked.expect("OPENAI_API_KEY is kept in ")
            assert asked.ended() == 130
    assert f"OPENAI_API_KEY={KEY}" in (home.root / "secrets.env").read_text()


def test_on_a_pipe_it_says_what_it_needs(tmp_path: Path) -> None:
    said = Home(tmp_path / "home").run("init").out
    assert "init --model PROVIDER/NAME" in said
    assert "keys set NAME --file" in said


def test_model_with_a_name_changes_the_default_at_once(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    said = home.run("model", "openai/gpt-5").out
    assert "keys set OPENAI_API_KEY --file" in said
    assert json.loads(home.run("status", "--json").out)["model"] == "openai/gpt-5"
    home.environment["OPENAI_API_KEY"] = KEY
    assert "This conversation now uses openai/gpt-5-mini." in home.run("model", "openai/gpt-5-mini").out
    said = home.run("model").out
    assert said.startswith("Model: openai/gpt-5-mini (") and "model provider/name, or " in said and "/model" not in said
    assert "did you mean 'openai'?" in home.run("model", "opnai/gpt-5", check=2).err
    assert "unknown provider 'wibble'; known: openai, " in home.run("init", "--model", "wibble/x", check=2).err
    assert json.loads(home.run("status", "--json").out)["model"] == "openai/gpt-5-mini"


async def test_a_plugin_changes_settings_with_comments_kept_and_nothing_wrong_is_written(tmp_path: Path) -> None:
    text = "# mine\n[limits]\nrounds = 7 # few\n[web]\nsearch = 'ddgs'\n"
    async with running(tmp_path, settings=text) as program:
        host, file = PluginHost(program.app, "page"), tmp_path / "config.toml"
        before = file.read_text()
        each = {"limits.rounds": "many"}, {"limits.rownds": 7}, {"limits.rounds": 0}, {"person.timezone": "X/Y"}
        for wrong in each:
            with pytest.raises(ConfigError, match=r"config\.toml.*Nothing was changed\.|X/Y"):
                host.change_settings(wrong)
        assert file.read_text() == before
        copy = host.change_settings({"limits.rounds": 9, "web.search": None, "model.fallback": ["openai/gpt-5"]})
        after = file.read_text()
        assert after.startswith("# mine\n[limits]\nrounds = 9 # few\n")
        assert "[web]" not in after
        assert 'fallback = ["openai/gpt-5"]' in after
        assert copy and copy.read_text() == before
        assert host.change_settings({"limits.rounds": 9}) is None
        assert {path.name for path in tmp_path.glob("*config.toml*")} == {"config.toml", "config.toml.bak"}
