"""Damaged files of a home: each command says what is wrong, and the next message is answered where that is possible."""

import random
from pathlib import Path

import pytest

from nanoclaw.start.home import seed
from tests.core.store.test_db import filled
from tests.journeys.command import Home
from tests.model_server import ModelServer, says
from tests.program import REPOSITORY


@pytest.fixture
def home(home: Home) -> Home:
    """One with a past."""
    seed(home.workspace, REPOSITORY / "workspace_template")
    filled(home.root / "state.db", 20)
    return home


def write_a_bad_byte(home: Home, after: bytes, distance: int) -> None:
    """One that is not text, so far behind the beginning of these."""
    path = home.root / "state.db"
    whole = path.read_bytes()
    at = whole.index(after) + distance
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])


def test_one_byte_that_is_no_text_is_said_by_all_that_look_and_costs_one_message(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    write_a_bad_byte(home, b'"17 yyy', 9)
    assert "is damaged" in home.run("doctor", check=1).out
    assert "no backup was made" in home.run("backup", str(tmp_path / "all.tar.gz"), check=1).err
    began = home.run("-m", "/new")
    assert "at most 1 messages of conversations" in began.err
    server.script(says("Yes."))
    assert home.run("-m", "are you there?").out == "Yes.\n"
    assert "wrong store" not in home.run("doctor", check=None).out


def test_a_byte_that_is_no_text_among_the_tables_is_said_by_all_that_look_and_costs_no_row(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    write_a_bad_byte(home, b"CREATE TABLE messages", 3)
    backup = ("backup", str(tmp_path / "all.tar.gz"))
    for command in (("status",), ("sessions", "list"), ("usage",), ("cron", "list"), ("doctor",), ("context",), backup):
        said = home.run(*command, check=1)
        assert "damaged" in said.out + said.err, command
        assert "Traceback" not in said.out + said.err, command
    server.script(says("Yes."))
    answered = home.run("-m", "are you there?")
    assert answered.out == "Yes.\n"
    assert "was damaged" in answered.err
    assert "Nothing is missing." in answered.err
    assert "5 yyy" in home.run("sessions", "show").out


@pytest.mark.parametrize("name", ["config.toml", "secrets.env", "workspace/MEMORY.md", "index.db", "history"])
def test_other_files_may_hold_anything(home: Home, server: ModelServer, name: str) -> None:
    (home.workspace / "MEMORY.md").write_text("# Memory\n- 2026-03-06: Likes tea\n" * 20)
    (home.root / "secrets.env").write_text("# mine\nOTHER_API_KEY=sk-other\n")
    (home.root / "secrets.env").chmod(0o600)
    home.run("memory", "search", "tea")
    (home.root / "history").touch()
    path = home.root / name
    whole = path.read_bytes() or b"\n# 2026-03-06\n+hello\n"
    for number in range(4):
        chance, damaged = random.Random(number), bytearray(whole)
        for _ in range(chance.randint(1, 30)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        ended = home.run("status", check=None)
        if name in ("config.toml", "secrets.env") and ended.status:  # at which nobody may guess
            assert ended.status == 2
            assert name in ended.err
            continue
        server.script(says("Yes."))
        assert home.run("-m", "are you there?").out == "Yes.\n", number
        if name != "index.db":
            assert bytes(damaged) in path.read_bytes()  # what a person wrote is left as it is
