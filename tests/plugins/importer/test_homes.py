"""Homes that the real programs have made, others by their documentation, and what is no home or half of one."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.importer.card import card, judged
from nanoclaw.plugins.importer.changes import planned
from nanoclaw.plugins.importer.found import ForeignHome
from nanoclaw.plugins.importer.plugin import read
from tests.program import REPOSITORY

HOMES, NOW = Path(__file__).parent / "homes", datetime(2026, 12, 1, 12, tzinfo=UTC)


def told(found: ForeignHome, root: Path) -> str:
    roots = {"workspace": root / "workspace", "skills": root / "skills"}
    for folder in roots.values():
        folder.mkdir(parents=True, exist_ok=True)
    changes = planned(found, roots, REPOSITORY / "workspace_template", NOW.date())
    return card(found, changes, [judged(job, NOW, "UTC") for job in found.jobs], "home").text


def talks(found: ForeignHome) -> dict[str, list[tuple[str, str, list[str]]]]:
    return {
        chat: [(asked.text, asked.outside, [one.text for one in answers]) for asked, answers in turns]
        for chat, turns in found.talks.items()
    }


def test_a_home_of_nanobot(tmp_path: Path) -> None:
    found = read("nanobot", str(HOMES / "nanobot"), NOW)
    assert talks(found) == {
        "telegram:555": [
            ("When does the ferry to Bastøy leave?", "web_fetch", ["The Bastøy ferry leaves at 07:45."]),
            ("Danke, das passt mir gut.", "", ["Gern!"]),
        ]
    }
    assert found.files.keys() == {"USER.md"}  # in the others nobody has written
    assert "Ilse" in found.facts["memory/MEMORY.md"] and len(found.notes) == 1
    shown = told(found, tmp_path)
    assert "3 tasks: “water” (0 9 * * *, Asia/Tokyo), “stretch” (every 90 minutes, paused), “tax” (" in shown
    assert "the task “anna”: it was due 28 Nov 2026" in shown and "canary" not in shown
    assert found.keys == {"OPENROUTER_API_KEY": "sk-or-canary-1", "NANOCLAW_TELEGRAM_TOKEN": "12345:canary"}
    assert found.mark == read("nanobot", str(HOMES / "nanobot"), NOW).mark


def test_a_home_of_hermes_whose_last_words_are_in_its_wal(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (HOMES / "hermes").rglob("*") if path.is_file()}
    found = read("hermes", str(HOMES / "hermes"), NOW)
    assert {path: path.read_bytes() for path in (HOMES / "hermes").rglob("*") if path.is_file()} == before
    assert talks(found) == {  # once, what a compaction kept; nothing that was taken back; no summary; no job
        "telegram:20260301_100000_aa": [
            ("Where is the Krakatau ticket?", "", ["In the blue drawer."]),
            ("And the museum?", "web_extract", ["The museum opens at ten."]),
            ("Thanks for the tickets", "", ["You are welcome."]),
        ]
    }
    assert found.files["USER.md"] == "# User\n\n- Her name is Ada Quist"
    facts = "- The router is in the cellar\n  behind the shelf\n- Ilse lives in Bergen"
    assert found.facts == {"memories/MEMORY.md": facts}
    shown = told(found, tmp_path)
    assert "3 tasks: “water” (0 9 * * *), “stretch” (every 120 minutes, paused), “tax” (" in shown
    assert "the task “anna”: it was due" in shown
    assert found.keys.keys() == {"OPENROUTER_API_KEY", "NANOCLAW_TELEGRAM_TOKEN"}


def test_a_home_of_openclaw_as_it_is_documented(tmp_path: Path) -> None:
    home = tmp_path / "openclaw"
    for folder in ("agents/main/sessions", "cron", "my workspace/memory", "skills/tides"):
        (home / folder).mkdir(parents=True)
    (home / "openclaw.json").write_text(
        "{ // JSON5\n agents: { defaults: { workspace: '~/.openclaw/my workspace' } } }"
    )
    (home / "my workspace/IDENTITY.md").write_text("Pelle\n")
    (home / "my workspace/MEMORY.md").write_text("- Ilse lives in Bergen\n")
    (home / "my workspace/memory/2026-02-03.md").write_text("# 3 Feb\n\n- bought a kayak\n")
    (home / "skills/tides/SKILL.md").write_text("---\nname: tides\ndescription: tides\n---\nLook.\n")
    listed = {"agent:main:main": {"sessionId": "s1"}, "agent:main:cron:1": {"sessionId": "s2"}}
    (home / "agents/main/sessions/sessions.json").write_text(json.dumps(listed))
    for name in ("s1", "s2"):
        lines = [
            {"type": "session", "id": name, "timestamp": "2026-02-03T10:00:00.000Z"},
            {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "A kayak?"}]}},
            {"type": "message", "message": {"role": "toolResult", "toolName": "web", "content": []}},
            {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}},
        ]
        (home / f"agents/main/sessions/{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    at = {"kind": "at", "at": "2031-02-01T16:00:00Z"}
    jobs = [
        {"name": "brief", "schedule": {"kind": "cron", "expr": "0 7 * * *"}, "payload": {"message": "Sum up"}},
        {"name": "call", "enabled": True, "schedule": at, "payload": {"kind": "systemEvent", "text": "Call"}},
        {"name": "odd", "schedule": {"kind": "moon"}, "payload": {"message": "Howl"}},
    ]
    (home / "cron/jobs.json").write_text(json.dumps({"version": 1, "jobs": jobs}))
    found = read("openclaw", str(home), NOW)
    assert talks(found) == {"main:main": [("A kayak?", "web", ["Yes."])]}
    assert found.notes == {"2026-02-03": ("# 3 Feb", "", "- bought a kayak")}
    shown = told(found, tmp_path)
    assert "2 tasks: “brief” (0 7 * * *), “call” (1 Feb 2031, 16:00)" in shown
    assert "the task “odd”: its schedule 'moon' is not known here" in shown and "tides" in shown
    assert "which are not plain JSON" in shown


def test_the_folder_of_claude(tmp_path: Path) -> None:
    home = tmp_path / ".claude"
    (home / "commands/git").mkdir(parents=True)
    (home / "CLAUDE.md").write_text("Answer in German.\n@other.md\n")
    (home / "commands/git/ship.md").write_text('---\ndescription: "Ship it"\n---\nShip $ARGUMENTS now.\n')
    servers = {"files": {"command": "npx", "args": ["-y", "a b"], "env": {"FILES_KEY": "canary"}}}
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    found = read("claude", str(home), NOW)
    assert found.files == {"AGENTS.md": "Answer in German.\n@other.md"}
    text = '---\nname: git-ship\ndescription: "Ship it"\n---\n\nShip $ARGUMENTS now.\n'
    assert found.skills == {"git-ship": {"SKILL.md": text}}
    shown = told(found, tmp_path / "root")
    assert "`nanoclaw mcp add files --env FILES_KEY=$FILES_KEY -- npx -y 'a b'`" in shown and "canary" not in shown
    assert "@imports in CLAUDE.md are not followed" in shown


@pytest.mark.parametrize(
    ("source", "file", "content", "said"),
    [
        ("nanobot", "config.json", '{"agents": {', "config.json, line 1, is broken JSON: mend it first"),
        ("nanobot", "workspace/cron/jobs.json", '{"version": 9}', "is of version 9; only 1 is known"),
        ("nanobot", "workspace/cron/jobs.json", '{"jobs": [{"id"', "jobs.json, line 1, is broken JSON"),
        ("hermes", "state.db", "no database at all, but long enough to be looked at", "cannot be read: file is not"),
        ("hermes", "cron/jobs.json", "[", "is broken JSON"),
    ],
)
def test_half_a_home_is_refused_in_a_sentence(tmp_path: Path, source: str, file: str, content: str, said: str) -> None:
    home = shutil.copytree(HOMES / source, tmp_path / "home")
    for old in home.glob("state.db-*"):
        old.unlink()
    (home / file).write_text(content)
    with pytest.raises(ConfigError) as raised:
        read(source, str(home), NOW)
    assert said in str(raised.value) and str(raised.value).endswith("Nothing was imported.")


@pytest.mark.parametrize("source", ["nanobot", "hermes", "openclaw", "claude"])
def test_a_wrong_folder_is_refused_in_a_sentence(tmp_path: Path, source: str) -> None:
    for path, said in (
        (str(tmp_path), "is no home of"),
        (str(tmp_path / "none"), "is no folder"),
        ("", "is no folder"),
    ):
        with pytest.raises(ConfigError, match=said):
            read(source, path, NOW)
    with pytest.raises(ConfigError, match="cannot be imported"):
        read("siri", str(tmp_path), NOW)
