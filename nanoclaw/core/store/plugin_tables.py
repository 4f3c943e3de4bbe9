"""Tables of plugins: each has a version of its own, in the table `plugins` of the core."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from nanoclaw.core.errors import ConfigError, StoreError
from nanoclaw.core.plugin import Plugin
from nanoclaw.core.store.db import Store


def bring_up(store: Store, one: type[Plugin]) -> None:
    """Bring a plugin's own tables to its newest version, each step in a transaction. Raises ConfigError."""
    if not one.migrations:
        return
    if store.was_damaged:
        _make_whole(store, one)
    found = store.rows("SELECT version FROM plugins WHERE name = ?", one.name)
    version = int(found[0][0]) if found else 0
    if version > len(one.migrations):
        raise ConfigError(f"the tables of the plugin {one.name} are of a newer version of it: install that again.")
    for number, sql in enumerate(one.migrations[version:], version + 1):
        try:
            with store.transaction() as db:
                for statement in _statements(sql):
                    db.execute(statement)
                _note(db, one, number)
        except StoreError as error:
            raise ConfigError(
                f"step {number} of the tables of the plugin {one.name} cannot be made: {error.__cause__ or error}. "
                f"nanoclaw --without {one.name} starts without it."
            ) from error


def _make_whole(store: Store, one: type[Plugin]) -> None:
    """Make anew, empty, what damage took of a plugin's tables, or the note of their version; a warning names them."""
    with store.transaction() as db, closing(sqlite3.connect(":memory:")) as model:
        version = next(
            iter(db.execute("SELECT version FROM plugins WHERE name = ?", (one.name,)).fetchone() or ()), None
        )
        for sql in one.migrations[:version]:
            model.executescript(sql)
        made, there = _schema(model), _schema(db)
        kept = [name for name in made if name in there]
        if version is None and not (kept and all(_columns(db, name) == _columns(model, name) for name in kept)):
            return  # none of it, or of a time when nobody noted a version
        lost = [name for name in made if name not in there]
        for name in lost:
            db.execute(made[name])
        _note(db, one, version or len(one.migrations))
    if tables := [name for name in lost if made[name].startswith("CREATE TABLE")]:
        from nanoclaw.core.log import logger

        logger.warning("missing, too, of what {} kept: all {}.", one.name, ", ".join(tables))


def _schema(db: sqlite3.Connection) -> dict[str, str]:
    """The SQL of tables and indexes, tables first."""
    return dict(db.execute("SELECT name, sql FROM sqlite_schema WHERE sql <> '' ORDER BY type DESC").fetchall())


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f'PRAGMA table_info("{table}")')}


def _note(db: sqlite3.Connection, one: type[Plugin], version: int) -> None:
    sql = "INSERT INTO plugins (name, version) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = ?2"
    db.execute(sql, (one.name, version))


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
