"""The home of OpenClaw (~/.openclaw, ~/.clawdbot): its workspace, and the JSON files that its documentation names."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.importer.found import FILES, ForeignFolder, ForeignHome, Table, Turns, table_of

CONFIGS = ("openclaw.json", "clawdbot.json", "moltbot.json")


def read(path: Path, now: datetime) -> ForeignHome:
    """Raises ConfigError."""
    home = ForeignFolder(path, now)
    home.need("OpenClaw", *CONFIGS, "workspace", "agents")
    config = _config(home)
    given = table_of(config, "agents", "defaults").get("workspace") or table_of(config, "agent").get("workspace")
    place = path / Path(re.sub(r"^~/\.\w+", str(path), str(given or "workspace"))).expanduser()
    workspace = ForeignFolder(place if place.is_dir() else path / "workspace", now)
    env, channels = table_of(config, "env"), table_of(config, "channels")
    facts = workspace.texts("MEMORY.md") or workspace.texts("memory.md")
    found = ForeignHome("openclaw", path, workspace.texts(*FILES), facts, workspace.daily_notes(), _talks(home))
    found = found._replace(
        jobs=tuple(home.jobs("cron/jobs.json")),
        skills={**home.skills("skills"), **workspace.skills("skills")},
        servers=table_of(config, "mcp", "servers"),
        keys=home.keys(
            {**env, **table_of(env, "vars"), "TELEGRAM_BOT_TOKEN": table_of(channels, "telegram").get("botToken")}
        ),
    )
    lost = [*home.lost, *workspace.lost, "settings, with the choice of the model"]
    return found._replace(lost=(*lost, *(f"who is let in on {name}: people link anew" for name in channels)))


def _config(home: ForeignFolder) -> Table:
    """It may have comments and bare names (JSON5); then only the place of the workspace is read."""
    try:
        return home.json(*CONFIGS)
    except ConfigError:
        if not (place := re.search(r"""\bworkspace["']?\s*:\s*["']([^"']+)["']""", home.text(*CONFIGS))):
            raise
        home.lost.append("keys and MCP servers of its settings, which are not plain JSON")
        return {"agent": {"workspace": place[1]}}


def _talks(home: ForeignFolder) -> dict[str, Turns]:
    found = dict[str, Turns]()
    for path in sorted([*home.path.glob("agents/*/sessions/*.jsonl"), *home.path.glob("sessions/*.jsonl")]):
        listed = home.json(str(path.with_name("sessions.json").relative_to(home.path)))
        names = {table_of(one).get("sessionId"): name.removeprefix("agent:") for name, one in listed.items()}
        id_, topic, number = path.stem.partition("-topic-")
        chat, lines = f"{names.get(id_) or id_}{topic}{number}", home.lines(path)
        if ":cron:" not in chat and ":subagent:" not in chat:
            of_talk = (one for one in lines if one.get("type") == "message")
            said = [{"timestamp": one.get("timestamp"), **table_of(one, "message")} for one in of_talk]
            found |= home.talk(chat, said, lines[0].get("timestamp") if lines else None)
    return found
