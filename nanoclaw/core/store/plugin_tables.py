"""Versions of the plugins' own tables, each its own, in the core's table `plugins`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress

from nanoclaw.core.plugin import Plugin


def make(db: sqlite3.Connection, plugins: Iterable[type[Plugin]]) -> dict[str, int]:
    """Make the tables that a store lacks, and return the version of each plugin's; one that can't be made is left to
    the next start."""
    made = {}
    for one in plugins:
        with suppress(sqlite3.Error):
            for sql in one.migrations[version_of(db, one) :]:
                db.executescript(sql)
            made[one.name] = len(one.migrations)
    return made


def version_of(db: sqlite3.Connection, one: type[Plugin]) -> int:
    return int(next(iter(db.execute("SELECT version FROM plugins WHERE name = ?", (one.name,)).fetchone() or (0,))))


def note(db: sqlite3.Connection, name: str, version: int) -> None:
    sql = "INSERT INTO plugins (name, version) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = ?2"
    db.execute(sql, (name, version))
