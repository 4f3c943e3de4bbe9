"""`nanoclaw audit` on real files with real modes, and over a store beside a process that runs or none."""

import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.start.build import build
from tests.journeys.command import Home, make_owner
from tests.program import config_of

TELEGRAM = '[channels.telegram]\ntoken = "123:abc"\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return made(tmp_path / "home")


def made(root: Path) -> Home:
    home = Home(root)
    home.configure("http://127.0.0.1:9")
    home.root.chmod(0o700)
    (home.root / "config.toml").chmod(0o600)
    return home


def add(home: Home, text: str) -> None:
    with (home.root / "config.toml").open("a") as file:
        file.write(text)


def audited(home: Home, *, status: int = 0) -> dict[tuple[str, str], str]:
    """Level and text of each finding, by name and text's beginning."""
    said: dict[str, Any] = json.loads(home.run("audit", "--json", check=status).out)
    assert said["is_bad"] == bool(status)
    return {(one["level"], one["name"]): one["text"] for one in said["findings"]}


def test_a_new_home_has_no_risk_and_says_which_tools_guests_have(home: Home) -> None:
    said = home.run("audit", check=None).out
    assert "ok      permissions: " in said
    assert "note    tools: open to guest: " in said


def test_files_that_others_can_read_are_bad_and_said_by_name(home: Home) -> None:
    secrets = home.root / "secrets.env"
    secrets.write_text("OTHER_API_KEY=sk-other\n")
    secrets.chmod(0o600)
    home.run("init")
    (home.root / "logs").mkdir(exist_ok=True)
    (home.root / "logs" / "old.log").write_text("said")
    (home.root / "logs" / "old.log").chmod(0o644)
    home.root.chmod(0o755)
    assert "logs/old.log" in audited(home, status=1)["bad", "permissions"]
    secrets.chmod(0o640)
    assert f"bad     permissions: {secrets} holds keys" in home.run("audit", check=1).out


def test_who_may_talk_is_said_by_channel(home: Home) -> None:
    add(home, TELEGRAM + 'policy = "open"\nallow_from = ["77"]\n')
    make_owner(config_of(home.root), "telegram", "555")
    with build(config_of(home.root), provider=()).transactions.open() as tx:
        tx.execute(
            "INSERT INTO approvals_grants (scope, words, sender, channel, chat, until, given)"
            " VALUES ('chat:1', 'messages to Ben', 'owner', 'terminal', 'main', '', ?)",
            (datetime.now().astimezone() - timedelta(days=45)).isoformat(),
        )
    found = home.run("audit", "--json").out
    texts = [(one["level"], one["name"], one["text"]) for one in json.loads(found)["findings"]]
    assert ("note", "telegram", "owners: Anna (id 555)") in texts
    assert ("note", "telegram", "guests by allow_from: 77") in texts
    assert ("warning", "telegram", 'anybody who writes is answered as a guest: policy = "open"') in texts
    (grant,) = [text for level, name, text in texts if (level, name) == ("warning", "grant")]
    assert "messages to Ben" in grant
    assert "given 45 days ago, which is long" in grant


def test_what_the_configuration_opens_is_said(home: Home) -> None:
    add(
        home,
        '[net]\nallow = ["nas.lan"]\n[taint]\ntrusted = ["docs.python.org"]\n[tools]\nallow = ["message"]\n'
        '[mcp.far]\nurl = "http://mcp.example.org/"\nreads = ["look_up"]\n[mcp.far.headers]\nX-Token = "$T"\n'
        '[mcp.near]\ncommand = "near"\nreads = ["*"]\n',
    )
    found = audited(home, status=1)
    assert "nas.lan" in found["note", "net"]
    assert "docs.python.org" in found["warning", "taint"]
    assert "without TLS" in found["bad", "mcp far"]
    assert "outside of the sandbox" in found["note", "mcp near"]
    assert "none of its tools asks" in found["warning", "mcp near"]


def test_a_wrong_configuration_is_one_object_too(home: Home) -> None:
    add(home, "[modl]\n")
    assert "modl" in json.loads(home.run("audit", "--json", check=2).out)["error"]


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder to which other users of this machine can come, with a path that is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def test_sockets_in_folders_that_commands_may_open_are_told(home: Home) -> None:
    with socket.socket(socket.AF_UNIX) as docker, short_folder() as folder:
        docker.bind(str(folder / "docker.sock"))
        add(home, f'[files]\nwrite = ["{folder}"]\n')
        found = home.run("audit").out
    assert f"warning folders: commands may reach the program that listens at {folder / 'docker.sock'}" in found


def test_a_workspace_elsewhere_that_others_can_change_is_bad(home: Home) -> None:
    with short_folder() as folder:
        (folder / "notes").mkdir()
        add(home, f'[workspace]\npath = "{folder / "notes"}"\n')
        folder.chmod(0o755)
        (folder / "notes").chmod(0o755)
        assert "other users of this machine can read" in audited(home)["warning", "permissions"]
        (folder / "notes").chmod(0o777)
        assert "other users of this machine can change" in audited(home, status=1)["bad", "permissions"]


def test_a_page_that_other_machines_reach_is_told(home: Home) -> None:
    add(home, '[page]\naddress = "0.0.0.0"\npassword = "twelve letters"\n')
    assert "listens at 0.0.0.0" in audited(home)["warning", "page"]


def test_tasks_that_begin_by_themselves_are_told(home: Home) -> None:
    home.run("cron", "add", "--task", "every 2 hours", "look at the weather")
    home.run("cron", "add", "every 3 hours", "drink water")
    assert audited(home)["note", "tasks"].endswith("asked in them: 1 (/jobs)")
