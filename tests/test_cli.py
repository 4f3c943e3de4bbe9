"""The commands: what they print, what they leave alone, and their exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nanoclaw.commands.greeting import greeting, urgent
from tests.examples import examples
from tests.journeys.command import KEY, Home
from tests.model_server import ModelServer, failing
from tests.program import REPOSITORY, running

EXAMPLES = examples(__file__, "cli.jsonl")

NO_SERVER = """
import sys
from nanoclaw.providers import local_servers
local_servers.PORTS.clear()  # whatever listens on this machine is not asked
from nanoclaw.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_server(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NO_SERVER, *arguments],
        input="",
        capture_output=True,
        text=True,
        env=home.variables(),
        cwd=REPOSITORY,
        timeout=100,
    )


def test_init_makes_the_workspace_and_never_writes_over_anything(home: Home) -> None:
    first = home.run("init")
    names = {path.name for path in home.workspace.glob("*.md")}
    assert names == {path.name for path in (REPOSITORY / "workspace_template").glob("*.md")}
    assert "SOUL.md" in first.out
    (home.workspace / "SOUL.md").write_text("mine")
    (home.workspace / "USER.md").write_bytes(b"")
    before = snapshot(home.root)
    assert "nothing was changed" in home.run("init").out
    assert snapshot(home.root) == before


def test_init_writes_the_model_and_said_again_changes_it_and_nothing_else(home: Home) -> None:
    home.run("init", "--model", "ollama/qwen3", "--api-base", "http://127.0.0.1:1/v1")
    config = home.root / "config.toml"
    assert config.stat().st_mode & 0o077 == 0
    assert json.loads(home.run("status", "--json").out)["model"] == "ollama/qwen3"
    config.write_text(config.read_text() + "# mine\ntimeout_seconds = 30  # slow here\n\n[limits]\nrounds = 7\n")
    before = config.read_text()
    said = home.run("init", "--model", "anthropic/claude-sonnet-4-5").out
    assert "ANTHROPIC_API_KEY" in said
    assert "api_base" in said
    after = config.read_text()
    assert "# mine\ntimeout_seconds = 30  # slow here\n\n[limits]\nrounds = 7\n" in after
    assert 'name = "anthropic/claude-sonnet-4-5"' in after
    assert "127.0.0.1" not in after
    assert (home.root / "config.toml.bak").read_text() == before
    assert (home.root / "config.toml.bak").stat().st_mode & 0o077 == 0
    home.run("init", "--api-base", "http://127.0.0.1:2/v1")
    assert "at http://127.0.0.1:2/v1, as before" in home.run("init", "--model", "anthropic/claude-opus-5").out
    home.run("init", "--model", "anthropic/claude-sonnet-4-5")
    assert json.loads(home.run("status", "--json").out)["model"] == "anthropic/claude-sonnet-4-5"


@pytest.mark.parametrize(("model", "told"), EXAMPLES["init refuses what is no model and writes nothing"])
def test_init_refuses_what_is_no_model_and_writes_nothing(home: Home, model: str, told: str) -> None:
    ended = home.run("init", "--model", model, check=2)
    assert told in ended.err
    assert not (home.root / "config.toml").exists()


def test_doctor_has_a_line_for_secrets_that_others_can_read(home: Home) -> None:
    home.root.mkdir()
    (home.root / "secrets.env").write_text("OTHER_API_KEY=sk-other\n")
    (home.root / "secrets.env").chmod(0o644)
    told = f"wrong permissions: {home.root / 'secrets.env'} holds keys and can be read"
    assert told in home.run("doctor", check=1).out
    (home.root / "secrets.env").chmod(0o600)
    assert told not in home.run("doctor", check=None).out


def test_init_says_which_key_of_the_configuration_is_misspelt(home: Home) -> None:
    home.root.mkdir()
    (home.root / "config.toml").write_text('[modl]\nname = "openai/gpt-5"\n')
    assert "unknown key 'modl.name'; did you mean 'model.name'?" in home.run("init", check=2).err
    assert not home.workspace.exists()


def test_init_names_a_key_that_lacks_and_a_model_that_may_be_misspelt(home: Home) -> None:
    said = home.run("init", "--model", "openai/gpt5").out
    assert "did you mean openai/gpt-5?" in said
    assert "OPENAI_API_KEY" in said
    home.environment["OPENAI_API_KEY"] = KEY
    said = home.run("init", "--model", "openai/gpt-5").out
    assert not any(one in said for one in ("did you mean", "OPENAI_API_KEY", KEY))


def test_init_with_a_model_of_this_machine_says_how_to_fetch_it(home: Home) -> None:
    assert "local pull qwen2.5-coder-0.5b" in home.run("init", "--model", "local/qwen2.5-coder-0.5b").out


def test_init_in_a_place_that_cannot_be_made_is_told(home: Home) -> None:
    home.root.mkdir()
    home.workspace.write_text("a file")
    ended = home.run("init", check=1)
    assert str(home.workspace) in ended.err


def test_without_a_model_it_is_said_how_to_get_one(home: Home) -> None:
    ended = without_server(home, "-m", "hi")
    assert ended.returncode == 2
    assert "no model is configured" in ended.stderr
    assert "nanoclaw init --model openai/gpt-5" in ended.stderr
    assert "nanoclaw local pull" in ended.stderr
    assert ended.stdout == ""


def test_without_a_model_a_reminder_is_set_all_the_same(home: Home) -> None:
    ended = without_server(home, "-m", "Remind me in 20 minutes to take the pizza out")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("Job 1, a reminder, is set: ")
    assert ended.stdout.endswith("in 20 minutes. “take the pizza out”\n")
    assert "reminder “take the pizza out”" in without_server(home, "cron", "list").stdout
    assert "Reminder 1: take the pizza out" in without_server(home, "cron", "rehearse", "1").stdout


def test_without_a_model_json_is_still_one_object(home: Home) -> None:
    ended = without_server(home, "-m", "hi", "--json")
    assert ended.returncode == 2
    assert "no model is configured" in json.loads(ended.stdout)["error"]


def test_a_key_that_is_set_is_named_in_the_advice(home: Home) -> None:
    home.environment["ANTHROPIC_API_KEY"] = KEY
    ended = without_server(home, "-m", "hi")
    assert "nanoclaw init --model anthropic/" in ended.stderr
    assert KEY not in ended.stderr


@pytest.mark.parametrize(("arguments", "told"), EXAMPLES["a mistake in the call is told with status 2"])
def test_a_mistake_in_the_call_is_told_with_status_2(home: Home, arguments: tuple[str, ...], told: str) -> None:
    assert told in home.run(*arguments, check=2).err


@pytest.mark.parametrize(("model", "told"), [("gpt-5", "openai/gpt-5"), ("openai/gpt-5", "OPENAI_API_KEY")])
def test_a_model_that_cannot_be_used_is_told(home: Home, model: str, told: str) -> None:
    ended = home.run("-m", "hi", "--model", model, check=None)
    assert ended.status in (1, 2)
    assert told in ended.out + ended.err


def test_a_broken_config_is_told_by_every_command_and_left_alone(home: Home) -> None:
    home.root.mkdir()
    (home.root / "config.toml").write_text("[model\n")
    for command in (("-m", "hi"), ("init",), ("status", "--json"), ("skills", "list")):
        ended = home.run(*command, check=2)
        assert "config.toml" in ended.err + ended.out
    assert snapshot(home.root) == {str(home.root / "config.toml"): b"[model\n"}


def test_help_and_version_work_beside_a_broken_config(home: Home) -> None:
    home.root.mkdir()
    (home.root / "config.toml").write_text("[model\n")
    assert "--session" in home.run("--help").out
    assert home.run("--version").out.startswith("nanoclaw ")


def test_looking_makes_nothing(home: Home) -> None:
    for command in ("status", "sessions list", "skills list", "memory search x", "local", "context", "cron list"):
        home.run(*command.split())
    home.run("heartbeat", "--dry-run")
    assert not home.root.exists()


def test_notes_need_no_quotes_and_are_found(home: Home) -> None:
    assert "MEMORY.md" in home.run("memory", "add", "Anna's birthday is 5 May", "--fact", "--also", "born on").out
    assert home.run("memory", "add", "I", "like", "green", "tea").out.endswith("I like green tea\n")
    assert "Already noted in" in home.run("memory", "add", "I like green tea").out
    hit, *_ = json.loads(home.run("memory", "search", "born", "--limit", "1", "--json").out)["hits"]
    assert hit["file"] == "MEMORY.md" and "Anna" in hit["text"]
    home.run("memory", "forget", "green", "tea", "--yes")
    assert home.run("memory", "search", "green", "tea").out == "Nothing found: try other words.\n"


def test_an_unknown_time_zone_is_told_with_a_near_one(home: Home) -> None:
    home.root.mkdir()
    (home.root / "config.toml").write_text('[model]\nname = "ollama/x"\n[person]\ntimezone = "Europe/Berln"\n')
    assert "'Europe/Berlin'" in home.run("-m", "hi", check=2).err
    assert "'Europe/Berlin'" in home.run("status", check=2).err
    assert "'Europe/Berlin'" in json.loads(home.run("status", "--json", check=2).out)["error"]
    checked = home.run("doctor", check=1).out
    assert checked.count("'Europe/Berlin'") == 1
    assert "model: not checked, as the time zone is wrong" in checked


@pytest.mark.parametrize(("lines", "why"), EXAMPLES["doctor finds what a start would refuse or leave out"])
def test_doctor_finds_in_the_configuration_what_a_start_would_refuse_or_leave_out(
    tmp_path: Path, lines: str, why: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(lines)
    assert why in Home(tmp_path).run("doctor", check=1).out


def test_failed_tries_reach_the_log_and_not_the_screen(home: Home, server: ModelServer) -> None:
    home.configure(server.base)
    server.script(*[failing(401, {"error": {"message": f"no such key {KEY}"}})] * 2)
    told = [home.run("-m", "hi", check=1).err, home.run("doctor", check=1).err]
    lines = (home.root / "logs" / "nanoclaw.log").read_text().splitlines()
    tries = [line for line in lines if "nanoclaw.providers.http" in line]
    assert len(tries) == 2
    assert all("openai/scripted refused the key (401)" in line and str(server.port) in line for line in tries)
    assert not any(KEY in line or "no such key" in line for line in lines)
    assert not any("DEBUG" in text for text in told)


def test_a_reader_who_leaves_is_no_error(home: Home) -> None:
    home.run("init")
    command = " ".join([f"'{part}'" for part in home.command("--help")])
    ended = subprocess.run(
        ["sh", "-c", f"{command} | true"], capture_output=True, text=True, env=home.variables(), cwd=REPOSITORY
    )
    assert "Traceback" not in ended.stderr


async def test_a_frozen_home_says_so_at_the_start_of_a_chat(tmp_path: Path) -> None:
    async with running(tmp_path) as program:
        assert not [line for line in urgent(program.app) if not line.startswith("Commands run ")]
        await program.ask("/panic")
    async with running(tmp_path) as program:
        assert "Everything is frozen by /panic; /resume ends that." in greeting("openai/x", urgent(program.app))
