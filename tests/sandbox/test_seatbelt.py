"""The profile for macOS, held by a stand-in for sandbox-exec: what Apple's makes of it, only a Mac can say."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nanoclaw.sandbox import sandbox as library
from nanoclaw.sandbox import seatbelt
from nanoclaw.sandbox.sandbox import Encloser, Strength
from nanoclaw.sandbox.view import Grants
from tests.program import running
from tests.sandbox.enclosed import run

STAND_IN = str(Path(__file__).with_name("sandbox-exec"))


@pytest.fixture
def grants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grants:
    monkeypatch.setattr(seatbelt, "PROGRAM", STAND_IN)
    monkeypatch.setattr(library, "sys", SimpleNamespace(platform="darwin", executable=sys.executable))
    (tmp_path / "home" / ".nanoclaw" / "workspace").mkdir(parents=True)
    keys = tmp_path / "home" / ".nanoclaw"
    return Grants(keys / "workspace", (keys,), tmp_path / "home", os.environ["PATH"])


def test_the_canaries_fail_and_commands_are_held(grants: Grants) -> None:
    assert library._try(grants) == Strength("files+net", STAND_IN)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("(allow file-read*)", "what is outside could be read"),
        ("(allow file-write*)", "what is outside could be written and changed"),
        ("(allow network*)", "what is outside could be connected to"),
        ("(deny file-write*)", "nothing can be written into the workspace"),
        ("(allow file-read*", "sandbox-exec: unbalanced"),
    ],
)
def test_a_mac_that_takes_the_profile_otherwise_has_no_sandbox(
    grants: Grants, monkeypatch: pytest.MonkeyPatch, rule: str, why: str
) -> None:
    monkeypatch.setattr(seatbelt, "_WALK", rule)
    assert library._try(grants) == Strength("none", "", (f"{STAND_IN}: {why}",))


def test_kept_files_and_what_is_outside_are_not_written(grants: Grants) -> None:
    code = "for one in ('a', 'AGENTS.md', 'memory/x', '../config.toml', '../../x', '/dev/null'):\n try: open(one, 'w')"
    made = Encloser(grants, Strength("files+net", STAND_IN)).enclose(
        (sys.executable, "-c", f"{code}\n except OSError: print(one)"), {"PATH": grants.path}
    )
    started = {"cwd": grants.workspace, "env": made.environment, "pass_fds": made.keeper.descriptors, "stdout": -1}
    output = subprocess.run(made.arguments, **started).stdout  # type: ignore[call-overload]
    assert output.split() == [b"AGENTS.md", b"memory/x", b"../config.toml", b"../../x"]
    assert os.read(made.keeper.report, 100) == b"+\n0\n"
    made.close()


def test_a_command_ends_as_it_does(grants: Grants) -> None:
    ended = asyncio.run(run(Encloser(grants, Strength("files+net", STAND_IN)), grants, "echo out; exit 7"))
    assert (ended.why, ended.status, ended.head) == ("exited", 7, b"out\n")


@pytest.mark.usefixtures("grants")
async def test_the_doctor_says_what_a_mac_has_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(library._known, library.facts(), raising=False)
    async with running(tmp_path / "program") as program:
        (found,) = [one for name, one in await program.app.findings() if name == "sandbox"]
    assert found.is_well and found.text.endswith(
        "On this Mac reading, writing and connecting outside were tried, and failed"
    )
