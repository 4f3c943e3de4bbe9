"""Importing another assistant: the card, all or nothing in, all back out, also when it is killed in the middle."""

from pathlib import Path

import pytest

from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start.host import PluginHost
from tests.plugins.importer.made_homes import nanobot_home
from tests.program import Program, running


def everything(program: Program) -> dict[str, bytes]:
    folders = (program.app.settings.workspace, program.root / "skills")
    return {str(path): path.read_bytes() for one in folders for path in sorted(one.rglob("*")) if path.is_file()}


def tables(program: Program) -> str:
    names = ("sessions", "turns", "messages")
    return str([program.rows(f"SELECT count(*) FROM {name}") for name in names])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return nanobot_home(tmp_path)


async def bring(program: Program, home: Path) -> str:
    shown = await program.ask(f"/import nanobot {home}")
    return await program.ask(f"/import nanobot {home} --yes {shown.partition('--yes ')[2].partition('`')[0]}")


async def test_the_card_says_what_comes_and_what_is_lost_and_nothing_changes(tmp_path: Path, home: Path) -> None:
    async with running(tmp_path / "home", ScriptedProvider()) as program:
        before = everything(program), tables(program)
        shown = await program.ask(f"/import nanobot {home} --dry-run")
        assert (everything(program), tables(program)) == before
    for part in (
        "- SOUL.md, USER.md: nothing of yours is there yet",
        "lines of memory, into MEMORY.md under “Imported from nanobot”",
        "notes of 1 day (2026-01-02 to 2026-01-02)",
        "1 conversation with 2 messages, for search: nanobot:telegram:555",
        "3 tasks: “water” (0 9 * * *, Asia/Tokyo), “stretch” (every 90 minutes, paused), “tax” (22 Jun 2026",
        "1 skill, not used before you review it: tides",
        "2 keys: OPENROUTER_API_KEY, NANOCLAW_TELEGRAM_TOKEN",
        "the MCP server files: `nanoclaw mcp add files -- npx -y files`",
        "the task “anna”: it was due 2 Jan 2026, 19:30, and is not sent any more",
        "1 broken line of sessions/",
        "who is let in on telegram: people link anew",
    ):
        assert part in shown
    assert "canary" not in shown


async def test_what_comes_is_there_and_goes_again(tmp_path: Path, home: Path) -> None:
    async with running(tmp_path / "home", ScriptedProvider()) as program:
        workspace = program.app.settings.workspace
        (workspace / "USER.md").write_text("My own words.\n")
        before, rows = everything(program), tables(program)
        assert "Imported. /import undo takes it back." in await bring(program, home)
        assert "Pelle" in (workspace / "SOUL.md").read_text()
        assert (workspace / "USER.md").read_text() == "My own words.\n"
        assert "Ada Quist" in (workspace / "USER.nanobot.md").read_text()
        assert not (workspace / "BOOTSTRAP.md").exists()
        assert "## Imported from nanobot, 6 Mar 2026" in (workspace / "MEMORY.md").read_text()
        assert "Trondheim" in await program.ask("/search Trondheim")
        found = await program.ask("/search Bastøy ferry")
        assert "said on 2 Jan 2026 on nanobot (nanobot:telegram:555) by the assistant" in found
        jobs = await program.ask("/jobs")
        assert "water" in jobs and "stretch" in jobs and "tax" in jobs.lower() and "Anna" not in jobs
        assert "tides" in await program.ask("/skills") and "draft" in await program.ask("/skill")
        assert "is imported already" in await program.ask(f"/import nanobot {home}")
        assert "The import from nanobot is taken back." in await program.ask("/import undo")
        assert everything(program) == before
        assert program.rows("SELECT count(*) FROM sessions WHERE key LIKE 'nanobot:%'") == [(0,)]
        assert program.rows("SELECT count(*) FROM jobs WHERE state <> 'removed'") == [(0,)]
        assert "Bastøy" not in await program.ask("/search ferry to Bastøy")
        assert "there is no import" in await program.ask("/import undo")
        assert program.rows("SELECT * FROM importer_files") == []
        assert tables(program) == rows


async def test_a_chat_of_another_assistant_is_never_where_the_owner_is(tmp_path: Path, home: Path) -> None:
    async with running(tmp_path / "home", ScriptedProvider()) as program:
        await bring(program, home)
        assert [str(one) for one in PluginHost(program.app, "test").records.owners_chats(9)] == ["terminal:main"]
