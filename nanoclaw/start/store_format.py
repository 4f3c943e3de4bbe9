"""The format of state.db: its number, and the migrations that bring an older one up to it; and that of plugins."""

from __future__ import annotations

import sqlite3
from pathlib import Path

MIGRATIONS = Path(__file__).parents[1] / "core/store/migrations"
"""NNN.sql brings the core's tables from format NNN - 1 to format NNN. What a released one makes never changes."""

_MAGIC = b"SQLite format 3\0"


def newest_format() -> int:
    """The format that this program writes."""
    return max(int(path.stem) for path in MIGRATIONS.glob("*.sql"))


def format_of(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def format_in_header(path: Path) -> int:
    """The format by the first bytes of a file that SQLite may refuse; 0 if they don't tell."""
    return int.from_bytes(header[60:64], "big") if (header := _header(path)) else 0


def can_be_written(path: Path) -> bool:
    """True for a file that this SQLite can write; one of a far later version it would only read."""
    return max(_header(path)[18:20], default=3) < 3


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        header = file.read(100)
    return header if len(header) == 100 and header.startswith(_MAGIC) else b""


def bring_up(db: sqlite3.Connection) -> None:
    """Run the migrations that a database lacks, all of them or none. Raises sqlite3.Error."""
    newest = newest_format()
    steps = [(MIGRATIONS / f"{number:03}.sql").read_text("utf-8") for number in range(format_of(db) + 1, newest + 1)]
    if not steps:
        return
    try:
        db.executescript(f"BEGIN;\n{''.join(steps)}\nPRAGMA user_version = {newest};\nCOMMIT;")
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def version_of(db: sqlite3.Connection, plugin: str) -> int:
    """The version of a plugin's own tables."""
    return int(next(iter(db.execute("SELECT version FROM plugins WHERE name = ?", (plugin,)).fetchone() or (0,))))


def note_version(db: sqlite3.Connection, plugin: str, version: int) -> None:
    sql = "INSERT INTO plugins (name, version) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = ?2"
    db.execute(sql, (plugin, version))
