"""The home of Hermes (~/.hermes). Its state.db is opened to read alone, with what its WAL has."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.importer.found import (
    FILES,
    NOTHING,
    ForeignFolder,
    ForeignHome,
    ForeignJob,
    Turns,
    clean,
    objects,
    table_of,
)

_JSON = "\0json:"
_IS_SAID = {
    "compacted": "(active = 1 OR compacted = 1)",  # neither: taken back
    "display_kind": "display_kind IS NULL",
    "_compressed_summary": "NOT _compressed_summary",
}
_SUMMARY = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY")


def read(path: Path, now: datetime) -> ForeignHome:
    """Raises ConfigError."""
    home = ForeignFolder(path, now)
    home.need("Hermes", "state.db", "config.yaml", "memories", "SOUL.md")
    user, facts = (_entries(home.text(f"memories/{name}")) for name in ("USER.md", "MEMORY.md"))
    files = {**home.texts(*FILES), **({"USER.md": f"# User\n\n{user}"} if user else {})}
    found = ForeignHome("hermes", path, files, {"memories/MEMORY.md": facts} if facts else {})
    shipped = {line.partition(":")[0] for line in home.text("skills/.bundled_manifest").splitlines()}
    skills = {name: one for name, one in home.skills("skills", "skills/*").items() if name not in shipped}
    variables = (line.removeprefix("export ").partition("=") for line in home.text(".env").splitlines())
    keys = home.keys({name.strip(): key.strip().strip("\"'") for name, _, key in variables})
    found = found._replace(talks=_talks(home), jobs=tuple(_jobs(home)), skills=skills, keys=keys)
    lost = ("settings, with the choice of the model", "who is let in: people link anew")
    return found._replace(lost=(*home.lost, *lost))


def _entries(text: str) -> str:
    """Entries between section signs, as a list."""
    return "\n".join("- " + "\n  ".join(one.strip().splitlines()) for one in text.split("\n§\n") if one.strip(" \n§"))


def _jobs(home: ForeignFolder) -> Iterator[ForeignJob]:
    for one in objects(home.json("cron/jobs.json").get("jobs")):
        schedule, text = table_of(one, "schedule"), clean(one.get("prompt") or "")
        job = ForeignJob(clean(one.get("name") or text[:40]), text, is_on=bool(one.get("enabled", True)))
        if one.get("script") or one.get("no_agent") or not text:
            yield job._replace(lacks="it runs a script")
        elif schedule.get("kind") != "once" or not table_of(one, "repeat").get("completed"):
            yield home.timed(job, schedule)


def _talks(home: ForeignFolder) -> dict[str, Turns]:
    """All sessions but those of its jobs; of each what was said: nothing that was taken back, no summary."""
    place = home.path / "state.db"
    try:
        try:
            return _read(home, place) if place.is_file() else {}
        except sqlite3.OperationalError:  # its WAL has no index beside it, and none is made there
            with tempfile.TemporaryDirectory() as folder:
                for path in home.path.glob("state.db*"):
                    shutil.copy(path, folder)
                return _read(home, Path(folder, "state.db"))
    except (sqlite3.Error, ValueError) as error:
        raise ConfigError(f"{place} cannot be read: {error}. {NOTHING}") from None


def _read(home: ForeignFolder, place: Path) -> dict[str, Turns]:
    found = dict[str, Turns]()
    with closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as db:
        has = {row[1] for row in db.execute("PRAGMA table_info(messages)")}
        if not {"session_id", "role", "content", "timestamp", "tool_name"} <= has:
            raise ConfigError(f"{place} has no messages as they are known here: another version? {NOTHING}")
        sql = "SELECT role, content, timestamp, tool_name FROM main.messages WHERE session_id = ?"
        sql += "".join(f" AND {is_said}" for column, is_said in _IS_SAID.items() if column in has)
        sessions = "SELECT id, source, started_at FROM main.sessions WHERE source <> 'cron' ORDER BY started_at"
        for row, source, begun in db.execute(sessions).fetchall():
            said = dict.fromkeys(db.execute(f"{sql} ORDER BY id", (row,)))  # what a compaction keeps stands there twice
            messages = [{"role": r, "content": _content(c), "timestamp": at, "name": n} for r, c, at, n in said]
            found |= home.talk(f"{source}:{row}", messages, begun)
    return found


def _content(stored: Any) -> Any:
    if not isinstance(stored, str) or stored.startswith(_SUMMARY):
        return ""
    return json.loads(stored.removeprefix(_JSON)) if stored.startswith(_JSON) else stored
