"""The home of nanobot (~/.nanobot)."""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from nanoclaw.plugins.importer.found import FILES, IS_DAY, ForeignFolder, ForeignHome, Turns, table_of

_TEMPLATES = frozenset({"0351091f89de5e71", "4a69b5be617ad5a1", "b5d3a9f71da9ae2f", "df90ed8f05689512"})
"""Hashes of files as version 0.3.5 makes them, in which nobody has written."""


def read(path: Path, now: datetime) -> ForeignHome:
    """Raises ConfigError."""
    home = ForeignFolder(path, now)
    home.need("nanobot", "config.json", "workspace")
    config = home.json("config.json")
    defaults, channels = table_of(config, "agents", "defaults"), table_of(config, "channels")
    place = path / Path(str(defaults.get("workspace") or "workspace").replace("~/.nanobot", str(path))).expanduser()
    workspace = ForeignFolder(place if place.is_dir() else path / "workspace", now)
    providers, files = table_of(config, "providers"), workspace.texts(*FILES)
    keys = {f"{name.upper()}_API_KEY": table_of(one).get("apiKey") for name, one in providers.items()}
    files = {n: one for n, one in files.items() if hashlib.sha256(one.encode()).hexdigest()[:16] not in _TEMPLATES}
    found = ForeignHome("nanobot", path, files, workspace.texts("memory/MEMORY.md"), _history(workspace))
    found = found._replace(
        talks=_talks(home) | _talks(workspace),
        jobs=tuple(job for folder in (home, workspace) for job in folder.jobs("cron/jobs.json")),
        skills=workspace.skills("skills"),
        servers=table_of(config, "tools", "mcpServers"),
        keys=home.keys({**keys, "TELEGRAM_BOT_TOKEN": table_of(channels, "telegram").get("token")}),
    )
    lost = [*home.lost, *workspace.lost]
    lost += [f"the model {defaults['model']}: nanoclaw init --model"] if defaults.get("model") else []
    let_in = (name for name, one in channels.items() if table_of(one).get("enabled"))
    lost += [f"who is let in on {name}: people link anew" for name in let_in]
    return found._replace(lost=tuple(lost))


def _talks(folder: ForeignFolder) -> dict[str, Turns]:
    found = dict[str, Turns]()
    for path in sorted((folder.path / "sessions").rglob("*.jsonl")):
        lines = folder.lines(path)
        meta = next((one for one in lines if one.get("_type") == "metadata"), {})
        chat = str(meta.get("key") or _chat_of(path.stem))
        found |= {} if chat.startswith(("cron:", "heartbeat")) else folder.talk(chat, lines, meta.get("created_at"))
    return found


def _chat_of(stem: str) -> str:
    """The name of a conversation by that of its file: base64url, or with an underscore in place of the colon."""
    with suppress(ValueError):
        chat = base64.urlsafe_b64decode(stem + "=" * (-len(stem) % 4)).decode()
        if ":" in chat and chat.isprintable():
            return chat
    return stem.replace("_", ":", 1)


def _history(workspace: ForeignFolder) -> dict[str, tuple[str, ...]]:
    """Summaries of what was said, by day."""
    told = [
        (str(one.get("timestamp")), str(one.get("content") or ""))
        for one in workspace.lines(workspace.path / "memory/history.jsonl")
    ]
    for part in re.split(r"\n(?=\[\d{4}-\d\d-\d\d)", workspace.text("memory/HISTORY.md")):
        if match := re.match(r"\[([^\]]*)\]\s*", part):
            told.append((match[1], part[match.end() :]))
    found = dict[str, tuple[str, ...]]()
    for at, text in sorted(told):
        if IS_DAY.match(at) and text.strip():
            found[at[:10]] = (*found.get(at[:10], ()), " ".join(["-", *at[11:16].split(), *text.split()]))
    return found
