"""The level of the sandbox is never lowered unseen, whatever breaks between two commands."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from nanoclaw.commands.greeting import urgent
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.sandbox import sandbox as library
from tests.program import results, running
from tests.sandbox.enclosed import own_seconds, run, sleeping, strengths
from tests.sandbox.test_protected import Place

at_full = pytest.mark.skipif(
    not {"full", "files+net"} <= strengths().keys(), reason="this machine has not both bubblewrap and Landlock"
)


def step(command: str) -> Say:
    return call("exec", {"command": command})


@pytest.fixture
def bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only one of this machine, which may be removed."""
    link = tmp_path / "bwrap"
    link.symlink_to(strengths()["full"].bwrap)
    monkeypatch.setattr(library, "_bwraps", lambda: [str(link)] if link.exists() else [])
    return link


@at_full
async def test_where_bubblewrap_goes_between_two_commands_nothing_runs_until_somebody_looks(
    tmp_path: Path, bwrap: Path
) -> None:
    model = ScriptedProvider(*(one for name in "abcd" for one in (step(f"touch {name}"), "Hm.")))
    async with running(tmp_path / "home", model) as program:

        async def told() -> str:
            await program.ask("Go")
            return results(program.history)[-1].text

        assert await told() == "[exit status 0; in the sandbox]"
        target = bwrap.readlink()
        bwrap.unlink()
        for _ in range(2):
            assert "was 'full' and would now be 'files+net' (bubblewrap is not" in await told()
        lowered = "Commands don't run: the sandbox of commands was 'full' and would now be 'files+net'"
        assert lowered in await program.ask("/status")
        await program.app.findings()
        assert "Commands run in a sandbox (files+net)" in await program.ask("/status")
        assert "Commands run in a sandbox (files+net)" in urgent(program.app)[0]
        assert await told() == "[exit status 0; in the sandbox (files+net)]"
        assert sorted(path.name for path in program.workspace.glob("?")) == ["a", "d"]
        bwrap.symlink_to(target)
        assert "Commands run in a sandbox (full)" in await program.ask("/status")


@at_full
async def test_a_look_by_another_program_counts(tmp_path: Path, bwrap: Path) -> None:
    model = ScriptedProvider(*(one for name in "abc" for one in (step(f"touch {name}"), "Hm.")))
    async with running(tmp_path / "home", model) as program:
        await program.ask("Go")
        bwrap.unlink()
        await program.ask("Go")
        assert "the sandbox of commands was" in results(program.history)[-1].text
        seen = {"facts": library.facts(), "strength": ["files+net", "", ["bubblewrap is not installed"]]}
        (tmp_path / "home" / "plugins" / "sandbox" / "level.json").write_text(json.dumps(seen))
        await program.ask("Go")
        assert results(program.history)[-1].text == "[exit status 0; in the sandbox (files+net)]"


@at_full
async def test_a_test_that_fails_the_second_time_is_told_by_doctor(
    tmp_path: Path, bwrap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedProvider(step("true"), "Hm.", step("true"), "Hm.")
    async with running(tmp_path / "home", model) as program:
        await program.ask("Go")
        tried = library._trouble
        monkeypatch.setattr(library, "_trouble", lambda g, s: "it leaks" if s.level == "full" else tried(g, s))
        (found,) = [one for name, one in await program.app.findings(deep=True) if name == "sandbox"]
        assert found.text.startswith(f"files+net ({bwrap}: it leaks)")
        assert urgent(program.app)[0].startswith("Commands run in a sandbox (files+net)")
        await program.ask("Go")
        assert results(program.history)[-1].text == "[exit status 0; in the sandbox (files+net)]"


@pytest.mark.parametrize("level", [one for one in strengths() if one != "none"])
async def test_a_command_whose_keeper_is_killed_ends_with_it(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    seconds = own_seconds()
    command = f"mkfifo gate; sleep {seconds} & exec sleep {seconds} > gate"
    ended = asyncio.ensure_future(run(place.encloser, place.grants, command))
    while not (place.workspace / "gate").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    gate = await asyncio.to_thread(os.open, place.workspace / "gate", os.O_RDONLY)  # until the command has begun
    keepers = [
        pid for pid, line in _commands() if (b"launch" in line or b"/proc/self/fd" in line) and command.encode() in line
    ]
    os.kill(max(keepers), signal.SIGKILL)
    assert ((await ended).why, (await ended).status) == ("exited", -signal.SIGKILL)
    assert not sleeping(seconds)
    os.close(gate)


def _commands() -> list[tuple[int, bytes]]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((int(path.name), (path / "cmdline").read_bytes()))
    return found
