"""Tables of plugins: each plugin's have a version of their own, in the core's table `plugins`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Plugin
from nanoclaw.core.store.db import Store


def bring_up(store: Store, plugins: Iterable[type[Plugin]]) -> None:
    """Bring the own tables of plugins to their newest versions in one transaction, so that a first start waits for the
    disk once. Raises ConfigError, with all steps before the one that cannot be made done, and StoreError."""
    behind = [(one, version) for one in plugins if (version := _version(store.db, one)) != len(one.migrations)]
    failed: ConfigError | None = None
    if behind:
        with store.transaction() as db:
            try:
                for one, version in behind:
                    _bring_up(db, one, version)
            except ConfigError as error:
                failed = error
    if failed:
        raise failed


def _bring_up(db: sqlite3.Connection, one: type[Plugin], version: int) -> None:
    if version > len(one.migrations):
        raise ConfigError(f"the tables of the plugin {one.name} come from a newer version of it: install that again.")
    for number, sql in enumerate(one.migrations[version:], version + 1):
        db.execute("SAVEPOINT step")
        try:
            for statement in _statements(sql):
                db.execute(statement)
            note(db, one.name, number)
        except sqlite3.Error as error:
            if not db.in_transaction:  # a full disk has rolled all of it back
                raise
            db.execute("ROLLBACK TO step")
            raise ConfigError(
                f"step {number} of the tables of the plugin {one.name} cannot be made: {error}. "
                f"nanoclaw --without {one.name} starts without it."
            ) from error
        db.execute("RELEASE step")


def make(db: sqlite3.Connection, plugins: Iterable[type[Plugin]]) -> dict[str, int]:
    """Make the tables that a store lacks, and return the version of each plugin's; one that can't be made is left to
    the next start."""
    made = {}
    for one in plugins:
        with suppress(sqlite3.Error):
            for sql in one.migrations[_version(db, one) :]:
                db.executescript(sql)
            made[one.name] = len(one.migrations)
    return made


def _version(db: sqlite3.Connection, one: type[Plugin]) -> int:
    return int(next(iter(db.execute("SELECT version FROM plugins WHERE name = ?", (one.name,)).fetchone() or (0,))))


def note(db: sqlite3.Connection, name: str, version: int) -> None:
    sql = "INSERT INTO plugins (name, version) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = ?2"
    db.execute(sql, (name, version))


def _statements(sql: str) -> list[str]:
    """The statements of a migration: `executescript` would end the transaction."""
    found, begun = list[str](), ""
    for part in sql.split(";"):
        begun += f"{part};"
        if sqlite3.complete_statement(begun):
            if begun.strip(" \n;"):
                found.append(begun)
            begun = ""
    return found
