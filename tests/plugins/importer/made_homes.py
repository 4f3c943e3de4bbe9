"""Homes of other assistants."""

import base64
import json
from pathlib import Path


def nanobot_home(root: Path) -> Path:
    """A small one with everything in it."""
    home, workspace = root / "nanobot home", root / "nanobot home" / "workspace"
    for folder in ("memory", "sessions", "skills/tides", "cron"):
        (workspace / folder).mkdir(parents=True)
    config = {
        "agents": {"defaults": {"model": "openrouter/some"}},
        "providers": {"openrouter": {"apiKey": "sk-or-canary-1"}},
        "channels": {"telegram": {"enabled": True, "token": "12345:canary"}},
        "tools": {"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"]}}},
    }
    (home / "config.json").write_text(json.dumps(config))
    (workspace / "SOUL.md").write_text("# Soul\n\nYou are called Pelle.\n")
    (workspace / "USER.md").write_text("# User\n\nHer name is Ada Quist.\n")
    (workspace / "memory/MEMORY.md").write_text("# Memory\n\n## Family\n\n- Her sister Ilse lives in Trondheim\n")
    (workspace / "memory/HISTORY.md").write_text("[2026-01-02 18:30] USER asked about the ferry to Bastøy.\n")
    (workspace / "skills/tides/SKILL.md").write_text("---\nname: tides\ndescription: tide tables\n---\nLook them up.\n")
    lines = [
        {"_type": "metadata", "key": "telegram:555", "created_at": "2026-01-02T18:00:00"},
        {"role": "user", "content": "When does the ferry leave?", "timestamp": "2026-01-02T18:20:00"},
        {"role": "tool", "name": "web_fetch", "content": "a page", "timestamp": "2026-01-02T18:20:05"},
        {"role": "assistant", "content": "The Bastøy ferry leaves at 07:45.", "timestamp": "2026-01-02T18:20:09"},
    ]
    name = base64.urlsafe_b64encode(b"telegram:555").decode().rstrip("=")
    (workspace / f"sessions/{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines) + '{"role": "us')
    jobs = [
        job("water", {"kind": "cron", "expr": "0 9 * * *", "tz": "Asia/Tokyo"}, "Say: water the plants"),
        job("stretch", {"kind": "every", "everyMs": 5_400_000}, "Say: stretch"),
        job("anna", {"kind": "at", "atMs": 1767378600000}, "Call Anna"),  # in January
        job("tax", {"kind": "at", "atMs": 1782108000000}, "Do the taxes"),  # in June
    ]
    (workspace / "cron/jobs.json").write_text(json.dumps({"version": 1, "jobs": jobs}))
    return home


def job(name: str, schedule: dict[str, object], message: str) -> dict[str, object]:
    payload = {"kind": "agent_turn", "message": message, "deliver": True, "channel": "telegram", "to": "555"}
    return {"id": name, "name": name, "enabled": name != "stretch", "schedule": schedule, "payload": payload}
